"""Whole fits, exhaustive or not: the same decisions, winner, figures and prompts, with fewer calls (KE, LO-5, LO-7)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.clients.base import Reply
from fitter.errors import BudgetReached
from fitter.evaluation.replay import replay
from fitter.workspace import Workspace
from tests.loop.scripted import World, add, draft, number_of, queue, rows, truth, world

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
RUN = "scripted-001"


def chance(*parts: object) -> float:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") / 2**32


def unsteady(seed: int) -> Any:
    """A judge whose strength hangs on the prompt's words; some rows flip, some replies are no verdict."""

    def answer(system: str, user: str, run: int) -> Any:
        said, row = truth(user), number_of(user)
        words = tuple(w for w in WORDS if f"Rule {w}." in system)
        skill = 0.7 + sum(0.25 * (chance(seed, w) - 0.5) for w in words)
        right = chance(seed, "row", row, words[-1:]) < skill
        if chance(seed, "edge", row) < 0.2:
            right = chance(seed, "flip", row, run, words) < 0.6
        if chance(seed, "spoilt", row, run, words) < 0.05:
            return Reply(outcome="ok", text="I would rather not say.")
        return said if right else {"good": "bad", "bad": "good"}[said]

    return answer


def a_fit(folder: Path, patch: pytest.MonkeyPatch, seed: int, **changes: Any) -> World:
    folder.mkdir()
    made = world(
        folder, patch, unsteady(seed), drafts=[draft(("bad", "Start."))], changes=[add(f"Rule {w}.") for w in WORDS]
    )
    made.fit(queue(folder / "q.jsonl", rows(60)), max_iterations=8, runs=3, **changes)
    return made


def judge_calls(made: World, phase: str) -> int:
    return sum(r["calls"] for r in made.store().read_rows("ledger.jsonl") if r["phase"].startswith(phase))


def artefact(made: World, name: str) -> str:
    return (made.workspace / "runs" / RUN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))])
def test_a_fit_ends_as_the_exhaustive_one_does(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = a_fit(tmp_path / "every", monkeypatch, seed, exhaustive=True)
    less = a_fit(tmp_path / "less", monkeypatch, seed)
    names = every.store().names("decisions")
    assert less.store().names("decisions") == names
    for name in names:
        whole, early = (made.store().read(f"decisions/{name}.json") for made in (every, less))
        assert early["attempt"] == whole["attempt"]
        assert (early["best"], early["candidate"]) == (whole["best"], whole["candidate"])
        if whole["candidate"] is not None and "passes" not in early["decision"]:
            assert early == whole
    assert [b.attempts for b in less.proposer.briefs] == [b.attempts for b in every.proposer.briefs]
    cards = less.store().names("cards")
    same = ["stop.json", "result.json", "baseline.json", "holdout.json", "optimism.json", "injection.json"]
    same += [f"prompts/{n}.json" for n in every.store().names("prompts")] + [f"cards/{n}.json" for n in cards]
    for name in same:
        assert artefact(less, name) == artefact(every, name), name
    assert less.store().read("config.json")["config_hash"] == every.store().read("config.json")["config_hash"]
    assert replay(Workspace(less.workspace), RUN).intact
    assert judge_calls(less, "draft") == judge_calls(every, "draft")
    discarded = [n for n in names if every.store().read(f"decisions/{n}.json")["attempt"]["outcome"] == "discarded"]
    assert discarded
    assert judge_calls(less, "candidate") < judge_calls(every, "candidate")
    assert "decided early" in less.report()
    assert "decided early" not in every.report()


def test_sc1_a_budget_that_ends_in_the_middle_of_the_stages_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = a_fit(tmp_path / "whole", monkeypatch, 1)
    (tmp_path / "parts").mkdir()
    parts = world(
        tmp_path / "parts", monkeypatch, unsteady(1), drafts=[draft(("bad", "Start."))],
        changes=[add(f"Rule {w}.") for w in WORDS],
    )  # fmt: skip
    settings = parts.settings(
        queue(tmp_path / "parts" / "q.jsonl", rows(60)), max_iterations=8, runs=3, budget_calls=150
    )
    stops, budget = 0, 150
    with pytest.raises(BudgetReached):
        fitting.Fitting(parts.workspace).start(settings)
    while True:
        parts.proposer.briefs.clear()  # the scripted proposer counts; a journaled one finds its answer again
        done = len(parts.store().names("proposals"))
        parts.proposer.changes = [add(f"Rule {w}.") for w in WORDS[done:]]
        budget += 60
        try:
            fitting.Fitting(parts.workspace).resume(RUN, budget_calls=budget)
            break
        except BudgetReached:
            stops += 1
    assert stops > 3
    for name in [n for n in whole.store().tracked_files() if n.startswith(("passes/", "cards/", "decisions/"))]:
        assert artefact(parts, name) == artefact(whole, name), name
    assert len(parts.judge.asked) == len(whole.judge.asked)  # nothing was asked for twice
