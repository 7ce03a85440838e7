"""``fitter plan QUEUE``: what labels can show, before any spend."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fitter.cli import options
from fitter.cli.common import out, workspace_of


def command(
    ctx: typer.Context,
    queue: options.Queue,
    label: options.Label = None,
    metric: options.Metric = None,
    beta: options.Beta = None,
    runs: Annotated[int, typer.Option(help="Passes per row: 1, 3, 5 or 7.")] = 3,
    max_iterations: Annotated[int, typer.Option(help="Most iterations.")] = 10,
    cost_per_call: Annotated[float | None, typer.Option(help="What one judge call costs, in your currency.")] = None,
    id_col: options.IdCol = None,
    input_col: options.InputCol = None,
    output_col: options.OutputCol = None,
    context_col: options.ContextCol = None,
    label_col: options.LabelCol = None,
    reason_col: options.ReasonCol = None,
    group_col: options.GroupCol = None,
    role_col: options.RoleCol = None,
    annotator_col: options.AnnotatorCol = None,
    expected_output_col: options.ExpectedOutputCol = None,
    app_verdict_col: options.AppVerdictCol = None,
    label_map: options.LabelMap = None,
    label_kind: options.LabelKind = None,
    tolerance: options.Tolerance = None,
    queue_name: options.QueueName = None,
    backend: options.Backend = None,
    since: options.Since = None,
    json_: options.Json = False,
) -> None:
    """Say what a queue's labels can show: gains, intervals, power, rows to label next, calls."""
    from fitter.evaluation.plan import check_numbers, plan, read_queue, show
    from fitter.jsonio import pretty
    from fitter.settings import make
    from fitter.workspace import Workspace

    check_numbers(runs, max_iterations, cost_per_call)
    flags = dict(ctx.params)
    given: dict[str, Any] = {
        key: flags[key]
        for key in ("label", "label_kind", "tolerance", "queue_name", "backend", "since")
        if flags.get(key) is not None
    }
    if label_map:
        given["label_map"] = options.label_map_given(label_map)
    made = plan(
        Workspace(workspace_of(ctx)),
        read_queue(make(queue=queue, columns=options.columns_given(flags), **given)),
        metric=metric,
        beta=beta,
        runs=runs,
        max_iterations=max_iterations,
        cost_per_call=cost_per_call,
    )
    out(pretty(made).rstrip() if json_ else "\n".join(show(made)))
