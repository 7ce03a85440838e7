"""``fitter plan QUEUE``: what labels can show, before any spend."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fitter.cli.common import out, workspace_of

_COLS = "Flat files: "


def command(
    ctx: typer.Context,
    queue: Annotated[str, typer.Argument(help="A .csv, .jsonl or bundle file or folder, or `practice`.")],
    label: Annotated[str | None, typer.Option(help="The queue's label to predict (id or name).")] = None,
    metric: Annotated[str | None, typer.Option(help="Headline metric, e.g. balanced_accuracy, f1:CLASS, mae.")] = None,
    beta: Annotated[float | None, typer.Option(help="Beta of an fbeta metric.")] = None,
    runs: Annotated[int, typer.Option(help="Passes per row: 1, 3, 5 or 7.")] = 3,
    max_iterations: Annotated[int, typer.Option(help="Most iterations.")] = 10,
    cost_per_call: Annotated[float | None, typer.Option(help="What one judge call costs, in your currency.")] = None,
    id_col: Annotated[str | None, typer.Option(help=_COLS + "row id.")] = None,
    input_col: Annotated[str | None, typer.Option(help=_COLS + "what the app was asked.")] = None,
    output_col: Annotated[str | None, typer.Option(help=_COLS + "what the app answered.")] = None,
    context_col: Annotated[str | None, typer.Option(help=_COLS + "context the app had.")] = None,
    label_col: Annotated[str | None, typer.Option(help=_COLS + "the human's label.")] = None,
    reason_col: Annotated[str | None, typer.Option(help=_COLS + "the human's reasoning.")] = None,
    group_col: Annotated[str | None, typer.Option(help=_COLS + "rows that belong together.")] = None,
    role_col: Annotated[str | None, typer.Option(help=_COLS + "`adjudication` settles a contested row.")] = None,
    annotator_col: Annotated[str | None, typer.Option(help=_COLS + "who labelled.")] = None,
    app_verdict_col: Annotated[str | None, typer.Option(help=_COLS + "the app's own verdict.")] = None,
    label_map: Annotated[
        list[str] | None, typer.Option(metavar="TEXT=VALUE", help="Reads a label text as a value; repeat.")
    ] = None,
    label_kind: Annotated[
        str | None, typer.Option(metavar="boolean|categorical|multiselect|numeric", help=_COLS + "the label's kind.")
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Numeric labels this close agree.")] = None,
    queue_name: Annotated[str | None, typer.Option(help="The queue's name, where the file's name will not do.")] = None,
    backend: Annotated[str | None, typer.Option(metavar="rest|mcp", help="How Datadog is reached.")] = None,
    since: Annotated[str | None, typer.Option(help="How far back a platform's spans are looked for.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a queue's labels can show: gains, intervals, power, rows to label next, calls."""
    from fitter.cli.fit import _pairs, _roles
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
        given["label_map"] = _pairs(label_map)
    columns = {role: flags[f"{role}_col"] for role in _roles() if flags.get(f"{role}_col") is not None}
    made = plan(
        Workspace(workspace_of(ctx)),
        read_queue(make(queue=queue, columns=columns, **given)),
        metric=metric,
        beta=beta,
        runs=runs,
        max_iterations=max_iterations,
        cost_per_call=cost_per_call,
    )
    out(pretty(made).rstrip() if json_ else "\n".join(show(made)))
