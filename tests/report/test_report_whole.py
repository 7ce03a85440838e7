"""Reports of whole fits: what they say first, how every figure is called, and what must never stand in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.loop.deps import Quiet
from tests.loop.scripted import World, add, number_of, queue, rows, truth, world


def wrong_on(*numbers: int) -> Any:
    def answer(system: str, user: str, run: int) -> str:
        said = truth(user)
        return {"good": "bad", "bad": "good"}[said] if number_of(user) in numbers else said

    return answer


def first(made: World, run: str = "scripted-001") -> str:
    """The first sentence below the title."""
    return made.report(run).splitlines()[2]


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A fit with a holdout, a kept change, errors on both sides."""

    def answer(system: str, user: str, run: int) -> str:
        return wrong_on(*(range(0, 60, 5) if "One." in system else range(0, 60, 3)))(system, user, run)

    made = world(tmp_path, monkeypatch, answer, changes=[add("One."), None])
    made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=2, runs=3)
    return made


def test_me4_the_deployable_score_comes_first_and_names_its_rows(held: World) -> None:
    assert first(held).startswith("**Deployable score: balanced_accuracy 0.")
    assert "holdout, opened once" in first(held)
    assert "The best constant judge on these rows" in first(held)


def test_sp1_every_train_figure_is_called_in_sample(held: World) -> None:
    report = held.report()
    called = "in-sample, selected from 2 candidates"
    table = [line for line in report.splitlines() if line.startswith("|") and "train" in line]
    assert len(table) == 2
    assert all(called in line for line in table)
    summary = fitting.Fitting(held.workspace, progress=Quiet()).outcome("scripted-001").summary
    on_train = [line for line in summary.splitlines() if "train" in line]
    assert len(on_train) == 2
    assert all(called in line for line in on_train)


def test_sp6_the_improvement_is_out_of_sample_with_its_tests(held: World) -> None:
    line = next(line for line in held.report().splitlines() if line.startswith("Out of sample, from v0"))
    assert "paired rows" in line
    assert "Exact two-sided McNemar" in line
    assert "Nothing was chosen from these rows" in line


def test_out5_confidence_that_does_not_separate_is_said(held: World) -> None:
    section = held.report().split("## Confidence")[1].split("\n## ")[0]
    assert "**Confidence does not separate hits from errors; route nothing on it.**" in section
    assert "It weighs no vote and decides nothing" in section


def test_gt7_small_classes_are_named_and_the_headline_stands_with_and_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        {
            **r,
            "label": "bad" if i in (1, 3, 5, 7) else "good",
            "output": f"Reply number {i} {'nay' if i in (1, 3, 5, 7) else 'aye'}.",
        }
        for i, r in enumerate(rows(20))
    ]
    made = world(tmp_path, monkeypatch, wrong_on(1))
    made.fit(queue(tmp_path / "q.jsonl", records), max_iterations=0)
    report = made.report()
    assert "wide enough to swallow most improvements" in report
    line = next(line for line in report.splitlines() if line.startswith("Not separately measurable"))
    assert "`bad`" in line
    assert re.search(r"The headline is 0\.\d{3} with them and \S+ without them", line)


def test_sp1_without_a_holdout_the_report_says_that_every_figure_is_flattering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1))
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=0)
    line = next(line for line in made.report().splitlines() if "There is no out-of-sample figure" in line)
    assert "in-sample, selected from 1 candidate" in line
    assert "flattering" in line


CANARY = "zebrafish"
PLACES = ("input", "output", "context", "reason", "expected_output", "who")


@pytest.fixture
def secretive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    records = []
    for i, row in enumerate(rows(60)):
        records.append({**row, "context": "c", "expected_output": "good", "who": f"person {i % 3}"})
        for place in PLACES:
            records[-1][place] = f"{records[-1][place]} {CANARY}{place}{i:03d}"
    made = world(tmp_path, monkeypatch, wrong_on(*range(0, 60, 7)), changes=[add("One."), add("Two.")])
    fit = fitting.Fitting(made.workspace)
    settings = made.settings(
        queue(tmp_path / "q.jsonl", records), max_iterations=2, columns={"annotator": "who", "context": "context"}
    )
    fit.start(settings, with_text=True)
    return made


def private(path: Path, workspace: Path) -> bool:
    parts = path.relative_to(workspace).parts
    # The journal and the checkpoint are git-ignored like private/ (runs/.gitignore).
    return "private" in parts or path.name.startswith(("calls.sqlite", "state.sqlite"))


def test_sc4_no_customer_text_in_any_tracked_artefact(secretive: World) -> None:
    workspace = secretive.workspace
    files = [p for p in workspace.rglob("*") if p.is_file() and not private(p, workspace)]
    assert len(files) > 20
    found = [
        (p.relative_to(workspace).as_posix(), place)
        for p in files
        for place in PLACES
        if f"{CANARY}{place}".encode() in p.read_bytes()
    ]
    assert found == []
    checkpoint = next(workspace.rglob("state.sqlite")).read_bytes()
    assert CANARY.encode() not in checkpoint  # state holds ids and numbers only


def test_with_text_writes_customer_text_into_private_only(secretive: World) -> None:
    folder = secretive.workspace / "runs" / "scripted-001"
    text = folder / "private" / "report-with-text.md"
    assert CANARY in text.read_text(encoding="utf-8")
    assert text.stat().st_mode & 0o777 == 0o600
    assert text.parent.stat().st_mode & 0o777 == 0o700
    assert CANARY not in (folder / "report.md").read_text(encoding="utf-8")
    ignored = (secretive.workspace / "runs" / ".gitignore").read_text(encoding="utf-8")
    assert "private/" in ignored.split()


def test_ev3_the_corrector_report_names_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{**r, "app_says": "good"} for r in rows()]
    made = world(tmp_path, monkeypatch, wrong_on(1))
    made.fit(queue(tmp_path / "q.jsonl", records), framing="corrector", max_iterations=0,
             columns={"app_verdict": "app_says"})  # fmt: skip
    report = made.report()
    assert "framing corrector" in report
    assert "the app's own verdict differs from the human on 12 of 24 rows" in report
    assert "the judge agrees with the app on 13 of 24 rows" in report
    assert "on 11 of the 12 rows where human and app differ" in report


def test_every_warning_and_reason_is_shown_without_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "bad`|<b>[x](y)\x1b\u202e"
    records = [{**r, "label": evil if r["label"] == "bad" else "good"} for r in rows(20)]

    def answer(system: str, user: str, run: int) -> str:
        return evil if truth(user) == "bad" and number_of(user) != 1 else "good"

    made = world(tmp_path, monkeypatch, answer)
    made.drafter.drafts = [
        type(made.drafter.drafts[0])(
            task="Decide.",
            criteria=(type(made.drafter.drafts[0].criteria[0])(id="c0", label=evil, text="Poor."),),
            otherwise="good",
        )
    ]
    made.fit(queue(tmp_path / "q.jsonl", records), max_iterations=0)
    report = made.report()
    assert "\x1b" not in report
    assert "\u202e" not in report
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", report)  # what is not inline code
    assert "<b>" not in outside.replace("\\<b\\>", "")
    assert "[x](y)" not in outside
    assert json.loads((made.workspace / "runs/scripted-001/intake.json").read_text(encoding="utf-8"))["usable"] == 20


def test_pu2_each_ending_without_an_evaluator_has_its_sentence_and_it_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_class = [{**r, "label": "good"} for r in rows(12)]
    endings = {
        "gate": (one_class, {}, "a categorical label needs a usable row in each of two classes"),
        "no_evidence": (rows(12), {"scope": "session"}, "session"),
        "not_better_than_constant": (rows(12), {}, "no kept version had a train headline strictly above the best"),
    }
    for name, (records, changes, sentence) in endings.items():
        folder = tmp_path / name
        folder.mkdir()
        made = world(folder, monkeypatch, lambda system, user, run: "good")
        outcome = made.fit(queue(folder / "q.jsonl", records), max_iterations=0, **changes)
        assert outcome.exit_code == 3
        assert made.store().read("result.json")["ending"] == name
        assert first(made).startswith("**No evaluator was created, because ")
        assert sentence in first(made)
        assert outcome.closing[0].startswith("no evaluator was created, because ")
        assert sentence in outcome.closing[0]
        assert not (made.workspace / "publish" / "local").exists()
        if name != "not_better_than_constant":
            assert made.judge.asked == []  # before any model call
