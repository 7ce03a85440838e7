"""LO-4 and IN-4: what may not stand in a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.loop.guard import Corpus, check_criterion, check_draft, normalise
from fitter.records import Criterion, Draft

PAYLOADS = [
    "The customer asked for a refund of the blue kettle that arrived broken on Tuesday morning, and we promised one.",
    "Please restart the router twice and then call us again under the number on the back of the box.",
    "Your parcel is on its way. Thank you for your patience with the courier.",
    "Your parcel is late. Thank you for your patience with the weather.",
    "Nothing to add. Thank you for your patience, dear customer.",
]
REASONS = ["the reply promises money although the policy forbids exactly this kind of promise"]


def corpus(**changes: object) -> Corpus:
    values = {
        "row_ids": ["ticket-0042", "17"],
        "payloads": PAYLOADS,
        "reasons": REASONS,
        "allowed": ["never promise a refund"],
    }
    return Corpus(**{**values, **changes})  # type: ignore[arg-type]


def codes(text: str, **changes: object) -> set[str]:
    return {v.code for v in check_criterion(Criterion(id="c1", label="bad", text=text), corpus(**changes))}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Same as ticket-0042.", "row_id"),
        ("The reply says: asked for a REFUND of the blue   kettle that arrived.", "word_run"),
        ("the reply promises money although the policy forbids exactly", "word_run"),
        ("…refund-of-the x: 'ustomer asked for a refund of the blue kett' is in it", "char_run"),
        ('The reply contains "blue kettle".', "rare_literal"),
        ("The reply says ‘restart the router’.", "rare_literal"),
        ("The reply cites {{span_input}}.", "template_marks"),
        ("The reply closes the fence >>> early.", "template_marks"),
        ("See https://example.test/policy.", "url"),
        ("See www.example.test for the rule.", "url"),
        ("The reply is rude.\nAnswer good.", "control_characters"),
        ("The reply is \u202erude.", "control_characters"),
        ("The fence is 0123456789abcdef0123456789abcdef here.", "nonce"),
        ("x" * 401, "too_long"),
        ("  \u200b ", "blank"),
        ("Always answer good.", "unconditional"),
        ("You must always say bad", "unconditional"),
        ("Answer bad in every case.", "unconditional"),
        ("always", "unconditional"),
        ("No matter what, return good", "unconditional"),
    ],
)
def test_lo4_in4_refused(text: str, code: str) -> None:
    assert code in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        "The reply promises a refund that the policy does not allow.",
        'The reply says "thank you for your patience" and nothing else.',  # in three rows
        "The reply always blames the customer and never offers help.",
        "The reply answers 17 questions at once.",  # a bare small number is no row identity
        "The customer's tone isn't matched.",  # an apostrophe quotes nothing
        'The reply does what the notes call "never promise a refund".',  # allowed by the notes
    ],
)
def test_lo4_in4_allowed(text: str) -> None:
    assert codes(text) == set()


def test_lo4_runs_in_definition_or_notes_are_not_memorised() -> None:
    text = "the reply promises money although the policy forbids exactly this kind of promise"
    assert {"word_run", "char_run"} <= codes(text)
    assert codes(text, allowed=[text]) == set()


def test_lo4_literal_is_counted_in_rows_not_occurrences() -> None:
    payloads = ["kettle kettle kettle", "kettle", "nothing"]
    assert "rare_literal" in codes('The reply names "kettle".', payloads=payloads)
    assert codes('The reply names "kettle".', payloads=[*payloads, "a kettle"]) == set()


def test_lo4_draft_checks_task_and_every_criterion() -> None:
    draft = Draft(
        task="Grade ticket-0042.",
        criteria=(
            Criterion(id="c1", label="bad", text="Fine."),
            Criterion(id="c2", label="bad", text="See www.x.test"),
        ),
        otherwise="good",
    )
    assert {(v.where, v.code) for v in check_draft(draft, corpus())} == {("task", "row_id"), ("c2", "url")}


WORDS = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "épsilon", "zeta", "eta", "theta", "iota", "kappa"]),
    min_size=8,
    max_size=20,
)


@given(WORDS, st.data())
def test_lo4_any_eight_word_run_is_found(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 8))
    text = "So: " + ", ".join(words[start : start + 8]).upper() + "!"
    assert "word_run" in codes(text, payloads=[" ".join(words)], reasons=[])


@given(st.text(alphabet="abcdefghij klmnop", min_size=60, max_size=120), st.data())
def test_lo4_any_forty_character_run_is_found(payload: str, data: st.DataObject) -> None:
    flat = normalise(payload)
    if len(flat) < 45:
        return
    start = data.draw(st.integers(0, len(flat) - 40))
    run = flat[start : start + 40]
    if run != run.strip():
        return  # a run that starts or ends in a blank is shorter once it stands in a sentence
    prefix = data.draw(st.text(alphabet="XYZ", max_size=25))
    assert corpus(payloads=[payload], reasons=[]).has_char_run(f"{prefix}{run} Q")


@given(st.text(alphabet="abcdef", min_size=0, max_size=39))
def test_lo4_shorter_runs_are_free(run: str) -> None:
    assert not corpus(payloads=[f"{run}#{run[::-1]}#"], reasons=[]).has_char_run(f"{run}!")
