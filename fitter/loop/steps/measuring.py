"""Measuring one version on a set of rows: render, judge, retain, score. Used for train and for the holdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fitter.calls.budget import open_budget
from fitter.calls.journal import Journal
from fitter.errors import BudgetReached, RunError
from fitter.evidence.render import Rendered, render
from fitter.jsonio import sha256
from fitter.judge.passes import Item, PassResult, Plan, measure
from fitter.loop.deps import Team
from fitter.loop.steps.context import Fit, Version
from fitter.records import Pass, Row, RowReason
from fitter.scoring.card import Card, card_of
from fitter.scoring.table import CardInput

# A stray answer from another model is an unusable pass; a larger share is another instrument (OUT-2).
MOST_WRONG_MODEL = 0.1


def render_rows(
    fit: Fit, version: Version, rows: Sequence[Row]
) -> tuple[dict[str, str], dict[str, RowReason], list[dict[str, Any]]]:
    """Renders rows before any call (EV-6, EV-7).

    Returns:
        Row id → user text; row id → why it is excluded; the tracked record of each row.
    """
    texts: dict[str, str] = {}
    excluded: dict[str, RowReason] = {}
    records: list[dict[str, Any]] = []
    for row in rows:
        made = render(fit.target, version.prompt, version.evidence, row, fit.framing)
        record: dict[str, Any] = {"row": row.id, "fields": dict(made.states)}
        if isinstance(made, Rendered):
            texts[row.id] = made.text
            record |= {"bytes": made.size, "sha256": sha256(made.text)}
            if made.truncated:
                record["truncated"] = list(made.truncated)
        else:
            excluded[row.id] = made.reason
            record |= {"excluded": made.reason, "detail": made.detail}
        records.append(record)
    return texts, excluded, records


def texts_of(fit: Fit, version: Version) -> dict[str, str]:
    """Train row id → the text that was judged, rendered again (rendering is pure)."""
    return render_rows(fit, version, fit.train)[0]


def measure_version(
    fit: Fit,
    version: Version,
    rows: Sequence[Row],
    *,
    name: str,
    phase: str,
    groups: Mapping[str, str] | None,
) -> Card:
    """Runs a version on rows, retains renders, passes and card under ``name``.

    Args:
        fit: the fit.
        version: prompt and map.
        rows: labelled rows.
        name: artefact stem, e.g. ``003`` or ``holdout-v0``.
        phase: what the calls are for, in the ledger.
        groups: row id → group.

    Raises:
        Outage, BudgetReached: resumable; nothing of this version is scored.
    """
    given = judged(fit, version, rows, name=name, phase=phase, groups=groups)
    return score_version(fit, version, given, name=name)


def score_version(fit: Fit, version: Version, given: CardInput, *, name: str) -> Card:
    """Scores what a version gave, and retains the card."""
    card = card_of(fit.fixed, given)
    fit.store.write(f"cards/{name}.json", {"version": version.number, "card": card.to_json()})
    return card


def judged(
    fit: Fit,
    version: Version,
    rows: Sequence[Row],
    *,
    name: str,
    phase: str,
    groups: Mapping[str, str] | None,
    plan: Callable[[CardInput], Plan] | None = None,
) -> CardInput:
    """What a version gave on rows: read back when it was retained, else measured now.

    Args:
        plan: given the rows, with those that cannot be judged and no pass yet, what to ask in which order; None asks
            for every pass at once.
    """
    if fit.store.has(f"passes/{name}.jsonl"):
        return card_input(fit, name, rows, groups)
    texts, excluded, records = render_rows(fit, version, rows)
    fit.store.write_rows(f"renders/{name}.jsonl", records)
    items = [Item(row=row.id, user_text=texts[row.id]) for row in rows if row.id in texts]
    given = CardInput(labels={r.id: r.label for r in rows}, passes=(), groups=groups, excluded=excluded)
    result = run(fit, version, items, phase=phase, plan=None if plan is None else plan(given))
    fit.store.write_passes(name, result.passes)
    return replace(given, passes=result.passes)


def excluded_of(fit: Fit, name: str) -> dict[str, RowReason]:
    """Rows that were never judged, from the retained renders."""
    return {r["row"]: r["excluded"] for r in fit.store.read_rows(f"renders/{name}.jsonl") if "excluded" in r}


def run(
    fit: Fit,
    version: Version,
    items: Sequence[Item],
    *,
    phase: str,
    runs: int | None = None,
    plan: Plan | None = None,
) -> PassResult:
    """One phase of judge calls, journaled, within the budget."""
    deps, settings = fit.deps, fit.settings
    team = fit.team
    most = "" if plan is None else "at most "
    deps.progress.phase(f"{phase}: {len(items)} rows x {most}{runs or settings.runs} passes with {team.judge.spec}")
    with Journal(deps.workspace.journal) as journal:
        budget = open_budget(settings, journal, fit.store.run_id, "judge")
        try:
            result = measure(
                client=team.judge,
                prompt=version.prompt,
                items=items,
                runs=runs or settings.runs,
                settings=team.model_settings,
                journal=journal,
                run_id=fit.store.run_id,
                phase=phase,
                concurrency=settings.concurrency,
                budget=budget,
                accepted_models=accepted_models(team),
                on_progress=deps.progress.passes,
                plan=plan,
            )
        except BudgetReached:
            fit.store.event("budget", phase=phase, overrun=[] if budget is None else list(budget.overrun))
            raise
    fit.store.event("phase", phase=phase, made=result.made, reused=result.reused)
    if result.instrument_changed:
        raise RunError(
            f"the instrument changed during {phase}: the model, its schema mode or its parameters are not those of the "
            "versions measured before, so nothing can be compared with them",
            hint="pin the model's dated name, then start a new fit",
        )
    others = sum(p.unusable == "wrong_model" for p in result.passes)
    if others > MOST_WRONG_MODEL * len(result.passes):
        raise RunError(
            f"another model answered {others} of {len(result.passes)} passes during {phase}, so what was measured "
            "before cannot be compared with what would be measured now",
            hint="pin the model's dated name, or list the names that are one model to you under accepted_models; then "
            "start a new fit",
        )
    return result


def accepted_models(team: Team) -> tuple[str, ...]:
    """Model names that may answer for the asked one: those the user accepted, and the one seen in the probe."""
    names = list(team.judge.identity.get("accepted_models", ()))
    instrument = team.judge.identity.get("instrument")
    if isinstance(instrument, Mapping) and isinstance(instrument.get("model_returned"), str):
        names.append(instrument["model_returned"])
    return tuple(dict.fromkeys(names))


def card_input(fit: Fit, name: str, rows: Sequence[Row], groups: Mapping[str, str] | None) -> CardInput:
    """What a retained version gave, for decisions."""
    return CardInput(
        labels={r.id: r.label for r in rows},
        passes=fit.store.read_passes(name, fit.label.kind),
        groups=groups,
        excluded=excluded_of(fit, name),
    )


def standing(card: Card) -> dict[str, Any]:
    """Row id → standing vote."""
    return {v.row: v.value for v in card.votes if v.value is not None}


def same_for_all(passes: Sequence[Pass]) -> bool:
    """True when every usable pass gives the same answer."""
    return len({p.label for p in passes if p.label is not None}) <= 1
