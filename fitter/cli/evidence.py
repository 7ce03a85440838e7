"""``fitter evidence ROW``: a row as the judge will see it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitter.cli.common import out, workspace_of


def command(
    ctx: typer.Context,
    row: Annotated[str, typer.Argument(help="Row id of a train row.")],
    run: Annotated[
        str | None, typer.Option("--run", help="Take row, map and prompt from this run (default: the newest).")
    ] = None,
    map_file: Annotated[
        Path | None, typer.Option("--map", help="Show the row under this evidence map instead.")
    ] = None,
) -> None:
    """Show one train row exactly as the judge sees it, field by field."""
    from fitter.cli.naming import check_row
    from fitter.overview import show_evidence
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_row(workspace, row, run)
    out(show_evidence(workspace, row, run_id=run, map_file=map_file))
