"""Snapshots: an exact round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import Tampered
from fitter.labels import same
from fitter.queues.snapshot import dump_rows, load_rows, row_to_json, snapshot_hash
from fitter.records import Row
from tests.queues.queue_builders import content

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
labels = (
    st.booleans()
    | text
    | st.frozensets(text, min_size=1, max_size=3)
    | st.floats(allow_nan=False, allow_infinity=False)
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
rows = st.builds(
    Row,
    id=text,
    content=anything.map(lambda value: content("x", question=value)),
    label=labels,
    reasons=st.lists(text, max_size=2).map(tuple),
    annotators=st.lists(text, max_size=2).map(tuple),
    group=st.none() | text,
    content_id=st.none() | text,
    expected_output=anything,
    app_verdict=st.none() | labels,
    app_fields=st.lists(st.tuples(text, text), max_size=2).map(tuple),
    adjudicated=st.booleans(),
    original_labels=st.lists(text, max_size=2).map(tuple),
)


@given(st.lists(rows, max_size=4, unique_by=lambda row: row.id))
def test_round_trip_is_exact_in_value_and_type(drawn):
    back = load_rows(dump_rows(drawn))
    assert back == tuple(sorted(drawn, key=lambda row: row.id))
    for was, now in zip(sorted(drawn, key=lambda row: row.id), back, strict=True):
        assert same(was.label, now.label)
        assert type(was.label) is type(now.label)
    assert dump_rows(back) == dump_rows(drawn)


def test_kinds_are_kept_apart():
    drawn = [
        Row(id=str(n), content={}, label=label) for n, label in enumerate([True, "true", 1.0, frozenset({"true"})])
    ]
    assert [row.label for row in load_rows(dump_rows(drawn))] == [True, "true", 1.0, frozenset({"true"})]
    assert len({snapshot_hash([Row(id="a", content={}, label=row.label)]) for row in drawn}) == 4


def test_the_hash_hangs_on_every_field_and_not_on_order():
    one = Row(id="a", content=content("x"), label="good")
    two = Row(id="b", content=content("y"), label="bad")
    assert snapshot_hash([one, two]) == snapshot_hash([two, one])
    assert snapshot_hash([one]) != snapshot_hash([Row(id="a", content=content("x"), label="good", reasons=("r",))])
    assert set(row_to_json(one)) == {"schema_version", *vars(one)}


@pytest.mark.parametrize("text", ["{broken", "[]", '{"schema_version": 2}', '{"schema_version": 1, "id": "a"}'])
def test_what_is_no_snapshot_is_refused(text):
    with pytest.raises(Tampered):
        load_rows(text)
