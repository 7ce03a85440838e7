"""What commands share: output that is safe to show, and progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from fitter.textsafe import visible

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from fitter.loop.deps import Progress


def out(text: str = "") -> None:
    """Prints a line of results on standard output."""
    typer.echo(visible(text))


def workspace_of(ctx: typer.Context) -> Path:
    """The folder given with ``--workspace``.

    Raises:
        UserError: it is a file, or lies below one.
    """
    from fitter.workspace import check_root

    folder: Path = ctx.obj
    check_root(folder)
    return folder


def backend_of(given: str | None) -> Literal["rest", "mcp"] | None:
    """The flag ``--backend``.

    Raises:
        SettingsError: neither rest nor mcp.
    """
    from fitter.errors import SettingsError

    if given is None:
        return None
    if given == "rest":
        return "rest"
    if given == "mcp":
        return "mcp"
    raise SettingsError(f"no backend {given!r}", hint="use rest or mcp")


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress reporter on standard error: a bar on a terminal, one line a phase elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.stop()


class _Lines:
    def phase(self, text: str) -> None:
        typer.echo(visible(text), err=True)

    def passes(self, done: int, total: int, failures: int) -> None:
        if done == total and total:
            note = f", {failures} unusable" if failures else ""
            typer.echo(f"  {done} of {total} passes{note}", err=True)


class _Bar:
    """A bar while passes are made; nothing is live in between, so that a question can be asked."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._live: RichProgress | None = None
        self._title = ""

    def phase(self, text: str) -> None:
        self.stop()
        self._title = visible(text)
        self._console.print(self._title, markup=False, highlight=False)

    def passes(self, done: int, total: int, failures: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBar

        if self._live is None:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._live = RichBar(*columns, console=self._console, transient=True)
            self._live.add_task("passes", total=total)
            self._live.start()
        self._live.update(self._live.task_ids[0], completed=done, total=total)
        if done == total:
            self.stop()
            if failures:
                self._console.print(f"  {failures} of {total} passes are unusable", markup=False, highlight=False)

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
