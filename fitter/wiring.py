"""What the composition root is made with: models by settings, errors of the disk made readable, no tracing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from fitter.errors import FitterError, RunError
from fitter.labels import LabelSchema
from fitter.loop.deps import Team
from fitter.settings import FitSettings
from fitter.textsafe import one_line
from fitter.workspace import Workspace


@contextlib.contextmanager
def readable(what: str, *, hint: str = "make room, or the workspace writable") -> Iterator[None]:
    """Failures of the disk, and of the checkpoint on it, become one clear error instead of a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as fault:
        at = "" if fault.filename is None else f" ({one_line(str(fault.filename))})"
        raise RunError(f"{what}: {fault.strerror or type(fault).__name__}{at}", hint=hint) from None
    except sqlite3.Error as fault:
        raise RunError(f"{what}: its checkpoint failed ({one_line(str(fault))})", hint=hint) from None


def add_hint(fault: FitterError, more: str) -> None:
    """Says one thing more that can be done."""
    fault.hint = more if fault.hint is None else f"{fault.hint}; {more}"


def lone(content: Mapping[str, Any] | None) -> bool:
    """True for content of one span, or gone."""
    return content is None or sum(len(t["spans"]) for t in content["traces"]) == 1


def check_label(settings: FitSettings, label: LabelSchema) -> None:
    """Refuses a label kind that the chosen models cannot serve.

    Raises:
        SettingsError: e.g. numeric labels with lexicon.
    """
    if "lexicon" in (settings.judge, settings.proposer):
        from fitter.lexicon.judge import check_label as check

        check(label)


def open_team(settings: FitSettings, workspace: Workspace, run_id: str) -> Team:
    """Judge, drafter, describer, proposer and label checker of a fit; makes no call.

    Raises:
        SettingsError: a spec that cannot be served.
    """
    from fitter.teams import open_team as opened

    return opened(settings, workspace.journal, run_id)


def adopt(team: Team, record: Mapping[str, Any]) -> None:
    """Gives a team the instruments that an earlier process settled."""
    from fitter.teams import adopt_instruments

    adopt_instruments(team, record)


def no_tracing() -> None:
    """Switches libraries' tracing off whatever the environment says (SC-3), before they are imported."""
    for name in [n for n in os.environ if n.startswith(("LANGSMITH_", "LANGCHAIN_"))]:
        del os.environ[name]
    os.environ["LANGSMITH_TRACING"] = "false"
    os.environ["LANGCHAIN_TRACING_V2"] = "false"
