"""``fitter compare RUN_A RUN_B``: two runs on the same rows."""

from __future__ import annotations

from typing import Annotated

import typer

from fitter.cli import options
from fitter.cli.common import out, workspace_of


def command(
    ctx: typer.Context,
    run_a: Annotated[str, typer.Argument(help="Run id.")],
    run_b: Annotated[str, typer.Argument(help="Run id of the same snapshot, label, metric and framing.")],
    json_: options.Json = False,
) -> None:
    """Compare two runs' winners by row and by pass; regressions are shown even when the total improved."""
    from fitter.cli.naming import check_run
    from fitter.evaluation.compare import compare_runs, show
    from fitter.jsonio import pretty
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    for run in (run_a, run_b):
        check_run(workspace, run)
    found = compare_runs(workspace, run_a, run_b)
    out(pretty(found).rstrip() if json_ else "\n".join(show(found)))
