"""Every exception fitter raises on purpose, and the exit codes.

    FitterError                       exit 1  the run failed or is unfinished
    ├── UserError                     exit 2  the user can mend it: settings, files, names
    │   ├── BadInput                          an input file; names file, line and row where known
    │   └── SettingsError                     missing, contradictory or impossible settings
    ├── RunError                      exit 1  a run cannot go on
    │   ├── Tampered                          an artefact differs from its recorded hash
    │   └── PublishError                      the platform refused, or read-back differed
    └── Stopped                       exit 4  resumable stop
        ├── BudgetReached                     the budget's next call does not fit
        ├── Outage                            the model or platform is unavailable
        └── Interrupted           exit 130  Ctrl-C

An unusable model reply is data (a reason code on a pass), never an exception.
"""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USER: Final = 2
EXIT_NO_EVALUATOR: Final = 3
EXIT_STOPPED: Final = 4
EXIT_INTERRUPTED: Final = 130


class FitterError(Exception):
    """Base of all deliberate errors.

    Args:
        message: what happened and where, one or two sentences, free of secrets.
        hint: what the user can do next; printed on its own line.
    """

    exit_code: int = EXIT_FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  → {self.hint}"


class UserError(FitterError):
    """A mistake the user can mend (exit 2)."""

    exit_code = EXIT_USER


class BadInput(UserError):
    """An input file that cannot be read as asked.

    Args:
        message: what is wrong.
        file: path as the user gave it.
        line: 1-based line in the file.
        row: row id.
        hint: what to do next.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        row: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = ""
        if file is not None:
            where = file if line is None else f"{file}, line {line}"
        if row is not None:
            where = f"{where}, row {row}" if where else f"row {row}"
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.file = file
        self.line = line
        self.row = row


class SettingsError(UserError):
    """Missing, contradictory or impossible settings of a fit."""


class RunError(FitterError):
    """A run that cannot go on (exit 1)."""


class Tampered(RunError):
    """An artefact on disk differs from what the run recorded or would write."""


class PublishError(RunError):
    """The platform refused the write, or what was read back differs from what was sent."""


class Stopped(FitterError):
    """A resumable stop: everything paid for is kept (exit 4)."""

    exit_code = EXIT_STOPPED


class BudgetReached(Stopped):
    """The next call's worst case does not fit the budget."""


class Outage(Stopped):
    """The model or the platform is unavailable; rows left short are never scored."""


class Interrupted(Stopped):
    """Somebody pressed Ctrl-C during a run (exit 130)."""

    exit_code = EXIT_INTERRUPTED
