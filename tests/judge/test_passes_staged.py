"""The runner in stages: what is asked next depends on the answers so far, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fitter.calls.budget import Budget
from fitter.calls.journal import Journal
from fitter.clients.base import ModelSettings, Reply
from fitter.errors import BudgetReached, Outage
from fitter.judge.passes import PassResult, Plan, measure
from fitter.records import Pass
from tests.judge.passes_kit import BAD, GOOD, Scripted, a_prompt, items_for, ok

ROWS = 6


def split_votes(said: str, run: int, attempt: int) -> Reply:
    """Even rows are bad every time, odd ones differ from run to run."""
    return ok(BAD if int(said.split()[1]) % 2 == 0 or run == 0 else GOOD)


def third_where_two_differ(made: Sequence[Pass]) -> list[tuple[str, int]]:
    """Two passes of every row, then a third where they differ."""
    if not made:
        return [(f"row-{n:06d}", run) for n in range(ROWS) for run in (0, 1)]
    answers: dict[str, list[Any]] = {}
    for one in made:
        answers.setdefault(one.row, []).append(one.label)
    return [(row, 2) for row, said in answers.items() if len(said) == 2 and said[0] != said[1]]


def judge(tmp_path: Path, client: Scripted, plan: Plan | None, **more: Any) -> PassResult:
    prompt = a_prompt()
    with Journal(tmp_path / "calls.sqlite") as journal:
        return measure(
            client=client, prompt=prompt, items=items_for(prompt, ROWS), runs=3, settings=ModelSettings(),
            journal=journal, run_id="r", phase="p", plan=plan, **more,
        )  # fmt: skip


def keys(result: PassResult) -> list[tuple[str, int]]:
    return [(p.row, p.run) for p in result.passes]


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_the_plan_decides_what_is_asked_and_concurrency_does_not(concurrency: int, tmp_path: Path) -> None:
    client = Scripted(split_votes, wait=0.001)
    result = judge(tmp_path, client, third_where_two_differ, concurrency=concurrency)
    assert keys(result) == [(f"row-{n:06d}", run) for n in range(ROWS) for run in range(3 if n % 2 else 2)]
    assert result.made == len(client.requests) == 15
    assert client.closed == 1  # one event loop, and one set of connections, for all stages


def test_lo7_stages_that_were_made_are_found_again(tmp_path: Path) -> None:
    first = judge(tmp_path, Scripted(split_votes), third_where_two_differ)
    client = Scripted(split_votes)
    again = judge(tmp_path, client, third_where_two_differ)
    assert (again.made, again.reused, client.requests) == (0, 15, [])
    assert again.passes == first.passes
    # The exhaustive phase asks for what is left, and for nothing else.
    whole = judge(tmp_path, client, None)
    assert (whole.made, whole.reused) == (3, 15)
    assert {run for _, run, _ in client.requests} == {2}


def test_a_plan_that_wants_nothing_makes_no_call(tmp_path: Path) -> None:
    client = Scripted()
    assert judge(tmp_path, client, lambda made: []).passes == ()
    assert client.requests == []


@pytest.mark.parametrize("wanted", [[("nowhere", 0)], [("row-000001", 0), ("row-000001", 0)]])
def test_a_plan_that_asks_for_what_is_not_there_or_twice_is_refused(
    wanted: list[tuple[str, int]], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="asks once"):
        judge(tmp_path, Scripted(), lambda made: wanted)


def test_a_plan_that_asks_again_for_what_was_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="asks once"):
        judge(tmp_path, Scripted(), lambda made: [("row-000001", 0)])


def test_out3_an_outage_in_a_later_stage_stops_the_phase(tmp_path: Path) -> None:
    def down(said: str, run: int, attempt: int) -> Reply:
        return Reply(outcome="unavailable", detail="503") if run == 2 else split_votes(said, run, attempt)

    with pytest.raises(Outage, match="3 of 3 rows"):
        judge(tmp_path, Scripted(down), third_where_two_differ)
    client = Scripted(split_votes)
    assert judge(tmp_path, client, third_where_two_differ).made == 3


def test_sc1_a_budget_ends_a_stage_between_rows_and_keeps_what_was_paid_for(tmp_path: Path) -> None:
    client = Scripted(split_votes)
    with pytest.raises(BudgetReached):
        judge(tmp_path, client, third_where_two_differ, budget=Budget(calls=14))
    paid = len(client.requests)
    assert 0 < paid <= 14
    assert judge(tmp_path, Scripted(split_votes), third_where_two_differ).reused == paid


def test_progress_counts_all_stages_and_ends_where_the_plan_ends(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    judge(tmp_path, Scripted(split_votes), third_where_two_differ, on_progress=lambda *now: seen.append(now))
    assert seen[-1] == (15, 15, 0)
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {most for _, most, _ in seen[:-1]} == {18}  # an upper bound until the plan is done


def test_out2_a_change_of_the_instrument_between_stages_is_told(tmp_path: Path) -> None:
    client = Scripted(split_votes)

    def plan(made: Sequence[Pass]) -> list[tuple[str, int]]:
        if made:
            client.identity = {"model": "model-x", "instrument": "another"}
        return third_where_two_differ(made)

    (tmp_path / "other").mkdir()
    assert judge(tmp_path, client, plan).instrument_changed
    assert not judge(tmp_path / "other", Scripted(split_votes), third_where_two_differ).instrument_changed
