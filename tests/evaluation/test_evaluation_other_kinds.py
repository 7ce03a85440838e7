"""Numeric (NU-1) and multi-select (MS-1) through the whole product, from queue to published evaluator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting, settings
from fitter.errors import SettingsError
from fitter.evaluation.replay import replay
from fitter.workspace import Workspace
from tests.evaluation.lines import Command, write
from tests.evaluation.scripted import TAGS, ScriptedJudge, team


def fit(
    workspace: Path, queue: Path, monkeypatch: pytest.MonkeyPatch, *, judge: ScriptedJudge | None = None, **more: Any
) -> fitting.Outcome:
    monkeypatch.setattr(fitting, "open_team", lambda *_: team(judge or ScriptedJudge()))
    base = {
        "queue": str(queue), "columns": {"input": "question", "output": "answer"}, "goal": "Rate replies",
        "costly": "same", "framing": "grader", "judge": "local:scripted", "proposer": "local:scripted",
        "name": "rating", "app": "desk", "scope": "span", "publish_to": "local",
    }  # fmt: skip
    fitter = fitting.Fitting(workspace)
    return fitter.start(fitter.complete(settings.make(**{**base, **more})))


def read(workspace: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((workspace / "runs" / "rating-001" / name).read_text(encoding="utf-8"))
    return found


def numeric_queue(folder: Path, rows: int = 60) -> Path:
    return write(folder / "numeric.jsonl", [
        {"id": f"n{k:02d}", "question": f"question {k}", "answer": f"reply number {k}, helpful {k % 11}",
         "label": k % 11} for k in range(rows)
    ])  # fmt: skip


def tags_of(k: int) -> list[str]:
    return [t for j, t in enumerate(TAGS) if k >> j & 1] or ["billing"]


def tag_queue(folder: Path, rows: int = 60) -> Path:
    return write(folder / "tags.jsonl", [
        {"id": f"m{k:02d}", "question": f"question {k}", "answer": f"reply number {k}: {' and '.join(tags_of(k))}",
         "label": tags_of(k)[::-1]} for k in range(rows)
    ])  # fmt: skip


def test_nu1_a_numeric_fit_from_queue_to_published_evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = fit(tmp_path / "ws", numeric_queue(tmp_path), monkeypatch, label="label", metric="mae")
    assert ended.exit_code == 0
    workspace = tmp_path / "ws"
    decision = read(workspace, "decisions/001.json")
    assert decision["attempt"]["outcome"] == "kept"
    paired = decision["decision"]["paired"]
    assert "mcnemar_p" not in paired
    assert 0 < paired["sign_p"] < 0.05
    assert paired["headline_delta"]["value"] < 0
    assert paired["headline_delta"]["improved"] is True
    assert "third_mae" in decision["decision"]["audit"]
    assert read(workspace, "baseline.json")["min_delta"]["value"] == pytest.approx(0.02 * 10)
    card = read(workspace, "cards/holdout-winner.json")["card"]
    assert card["headline"]["direction"] == "lower"
    assert card["confusion"] is None
    assert len(card["thirds"]) == 3
    assert card["constant_judge"]["beaten"] is True
    split = read(workspace, "split.json")
    assert split["holdout_rows"] == 18
    assert sum(rows for rows, _ in split["strata"].values()) == 60
    report = (workspace / "runs" / "rating-001" / "report.md").read_text(encoding="utf-8")
    assert "third of the label range" in report
    assert "Exact sign test on the rows whose error changed" in report
    assert "McNemar" not in report
    assert "any difference" in report
    assert replay(Workspace(workspace), "rating-001").differences == []


def bounded_queue(folder: Path, rows: int = 40) -> Path:
    """A bundle, whose schema gives the bounds of the score."""
    interactions = [
        {
            "id": f"n{k:02d}", "type": "trace", "content_id": f"t{k}",
            "content": {"trace_id": f"t{k}", "spans": [
                {"span_id": "s1", "name": "reply", "kind": "llm", "input": {"value": f"question {k}"},
                 "output": {"value": f"reply number {k}, helpful {k % 11}"}}
            ]},
            "annotations": [
                {"created_by": "ada", "label_values": [{"label_schema_id": "s1", "type": "score", "value": k % 11}]}
            ],
        }
        for k in range(rows)
    ]  # fmt: skip
    schema = {"id": "s1", "name": "score", "type": "score", "min": 0, "max": 10}
    bundle = {"schema_version": 1, "queue": {"id": "q1", "name": "Scores"}, "label_schemas": [schema],
              "interactions": interactions}  # fmt: skip
    path = folder / "bounded.json"
    path.write_text(json.dumps(bundle), encoding="utf-8")
    return path


def test_nu1_an_answer_out_of_range_is_unusable_never_clamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = tmp_path / "ws"
    fit(workspace, bounded_queue(tmp_path), monkeypatch, judge=ScriptedJudge(unusable_every=2), label="s1",
        metric="mae", max_iterations=1, columns={}, scope="trace")  # fmt: skip
    rows = (workspace / "runs" / "rating-001" / "passes" / "000.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    passes = [json.loads(line) for line in rows]
    assert {p["unusable"] for p in passes if "unusable" in p} == {"out_of_range"}
    assert all(0 <= p["label"] <= 10 for p in passes if "label" in p)
    assert read(workspace, "config.json")["fixed"]["scoring"]["high"] == 10


def test_ms1_a_multiselect_fit_from_queue_to_published_evaluator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = fit(tmp_path / "ws", tag_queue(tmp_path), monkeypatch, label="label", metric="mean_credit:jaccard",
                label_kind="multiselect")  # fmt: skip
    assert ended.exit_code == 0
    workspace = tmp_path / "ws"
    decision = read(workspace, "decisions/001.json")
    assert decision["attempt"]["outcome"] == "kept"
    assert decision["decision"]["paired"]["sign_p"] < 0.05
    assert read(workspace, "config.json")["fixed"]["label"]["classes"] == ["billing", "speed", "tone"]
    card = read(workspace, "cards/holdout-winner.json")["card"]
    assert {v["label"] for v in card["confusion"]["one_vs_rest"]} == set(TAGS)
    assert card["constant_judge"]["label"] == sorted(card["constant_judge"]["label"])
    flips = read(workspace, "cards/001.json")["card"]["flip_rate"]
    assert flips["value"] < 0.5  # the order in which a set is written is no flip
    report = (workspace / "runs" / "rating-001" / "report.md").read_text(encoding="utf-8")
    assert "not held, said" in report
    assert replay(Workspace(workspace), "rating-001").differences == []


def test_ms1_macro_f1_and_a_taxonomy_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = fit(tmp_path / "ws", tag_queue(tmp_path), monkeypatch, label="label", label_kind="multiselect",
                metric="mean_credit:similarity_group", taxonomy={"service": ("speed", "tone")})  # fmt: skip
    assert ended.exit_code == 0
    fixed = read(tmp_path / "ws", "config.json")["fixed"]["scoring"]["metric"]
    assert fixed["groups"] == [["speed", "service"], ["tone", "service"]]
    ended = fit(tmp_path / "other", tag_queue(tmp_path), monkeypatch, label="label", label_kind="multiselect",
                metric="macro_f1")  # fmt: skip
    assert ended.exit_code == 0
    assert read(tmp_path / "other", "decisions/001.json")["decision"]["paired"]["mcnemar_p"] < 0.05
    assert replay(Workspace(tmp_path / "other"), "rating-001").differences == []


@pytest.mark.parametrize(
    ("queue", "more", "says"),
    [
        (tag_queue, {"label_kind": "multiselect", "metric": "balanced_accuracy"}, "not defined for multi-select"),
        (tag_queue, {"label_kind": "multiselect", "metric": "cohens_kappa"}, "not defined for multi-select"),
        (tag_queue, {"label_kind": "multiselect", "metric": "mae"}, "mae needs a numeric label"),
        (numeric_queue, {"metric": "accuracy"}, "a numeric label takes mae or spearman"),
    ],
)
def test_a_metric_that_does_not_fit_the_label_is_refused_before_any_spend(
    queue: Any, more: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=says):
        fit(tmp_path / "ws", queue(tmp_path), monkeypatch, label="label", **more)
    assert not (tmp_path / "ws").exists()


def test_compare_and_plan_serve_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fitter: Command) -> None:
    columns = ("--input-col", "question", "--output-col", "answer")
    code, out, _ = fitter("plan", numeric_queue(tmp_path), *columns, "--metric", "mae")
    assert code == 0
    assert "share of rows closer less farther" in out
    code, out, _ = fitter("plan", tag_queue(tmp_path), *columns, "--label-kind", "multiselect", "--metric", "macro_f1")
    assert code == 0
    assert "class tone" in out
