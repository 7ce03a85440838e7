"""One seed rule (ME-3): a run's passes, scored by anybody, give the intervals of its report to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitter.evaluation.score import fit_of
from tests.evaluation.conftest import GIVEN, RUN
from tests.evaluation.lines import Command, labels, passes, write

SIDES = {"train": None, "holdout": "holdout-winner"}


def read(run: Path, name: str) -> Any:
    return json.loads((run / name).read_text(encoding="utf-8"))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [r for r in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if set(r) != {"schema_version"}]


def asked(human: Path, said: Path, *more: str) -> list[str]:
    return ["score", "--labels", str(human), "--passes", str(said), "--metric", GIVEN["metric"], "--runs", "3", *more]


def exported(run: Path, side: str, stem: str, folder: Path) -> tuple[Path, Path]:
    """A side's labels and passes as anybody would write them down: other order, other members, no header."""
    human = [{k: r[k] for k in ("id", "label", "group") if k in r} for r in rows_of(run / f"labels/{side}.jsonl")]
    said = [
        {"id": r["row"], "run": r["run"], **({"label": r["label"]} if "label" in r else {"unusable": r["unusable"]}),
         "confidence": r["confidence"]}
        for r in rows_of(run / f"passes/{stem}.jsonl")
    ]  # fmt: skip
    return write(folder / "human.jsonl", human[::-1]), write(folder / "said.jsonl", said[::-1])


@pytest.mark.parametrize("side", SIDES)
def test_me3_exported_passes_of_a_run_give_the_reports_intervals(
    side: str, practice_run: Path, tmp_path: Path, fitter: Command
) -> None:
    run = practice_run / "runs" / RUN
    stem = SIDES[side] or f"{read(run, 'result.json')['winner']:03d}"
    card = read(run, f"cards/{stem}.json")["card"]
    in_place = fitter.json(*asked(run / f"labels/{side}.jsonl", run / f"passes/{stem}.jsonl"))
    config_hash = read(run, "config.json")["config_hash"]
    human, said = exported(run, side, stem, tmp_path)
    elsewhere = fitter.json(*asked(human, said, "--config-hash", config_hash))
    # the report's classes stand in the schema's order, which is not that of their names
    listed = fitter.json(*asked(human, said, "--config-hash", config_hash, "--classes", "follows,breaks"))
    for found in (in_place, elsewhere, listed):
        assert found["inputs"]["config_hash"] == config_hash
        assert found["policy"]["bootstrap"] == card["policy"]["bootstrap"]
        assert found["headline"] == card["headline"]
        assert found["headline"]["ci95_groups"]["method"] == "bootstrap_groups"
        assert found["deployable"] == card["deployable"]
    # and it is the seed that does it: without the fit's, the ends differ and nothing else does
    without = fitter.json(*asked(human, said))
    assert without["inputs"]["config_hash"] is None
    assert without["headline"]["value"] == card["headline"]["value"]
    assert without["deployable"]["ci95"] != card["deployable"]["ci95"]
    # what the report prints is what the command prints
    code, out, err = fitter(*asked(human, said, "--config-hash", config_hash))
    assert code == 0, err
    assert f"resamples: of the fit with config hash {config_hash}" in out
    low, high = (f"{card['deployable']['ci95'][end]:.3f}" for end in ("low", "high"))
    assert f"{low} to {high}" in (run / "report.md").read_text(encoding="utf-8")


def test_me3_the_improvement_on_the_holdout_is_the_reports_too(practice_run: Path, fitter: Command) -> None:
    run = practice_run / "runs" / RUN
    argv = asked(run / "labels/holdout.jsonl", run / "passes/holdout-winner.jsonl")
    found = fitter.json(*argv, "--against", run / "passes/holdout-v0.jsonl")["paired"]
    reported = read(run, "holdout.json")["improvement"]["paired"]
    for member in ("rows", "gained_ids", "lost_ids", "mcnemar_p", "headline_delta"):
        assert found[member] == reported[member], member
    assert found["headline_delta"]["ci95"]["low"] is not None


def test_the_order_of_a_class_list_moves_no_figure(tmp_path: Path, fitter: Command) -> None:
    human = labels(tmp_path / "l.jsonl", {f"r{k:03d}": "abc"[k % 3] for k in range(60)})
    # only rows of a are ever mistaken, for b
    said = passes(tmp_path / "p.jsonl", {f"r{k:03d}": ["b" if k % 21 == 0 else "abc"[k % 3]] for k in range(60)})
    argv = ("score", "--labels", human, "--passes", said, "--metric", "macro_f1", "--runs", 1, "--classes")
    found = [fitter.json(*argv, order) for order in ("a,b,c", "c,a,b")]
    for figure in ("headline", "deployable"):
        ends = [(card[figure]["ci95"]["low"], card[figure]["ci95"]["high"]) for card in found]
        assert ends[0] == pytest.approx(ends[1], abs=1e-12)  # sums over classes are taken in another order
        assert ends[0][0] < ends[0][1]
    # a cell is where its names say, whatever the order: human a, judge b, and never the other way round
    for card in found:
        columns = card["confusion"]["columns"]
        counts = {
            (h, c): n
            for h, line in zip(card["confusion"]["classes"], card["confusion"]["counts"], strict=True)
            for c, n in zip(columns, line, strict=True)
        }
        assert {cell: n for cell, n in counts.items() if n} == {
            ("a", "a"): 17, ("a", "b"): 3, ("b", "b"): 20, ("c", "c"): 20,
        }  # fmt: skip


OTHERS = (
    f'{{"run": "other", "config_hash": "{"a" * 64}"}}', "[]", "not json", '{"run": "x"}',
    '{"run": "x", "config_hash": 3}', '{"run": "x", "config_hash": "short"}',
)  # fmt: skip


@pytest.mark.parametrize("config", OTHERS)
def test_somebody_elses_config_beside_labels_seeds_nothing(config: str, tmp_path: Path) -> None:
    human = labels(tmp_path / "x" / "labels" / "train.jsonl", {"a": "good", "b": "bad"})
    (tmp_path / "x" / "config.json").write_text(config, encoding="utf-8")
    assert fit_of(human) is None


def test_a_config_hash_that_is_none_is_refused(tmp_path: Path, fitter: Command) -> None:
    human, said = labels(tmp_path / "l.jsonl", {"a": "x"}), passes(tmp_path / "p.jsonl", {"a": ["x"]})
    code, out, err = fitter(*asked(human, said, "--config-hash", "1b25"))
    assert (code, out) == (2, "")
    assert "--config-hash '1b25' is no config hash" in err
    assert "report" in err
