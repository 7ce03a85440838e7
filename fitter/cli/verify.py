"""``fitter verify NAME``: an evaluator read back again, beside its receipt."""

from __future__ import annotations

from typing import Annotated

import typer

from fitter.cli import options
from fitter.cli.common import backend_of, out, workspace_of


def command(
    ctx: typer.Context,
    name: options.Name,
    at: options.At = None,
    run: Annotated[str | None, typer.Option(help="Compare with what this run published.")] = None,
    backend: options.BackendAgain = None,
) -> None:
    """Read a published evaluator back and compare it with its receipt; exit 1 on any difference. Writes nothing."""
    from fitter.cli.naming import check_name, check_run
    from fitter.errors import EXIT_FAILED
    from fitter.published import verify_published
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_name(workspace, name, "verify")
    if run is not None:
        check_run(workspace, run)
    found = verify_published(workspace, name, at=at, run=run, backend=backend_of(backend))
    for line in found.lines():
        out(line)
    if not found.intact:
        raise typer.Exit(EXIT_FAILED)
