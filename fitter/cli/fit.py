"""``fitter fit QUEUE``: the whole job."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitter.cli import options
from fitter.cli.common import out, progress, workspace_of
from fitter.textsafe import visible

if TYPE_CHECKING:
    from fitter.fitting import Ask, Outcome


def command(
    ctx: typer.Context,
    queue: options.Queue,
    goal: Annotated[str | None, typer.Option(help="What the judge is for, in one sentence.")] = None,
    costly: Annotated[
        str | None, typer.Option(metavar="CLASS|same", help="The class whose miss is the costlier error.")
    ] = None,
    label: options.Label = None,
    framing: Annotated[
        str | None, typer.Option(metavar="replicator|grader|corrector", help="What is predicted from what.")
    ] = None,
    metric: options.Metric = None,
    judge: Annotated[str | None, typer.Option(help="Judge model: lexicon, openai:MODEL, anthropic:MODEL, ...")] = None,
    proposer: Annotated[
        str | None, typer.Option(help="Drafts, describes and proposes (default: the judge's model).")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The evaluator's name.")] = None,
    app: Annotated[str | None, typer.Option(help="The application the evaluator belongs to.")] = None,
    scope: Annotated[str | None, typer.Option(metavar="span|trace|session", help="What the evaluator sees.")] = None,
    publish_to: Annotated[
        str | None, typer.Option(help="Where the disabled evaluator is written: local or datadog.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Passes per row: 1, 3, 5 or 7 (default 3).")] = None,
    max_iterations: Annotated[int | None, typer.Option(help="Most iterations (default 10).")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many measured iterations not kept (default 3).")
    ] = None,
    notes: Annotated[str | None, typer.Option(help="Domain notes for drafter and proposer; may be empty.")] = None,
    beta: options.Beta = None,
    precision_floor: Annotated[
        str | None, typer.Option(metavar="CLASS=0.8", help="Least precision of a class.")
    ] = None,
    governs: Annotated[
        str | None, typer.Option(metavar="metric|goal", help="Which one governs where they disagree.")
    ] = None,
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
    config: Annotated[
        Path | None, typer.Option("--config", help="A fit.toml with the same names (default: ./fit.toml if there).")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Model calls in flight (default 8).")] = None,
    budget_calls: Annotated[
        int | None, typer.Option(help="Most model calls; stops on a row boundary (exit 4).")
    ] = None,
    budget_tokens: Annotated[int | None, typer.Option(help="Most tokens, input and output; the same.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Most money, at the [prices] of fit.toml; the same.")] = None,
    exposed_holdout: Annotated[
        bool, typer.Option("--exposed-holdout", help="Use a holdout an earlier fit has opened; every figure says so.")
    ] = False,
    exhaustive: Annotated[
        bool,
        typer.Option("--exhaustive", help="Make every pass of every candidate; else those that decide nothing wait."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept what was given; ask nothing.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the resolved config, the split and the number of calls; write nothing."),
    ] = False,
    with_text: Annotated[
        bool, typer.Option("--with-text", help="Also write a report with customer text, into private/.")
    ] = False,
) -> None:
    """Fit a judge to a labelled queue and publish it as a disabled evaluator."""
    from fitter import fitting
    from fitter.settings import make, read_toml

    flags = dict(ctx.params)
    given: dict[str, Any] = {
        key: flags[key] for key in _SETTINGS if flags.get(key) is not None and flags.get(key) is not False
    }
    path = config if config is not None else (Path("fit.toml") if Path("fit.toml").is_file() else None)
    base = read_toml(path) if path is not None else {}
    merged = {**base, **given, "queue": queue}
    merged["columns"] = {**base.get("columns", {}), **options.columns_given(flags)}
    merged["label_map"] = {**base.get("label_map", {}), **options.label_map_given(label_map or [])}
    settings = make(**merged)

    with progress() as reporter:
        fitter = fitting.Fitting(workspace_of(ctx), progress=reporter)
        settings = fitter.complete(settings)
        if dry_run:
            out(fitter.dry_run(settings))
            return
        outcome = fitter.start(settings, ask=None if yes else ask_on_terminal(), with_text=with_text)
    finish(outcome)


def ask_on_terminal() -> Ask | None:
    """Asks on the terminal, where there is one; else None: nobody can be asked."""
    return ask if sys.stdin is not None and sys.stdin.isatty() else None


_SETTINGS = (
    "goal", "costly", "label", "framing", "metric", "judge", "proposer", "name", "app", "scope", "publish_to", "runs",
    "max_iterations", "patience", "notes", "beta", "precision_floor", "governs", "label_kind", "tolerance",
    "queue_name", "concurrency", "budget_calls", "budget_tokens", "budget_usd", "exposed_holdout", "exhaustive",
    "backend", "since",
)  # fmt: skip


def ask(question: Mapping[str, Any]) -> dict[str, Any]:
    """Asks on the terminal for everything one interrupt names."""
    typer.echo(visible(question["title"]), err=True)
    answers: dict[str, Any] = {}
    try:
        for item in question["fields"]:
            answers[item["name"]] = _answer(item)
    except typer.Abort:
        raise KeyboardInterrupt from None
    return answers


def _answer(item: Mapping[str, Any]) -> str:
    choices = item.get("choices") or ()
    suffix = f" [{' | '.join(choices)}]" if choices else ""
    default = "" if item.get("optional") else None
    while True:
        given: str = typer.prompt(f"{item['what']}{suffix}", default=default, show_default=False, err=True).strip()
        if choices and given not in choices:
            typer.echo(f"one of: {', '.join(choices)}", err=True)
        elif given or item.get("optional"):
            return given


def finish(outcome: Outcome) -> None:
    """Prints the summary and leaves with the outcome's exit code."""
    out(outcome.summary)
    for line in outcome.closing:
        out(line)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
