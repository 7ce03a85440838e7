"""``fitter resume RUN``: goes on where a stopped, interrupted or killed run was."""

from __future__ import annotations

from typing import Annotated

import typer

from fitter.cli import options
from fitter.cli.common import progress, workspace_of


def command(
    ctx: typer.Context,
    run: options.Run,
    budget_calls: Annotated[
        int | None, typer.Option(min=1, help="A new budget for the whole run, calls already made included.")
    ] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="The same in tokens, input and output.")] = None,
    budget_usd: Annotated[
        float | None, typer.Option(min=0.000001, help="The same in money, at the prices of fit.toml.")
    ] = None,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Also write a report with customer text, into private/.")
    ] = False,
) -> None:
    """Resume a run: same decisions byte for byte, nothing paid for twice."""
    from fitter import fitting
    from fitter.cli.fit import ask_on_terminal, finish
    from fitter.cli.naming import check_run
    from fitter.workspace import Workspace

    workspace = Workspace(workspace_of(ctx))
    check_run(workspace, run)
    with progress() as reporter:
        outcome = fitting.Fitting(workspace.root, progress=reporter).resume(
            run,
            ask=ask_on_terminal(),
            with_text=with_text,
            budget_calls=budget_calls,
            budget_tokens=budget_tokens,
            budget_usd=budget_usd,
        )
    finish(outcome)
