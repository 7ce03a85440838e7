"""`fitter plan`: what labels can show before any spend; `fitter estimate`: a corrected pass rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.lines import Command, passes, write

COLS = ("--input-col", "q", "--output-col", "a", "--label-col", "verdict")


def queue(folder: Path, good: int, bad: int) -> Path:
    return write(folder / "queue.jsonl", [
        {"id": f"r{k}", "q": f"question {k}", "a": f"answer {k}", "verdict": "good" if k < good else "bad"}
        for k in range(good + bad)
    ])  # fmt: skip


def test_plan_of_the_practice_queue(tmp_path: Path, fitter: Command) -> None:
    found = fitter.json("--workspace", tmp_path / "ws", "plan", "practice", "--label", "policy_verdict", "--metric",
                        "balanced_accuracy", "--runs", 3, "--max-iterations", 10)  # fmt: skip
    assert (found["queue"]["read"], found["queue"]["usable"]) == (120, 100)
    assert found["queue"]["class_rows"] == {"follows": 53, "breaks": 47}
    train, held = found["sides"]["train"], found["sides"]["holdout"]
    assert (train["rows"], held["rows"]) == (70, 30)
    assert train["smallest_significant"][0] == {"lost": 0, "gained": 6, "gain": pytest.approx(6 / 70)}
    assert held["smallest_significant"][0]["gain"] == pytest.approx(6 / 30)
    assert found["bound"]["clean_rows"] == 59
    assert found["label_next"]["breaks"]["clean_bound"] == 59 - held["class_rows"]["breaks"]
    calls = found["calls"]
    assert calls["least"] == 70 * 3  # v0 on train: a fit need not open the holdout, nor keep or try a change
    assert calls["most"] == 2 * (70 * 3 * 12 + 2 * 30 * 3 + calls["planted_orders"])
    assert calls["cost_least"] is None
    power = {p["gain"]: p for p in train["power"]}
    assert power[0.02]["significant"] < power[0.10]["significant"] < power[0.30]["significant"]
    assert power[0.30]["significant"] > 0.95
    widths = [w["accuracy"] for w in train["width"]]
    assert widths == sorted(widths, reverse=True)  # it narrows as the rate leaves one half
    assert not (tmp_path / "ws").exists()  # nothing is written


def test_plan_in_words_and_with_a_price(tmp_path: Path, fitter: Command) -> None:
    argv = ("plan", queue(tmp_path, 60, 9), *COLS, "--metric", "f1:bad")
    code, out, _ = fitter(*argv)
    assert code == 0
    assert "smallest gain that can be significant" in out
    assert "cost: unknown, no price was given" in out
    assert "59 rows of a class without an error" in out
    priced = fitter.json(*argv, "--cost-per-call", 0.01)["calls"]
    assert priced["cost_most"] == pytest.approx(priced["most"] * 0.01)


def test_plan_says_what_is_missing_when_no_fit_is_possible(tmp_path: Path, fitter: Command) -> None:
    """GT-7: one class only."""
    code, out, _ = fitter("plan", queue(tmp_path, 12, 0), *COLS)
    assert code == 0
    assert "no fit is possible" in out
    assert "rows worth labelling next" in out


def test_plan_of_few_rows_says_that_nothing_can_be_significant(tmp_path: Path, fitter: Command) -> None:
    code, out, _ = fitter("plan", queue(tmp_path, 3, 2), *COLS)
    assert code == 0
    assert "no gain can be significant: the exact test needs 6 one-way rows" in out
    assert "no holdout will be opened" in out


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--metric", "mae"], "needs a numeric label"),
        (["--metric", "f1:zebra"], "not a class"),
        (["--runs", 2], "odd number"),
        (["--max-iterations", 1000], "0 to 100"),
        (["--cost-per-call", -1], "0 or more"),
    ],
)
def test_plan_refuses_what_no_fit_could_have(more: list[object], says: str, tmp_path: Path, fitter: Command) -> None:
    code, _, err = fitter("plan", queue(tmp_path, 30, 20), *COLS, *more)
    assert code == 2
    assert says in err


# -- estimate


def files(folder: Path, *, runs: int = 1) -> tuple[Path, Path, Path]:
    human = {f"p{k}": "pass" for k in range(50)} | {f"f{k}": "fail" for k in range(40)}
    wrong = {f"p{k}" for k in range(5)} | {f"f{k}" for k in range(2)}
    said: dict[str, list[Any]] = {
        row: [("fail" if value == "pass" else "pass") if row in wrong else value] * runs for row, value in human.items()
    }
    traffic: dict[str, list[Any]] = {f"t{k}": ["pass" if k < 700 else "fail"] * runs for k in range(1000)}
    traffic["t0"] = [None] * runs
    return (
        write(folder / "l.jsonl", [{"id": row, "label": value} for row, value in human.items()]),
        passes(folder / "p.jsonl", said),
        passes(folder / "t.jsonl", traffic),
    )


def test_estimate_from_files_is_rogan_and_gladen(tmp_path: Path, fitter: Command) -> None:
    human, said, traffic = files(tmp_path)
    found = fitter.json(
        "estimate", "--labels", human, "--passes", said, "--unlabelled", traffic, "--pass-class", "pass"
    )
    assert found["sensitivity"] == {"hits": 45, "rows": 50, "rate": 0.9}
    assert found["specificity"] == {"hits": 38, "rows": 40, "rate": 0.95}
    assert found["apparent"] == {"hits": 699, "rows": 999, "rate": pytest.approx(699 / 999)}
    assert found["rows_without_vote"] == {"labelled": 0, "unlabelled": 1}
    assert found["pass_rate"]["value"] == pytest.approx((699 / 999 + 0.95 - 1) / (0.9 + 0.95 - 1))
    # both sampling errors are carried: wider than the traffic's own, at least 2·1.96·sqrt(q(1-q)/n)/(se+sp-1)
    assert found["ci95"]["high"] - found["ci95"]["low"] > 2 * 1.96 * (0.7 * 0.3 / 999) ** 0.5 / 0.85
    assert found["identifiable"] is True
    code, out, _ = fitter("estimate", "--labels", human, "--passes", said, "--unlabelled", traffic, "--pass-class",
                          "pass")  # fmt: skip
    assert code == 0
    assert f"corrected pass rate {found['pass_rate']['value']:.4f}" in out


def test_estimate_from_votes_of_several_passes(tmp_path: Path, fitter: Command) -> None:
    human, said, traffic = files(tmp_path, runs=3)
    found = fitter.json("estimate", "--labels", human, "--passes", said, "--unlabelled", traffic,
                        "--pass-class", "pass", "--runs", 3)  # fmt: skip
    assert (found["sensitivity"]["rate"], found["specificity"]["rate"]) == (0.9, 0.95)
    assert found["apparent"]["rows"] == 999


def test_estimate_from_counts_agrees_and_says_when_it_is_not_identifiable(fitter: Command) -> None:
    counts = ("estimate", "--sensitivity", "45/50", "--specificity", "38/40", "--verdicts")
    assert fitter.json(*counts, "700/1000")["pass_rate"]["value"] == pytest.approx((0.7 + 0.95 - 1) / 0.85)
    cut = fitter.json(*counts, "999/1000")
    assert cut["pass_rate"]["value"] == 1.0
    assert cut["unclipped"] > 1
    # nothing was estimated: a script that asked for a figure must not go on as if it had one
    argv = ("estimate", "--sensitivity", "25/50", "--specificity", "22/40", "--verdicts", "700/1000")
    code, out, err = fitter(*argv)
    assert (code, err) == (3, "")
    assert "NO corrected pass rate: not identifiable" in out
    assert "It holds as far as" not in out
    code, out, _ = fitter(*argv, "--json")
    found = json.loads(out)
    assert code == 3
    assert (found["identifiable"], found["pass_rate"]["value"], found["ci95"]["low"]) == (False, None, None)


def test_estimate_refuses_what_it_cannot_read(tmp_path: Path, fitter: Command) -> None:
    human, said, traffic = files(tmp_path)
    argv = ("estimate", "--labels", human, "--passes", said, "--unlabelled")
    assert "is labelled" in fitter(*argv, said, "--pass-class", "pass")[2]
    assert "no label is 'ok'" in fitter(*argv, traffic, "--pass-class", "ok")[2]
    assert "either three files" in fitter(*argv, traffic)[2]
    assert "either three files" in fitter("estimate", "--sensitivity", "1/2")[2]
    counts = ("estimate", "--specificity", "1/2", "--verdicts", "1/2", "--sensitivity")
    assert "is no count" in fitter(*counts, "0.9")[2]
    assert "not a proportion" in fitter(*counts, "3/2")[2]
    numbers = write(tmp_path / "n.jsonl", [{"id": "a", "label": 1}])
    code, _, err = fitter(
        "estimate", "--labels", numbers, "--passes", said, "--unlabelled", traffic, "--pass-class", "1"
    )
    assert code == 2
    assert "needs classes" in err


def test_plan_asks_which_label_where_there_are_several(fitter: Command) -> None:
    code, out, err = fitter("plan", "practice")
    assert (code, out) == (2, "")
    assert "name it with --label" in err
    assert "policy_verdict" in err
