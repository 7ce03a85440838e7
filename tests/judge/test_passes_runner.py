"""The runner: passes over rows, journaled, resumable, within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fitter.calls import table
from fitter.calls.budget import Budget
from fitter.calls.journal import Journal
from fitter.clients.base import ModelSettings, Reply
from fitter.errors import BudgetReached, Outage, SettingsError, Stopped
from fitter.judge import passes as passes_module
from fitter.judge.passes import PassResult, measure, run_passes
from fitter.records import Pass
from tests.judge.passes_kit import BAD, GOOD, Scripted, a_prompt, attempt_of, by_hash, items_for, ok, said_in

PROMPT = a_prompt()
Judge = Callable[..., PassResult]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "calls.sqlite"


def judge(path: Path, client: Scripted, *, rows: int = 6, runs: int = 3, **more: Any) -> PassResult:
    with Journal(path) as journal:
        return measure(
            **{
                "client": client,
                "prompt": PROMPT,
                "items": items_for(PROMPT, rows),
                "runs": runs,
                "settings": ModelSettings(),
                "journal": journal,
                "run_id": "fit-1",
                "phase": "v0",
                **more,
            }
        )


def test_passes_come_sorted_and_complete(path: Path) -> None:
    result = judge(path, Scripted(by_hash, wait=0.0), rows=20, concurrency=7)
    assert [(p.row, p.run) for p in result.passes] == [(f"row-{n:06d}", run) for n in range(20) for run in range(3)]
    assert result.made == sum(p.attempts for p in result.passes)
    assert result.reused == 0
    assert len({p.unusable for p in result.passes}) > 3  # the script errs in many ways


def test_concurrency_changes_no_pass(path: Path, tmp_path: Path) -> None:
    one = judge(path, Scripted(by_hash), rows=30, concurrency=1)
    many = judge(tmp_path / "other.sqlite", Scripted(by_hash, wait=0.0), rows=30, concurrency=16)
    assert one.passes == many.passes


def test_workers_are_bounded_and_rows_go_in_order(path: Path) -> None:
    client = Scripted(wait=0.001)
    judge(path, client, rows=10, concurrency=4)
    assert client.most_in_flight == 4
    started = [said for said, _, _ in client.requests]
    assert started == [f"Reply {n}" for n in range(10) for _ in range(3)]


def test_a_client_that_answers_one_call_at_a_time_is_asked_no_more(path: Path) -> None:
    class One(Scripted):
        calls_at_once = 1

    client = One(wait=0.001)
    judge(path, client, rows=4, concurrency=8)
    assert client.most_in_flight == 1


def test_lo7_a_second_time_nothing_is_called(path: Path) -> None:
    first = judge(path, Scripted(by_hash), rows=40)
    client = Scripted(by_hash)
    again = judge(path, client, rows=40)
    assert client.requests == []
    assert (again.made, again.reused) == (0, first.made)
    assert again.passes == first.passes


@pytest.mark.parametrize("ends_well", [True, False])
def test_lo7_a_phase_ends_only_when_its_calls_are_durable(path: Path, ends_well: bool) -> None:
    def script(said: str, run: int, attempt: int) -> Reply | BaseException:
        return ok(GOOD) if ends_well or said != "Reply 5" else SettingsError("bad key")

    with Journal(path) as journal:
        with contextlib.nullcontext() if ends_well else pytest.raises(SettingsError):
            measure(
                client=Scripted(script), prompt=PROMPT, items=items_for(PROMPT, 6), runs=1, settings=ModelSettings(),
                journal=journal, run_id="fit-1", phase="v0",
            )  # fmt: skip
        other = sqlite3.connect(path)  # the journal is still open: nothing was written by closing it
        assert other.execute("SELECT count(*) FROM calls").fetchone() == (6 if ends_well else 5,)
        other.close()


def test_lesson28_each_run_is_a_call_of_its_own(path: Path) -> None:
    client = Scripted()
    judge(path, client, rows=1, runs=5)
    assert sorted(run for _, run, _ in client.requests) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "fit-2"},
        {"prompt": a_prompt("Grade it another way."), "items": items_for(a_prompt("Grade it another way."), 6)},
        {"settings": ModelSettings(temperature=0.5)},
        {"client": Scripted(identity={"model": "model-x", "schema_mode": "json_object"})},
        {"items": items_for(PROMPT, 6, "Another reply {}".format)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_lesson29_whatever_shapes_the_answer_makes_a_new_call(path: Path, change: dict[str, Any]) -> None:
    first = judge(path, Scripted())
    client = change.get("client") or Scripted()
    again = judge(path, client, **{k: v for k, v in change.items() if k != "client"})
    assert (again.made, again.reused) == (first.made, 0)
    assert len(client.requests) == 18


def test_lesson29_a_new_parser_reads_nothing_old(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(path, Scripted())
    monkeypatch.setattr("fitter.judge.phase.PARSER_VERSION", "verdict-next")
    assert judge(path, Scripted()).reused == 0


def test_another_phase_of_the_fit_reuses_the_same_measurement(path: Path) -> None:
    judge(path, Scripted())
    assert judge(path, Scripted(), phase="cand:001").made == 0


def test_out3_rows_left_short_by_unavailable_pause_the_run_and_are_asked_again(path: Path) -> None:
    down = Reply(outcome="unavailable", detail="503 from the provider")

    def flaky(said: str, run: int, attempt: int) -> Reply:
        return down if said in ("Reply 2", "Reply 4") and run == 1 else ok(GOOD)

    with pytest.raises(Outage, match=r"2 of 6 rows .*503 from the provider") as stop:
        judge(path, Scripted(flaky))
    assert stop.value.exit_code == 4
    with Journal(path) as journal:
        assert journal.count("fit-1") == 18  # also the two that may have cost something
    client = Scripted()
    result = judge(path, client)
    assert sorted(client.requests) == [("Reply 2", 1, 1), ("Reply 4", 1, 1)]
    assert [p.unusable for p in result.passes] == [None] * 18


def test_out3_an_outage_in_the_retry_repeats_the_retry_only(path: Path) -> None:
    def first_fenced_then_down(said: str, run: int, attempt: int) -> Reply:
        return ok("```\n" + GOOD + "\n```") if attempt == 1 else Reply(outcome="unavailable")

    with pytest.raises(Outage):
        judge(path, Scripted(first_fenced_then_down), rows=1, runs=1)
    client = Scripted()
    result = judge(path, client, rows=1, runs=1)
    assert client.requests == [("Reply 0", 0, 2)]
    assert result.passes[0] == Pass(
        row="row-000000", run=0, label="bad", confidence=60, reasoning="it names no action", attempts=2,
        first_fault="fenced",
    )  # fmt: skip


def test_lesson24_a_model_that_is_down_is_not_asked_about_every_row(path: Path) -> None:
    client = Scripted(lambda *_: Reply(outcome="unavailable", detail="connection refused"), wait=0.0)
    with pytest.raises(Outage, match="connection refused"):
        judge(path, client, rows=500, concurrency=4)
    assert len(client.requests) < 20


@pytest.mark.parametrize("fault", [SettingsError("the key was refused"), Outage("the quota is spent")])
def test_what_the_client_raises_stops_the_phase_and_keeps_the_rest(path: Path, fault: Exception) -> None:
    def script(said: str, run: int, attempt: int) -> Reply | BaseException:
        return fault if said == "Reply 3" else ok(GOOD)

    with pytest.raises(type(fault), match=str(fault)):
        judge(path, Scripted(script), rows=50, concurrency=1)
    with Journal(path) as journal:
        assert journal.count("fit-1") == 9
    assert judge(path, Scripted(), rows=50).reused == 9


def test_lesson17_an_answer_is_kept_even_if_reading_it_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("a defect in the parser")

    monkeypatch.setattr("fitter.judge.retry.parse_verdict", broken)
    with pytest.raises(RuntimeError, match="a defect in the parser"):
        judge(path, Scripted(), rows=3, concurrency=1)
    monkeypatch.undo()
    assert judge(path, Scripted(), rows=3).reused == 1


# --- budget ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 5, 40])
def test_sc1_a_budget_ends_between_rows_at_the_same_place_whatever_the_concurrency(
    path: Path, concurrency: int
) -> None:
    client = Scripted(wait=0.0)
    budget = Budget(calls=20)
    with pytest.raises(BudgetReached, match="budget of 20 calls"):
        judge(path, client, rows=100, concurrency=concurrency, budget=budget)
    # A row may need 6 calls: 15 made leave room for none of those before 15 + 6 > 20, so the fifth row is the last.
    assert len(client.requests) == 15
    assert {said for said, _, _ in client.requests} == {f"Reply {n}" for n in range(5)}
    assert (budget.spent.calls, budget.reserved.calls) == (15, 0)


def test_sc1_never_more_calls_than_the_budget_even_if_every_pass_needs_its_retry(path: Path) -> None:
    client = Scripted(lambda *_: ok("no json"), wait=0.0)
    budget = Budget(calls=20)
    with pytest.raises(BudgetReached):
        judge(path, client, rows=100, concurrency=8, budget=budget)
    assert len(client.requests) == 18
    assert budget.spent.calls == 18


def test_sc1_resuming_a_finished_phase_needs_no_budget(path: Path) -> None:
    def script(said: str, run: int, attempt: int) -> Reply:
        return ok("no json" if said == "Reply 1" else GOOD)

    first = judge(path, Scripted(script))
    again = judge(path, Scripted(script), budget=Budget(calls=first.made, spent=first.made))
    assert again.passes == first.passes
    assert again.made == 0


def test_lesson30_what_was_paid_for_before_the_limit_is_kept(path: Path) -> None:
    with pytest.raises(BudgetReached):
        judge(path, Scripted(), rows=10, budget=Budget(calls=12))
    with Journal(path) as journal:
        spent = journal.count("fit-1")
    client = Scripted()
    result = judge(path, client, rows=10, budget=Budget(calls=60, spent=spent))
    assert (result.reused, result.made) == (spent, 30 - spent)
    assert len(client.requests) == 30 - spent


def test_a_client_error_frees_what_was_reserved(path: Path) -> None:
    budget = Budget(calls=100)
    with pytest.raises(SettingsError):
        judge(path, Scripted(lambda *_: SettingsError("bad key")), budget=budget)
    assert (budget.spent.calls, budget.reserved.calls) == (0, 0)


# --- interrupts, loops, progress -------------------------------------------------------------------------------------


def test_lo7_an_interrupt_keeps_the_calls_in_flight(path: Path) -> None:
    client = Scripted(wait=0.05)

    async def interrupted() -> None:
        with Journal(path) as journal:
            phase = asyncio.create_task(
                run_passes(
                    client=client, prompt=PROMPT, items=items_for(PROMPT, 50), runs=3, settings=ModelSettings(),
                    journal=journal, run_id="fit-1", phase="v0", concurrency=6,
                )
            )  # fmt: skip
            while len(client.requests) < 12:
                await asyncio.sleep(0.005)
            assert client.in_flight > 0
            phase.cancel()
            with pytest.raises(asyncio.CancelledError):
                await phase

    asyncio.run(interrupted())
    assert 12 <= len(client.requests) < 150
    with Journal(path) as journal:
        assert journal.count("fit-1") == len(client.requests)


def test_an_interrupt_does_not_wait_for_ever(path: Path) -> None:
    client = Scripted(wait=60.0)

    async def interrupted() -> float:
        with Journal(path) as journal:
            phase = asyncio.create_task(
                run_passes(
                    client=client, prompt=PROMPT, items=items_for(PROMPT, 5), runs=1, settings=ModelSettings(),
                    journal=journal, run_id="fit-1", phase="v0", grace_s=0.05,
                )
            )  # fmt: skip
            await asyncio.sleep(0.02)
            start = time.monotonic()
            phase.cancel()
            with pytest.raises(asyncio.CancelledError):
                await phase
            return time.monotonic() - start

    assert asyncio.run(interrupted()) < 20.0
    assert client.in_flight == 0


def test_measure_releases_the_client_also_when_it_fails(path: Path) -> None:
    client = Scripted()
    judge(path, client)
    assert client.closed == 1
    failing = Scripted(lambda *_: SettingsError("bad key"))
    with pytest.raises(SettingsError):
        judge(path, failing, run_id="fit-2")
    assert failing.closed == 1


def test_progress_ends_with_everything(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitter.judge.phase._PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr("fitter.judge.phase._TURN_SECONDS", 0.0)
    told: list[tuple[int, int, int]] = []
    result = judge(path, Scripted(by_hash), rows=10, on_progress=lambda *now: told.append(now))
    assert told[-1] == (30, 30, sum(p.unusable is not None for p in result.passes))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert len(told) > 3


def test_the_end_of_a_phase_is_told_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow client's last pass is told when it comes; the end of the phase said it again."""
    monkeypatch.setattr("fitter.judge.phase._PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr("fitter.judge.phase._TURN_SECONDS", 0.0)
    told: list[tuple[int, int, int]] = []
    judge(path, Scripted(wait=0.001), rows=2, concurrency=1, on_progress=lambda *now: told.append(now))
    assert told == [(done, 6, 0) for done in range(1, 7)]


def test_a_client_that_never_waits_does_not_starve_the_event_loop(path: Path) -> None:
    ticks = 0

    async def with_a_clock() -> None:
        nonlocal ticks

        async def clock() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        beside = asyncio.create_task(clock())
        with Journal(path) as journal:
            await run_passes(
                client=Scripted(), prompt=PROMPT, items=items_for(PROMPT, 3000), runs=3, settings=ModelSettings(),
                journal=journal, run_id="fit-1", phase="v0",
            )  # fmt: skip
        beside.cancel()

    asyncio.run(with_a_clock())
    assert ticks >= 3


def test_out2_an_instrument_that_changes_during_the_phase_is_said(path: Path) -> None:
    client = Scripted()

    def falls_back(said: str, run: int, attempt: int) -> Reply:
        client.identity = {"model": "model-x", "schema_mode": "json_object"}
        return ok(GOOD)

    client.script = falls_back
    assert judge(path, client).instrument_changed
    steady = judge(path, Scripted(), run_id="fit-2")
    assert not steady.instrument_changed


def test_out2_accepted_models_count(path: Path) -> None:
    client = Scripted(lambda *_: ok(GOOD, model="model-x-turbo"))
    refused = judge(path, client, rows=1)
    assert {p.unusable for p in refused.passes} == {"wrong_model"}
    accepted = judge(path, client, rows=1, accepted_models=("model-x-turbo",))
    assert {p.label for p in accepted.passes} == {"good"}
    assert accepted.made == 0


def test_a_clock_that_jumps_backwards_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(2_000_000_000, -3600)
    monkeypatch.setattr("fitter.judge.phase.time.time", lambda: float(next(clock)))
    client = Scripted(by_hash)
    first = judge(path, client, rows=10, concurrency=1)
    again = judge(path, Scripted(by_hash), rows=10)
    assert again.passes == first.passes
    with Journal(path) as journal:
        stored = list(journal.calls("fit-1"))
    assert [(f"Reply {int(c.row[4:])}", c.run, c.attempt) for c in stored] == client.requests
    assert stored[0].at > stored[-1].at


def test_hostile_answers_are_kept_whole_and_read_the_same_again(path: Path) -> None:
    texts = [
        "\ud800",
        '{"reasoning":"so \\ud800","label":"good","confidence":1}',
        "\x00\x1b[2J",
        "{" * 3000,
        "x" * 300_000,
    ]

    def script(said: str, run: int, attempt: int) -> Reply:
        text = texts[int(said.split()[1]) % len(texts)]
        return Reply(outcome="ok", text=text, model="model-x", raw=text.encode("utf-8", "replace"), detail="\udcff")

    first = judge(path, Scripted(script), rows=5)
    again = judge(path, Scripted(script), rows=5)
    assert again.made == 0
    assert again.passes == first.passes
    assert {p.unusable for p in first.passes} == {None, "empty_text", "too_deep", "not_json"}


def test_row_ids_are_unique_and_limits_sane(path: Path) -> None:
    items = items_for(PROMPT, 2)
    with pytest.raises(ValueError, match="unique"):
        judge(path, Scripted(), items=[items[0], items[0]])
    with pytest.raises(ValueError, match="at least 1"):
        judge(path, Scripted(), concurrency=0)


def test_no_rows_no_calls(path: Path) -> None:
    assert judge(path, Scripted(), rows=0) == dataclasses.replace(
        judge(path, Scripted(), rows=0), passes=(), made=0, reused=0
    )


def test_the_first_writer_of_a_call_wins_and_everybody_counts_its_answer(path: Path) -> None:
    """Two processes on one journal: here the second writes between our look-up and our answer."""
    other = Journal(path)

    def sneaked_in(said: str, run: int, attempt: int) -> Reply:
        if said == "Reply 1" and run == 0 and attempt == 1:
            measure(
                client=Scripted(lambda *_: ok(BAD)), prompt=PROMPT, items=items_for(PROMPT, 6)[1:2], runs=1,
                settings=ModelSettings(), journal=other, run_id="fit-1", phase="v0",
            )  # fmt: skip
        return ok(GOOD)

    class InAThread(Scripted):
        async def complete(self, request: Any, *, run: int) -> Reply:
            reply = await asyncio.to_thread(self.script, said_in(request), run, attempt_of(request))
            assert isinstance(reply, Reply)
            return reply

    result = judge(path, InAThread(sneaked_in), runs=1)
    other.close()
    assert [p.label for p in result.passes] == ["good", "bad", "good", "good", "good", "good"]
    assert result.made == 6
    assert [p.label for p in judge(path, Scripted(), runs=1).passes] == [p.label for p in result.passes]


def test_a_full_disk_counts_nothing_and_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    real, calls = table.insert, itertools.count()

    def full(*args: Any) -> Any:
        if next(calls) == 1:
            fault = sqlite3.OperationalError("database or disk is full")
            fault.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise fault
        return real(*args)

    monkeypatch.setattr(table, "insert", full)
    with pytest.raises(Stopped, match="disk is full") as stop:
        judge(path, Scripted(), rows=400)
    assert stop.value.exit_code == 4
    assert "fitter resume" in str(stop.value)
    monkeypatch.undo()
    with Journal(path) as journal:
        durable = journal.count("fit-1")
    assert 0 < durable < 1200
    result = judge(path, Scripted(), rows=400)
    assert (result.reused, result.made) == (durable, 1200 - durable)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 12),
    runs=st.sampled_from((1, 3)),
    limits=st.lists(st.integers(0, 30), max_size=4),
    concurrency=st.integers(1, 9),
)
def test_lo7_stops_and_resumes_end_like_an_uninterrupted_run(
    tmp_path_factory: pytest.TempPathFactory, rows: int, runs: int, limits: list[int], concurrency: int
) -> None:
    folder = tmp_path_factory.mktemp("resume")
    whole = judge(folder / "whole.sqlite", Scripted(by_hash), rows=rows, runs=runs)
    client = Scripted(by_hash)
    path = folder / "parts.sqlite"
    spent = 0
    for limit in limits:
        budget = Budget(calls=spent + limit, spent=spent)
        with contextlib.suppress(BudgetReached):
            judge(path, client, rows=rows, runs=runs, concurrency=concurrency, budget=budget)
        assert budget.spent.calls <= spent + limit
        spent = budget.spent.calls
    end = judge(path, client, rows=rows, runs=runs, concurrency=concurrency)
    assert end.passes == whole.passes
    assert len(client.requests) == len(set(client.requests)) == whole.made


def test_the_public_names_are_these() -> None:
    assert set(passes_module.__all__) == {
        "Item", "PassResult", "Plan", "Progress", "measure", "model_matches", "run_passes", "run_staged",
    }  # fmt: skip
