"""A candidate is measured as far as its decision needs it, and the keep rule decides (KE)."""

from __future__ import annotations

from typing import Any

from fitter.jsonio import pretty
from fitter.judge.passes import Plan
from fitter.loop.decide import Decision
from fitter.loop.decide import decide as keep_rule
from fitter.loop.deps import Deps
from fitter.loop.early import Planner, decide_early
from fitter.loop.propose import change_from_json, describe
from fitter.loop.state import State
from fitter.loop.steps.context import Fit, number
from fitter.loop.steps.measuring import card_input, judged, score_version
from fitter.records import IMPROVED, NOT_KEPT
from fitter.scoring.paired import MinDelta
from fitter.scoring.table import CardInput
from fitter.workspace import write_once


def score_candidate(deps: Deps, state: State) -> dict[str, Any]:
    """Measures the candidate on the same rows with the same runs, as far as its decision needs it.

    Passes that can change neither a vote nor the decision are not made (loop/early.py); a candidate whose passes are
    not complete has no score card.
    """
    fit = Fit.of(deps, state)
    at = state["candidate"]
    assert at is not None
    version, name = fit.version(at), number(at)

    def plan(given: CardInput) -> Plan:
        planner = Planner(
            fit.fixed,
            best=_given(fit, state["best"]),
            excluded=given.excluded,
            keeps=lambda so_far: _decided(fit, state, so_far).kept,
        )
        return lambda passes: planner.next(passes).passes

    given = judged(
        fit,
        version,
        fit.train,
        name=name,
        phase=f"candidate:{name}",
        groups=fit.groups,
        plan=None if fit.settings.exhaustive else plan,
    )
    found: dict[str, Any] = {"versions": at + 1}
    if not fit.settings.exhaustive and early(fit, state, given) is not None:
        return found
    card = score_version(fit, version, given, name=name)
    if card.headline.value is None:
        # LO-6: an iteration that could not be measured is no_change with its cause, never a number.
        found["no_change"] = f"the candidate has no headline: {card.headline.why}"
    return found


def _given(fit: Fit, version: int) -> CardInput:
    return card_input(fit, number(version), fit.train, fit.groups)


def _target_rows(fit: Fit, iteration: int) -> frozenset[str]:
    record = fit.store.read(f"census/{number(iteration)}.json")
    return frozenset(next(b for b in record["buckets"] if b["name"] == record["target"])["rows"])


def _decided(fit: Fit, state: State, candidate: CardInput) -> Decision:
    """What the keep rule says of a candidate against best."""
    return keep_rule(
        fit.fixed,
        best=_given(fit, state["best"]),
        candidate=candidate,
        v0=_given(fit, state["v0"]),
        min_delta=min_delta_of(fit),
        bucket_rows=_target_rows(fit, state["iteration"]),
    )


def early(fit: Fit, state: State, candidate: CardInput) -> dict[str, Any] | None:
    """The record of a candidate that was discarded before all its passes were made, or None."""
    return decide_early(
        fit.fixed,
        best=_given(fit, state["best"]),
        candidate=candidate,
        v0=_given(fit, state["v0"]),
        min_delta=min_delta_of(fit),
        bucket_rows=_target_rows(fit, state["iteration"]),
    )


def decide(deps: Deps, state: State) -> dict[str, Any]:
    """The keep rule (KE), recorded so that it can be recomputed; a discarded candidate leaves no trace in best."""
    fit = Fit.of(deps, state)
    at = state["iteration"]
    name = f"decisions/{number(at)}.json"
    cause = state.get("no_change")
    if cause is not None:
        bucket, change = _aimed_at(fit, at)
        attempt = {"iteration": at, "bucket": bucket, "change": change, "outcome": "no_change", "basis": cause}
        fit.store.write(name, {"iteration": at, "best": state["best"], "candidate": None, "attempt": attempt})
        return {"no_change": None, "candidate": None, "no_change_in_row": state["no_change_in_row"] + 1}
    candidate = state["candidate"]
    assert candidate is not None
    given = _given(fit, candidate)
    if fit.store.has(f"cards/{number(candidate)}.json"):
        made = _decided(fit, state, given)
        kept, basis, record = made.kept, made.basis, made.to_json()
    else:
        found = early(fit, state, given)
        assert found is not None  # score_candidate leaves the card out only then
        kept, basis, record = False, found["basis"], found
    bucket, change = _aimed_at(fit, at)
    if basis == "not_measurable":
        # LO-6 again: both headlines exist, but not on the rows that both versions answer. The record keeps why.
        attempt = {"iteration": at, "bucket": bucket, "change": change, "outcome": "no_change",
                   "basis": record["reasoning"][0]}  # fmt: skip
        fit.store.write(
            name, {"iteration": at, "best": state["best"], "candidate": None, "unmeasured": candidate,
                   "attempt": attempt},
        )  # fmt: skip
        return {"candidate": None, "no_change_in_row": state["no_change_in_row"] + 1}
    attempt = {
        "iteration": at,
        "bucket": bucket,
        "change": change,
        "outcome": "kept" if kept else "discarded",
        "basis": IMPROVED if kept else NOT_KEPT,
    }
    fit.store.write(
        name,
        {
            "iteration": at,
            "best": state["best"],
            "candidate": candidate,
            "v0": state["v0"],
            "attempt": attempt,
            "decision": record,
        },
    )
    if kept:
        accept(fit, candidate)
    return {
        "candidate": None,
        "best": candidate if kept else state["best"],
        "discarded_in_row": 0 if kept else state["discarded_in_row"] + 1,
        "no_change_in_row": 0,
    }


def accept(fit: Fit, version: int) -> None:
    """Copies an accepted version to prompts/, where the criterion's history is kept."""
    folder = fit.deps.workspace.prompts(fit.settings.name or "")
    document = fit.store.read(f"prompts/{number(version)}.json")
    write_once(folder / f"{fit.store.run_id}-{number(version)}.json", pretty(document))


def min_delta_of(fit: Fit) -> MinDelta:
    """min_delta as derived at v0."""
    return MinDelta.from_json(fit.store.read("baseline.json")["min_delta"])


def _aimed_at(fit: Fit, iteration: int) -> tuple[str, str]:
    """Bucket and change of an iteration, as far as it got."""
    name = f"census/{number(iteration)}.json"
    bucket = fit.store.read(name)["target"] if fit.store.has(name) else "-"
    for turn in (2, 1):
        proposal = f"proposals/{number(iteration)}-{turn}.json"
        if fit.store.has(proposal) and (record := fit.store.read(proposal)["change"]) is not None:
            return bucket, describe(change_from_json(record))
    return bucket, "-"
