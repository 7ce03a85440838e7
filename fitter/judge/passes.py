"""The runner: one phase of judge calls over rows, journaled, resumable, within a budget (docs/calls.md).

Rows are scheduled in order; a bounded number of workers makes the calls. A pass counts once its calls are durable in
the journal: a phase returns, or raises, only after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from fitter.calls.budget import Budget
from fitter.calls.journal import Journal
from fitter.clients.base import ModelClient, ModelSettings
from fitter.judge.phase import Item, PassResult, Phase, Progress
from fitter.judge.prompt import JudgePrompt
from fitter.judge.retry import model_matches
from fitter.records import Pass

__all__ = ["Item", "PassResult", "Plan", "Progress", "measure", "model_matches", "run_passes", "run_staged"]

GRACE_SECONDS: Final = 20.0

# passes made so far → (row, run) of those to make next; none when no more are wanted
Plan: TypeAlias = Callable[[Sequence[Pass]], Sequence[tuple[str, int]]]


def measure(
    *,
    client: ModelClient,
    prompt: JudgePrompt,
    items: Sequence[Item],
    runs: int,
    settings: ModelSettings,
    journal: Journal,
    run_id: str,
    phase: str,
    concurrency: int = 8,
    budget: Budget | None = None,
    accepted_models: Sequence[str] = (),
    on_progress: Progress | None = None,
    plan: Plan | None = None,
) -> PassResult:
    """:func:`run_passes`, or with a plan :func:`run_staged`, for synchronous callers: one event loop for the phase.

    The client's connections are released at the end, since they belong to the loop; a client opens them again with its
    next call.
    """

    async def phase_of_calls() -> PassResult:
        one_stage = partial(
            run_passes,
            client=client,
            prompt=prompt,
            runs=runs,
            settings=settings,
            journal=journal,
            run_id=run_id,
            phase=phase,
            concurrency=concurrency,
            budget=budget,
            accepted_models=accepted_models,
        )
        try:
            if plan is None:
                return await one_stage(items=items, on_progress=on_progress)
            return await run_staged(one_stage, plan, items=items, runs=runs, on_progress=on_progress)
        finally:
            await client.aclose()

    phase_now = phase_of_calls()
    try:
        return asyncio.run(phase_now)
    finally:
        phase_now.close()  # an interrupt may come before it was begun


async def run_passes(
    *,
    client: ModelClient,
    prompt: JudgePrompt,
    items: Sequence[Item],
    runs: int,
    settings: ModelSettings,
    journal: Journal,
    run_id: str,
    phase: str,
    concurrency: int = 8,
    budget: Budget | None = None,
    accepted_models: Sequence[str] = (),
    on_progress: Progress | None = None,
    grace_s: float = GRACE_SECONDS,
) -> PassResult:
    """Judges every row ``runs`` times, or as often as its item says.

    Args:
        client: the model.
        prompt: the judge's prompt version.
        items: rows, in scheduling order.
        runs: passes a row.
        settings: model settings.
        journal: where calls are kept and found again.
        run_id: the fit; part of every key, so a new fit measures anew.
        phase: what the calls are for, in the ledger.
        concurrency: calls in flight at once.
        budget: calls are reserved here, row by row, before they are made.
        accepted_models: further model names that may answer (OUT-2).
        on_progress: told about finished passes, a few times a second and at the end.
        grace_s: how long an interrupt waits for calls in flight.

    Returns:
        All passes; every call behind them is durable.

    Raises:
        Outage: rows were left short by ``unavailable``, or the client gave up. Resumable.
        BudgetReached: the next row's worst case does not fit. Resumable; rows already begun were finished.
        Stopped: the journal could not be written.
        FitterError: what the client raised (e.g. SettingsError for a bad key).
    """
    if len({item.row for item in items}) != len(items):
        raise ValueError("row ids of a phase are unique")
    if runs < 1 or concurrency < 1:
        raise ValueError("runs and concurrency are at least 1")
    made = 0
    while True:
        conflicts = len(journal.conflicts)
        phase_run = Phase(
            client=client,
            prompt=prompt,
            items=items,
            runs=runs,
            settings=settings,
            journal=journal,
            run_id=run_id,
            phase=phase,
            concurrency=concurrency,
            budget=budget,
            accepted=tuple(accepted_models),
            on_progress=on_progress,
            grace_s=grace_s,
        )
        result = await phase_run.go(made_before=made)
        if len(journal.conflicts) == conflicts:
            return result
        # Another process was first with some calls and got other answers. Theirs count: read the phase again.
        made = result.made


async def run_staged(
    stage: Callable[..., Awaitable[PassResult]],
    plan: Plan,
    *,
    items: Sequence[Item],
    runs: int,
    on_progress: Progress | None = None,
) -> PassResult:
    """Judges rows in stages: what is asked next depends on the answers so far, and on nothing else.

    A stage ends before the next one is planned, so that the same answers always lead to the same calls, whatever the
    order in which they arrived; a resumed phase finds the calls of its finished stages in the journal.

    Args:
        stage: :func:`run_passes` with everything but ``items`` and ``on_progress``.
        plan: what to make next.
        items: every row that may be asked about.
        runs: most passes a row.
        on_progress: told about all stages together; the total is an upper bound until the plan is done.

    Returns:
        The passes of all stages as one result.

    Raises:
        ValueError: the plan wants a row that is not among the items, or a pass for the second time.
        Outage, BudgetReached, Stopped, FitterError: as :func:`run_passes`.
    """
    texts = {item.row: item for item in items}
    most = len(items) * runs
    done: list[Pass] = []
    calls = reused = 0
    instruments: list[str] = []
    changed = False

    def progress(made: int, _: int, failures: int) -> None:
        assert on_progress is not None
        on_progress(len(done) + made, most, failures + sum(p.unusable is not None for p in done))

    while wanted := plan(done):
        by_row: dict[str, list[int]] = {}
        for row, run in wanted:
            by_row.setdefault(row, []).append(run)
        had = {(p.row, p.run) for p in done}
        if had.intersection(wanted) or not by_row.keys() <= texts.keys():
            raise ValueError("a plan asks once for each pass, of rows that are there")
        result = await stage(
            items=[replace(texts[row], only=tuple(sorted(set(run)))) for row, run in by_row.items()],
            on_progress=None if on_progress is None else progress,
        )
        done += result.passes
        calls, reused = calls + result.made, reused + result.reused
        instruments.append(result.instrument)
        changed |= result.instrument_changed or result.instrument != instruments[0]
    if on_progress is not None and len(done) < most:
        on_progress(len(done), len(done), sum(p.unusable is not None for p in done))
    return PassResult(
        passes=tuple(sorted(done, key=lambda p: (p.row, p.run))),
        made=calls,
        reused=reused,
        instrument=instruments[0] if instruments else "",
        instrument_changed=changed,
    )
