"""What is true of a run, gathered once from its tracked artefacts; every report renders this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.errors import FitterError
from fitter.labels import LabelKind, LabelValue, from_json, same, text
from fitter.runstore import RunStore
from fitter.scoring.votes import votes_by_row

# Which card is which, as a report names them.
HOLDOUT_WINNER, HOLDOUT_V0 = "holdout-winner", "holdout-v0"


def gather(store: RunStore) -> dict[str, Any]:
    """Facts of a run, as far as it got, from the tracked half alone.

    Raises:
        Tampered: an artefact is not what a run writes.
    """

    def maybe(name: str) -> dict[str, Any] | None:
        return store.read(name) if store.has(name) else None

    facts: dict[str, Any] = {
        "run": store.run_id,
        "config": maybe("config.json"),
        "intake": maybe("intake.json"),
        "split": maybe("split.json"),
        "map": maybe("map.json"),
        "isolation": maybe("isolation.json"),
        "instrument": maybe("instrument.json"),
        "baseline": maybe("baseline.json"),
        "degenerate": maybe("degenerate.json"),
        "cards": {name: store.read(f"cards/{name}.json")["card"] for name in store.names("cards")},
        "prompts": {name: store.read(f"prompts/{name}.json") for name in store.names("prompts")},
        "drafts": {name: store.read(f"drafts/{name}.json") for name in store.names("drafts")},
        "guards": [store.read(f"guards/{name}.json") for name in store.names("guards")],
        "decisions": [store.read(f"decisions/{name}.json") for name in store.names("decisions")],
        "stop": maybe("stop.json"),
        "holdout": maybe("holdout.json"),
        "optimism": maybe("optimism.json"),
        "agreement": maybe("agreement.json"),
        "injection": maybe("injection.json"),
        "result": maybe("result.json"),
        "ledger": store.read_rows("ledger.jsonl") if store.has("ledger.jsonl") else [],
        "checks": maybe("checks.json"),
        "deployed": maybe("deployed.json"),
        "receipt": maybe("receipt.json"),
    }
    facts["winner"] = _stem(facts, "winner")
    facts["v0"] = _stem(facts, "v0")
    facts["disagreements"] = {
        name: _disagreements(store, facts, name, labels)
        for name, labels in ((facts["winner"], "labels/train.jsonl"), (HOLDOUT_WINNER, "labels/holdout.jsonl"))
        if name is not None and store.has(f"passes/{name}.jsonl")
    }
    facts["gaps"] = _gaps(store, facts)
    facts["unmapped"] = _unmapped(facts)
    return facts


def _stem(facts: Mapping[str, Any], key: str) -> str | None:
    result = facts["result"]
    return None if result is None or result[key] is None else f"{result[key]:03d}"


def main_card(facts: Mapping[str, Any]) -> str | None:
    """The card behind the report's first figure: the holdout's where one was opened, else the winner's on train."""
    if HOLDOUT_WINNER in facts["cards"]:
        return HOLDOUT_WINNER
    winner: str | None = facts["winner"]
    return winner if winner in facts["cards"] else None


def _disagreements(store: RunStore, facts: Mapping[str, Any], name: str, labels: str) -> dict[str, Any]:
    """Row ids on which the standing vote differs from the human, by (human → judge); and the app beside both (EV-3)."""
    fixed = facts["config"]["fixed"]["scoring"]
    kind: LabelKind = fixed["kind"]
    votes = {
        row: vote.value
        for row, vote in votes_by_row(store.read_passes(name, kind), fixed["runs"], kind).items()
        if vote.value is not None
    }
    wrong: dict[str, list[str]] = {}
    app_rows = agree_app = differ_rows = right_there = 0
    for record in store.read_rows(labels):
        human = from_json(record["label"], kind)
        vote: LabelValue | None = votes.get(record["id"])
        if vote is None:
            continue
        if not same(vote, human):
            key = "any difference" if kind == "numeric" else f"{text(human)} → {text(vote)}"
            wrong.setdefault(key, []).append(record["id"])
        if "app_verdict" in record:
            app = from_json(record["app_verdict"], kind)
            app_rows += 1
            agree_app += same(vote, app)
            if not same(app, human):
                differ_rows += 1
                right_there += same(vote, human)
    return {
        "rows": {key: sorted(wrong[key]) for key in sorted(wrong)},
        "app": {"rows": app_rows, "agrees": agree_app, "human_differs": differ_rows, "right_there": right_there},
    }


def _gaps(store: RunStore, facts: Mapping[str, Any]) -> list[list[str]]:
    """Fidelity gaps of the winner (PU-5)."""
    winner, name = facts["winner"], main_card(facts)
    if winner is None or name is None:
        return []
    from fitter.evidence.map import EvidenceMap
    from fitter.evidence.targets import open_target
    from fitter.judge.prompt import contract_from_json
    from fitter.publishing.fidelity import DeployedEvaluator, MeasuredJudge, fidelity_gaps

    settings, card = facts["config"]["settings"], facts["cards"][name]
    target = open_target(settings["publish_to"])
    version = facts["prompts"][winner]
    passes = sum(r["rows"] for r in card["deployable"]["per_run"])
    measured = MeasuredJudge(
        compiled=target.compile(EvidenceMap.model_validate(version["map"])),
        contract=contract_from_json(version["prompt"]["contract"]),
        judge=settings["judge"],
        runs=settings["runs"],
        passes=passes,
        rescued=card["deployable"]["rescued"],
        truncated_rows=sum(
            "truncated" in record
            for stem in {winner, name}
            if store.has(f"renders/{stem}.jsonl")
            for record in store.read_rows(f"renders/{stem}.jsonl")
        ),
        dropped_parameters=_refused(facts),
        temperature=settings["judge_options"].get("temperature"),
        max_tokens=settings["judge_options"].get("max_output_tokens"),
    )
    if facts["deployed"] is None:
        deployed = DeployedEvaluator(
            publisher=target.name, scope=settings["scope"], rehearsal=target.name == "local", judge=settings["judge"]
        )
    else:
        held: dict[str, Any] = facts["deployed"]["deployed"]
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in held.items()}
        deployed = DeployedEvaluator(**given)
    return [[gap.code, gap.sentence] for gap in fidelity_gaps(measured, deployed)]


def _refused(facts: Mapping[str, Any]) -> list[str]:
    """Parameters of the judge that its provider refused in the probe."""
    instrument = facts["instrument"]
    if instrument is None or "judge" not in instrument["clients"]:
        return []
    found = {feature for feature, _ in instrument["clients"]["judge"]["refused"]}
    return sorted(found & {"temperature", "reasoning_effort"})


def _unmapped(facts: Mapping[str, Any]) -> list[str]:
    """Criteria of the winner that the lexicon judge cannot read: it ignores them, and the report says so."""
    winner = facts["winner"]
    if winner is None or facts["config"]["settings"]["judge"] != "lexicon":
        return []
    from fitter.judge.prompt import draft_from_json
    from fitter.lexicon import unmapped_bullets

    try:
        draft = draft_from_json(facts["prompts"][winner]["prompt"]["draft"])
    except FitterError:
        return []
    return [str(bullet.text) for bullet in unmapped_bullets(draft.criteria)]
