"""The graph's state: plain JSON of ids, numbers and names. Payloads, rows and settings' secrets never enter it."""

from __future__ import annotations

from typing import Any, TypedDict


class State(TypedDict, total=False):
    """What LangGraph checkpoints between nodes.

    Attributes:
        run: run id.
        settings: the settings as JSON; complete once ``ask`` has passed.
        question: what must still be asked, or None.
        gate: why no fit is possible (GT-7), or None.
        version: the version that the next node works on; versions count from 0.
        draft_version: the first draft (before any redraft).
        v0: the version that entered iteration 1.
        best: the version kept so far.
        candidate: the version under test in this iteration, or None.
        iteration: iterations begun.
        no_change: why the iteration under way could not be measured, or None.
        discarded_in_row, no_change_in_row: for the stop rules.
        versions: how many versions were measured on train (k candidates, SP-1).
        stop: why the loop ended.
        ending: ``published``, or a reason to finish without an evaluator (PU-2).
    """

    run: str
    settings: dict[str, Any]
    question: dict[str, Any] | None
    gate: str | None
    version: int
    draft_version: int
    v0: int
    best: int
    candidate: int | None
    iteration: int
    no_change: str | None
    discarded_in_row: int
    no_change_in_row: int
    versions: int
    stop: str | None
    ending: str | None
