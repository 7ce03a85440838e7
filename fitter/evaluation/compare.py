"""``fitter compare RUN_A RUN_B``: two runs' winners on the same rows, by row and by pass.

Two runs can be compared when they answer one question on one snapshot: the same label, rows and labels, metric,
framing, parser and runs a row. Everything else (prompt, map, judge, strategies) is what is being compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fitter.errors import UserError
from fitter.evaluation.tables import cell, figure, interval, number, table
from fitter.jsonio import canonical, digest
from fitter.labels import LabelKind, LabelValue, from_json, text
from fitter.runstore import RunStore
from fitter.scoring.audit import audit, flip_check
from fitter.scoring.card import card_of
from fitter.scoring.frame import Fixed, seed_from
from fitter.scoring.paired import compare as compare_votes
from fitter.scoring.statistic import absolute_errors
from fitter.scoring.table import CardInput, Table, tabulate, together
from fitter.scoring.votes import NO_VOTE
from fitter.textsafe import one_line
from fitter.workspace import Workspace

SCHEMA_VERSION = 1
_SHOWN = 20


def compare_runs(workspace: Workspace, run_a: str, run_b: str) -> dict[str, Any]:
    """Compares the winners of two runs on their train rows and, where both opened it, on the holdout.

    Raises:
        UserError: no such run, an unfinished one, or two that cannot be compared; names every difference.
    """
    stores = [_finished(workspace, run) for run in (run_a, run_b)]
    configs = [store.read("config.json") for store in stores]
    refusals = _refusals(stores, configs)
    if refusals:
        raise UserError(
            f"{run_a} and {run_b} do not answer the same question:\n" + "\n".join(f"  {r}" for r in refusals),
            hint="compare runs of one snapshot, label, metric, framing and parser",
        )
    fixed = Fixed.from_json(configs[0]["fixed"]["scoring"])
    # neither run's own seed: the order of A and B must not matter to the resamples
    fixed = replace(fixed, seed=seed_from(digest(sorted(c["config_hash"] for c in configs))))
    winners = [store.read("result.json")["winner"] for store in stores]
    sides = {"train": _side(fixed, stores, [f"{w:03d}" for w in winners], "labels/train.jsonl")}
    if all(store.has("passes/holdout-winner.jsonl") for store in stores):
        sides["holdout"] = _side(fixed, stores, ["holdout-winner"] * 2, "labels/holdout.jsonl")
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [
            {"run": store.run_id, "winner": winner, "judge": config["settings"]["judge"],
             "in_sample": f"in-sample, selected from {store.read('result.json')['versions']} candidates",
             "holdout": _exposure(store)}
            for store, winner, config in zip(stores, winners, configs, strict=True)
        ],
        "metric": fixed.metric.text,
        "sides": sides,
    }  # fmt: skip


def _finished(workspace: Workspace, run: str) -> RunStore:
    store = RunStore(workspace, run)
    if not store.has("config.json"):
        raise UserError(f"there is no run {one_line(repr(run), 80)} here", hint="`fitter runs` lists them")
    if not store.has("result.json"):
        raise UserError(f"run {run} is not finished", hint=f"`fitter resume {run}` goes on where it was made")
    if store.read("result.json")["winner"] is None:
        raise UserError(f"run {run} measured nothing, so it has no winner to compare")
    return store


def _refusals(stores: list[RunStore], configs: list[dict[str, Any]]) -> list[str]:
    """Every way in which two runs do not answer one question."""
    facts = [
        {
            "label": {k: v for k, v in config["fixed"]["label"].items() if k != "name"},
            "snapshot": config["fixed"]["snapshot"],
            "metric": config["fixed"]["scoring"]["metric"],
            "framing": config["settings"]["framing"],
            "parser": config["fixed"]["parser"],
            "runs a row": config["settings"]["runs"],
            "train rows and labels": digest([[r["id"], r["label"]] for r in store.read_rows("labels/train.jsonl")]),
        }
        for store, config in zip(stores, configs, strict=True)
    ]
    out = []
    for name in facts[0]:
        a, b = (canonical(f[name]) for f in facts)
        if a != b:
            shown = f"{one_line(a, 70)} and {one_line(b, 70)}"
            out.append(f"{name}: {shown}")
    return out


def _exposure(store: RunStore) -> str | None:
    record = store.read("holdout.json") if store.has("holdout.json") else {"opened": False}
    return str(record["exposure"] or "holdout, opened once") if record["opened"] else None


def _given(store: RunStore, name: str, labels: str, kind: LabelKind) -> CardInput:
    rows = store.read_rows(labels)
    renders = store.read_rows(f"renders/{name}.jsonl")
    return CardInput(
        labels={r["id"]: from_json(r["label"], kind) for r in rows},
        groups={r["id"]: r["group"] for r in rows},
        passes=store.read_passes(name, kind),
        excluded={r["row"]: r["excluded"] for r in renders if "excluded" in r},
    )


def _side(fixed: Fixed, stores: list[RunStore], names: list[str], labels: str) -> dict[str, Any]:
    given = [_given(store, name, labels, fixed.kind) for store, name in zip(stores, names, strict=True)]
    cards = [card_of(fixed, one) for one in given]
    a, b = together(fixed, [tabulate(fixed, one) for one in given])
    paired = compare_votes(fixed, a, b)
    checks = (*audit(fixed, a, b, name="A"), flip_check(fixed, a, b))
    return {
        "rows": len(a.rows),
        "cards": [card.to_json() for card in cards],
        "paired": paired.to_json(),
        "regressions": {
            c.name: c.to_json() for c in checks if not c.passed and (paired.lost or c.name != "gained_over_lost")
        },
        "by_row": _by_row(fixed, a, b, set(paired.gained), set(paired.lost)),
        "by_pass": _by_pass(fixed, a, b),
    }


def _by_row(fixed: Fixed, a: Table, b: Table, gained: set[str], lost: set[str]) -> list[dict[str, Any]]:
    """Every row whose vote, or whose number of right passes, is not the same under both."""
    right = [_right(fixed, t).sum(axis=1).tolist() for t in (a, b)]
    out = []
    for i, row in enumerate(a.rows):
        votes = [_answer(t, int(t.votes[i])) for t in (a, b)]
        if votes[0] == votes[1] and right[0][i] == right[1][i] and a.reasons[i] == b.reasons[i]:
            continue
        change = "gained" if row in gained else "lost" if row in lost else "other"
        if (a.votes[i] == NO_VOTE) != (b.votes[i] == NO_VOTE):
            change = "vote lost" if b.votes[i] == NO_VOTE else "vote won"
        out.append(
            {
                "row": row,
                "human": text(a.values[a.truth[i]]),
                "votes": votes,
                "reasons": [a.reasons[i], b.reasons[i]],
                "right_passes": [right[0][i], right[1][i]],
                "change": change,
            }
        )
    return out


def _answer(table_: Table, code: int) -> str | None:
    value: LabelValue | None = None if code == NO_VOTE else table_.values[code]
    return None if value is None else text(value)


def _right(fixed: Fixed, table_: Table) -> Any:
    """(n, runs) the pass gives the human's value; numbers within 1e-9."""
    there = table_.passes != NO_VOTE
    if fixed.kind != "numeric":
        return (table_.passes == table_.truth[:, None]) & there
    near = [absolute_errors(fixed, table_.values, table_.truth, table_.passes[:, r]) <= 1e-9 for r in range(fixed.runs)]
    return _stack(near) & there


def _stack(columns: list[Any]) -> Any:
    import numpy as np

    return np.stack(columns, axis=1)


def _by_pass(fixed: Fixed, a: Table, b: Table) -> dict[str, Any]:
    """Single passes, run by run and pooled: a pass is right, wrong or unusable."""
    right = [_right(fixed, t) for t in (a, b)]
    usable = [t.passes != NO_VOTE for t in (a, b)]
    both = usable[0] & usable[1]
    return {
        "passes": int(both.size),
        "right": [int(r.sum()) for r in right],
        "unusable": [int((~u).sum()) for u in usable],
        "gained": int((right[1] & ~right[0] & both).sum()),
        "lost": int((right[0] & ~right[1] & both).sum()),
        "per_run": [
            {
                "run": r,
                "right": [int(x[:, r].sum()) for x in right],
                "gained": int((right[1] & ~right[0] & both)[:, r].sum()),
                "lost": int((right[0] & ~right[1] & both)[:, r].sum()),
            }
            for r in range(fixed.runs)
        ],
    }


def show(found: Mapping[str, Any]) -> list[str]:
    """For people: totals first, then what got worse, even where the total improved."""
    lines = []
    for name, run in zip("AB", found["runs"], strict=True):
        lines.append(f"{name} = {cell(run['run'])}, version {run['winner']}, judge {cell(run['judge'])}")
    for side, part in found["sides"].items():
        lines += ["", *_show_side(found, side, part)]
    return lines


def _show_side(found: Mapping[str, Any], side: str, part: Mapping[str, Any]) -> list[str]:
    called = [run["in_sample"] if side == "train" else run["holdout"] or "holdout" for run in found["runs"]]
    paired, delta = part["paired"], part["paired"]["headline_delta"]
    p_name = "sign_p" if "sign_p" in paired else "mcnemar_p"
    lines = [f"{side}, {part['rows']} rows (A: {called[0]}; B: {called[1]})"]
    for name, card in zip("AB", part["cards"], strict=True):
        headline, single = card["headline"], number(card["deployable"]["mean"])
        lines.append(
            f"  {name}: {cell(found['metric'])} {figure(headline)}, {interval(headline['ci95'])}; "
            f"deployable {single}; flip rate {figure(card['flip_rate'])}"
        )
    lines += [
        f"  B minus A on {paired['rows']} paired rows: {figure(delta)}, {interval(delta['ci95'])}; "
        f"{p_name} {number(paired[p_name])}",
        f"  by row: {len(paired['gained_ids'])} gained, {len(paired['lost_ids'])} lost",
    ]
    passes = part["by_pass"]
    lines.append(
        f"  by pass: right {passes['right'][0]} → {passes['right'][1]} of {passes['passes']}, "
        f"{passes['gained']} gained, {passes['lost']} lost; unusable {passes['unusable'][0]} → {passes['unusable'][1]}"
    )
    rows = [
        (f"run {r['run']}", str(r["right"][0]), str(r["right"][1]), str(r["gained"]), str(r["lost"]))
        for r in passes["per_run"]
    ]
    lines += ["  " + line for line in table(("passes", "A right", "B right", "gained", "lost"), rows)]
    worse = [r for r in part["by_row"] if r["change"] in ("lost", "vote lost")]
    lines.append(f"  regressions from A to B: {len(worse)} rows" + ("" if worse else "; no row got worse"))
    lines += [f"    {name}: {cell(check['says'], 200)}" for name, check in part["regressions"].items()]
    lines += _row_lines(worse)
    better = [r for r in part["by_row"] if r["change"] in ("gained", "vote won")]
    if better:
        lines += [f"  better under B: {len(better)} rows", *_row_lines(better)]
    return lines


def _row_lines(rows: list[dict[str, Any]]) -> list[str]:
    body = [
        (
            cell(r["row"], 40),
            cell(r["human"], 24),
            *(cell(vote if vote is not None else f"({why})", 24) for vote, why in
              zip(r["votes"], r["reasons"], strict=True)),
            f"{r['right_passes'][0]} → {r['right_passes'][1]}",
        )
        for r in rows[:_SHOWN]
    ]  # fmt: skip
    if not body:
        return []
    lines = ["  " + line for line in table(("row", "human", "A", "B", "right passes"), body)]
    return lines + ([f"    and {len(rows) - _SHOWN} more (--json has all)"] if len(rows) > _SHOWN else [])
