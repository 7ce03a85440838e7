"""LO-3: a candidate differs from best in exactly one focused change."""

from __future__ import annotations

import pytest

from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.loop.propose import BadChange, apply, describe
from fitter.records import Change, Criterion, Draft

C1 = Criterion(id="c1", label="bad", text="The reply is rude.")
C2 = Criterion(id="c2", label="good", text="The reply helps.")
DRAFT = Draft(task="Grade it.", criteria=(C1, C2), otherwise="good")
MAP = EvidenceMap(scope="span", fields=(EvidenceField(name="output", path="span_output", required=True),))


def change(action: str, **values: object) -> Change:
    return Change(action=action, bucket="b", why="w", **values)  # type: ignore[arg-type]


def differences(a: Draft, b: Draft) -> int:
    left, right = {c.id: c for c in a.criteria}, {c.id: c for c in b.criteria}
    return sum(left.get(k) != right.get(k) for k in left.keys() | right.keys()) + (a.otherwise != b.otherwise)


@pytest.mark.parametrize(
    "one",
    [
        change("add", criterion=Criterion(id="?", label="bad", text="The reply is vague.")),
        change("replace", target_id="c1", criterion=Criterion(id="?", label="bad", text="The reply insults.")),
        change("move", target_id="c1", criterion=Criterion(id="?", label="good", text=C1.text)),
        change("drop", target_id="c2"),
        change("set_otherwise", otherwise="bad"),
    ],
)
def test_lo3_exactly_one_difference(one: Change) -> None:
    draft, evidence = apply(one, DRAFT, MAP, labels=("bad", "good"), new_id="c3")
    assert differences(DRAFT, draft) == 1
    assert evidence == MAP
    assert describe(one)


def test_lo3_a_map_change_leaves_the_criteria() -> None:
    added = change("change_map", map_change={"add": {"name": "input", "path": "span_input", "why": "asked"}})
    draft, evidence = apply(added, DRAFT, MAP, labels=("bad", "good"), new_id="c3")
    assert draft == DRAFT
    assert [f.name for f in evidence.fields] == ["output", "input"]
    dropped = change("change_map", map_change={"drop": "input"})
    assert apply(dropped, DRAFT, evidence, labels=("bad", "good"), new_id="c3")[1].fields == MAP.fields


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (change("add", criterion=Criterion(id="?", label="bad", text=C1.text)), "already"),
        (change("add", criterion=Criterion(id="?", label="ugly", text="x")), "no class"),
        (change("add"), "brings no criterion"),
        (change("drop", target_id="c9"), "c9"),
        (change("replace", target_id="c1", criterion=Criterion(id="?", label="good", text="x")), "keeps its class"),
        (change("move", target_id="c1", criterion=Criterion(id="?", label="good", text="x")), "keeps its text"),
        (change("replace", target_id="c1", criterion=C1), "leaves the criterion"),
        (change("set_otherwise", otherwise="good"), "closing answer"),
        (change("change_map", map_change={"drop": "output"}), "empty"),
        (change("change_map", map_change={"drop": "nope"}), "nope"),
        (change("change_map", map_change={"add": {"name": "B A D", "path": "x"}}), "not valid"),
        (change("change_map", map_change={"add": {"name": "x", "path": "span_output"}}), "already has"),
        (change("change_map", map_change={"add": {"name": "x", "path": "y"}, "drop": "output"}), "one field"),
    ],
)
def test_lo3_a_change_that_does_not_fit_is_refused(one: Change, says: str) -> None:
    with pytest.raises(BadChange, match=says):
        apply(one, DRAFT, MAP, labels=("bad", "good"), new_id="c3")


def test_lo3_the_last_criterion_cannot_be_dropped() -> None:
    lone = Draft(task="t", criteria=(C1,), otherwise="good")
    with pytest.raises(BadChange, match="without criteria"):
        apply(change("drop", target_id="c1"), lone, MAP, labels=("bad", "good"), new_id="c2")
