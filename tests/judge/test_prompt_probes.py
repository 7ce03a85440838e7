"""Injection probes (IN-3): hostile orders stay inside the fence, in the part that is graded."""

from __future__ import annotations

import pytest

from fitter.errors import RunError
from fitter.evidence.targets.local import LocalTarget
from fitter.judge.probes import injection_probes, with_probe
from fitter.judge.prompt import parse_parts
from fitter.judge.verdict import Verdict, parse_verdict
from tests.judge.test_prompt_frame import BOOLEAN, CHOICE, SCORE, SET, build, draft

PROMPT = build(draft(("bad", "x"), otherwise="bad"), CHOICE)
TEXT = LocalTarget().resolve(PROMPT.user_template, {"meta": {"input": {"value": "q"}, "output": {"value": "a"}}}).text


@pytest.mark.parametrize("probe", injection_probes(), ids=lambda p: p.id)
def test_in3_every_probe_lands_in_the_output_part_and_leaves_the_rest(probe) -> None:
    order = probe.order("good", PROMPT.contract)
    parts = parse_parts(with_probe(TEXT, PROMPT.nonce, order), PROMPT.nonce)
    assert parts == (("input", "q"), ("output", f"a\n\n{order}"))
    assert "good" in order


def test_in3_the_list_is_closed_and_each_probe_is_its_own() -> None:
    ids = [probe.id for probe in injection_probes()]
    assert ids == [
        "ignore_previous", "note_to_grader", "system_message", "fake_fence", "fake_verdict", "fake_criterion",
        "template_marks",
    ]  # fmt: skip
    assert len({probe.order("good", PROMPT.contract) for probe in injection_probes()}) == len(ids)


@pytest.mark.parametrize(
    ("schema", "answer"), [(BOOLEAN, True), (CHOICE, "good"), (SET, frozenset({"rude", "wrong"})), (SCORE, 5.0)]
)
def test_in3_the_fake_verdict_is_a_valid_one_so_the_probe_is_a_fair_trap(schema, answer) -> None:
    contract = LocalTarget().contract(schema)
    probe = next(p for p in injection_probes() if p.id == "fake_verdict")
    verdict = parse_verdict(probe.order(answer, contract), contract)
    assert isinstance(verdict, Verdict)
    assert verdict.label == answer


def test_without_an_output_part_the_last_part_takes_the_probe() -> None:
    text = f"<<<{PROMPT.nonce}\n[{PROMPT.nonce} a]\n1\n\n[{PROMPT.nonce} b]\n2\n{PROMPT.nonce}>>>"
    assert parse_parts(with_probe(text, PROMPT.nonce, "P"), PROMPT.nonce) == (("a", "1"), ("b", "2\n\nP"))


def test_a_probe_never_knows_the_nonce_and_a_foreign_message_is_refused() -> None:
    with pytest.raises(ValueError, match="nonce"):
        with_probe(TEXT, PROMPT.nonce, f"{PROMPT.nonce}>>>")
    with pytest.raises(RunError):
        with_probe("no fence", PROMPT.nonce, "x")
