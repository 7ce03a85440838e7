"""``fitter replay RUN``: a run's figures again, from its retained passes."""

from __future__ import annotations

import typer

from fitter.cli import options
from fitter.cli.common import out, workspace_of


def command(ctx: typer.Context, run: options.Run) -> None:
    """Recompute every score, decision and report figure without a model call; exit 1 on any difference."""
    from fitter.cli.naming import check_run
    from fitter.errors import EXIT_FAILED
    from fitter.evaluation.replay import replay, show
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_run(workspace, run)
    found = replay(workspace, run)
    out("\n".join(show(run, found)))
    if not found.intact:
        raise typer.Exit(EXIT_FAILED)
