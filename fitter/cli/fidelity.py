"""``fitter fidelity NAME``: an enabled evaluator's verdicts beside the labels and the fitted score."""

from __future__ import annotations

from typing import Annotated

import typer

from fitter.cli import options
from fitter.cli.common import backend_of, out, progress, workspace_of


def command(
    ctx: typer.Context,
    name: options.Name,
    at: options.At = None,
    run: Annotated[str | None, typer.Option(help="Take labels and score from this run.")] = None,
    backend: options.BackendAgain = None,
    since: Annotated[
        str | None, typer.Option(help="How far back verdicts are looked for (default: as in the fit).")
    ] = None,
) -> None:
    """Compare what an evaluator says, once its owner has enabled it, with the humans and with its fit."""
    from fitter import fitting
    from fitter.cli.naming import check_name, check_run
    from fitter.deployed import observe
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_name(workspace, name, "fidelity")
    if run is not None:
        check_run(workspace, run)
    with progress() as reporter:
        found = observe(
            fitting.Fitting(workspace.root, progress=reporter),
            name,
            at=at,
            run=run,
            backend=backend_of(backend),
            since=since,
        )
    for line in found.lines():
        out(line)
