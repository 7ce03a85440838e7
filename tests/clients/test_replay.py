"""``replay:PATH``: recorded answers by an explicit row + run key, never by position and never by guessing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitter.clients.base import ModelRequest
from fitter.clients.registry import open_client
from fitter.clients.replay import ReplayClient, verdict_text
from fitter.errors import BadInput, SettingsError
from fitter.jsonio import jsonl, sha256
from fitter.judge.verdict import Verdict, parse_verdict
from tests.clients.helpers import CONTRACT, request, run


def write(path: Path, *rows: Any) -> str:
    file = path / "passes.jsonl"
    file.write_text(jsonl(rows), encoding="utf-8")
    return f"replay:{file}"


def get(spec: str, req: ModelRequest, run_index: int = 0) -> Any:
    return run(open_client(spec).complete(req, run=run_index))


def test_answers_are_found_by_row_and_run(tmp_path: Path) -> None:
    spec = write(
        tmp_path,
        {"row": "a", "run": 0, "label": "good", "confidence": 80, "reasoning": "why"},
        {"id": "a", "run": 1, "label": "bad"},
        {"row": "b", "run": 0, "unusable": "refusal"},
        {"row": "b", "run": 1, "text": "```\n{}\n```", "model": "m-1"},
    )
    verdict = parse_verdict(get(spec, request(row="a")).text, CONTRACT)
    assert isinstance(verdict, Verdict)
    assert (verdict.label, verdict.confidence, verdict.reasoning) == ("good", 80, "why")
    second = parse_verdict(get(spec, request(row="a"), 1).text, CONTRACT)
    assert isinstance(second, Verdict)
    assert (second.label, second.confidence_fault) == ("bad", "missing")
    assert get(spec, request(row="b")).outcome == "refusal"
    verbatim = get(spec, request(row="b"), 1)
    assert verbatim.text == "```\n{}\n```"
    assert verbatim.model is None
    assert "m-1" in verbatim.detail


def test_a_follow_up_may_have_its_own_record(tmp_path: Path) -> None:
    spec = write(
        tmp_path,
        {"row": "a", "run": 0, "attempt": 1, "text": "not json"},
        {"row": "a", "run": 0, "attempt": 2, "label": "good"},
        {"row": "b", "run": 0, "text": "same for both"},
    )
    first = request(row="a")
    assert get(spec, first).text == "not json"
    again = first.follow_up("not json", "that is not JSON")
    assert again.row == "a"
    assert "good" in get(spec, again).text
    assert get(spec, request(row="b").follow_up("x", "y")).text == "same for both"


def test_answers_are_found_by_request_digest_too(tmp_path: Path) -> None:
    req = request("a drafter's question")
    spec = write(tmp_path, {"request": sha256(req.to_bytes()), "run": 0, "text": "an answer"})
    assert get(spec, req).text == "an answer"
    with pytest.raises(SettingsError):
        get(spec, request("another question"))


def test_what_is_not_recorded_is_an_error_that_names_row_and_run(tmp_path: Path) -> None:
    spec = write(tmp_path, {"row": "a", "run": 0, "label": "good"}, {"row": "a", "run": 1, "label": "good"})
    with pytest.raises(SettingsError, match=r"row a, run 2") as caught:
        get(spec, request(row="a"), 2)
    assert "--runs 2" in str(caught.value)
    with pytest.raises(SettingsError, match="row b"):
        get(spec, request(row="b"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nope", "not one JSON object"),
        ('{"row":"a","run":0,"label":"x","label":"y"}', "twice"),
        ("[]", "not a JSON object"),
        ('{"run":0,"label":"x"}', "exactly one of row, id and request"),
        ('{"row":"a","id":"a","run":0,"label":"x"}', "exactly one of row, id and request"),
        ('{"row":7,"run":0,"label":"x"}', "as a string"),
        ('{"row":"a","label":"x"}', "run is"),
        ('{"row":"a","run":-1,"label":"x"}', "run is"),
        ('{"row":"a","run":true,"label":"x"}', "run is"),
        ('{"row":"a","run":0}', "exactly one of text, label and unusable"),
        ('{"row":"a","run":0,"label":"x","unusable":"refusal"}', "exactly one of"),
        ('{"row":"a","run":0,"unusable":"tired"}', "not a reason"),
        ('{"row":"a","run":0,"text":7}', "text is a string"),
        ('{"row":"a","run":0,"label":"x","attempt":3}', "attempt is"),
        ('{"row":"a","run":0,"label":"x","verdict":1}', "unknown key"),
        ('{"row":"ok","run":0,"label":"other"}', "recorded twice with different answers"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"row":"ok","run":0,"label":"x"}\n\n' + line + "\n")
    with pytest.raises(BadInput, match="line 3") as caught:
        open_client(f"replay:{file}")
    assert says in str(caught.value)


def test_the_same_record_twice_is_fine_and_an_empty_file_is_not(tmp_path: Path) -> None:
    assert ReplayClient("s", Path(write(tmp_path, *[{"row": "a", "run": 0, "label": "x"}] * 2)[7:])).runs == 1
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(BadInput, match="no recorded answers"):
        open_client(f"replay:{tmp_path / 'empty.jsonl'}")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        open_client(f"replay:{tmp_path / 'latin.jsonl'}")


def test_identity_is_the_content_and_moving_the_file_changes_nothing(tmp_path: Path) -> None:
    spec = write(tmp_path, {"row": "a", "run": 0, "label": "good"})
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(Path(spec[7:]).read_bytes())
    assert open_client(spec).identity == open_client(f"replay:{moved}").identity
    other = write(tmp_path, {"row": "a", "run": 0, "label": "bad"})
    assert open_client(other).identity != open_client(f"replay:{moved}").identity


def test_a_text_with_odd_line_separators_stays_one_record(tmp_path: Path) -> None:
    spec = write(tmp_path, {"row": "a", "run": 0, "text": "one\u2028two\x85three\x0bfour"})
    assert get(spec, request(row="a")).text == "one\u2028two\x85three\x0bfour"


def test_row_is_no_part_of_the_request() -> None:
    assert request(row="a").to_bytes() == request(row="b").to_bytes() == request().to_bytes()
    assert b'"row"' not in request(row="a").to_bytes()


def test_labels_go_under_the_targets_own_names() -> None:
    schema = {"properties": {"reasoning": {}, "categorical_eval": {}}}
    record = {"label": ["a", "b"], "confidence": 3}
    assert json.loads(verdict_text(record, schema)) == {"reasoning": "as recorded", "categorical_eval": ["a", "b"]}
