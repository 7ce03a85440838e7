"""``fitter show RUN``: the report of a run, from its tracked half alone."""

from __future__ import annotations

import typer

from fitter.cli import options
from fitter.cli.common import out, workspace_of
from fitter.errors import EXIT_FAILED


def command(ctx: typer.Context, run: options.Run) -> None:
    """Show a run's report and what of it can be verified here."""
    from fitter.cli.naming import check_run
    from fitter.overview import show_run
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_run(workspace, run)
    text, changed = show_run(workspace, run)
    out(text)
    if changed:
        raise typer.Exit(EXIT_FAILED)
