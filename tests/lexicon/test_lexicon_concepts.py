"""concepts.json: fixed before any real data was judged, consistent, and found in texts as it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.jsonio import digest
from fitter.lexicon.concepts import Bounded, load
from fitter.lexicon.qualities import COUNT_TESTS, PLAIN_TESTS, compile_test

LEXICON = load()
RAW: dict[str, Any] = json.loads((resources.files("fitter.lexicon") / "concepts.json").read_text(encoding="utf-8"))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold().replace("’", "'"))
    return {tuple(words[at : at + 4]) for at in range(len(words) - 3)}


def _data_texts(folder: Path) -> Iterator[str]:
    """Every text of the data sets: JSON strings decoded, other files whole."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith("LICENSE"):
            continue
        raw = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            for line in raw.splitlines():
                yield from _strings(json.loads(line))
        elif path.suffix == ".json":
            yield from _strings(json.loads(raw))
        yield raw


@pytest.mark.shared
def test_no_four_word_run_of_the_real_data_stands_in_the_concepts(shared_data: Path) -> None:
    ours = {run for text in _strings(RAW) for run in _runs(text)}
    assert len(ours) > 50, "the check looks at something"
    seen = 0
    for text in _data_texts(shared_data):
        runs = _runs(text)
        seen += len(runs)
        assert not ours & runs, "reword: the concepts may not be tuned to the data"
    assert seen > 100_000


def test_there_are_enough_concepts_and_each_is_complete() -> None:
    assert len(LEXICON.concepts) >= 24
    assert LEXICON.hash == digest(RAW)
    for concept in LEXICON.concepts.values():
        assert concept.cues or concept.tests
        assert concept.aliases
        assert 0 < concept.usual_share < 1
        assert len(concept.cues) >= concept.at_least or concept.tests
        for sentence in (concept.criterion, concept.negated):
            assert sentence.startswith("The reply ")
            assert sentence.endswith(".")
            assert not re.search(r"[{}<>\"\[\]]", sentence), "no placeholder and no mark"


def test_an_alias_names_one_concept_only() -> None:
    names = [name for c in LEXICON.concepts.values() for name in (*c.aliases, *c.opposites)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("concept", list(LEXICON.concepts))
def test_the_sentences_of_a_concept_read_back_as_that_concept(concept: str) -> None:
    for positive in (True, False):
        mention = LEXICON.read_bullet(LEXICON.concepts[concept].sentence(positive))
        assert mention is not None
        assert mention.key == (concept, positive)


@pytest.mark.parametrize("concept", [c for c in LEXICON.concepts.values() if c.cues], ids=lambda c: c.id)
def test_a_cue_shows_its_concept_whatever_the_case(concept: Any) -> None:
    text = " , ".join(concept.cues[: concept.at_least]).upper()
    assert concept.id in LEXICON.holding(text)


@pytest.mark.parametrize(
    ("sentence", "concept", "positive"),
    [
        ("The reply cites the policy.", "policy", True),
        ("It does not cite a policy", "policy", False),
        ("An apology is missing.", "apology", False),
        ("never fails to apologise", "apology", True),
        ("too vague", "concrete_action", False),
        ("not vague at all", "concrete_action", True),
        ("fails to explain the answer", "reason", False),
        ("The reason is not given", "reason", False),
        ("not only polite", "thanks", True),
        ("no insult, cites a rule for the customer", "policy", True),
        ("praise without substance", "empty_praise", True),
        ("free of sarcasm", "harshness", False),
        ("doesn’t apologise", "apology", False),
    ],
)
def test_negation_turns_the_sign_within_its_clause(sentence: str, concept: str, positive: bool) -> None:
    assert (concept, positive) in {m.key for m in LEXICON.mentions(sentence)}


def test_the_longest_alias_wins_and_a_bullet_maps_to_one_concept() -> None:
    mention = LEXICON.read_bullet("The reply gives medical advice")
    assert mention is not None
    assert mention.concept == "professional_advice", "not the shorter alias, advice"
    mention = LEXICON.read_bullet("Explains the terms and conditions")
    assert mention is not None
    assert mention.concept == "policy", "three words win over one that stands earlier"
    assert LEXICON.read_bullet("The reply is purple") is None
    # Whole words: "policyholder" is not "policy".
    assert LEXICON.read_bullet("Speaks to the policyholder") is None


def test_cues_are_whole_words_and_do_not_cross_a_stop() -> None:
    assert "hedging" not in LEXICON.holding("The mighty maybel is here.")
    assert "hedging" in LEXICON.holding("it might work")
    assert "empty_praise" not in LEXICON.holding("That was great. Job offers follow below.")
    assert "uncertainty" in LEXICON.holding("I don’t know the answer"), "a typographic apostrophe is an apostrophe"


def test_at_least_and_unless_are_obeyed() -> None:
    assert "abstract_wording" not in LEXICON.holding("We ensure it.")
    assert "abstract_wording" in LEXICON.holding("We ensure a robust answer.")
    assert "empty_praise" in LEXICON.holding("Great job!")
    assert "empty_praise" not in LEXICON.holding("Great job! " + "It was one of many words here " * 6)


@pytest.mark.parametrize(
    ("test", "yes", "no"),
    [
        ("has_url", "see https://a.example/b", "see the shop"),
        ("has_code", "call `run()` first", "call us first"),
        ("has_number", "it costs 12.50", "it costs something, see https://a.example/12"),
        ("has_question", "which one?", "this one. https://a.example/?q=1"),
        ("has_list", "1. wash\n2. dry", "wash - dry"),
        ("has_identifier", "order AB-1234", "order it"),
        ("has_emoji", "fine 🙂", "fine"),
        ("all_caps", "PLEASE STOP now", "the USA and an API"),
        ("many_exclamations", "no!!", "no!"),
        ("repeated_sentence", "We have options. We have options.", "We have options. We have rules."),
        ("repeated_phrase", "a b c d e and a b c d e", "a b c d e f g"),
        ("no_terminal_punctuation", "then you turn the", "then you turn the knob."),
        ("min_words:3", "one two three", "one two"),
        ("max_words:2", "one two", "one two three"),
    ],
)
def test_structural_tests(test: str, yes: str, no: str) -> None:
    check = compile_test(test)
    assert check(yes)
    assert not check(no)


def test_the_list_of_structural_tests_is_closed_and_used() -> None:
    named = {name.partition(":")[0] for c in LEXICON.concepts.values() for name in (*c.tests, *c.unless)}
    assert named == set(PLAIN_TESTS) | set(COUNT_TESTS)
    with pytest.raises(ValueError, match="no structural test"):
        compile_test("__import__")
    with pytest.raises(ValueError, match="no structural test"):
        compile_test("min_words:-1")


@given(st.text(alphabet=st.characters(), max_size=300))
def test_no_text_is_too_odd_to_be_searched(text: str) -> None:
    assert LEXICON.holding(text) <= set(LEXICON.concepts)
    assert all(m.at < m.end for m in LEXICON.mentions(text))


def test_hostile_sizes_stay_linear() -> None:
    for text in ("a-" * 100_000, "```" * 50_000, "maybe " * 50_000, "\n- x" * 50_000, "A" * 300_000, "!" * 200_000):
        assert isinstance(LEXICON.holding(text), frozenset)


def test_a_bounded_cache_forgets_the_oldest() -> None:
    cache: Bounded[int, int] = Bounded(2)
    made: list[int] = []

    def ask(key: int) -> int:
        return cache.get(key, lambda: made.append(key) or key)

    assert [ask(1), ask(2), ask(1), ask(3), ask(1), ask(2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]
    assert len(cache) == 2
