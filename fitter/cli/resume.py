"""``fitter resume RUN``: goes on where a stopped, interrupted or killed run was."""

from __future__ import annotations

from typing import Annotated

import typer

from fitter.cli.common import progress, workspace_of


def command(ctx: typer.Context, run: Annotated[str, typer.Argument(help="Run id, as `fitter runs` lists it.")]) -> None:
    """Resume a run: same decisions byte for byte, nothing paid for twice."""
    from fitter import fitting
    from fitter.cli.fit import finish

    with progress() as reporter:
        outcome = fitting.resume(workspace_of(ctx), run, progress=reporter)
    finish(outcome)
