"""``fitter publish RUN --to PLATFORM``: a measured run's winner, published again or elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from fitter.cli import options
from fitter.cli.common import backend_of, out, progress, workspace_of


def command(
    ctx: typer.Context,
    run: options.Run,
    to: Annotated[str, typer.Option("--to", help="The platform: local or datadog.")],
    backend: options.BackendAgain = None,
) -> None:
    """Publish a run's winner, disabled, and prove that it is there; finishes a run whose write was refused."""
    from fitter import fitting
    from fitter.cli.naming import check_run
    from fitter.published import publish_run
    from fitter.publishing.verify import closing_lines
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_run(workspace, run)
    with progress() as reporter:
        receipt = publish_run(
            fitting.Fitting(workspace.root, progress=reporter), run, to=to, backend=backend_of(backend)
        )
    out(f"read back and listed: {receipt.compared} fields compared, 0 differ")
    for line in closing_lines(receipt):
        out(line)
