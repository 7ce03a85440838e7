"""``fitter runs``: what has been fitted here."""

from __future__ import annotations

from pathlib import Path

import typer

from fitter.cli.common import out, workspace_of


def command(ctx: typer.Context) -> None:
    """List the runs of this workspace with their state and headline."""
    list_in(workspace_of(ctx))


def list_in(folder: Path) -> None:
    """Prints one line a run of the workspace in a folder."""
    from fitter.overview import list_runs
    from fitter.workspace import Workspace, check_root

    check_root(folder)
    rows = list_runs(Workspace(folder))
    if not rows:
        out("no runs here yet; `fitter fit practice --help` shows how to make one")
        return
    heads = ("run", "state", "metric", "holdout", "train", "evaluator")
    shown = ("run", "state", "metric", "deployable on the holdout", "on train", "evaluator")
    table = [shown, *(tuple(row[h] for h in heads) for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(heads))]
    for line in table:
        out("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
