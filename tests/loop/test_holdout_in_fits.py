"""The holdout through whole fits: it is spent only when something can be published, and rows seen "
"elsewhere are named."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fitter import fitting, settings
from fitter.errors import EXIT_NO_EVALUATOR
from fitter.report.names import reaches

QUALITIES = {
    "good": "You could move the check into a helper and cache its result, because it runs twice on step {n}.",
    "bad": "Great work on step {n}!",
}


def queue(path: Path, rows: int = 60, *, blind: bool = False) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "output", "label", "reason"])
        for n in range(rows):
            label = "good" if n % 2 else "bad"
            text = f"Step {n} of the plan, seen {n * n} times." if blind else QUALITIES[label].format(n=n)
            out.writerow([f"row-{n}", text, label, "" if blind else ("actionable" if n % 2 else "empty praise")])
    return path


def fit(workspace: Path, path: Path, name: str, **more: object) -> fitting.Outcome:
    given = settings.make(
        queue=str(path),
        goal="Tell useful comments from useless ones.",
        costly="same",
        framing="grader",
        metric="balanced_accuracy",
        judge="lexicon",
        proposer="lexicon",
        name=name,
        app="reviews",
        publish_to="local",
        scope="span",
        label="label",
        **more,
    )
    return fitting.Fitting(workspace).start(given)


def read(workspace: Path, run: str, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((workspace / "runs" / run / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_sp5_the_same_rows_under_another_queue_name_are_named_exposed(tmp_path: Path) -> None:
    first = fit(tmp_path / "ws", queue(tmp_path / "reviews.csv"), "one")
    assert read(tmp_path / "ws", first.run, "holdout.json")["exposure"] == ""
    again = fit(tmp_path / "ws", queue(tmp_path / "reviews_v2.csv"), "two")
    exposure = str(read(tmp_path / "ws", again.run, "holdout.json")["exposure"])
    assert exposure.startswith("exposed holdout, ")
    assert "rows were seen before under reviews--label-" in exposure
    assert exposure in (tmp_path / "ws" / "runs" / again.run / "report.md").read_text(encoding="utf-8")
    assert exposure in again.summary
    other = fit(tmp_path / "elsewhere", queue(tmp_path / "reviews_v2.csv"), "two")
    assert read(tmp_path / "elsewhere", other.run, "holdout.json")["exposure"] == ""


@pytest.mark.slow
def test_sp5_a_fit_that_will_publish_nothing_leaves_the_holdout_sealed(tmp_path: Path) -> None:
    outcome = fit(tmp_path / "ws", queue(tmp_path / "blind.csv", blind=True), "blind", max_iterations=1)
    assert outcome.exit_code == EXIT_NO_EVALUATOR
    held = read(tmp_path / "ws", outcome.run, "holdout.json")
    assert held["opened"] is False
    assert "stays sealed" in str(held["reason"])
    assert not list((tmp_path / "ws" / "holdouts").rglob("openings.jsonl"))
    assert not (tmp_path / "ws" / "runs" / outcome.run / "labels" / "holdout.jsonl").exists()


def test_pu2_an_interval_that_reaches_the_constant_judge_shows_nothing() -> None:
    assert reaches({"low": 0.45, "high": 0.7}, 0.5)
    assert reaches({"low": 0.5, "high": 0.7}, 0.5)
    assert not reaches({"low": 0.51, "high": 0.7}, 0.5)
    assert reaches({"low": None, "high": None}, 0.5)  # no interval shows nothing either
    assert not reaches({"low": 0.1, "high": 0.2}, None)
