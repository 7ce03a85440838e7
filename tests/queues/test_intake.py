"""Intake: every GT rule by name."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import BadInput, SettingsError, UserError
from fitter.labels import LabelSchema
from fitter.queues.intake import REASONS, IntakeOptions, intake
from fitter.queues.source import LabelSource, RawQueue, TextSchema
from fitter.queues.values import parse_label_map
from tests.queues.queue_builders import GOOD_BAD, LABEL, content, item, queue, said

NUMERIC = LabelSchema(id=LABEL, name="score", kind="numeric", minimum=0, maximum=10)


def run(*items, schema=None, **options):
    return intake(queue(*items, schema=schema), label=LABEL, options=IntakeOptions(**options))


def excluded(found):
    return {reason: ids for reason, ids in found.excluded.items() if ids}


def test_gt1_a_source_has_one_verb_and_intake_leaves_the_queue_as_it_was():
    assert [name for name in vars(LabelSource) if not name.startswith("_")] == ["read"]
    raw = queue(item("a", said(" good ")), item("b", said("bad")))
    before = repr(raw)
    intake(raw, label=LABEL)
    assert repr(raw) == before


def test_gt2_a_label_that_looks_mistaken_stays_and_is_a_finding():
    found = run(item("a", said("good"), expected_output="bad"), item("b", said("bad")))
    assert {row.id: row.label for row in found.rows} == {"a": "good", "b": "bad"}
    assert found.expected_output.differs == ("a",)


def test_gt3_pending_is_counted_and_excluded_and_never_invented():
    found = run(item("a"), item("b", said(None)), item("c", said("")), item("d", said("good")), item("e", said([])))
    assert excluded(found) == {"pending": ("a", "b", "c", "e")}
    assert [row.id for row in found.rows] == ["d"]


def test_gt4_empty_label_is_where_an_annotator_is_named():
    found = run(
        item("a", said("", "ann")), item("b", said([], "ann")), item("c", said("  ", "ann")), item("d", said("x"))
    )
    assert excluded(found) == {"empty_label": ("a", "b", "c")}


def test_gt4_contested_is_never_newest_first_or_majority():
    found = run(
        item("a", said("good", "ann"), said("good", "bob"), said("bad", "cy")),
        item("b", said("bad", "ann"), said("good", "bob")),
        item("c", said("bad", "ann"), said("bad", "bob")),
    )
    assert excluded(found) == {"contested": ("a", "b")}
    assert [(row.id, row.label) for row in found.rows] == [("c", "bad")]


def test_gt4_one_annotator_who_disagrees_with_themselves_is_contested():
    assert excluded(run(item("a", said("good", "ann"), said("bad", "ann")))) == {"contested": ("a",)}


def test_gt4_other_exclusions_each_under_their_own_reason():
    found = run(
        item("gone", said("good"), content=None, content_problem="expired"),
        item("no", said("good"), declined=True),
        item("odd", said("excellent")),
        item("odd2", said("good", "ann"), said(3, "bob")),
        item("ok", said("good")),
        schema=GOOD_BAD,
    )
    assert excluded(found) == {"unresolvable": ("gone",), "declined": ("no",), "off_schema": ("odd", "odd2")}
    assert found.read == 5


def test_gt4_adjudication_settles_keeps_the_originals_and_drops_the_overruled_reason():
    found = run(
        item(
            "a",
            said("good", "ann", "polite"),
            said("bad", "bob", "no date"),
            said("bad", "cy", "rule 3", "adjudication"),
        )
    )
    (row,) = found.rows
    assert (row.label, row.adjudicated, row.original_labels) == ("bad", True, ("good", "bad"))
    assert row.reasons == ("no date", "rule 3")
    assert row.annotators == ("ann", "bob", "cy")
    assert found.counts["adjudicated"] == 1
    assert found.adjudicated == ("a",)


@pytest.mark.parametrize(
    "ruling",
    [
        said("bad", "bob", "rule 3", "adjudication"),  # one of the two who disagree
        said("bad", "cy", " \u200b ", "adjudication"),  # no reason
        said("bad", None, "rule 3", "adjudication"),  # nobody can tell who
    ],
)
def test_gt4_adjudication_is_by_a_named_third_person_with_a_reason(ruling):
    found = run(item("a", said("good", "ann"), said("bad", "bob"), ruling))
    assert excluded(found) == {"contested": ("a",)}
    assert found.counts["adjudications_not_accepted"] == 1


def test_gt4_an_adjudicator_cannot_overrule_reviewers_who_agree_nor_another_adjudicator():
    overrule = item("a", said("good", "ann"), said("good", "bob"), said("bad", "cy", "r", "adjudication"))
    two = item("b", said("good", "ann"), said("bad", "bob"), said("bad", "cy", "r", "adjudication"),
               said("good", "di", "r", "adjudication"))  # fmt: skip
    unknown = item("c", said("good", "ann"), said("bad", None), said("bad", "cy", "r", "adjudication"))
    assert excluded(run(overrule, two, unknown)) == {"contested": ("a", "b", "c")}


def test_gt4_an_adjudicator_alone_is_a_reviewer():
    found = run(item("a", said("bad", "cy", "", "adjudication")))
    assert [(row.label, row.adjudicated) for row in found.rows] == [("bad", False)]


def test_gt4_numeric_within_the_tolerance_is_the_median_and_recorded():
    pair = item("a", said(3, "ann"), said(4, "bob"), said(3.5, "cy"))
    assert excluded(run(pair, schema=NUMERIC)) == {"contested": ("a",)}
    found = run(pair, schema=NUMERIC, numeric_tolerance=1)
    assert ([row.label for row in found.rows], found.medians) == ([3.5], ("a",))
    assert excluded(run(pair, schema=NUMERIC, numeric_tolerance=0.9)) == {"contested": ("a",)}
    with pytest.raises(SettingsError):
        run(pair, schema=NUMERIC, numeric_tolerance=float("nan"))


def test_gt5_a_label_is_addressed_by_id_then_by_an_unambiguous_name():
    twins = (
        GOOD_BAD,
        TextSchema(id="t1", name="why"),
        GOOD_BAD.model_copy(update={"id": "other"}),
        GOOD_BAD.model_copy(update={"id": "third", "name": LABEL}),
    )
    raw = RawQueue(identity="q", description="", schemas=twins, interactions=(item("a", said("good")),))
    assert intake(raw, label=LABEL).label.id == LABEL  # an id outranks another label's name
    with pytest.raises(UserError, match=r"'ok' is the name of 2 labels; .*q7 \(ok, categorical\)"):
        intake(raw, label="ok")
    with pytest.raises(UserError, match=r"no label 'missing'; its labels are: q7 .*t1 \(why, text\)"):
        intake(raw, label="missing")
    assert [row.id for row in intake(raw, label="other").rows] == []


def test_gt6_expected_output_is_private_and_its_disagreement_is_a_finding():
    found = run(
        item("a", said("good"), expected_output="bad"),
        item("b", said("bad"), expected_output="bad"),
        item("c", said("bad"), expected_output="A long reference answer."),
    )
    assert (found.expected_output.rows, found.expected_output.differs, found.expected_output.not_comparable) == (
        2,
        ("a",),
        1,
    )
    assert "reference" not in json.dumps([row.content for row in found.rows])


def test_gt7_gate_needs_a_row_in_each_of_two_classes():
    assert run(item("a", said("good")), item("b", said("bad"))).gate.passed
    one = run(item("a", said("good")), item("b", said("good")), schema=GOOD_BAD)
    assert (one.gate.passed, one.gate.reason) == (
        False,
        "a categorical label needs a usable row in each of two classes; all 2 usable rows say 'good'",
    )
    none = run(item("a"))
    assert "there is no usable row" in none.gate.reason
    assert none.minority is None


def test_gt7_numeric_gate_needs_ten_rows_with_three_values():
    def rows(values):
        return [item(f"r{n}", said(value)) for n, value in enumerate(values)]

    assert run(*rows([1, 2, 3] * 3 + [1]), schema=NUMERIC).gate.passed
    assert not run(*rows([1, 2, 3] * 3), schema=NUMERIC).gate.passed
    assert not run(*rows([1, 2] * 5), schema=NUMERIC).gate.passed


def test_gt7_small_classes_are_named():
    rows = [item(f"g{n:02}", said("good")) for n in range(20)] + [item(f"b{n}", said("bad")) for n in range(7)]
    found = run(*rows)
    assert found.minority == "bad"
    assert found.small_classes == ()
    assert "smallest class (bad) has 7 rows" in found.warnings[0]
    assert "swallow most improvements" in found.warnings[0]
    found = run(*rows, *[item(f"m{n}", said("mixed")) for n in range(5)])
    assert found.small_classes == ("mixed",)
    assert "Not separately measurable (under 6 rows): mixed (5)" in found.warnings[1]
    assert run(*rows, item("b7", said("bad"))).warnings == ()


def test_gt8_text_labels_are_refused():
    with pytest.raises(UserError, match="free text"):
        run(item("a", said("hello")), schema=TextSchema(id=LABEL, name="why"))


def test_gt8_strings_become_booleans_only_through_a_map():
    rows = (item("a", said("yes")), item("b", said("no")))
    assert run(*rows).label.kind == "categorical"
    found = run(*rows, label_map=parse_label_map(["yes=true", "no=false"]))
    assert found.label.kind == "boolean"
    assert [row.label for row in found.rows] == [True, False]
    boolean = LabelSchema(id=LABEL, name="ok", kind="boolean", classes=(False, True))
    assert excluded(run(item("a", said("true")), item("b", said(1)), schema=boolean)) == {"off_schema": ("a", "b")}
    assert excluded(run(item("a", said("true")), label_kind="boolean")) == {"off_schema": ("a",)}
    with pytest.raises(UserError, match="several types: 1 boolean, 1 string"):
        run(*rows, label_map={"yes": True})


def test_gt8_white_space_is_stripped_and_counted():
    found = run(item("a", said(" good\n")), item("b", said("good")), item("c", said("bad")))
    assert [row.label for row in found.rows] == ["good", "good", "bad"]
    assert found.counts["stripped"] == 1


@pytest.mark.parametrize("other", ["Good", "GOOD", "g\u006fod ".upper(), "very  good"])
def test_gt8_values_that_differ_in_case_or_spacing_ask_for_a_map(other):
    base = "very good" if " " in other.strip() else "good"
    rows = (item("a", said(base)), item("b", said(other)), item("c", said("bad")))
    with pytest.raises(UserError, match=r"differ only in case or spacing.*\n.*--label-map"):
        run(*rows)
    merged = run(*rows, label_map={other.strip(): base})
    assert dict(merged.class_counts) == {"bad": 1, base: 2}


def test_gt8_case_variants_of_a_listed_class_ask_for_a_map_too():
    with pytest.raises(UserError, match="'Good' / 'good'"):
        run(item("a", said("Good")), schema=GOOD_BAD)


def test_gt8_multi_select_is_compared_as_a_set():
    listed = GOOD_BAD.model_copy(update={"classes": ("a", "b", "c")})
    found = run(item("x", said(["a", "b"], "ann"), said(["b", "a"], "bob")), item("y", said(["c"])), schema=listed)
    assert found.label.kind == "multiselect"
    assert [row.label for row in found.rows] == [frozenset("ab"), frozenset("c")]
    assert dict(found.class_counts) == {"a": 1, "b": 1, "c": 1}
    assert found.minority_tied == ("b", "c")
    assert excluded(run(item("x", said(["a", "z"])), schema=listed)) == {"off_schema": ("x",)}


def test_gt8_a_csv_cell_can_hold_a_json_list_when_asked_for():
    cells = (item("x", said(' ["a", " b "]')), item("y", said("c")), item("z", said("[broken")))
    found = run(*cells, label_kind="multiselect")
    assert [row.label for row in found.rows] == [frozenset("ab"), frozenset("c"), frozenset({"[broken"})]
    assert run(*cells).label.kind == "categorical"


def test_gt8_a_one_element_list_of_a_single_choice_is_its_value():
    found = run(item("x", said(["good"])), item("y", said("bad")), item("z", said(["bad", "bad"])), schema=GOOD_BAD)
    assert (found.label.kind, [row.label for row in found.rows]) == ("categorical", ["good", "bad", "bad"])


def test_gt8_identical_rows_collapse_and_one_id_with_different_content_is_an_error():
    found = run(item("a", said("good")), item("a", said("good")), item("b", said("bad")))
    assert (found.read, found.counts["collapsed_duplicates"]) == (2, 1)
    with pytest.raises(BadInput, match="row a: this id stands twice"):
        run(item("a", said("good")), item("a", said("good"), content=content("other")))
    with pytest.raises(BadInput):  # to Python True == 1
        run(item("a", said(True), content=content("x")), item("a", said(1), content=content("x")))


def test_gt8_kinds_of_flat_labels():
    assert run(item("a", said(True)), item("b", said(False))).label.classes == (False, True)
    assert run(item("a", said(1)), item("b", said(2.5))).label.kind == "numeric"
    numerals = run(item("a", said("1")), item("b", said("2")))
    assert (numerals.label.kind, numerals.label.classes) == ("categorical", ("1", "2"))
    assert "say --label-kind numeric" in numerals.warnings[-1]
    scored = run(item("a", said("1")), item("b", said("2.5")), item("c", said("n/a")), label_kind="numeric")
    assert [row.label for row in scored.rows] == [1.0, 2.5]
    assert excluded(scored) == {"off_schema": ("c",)}
    assert scored.scale == (1.0, 2.5)
    assert run(item("a", said(1)), item("b", said(2)), label_kind="categorical").label.classes == ("1", "2")
    with pytest.raises(SettingsError, match="is categorical, not numeric"):
        run(item("a", said("good")), schema=GOOD_BAD, label_kind="numeric")


def test_numeric_bounds_and_unreadable_numbers_are_off_schema_and_never_clamped():
    odd = [item("a", said(11)), item("b", said(True)), item("c", said("3")), item("d", said(10**400))]
    found = run(*odd, item("e", said(10)), schema=NUMERIC)
    assert excluded(found) == {"off_schema": ("a", "b", "c", "d")}
    assert found.scale == (0, 10)


def test_a_labels_classes_are_the_schemas_or_else_those_of_the_usable_rows():
    assert run(item("a", said("good")), schema=GOOD_BAD).label.classes == ("good", "bad")
    found = run(item("a", said("good")), item("b", said("bad")), item("c", said("odd", "ann"), said("good", "bob")))
    assert found.label.classes == ("bad", "good")


def test_duplicate_content_under_different_ids_is_counted_and_kept():
    same = content("the same")
    found = run(*(item(f"r{n}", said("good"), content=same) for n in range(3)), item("x", said("bad")))
    assert found.counts["duplicate_content"] == 2
    assert len(found.rows) == 4


def test_app_verdict_is_compared_and_only_when_it_is_a_value_of_the_label():
    found = run(
        item("a", said("good"), app_verdict="bad"),
        item("b", said("bad"), app_verdict=" bad "),
        item("c", said("bad"), app_verdict="escalate"),
        item("d", said("bad"), app_verdict={"x": 1}),
    )
    assert (found.app.rows, found.app.differs, found.app.not_comparable) == (2, ("a",), 2)
    assert [row.app_verdict for row in found.rows] == ["bad", "bad", None, None]


def test_unused_words_of_the_label_map_are_a_warning_and_a_map_is_checked():
    found = run(item("a", said("good")), item("b", said("bad")), label_map={"godo": "good"})
    assert "names words that no label holds: godo" in found.warnings[-1]
    for broken in (["yes"], ["=true"], ["a=b", "a=c"]):
        with pytest.raises(SettingsError):
            parse_label_map(broken)


def test_sp7_recap_holds_no_text_and_names_only_train_rows():
    found = run(
        item("held", said("good", "ann@corp", "secret reason"), expected_output="bad", app_verdict="bad",
             content=content("secret text", question="secret question")),
        item("seen", said("bad", "bob@corp", "secret reason"), expected_output="good", app_verdict="good"),
    )  # fmt: skip
    recap = json.dumps(found.to_json(train_ids={"seen"}))
    for private in ("secret", "corp", "reply", "held"):
        assert private not in recap
    assert found.to_json(train_ids={"seen"})["expected_output"]["differs_train_ids"] == ["seen"]
    assert found.to_json()["expected_output"] == {"rows": 2, "differs": 2, "differs_train_ids": [], "not_comparable": 0}


def test_reviews_keep_contested_labels_for_agreement_between_reviewers():
    found = run(item("a", said("good", "ann"), said("bad", "bob")))
    assert [(r.row, r.annotator, r.label) for r in found.reviews] == [("a", "ann", "good"), ("a", "bob", "bad")]


values = st.sampled_from(["good", "bad", "", None, [], ["good"], " bad ", "odd", 3, True])
annotations = st.lists(
    st.tuples(values, st.sampled_from([None, "ann", "bob", "cy"]), st.sampled_from(["review", "adjudication"])),
    max_size=4,
)


@given(st.lists(st.tuples(annotations, st.booleans(), st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_gt9_accounting_always_adds_up_and_does_not_hang_on_order(drawn, rng: random.Random):
    items = [
        item(f"r{n}", *(said(v, who, "why", role) for v, who, role in given), declined=declined,
             **({"content": None} if gone else {}))
        for n, (given, declined, gone) in enumerate(drawn)
    ]  # fmt: skip
    found = run(*items, schema=GOOD_BAD)
    assert set(found.excluded) == set(REASONS)
    ids = [row.id for row in found.rows] + [i for gone in found.excluded.values() for i in gone]
    assert sorted(ids) == sorted(i.id for i in items)
    assert found.read == len(items)
    assert all(GOOD_BAD.admits(row.label) for row in found.rows)
    rng.shuffle(items)
    assert run(*items, schema=GOOD_BAD) == found
