"""What commands share: output that is safe to show, and progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fitter.textsafe import visible

if TYPE_CHECKING:
    from fitter.loop.deps import Progress


def out(text: str = "") -> None:
    """Prints a line of results on standard output."""
    typer.echo(visible(text))


def workspace_of(ctx: typer.Context) -> Path:
    """The folder given with ``--workspace``."""
    folder: Path = ctx.obj
    return folder


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress reporter on standard error: a bar on a terminal, one line a phase elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


class _Lines:
    def phase(self, text: str) -> None:
        typer.echo(visible(text), err=True)

    def passes(self, done: int, total: int, failures: int) -> None:
        if done == total and total:
            note = f", {failures} unusable" if failures else ""
            typer.echo(f"  {done} of {total} passes{note}", err=True)


class _Bar:
    def __init__(self, bar: object) -> None:
        from rich.progress import Progress as Bar

        assert isinstance(bar, Bar)  # noqa: S101  (narrowing for the type checker; the caller is five lines above)
        self._bar = bar
        self._task = bar.add_task("fitting", total=None)

    def phase(self, text: str) -> None:
        self._bar.console.print(visible(text), markup=False, highlight=False)
        self._bar.reset(self._task, description=visible(text)[:60], total=None)

    def passes(self, done: int, total: int, failures: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
