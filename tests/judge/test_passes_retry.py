"""The retry state machine and the model match: pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.clients.base import ModelSettings
from fitter.judge.prompt import request
from fitter.judge.retry import DEFAULT_RAISED_CAP, FINAL, model_matches, next_request, read_reply, to_pass
from fitter.judge.verdict import Fault, Verdict, parse_verdict
from fitter.records import Pass
from tests.judge.passes_kit import BAD, GOOD, a_contract, a_prompt, items_for

CONTRACT = a_contract()
PROMPT = a_prompt()
FIRST = request(PROMPT, items_for(PROMPT, 1)[0].user_text, ModelSettings())
ENVELOPE = ("incomplete", "length", "refusal", "content_filter", "tool_call", "context_overflow", "bad_envelope")
TEXTS = (GOOD, BAD, "", " \n", "```json\n" + GOOD + "\n```", GOOD + GOOD, '{"reasoning":"x"', "\ud800", "{" * 5000)


def read(outcome: str, text: str, model: str | None = "model-x") -> Verdict | Fault:
    return read_reply(
        outcome=outcome,  # type: ignore[arg-type]
        text=text,
        model=model,
        asked="model-x",
        accepted=(),
        contract=CONTRACT,
    )


@pytest.mark.parametrize("outcome", [*ENVELOPE, "unavailable"])
def test_out2_the_envelope_decides_whatever_the_text_says(outcome: str) -> None:
    reading = read(outcome, GOOD)
    assert isinstance(reading, Fault)
    assert reading.reason == outcome


def test_out2_a_verdict_of_another_model_is_unusable() -> None:
    reading = read("ok", GOOD, "model-y")
    assert isinstance(reading, Fault)
    assert reading.reason == "wrong_model"
    assert isinstance(read("ok", GOOD), Verdict)


@pytest.mark.parametrize(
    ("asked", "returned", "fits"),
    [
        ("gpt-5.4-mini", "gpt-5.4-mini", True),
        ("gpt-5.4-mini", "gpt-5.4-mini-2026-03-01", True),
        ("claude-x", "claude-x-20260301", True),
        ("claude-x", "claude-x@20260301", True),
        ("gpt-4", "gpt-4-0613", True),
        ("gpt-4", "gpt-4-1332", False),
        ("gpt-5.4", "gpt-5.4-mini", False),
        ("gpt-5.4", "gpt-5.4-mini-2026-03-01", False),
        ("gpt-5.4-mini", "gpt-5.4", False),
        ("gpt-5.4-mini", "gpt-5.4-mini-2026-13-01", False),
        ("gpt-5.4-mini", "gpt-5.4-mini-preview", False),
        ("gpt-5.4-mini", "gpt-5.4-mini-2026-03-01\n", False),
        ("gpt-5.4-mini", "", False),
        ("gpt-5.4-mini", "openai/gpt-5.4-mini", False),
        ("local.gguf", None, True),
    ],
)
def test_out2_model_match(asked: str, returned: str | None, fits: bool) -> None:
    assert model_matches(asked, returned) is fits
    if returned is not None:
        assert model_matches(asked, returned, [returned])


@pytest.mark.parametrize(("asked_cap", "raised"), [(None, DEFAULT_RAISED_CAP), (300, 600)])
def test_out2_a_length_stop_retries_the_same_request_with_a_larger_cap(asked_cap: int | None, raised: int) -> None:
    first = FIRST if asked_cap is None else FIRST.with_cap(asked_cap)
    retry = next_request(first, 1, Fault(reason="length"), '{"reason', CONTRACT)
    assert retry is not None
    assert retry.messages == first.messages
    assert retry.settings.max_output_tokens == raised


@pytest.mark.parametrize("reason", sorted(FINAL))
def test_out2_no_second_question_after(reason: str) -> None:
    assert next_request(FIRST, 1, Fault(reason=reason), GOOD, CONTRACT) is None  # type: ignore[arg-type]


def test_out1_the_retry_tells_the_judge_what_was_wrong() -> None:
    fenced = "```json\n" + GOOD + "\n```"
    retry = next_request(FIRST, 1, read("ok", fenced), fenced, CONTRACT)
    assert retry is not None
    assert retry.messages[:2] == FIRST.messages
    assert [(m.role, m.text) for m in retry.messages[2:3]] == [("assistant", fenced)]
    assert retry.messages[3].role == "user"
    assert "fence" in retry.messages[3].text


def test_out1_an_empty_answer_is_not_quoted_back() -> None:
    retry = next_request(FIRST, 1, read("ok", " \u200b"), " \u200b", CONTRACT)
    assert retry is not None
    assert [m.role for m in retry.messages] == ["system", "user", "user"]


def test_lesson16_a_lone_surrogate_in_an_answer_does_not_break_the_retry() -> None:
    retry = next_request(FIRST, 1, read("ok", "verdict: \ud800"), "verdict: \ud800", CONTRACT)
    assert retry is not None
    assert b"verdict: \xef\xbf\xbd" in retry.to_bytes()


def test_a_huge_answer_is_quoted_in_part() -> None:
    text = "x" * 5_000_000
    retry = next_request(FIRST, 1, read("ok", text), text, CONTRACT)
    assert retry is not None
    assert len(retry.to_bytes()) < 20_000


attempts = st.tuples(
    st.sampled_from(("ok", "ok", *ENVELOPE, "unavailable")), st.sampled_from(TEXTS), st.sampled_from(("model-x", "y"))
)


@given(first=attempts, second=attempts)
def test_out1_retry_machine_against_its_rules(first: tuple[str, str, str], second: tuple[str, str, str]) -> None:
    """An independent statement of the rules: at most two attempts, the last one decides, each end has its reason."""
    readings = [read(*first)]
    retry = next_request(FIRST, 1, readings[0], first[1], CONTRACT)
    envelope_only = {"refusal", "content_filter", "context_overflow", "unavailable"}
    usable = first[0] == "ok" and first[2] == "model-x" and isinstance(parse_verdict(first[1], CONTRACT), Verdict)
    final = first[0] in envelope_only or (first[0] == "ok" and first[2] != "model-x")
    assert (retry is None) == (usable or final)
    if retry is not None:
        assert retry != FIRST
        retry.to_bytes()
        readings.append(read(*second))
        assert next_request(FIRST, 2, readings[1], second[1], CONTRACT) is None
    made = to_pass("r", 0, readings)
    assert made.attempts == len(readings)
    last, (outcome, text, model) = readings[-1], first if retry is None else second
    assert (made.label is None) == isinstance(last, Fault)
    if outcome != "ok":
        assert made.unusable == outcome
    elif model != "model-x":
        assert made.unusable == "wrong_model"
    else:
        parsed = parse_verdict(text, CONTRACT)
        assert made.unusable == (parsed.reason if isinstance(parsed, Fault) else None)
    assert made.first_fault == (readings[0].reason if retry is not None else None)  # type: ignore[union-attr]


def test_a_pass_has_one_or_two_attempts() -> None:
    with pytest.raises(ValueError):
        to_pass("r", 0, [])
    with pytest.raises(ValueError):
        to_pass("r", 0, [Fault(reason="fenced")] * 3)
    assert to_pass("r", 1, [Fault(reason="fenced"), Fault(reason="not_json")]) == Pass(
        row="r", run=1, unusable="not_json", attempts=2, first_fault="fenced"
    )
