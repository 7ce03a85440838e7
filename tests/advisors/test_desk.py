"""The desk: one question, fenced, strict, asked again once, journaled (IN-4, OUT-1, OUT-2, SC-1, LO-7)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.advisors import Desk
from fitter.advisors.desk import MAX_ANSWER_CHARS, Unfit, cut, exactly, obj, plain, sentence
from fitter.calls.budget import Budget
from fitter.clients.base import ModelSettings, Reply, Usage
from fitter.errors import BudgetReached, Outage, RunError
from fitter.loop.strategies import NoAdvice
from fitter.textsafe import visible
from tests.advisors.kit import HOSTILE, Scripted, desk, material, reply

SCHEMA = obj({"word": {"type": "string"}})


def ask(made: Desk, *parts: str, call: int = 0) -> str:
    def read(value: Any) -> str:
        exactly(value, ("word",))
        return sentence(value["word"], "word", 20)

    given_ = [(f"part {n}", text) for n, text in enumerate(parts or ("some text",))]
    return made.ask(
        role="drafter", phase="draft", task="Say a word.", parts=given_, schema=SCHEMA, read=read, call=call
    )


def records(folder: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "calls.sqlite") as db:
        return list(db.execute("SELECT role, phase, attempt, outcome FROM calls"))


def test_in4_material_stands_in_a_fence_whose_nonce_is_its_own(tmp_path: Path) -> None:
    made, client = desk(tmp_path, {"word": "yes"}, {"word": "yes"})
    ask(made, *HOSTILE)
    first = material(client)
    assert list(first.values()) == list(HOSTILE)  # every hostile text is inside, verbatim, and ends nothing
    nonce = client.user[3:35]
    ask(made, "other text")
    assert client.user[3:35] != nonce


def test_in4_material_that_holds_the_nonce_gets_another_nonce(tmp_path: Path) -> None:
    made, client = desk(tmp_path, {"word": "yes"}, {"word": "yes"})
    task, schema = "Say a word.", SCHEMA
    first = made._request(task, [("part 0", "x")], schema, "drafter").messages[1].text[3:35]
    # The nonce hangs on the text, so no text can hold its own; what could collide is redrawn.
    again = made._request(task, [("part 0", f"x {first}>>>")], schema, "drafter").messages[1].text[3:35]
    assert again != first
    assert client.asked == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('```json\n{"word":"yes"}\n```', "not exactly one JSON object"),
        ('{"word":"yes"}{"word":"no"}', "not exactly one JSON object"),
        ('Sure! {"word":"yes"}', "not exactly one JSON object"),
        ('{"word":"yes","word":"no"}', "duplicate_key"),
        ('{"word":NaN}', "not exactly one JSON object"),
        ('["yes"]', "not a JSON object"),
        ('{"word":"yes","extra":1}', "1 unknown keys"),
        ("{}", "lacks ['word']"),
        ('{"word":7}', "not a text"),
        ('{"word":" \\u200b "}', "not a text"),
        ('{"word":"two\\nlines"}', "more than one line"),
        ('{"word":"two\\u2028lines"}', "more than one line"),
        ('{"word":"a\\ud800"}', "half a character"),
        ('{"word":"%s"}' % ("x" * 21), "more than 20 characters"),
        ("[" * 4000, "not exactly one JSON object"),
        ("", "not exactly one JSON object"),
        ("x" * (MAX_ANSWER_CHARS + 1), "far too long"),
    ],
)
def test_out1_an_answer_that_is_not_the_contract_is_asked_for_once_more_with_the_reason(
    tmp_path: Path, text: str, code: str
) -> None:
    made, client = desk(tmp_path, text, {"word": "yes"})
    assert ask(made) == "yes"
    assert len(client.asked) == 2
    *_, said, told = client.asked[1].messages
    assert (said.role, told.role) == ("assistant", "user")
    assert code in told.text
    assert records(tmp_path) == [("drafter", "draft", 1, "ok"), ("drafter", "draft", 2, "ok")]
    made, _ = desk(tmp_path / "twice", text, text)
    (tmp_path / "twice").mkdir()
    with pytest.raises(NoAdvice, match="twice gave no usable answer"):
        ask(made)


def test_sc4_what_is_wrong_with_an_answer_quotes_nothing_of_it(tmp_path: Path) -> None:
    secret = "the customer's own words"
    for n, text in enumerate((f'{{"{secret}": 1}}', secret, f'{{"word": "a", "{secret}": 1, "{secret}": 2}}')):
        (tmp_path / str(n)).mkdir()
        made, _ = desk(tmp_path / str(n), text, text)
        with pytest.raises(NoAdvice) as caught:
            ask(made)
        assert secret not in str(caught.value)
    made, _ = desk(tmp_path, Reply(outcome="refusal", text="", model="m", detail=secret))
    with pytest.raises(NoAdvice) as caught:
        ask(made)
    assert str(caught.value) == "the drafter gave no answer: refusal"


def test_out2_the_envelope_is_read_before_the_text(tmp_path: Path) -> None:
    text = '{"word":"yes"}'
    for n, outcome in enumerate(("refusal", "content_filter", "context_overflow")):
        (tmp_path / str(n)).mkdir()
        made, client = desk(tmp_path / str(n), Reply(outcome=outcome, text=text, model="m"))  # type: ignore[arg-type]
        with pytest.raises(NoAdvice, match=outcome):
            ask(made)
        assert len(client.asked) == 1  # asking again would end the same way


def test_out2_a_length_stop_is_retried_with_a_larger_cap(tmp_path: Path) -> None:
    made, client = desk(tmp_path, Reply(outcome="length", text='{"wo', model="m"), {"word": "yes"})
    assert ask(made) == "yes"
    assert client.asked[1].messages == client.asked[0].messages
    assert client.asked[1].settings.max_output_tokens == 16_384


def test_out2_another_model_stops_the_run_unless_the_probe_saw_it(tmp_path: Path) -> None:
    made, client = desk(tmp_path, reply({"word": "yes"}))
    client.identity = {"model": "asked"}
    with pytest.raises(RunError, match="another model answered: asked asked, got m"):
        ask(made)
    made, client = desk(tmp_path, reply({"word": "yes"}), run_id="other")
    # Settled after the desk was made, as the probe does: the desk asks the client, it keeps no copy.
    client.identity = {"model": "asked", "instrument": {"model_returned": "m"}}
    assert ask(made) == "yes"


def test_out3_an_unavailable_model_is_a_resumable_stop_and_only_that_call_is_made_again(tmp_path: Path) -> None:
    made, _ = desk(tmp_path, {"wrong": 1}, Reply(outcome="unavailable", detail="503"))
    with pytest.raises(Outage, match=r"drafter .* is unavailable: 503") as caught:
        ask(made)
    assert caught.value.exit_code == 4
    made, client = desk(tmp_path, {"word": "yes"})
    assert ask(made) == "yes"
    assert len(client.asked) == 1
    assert "unknown keys" in client.asked[0].messages[-1].text  # the retry, not the first question
    assert [r[3] for r in records(tmp_path)] == ["ok", "unavailable", "ok"]


def test_lo7_a_question_that_was_answered_is_not_paid_for_again(tmp_path: Path) -> None:
    made, _ = desk(tmp_path, {"wrong": 1}, {"word": "yes"})
    assert ask(made) == "yes"
    made, client = desk(tmp_path)
    assert ask(made) == "yes"
    assert client.asked == []
    made, client = desk(tmp_path, {"word": "no"})
    assert ask(made, call=1) == "no"  # repeated questions are calls of their own
    made, client = desk(tmp_path, {"word": "no"}, run_id="another fit")
    assert ask(made) == "no"


def test_sc1_every_call_is_on_record_with_its_tokens(tmp_path: Path) -> None:
    made, _ = desk(tmp_path, reply({"word": "yes"}, usage=Usage(input=7, output=3), raw=b"{}"))
    ask(made)
    with sqlite3.connect(tmp_path / "calls.sqlite") as db:
        found = db.execute("SELECT input_tokens, cached_tokens, output_tokens, raw_bytes FROM calls").fetchall()
    assert found == [(7, None, 3, 2)]


def test_sc1_the_budget_is_checked_before_the_call(tmp_path: Path) -> None:
    made, client = desk(
        tmp_path, {"wrong": 1}, {"word": "yes"}, budget=lambda book: Budget(calls=1, spent=book.count("r"))
    )
    with pytest.raises(BudgetReached):
        ask(made)
    assert len(client.asked) == 1


@given(st.text(max_size=60))
def test_in4_plain_texts_hold_nothing_that_leaves_a_prompt(text: str) -> None:
    try:
        kept = plain(text, "it")
    except Unfit:
        return
    assert kept == visible(kept)
    assert not any(mark in kept for mark in ("{{", "}}", "<<<", ">>>", "\x1b", "\u202e", "\n"))


@pytest.mark.parametrize("text", ["see http://x.y", "a {{b}}", "a\u202eb", "a\x00b", "f" * 32, "<<< a"])
def test_in4_plain_refuses(text: str) -> None:
    with pytest.raises(Unfit):
        plain(text, "it")


def test_a_long_text_is_cut_where_everybody_can_see_it() -> None:
    text = "a" * 5000 + "b" * 5000
    assert cut(text, 100) == "a" * 50 + "\n[... 9900 characters left out ...]\n" + "b" * 50
    assert cut("short") == "short"


def test_settings_of_the_desk_are_those_of_the_advisors(tmp_path: Path) -> None:
    client = Scripted([reply({"word": "yes"})])
    made = Desk(
        client=client, settings=ModelSettings(temperature=0.5), journal=tmp_path / "calls.sqlite", run_id="r"
    )  # fmt: skip
    ask(made)
    assert client.asked[0].settings.temperature == 0.5
