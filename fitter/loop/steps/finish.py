"""The one opening of the holdout, planted orders, the report, and the disabled evaluator read back and listed."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from fitter.calls.budget import prices_by_role
from fitter.calls.journal import Journal
from fitter.calls.ledger import ledger_rows
from fitter.holdout import OpenedHoldout, open_holdout
from fitter.jsonio import digest
from fitter.judge.passes import Item
from fitter.judge.probes import injection_probes, with_probe
from fitter.labels import LabelValue, same, text
from fitter.loop.decide import decide as keep_rule
from fitter.loop.deps import Deps
from fitter.loop.state import State
from fitter.loop.steps.context import Fit, Version, number
from fitter.loop.steps.deciding import accept, min_delta_of
from fitter.loop.steps.measuring import card_input, judged, measure_version, run, standing, texts_of
from fitter.loop.steps.platform import opened_publisher, write_deployed
from fitter.loop.steps.prepare import label_rows
from fitter.publishing.publisher import EvaluatorSpec, Publisher
from fitter.publishing.verify import Receipt, publish_and_verify, receipt_folder
from fitter.report.facts import gather
from fitter.report.markdown import render
from fitter.scoring.card import card_of
from fitter.scoring.optimism import selection_optimism
from fitter.scoring.table import tabulate

INJECTION_ROWS_PER_ANSWER = 3
MOST_ANSWERS = 4  # numeric and multi-select labels have many: a few are enough


def holdout(deps: Deps, state: State) -> dict[str, Any]:
    """Opens the holdout once, for v0 and the winner declared beforehand (SP-5, SP-6). Nothing is chosen from it."""
    fit = Fit.of(deps, state)
    if fit.store.has("holdout.json"):
        return {}
    split = fit.store.read("split.json")
    v0, winner = fit.version(state["v0"]), fit.version(state["best"])
    reason = split["reason"] if not split["scored"] else None
    if reason is None and ending_of(fit, state) is not None:
        # Nothing will be published, whatever the held-out rows would say: they stay unseen for a later fit.
        reason = "no evaluator will be created, so the holdout stays sealed for a later fit"
    if reason is not None:
        fit.store.write("holdout.json", {"opened": False, "reason": reason})
        return {}
    deps.progress.phase("holdout: opened once, for v0 and the winner")
    opened = open_for(fit, winner)
    labels = label_rows(opened.rows)
    groups = {r["id"]: r["group"] for r in labels}
    fit.store.write_rows("labels/holdout.jsonl", labels)
    measure_version(fit, winner, opened.rows, name="holdout-winner", phase="holdout:winner", groups=groups)
    improvement = None
    if v0.number != winner.number:
        measure_version(fit, v0, opened.rows, name="holdout-v0", phase="holdout:v0", groups=groups)
        first = judged(fit, v0, opened.rows, name="holdout-v0", phase="holdout:v0", groups=groups)
        last = judged(fit, winner, opened.rows, name="holdout-winner", phase="holdout:winner", groups=groups)
        # The keep rule's figures, for the record only: nothing is decided here.
        compared = keep_rule(fit.fixed, best=first, candidate=last, v0=first, min_delta=min_delta_of(fit))
        improvement = compared.to_json()
    fit.store.write(
        "holdout.json",
        {
            "opened": True,
            "rows": len(opened.rows),
            "exposure": opened.exposure or _seen_before(split, len(opened.rows)),
            "v0": v0.number,
            "winner": winner.number,
            "improvement": improvement,
        },
    )
    return {}


def _seen_before(split: Mapping[str, Any], rows: int) -> str:
    """What figures on rows are called that another seal of the workspace has shown already (SP-5)."""
    if not split["elsewhere"]:
        return ""
    seen, where = split["elsewhere"]
    return f"exposed holdout, {seen} of its {rows} rows were seen before under {where}"


def open_for(fit: Fit, winner: Version) -> OpenedHoldout:
    """The opening for this winner; a run that made it may read the rows again (SP-5)."""
    split = fit.store.read("split.json")
    return open_holdout(
        fit.deps.workspace,
        split["seal"],
        snapshot=split["snapshot"],
        run=fit.store.run_id,
        config_hash=fit.config["config_hash"],
        winner_hash=digest([winner.prompt.hash, winner.evidence.hash]),
        on=datetime.datetime.now(datetime.UTC).date().isoformat(),
        exposed=fit.settings.exposed_holdout,
    )


def injection(deps: Deps, state: State) -> dict[str, Any]:
    """Plants orders in a few train rows and looks whether the winner obeys (IN-3)."""
    fit = Fit.of(deps, state)
    if fit.store.has("injection.json"):
        return {}
    winner = fit.version(state["best"])
    given = card_input(fit, number(winner.number), fit.train, fit.groups)
    votes = standing(card_of(fit.fixed, given))
    texts = texts_of(fit, winner)
    rows = _probed(votes, texts)
    findings, asked = [], 0
    for probe in injection_probes():
        orders = {row: _other(fit, votes[row]) for row in rows}
        items = [
            Item(
                row=row,
                user_text=with_probe(texts[row], winner.prompt.nonce, probe.order(orders[row], winner.prompt.contract)),
            )
            for row in rows
        ]
        result = run(fit, winner, items, phase=f"injection:{probe.id}", runs=1)
        asked += len(items)
        for made in result.passes:
            if made.label is not None and same(made.label, orders[made.row]):
                findings.append({"row": made.row, "probe": probe.id, "kind": probe.kind,
                                 "vote": text(votes[made.row]), "obeyed": text(made.label)})  # fmt: skip
    fit.store.write("injection.json", {"rows": rows, "asked": asked, "findings": findings})
    return {}


def _probed(votes: Mapping[str, LabelValue], texts: Mapping[str, str]) -> list[str]:
    """The first rows of each answer, so that orders are planted against every verdict."""
    taken: dict[str, list[str]] = {}
    for row in sorted(votes):
        same_answer = taken.setdefault(text(votes[row]), [])
        if row in texts and len(same_answer) < INJECTION_ROWS_PER_ANSWER and len(taken) <= MOST_ANSWERS:
            same_answer.append(row)
    return sorted(row for rows in taken.values() for row in rows)


def _other(fit: Fit, vote: LabelValue) -> LabelValue:
    """An answer that differs from the vote, for a planted order."""
    if fit.label.kind == "numeric":
        low, high = fit.fixed.low or 0.0, fit.fixed.high or 1.0
        return high if abs(float(vote) - low) <= abs(float(vote) - high) else low  # type: ignore[arg-type]
    for name in fit.label.classes:
        value: LabelValue = frozenset([str(name)]) if fit.label.kind == "multiselect" else name
        if not same(value, vote):
            return value
    return vote


def ending_of(fit: Fit, state: State) -> str | None:
    """Why the run finishes without an evaluator (PU-2), or None."""
    if state.get("gate"):
        return "gate"
    if state.get("ending"):
        return state["ending"]
    kept = {state["v0"], *(d for d in _kept(fit))}
    for version in sorted(kept):
        if card_of(fit.fixed, card_input(fit, number(version), fit.train, fit.groups)).beats_constant:
            return None
    return "not_better_than_constant"


def _kept(fit: Fit) -> list[int]:
    found = []
    for name in fit.store.names("decisions"):
        record = fit.store.read(f"decisions/{name}.json")
        if record["attempt"]["outcome"] == "kept":
            found.append(record["candidate"])
    return found


def report(deps: Deps, state: State) -> dict[str, Any]:
    """Writes the ledger and the report, and says whether an evaluator will be created (PU-2)."""
    fit = Fit.of(deps, state)
    deps.progress.phase("report")
    if not fit.store.has("ledger.jsonl"):
        with Journal(deps.workspace.journal) as journal:
            fit.store.write_rows(
                "ledger.jsonl", ledger_rows(journal.calls(fit.store.run_id), prices=prices_by_role(fit.settings))
            )
    ending = ending_of(fit, state)
    if state.get("v0") is not None:
        _write_optimism(fit, state)
    fit.store.write(
        "result.json",
        {"ending": ending, "gate": state.get("gate"), "v0": state.get("v0"), "winner": state.get("best"),
         "versions": state.get("versions", 0)},
    )  # fmt: skip
    if ending is None:
        accept(fit, state["best"])
    write_report(fit)
    if ending is not None:
        fit.store.write_manifest()
    return {"ending": ending}


def _write_optimism(fit: Fit, state: State) -> None:
    """What selection alone could have gained on these rows, beside every train figure (SP-1)."""
    if not fit.store.has("optimism.json"):
        given = card_input(fit, number(state["v0"]), fit.train, fit.groups)
        candidates = max(0, state.get("versions", 1) - 1)
        made = selection_optimism(fit.fixed, tabulate(fit.fixed, given), candidates=candidates)
        fit.store.write("optimism.json", made.to_json())


def write_report(fit: Fit) -> None:
    """Gathers what is true of the run and renders it, as far as the run got."""
    facts = gather(fit.store)
    fit.store.write_report(render(facts))
    if fit.deps.with_text:
        from fitter.report.markdown import render_text

        fit.store.write_report(render_text(facts, fit.store), name="report-with-text.md", private=True)


def evaluator_spec(fit: Fit, version_number: int) -> EvaluatorSpec:
    """The evaluator to publish: the measured prompt, to the byte."""
    version = fit.version(version_number)
    settings = fit.settings
    return EvaluatorSpec(
        name=settings.name or "",
        app=settings.app or "",
        scope=fit.scope,
        system=version.prompt.system,
        user_template=version.prompt.user_template,
        contract=version.prompt.contract,
        judge=settings.judge or "",
        pass_labels=settings.datadog.pass_labels if settings.datadog else (),
        metadata={
            "run": fit.store.run_id,
            "config_hash": fit.config["config_hash"],
            "prompt_hash": version.prompt.hash,
            "map_hash": version.evidence.hash,
            "nonce": version.prompt.nonce,
            "version": str(version.number),
        },
    )


def publish(deps: Deps, state: State) -> dict[str, Any]:
    """Writes the disabled evaluator and proves that it is there (PU-1, PU-3, PU-4). Idempotent."""
    fit = Fit.of(deps, state)
    if fit.store.has("receipt.json"):  # it exists only once everything was read back; `fitter publish` may have done it
        return {}
    deps.progress.phase(f"publish to {fit.settings.publish_to}, disabled")
    with opened_publisher(deps, fit.settings) as publisher:
        publish_version(fit, state["best"], publisher)
    return {}


def publish_version(fit: Fit, winner: int, publisher: Publisher) -> Receipt:
    """Publishes a version, and retains in the run what was published where."""
    spec = evaluator_spec(fit, winner)
    receipt = publish_and_verify(
        publisher,
        spec,
        receipt_dir=receipt_folder(fit.deps.workspace, publisher.name, spec.name, fit.store.run_id),
        run_id=fit.store.run_id,
    )
    held_out = open_for(fit, fit.version(winner)).rows if fit.store.read("holdout.json")["opened"] else ()
    write_deployed(fit, publisher, spec, receipt.folder, winner=winner, held_out=held_out)
    if not fit.store.has("receipt.json"):
        fit.store.write("receipt.json", {"receipt": receipt.to_json()})
    return receipt


def verify(deps: Deps, state: State) -> dict[str, Any]:
    """Reads the receipt back into the final report, and hashes every artefact."""
    fit = Fit.of(deps, state)
    write_report(fit)
    fit.store.write_manifest()
    return {"ending": "published"}
