"""From a first score to a kept winner: the iterations of the loop (LO-2, LO-3, KE)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from fitter.errors import UserError
from fitter.evidence.isolation import prove_isolation
from fitter.labels import text
from fitter.loop.census import check_buckets, error_rows, target_bucket
from fitter.loop.deps import Deps
from fitter.loop.guard import Violation, check_criterion, copies
from fitter.loop.propose import BadChange, apply, change_from_json, change_to_json
from fitter.loop.state import State
from fitter.loop.steps.context import Fit, Version, number
from fitter.loop.steps.drafting import train_corpus, write_version
from fitter.loop.steps.measuring import (
    card_input,
    measure_version,
    same_for_all,
    standing,
    texts_of,
)
from fitter.loop.stop import stop_reason
from fitter.loop.strategies import LabelChecker, NoAdvice
from fitter.records import Bucket, Change, ErrorRow, Pass, ProposalBrief
from fitter.scoring.card import card_of
from fitter.scoring.paired import min_delta


def score(deps: Deps, state: State) -> dict[str, Any]:
    """Measures the draft on every train row."""
    fit = Fit.of(deps, state)
    at = state["version"]
    measure_version(fit, fit.version(at), fit.train, name=number(at), phase=f"draft:{number(at)}", groups=fit.groups)
    return {"versions": at + 1}


def degenerate(deps: Deps, state: State) -> dict[str, Any]:
    """LO-2: one class for every row, or no better than the constant judge → one redraft with the failure named."""
    fit = Fit.of(deps, state)
    at, first = state["version"], state["draft_version"]
    given = card_input(fit, number(at), fit.train, fit.groups)
    card = card_of(fit.fixed, given)
    if at == first:
        failure = None
        if same_for_all(given.passes):
            failure = "the draft gives every row the same answer"
        elif not card.beats_constant:
            failure = "the draft does not beat the judge that always gives the best constant answer"
        fit.store.write("degenerate.json", {"failure": failure})
        return {"version": at + 1} if failure else {"v0": at, "best": at}
    earlier = card_of(fit.fixed, card_input(fit, number(first), fit.train, fit.groups))
    chosen = at
    if earlier.headline.value is not None and (
        card.headline.value is None or (earlier.headline.value - card.headline.value) * fit.fixed.metric.sign > 1e-12
    ):
        chosen = first
    return {"v0": chosen, "best": chosen}


def baseline(deps: Deps, state: State) -> dict[str, Any]:
    """What is derived once at v0 and never again: min_delta with its terms (KE-2)."""
    fit = Fit.of(deps, state)
    if not fit.store.has("baseline.json"):
        given = card_input(fit, number(state["v0"]), fit.train, fit.groups)
        card = card_of(fit.fixed, given)
        terms = min_delta(fit.fixed, card.deployable, card.rows.scored)
        fit.store.write("baseline.json", {"v0": state["v0"], "min_delta": terms.to_json()})
    return {"iteration": 0, "discarded_in_row": 0, "no_change_in_row": 0, "candidate": None, "no_change": None}


def census(deps: Deps, state: State) -> dict[str, Any]:
    """Best's errors in emergent, ranked buckets, and the one to aim at; or the reason to stop (LO-3, LO-5)."""
    fit = Fit.of(deps, state)
    best = fit.version(state["best"])
    given = card_input(fit, number(best.number), fit.train, fit.groups)
    votes = standing(card_of(fit.fixed, given))
    errors = error_rows(fit.train, votes, passes_of(fit, best), texts_of(fit, best))
    ceiling = _contradicted(fit, errors)
    stop = stop_reason(
        iteration=state["iteration"],
        max_iterations=fit.settings.max_iterations,
        discarded_in_row=state["discarded_in_row"],
        patience=fit.settings.patience,
        no_change_in_row=state["no_change_in_row"],
        errors=len(errors),
        without_vote=len(fit.train) - len(votes),
        label_ceiling=bool(errors) and len(ceiling) == len(errors),
    )
    if stop is not None:
        fit.store.write(
            "stop.json", {"reason": stop, "iterations": state["iteration"], "contradicting_reasons": ceiling}
        )
        return {"stop": stop}
    at = state["iteration"] + 1
    if not errors:
        return {"iteration": at, "candidate": None, "no_change": "no standing vote differs from its label"}
    deps.progress.phase(f"iteration {at}: {len(errors)} errors")
    try:
        described = fit.team.describer.describe(errors, again=_unanswered(fit, at))
        buckets = _recordable(fit, best, check_buckets(described, errors))
    except NoAdvice as fault:
        return {"iteration": at, "candidate": None, "no_change": str(fault)}
    target = target_bucket(buckets, fit.attempts())
    fit.store.write(
        f"census/{number(at)}.json", {"iteration": at, "best": best.number, "buckets": [asdict(b) for b in buckets],
                                      "target": target.name},
    )  # fmt: skip
    return {"iteration": at, "candidate": None, "no_change": None}


def _unanswered(fit: Fit, iteration: int) -> int:
    """Iterations just before this one whose errors nobody described: the same question is put anew, not looked up."""
    count = 0
    while count + 1 < iteration:
        if fit.store.has(f"census/{number(iteration - count - 1)}.json"):
            break
        count += 1
    return count


def passes_of(fit: Fit, version: Version) -> list[Pass]:
    """A version's retained passes with the judge's words."""
    return fit.store.read_passes(number(version.number), fit.label.kind)


def _contradicted(fit: Fit, errors: list[ErrorRow]) -> list[str]:
    """Error rows whose own reasoning argues for another label, unanimously in three calls.

    Ends at the first that does not: the label ceiling needs all of them, so one sound reason settles it.
    """
    checker = fit.team.checker
    found = []
    for error in errors:
        reason = "\n".join(error.human_reasons)
        if not reason or not _unanimous(checker, fit, error.human, reason):
            break
        found.append(error.row)
    return found


def _unanimous(checker: LabelChecker, fit: Fit, label: str, reason: str) -> bool:
    names = [text(c) for c in fit.label.classes]
    try:
        return all(checker.contradicts(label, reason, labels=names, call=call) for call in range(3))
    except NoAdvice:
        return False  # undecided is not contradicted


def _brief(fit: Fit, state: State, rejected: str | None) -> ProposalBrief:
    best = fit.version(state["best"])
    record = fit.store.read(f"census/{number(state['iteration'])}.json")
    buckets = tuple(Bucket(**{**b, "rows": tuple(b["rows"])}) for b in record["buckets"])
    target = next(b for b in buckets if b.name == record["target"])
    given = card_input(fit, number(best.number), fit.train, fit.groups)
    votes = standing(card_of(fit.fixed, given))
    errors = error_rows(fit.train, votes, passes_of(fit, best), texts_of(fit, best))
    return ProposalBrief(
        draft=best.prompt.draft,
        label=fit.label,
        goal=fit.settings.goal or "",
        costly=fit.settings.costly or "same",
        notes=fit.settings.notes,
        buckets=buckets,
        target=target,
        errors=tuple(e for e in errors if e.row in target.rows),
        attempts=tuple(fit.attempts()),
        map_fields={f.name: f.path for f in best.evidence.fields},
        rejected=rejected,
    )


def _recordable(fit: Fit, best: Version, buckets: list[Bucket]) -> list[Bucket]:
    """Buckets whose names and descriptions may stand in tracked files: what copies a row's text is withheld (SC-4)."""
    corpus = train_corpus(fit, best.evidence)
    made = []
    for n, bucket in enumerate(buckets, 1):
        name, description = bucket.name, bucket.description
        if copies(name, corpus):
            name = f"{bucket.direction}: bucket {n}"
        if copies(description, corpus):
            description = _WITHHELD
        made.append(replace(bucket, name=name, description=description))
    return made


def _proposal(fit: Fit, state: State, refusal: str | None) -> dict[str, Any]:
    """One proposal as a record; None with its cause where the proposer gives none (LO-6).

    The record is tracked, so what copies a row's text is withheld from it (SC-4). A copied reason goes and the change
    stays; a copied change is refused here and now, since its text is not kept for the guard to read.
    """
    brief = _brief(fit, state, refusal)
    try:
        change = fit.team.proposer.propose(brief)
    except NoAdvice as fault:
        return {"change": None, "cause": str(fault), "refused": None}
    if change is None:
        return {"change": None, "cause": None, "refused": None}
    best = fit.version(state["best"])
    corpus = train_corpus(fit, best.evidence)
    refused = None
    if copies(change.why, corpus):
        change = replace(change, why=_WITHHELD)
    criterion, edit = change.criterion, change.map_change
    if criterion is not None and criterion.text not in {c.text for c in best.prompt.draft.criteria}:
        violations = check_criterion(criterion, corpus)
        if any(v.rule == "LO-4" for v in violations):
            refused = _said(violations)
            change = replace(change, criterion=replace(criterion, text=_WITHHELD))
    if edit is not None and any(copies(text, corpus) for text in _strings(edit)):
        refused = "the change of the evidence map copies text of a train row"
        change = replace(change, map_change={"add": {"name": "withheld", "path": "withheld", "why": _WITHHELD}})
    return {"change": change_to_json(change), "cause": None, "refused": refused}


_WITHHELD = "(withheld: it copied text of a row)"


def _said(violations: list[Violation]) -> str:
    return "; ".join(sorted({v.message for v in violations}))


def _strings(edit: Mapping[str, Any]) -> list[str]:
    """The texts of a map change, without the reason."""
    field = edit.get("add", edit)
    return [value for key, value in field.items() if key != "why" and isinstance(value, str)]


def propose(deps: Deps, state: State) -> dict[str, Any]:
    """Asks for ONE focused change aimed at the target bucket."""
    fit = Fit.of(deps, state)
    name = f"proposals/{number(state['iteration'])}-1.json"
    if not fit.store.has(name):
        fit.store.write(name, _proposal(fit, state, None))
    record = fit.store.read(name)
    if record["change"] is None:
        return {"no_change": record["cause"] or "the proposer has nothing left to try on this bucket"}
    return {}


def guard(deps: Deps, state: State) -> dict[str, Any]:
    """Refuses a change that does not fit or breaks a guard; asks once more with the reason, then ``no_change``."""
    fit = Fit.of(deps, state)
    at, iteration = state["versions"], number(state["iteration"])
    best = fit.version(state["best"])
    refusal = None
    refusals: list[str] = []
    for turn in (1, 2):
        name = f"proposals/{iteration}-{turn}.json"
        if not fit.store.has(name):
            fit.store.write(name, {**_proposal(fit, state, refusal), "after": refusal})
        record = fit.store.read(name)
        if record["change"] is None:
            break
        made = None
        refusal = record["refused"]
        if refusal is None:
            refusal, made = _refuse(fit, change_from_json(record["change"]), best, at)
        if made is not None:
            fit.store.write(f"guards/{iteration}.json", {"accepted_turn": turn, "refused": refusals})
            return {"candidate": made.number}
        refusals.append(refusal or "")
    fit.store.write(f"guards/{iteration}.json", {"accepted_turn": None, "refused": refusals})
    return {"no_change": f"no usable proposal: {refusal or 'the proposer had nothing else to offer'}"}


def _refuse(fit: Fit, change: Change, best: Version, at: int) -> tuple[str | None, Version | None]:
    """Why a change is refused, or the candidate it makes, written as a version."""
    try:
        draft, evidence = apply(
            change,
            best.prompt.draft,
            best.evidence,
            labels=fit.labels_allowed,
            new_id=f"c{at + 100}",
            numeric=fit.label.kind == "numeric",
        )
        if change.criterion is not None:
            violations = check_criterion(change.criterion, train_corpus(fit, best.evidence))
            if violations:
                return _said(violations), None
        if evidence != best.evidence:
            gaps = fit.target.compile(evidence).gaps
            if gaps:
                return f"the target cannot carry {gaps[0].path}: {gaps[0].why}", None
        made = write_version(fit, at, draft, evidence)
        if evidence != best.evidence:
            proof = prove_isolation(fit.target, made.prompt, evidence, fit.train, fit.framing)
            fit.store.write(
                f"isolation-{number(at)}.json", {"rows": proof.rows, "digest": proof.digest, "passed": True}
            )
    except BadChange as fault:
        return fault.message, None
    except UserError as fault:  # the frame or the target cannot hold it
        return fault.message, None
    return None, made
