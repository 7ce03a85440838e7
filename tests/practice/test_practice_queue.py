"""The practice queue holds every kind of row that the product has a rule for, and can be learnt, but not by heart."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from functools import cache
from importlib import resources
from typing import Any

import jsonschema
import pytest

from fitter import labels
from fitter.clients.base import ModelSettings
from fitter.errors import UserError
from fitter.evidence.isolation import prove_isolation
from fitter.evidence.map import EvidenceMap
from fitter.evidence.propose_map import propose_map
from fitter.evidence.render import Rendered, build_clear_prompt, render
from fitter.evidence.targets.local import LocalTarget
from fitter.judge.prompt import request
from fitter.judge.verdict import Verdict, parse_verdict
from fitter.lexicon import LexiconClient, LexiconDescriber, LexiconDrafter, LexiconProposer
from fitter.loop.census import target_bucket
from fitter.loop.guard import Corpus, check_draft
from fitter.loop.propose import apply, describe
from fitter.queues.intake import Intake, intake
from fitter.queues.registry import open_source
from fitter.records import Attempt, Draft, DraftBrief, ErrorRow, LabelledReason, ProposalBrief

LABEL = "k4p1"
TARGET = LocalTarget()


@cache
def bundle() -> dict[str, Any]:
    text = (resources.files("fitter.practice") / "queue.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value


@cache
def taken() -> Intake:
    return intake(open_source("practice").read(), label=LABEL)


def test_it_is_a_bundle_and_nothing_but_data() -> None:
    schema = json.loads((resources.files("fitter.queues") / "bundle.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(bundle())
    assert 100 <= len(bundle()["interactions"]) <= 140
    text = (resources.files("fitter.practice") / "queue.json").read_text(encoding="utf-8")
    assert not set(text) & set("\u202a\u202b\u202d\u202e\u202c\u200b"), "hidden characters stand as escapes"


def test_gt4_gt9_every_kind_of_row_is_counted_under_its_reason() -> None:
    found = taken()
    assert {reason: len(ids) for reason, ids in found.excluded.items()} == {
        "declined": 2,
        "pending": 6,
        "empty_label": 3,
        "unresolvable": 4,
        "off_schema": 1,
        "contested": 4,
    }
    assert found.read == 120 == len(found.rows) + 20
    assert found.class_counts == {"follows": 53, "breaks": 47}
    assert found.gate.passed
    assert len(found.adjudicated) == 3
    assert found.counts["collapsed_duplicates"] == 2
    assert found.counts["duplicate_content"] == 3


def test_gt4_contested_is_never_majority_and_adjudication_keeps_the_originals() -> None:
    rows = {row.id: row for row in taken().rows}
    assert not set(taken().excluded["contested"]) & set(rows)
    settled = [rows[i] for i in taken().adjudicated]
    assert Counter(labels.text(r.label) for r in settled) == {"follows": 2, "breaks": 1}
    assert all(sorted(r.original_labels) == ["breaks", "follows"] for r in settled)
    own = [
        i for i in bundle()["interactions"] if i["id"] in taken().excluded["contested"]
        and len({a["created_by"] for a in i["annotations"]}) == 1
    ]  # fmt: skip
    assert len(own) == 1, "one reviewer disagrees with themselves"


def test_gt5_the_label_is_addressed_by_its_id() -> None:
    entries = [
        (entry.get("label_schema_id"), entry.get("name_when_saved"))
        for i in bundle()["interactions"]
        for a in i.get("annotations") or []
        if isinstance(a["label_values"], list)
        for entry in a["label_values"]
    ]
    assert (LABEL, "reply_ok") in entries, "saved under an older name"
    assert ("c0m7", "policy_verdict") in entries, "another label saved under this one's name"
    assert intake(open_source("practice").read(), label="policy_verdict").rows == taken().rows
    assert intake(open_source("practice").read(), label="tone").label.kind == "numeric"
    with pytest.raises(UserError, match="free text"):
        intake(open_source("practice").read(), label="comment")


def test_gt6_wrong_expected_outputs_are_findings() -> None:
    assert taken().expected_output.rows >= 20
    assert len(taken().expected_output.differs) == 5
    assert len(taken().app.differs) >= 10, "the app's own verdict is a copy of nobody"


def test_ev3_the_apps_verdict_stands_in_fields_that_are_named() -> None:
    rows = taken().rows
    assert all(row.app_fields for row in rows)
    assert any(("s1", "meta.metadata.self_check") in row.app_fields for row in rows), "in another span too"
    private = sum("evaluation" in row.content["traces"][0]["spans"][0] for row in rows)
    assert private >= 5, "an earlier evaluator's verdict that no judge may see"


@pytest.mark.parametrize("framing", ["grader", "replicator"])
def test_ev5_no_private_field_reaches_the_judge(framing: Any) -> None:
    evidence = propose_map(taken().rows, None, TARGET, framing)
    draft = _draft(evidence)
    prompt = build_clear_prompt(TARGET, draft, TARGET.contract(taken().label), evidence, taken().rows, framing)
    prove_isolation(TARGET, prompt, evidence, taken().rows, framing, ModelSettings())


def test_some_replies_give_orders_to_the_judge() -> None:
    outputs = [row.content["traces"][0]["spans"][0]["meta"]["output"]["value"] for row in taken().rows]
    for mark in ("GRADER", '"label": "follows"', "{{span_output}}", "<<<0000", "</output>", "\u202e", "maintenance"):
        assert sum(mark in output for output in outputs) >= 1, mark


def _draft(evidence: EvidenceMap) -> Draft:
    reasons = tuple(
        LabelledReason(row=row.id, label=labels.text(row.label), reason=reason)
        for row in taken().rows
        for reason in row.reasons
    )
    brief = DraftBrief(
        label=taken().label,
        goal="Catch replies that break the reply standard.",
        costly="breaks",
        framing="grader",
        notes="",
        reasons=reasons,
    )
    draft = LexiconDrafter().draft(brief)
    corpus = Corpus(
        row_ids=[row.id for row in taken().rows],
        payloads=_payloads(evidence),
        reasons=[r.reason for r in reasons],
        allowed=[taken().label.description, *taken().label.value_descriptions.values()],
    )
    assert check_draft(draft, corpus) == []
    return draft


def _payloads(evidence: EvidenceMap) -> list[str]:
    template = "\n".join(placeholder for _, placeholder in TARGET.compile(evidence).placeholders)
    found = [render(TARGET, template, evidence, row, "grader") for row in taken().rows]
    return [f.text for f in found if isinstance(f, Rendered)]


def _judged(draft: Draft, evidence: EvidenceMap) -> tuple[dict[str, str], list[ErrorRow]]:
    """Verdicts of run 0 on all usable rows, and the errors."""
    prompt = build_clear_prompt(TARGET, draft, TARGET.contract(taken().label), evidence, taken().rows, "grader")
    client = LexiconClient()
    verdicts: dict[str, str] = {}
    errors = []
    for row in taken().rows:
        shown = render(TARGET, prompt, evidence, row, "grader")
        assert isinstance(shown, Rendered)
        reply = asyncio.run(client.complete(request(prompt, shown.text), run=0))
        parsed = parse_verdict(reply.text, prompt.contract)
        assert isinstance(parsed, Verdict)
        human, judge = labels.text(row.label), labels.text(parsed.label)
        verdicts[row.id] = judge
        if human != judge:
            errors.append(
                ErrorRow(
                    row=row.id,
                    human=human,
                    judge=judge,
                    human_reasons=row.reasons,
                    judge_reasoning=parsed.reasoning,
                    evidence=shown.text,
                )
            )
    return verdicts, errors


def _balanced(verdicts: dict[str, str]) -> float:
    hits: Counter[str] = Counter()
    for row in taken().rows:
        hits[labels.text(row.label)] += verdicts[row.id] == labels.text(row.label)
    return sum(hits[c] / n for c, n in taken().class_counts.items()) / len(taken().class_counts)


def test_the_lexicon_learns_it_in_part_and_a_proposal_helps() -> None:
    """True labels follow the standard as people read it; cue words reach some of it."""
    evidence = propose_map(taken().rows, None, TARGET, "grader")
    draft = _draft(evidence)
    verdicts, errors = _judged(draft, evidence)
    first = best = _balanced(verdicts)
    attempts: list[Attempt] = []
    kept = 0
    for iteration in range(1, 7):
        buckets = LexiconDescriber().describe(errors)
        target = target_bucket(buckets, attempts)
        brief = ProposalBrief(
            draft=draft, label=taken().label, goal="", costly="breaks", notes="", buckets=tuple(buckets),
            target=target, errors=tuple(e for e in errors if e.row in target.rows), attempts=tuple(attempts),
            map_fields={f.name: f.path for f in evidence.fields},
        )  # fmt: skip
        change = LexiconProposer().propose(brief)
        if change is None:
            break
        candidate, _ = apply(change, draft, evidence, labels=("follows", "breaks"), new_id=f"c{100 + iteration}")
        tried, wrong = _judged(candidate, evidence)
        better = _balanced(tried) > best
        attempts.append(
            Attempt(iteration=iteration, bucket=target.name, change=describe(change),
                    outcome="kept" if better else "discarded", basis="")
        )  # fmt: skip
        if better:
            draft, errors, best, kept = candidate, wrong, _balanced(tried), kept + 1
    assert 0.55 < first < 0.85, "above the constant judge, below a judge that reads"
    assert kept >= 1
    assert 0.6 < best < 0.9
