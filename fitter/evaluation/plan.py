"""``fitter plan QUEUE``: what these labels can show, before any spend. Calls nothing, writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.errors import SettingsError
from fitter.evaluation.tables import cell, number, table
from fitter.holdout import preview
from fitter.judge.probes import injection_probes
from fitter.labels import LabelKind
from fitter.loop.steps.finish import INJECTION_ROWS_PER_ANSWER, MOST_ANSWERS
from fitter.queues.files import FlatColumns
from fitter.queues.intake import IntakeOptions
from fitter.queues.intake import intake as take_in
from fitter.queues.recap import Intake
from fitter.queues.registry import SourceOptions, open_source
from fitter.scoring.metrics import Metric
from fitter.scoring.plan import (
    accuracy_width,
    balanced_width,
    planned_calls,
    power,
    rows_for_bound,
    rows_to_label,
    smallest_significant_gain,
)
from fitter.settings import FitSettings
from fitter.workspace import Workspace

SCHEMA_VERSION = 1
RATES = (0.6, 0.7, 0.8, 0.9)
GAINS = (0.02, 0.05, 0.10, 0.15, 0.20, 0.30)
CHURN = 0.02
LOST = (0, 1, 2, 3, 5, 10)


def read_queue(settings: FitSettings) -> Intake:
    """The queue after intake; its only label where none is named.

    Raises:
        BadInput: the queue cannot be read.
        SettingsError: it has several labels and none is named.
    """
    options = SourceOptions(
        columns=FlatColumns(**settings.columns),
        queue_name=settings.queue_name,
        backend=settings.backend,
        since=settings.since,
    )
    raw = open_source(settings.queue, options).read()
    label = settings.label or (raw.schemas[0].id if len(raw.schemas) == 1 else None)
    if label is None:
        names = ", ".join(cell(schema.name) for schema in raw.schemas) or "none"
        raise SettingsError("which label of the queue is meant?", hint=f"name it with --label; its labels are: {names}")
    words: dict[str, bool | str | float] = {
        text: {"true": True, "false": False}.get(value, value) for text, value in settings.label_map.items()
    }
    return take_in(
        raw,
        label=label,
        options=IntakeOptions(
            label_kind=settings.label_kind, label_map=words, numeric_tolerance=settings.tolerance or 0.0
        ),
    )


def plan(
    workspace: Workspace,
    found: Intake,
    *,
    metric: str | None,
    beta: float | None = None,
    runs: int,
    max_iterations: int,
    cost_per_call: float | None = None,
) -> dict[str, Any]:
    """What the labels of a queue can show.

    Args:
        workspace: where an earlier seal of the queue may lie; rows sealed before keep their side.
        found: the queue after intake.
        metric: the agreed metric, checked against the label; None where it is not agreed yet.
        beta: for fbeta metrics.
        runs: passes a row.
        max_iterations: of the planned fit.
        cost_per_call: what one judge call costs, where the user says so.

    Raises:
        SettingsError: a metric that does not fit the label.
    """
    kind: LabelKind = found.label.kind
    if metric is not None:
        Metric.parse(metric, kind=kind, classes=found.label.classes, beta=beta)
    out: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "queue": {
            "identity": found.identity,
            "label": found.label.name,
            "kind": kind,
            "read": found.read,
            "usable": len(found.rows),
            "excluded": {reason: len(ids) for reason, ids in found.excluded.items() if ids},
            "class_rows": dict(found.class_counts),
            "warnings": list(found.warnings),
        },
        "metric": metric,
        "gate": {"passed": found.gate.passed, "reason": found.gate.reason},
        "bound": {"target": 0.05, "clean_rows": rows_for_bound(), "rows_with_one_error": rows_for_bound(errors=1)},
        "label_next": rows_to_label(found.class_counts) if kind != "numeric" else {},
    }
    if not found.gate.passed:
        return out
    split, opened = preview(workspace, found.rows, queue=found.identity, label=found.label, positional=found.positional)
    train, held = len(split.train), len(split.holdout) if split.scored else 0
    sides = {"train": train, **({"holdout": held} if held else {})}
    by_class = {
        "train": {name: rows - out_ for name, (rows, out_) in split.strata.items()},
        "holdout": {name: out_ for name, (_, out_) in split.strata.items()},
    }
    answers = INJECTION_ROWS_PER_ANSWER * max(1, min(len(found.class_counts), MOST_ANSWERS))
    probes = len(injection_probes()) * answers
    calls = planned_calls(train=train, holdout=held, runs=runs, max_iterations=max_iterations)
    calls = {"least": calls["least"], "most": calls["most"] + 2 * probes}
    for name, need in out["label_next"].items():  # rows that a fit works on cannot qualify its judge (QU-1)
        need["clean_bound"] = max(0, rows_for_bound() - (by_class["holdout"].get(name, 0) if held else 0))
    out["split"] = {
        "train": train,
        "holdout": held,
        "why_no_holdout": split.reason if not held else "",
        "opened_by": None if opened is None else list(opened),
    }
    out["sides"] = {
        side: {
            "rows": n,
            "class_rows": by_class[side],
            "one_row": 1 / n,
            "smallest_significant": [
                {"lost": lost, "gained": smallest_significant_gain(lost),
                 "gain": (smallest_significant_gain(lost) - lost) / n}
                for lost in LOST if smallest_significant_gain(lost) + lost <= n
            ],
            "width": _widths(kind, n, by_class[side]),
            "power": _power(n, kind),
        }
        for side, n in sides.items()
    }  # fmt: skip
    out["calls"] = {
        **calls,
        "planted_orders": probes,
        "runs": runs,
        "max_iterations": max_iterations,
        "cost_least": None if cost_per_call is None else calls["least"] * cost_per_call,
        "cost_most": None if cost_per_call is None else calls["most"] * cost_per_call,
    }
    return out


def _widths(kind: LabelKind, rows: int, class_rows: Mapping[str, int]) -> list[dict[str, Any]]:
    """Expected width of accuracy's Wilson interval and of balanced accuracy's, at a rate; none for numbers."""
    if kind == "numeric":
        return []
    single = kind != "multiselect"
    return [
        {
            "rate": rate,
            "accuracy": accuracy_width(rows, rate),
            "balanced_accuracy": balanced_width(class_rows, rate) if single else None,
        }
        for rate in RATES
    ]


def _power(rows: int, kind: LabelKind) -> list[dict[str, Any]]:
    # A gain in MAE has no place on the 0..1 scale: for numbers the gain is the share of rows that get closer less that
    # of those that get farther, and no least delta is asked of it.
    least = 0.0 if kind == "numeric" else 0.02
    return [power(rows=rows, gain=gain, churn=CHURN, seed=rows, min_delta=least).to_json() for gain in GAINS]


def show(found: Mapping[str, Any]) -> list[str]:
    """For people."""
    queue = found["queue"]
    lines = [
        f"{cell(queue['identity'])}, label {cell(queue['label'])} ({queue['kind']}): {queue['read']} rows read, "
        f"{queue['usable']} usable",
        *(f"  {n} {reason}" for reason, n in queue["excluded"].items()),
        *(f"  class {cell(name)}: {n}" for name, n in queue["class_rows"].items()),
        *(f"  {cell(warning, 300)}" for warning in queue["warnings"]),
    ]
    if not found["gate"]["passed"]:
        return [*lines, f"no fit is possible: {cell(found['gate']['reason'], 300)}", *_label_lines(found)]
    split = found["split"]
    lines += ["", f"split: {split['train']} train rows, {split['holdout']} held out"]
    if split["why_no_holdout"]:
        lines.append(f"  no holdout will be opened: {cell(split['why_no_holdout'], 200)}")
    if split["opened_by"]:
        lines.append(f"  the holdout was opened by {cell(split['opened_by'][0])} on {cell(split['opened_by'][1])}")
    for side, part in found["sides"].items():
        lines += ["", *_side_lines(side, part, queue["kind"])]
    lines += ["", *_label_lines(found), "", *_call_lines(found["calls"])]
    return lines


def _side_lines(side: str, part: Mapping[str, Any], kind: LabelKind) -> list[str]:
    what = "share of rows closer less farther" if kind == "numeric" else "true gain in accuracy"
    lines = [f"{side}: {part['rows']} rows; one row is worth {number(part['one_row'])} of accuracy"]
    small = part["smallest_significant"]
    if small:
        lines.append("  smallest gain that can be significant (exact test, rows independent):")
        rows = [(f"{s['lost']} rows lost", str(s["gained"]), number(s["gain"])) for s in small]
        lines += ["  " + line for line in table(("if", "rows gained", "net gain"), rows)]
    else:
        lines.append(f"  no gain can be significant: the exact test needs {smallest_significant_gain()} one-way rows")
    if part["width"]:
        lines.append("  expected width of the 95% interval:")
        body = [(f"at {w['rate']}", number(w["accuracy"], 3), number(w["balanced_accuracy"], 3)) for w in part["width"]]
        lines += ["  " + line for line in table(("rate", "accuracy", "balanced accuracy"), body)]
    lines.append(f"  how often a {what} would be seen, with {CHURN:.0%} of the rows lost on the way:")
    rows = [(f"{p['gain']:.2f}", f"{p['kept']:.2f}", f"{p['significant']:.2f}") for p in part["power"]]
    return lines + ["  " + line for line in table((what, "kept", "significant"), rows)]


def _label_lines(found: Mapping[str, Any]) -> list[str]:
    bound = found["bound"]
    lines = []
    if found["label_next"]:
        lines.append("rows worth labelling next, by class:")
        body = [
            (cell(name), *(str(need[aim]) for aim in ("measurable", "reliable_interval", "clean_bound")))
            for name, need in found["label_next"].items()
        ]
        lines += table(("class", "to be measurable", "for a reliable interval", "for a 5% bound"), body)
    lines.append(
        f"a qualification bound of 5% needs {bound['clean_rows']} rows of a class without an error "
        f"({bound['rows_with_one_error']} with one), none of them used in the fit"
    )
    return lines


def _call_lines(calls: Mapping[str, Any]) -> list[str]:
    lines = [
        f"judge calls of a fit with {calls['runs']} runs and at most {calls['max_iterations']} iterations: "
        f"{calls['least']} at least, {calls['most']} at most (a redraft, every iteration, every retry); "
        f"{calls['planted_orders']} of them plant orders",
    ]
    if calls["cost_least"] is None:
        return [*lines, "cost: unknown, no price was given (--cost-per-call)"]
    return [*lines, f"cost: {calls['cost_least']:.2f} to {calls['cost_most']:.2f}, without drafter and proposer"]


def check_numbers(runs: int, max_iterations: int, cost_per_call: float | None) -> None:
    """Refuses numbers that no fit could have.

    Raises:
        SettingsError: with what is allowed.
    """
    if runs not in (1, 3, 5, 7):
        raise SettingsError(f"--runs is {runs}", hint="use an odd number of runs from 1 to 7")
    if not 0 <= max_iterations <= 100:
        raise SettingsError(f"--max-iterations is {max_iterations}", hint="0 to 100")
    if cost_per_call is not None and not 0 <= cost_per_call < float("inf"):
        raise SettingsError(f"--cost-per-call is {cost_per_call}", hint="a number, 0 or more")
