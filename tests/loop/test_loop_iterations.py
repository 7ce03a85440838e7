"""The loop through whole fits with a scripted team: LO-2 to LO-6, KE-4, KE-5."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.clients.base import Reply
from fitter.errors import BudgetReached, RunError
from fitter.jsonio import canonical
from fitter.labels import from_json
from fitter.loop.early import recompute
from fitter.scoring.frame import Fixed
from fitter.scoring.table import CardInput
from tests.loop.scripted import World, add, draft, number_of, queue, rows, truth, world

pytestmark = pytest.mark.slow


def wrong_on(*numbers: int) -> Any:
    """Right everywhere but on these rows."""

    def answer(system: str, user: str, run: int) -> str:
        right = truth(user)
        return {"good": "bad", "bad": "good"}[right] if number_of(user) in numbers else right

    return answer


def by_word(table: dict[str, Any]) -> Any:
    """The behaviour of the last word of the table that the system message holds."""

    def answer(system: str, user: str, run: int) -> Any:
        found = [behave for word, behave in table.items() if word in system]
        return found[-1](system, user, run)

    return answer


def always(label: str) -> Any:
    return lambda system, user, run: label


# -- LO-2 --------------------------------------------------------------------------------------------------------------


def test_lo2_degenerate_draft_is_redrafted_once_with_the_failure_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = draft(("bad", "Criterion alpha.")), draft(("bad", "Criterion beta."))
    answers = by_word({"alpha": always("good"), "beta": wrong_on(1)})
    made = world(tmp_path, monkeypatch, answers, drafts=[first, second])
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=0)
    assert [b.failure for b in made.drafter.briefs] == [None, "the draft gives every row the same answer"]
    assert made.store().read("baseline.json")["v0"] == 1
    assert "redrafted once because the draft gives every row the same answer" in made.report()


def test_lo2_a_draft_that_does_not_beat_the_constant_judge_is_redrafted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = draft(("bad", "Criterion alpha.")), draft(("bad", "Criterion beta."))
    answers = by_word({"alpha": wrong_on(*range(20)), "beta": wrong_on(1)})
    made = world(tmp_path, monkeypatch, answers, drafts=[first, second])
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=0)
    failure = made.drafter.briefs[1].failure
    assert failure is not None
    assert "does not beat the judge that always gives the best constant answer" in failure
    assert made.store().read("result.json")["winner"] == 1


def test_lo2_a_worse_redraft_leaves_the_first_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = draft(("bad", "Criterion alpha.")), draft(("bad", "Criterion beta."))
    answers = by_word({"alpha": always("good"), "beta": wrong_on(*range(20))})
    made = world(tmp_path, monkeypatch, answers, drafts=[first, second])
    outcome = made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=0)
    assert len(made.drafter.briefs) == 2
    assert made.store().read("result.json")["v0"] == 0
    assert outcome.exit_code == 3  # PU-2: a constant judge never beats the constant judge


def test_lo2_the_drafter_sees_definition_notes_and_train_reasons_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1))
    made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=0, notes="Mind the tone.")
    (brief,) = made.drafter.briefs
    train = {r["id"] for r in made.store().read_rows("labels/train.jsonl")}
    assert brief.notes == "Mind the tone."
    assert {r.row for r in brief.reasons} == train
    assert len(train) < 60


# -- LO-3, KE-4, KE-5 --------------------------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three iterations: a change that makes it worse, one that makes it better, one that changes nothing."""
    answers = by_word(
        {"Start": wrong_on(0, 1, 3, 5), "worse": wrong_on(0, 1, 2, 3, 4, 5), "better": wrong_on(0), "same": wrong_on(2)}
    )
    made = world(
        tmp_path, monkeypatch, answers, drafts=[draft(("bad", "Start."))],
        changes=[add("This is worse."), add("This is better."), add("This is the same.")],
    )  # fmt: skip
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=3, runs=3)
    return made


def criteria(made: World, version: int) -> set[str]:
    draft_ = made.store().read(f"prompts/{version:03d}.json")["prompt"]["draft"]
    return {c["text"] for c in draft_["criteria"]}


def test_ke4_after_a_discard_the_next_candidate_differs_from_best_in_one_change(three: World) -> None:
    outcomes = [three.store().read(f"decisions/{n:03d}.json")["attempt"]["outcome"] for n in (1, 2, 3)]
    assert outcomes == ["discarded", "kept", "discarded"]
    assert criteria(three, 1) - criteria(three, 0) == {"This is worse."}
    assert criteria(three, 2) == criteria(three, 0) | {"This is better."}  # nothing of the discarded change
    assert criteria(three, 3) == criteria(three, 2) | {"This is the same."}
    assert [b.draft.criteria for b in three.proposer.briefs][1] == three.proposer.briefs[0].draft.criteria
    maps = {canonical(three.store().read(f"prompts/{v:03d}.json")["map"]) for v in range(4)}
    assert len(maps) == 1


def test_lo3_every_version_is_measured_on_the_same_rows_with_the_same_runs(three: World) -> None:
    every = [(f"t-{i:03d}", run) for i in range(24) for run in range(3)]
    for v in range(4):
        made = [(p["row"], p["run"]) for p in three.store().read_rows(f"passes/{v:03d}.jsonl")]
        if v in (0, 2):  # v0 and the candidate that is kept
            assert made == every
        else:  # decided early: nothing but passes of these rows
            assert set(made) < set(every)
            assert three.store().read(f"decisions/{v:03d}.json")["decision"]["passes"] == {"made": len(made), "of": 72}
    for n in (1, 2, 3):
        census = three.store().read(f"census/{n:03d}.json")
        assert census["target"] in {b["name"] for b in census["buckets"]}


def inputs(made: World, version: int) -> CardInput:
    store = made.store()
    return CardInput(
        labels={r["id"]: from_json(r["label"], "categorical") for r in store.read_rows("labels/train.jsonl")},
        passes=store.read_passes(f"{version:03d}", "categorical"),
        groups={r["id"]: r["group"] for r in store.read_rows("labels/train.jsonl")},
        excluded={},
    )


def test_ke5_decisions_are_recomputed_from_retained_passes(three: World) -> None:
    for n in (1, 2, 3):
        record = three.store().read(f"decisions/{n:03d}.json")
        again = recompute(
            record["decision"],
            best=inputs(three, record["best"]),
            candidate=inputs(three, record["candidate"]),
            v0=inputs(three, record["v0"]),
        )
        assert again == []
    assert Fixed.from_json(record["decision"]["fixed"]).runs == 3


def test_ke5_decisions_hold_no_clock_no_path_and_no_chance(
    three: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = three.workspace / "runs" / "scripted-001" / "decisions"
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.iterdir())}
    for text in texts.values():
        assert str(three.workspace) not in text
        assert not re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\b1[6-9]\d{8}\b|[0-9a-f]{8}-[0-9a-f]{4}-", text)
        assert not re.search(r'"(/|[A-Z]:\\\\)', text)
    # The same fit elsewhere writes the same bytes.
    again = World(tmp_path / "elsewhere" / "ws", three.judge, three.drafter, three.proposer, three.checker)
    three.proposer.briefs.clear()
    three.drafter.briefs.clear()
    again.workspace.parent.mkdir()
    again.fit(tmp_path / "q.jsonl", max_iterations=3, runs=3)
    other = again.workspace / "runs" / "scripted-001" / "decisions"
    assert {p.name: p.read_text(encoding="utf-8") for p in sorted(other.iterdir())} == texts


# -- LO-5 --------------------------------------------------------------------------------------------------------------


def stopped(made: World) -> tuple[str, int]:
    record = made.store().read("stop.json")
    return record["reason"], record["iterations"]


def test_lo5_max_iterations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1, 2), changes=[add("One."), add("Two."), add("Three.")])
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=2)
    assert stopped(made) == ("max_iterations", 2)


def test_lo5_patience_counts_measured_iterations_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [add("One."), None, add("Two."), None, add("Three."), add("Four.")]
    made = world(tmp_path, monkeypatch, wrong_on(1, 2), changes=changes)
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=10, patience=3)
    outcomes = [made.store().read(f"decisions/{n}.json")["attempt"]["outcome"] for n in made.store().names("decisions")]
    assert outcomes == ["discarded", "no_change", "discarded", "no_change", "discarded"]
    assert stopped(made) == ("patience", 5)


def test_lo5_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1), changes=[add("One.")])
    made.judge.answer = by_word({"Decide": wrong_on(1), "One.": wrong_on()})
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=9)
    assert stopped(made) == ("ceiling", 1)
    assert len(made.proposer.briefs) == 1


def test_lo5_label_ceiling_needs_every_error_unanimous_in_three_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1, 3), contradicts=lambda label, reason, call: True)
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=9)
    assert stopped(made) == ("label_ceiling", 0)
    assert [call for _, _, call in made.checker.asked] == [0, 1, 2, 0, 1, 2]
    assert {(label, reason) for label, reason, _ in made.checker.asked} == {("bad", "Because of what it says.")}
    assert made.store().read("stop.json")["contradicting_reasons"] == ["t-001", "t-003"]
    report = made.report()
    assert "the rows stay wrong: `t-001`, `t-003`" in report
    card = made.store().read("cards/000.json")["card"]
    assert card["confusion"]["counts"] == [[10, 2], [0, 12]] or card["confusion"]["counts"] == [[12, 0], [2, 10]]


def test_lo5_one_undecided_call_is_no_label_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1, 3), contradicts=lambda label, reason, call: call < 2)
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=1)
    assert stopped(made) == ("max_iterations", 1)


def test_lo5_three_no_change_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1, 3), changes=[])
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=9)
    assert stopped(made) == ("no_change", 3)
    assert "three consecutive iterations had no change" in made.report()


def test_lo5_budget_stops_resumably_and_a_larger_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1, 3), changes=[add("One.")])
    path = queue(tmp_path / "q.jsonl", rows())
    with pytest.raises(BudgetReached) as stop:
        made.fit(path, max_iterations=1, budget_calls=30)
    assert stop.value.exit_code == 4
    assert "resume scripted-001" in str(stop.value)
    assert 24 <= len(made.judge.asked) <= 30
    assert made.store().has("cards/000.json")
    with pytest.raises(BudgetReached):
        fitting.Fitting(made.workspace).resume("scripted-001")
    before = len(made.judge.asked)
    outcome = fitting.Fitting(made.workspace).resume("scripted-001", budget_calls=500)
    assert outcome.exit_code == 0
    assert made.store().read("budget.json")["budget_calls"] == 500
    asked = [(system, user) for system, user, _ in made.judge.asked]
    assert len(asked) == len(set(asked))  # LO-7: nothing was asked twice
    assert len(made.judge.asked) > before


# -- LO-6 --------------------------------------------------------------------------------------------------------------


def test_lo6_a_candidate_without_a_headline_is_no_change_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(system: str, user: str, run: int) -> Reply:
        return Reply(outcome="refusal", detail="no")

    answers = by_word({"Decide": wrong_on(1, 3), "One.": broken})
    made = world(tmp_path, monkeypatch, answers, changes=[add("One.")])
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=1)
    record = made.store().read("decisions/001.json")
    assert record["attempt"]["outcome"] == "no_change"
    assert "no headline" in record["attempt"]["basis"]
    assert record["candidate"] is None
    assert "decision" not in record
    assert made.store().read("result.json")["winner"] == 0
    assert "no_change" in made.report()


def test_lo4_a_change_that_copies_a_row_is_refused_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = rows()
    records[3]["output"] = "nay the seven purple elephants crossed a river of warm honey yesterday evening"
    copying = add("The reply has seven purple elephants crossed a river of warm honey in it.")
    made = world(tmp_path, monkeypatch, wrong_on(1, 3), changes=[copying, copying])
    made.fit(queue(tmp_path / "q.jsonl", records), max_iterations=1)
    assert made.store().read("decisions/001.json")["attempt"]["outcome"] == "no_change"
    assert len(made.proposer.briefs) == 2
    assert made.proposer.briefs[1].rejected is not None
    assert "copies a run" in made.proposer.briefs[1].rejected
    assert not made.store().has("prompts/001.json")
    assert re.search(r"guards refused [1-9]", made.report())


def test_lo2_a_draft_that_no_prompt_can_hold_is_the_drafters_fault_and_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1), drafts=[draft(("bad", "Start."), otherwise="ugly")])
    with pytest.raises(RunError, match="there is no first draft: the draft cannot stand in a prompt") as caught:
        made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=0)
    assert caught.value.exit_code == 1
