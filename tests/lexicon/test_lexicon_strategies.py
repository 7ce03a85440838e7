"""Drafter, describer and proposer of the lexicon: LO-2, LO-3, IN-4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.evidence.targets.base import Compiled
from fitter.evidence.targets.local import LocalTarget
from fitter.judge.prompt import build_prompt
from fitter.labels import LabelSchema
from fitter.lexicon import LexiconDescriber, LexiconDrafter, LexiconProposer
from fitter.lexicon.concepts import load
from fitter.lexicon.drafter import MAX_BULLETS
from fitter.lexicon.judge import judged_text, tally
from fitter.loop.guard import Corpus, check_draft
from fitter.loop.propose import apply, describe
from fitter.loop.strategies import Describer, Drafter, Proposer
from fitter.records import (
    Attempt,
    Bucket,
    Change,
    Criterion,
    Draft,
    DraftBrief,
    ErrorRow,
    LabelledReason,
    ProposalBrief,
)

LEXICON = load()
CHOICE = LabelSchema(id="q1", name="quality", kind="categorical", classes=("good", "bad"))
MAP = EvidenceMap(scope="span", fields=(EvidenceField(name="output", path="span_output"),))
COMPILED = Compiled(placeholders=((MAP.fields[0], "{{span_output}}"),), gaps=())
BAD_REASONS = (
    "too vague",
    "vague, and hedging",
    "hedging all the way",
    "so vague",
    "rude to the customer",
    "vague and rude",
)
GOOD_REASONS = ("explains why", "gives an example", "explains it well", "cites the policy and explains", "polite")


def reasons(bad: Sequence[str] = BAD_REASONS, good: Sequence[str] = GOOD_REASONS) -> tuple[LabelledReason, ...]:
    pairs = [("bad", r) for r in bad] + [("good", r) for r in good]
    return tuple(LabelledReason(row=f"r{n:03}", label=label, reason=r) for n, (label, r) in enumerate(pairs))


def brief(label: LabelSchema = CHOICE, **more: object) -> DraftBrief:
    base = DraftBrief(
        label=label, goal="Catch bad replies.", costly="same", framing="grader", notes="", reasons=reasons()
    )
    return replace(base, **more)  # type: ignore[arg-type]


def keys(draft: Draft) -> dict[tuple[str, bool], str]:
    found = {}
    for criterion in draft.criteria:
        mention = LEXICON.read_bullet(criterion.text)
        assert mention is not None, "the drafter writes only what the judge can read"
        found[mention.key] = criterion.label
    return found


def error(row: str, output: str, *, human: str = "bad", judge: str = "good", why: str = "") -> ErrorRow:
    nonce = "a" * 32
    text = f"<<<{nonce}\n[{nonce} input]\nmaybe perhaps\n\n[{nonce} output]\n{output}\n{nonce}>>>"
    return ErrorRow(
        row=row, human=human, judge=judge, human_reasons=(why,) if why else (), judge_reasoning="", evidence=text
    )


def ask(
    draft: Draft, errors: Sequence[ErrorRow], attempts: Sequence[Attempt] = (), rejected: str | None = None
) -> ProposalBrief:
    bucket = Bucket(name="b1", direction="bad → good", description="", rows=tuple(e.row for e in errors))
    return ProposalBrief(
        draft=draft, label=CHOICE, goal="", costly="same", notes="", buckets=(bucket,), target=bucket,
        errors=tuple(errors), attempts=tuple(attempts), map_fields={"output": "span_output"}, rejected=rejected,
    )  # fmt: skip


# Drafter


def test_lo2_draft_follows_reasons_by_label() -> None:
    draft = LexiconDrafter().draft(brief())
    found = keys(draft)
    assert found[("concrete_action", True)] == "good", "vague, the opposite of concrete, was said of the bad ones"
    assert found[("hedging", True)] == "bad"
    assert found[("reason", True)] == "good"
    assert len(draft.criteria) <= MAX_BULLETS
    assert len({c.id for c in draft.criteria}) == len(draft.criteria)
    assert draft.otherwise == "bad", "more reasons speak of bad"


def test_lo2_draft_reads_definition_and_notes() -> None:
    told = CHOICE.model_copy(
        update={"value_descriptions": {"good": "Gives an example.", "bad": "Pushes marketing, or asks for a password."}}
    )
    found = keys(LexiconDrafter().draft(brief(told, reasons=(), notes="A bad reply lacks an apology. Nothing else.")))
    assert found[("example", True)] == "good"
    assert found[("marketing", True)] == "bad"
    assert found[("apology", True)] == "good", "with two classes a lack on one side is a quality of the other"


def test_lo2_with_three_classes_a_lack_stays_a_lack() -> None:
    three = LabelSchema(id="q1", name="quality", kind="categorical", classes=("good", "bad", "other"))
    draft = LexiconDrafter().draft(brief(three, reasons=(), notes="A bad reply lacks an apology."))
    assert keys(draft)[("apology", False)] == "bad"


def test_lo2_a_boolean_definition_says_when_it_is_true() -> None:
    label = LabelSchema(
        id="q", name="ok", kind="boolean", classes=(False, True), description="The reply explains its reason."
    )
    draft = LexiconDrafter().draft(brief(label, reasons=(), costly="false"))
    assert keys(draft)[("reason", True)] == "true"
    assert draft.otherwise == "false"


def test_lo2_the_costly_class_is_the_closing_answer() -> None:
    assert LexiconDrafter().draft(brief(costly="good")).otherwise == "good"
    assert LexiconDrafter().draft(brief(costly="bad")).otherwise == "bad"


def test_lo2_redraft_is_another_set() -> None:
    first = LexiconDrafter().draft(brief())
    second = LexiconDrafter().draft(brief(failure="it answers bad for every row"))
    assert second.criteria
    assert not set(keys(first)) & set(keys(second))


@pytest.mark.parametrize("failure", [None, "it answers one class for every row"])
@pytest.mark.parametrize(
    "said", [(), reasons(bad=BAD_REASONS, good=()), reasons(bad=(), good=GOOD_REASONS)], ids=["none", "bad", "good"]
)
@pytest.mark.parametrize("costly", ["same", "good", "bad"])
def test_lo2_no_draft_is_constant_by_construction(
    costly: str, said: tuple[LabelledReason, ...], failure: str | None
) -> None:
    draft = LexiconDrafter().draft(brief(costly=costly, reasons=said, failure=failure))
    assert any(c.label != draft.otherwise for c in draft.criteria)


def test_lo2_the_drafter_is_deterministic_and_needs_no_order() -> None:
    one, two = LexiconDrafter().draft(brief()), LexiconDrafter().draft(brief(reasons=tuple(reversed(reasons()))))
    assert one == two


def test_in4_the_task_passes_the_guard_whatever_the_definition_holds() -> None:
    nasty = CHOICE.model_copy(
        update={
            "description": "See https://a.example/x, www.b.io.\n{{span_input}} {% x %} ${y} <<<z>>> “only once” `q`\x07"
            f" \u202e {'AB' * 16}"
        }
    )
    draft = LexiconDrafter().draft(brief(nasty, goal="Catch 'rare words' — don't miss any."))
    corpus = Corpus(row_ids=["r1"], payloads=["x"], reasons=[], allowed=[])
    assert check_draft(draft, corpus) == []
    build_prompt(draft, LocalTarget().contract(nasty), COMPILED)
    assert "don't" in draft.task


def test_numeric_and_multiselect_are_refused_by_drafter_and_proposer() -> None:
    score = LabelSchema(id="s", name="score", kind="numeric", minimum=1, maximum=5)
    with pytest.raises(SettingsError):
        LexiconDrafter().draft(brief(score))
    start = Draft(task="t", criteria=(), otherwise="bad")
    with pytest.raises(SettingsError):
        LexiconProposer().propose(replace(ask(start, [error("r1", "x")]), label=score))


# Describer


def test_lo3_buckets_split_by_direction_and_shared_reason() -> None:
    errors = [
        error("r4", "Yes.", why="rude"),
        error("r1", "Yes.", why="too vague"),
        error("r2", "No.", why="vague answer"),
        error("r3", "No.", why="so vague"),
        error("r5", "No.", human="good", judge="bad", why="vague"),
        error("r6", "No.", why=""),
    ]
    buckets = LexiconDescriber().describe(errors)
    assert [(b.name, b.rows) for b in buckets] == [
        ("bad → good: no concrete_action", ("r1", "r2", "r3")),
        ("bad → good: other", ("r4", "r6")),
        ("good → bad: other", ("r5",)),
    ]


def test_lo3_without_reasons_the_replies_are_looked_at() -> None:
    errors = [error(f"r{n}", "It is done, see https://a.example now.") for n in range(3)]
    buckets = LexiconDescriber().describe(errors)
    assert len(buckets) == 1
    assert "replies share" in buckets[0].description


@given(
    st.lists(
        st.tuples(st.sampled_from(["good", "bad", "ugly"]), st.sampled_from(["good", "bad"]), st.text(max_size=30)),
        max_size=25,
    )
)
def test_lo3_every_error_is_in_exactly_one_bucket(cases: list[tuple[str, str, str]]) -> None:
    errors = [error(f"r{n}", why, human=h, judge=j, why=why) for n, (h, j, why) in enumerate(cases)]
    buckets = LexiconDescriber().describe(errors)
    assert sorted(row for b in buckets for row in b.rows) == sorted(e.row for e in errors)
    assert len({b.name for b in buckets}) == len(buckets)
    assert [len(b.rows) for b in buckets] == sorted((len(b.rows) for b in buckets), reverse=True)


# Proposer


def draft_of(*criteria: tuple[str, str], otherwise: str = "good") -> Draft:
    made = tuple(Criterion(id=f"c{n}", label=label, text=text) for n, (label, text) in enumerate(criteria, 1))
    return Draft(task="Grade it.", criteria=made, otherwise=otherwise)


PUSHY = [error(f"r{n}", f"Our premium deal number {n} is a discount.", why="pushes a sale") for n in range(4)]


def mended(draft: Draft, errors: Sequence[ErrorRow]) -> int:
    return sum(
        tally(draft.criteria, draft.otherwise, LEXICON.holding(judged_text(e.evidence)), LEXICON).leaders == (e.human,)
        for e in errors
    )


def test_lo3_one_change_that_mends_the_bucket() -> None:
    start = draft_of(("bad", "The reply hedges."))
    change = LexiconProposer().propose(ask(start, PUSHY))
    assert change is not None
    assert (change.action, change.bucket) == ("add", "b1")
    assert change.criterion == Criterion(id="c2", label="bad", text=LEXICON.concepts["marketing"].criterion)
    assert "4 of the 4" in change.why
    after, evidence = apply(change, start, MAP, labels=("good", "bad"), new_id="c2")
    assert evidence == MAP
    assert mended(start, PUSHY) == 0
    assert mended(after, PUSHY) == 4


def test_lo3_a_bullet_that_misfires_is_moved_negated_or_dropped() -> None:
    start = draft_of(("good", LEXICON.concepts["marketing"].criterion), ("bad", "The reply hedges."))
    attempts: list[Attempt] = []
    seen = []
    while (change := LexiconProposer().propose(ask(start, PUSHY, attempts))) is not None:
        after, _ = apply(change, start, MAP, labels=("good", "bad"), new_id="c3")
        assert mended(after, PUSHY) > 0
        seen.append(change.action)
        attempts.append(
            Attempt(
                iteration=len(attempts) + 1,
                bucket="b1",
                change=describe(change),
                outcome="discarded",
                basis="audit_failed",
            )
        )
        assert len(attempts) < 200
    assert seen[0] == "move", "moving the misfiring bullet mends all four and touches few other replies"
    assert len({a.change for a in attempts}) == len(attempts), "never the same change twice"


def test_lo3_negating_and_dropping_are_tried_too() -> None:
    start = draft_of(("bad", "The reply hedges."), ("good", "The reply pushes no marketing."), otherwise="bad")
    errors = [error(f"r{n}", f"It costs {n}, with tax.") for n in range(3)]
    offered: list[Change] = []
    attempts: list[Attempt] = []
    while (change := LexiconProposer().propose(ask(start, errors, attempts))) is not None:
        offered.append(change)
        attempts.append(Attempt(iteration=1, bucket="b1", change=describe(change), outcome="discarded", basis="x"))
    by_action = {c.action: c for c in offered if c.target_id == "c2"}
    assert set(by_action) == {"move", "replace", "drop"}
    turned = by_action["replace"].criterion
    assert turned is not None
    assert LEXICON.read_bullet(turned.text) is not None
    assert turned == Criterion(id="c2", label="good", text=LEXICON.concepts["marketing"].criterion)


def test_lo3_a_refused_first_proposal_gives_the_second() -> None:
    start = draft_of(("bad", "The reply hedges."))
    first = LexiconProposer().propose(ask(start, PUSHY))
    second = LexiconProposer().propose(ask(start, PUSHY, rejected="LO-4: copies a run of words"))
    assert first is not None
    assert second is not None
    assert describe(first) != describe(second)


def test_lo3_nothing_left_is_none() -> None:
    start = draft_of(("bad", "The reply hedges."))
    assert LexiconProposer().propose(ask(start, [])) is None


def test_lo3_a_quality_most_replies_have_does_not_beat_a_telling_one() -> None:
    """Seen in the making: with only errors to look at, "is about you" and "no emoji" would mend every bucket."""
    filler = " ".join(f"Word w{n} of your own." for n in range(6))
    errors = [error(f"r{n}", f"You get our premium deal, which you like. {filler}") for n in range(3)]
    errors.append(error("r3", f"You have what you have. {filler}"))
    change = LexiconProposer().propose(ask(draft_of(("bad", "The reply hedges.")), errors))
    assert change is not None
    assert change.criterion is not None
    assert change.criterion.text == LEXICON.concepts["marketing"].criterion


def test_strategies_meet_their_protocols_and_name_themselves() -> None:
    drafter: Drafter = LexiconDrafter()
    describer: Describer = LexiconDescriber()
    proposer: Proposer = LexiconProposer()
    parts = [s.identity["part"] for s in (drafter, describer, proposer)]
    assert parts == ["drafter", "describer", "proposer"]
