"""`fitter compare`: two runs on the same rows, by row and by pass; runs that answer different questions are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fitter.evaluation.compare import compare_runs
from fitter.jsonio import jsonl, pretty
from fitter.runstore import RunStore
from fitter.workspace import Workspace
from tests.evaluation.conftest import RUN
from tests.evaluation.lines import Command

OTHER = "other-001"


@pytest.fixture
def two_runs(practice_run: Path, tmp_path: Path) -> Path:
    """The practice run, and a copy of it under another name."""
    workspace = Path(shutil.copytree(practice_run, tmp_path / "ws"))
    shutil.copytree(workspace / "runs" / RUN, workspace / "runs" / OTHER)
    return workspace


def edit(workspace: Path, name: str, change: Any, run: str = OTHER) -> None:
    path = workspace / "runs" / run / name
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(pretty(document), encoding="utf-8")


def edit_passes(workspace: Path, answers: dict[str, list[str]], run: str = OTHER) -> None:
    """Gives the winner's train passes of some rows other answers."""
    winner = json.loads((workspace / "runs" / run / "result.json").read_text(encoding="utf-8"))["winner"]
    path = workspace / "runs" / run / "passes" / f"{winner:03d}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows[1:]:
        if row["row"] in answers:
            row["label"] = answers[row["row"]][row["run"]]
    path.write_text(jsonl(rows), encoding="utf-8")


def winners(workspace: Path) -> dict[str, dict[str, Any]]:
    """Row → human and vote of the practice run's winner on train."""
    store = RunStore(Workspace(workspace), RUN)
    human = {r["id"]: r["label"] for r in store.read_rows("labels/train.jsonl")}
    votes: dict[str, list[str]] = {}
    for made in store.read_passes(f"{store.read('result.json')['winner']:03d}", "categorical"):
        votes.setdefault(made.row, []).append(str(made.label))
    return {row: {"human": human[row], "passes": said} for row, said in votes.items()}


def flipped(label: str) -> str:
    return "breaks" if label == "follows" else "follows"


def test_a_run_is_no_different_from_itself(two_runs: Path) -> None:
    found = compare_runs(Workspace(two_runs), RUN, OTHER)
    for side in ("train", "holdout"):
        part = found["sides"][side]
        assert part["by_row"] == []
        assert part["paired"]["headline_delta"]["value"] == 0
        assert (part["by_pass"]["gained"], part["by_pass"]["lost"]) == (0, 0)
    assert found["sides"]["train"]["rows"] == 70
    assert found["sides"]["holdout"]["rows"] == 30


def test_regressions_are_shown_even_when_the_total_improved(two_runs: Path, fitter: Command) -> None:
    rows = winners(two_runs)
    wrong = [r for r, v in rows.items() if all(p != v["human"] for p in v["passes"])][:3]
    right = [r for r, v in rows.items() if all(p == v["human"] for p in v["passes"])][:2]
    edit_passes(
        two_runs, {r: [rows[r]["human"]] * 3 for r in wrong} | {right[0]: [flipped(rows[right[0]]["human"])] * 3}
    )
    code, out, err = fitter("--workspace", two_runs, "compare", RUN, OTHER)
    assert (code, err) == (0, "")
    part = compare_runs(Workspace(two_runs), RUN, OTHER)["sides"]["train"]
    assert part["paired"]["gained_ids"] == sorted(wrong)
    assert part["paired"]["lost_ids"] == [right[0]]
    assert part["paired"]["headline_delta"]["value"] > 0
    assert part["by_pass"] == {**part["by_pass"], "gained": 9, "lost": 3}
    assert [r["gained"] for r in part["by_pass"]["per_run"]] == [3, 3, 3]
    assert "regressions from A to B: 1 rows" in out
    assert right[0] in out.split("regressions")[1].split("better under B")[0]
    assert out.count("in-sample, selected from") == 2


def test_by_pass_sees_what_votes_hide(two_runs: Path) -> None:
    rows = winners(two_runs)
    row = next(r for r, v in rows.items() if all(p == v["human"] for p in v["passes"]))
    human = rows[row]["human"]
    edit_passes(two_runs, {row: [human, human, flipped(human)]})
    part = compare_runs(Workspace(two_runs), RUN, OTHER)["sides"]["train"]
    assert (part["paired"]["gained_ids"], part["paired"]["lost_ids"]) == ([], [])
    assert (part["by_pass"]["gained"], part["by_pass"]["lost"]) == (0, 1)
    assert [(r["row"], r["right_passes"], r["change"]) for r in part["by_row"]] == [(row, [3, 2], "other")]


def test_the_order_of_a_and_b_only_turns_the_signs(two_runs: Path) -> None:
    rows = winners(two_runs)
    wrong = [r for r, v in rows.items() if all(p != v["human"] for p in v["passes"])][:4]
    edit_passes(two_runs, {r: [rows[r]["human"]] * 3 for r in wrong})
    there = compare_runs(Workspace(two_runs), RUN, OTHER)["sides"]["train"]["paired"]
    back = compare_runs(Workspace(two_runs), OTHER, RUN)["sides"]["train"]["paired"]
    assert there["gained_ids"] == back["lost_ids"]
    assert there["headline_delta"]["value"] == -back["headline_delta"]["value"]
    assert there["headline_delta"]["ci95"]["low"] == pytest.approx(-back["headline_delta"]["ci95"]["high"], abs=0.01)


INCOMPATIBLE: dict[str, tuple[Any, str]] = {
    "label": (lambda d: d["fixed"]["label"].update(description="something else"), "label: "),
    "metric": (lambda d: d["fixed"]["scoring"]["metric"].update(name="accuracy"), "metric: "),
    "framing": (lambda d: d["settings"].update(framing="replicator"), "framing: "),
    "parser": (lambda d: d["fixed"].update(parser="verdict-0"), "parser: "),
    "snapshot": (lambda d: d["fixed"].update(snapshot="0" * 64), "snapshot: "),
    "runs": (lambda d: d["settings"].update(runs=5), "runs a row: 3 and 5"),
}


@pytest.mark.parametrize("what", INCOMPATIBLE)
def test_incompatible_runs_are_refused_with_the_difference_named(what: str, two_runs: Path, fitter: Command) -> None:
    change, says = INCOMPATIBLE[what]
    edit(two_runs, "config.json", change)
    code, out, err = fitter("--workspace", two_runs, "compare", RUN, OTHER)
    assert (code, out) == (2, "")
    assert says in err


def test_every_difference_is_named_at_once(two_runs: Path, fitter: Command) -> None:
    for change, _ in INCOMPATIBLE.values():
        edit(two_runs, "config.json", change)
    _, _, err = fitter("--workspace", two_runs, "compare", RUN, OTHER)
    assert all(says in err for _, says in INCOMPATIBLE.values())


def test_a_run_that_is_not_there_or_not_finished(two_runs: Path, fitter: Command) -> None:
    assert "there is no run 'nope'" in fitter("--workspace", two_runs, "compare", RUN, "nope")[2]
    (two_runs / "runs" / OTHER / "result.json").unlink()
    code, _, err = fitter("--workspace", two_runs, "compare", RUN, OTHER)
    assert code == 2
    assert "is not finished" in err
    assert f"fitter resume {OTHER}" in err


def test_json_is_printed_on_request(two_runs: Path, fitter: Command) -> None:
    found = fitter.json("--workspace", two_runs, "compare", RUN, OTHER)
    assert [r["run"] for r in found["runs"]] == [RUN, OTHER]
    assert found["metric"] == "balanced_accuracy"
