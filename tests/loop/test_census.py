"""LO-3: the census of errors and whose turn it is."""

from __future__ import annotations

import pytest

from fitter.errors import RunError
from fitter.loop.census import check_buckets, error_rows, target_bucket
from fitter.records import Attempt, Bucket, Pass, Row


def row(rid: str, label: str) -> Row:
    return Row(id=rid, content={}, label=label, reasons=(f"because {rid}",))


def test_lo3_errors_are_standing_votes_that_differ() -> None:
    rows = [row("b", "bad"), row("a", "good"), row("c", "bad"), row("d", "bad")]
    votes = {"a": "bad", "b": "good", "c": "bad"}  # d has no standing vote: no error
    passes = [
        Pass(row="b", run=0, label="bad", reasoning="minority"),
        Pass(row="b", run=1, label="good", reasoning="why good"),
        Pass(row="b", run=2, label="good", reasoning="second"),
    ]
    errors = error_rows(rows, votes, passes, {r.id: f"text {r.id}" for r in rows})
    assert [(e.row, e.human, e.judge) for e in errors] == [("a", "good", "bad"), ("b", "bad", "good")]
    assert errors[1].judge_reasoning == "why good"
    assert errors[1].human_reasons == ("because b",)


def test_lo3_true_is_not_the_text_true() -> None:
    rows = [Row(id="x", content={}, label=True)]
    assert len(error_rows(rows, {"x": "true"}, [], {"x": ""})) == 1


def bucket(name: str, *rows: str) -> Bucket:
    return Bucket(name=name, direction="bad → good", description="d", rows=rows)


def test_lo3_every_error_in_exactly_one_bucket() -> None:
    errors = error_rows([row("a", "good"), row("b", "good")], {"a": "bad", "b": "bad"}, [], {"a": "", "b": ""})
    assert [b.name for b in check_buckets([bucket("one", "a"), bucket("two", "b")], errors)] == ["one", "two"]
    for wrong in (
        [bucket("one", "a")],
        [bucket("one", "a", "b"), bucket("two", "b")],
        [bucket("s", "a"), bucket("s", "b")],
    ):
        with pytest.raises(RunError):
            check_buckets(wrong, errors)


def attempt(i: int, name: str, outcome: str) -> Attempt:
    return Attempt(iteration=i, bucket=name, change="c", outcome=outcome, basis="b")  # type: ignore[arg-type]


def test_lo3_a_bucket_that_resists_makes_room() -> None:
    buckets = [bucket("big", "a", "b", "c"), bucket("mid", "d", "e"), bucket("tiny", "f")]
    assert target_bucket(buckets, []).name == "big"
    assert target_bucket(buckets, [attempt(1, "big", "discarded")]).name == "mid"
    tried = [attempt(1, "big", "discarded"), attempt(2, "mid", "no_change"), attempt(3, "tiny", "discarded")]
    assert target_bucket(buckets, tried).name == "big"
    assert target_bucket(buckets, [*tried, attempt(4, "big", "kept")]).name == "big"
