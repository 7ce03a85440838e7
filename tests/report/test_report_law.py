"""What the law asks of every report: the first figure, what stands beside each headline, and what each is called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from fitter.clients.base import Reply
from fitter.loop.decide import Basis, Label
from fitter.report.glossary import DECIDES, TERMS, WORDS, words
from tests.loop.scripted import World, add, number_of, queue, rows, truth, world


def wrong_on(*numbers: int) -> Any:
    def answer(system: str, user: str, run: int) -> str:
        said = truth(user)
        return {"good": "bad", "bad": "good"}[said] if number_of(user) in numbers else said

    return answer


def section(report: str, title: str) -> list[str]:
    """Lines of each section whose title starts so."""
    parts = [part for part in re.split(r"^## ", report, flags=re.MULTILINE) if part.startswith(title)]
    return [line for part in parts for line in part.splitlines()]


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A fit with four cards: v0 and another winner, on train and held out; one row in six never answers."""

    def answer(system: str, user: str, run: int) -> Any:
        if number_of(user) % 6 == 5:
            return Reply(outcome="refusal", detail="no")
        return wrong_on(*(range(0, 60, 5) if "One." in system else range(0, 60, 3)))(system, user, run)

    made = world(tmp_path, monkeypatch, answer, changes=[add("One.")])
    made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=1, runs=3)
    assert made.store().names("cards") == ["000", "001", "holdout-v0", "holdout-winner"]
    return made


def test_me2_everything_stands_beside_every_headline_of_the_report(four: World) -> None:
    report = four.report()
    for stem in four.store().names("cards"):
        card = four.store().read(f"cards/{stem}.json")["card"]
        side = "train (in-sample" if stem.isdigit() else "holdout"
        called = {"000": "v0", "001": "winner", "holdout-v0": "v0", "holdout-winner": "winner"}[stem]
        (line,) = [x for x in section(report, "Scores") if x.startswith(f"| {called}, {side}")]
        for figure in (card["headline"], card["accuracy"], card["deployable"], card["constant_judge"]):
            value = figure["value"] if "value" in figure else figure["mean"]
            assert f"{value:.3f}" in line
        for ci in (card["headline"]["ci95"], card["deployable"]["ci95"], card["accuracy"]["wilson95"]):
            # the interval with its instrument, which stands once below the table under the letter in the cell
            ends = re.search(rf"\| {ci['low']:.3f} to {ci['high']:.3f} \[([a-z])\] \|", line)
            assert ends is not None, (ci, line)
            (note,) = [x for x in section(report, "Scores") if x.startswith("95% intervals: ")]
            what = re.search(rf"\[{ends.group(1)}\] ([^;]*)[;.]", note)
            assert what is not None
            assert what.group(1).startswith(f"{ci['method']}, n={ci['n']}")
            assert ("interval not reliable" in what.group(1)) is not ci["reliable"]
        assert "pairwise" in line  # the flip rate
        shown = "\n".join(section(report, f"By class: {called}, {side}"))
        for label, found in card["per_class"].items():
            assert re.search(rf"\| `{label}` \| {found['support']} \| {found['recall']:.3f}, 95% CI .*wilson", shown)
        for label, counts in zip(card["confusion"]["classes"], card["confusion"]["counts"], strict=True):
            assert f"| `{label}` | " + " | ".join(str(n) for n in counts) + " |" in shown
        at = [x for x in section(report, "Rows without a verdict") if x.startswith(f"- {called}, {side}")]
        assert len(at) == 1
        assert card["rows"]["excluded"]
        for reason, ids in card["rows"]["excluded"].items():
            assert f"{reason}: " in at[0]
            assert all(f"`{row}`" in at[0] for row in ids)


def test_a_cell_of_the_score_table_is_short(four: World) -> None:
    table = [line for line in section(four.report(), "Scores") if line.startswith("|")]
    assert len(table) == 6
    for cell in (cell for line in table for cell in line.split(" | ")):
        assert len(cell) <= 80, cell


def test_ke_every_word_of_a_decision_is_explained_where_it_is_first_shown(four: World) -> None:
    report = section(four.report(), "Decisions")
    (row,) = [line for line in report if line.startswith("| 1 | ")]
    outcome = row.split(" | ")[3]
    assert outcome == "kept, improved, **within_noise**"
    at = report.index(row)
    for word in ("aimed at", "improved", "within_noise"):
        (line,) = [n for n, line in enumerate(report) if line.startswith(f"- {word}: ")]
        assert line > at
    assert not any(line.startswith(("- off_target: ", "- significant: ", "- no_change: ")) for line in report)
    (least,) = [line for line in report if line.startswith("min_delta, the smallest gain that may be called more")]
    terms = four.store().read("baseline.json")["min_delta"]["terms"]
    assert f"the floor (0.02; for MAE 0.02 of the label scale) {terms['floor']:.4f}" in least
    assert f"(half_run_stdev) {terms['half_run_stdev']:.4f}" in least


def test_ke_no_basis_label_or_term_goes_without_an_explanation() -> None:
    assert {*get_args(Basis), *get_args(Label), "off_target", "no_change", "cannot_gain", "aimed at"} == set(WORDS)
    assert set(TERMS) == set(DECIDES) == {"floor", "half_run_stdev", "user"}
    outcome = "kept, improved, **within_noise**, off_target"
    shown = [line.split(":")[0] for line in words([["1", "x: no_change", "y", outcome, "", "", ""]])]
    assert shown == ["- aimed at", "- within_noise", "- off_target", "- improved"]  # `not_improved` holds one of them
    assert [line.split(":")[0] for line in words([["1", "", "", "discarded, not_improved", "", "", ""]])] == [
        "- aimed at", "- not_improved",
    ]  # fmt: skip
    # a cause holds words from outside
    assert [line.split(":")[0] for line in words([["1", "", "", "no_change: `improved`", "-", "-", "-"]])] == [
        "- aimed at", "- no_change",
    ]  # fmt: skip


def test_out4_the_quorums_cost_is_printed_for_every_card_as_a_declared_deviation(four: World) -> None:
    lines = section(four.report(), "Rows without a verdict")
    assert sum("declared deviation" in line and "counted wrong 0." in line for line in lines) == 4


def test_me4_the_first_figure_is_the_deployable_score_even_where_it_falls_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each row is wrong in one of three passes: every vote is right, and a single pass is as good as "always good".
    def answer(system: str, user: str, run: int) -> str:
        return wrong_on(*(n for n in range(24) if n % 3 == run))(system, user, run)

    records = [
        {**r, "label": "bad" if i % 3 == 0 else "good", "output": f"Reply number {i} {'nay' if i % 3 == 0 else 'aye'}."}
        for i, r in enumerate(rows())
    ]
    made = world(tmp_path, monkeypatch, answer)
    made.fit(queue(tmp_path / "q.jsonl", records), max_iterations=0, runs=3, metric="accuracy")
    card = made.store().read("cards/000.json")["card"]
    lines = [line for line in made.report().splitlines()[1:] if line]
    assert lines[0].startswith("**Not shown to be better than no judge: the deployable score of the winner (in-sample")
    deployable = next(n for n, line in enumerate(lines) if line.startswith("**Deployable score"))
    assert not re.search(r"\d\.\d", "\n".join(lines[:deployable]))
    first = re.search(r"\d\.\d+", lines[deployable])
    assert first is not None
    assert first.group() == f"{card['deployable']['mean']:.3f}"


def test_pu2_me4_a_shortfall_on_the_holdout_is_the_first_sentence_and_names_no_figure_before_the_deployable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = queue(tmp_path / "q.jsonl", rows(60))
    first_fit = world(tmp_path / "a", monkeypatch, wrong_on(1))
    (tmp_path / "a").mkdir()
    first_fit.fit(path, max_iterations=0)
    held = [int(r["id"][2:]) for r in first_fit.store().read_rows("labels/holdout.jsonl")]
    made = world(tmp_path / "b", monkeypatch, wrong_on(*held))
    (tmp_path / "b").mkdir()
    outcome = made.fit(path, max_iterations=0)
    assert outcome.exit_code == 0
    lines = [line for line in made.report().splitlines()[1:] if line]
    assert lines[0].startswith("**Not shown to be better than no judge: the deployable score and the headline")
    assert "(holdout, opened once)" in lines[0]
    assert not re.search(r"\d\.\d", lines[0])
    assert lines[1].startswith("**Deployable score: balanced_accuracy 0.000**")


def test_sp1_sp5_every_section_with_figures_says_whose_rows_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(system: str, user: str, run: int) -> str:
        return wrong_on(*(range(0, 60, 5) if "One." in system else range(0, 60, 3)))(system, user, run)

    path = queue(tmp_path / "q.jsonl", rows(60))
    made = world(tmp_path, monkeypatch, answer, changes=[add("One."), add("One.")])
    made.fit(path, max_iterations=1)
    made.fit(path, max_iterations=1, exposed_holdout=True)
    report = made.report("scripted-002")
    called = "in-sample, selected from 2 candidates"
    exposed = r"exposed holdout, opened by scripted-001 on \d{4}-\d\d-\d\d"
    for title, name in (
        ("Decisions", called), ("By class: v0, train", called), ("By class: winner, train", called),
        ("By class: v0, exposed", exposed), ("By class: winner, exposed", exposed), ("Confidence", exposed),
    ):  # fmt: skip
        assert re.search(name, section(report, title)[0]), title
    for title in ("Scores", "Rows without a verdict", "Where the winner and the human differ", "How far"):
        for line in section(report, title):
            if re.match(r"(\| (v0|winner)|- (v0|winner|train|exposed|holdout)|Beside it)", line):
                assert re.search(f"{called}|{exposed}", line), line


def test_gt6_a_finding_about_the_dataset_is_reported_even_where_no_fit_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{**r, "label": True, "expected_output": i != 3} for i, r in enumerate(rows())]
    made = world(tmp_path, monkeypatch, wrong_on())
    outcome = made.fit(queue(tmp_path / "q.jsonl", records), max_iterations=0)
    assert outcome.exit_code == 3
    assert made.judge.asked == []
    assert "expected_output disagrees with the human on 1 of 24 rows" in made.report()
