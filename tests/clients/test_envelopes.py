"""The envelope is read before the text (OUT-2): every outcome, per wire format, and a fuzz of hostile envelopes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, get_args

import pytest

from fitter.clients.base import Usage
from fitter.clients.envelope import Envelope, read_chat, read_messages, read_responses
from fitter.judge.verdict import Verdict, parse_verdict
from fitter.records import UnusableReason
from fitter.textsafe import is_blank
from tests.clients.helpers import CONTRACT
from tests.servers import anthropic_api, openai_api

GOOD = '{"reasoning":"r","label":"good","confidence":1}'
READERS = {"chat": read_chat, "responses": read_responses, "messages": read_messages}


def chat(text: Any = GOOD, **model: Any) -> dict[str, Any]:
    return openai_api.chat_body(text, openai_api.Model(**model))


def responses(text: str = GOOD, **rest: Any) -> dict[str, Any]:
    return openai_api.responses_body(text, openai_api.Model(), **rest)


def messages(text: str = GOOD, **model: Any) -> dict[str, Any]:
    return anthropic_api.message_body(text, anthropic_api.Model(**model))


def call(name: str, value: Any) -> Envelope:
    return READERS[name](json.dumps(value).encode() if not isinstance(value, bytes) else value)


BLOCK = {"type": "tool_use", "id": "t", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("chat", chat(), "ok"),
        ("chat", chat(finish="length"), "length"),
        ("chat", chat(finish="content_filter"), "content_filter"),
        ("chat", chat(finish="tool_calls"), "tool_call"),
        ("chat", chat(extra={"tool_calls": [{"id": "1", "type": "function"}]}), "tool_call"),
        ("chat", chat(extra={"refusal": "I cannot."}), "refusal"),
        ("chat", chat(finish=None), "incomplete"),
        ("chat", chat(finish="strange"), "incomplete"),
        ("chat", chat(""), "empty_text"),
        ("chat", chat(" \n\u200b"), "empty_text"),
        ("chat", chat(None), "empty_text"),
        ("chat", {**chat(), "choices": []}, "bad_envelope"),
        ("chat", {**chat(), "choices": chat()["choices"] * 2}, "bad_envelope"),
        ("chat", {"detail": "hello"}, "bad_envelope"),
        ("responses", responses(), "ok"),
        ("responses", responses(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        ("responses", responses(status="incomplete", incomplete_details={"reason": "content_filter"}),
         "content_filter"),
        ("responses", responses(status="incomplete"), "incomplete"),
        ("responses", responses(status="in_progress"), "incomplete"),
        ("responses", responses(status="cancelled"), "incomplete"),
        ("responses", responses(""), "empty_text"),
        ("responses", {**responses(), "output": [{"type": "function_call", "name": "f"}]}, "tool_call"),
        ("responses", {**responses(), "output": [{"type": "message", "content": [
            {"type": "refusal", "refusal": "no"}]}]}, "refusal"),
        ("responses", {**responses(), "output": [{"type": "message", "status": "incomplete", "content": []}]},
         "incomplete"),
        ("responses", {**responses(), "output": "text"}, "bad_envelope"),
        ("messages", messages(), "ok"),
        ("messages", messages(stop="stop_sequence"), "ok"),
        ("messages", messages(stop="max_tokens"), "length"),
        ("messages", messages(stop="refusal"), "refusal"),
        ("messages", messages(stop="tool_use", blocks=(BLOCK,)), "tool_call"),
        ("messages", messages(stop="end_turn", blocks=(BLOCK,)), "tool_call"),
        ("messages", messages(stop="pause_turn"), "incomplete"),
        ("messages", messages(stop="model_context_window_exceeded"), "context_overflow"),
        ("messages", messages(stop=None), "incomplete"),
        ("messages", messages(""), "empty_text"),
        ("messages", {"type": "completion"}, "bad_envelope"),
    ],
)  # fmt: skip
def test_out2_the_envelope_decides_whatever_the_text_says(name: str, value: Any, outcome: str) -> None:
    """The text is a perfect verdict in every case: it counts only where the envelope says that it is complete."""
    found = call(name, value)
    assert found.outcome == outcome
    assert found.text == (GOOD if outcome == "ok" else "")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b'"text"', b"<html>", b'{"a":1', b'{"a":"\xff"}', b"{" * 50_000, b'{"n":NaN}',
        b'{"a":1}{"a":2}', b'{"usage":{"x":' + b"9" * 6000 + b"}}",
    ],
)  # fmt: skip
def test_a_body_that_is_no_envelope_is_bad_envelope(name: str, body: bytes) -> None:
    found = READERS[name](body)
    assert found.outcome == "bad_envelope"
    assert found.detail


def test_duplicate_keys_in_an_envelope_are_refused() -> None:
    body = json.dumps(chat()).encode().replace(b'"choices": [', b'"choices": [], "choices": [', 1)
    assert READERS["chat"](body).outcome == "bad_envelope"


def test_thinking_is_dropped_by_its_api_type_and_never_read_as_text() -> None:
    """Lesson 4: braces inside a thinking block became the verdict."""
    thinking = '{"reasoning":"t","label":"bad","confidence":1}'
    assert call("messages", messages(blocks=({"type": "thinking", "thinking": thinking},))).text == GOOD
    assert call("messages", messages(blocks=({"type": "redacted_thinking", "data": thinking},))).text == GOOD
    only = messages("", blocks=({"type": "thinking", "thinking": thinking},))
    assert call("messages", only).outcome == "empty_text"
    assert call("chat", chat(extra={"reasoning_content": thinking, "reasoning": thinking})).text == GOOD
    parts = chat([{"type": "thinking", "thinking": thinking}, {"type": "text", "text": GOOD}])
    assert call("chat", parts).text == GOOD
    assert call("responses", responses()).text == GOOD  # the stand-in puts a reasoning item before the message


@pytest.mark.parametrize("absurd", [10**400, -1, True, 1.5, "12", None, [], 10**12])
def test_sc1_absurd_usage_is_unknown_not_a_crash(absurd: Any) -> None:
    assert call("chat", chat(usage={"prompt_tokens": absurd})).usage == Usage(
        input=None, cached=100, output=30, reasoning=12
    )
    found = call("messages", messages(usage={"output_tokens": absurd, "cache_read_input_tokens": absurd})).usage
    assert found == Usage(input=20, cached=None, output=None, reasoning=None)


def test_sc1_missing_usage_is_unknown_and_never_zero() -> None:
    assert call("responses", {k: v for k, v in responses().items() if k != "usage"}).usage == Usage()
    assert call("chat", chat(usage=None)).usage == Usage()


def test_anthropic_input_counts_cached_tokens_too() -> None:
    found = call("messages", messages(usage={"output_tokens_details": {"thinking_tokens": 7}})).usage
    assert found == Usage(input=120, cached=100, output=30, reasoning=7)


def _mutate(value: Any, rng: random.Random) -> Any:
    """One random change somewhere in a JSON value."""
    odd: list[Callable[[], Any]] = [
        lambda: None, list, dict, lambda: "", lambda: -1, lambda: 10**30, lambda: True, lambda: [None],
        lambda: {"type": "text"}, lambda: {"error": {"message": "x"}}, lambda: "\ud800", lambda: GOOD,
    ]  # fmt: skip
    if rng.random() < 0.3 or not isinstance(value, dict | list) or not value:
        return rng.choice(odd)()
    if isinstance(value, dict):
        key = rng.choice(sorted(value))
        if rng.random() < 0.2:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: _mutate(value[key], rng)}
    at = rng.randrange(len(value))
    return [*value[:at], _mutate(value[at], rng), *value[at + 1 :]]


VERDICTS = (
    GOOD, f"```json\n{GOOD}\n```", GOOD + GOOD, GOOD[:-4], f"The payload says {GOOD}",
    GOOD.replace("good", "excellent"),
    GOOD.replace('"label"', '"label":"bad","label"'), GOOD.replace("1}", "1e999}"),
    GOOD.replace("1}", "9" * 5000 + "}"),
    GOOD.replace('"good"', "true"), GOOD.replace('"r"', '" "'), "[" * 70 + "]" * 70, "\ufeff" + GOOD, "\x00", "null",
    GOOD.replace("}", ',"x":1}'), '{"reasoning":"{\\"label\\":\\"bad\\"}","label":"good","confidence":95.0}',
)  # fmt: skip


def _fuzz(count: int) -> None:
    """Hostile replies through envelope and parser, as the pass runner reads them."""
    rng = random.Random(20261130)
    reasons = {"ok", *get_args(UnusableReason)}
    seeds = {"chat": chat, "responses": responses, "messages": messages}
    verdicts = 0
    for _ in range(count):
        name = rng.choice(sorted(seeds))
        value = seeds[name](rng.choice(VERDICTS))
        for _ in range(rng.randrange(0, 4)):
            value = _mutate(value, rng)
        body = json.dumps(value).encode()
        if rng.random() < 0.2:
            at = rng.randrange(len(body) + 1)
            body = body[:at] + bytes([rng.randrange(256)]) * rng.randrange(3) + body[at + rng.randrange(3) :]
        found = READERS[name](body)
        assert found.outcome in reasons
        if found.outcome == "ok":
            assert not is_blank(found.text)
            reading = parse_verdict(found.text, CONTRACT)
            if isinstance(reading, Verdict):
                verdicts += 1
                assert reading.label in ("good", "bad")
                assert not is_blank(reading.reasoning)
                assert reading.confidence is None or 0 <= reading.confidence <= 100
        else:
            assert found.text == ""
    assert verdicts > count / 50  # the fuzz reaches the far end too


def test_fuzzed_envelopes_never_crash_and_never_leak_text() -> None:
    _fuzz(5_000)


@pytest.mark.slow
def test_fuzzed_envelopes_200_000() -> None:
    _fuzz(200_000)
