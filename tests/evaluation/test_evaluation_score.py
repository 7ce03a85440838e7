"""`fitter score`: files in, figures out; every bad input named with file, line and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.evaluation.reading import read_labels, read_passes
from fitter.evaluation.score import ScoreOptions, frame_of, schema, score
from fitter.jsonio import JSONFault, flat_objects, strict_loads
from fitter.scoring.metrics import Metric
from tests.evaluation.lines import Command, labels, passes, write
from tests.suites import ROOT, shared_data_path


def make(folder: Path, **more: Any) -> tuple[Path, Path, Path]:
    human = {f"r{k}": "bad" if k % 3 == 0 else "good" for k in range(30)}
    best = {row: [v if k % 4 else "good"] * 3 for k, (row, v) in enumerate(human.items())}
    new = {row: [v, v, "bad" if k % 7 == 0 else v] for k, (row, v) in enumerate(human.items())}
    new["r5"] = [None, None, "good"]
    return (
        labels(folder / "labels.jsonl", human),
        passes(folder / "new.jsonl", new),
        passes(folder / "best.jsonl", best),
    )


def test_json_has_every_published_member_and_holds_to_its_schema(tmp_path: Path, fitter: Command) -> None:
    human, new, best = make(tmp_path)
    found = fitter.json("score", "--labels", human, "--passes", new, "--against", best, "--metric",
                        "balanced_accuracy", "--runs", 3, "--classes", "bad,good")  # fmt: skip
    jsonschema.Draft202012Validator(schema()).validate(found)
    assert set(found["headline"]) >= {"metric", "direction", "value", "ci95"}
    assert set(found["headline"]["ci95"]) >= {"low", "high", "method", "reliable"}
    assert set(found["deployable"]) >= {"mean", "stdev", "min", "max", "per_run", "ci95"}
    assert found["rows"]["labelled"] == 30
    assert found["rows"]["scored"] == 29
    assert found["rows"]["excluded"] == {"no_quorum": ["r5"]}
    assert set(found["per_class"]["bad"]) >= {"support", "recall", "precision", "f1", "wilson95"}
    assert set(found["confidence"]) >= {"bands", "when_right", "when_wrong", "missing", "invalid"}
    assert found["policy"]["failures"] == "exclude"
    paired = found["paired"]
    assert set(paired) >= {"rows", "gained_ids", "lost_ids", "mcnemar_p", "headline_delta", "min_delta", "audit",
                           "decision", "basis", "label"}  # fmt: skip
    assert set(paired["headline_delta"]) >= {"value", "ci95", "p", "improved"}
    assert all(set(check) >= {"passed", "figures"} for check in paired["audit"].values())
    assert paired["rows"] == 29
    # best answers good on r0, r12, r24 (bad, every fourth row); the candidate is right there
    assert paired["gained_ids"] == ["r0", "r12", "r24"]


def test_readable_tables_say_the_same(tmp_path: Path, fitter: Command) -> None:
    human, new, best = make(tmp_path)
    argv = ("score", "--labels", human, "--passes", new, "--against", best, "--metric", "accuracy", "--runs", 3)
    found = fitter.json(*argv)
    code, out, _ = fitter(*argv)
    assert code == 0
    assert f"accuracy (higher is better) {found['headline']['value']:.4f}" in out
    assert "rows without a standing vote are excluded and counted" in out
    assert f"decision: {found['paired']['decision']} ({found['paired']['basis']}, {found['paired']['label']})" in out
    assert f"mcnemar_p {found['paired']['mcnemar_p']:.4f}" in out
    assert "excluded, no_quorum: 1 (r5)" in out


def test_long_class_names_keep_tables_narrow_and_apart(tmp_path: Path, fitter: Command) -> None:
    names = [f"the reply breaks the policy on refunds, deliveries and returns, paragraph {k}" for k in range(4)]
    human = labels(tmp_path / "l.jsonl", {f"r{k:02d}": names[k % 4] for k in range(40)})
    said = passes(tmp_path / "p.jsonl", {f"r{k:02d}": [names[(k + (k == 0)) % 4]] for k in range(40)})
    code, out, err = fitter("score", "--labels", human, "--passes", said, "--metric", "macro_f1", "--runs", 1)
    assert code == 0, err
    tables = [line for line in out.splitlines() if line.startswith("  ") and "the reply" in line]
    assert len(tables) == 9  # four classes in two tables, and a head that names them
    assert max(map(len, tables)) <= 100
    rows = [line.split("  ")[1] for line in tables if "judge →" not in line]
    assert len(set(rows)) == 4  # names that differ at their end only are still told apart


def test_the_published_schema_stands_in_the_docs_and_behind_a_flag(fitter: Command) -> None:
    page = (ROOT / "docs" / "score.md").read_text(encoding="utf-8")
    block = page.split("```json schema\n", 1)[1].split("```", 1)[0]
    assert json.loads(block) == schema()
    code, out, _ = fitter("score", "--schema")
    assert code == 0
    assert json.loads(out) == schema()
    jsonschema.Draft202012Validator.check_schema(schema())


def test_failures_wrong_counts_every_row_without_a_vote_ties_too(tmp_path: Path, fitter: Command) -> None:
    human = labels(tmp_path / "l.jsonl", dict.fromkeys("abcd", "x") | dict.fromkeys("ef", "y"))
    said = passes(tmp_path / "p.jsonl", {"a": ["x"] * 3, "b": ["x", "y", "z"], "c": [None, None, "x"], "d": ["x"] * 3,
                                         "e": ["y"] * 3, "f": ["y"] * 3})  # fmt: skip
    argv = ("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 3)
    excluded, wrong = fitter.json(*argv), fitter.json(*argv, "--failures", "wrong")
    assert excluded["rows"]["excluded"] == {"no_quorum": ["c"], "tie": ["b"]}
    assert excluded["headline"]["value"] == 1.0
    assert wrong["rows"]["counted_wrong"] == {"no_quorum": ["c"], "tie": ["b"]}
    assert wrong["headline"]["value"] == pytest.approx(4 / 6)
    assert wrong["policy"]["failures"] == "wrong"


def test_a_closed_class_list_makes_an_answer_unusable_an_open_one_makes_it_wrong(
    tmp_path: Path, fitter: Command
) -> None:
    human = labels(tmp_path / "l.jsonl", {"a": "x", "b": "y", "c": "x"})
    said = passes(tmp_path / "p.jsonl", {"a": ["x"], "b": ["garbage"], "c": ["x"]})
    argv = ("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 1)
    closed = fitter.json(*argv, "--classes", "x,y")
    assert closed["inputs"]["passes"]["unusable"] == {"label_not_in_schema": 1}
    assert (closed["headline"]["value"], closed["rows"]["excluded"]) == (1.0, {"no_quorum": ["b"]})
    opened = fitter.json(*argv)
    assert opened["off_vocabulary"] == 1
    assert opened["headline"]["value"] == pytest.approx(2 / 3)


def test_slices_are_cards_of_their_own(tmp_path: Path, fitter: Command) -> None:
    rows = [
        {"id": f"r{k}", "label": "x" if k % 2 else "y", "language": "de" if k < 6 else "en", "tier": 1}
        for k in range(20)
    ]
    human = write(tmp_path / "l.jsonl", [*rows, {"id": "q", "label": "x"}])
    said = passes(tmp_path / "p.jsonl", {f"r{k}": ["x"] for k in range(20)} | {"q": ["x"]})
    found = fitter.json("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 1,
                        "--slice", "language", "--slice", "tier")  # fmt: skip
    cards = {(s["field"], s["value"]): s["card"] for s in found["slices"]}
    assert {key: card["rows"]["labelled"] for key, card in cards.items()} == {
        ("language", "(missing)"): 1, ("language", "de"): 6, ("language", "en"): 14, ("tier", "(missing)"): 1,
        ("tier", "1"): 20,
    }  # fmt: skip
    assert cards["language", "de"]["headline"]["value"] == 0.5
    code, out, _ = fitter("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 1,
                          "--slice", "language")  # fmt: skip
    assert code == 0
    assert "language=de" in out


def test_numbers_get_a_sign_test_and_sets_get_credit(tmp_path: Path, fitter: Command) -> None:
    human = labels(tmp_path / "l.jsonl", {f"r{k}": k for k in range(12)})
    good = passes(tmp_path / "g.jsonl", {f"r{k}": [k + 0.5] for k in range(12)})
    poor = passes(tmp_path / "p.jsonl", {f"r{k}": [k + 2] for k in range(12)})
    found = fitter.json("score", "--labels", human, "--passes", good, "--against", poor, "--metric", "mae", "--runs", 1)
    assert found["headline"]["value"] == 0.5
    assert "mcnemar_p" not in found["paired"]
    assert found["paired"]["sign_p"] == pytest.approx(2 / 2**12)
    assert found["paired"]["headline_delta"]["value"] == -1.5
    assert found["paired"]["headline_delta"]["improved"] is True
    assert fitter("score", "--labels", human, "--passes", good, "--metric", "mae", "--runs", 1)[0] == 0

    tags = labels(tmp_path / "t.jsonl", {"a": ["cat", "dog"], "b": ["cat"], "c": ["car"]})
    said = passes(tmp_path / "s.jsonl", {"a": [["dog", "cat"]], "b": [["dog"]], "c": [[]]})
    groups = tmp_path / "g.json"
    groups.write_text('{"animal": ["cat", "dog"]}', encoding="utf-8")
    argv = ("score", "--labels", tags, "--passes", said, "--runs", 1, "--metric", "mean_credit")
    exact = fitter.json(*argv, "--match", "exact")
    assert exact["headline"]["value"] == 0.5  # order does not matter; an empty list is no answer
    assert exact["inputs"]["passes"]["unusable"] == {"label_not_in_schema": 1}
    alike = fitter.json(*argv, "--match", "similarity_group", "--groups", groups)
    assert alike["headline"]["value"] == 1.0
    assert fitter(*argv, "--match", "jaccard")[0] == 0


def test_groups_mark_what_assumes_independent_rows(tmp_path: Path, fitter: Command) -> None:
    human = write(tmp_path / "l.jsonl", [{"id": f"r{k}", "label": "x" if k % 2 else "y", "group": f"g{k // 2}"}
                                         for k in range(24)])  # fmt: skip
    said = passes(tmp_path / "p.jsonl", {f"r{k}": ["x" if k % 5 else "y"] for k in range(24)})
    other = passes(tmp_path / "o.jsonl", {f"r{k}": ["x"] for k in range(24)})
    found = fitter.json("score", "--labels", human, "--passes", said, "--against", other, "--metric", "accuracy",
                        "--runs", 1)  # fmt: skip
    assert found["accuracy"]["wilson95"]["assumes_independent_rows"] is True
    assert "assumes independent rows" in found["paired"]["tests"]
    assert found["paired"]["headline_delta"]["ci95"]["method"] == "bootstrap_groups"


GOOD_LABEL = {"id": "a", "label": "x"}
GOOD_PASS = {"id": "a", "run": 0, "label": "x"}
BAD = {
    "pass for an unknown row": ([GOOD_LABEL], [GOOD_PASS, {"id": "zz", "run": 0, "label": "x"}], "passes", 2, "zz"),
    "one (id, run) twice, different": ([GOOD_LABEL], [GOOD_PASS, {"id": "a", "run": 0, "label": "y"}], "passes", 2,
                                       "different answers"),
    "mixed labels": ([GOOD_LABEL, {"id": "b", "label": 1}], [GOOD_PASS], "labels", 2, "mixed label types"),
    "mixed labels, true is not 1": ([{"id": "a", "label": 1}, {"id": "b", "label": True}], [GOOD_PASS], "labels", 2,
                                    "mixed label types"),
    "mixed answers": ([GOOD_LABEL], [{"id": "a", "run": 0, "label": True}], "passes", 1, "mixed label types"),
    "run out of range": ([GOOD_LABEL], [{"id": "a", "run": 3, "label": "x"}], "passes", 1, "outside 0..2"),
    "run is a boolean": ([GOOD_LABEL], [{"id": "a", "run": True, "label": "x"}], "passes", 1, "outside 0..2"),
    "no run": ([GOOD_LABEL], [{"id": "a", "label": "x"}], "passes", 1, "no run"),
    "NaN label": (['{"id": "a", "label": NaN}'], [GOOD_PASS], "labels", 1, "not a JSON number"),
    "NaN answer": ([{"id": "a", "label": 1.0}], ['{"id": "a", "run": 0, "label": NaN}'], "passes", 1,
                   "not a JSON number"),
    "huge answer": ([{"id": "a", "label": 1.0}], ['{"id": "a", "run": 0, "label": 1e999}'], "passes", 1,
                    "not a JSON number"),
    "empty labels": ([], [GOOD_PASS], "labels", None, "no labelled row"),
    "empty passes": ([GOOD_LABEL], ["", ""], "passes", None, "no pass"),
    "no label": ([GOOD_LABEL, {"id": "b"}], [GOOD_PASS], "labels", 2, "no label"),
    "blank label": ([{"id": "b", "label": " "}], [GOOD_PASS], "labels", 1, "no label"),
    "id twice": ([GOOD_LABEL, {"id": "a", "label": "y"}], [GOOD_PASS], "labels", 2, "line 1"),
    "no id": ([{"label": "x"}], [GOOD_PASS], "labels", 1, "no id"),
    "number for an id": ([{"id": 1, "label": "x"}], [GOOD_PASS], "labels", 1, "no id"),
    "two spellings": ([GOOD_LABEL, {"id": "b", "label": "X"}], [GOOD_PASS], "labels", 2, "another spelling"),
    "neither answer nor reason": ([GOOD_LABEL], [{"id": "a", "run": 0}], "passes", 1, "neither"),
    "both answer and reason": ([GOOD_LABEL], [{"id": "a", "run": 0, "label": "x", "unusable": "length"}], "passes", 1,
                               "both"),
    "duplicate key": ([GOOD_LABEL], ['{"id": "a", "run": 0, "label": "x", "label": "y"}'], "passes", 1, "twice"),
    "not JSON": ([GOOD_LABEL], [GOOD_PASS, "{oops"], "passes", 2, "not a JSON object"),
    "a list": ([GOOD_LABEL], ["[1]"], "passes", 1, "not a JSON object"),
    "set in a single-choice file": ([GOOD_LABEL], [{"id": "a", "run": 0, "label": ["x"]}], "passes", 1, "mixed"),
    "object for an answer": ([GOOD_LABEL], [{"id": "a", "run": 0, "label": {"x": 1}}], "passes", 1, "mixed"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_file_line_and_what_to_do(case: str, tmp_path: Path, fitter: Command) -> None:
    human, said, where, line, says = BAD[case]
    files = {"labels": write(tmp_path / "labels.jsonl", human), "passes": write(tmp_path / "passes.jsonl", said)}
    code, out, err = fitter("score", "--labels", files["labels"], "--passes", files["passes"], "--metric",
                            "mae" if "huge" in case or case == "NaN answer" else "accuracy", "--runs", 3)  # fmt: skip
    assert (code, out) == (2, "")
    assert f"{files[where]}, line {line}" in err if line else str(files[where]) in err
    assert says in err
    assert "→" in err


@pytest.mark.parametrize(
    ("metric", "more", "says"),
    [
        ("mae", [], "needs a numeric label"),
        ("f1:zebra", [], "'zebra' is not a class"),
        ("fbeta:x", [], "needs --beta"),
        ("nonsense", [], "unknown metric"),
        ("accuracy", ["--runs", 2], "odd"),
        ("accuracy", ["--failures", "ignore"], "no policy"),
        ("accuracy", ["--classes", "x"], "not in --classes"),
        ("accuracy", ["--classes", "x,x,y"], "twice"),
        ("accuracy", ["--precision-floor", "x=2"], "not a precision floor"),
        ("accuracy", ["--slice", "nope"], "no row has the slice field"),
        ("mean_credit", ["--match", "similarity_group"], "taxonomy"),
        ("accuracy", ["--min-delta", -1], "min_delta"),
    ],
)
def test_a_metric_or_option_that_does_not_fit(
    metric: str, more: list[object], says: str, tmp_path: Path, fitter: Command
) -> None:
    human = labels(tmp_path / "l.jsonl", {"a": "x", "b": "y"})
    said = passes(tmp_path / "p.jsonl", {"a": ["x"], "b": ["y"]})
    code, _, err = fitter("score", "--labels", human, "--passes", said, "--metric", metric,
                          *([] if "--runs" in more else ["--runs", 1]), *more)  # fmt: skip
    assert code == 2
    assert says in err


def test_unusable_passes_are_never_an_error(tmp_path: Path, fitter: Command) -> None:
    human = labels(tmp_path / "l.jsonl", {"a": "x", "b": "y"})
    said = write(tmp_path / "p.jsonl", [{"id": row, "run": run, "unusable": reason} for row in "ab" for run, reason in
                                        enumerate(("length", "whatever the vendor said", "unavailable"))])  # fmt: skip
    found = fitter.json("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 3)
    assert found["headline"]["value"] is None
    assert found["headline"]["why"] == "no rows"
    assert found["inputs"]["passes"]["unusable"] == {"length": 2, "unavailable": 2, "whatever the vendor said": 2}
    jsonschema.Draft202012Validator(schema()).validate(found)
    assert fitter("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 3)[0] == 0


def test_the_same_line_again_collapses_and_is_counted(tmp_path: Path, fitter: Command) -> None:
    human = write(tmp_path / "l.jsonl", [GOOD_LABEL, {"id": "b", "label": " x "}, GOOD_LABEL])
    said = write(tmp_path / "p.jsonl", [GOOD_PASS, GOOD_PASS, {"id": "b", "run": 0, "label": "x"}])
    found = fitter.json("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 1)
    assert found["inputs"]["labels"]["collapsed_duplicates"] == 1
    assert found["inputs"]["labels"]["trimmed"] == 1
    assert found["inputs"]["passes"]["collapsed_duplicates"] == 1
    assert found["headline"]["value"] == 1.0


def test_confidence_is_read_by_the_rule_and_a_bom_and_crlf_do_no_harm(tmp_path: Path) -> None:
    """OUT-5: 95.0 is 95; 95.5, "95", true, -1 and 101 are invalid and not rescaled."""
    human = tmp_path / "l.jsonl"
    human.write_bytes(b"\xef\xbb\xbf" + b'{"id": "a", "label": "x"}\r\n{"id": "b", "label": "y"}\r\n')
    given_ = [95, 95.0, 95.5, "95", True, -1, 101]
    rows = [{"id": "a", "run": k, "label": "x", "confidence": c} for k, c in enumerate(given_)]
    said = write(tmp_path / "p.jsonl", [*rows, {"id": "b", "run": 0, "label": "y"}])
    read = read_passes(said, labels=read_labels(human), runs=7, classes=None)
    assert [p.confidence for p in read.passes] == [95, 95, None, None, None, None, None, None]
    assert [p.confidence_fault for p in read.passes] == [None, None, *["invalid"] * 5, "missing"]


def test_a_runs_own_files_can_be_scored(practice_run: Path, fitter: Command) -> None:
    run = practice_run / "runs" / "support_policy-001"
    found = fitter.json("score", "--labels", run / "labels/train.jsonl", "--passes", run / "passes/000.jsonl",
                        "--metric", "balanced_accuracy", "--runs", 3, "--classes", "follows,breaks")  # fmt: skip
    card = json.loads((run / "cards/000.json").read_text(encoding="utf-8"))["card"]
    assert found["headline"]["value"] == card["headline"]["value"]
    assert found["headline"]["ci95"] == card["headline"]["ci95"]
    assert found["confusion"] == card["confusion"]
    assert found["flip_rate"] == card["flip_rate"]


def test_the_seed_hangs_on_labels_and_question_not_on_the_predictions(tmp_path: Path) -> None:
    human, new, _ = make(tmp_path)
    file = read_labels(human)
    options = ScoreOptions(metric="macro_f1", runs=3)
    fixed = frame_of(file, options)
    assert isinstance(fixed.metric, Metric)
    once = score(fixed, file, read_passes(new, labels=file, runs=3, classes=None))
    again = score(frame_of(read_labels(human), options), file, read_passes(new, labels=file, runs=3, classes=None))
    assert once == again
    assert frame_of(file, ScoreOptions(metric="accuracy", runs=3)).seed != fixed.seed


# -- the fast reader accepts exactly what the strict one does

PIECES = st.sampled_from(
    ['{"id":"a"}', '{"id":"a","run":1}', '{"a":1},{"b":2}', '{"a":[{"x":1}', '{"c":3}]}', '{"a":1,"a":2}', '{"a":NaN}',
     '{"a":"b:c"}', '{"a" : 1}', '{"a":{"b":1}}', '{"a":[1,[2]]}', "{}", '{"a":1e999}', '{"a":"\\u00e9}{"}', '{"a":"x}',
     '{y"}', "{,}", '{"a":1},', ",{}", "[]", "1", '{"a":1}}', '{{"a":1}', '{"a":"\\ud800"}', '{"a": "}"}', '{"":""}',
     '{"a":1 "b":2}', '{"a":[1,"x",null,true]}']
)  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=5))
def test_flat_objects_never_accepts_what_strict_loads_would_not(lines: list[str]) -> None:
    found = flat_objects(lines)
    if found is None:
        return
    for line, item in zip(lines, found, strict=True):
        assert strict_loads(line) == item


def test_flat_objects_reads_flat_lines_and_leaves_the_rest_to_the_strict_reader() -> None:
    assert flat_objects(['{"id": "a", "run": 0}', '{"id": "b", "tags": ["x", "y"]}']) == [
        {"id": "a", "run": 0},
        {"id": "b", "tags": ["x", "y"]},
    ]
    assert flat_objects([]) == []
    assert flat_objects(['{"a":[{"x":1}', '{"c":3}]}']) is None
    # as many objects and keys as lines and keys, and yet no line is an object
    assert flat_objects(['{"a":1},{"b":[{}', "{}]}"]) is None
    with pytest.raises(JSONFault):
        strict_loads('{"a":[{"x":1}')


# -- published tables, through the command line


def shared_rows(name: str) -> list[dict[str, Any]]:
    text = (shared_data_path() / name / "rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def convert(folder: Path, name: str, judge: str, answer: dict[str, str] | None = None) -> tuple[Path, Path]:
    """A recorded judge as LABELS and PASSES; an empty verdict is a failed call."""
    rows = shared_rows(name)
    said = []
    for row in rows:
        verdict = row["recorded_judges"].get(judge)
        value = verdict if answer is None else answer.get(verdict)
        said.append({"id": row["id"], "run": 0, **({"label": value} if value else {"unusable": "bad_envelope"})})
    return (
        labels(folder / f"{name}.labels.jsonl", {r["id"]: r["label"] for r in rows}),
        write(folder / f"{judge.replace('/', '-')}.jsonl", said),
    )


GOLDEN = [
    ("deepseek-json", "wrong", 120, 16, 2, 0.0013, "keep", "improved", "significant"),
    ("deepseek-json", "exclude", 118, 16, 2, 0.0013, "discard", "audit_failed", None),
    ("luna", "wrong", 120, 15, 6, 0.0784, "keep", "improved", "within_noise"),
    ("luna", "exclude", 118, 15, 5, 0.0414, "discard", "audit_failed", None),
]


@pytest.mark.shared
@pytest.mark.parametrize(("judge", "failures", "n", "gained", "lost", "p", "word", "basis", "label"), GOLDEN)
def test_tabfact_golden_decisions(
    judge: str, failures: str, n: int, gained: int, lost: int, p: float, word: str, basis: str, label: str | None,
    tmp_path: Path, fitter: Command,
) -> None:  # fmt: skip
    human, best = convert(tmp_path, "tabfact_ten_judges", f"{judge}/direct_guided")
    _, new = convert(tmp_path, "tabfact_ten_judges", f"{judge}/sgr")
    argv = ("score", "--labels", human, "--passes", new, "--against", best, "--metric", "accuracy", "--runs", 1,
            "--failures", failures)  # fmt: skip
    found = fitter.json(*argv)["paired"]
    assert (found["rows"], len(found["gained_ids"]), len(found["lost_ids"])) == (n, gained, lost)
    assert round(found["mcnemar_p"], 4) == p
    assert (found["decision"], found["basis"], found["label"]) == (word, basis, label)
    assert found["policy"]["failures"] == failures
    _, out, _ = fitter(*argv)
    meaning = {"wrong": "rows without a standing vote count as wrong",
               "exclude": "rows without a standing vote are excluded and counted"}[failures]  # fmt: skip
    assert f"mcnemar_p {p:.4f}" in out
    assert out.count(meaning) >= 2  # with the headline and with the pair


@pytest.mark.shared
def test_tabfact_arms_and_pairs_through_the_files(tmp_path: Path) -> None:
    published = json.loads((shared_data_path() / "tabfact_ten_judges" / "published.json").read_text(encoding="utf-8"))
    judges = list(published["arms"])
    files = {judge: convert(tmp_path, "tabfact_ten_judges", judge) for judge in judges}
    human = read_labels(files[judges[0]][0])
    fixed = frame_of(human, ScoreOptions(metric="accuracy", runs=1, failures="wrong"))
    read = {judge: read_passes(files[judge][1], labels=human, runs=1, classes=None) for judge in judges}
    for judge, (right, valid, _, _) in published["arms"].items():
        card = score(fixed, human, read[judge])
        assert card["headline"]["value"] == pytest.approx(right / 120)
        assert 120 - sum(card["inputs"]["passes"]["unusable"].values()) == valid
    printed = 0
    for a, b, delta, low, high, b_wins, a_wins, p in published["pairs"][::5]:
        found = score(fixed, human, read[b], against=read[a])["paired"]
        assert (len(found["gained_ids"]), len(found["lost_ids"])) == (b_wins, a_wins)
        assert found["headline_delta"]["value"] == pytest.approx(delta)
        assert found["headline_delta"]["ci95"]["low"] == pytest.approx(low, abs=1 / 120 + 1e-9)
        assert found["headline_delta"]["ci95"]["high"] == pytest.approx(high, abs=1 / 120 + 1e-9)
        if p is not None:
            printed += 1
            assert round(found["mcnemar_p"], 4) == p
    assert printed >= 1


@pytest.mark.shared
def test_llmbar_converted_judges_have_their_published_counts(tmp_path: Path, fitter: Command) -> None:
    published = json.loads((shared_data_path() / "llmbar_natural" / "published.json").read_text(encoding="utf-8"))
    for judge in sorted(published)[::16]:
        for order, name in (("original", "False"), ("swapped", "True")):
            human, said = convert(tmp_path, "llmbar_natural", f"{judge}/{order}")
            found = fitter.json("score", "--labels", human, "--passes", said, "--metric", "accuracy", "--runs", 1,
                                "--failures", "wrong")  # fmt: skip
            right = int(published[judge][f"correct_{name}"].split(" / ")[0])
            assert found["headline"]["value"] == pytest.approx(right / 100), (judge, order)


@pytest.mark.shared
def test_pandalm_tie_is_class_0_and_25_garbage_verdicts_are_unusable(tmp_path: Path, fitter: Command) -> None:
    answer = {"Tie": "0", "1": "1", "2": "2", "garbage": "garbage"}
    human, said = convert(tmp_path, "pandalm", "gpt-3.5-turbo", answer)
    found = fitter.json("score", "--labels", human, "--passes", said, "--metric", "macro_f1", "--runs", 1,
                        "--classes", "0,1,2")  # fmt: skip
    assert found["inputs"]["labels"]["rows"] == 999
    assert {c: found["per_class"][c]["predicted"] for c in "012"} == {"0": 38, "1": 460, "2": 476}
    assert sum(found["inputs"]["passes"]["unusable"].values()) == 25
    assert set(found["inputs"]["passes"]["unusable"]) == {"label_not_in_schema"}
    assert found["rows"]["scored"] == 974


def test_passes_that_a_fit_left_out_are_no_failure_of_the_judge(practice_run: Path, fitter: Command) -> None:
    """A candidate that was decided early has passes that were never asked for: its file cannot be scored."""
    folder = practice_run / "runs" / "support_policy-001"
    early = {}
    for record in (folder / "decisions").glob("*.json"):
        found = json.loads(record.read_text(encoding="utf-8"))
        if found["candidate"] is not None and "passes" in found["decision"]:
            early[f"{found['candidate']:03d}"] = found["decision"]["passes"]
    assert early
    name, passes = sorted(early.items())[0]
    labels, short, whole = (folder / p for p in ("labels/train.jsonl", f"passes/{name}.jsonl", "passes/000.jsonl"))
    given = ("score", "--labels", labels, "--metric", "balanced_accuracy", "--runs", 3)
    for files in (("--passes", short), ("--passes", whole, "--against", short)):
        code, out, err = fitter(*given, *files)
        assert (code, out) == (2, "")
        assert f"decided this candidate early: {passes['made']} of {passes['of']} passes were made" in err
        assert "--exhaustive" in err
    assert fitter(*given, "--passes", whole)[0] == 0


def test_qu1_a_rate_is_not_corrected_by_rows_that_the_judge_was_fitted_on(practice_run: Path, fitter: Command) -> None:
    folder = practice_run / "runs" / "support_policy-001"
    code, _, err = fitter(
        "estimate", "--labels", folder / "labels/train.jsonl", "--passes", folder / "passes/000.jsonl",
        "--unlabelled", folder / "passes/holdout-winner.jsonl", "--pass-class", "follows", "--runs", 3,
    )  # fmt: skip
    assert code == 2
    assert "the judge was fitted on these rows" in err
    assert "labels/holdout.jsonl" in err
