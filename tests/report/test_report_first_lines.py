"""What the report and the terminal say beside the first figure, because it is easily overlooked (ME-4, PU-2, SP-6)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fitter.clients.base import Reply
from fitter.report.figures import code
from fitter.report.spend import lines_by_role
from tests.loop.scripted import add, number_of, queue, rows, world
from tests.report.test_report_law import wrong_on


def first_lines(report: str) -> str:
    return report.split("\n## ", 1)[0]


def test_me4_coverage_is_that_of_the_first_calls_where_a_retry_was_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[tuple[str, str, int]] = Counter()

    def answer(system: str, user: str, run: int) -> Any:
        asked[system, user, run] += 1
        if number_of(user) % 3 == 0 and asked[system, user, run] == 1:
            return Reply(outcome="ok", text="Sure! It is good, I would say.")
        return wrong_on(1)(system, user, run)

    made = world(tmp_path, monkeypatch, answer)
    summary = made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=0, runs=3).summary
    passes = made.store().read_rows("passes/holdout-winner.jsonl")
    rescued = sum(p["attempts"] > 1 for p in passes)
    assert 0 < rescued < len(passes)
    share = f"{100 * (len(passes) - rescued) / len(passes):.1f}%"
    for text in (first_lines(made.report()), summary):
        assert f"Coverage: {share} of the first calls gave a usable answer, 100.0% after the fit's one retry" in text
        assert f"{rescued} passes that only the retry rescued are in the score; without them it is " in text
    assert "100.0% of the calls" not in made.report()


def test_me4_coverage_is_short_where_no_retry_was_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1))
    summary = made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=0).summary
    assert "Coverage: 100.0% of the calls gave a usable answer. No pass needed its retry." in first_lines(made.report())
    assert "Coverage" not in summary


def test_sp6_a_winner_that_is_worse_than_v0_out_of_sample_is_said_at_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = queue(tmp_path / "q.jsonl", rows(60))
    (tmp_path / "a").mkdir()
    probe = world(tmp_path / "a", monkeypatch, wrong_on(1))
    probe.fit(path, max_iterations=0)
    held = [int(r["id"][2:]) for r in probe.store().read_rows("labels/holdout.jsonl")]
    train = [n for n in range(60) if n not in held]

    def answer(system: str, user: str, run: int) -> Any:
        return wrong_on(*(held[:4] if "One." in system else train[:6]))(system, user, run)

    (tmp_path / "b").mkdir()
    made = world(tmp_path / "b", monkeypatch, answer, changes=[add("One.")])
    summary = made.fit(path, max_iterations=1, runs=3).summary
    said = "The kept changes did not hold up on the holdout: by votes the winner is worse than v0, 1.000 → "
    assert said in first_lines(made.report())
    assert "0 rows gained and 4 lost" in first_lines(made.report())
    assert said in summary
    assert "(worse) in `balanced_accuracy`" in made.report()


def test_sp6_a_winner_that_holds_up_is_called_better_and_no_warning_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(system: str, user: str, run: int) -> Any:
        return wrong_on(*(() if "One." in system else range(0, 60, 4)))(system, user, run)

    made = world(tmp_path, monkeypatch, answer, changes=[add("One.")])
    made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=1, runs=3)
    assert "(better) in `balanced_accuracy`" in made.report()
    assert "did not hold up" not in made.report()
    assert "No change was ever measured" not in made.report()


def test_lo6_a_fit_in_which_nothing_was_ever_measured_says_so_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(*range(0, 60, 3)), changes=[None, None, None])
    summary = made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=9).summary
    said = "No change was ever measured: in 3 iterations none could be ("
    assert said in first_lines(made.report())
    assert said in summary


@pytest.mark.parametrize(
    ("value", "shown"),
    [(False, "`false`"), (True, "`true`"), (["late", "rude"], '`["late","rude"]`'), ("bad", "`bad`"), (3.0, "`3.0`")],
)
def test_a_label_is_shown_in_the_form_that_every_artefact_has(value: Any, shown: str) -> None:
    assert code(value) == shown


def test_one_call_and_one_retry_are_not_plural() -> None:
    tokens = {"known": 1, "calls_unknown": 0}
    row = {"role": "judge", "calls": 1, "retries": 1, "unusable": {"not_json": 1},
           "tokens": {"input": tokens, "output": tokens},
           "cost": {"known": 0.0, "calls_unknown": 0, "upper_bound": False}}  # fmt: skip
    assert lines_by_role([row])[0].startswith("judge: 1 call, of these 1 retry; 1 unusable answer; 1 input")
