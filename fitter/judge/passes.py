"""The runner: one phase of judge calls over rows, journaled, resumable, within a budget (docs/calls.md).

Rows are scheduled in order; a bounded number of workers makes the calls. A pass counts once its calls are durable in
the journal: a phase returns, or raises, only after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from fitter.calls.budget import Budget
from fitter.calls.journal import Journal
from fitter.clients.base import ModelClient, ModelSettings
from fitter.judge.phase import Item, PassResult, Phase, Progress
from fitter.judge.prompt import JudgePrompt
from fitter.judge.retry import model_matches

__all__ = ["Item", "PassResult", "Progress", "measure", "model_matches", "run_passes"]

GRACE_SECONDS: Final = 20.0


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
) -> PassResult:
    """:func:`run_passes` for synchronous callers: one event loop for the phase.

    The client's connections are released at the end, since they belong to the loop; a client opens them again with its
    next call.
    """

    async def phase_of_calls() -> PassResult:
        try:
            return await run_passes(
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
                accepted_models=accepted_models,
                on_progress=on_progress,
            )
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
    """Judges every row ``runs`` times.

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
