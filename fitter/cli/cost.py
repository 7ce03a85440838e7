"""``fitter cost RUN``: calls, tokens and money of a run, judge and advisors apart."""

from __future__ import annotations

import typer

from fitter.cli import options
from fitter.cli.common import out, workspace_of


def command(ctx: typer.Context, run: options.Run) -> None:
    """Show what a run has used and cost so far; what is unknown is counted, never taken as nothing."""
    from fitter.cli.naming import check_run
    from fitter.overview import cost_lines
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_run(workspace, run)
    for line in cost_lines(workspace, run):
        out(line)
