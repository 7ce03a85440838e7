"""Budgets, prices and the cost of whole fits over a wire (SC-1, SC-2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.errors import BudgetReached
from fitter.overview import cost_lines
from fitter.workspace import Workspace
from tests.advisors.test_advisors_in_the_loop import RUN, small
from tests.servers import fits, openai_api
from tests.servers.analyst import says
from tests.servers.loopback import Server

PRICES = {"judge": {"input": 1.0, "cached": 0.1, "output": 10.0, "reasoning": 10.0}}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FITTER_TEST_KEY", fits.CANARY)


def serving(**model: Any) -> Server:
    return Server(openai_api.api(openai_api.Model(says=says, **model)))


def capped(tmp_path: Path, server: Server, **more: Any) -> Any:
    """A small fit whose answers have a cap, so that worst cases are small."""
    made = small(tmp_path, server, max_iterations=1, **more)
    return made.with_answers({"judge_options": {**made.judge_options, "max_output_tokens": 200}})


@pytest.mark.parametrize(
    ("limits", "more"),
    [
        ({"budget_calls": 9}, {"budget_calls": 500}),
        ({"budget_tokens": 70_000}, {"budget_tokens": 10_000_000}),
        ({"budget_usd": 0.07, "prices": PRICES}, {"budget_usd": 100.0}),
    ],
)
def test_sc1_a_budget_stops_on_a_row_boundary_and_a_larger_one_goes_on(
    tmp_path: Path, limits: dict[str, Any], more: dict[str, Any]
) -> None:
    with serving(usage={"prompt_tokens": 5000}) as server:
        settings = capped(tmp_path, server, **limits)
        with pytest.raises(BudgetReached) as stop:
            fits.finish(tmp_path / "ws", settings, RUN)
        assert stop.value.exit_code == 4
        stopped_at = len(server.asked)
        assert len(fits.calls(tmp_path / "ws")) == stopped_at > 0  # everything paid for is kept
        assert "(so far)" in cost_lines(Workspace(tmp_path / "ws"), RUN)[0]
        with pytest.raises(BudgetReached):  # the same budget goes no further
            fitting.Fitting(tmp_path / "ws").resume(RUN)
        assert len(server.asked) == stopped_at
        fitting.Fitting(tmp_path / "ws").resume(RUN, **more)
        bodies = [asked.body for asked in server.asked]
        assert len(set(bodies)) == len(bodies)  # and nothing was paid for twice
    events = (tmp_path / "ws" / "runs" / RUN / "events.jsonl").read_text()
    assert '"budget"' in events


def test_sc2_the_report_and_fitter_cost_keep_judge_and_advisors_apart(tmp_path: Path) -> None:
    with serving() as server:
        fits.finish(tmp_path / "ws", small(tmp_path, server, max_iterations=1, prices=PRICES), RUN)
    folder = tmp_path / "ws" / "runs" / RUN
    calls = fits.calls(tmp_path / "ws")
    each = (20 * 1.0 + 100 * 0.1 + 18 * 10.0 + 12 * 10.0) / 1e6  # the stand-in bills the same for every call
    judge = sum(role == "judge" for role, _, _ in calls)
    lines = cost_lines(Workspace(tmp_path / "ws"), RUN)
    assert lines[0] == f"run {RUN}: cost {each * len(calls):.6f} USD"
    assert lines[1].startswith(f"judge: {judge} calls")
    assert f"{judge * 120} input and {judge * 30} output tokens; cost {each * judge:.6f} USD" in lines[1]
    together = f"drafter, describer and proposer together: cost {each * (len(calls) - judge):.6f} USD"
    assert together in lines
    report = (folder / "report.md").read_text()
    assert f"cost {each * judge:.6f} USD" in report
    assert together in report
    assert "no prices were given" not in report


def test_sc1_unknown_and_absurd_usage_is_unknown_never_free(tmp_path: Path) -> None:
    absurd = {"prompt_tokens": 10**400, "completion_tokens": -1}
    with serving(usage=absurd) as server:
        fits.finish(tmp_path / "ws", small(tmp_path, server, max_iterations=0, prices=PRICES), RUN)
        asked = len(server.asked)
    report = (tmp_path / "ws" / "runs" / RUN / "report.md").read_text()
    assert "cost unknown" in report
    assert "calls that named none" in report
    assert cost_lines(Workspace(tmp_path / "ws"), RUN)[0] == f"run {RUN}: cost unknown"
    ledger = [json.loads(line) for line in (tmp_path / "ws/runs" / RUN / "ledger.jsonl").read_text().splitlines()][1:]
    assert sum(row["cost"]["calls_unknown"] for row in ledger) == asked
