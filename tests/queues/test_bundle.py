"""The queue bundle: shape, conversion, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fitter.errors import BadInput, SettingsError
from fitter.queues.bundle import bundle_schema, read_bundle
from fitter.queues.files import FlatColumns, FlatFile
from fitter.queues.intake import intake
from fitter.queues.registry import SourceOptions, open_source
from fitter.textsafe import visible
from tests.queues.queue_builders import LABEL, bundle, interaction, write_json

SPAN = {"span_id": "s1", "name": "reply", "kind": "llm", "output": {"value": "hello"}}


def read(tmp_path, *interactions, **more):
    return read_bundle(write_json(tmp_path / "q.json", bundle(*interactions, **more)))


def refused(tmp_path, *interactions, match, **more):
    with pytest.raises(BadInput, match=match) as caught:
        read(tmp_path, *interactions, **more)
    return str(caught.value)


def spans(*drawn):
    return {"spans": [{"span_id": i, "parent_id": p, "name": i, "kind": "task"} for i, p in drawn]}


def test_the_four_forms_of_a_bundle_read_alike(tmp_path):
    whole = bundle(interaction("i1"), interaction("i2", status="pending", annotations=[]))
    items = whole["interactions"]
    header = {key: value for key, value in whole.items() if key != "interactions"}
    lines = "".join(json.dumps(i) + "\n" for i in items)
    write_json(tmp_path / "q.json", whole)
    (tmp_path / "q.jsonl").write_text(json.dumps(header) + "\n" + lines)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    write_json(tmp_path / "one" / "queue.json", whole)
    write_json(tmp_path / "two" / "queue.json", header)
    (tmp_path / "two" / "interactions.jsonl").write_text(lines)
    found = [
        intake(open_source(str(tmp_path / name)).read(), label=LABEL) for name in ("q.json", "q.jsonl", "one", "two")
    ]
    assert all(one == found[0] for one in found)
    assert (found[0].identity, [r.id for r in found[0].rows], found[0].excluded["pending"]) == (
        "support",
        ["i1"],
        ("i2",),
    )
    write_json(tmp_path / "two" / "queue.json", whole)
    with pytest.raises(BadInput, match="interactions stand here and in"):
        open_source(str(tmp_path / "two")).read()


def test_normal_form_is_rebuilt_root_first(tmp_path):
    child = {"span_id": "c", "parent_id": "r", "name": "retrieve", "kind": "retrieval", "status": "error",
             "tags": ["a:b"], "output": {"documents": [{"text": "d"}]}, "metadata": {"k": 1}, "start_ns": 5,
             "duration": 2.5, "evaluation": {"old": {"value": True}}}  # fmt: skip
    root = {"span_id": "r", "name": "turn", "kind": "workflow",
            "input": {"messages": [{"role": "user", "content": "hi"}]},
            "expected_output": "ideal"}  # fmt: skip
    raw = read(tmp_path, interaction(content={"trace_id": "t9", "session_id": "c1", "spans": [child, root]}))
    (row,) = raw.interactions
    assert row.content == {
        "kind": "trace", "session_id": "c1", "focus": "r",
        "traces": [{"trace_id": "t9", "root_span_id": "r", "spans": [
            {"span_id": "r", "trace_id": "t9", "parent_id": "undefined", "name": "turn", "status": "ok",
             "expected_output": "ideal",
             "meta": {"span": {"kind": "workflow"}, "output": {},
                      "input": {"messages": [{"role": "user", "content": "hi"}]}}},
            {"span_id": "c", "trace_id": "t9", "parent_id": "r", "name": "retrieve", "status": "error", "tags": ["a:b"],
             "start_ns": 5, "duration": 2.5, "evaluation": {"old": {"value": True}},
             "meta": {"span": {"kind": "retrieval"}, "input": {}, "output": {"documents": [{"text": "d"}]},
                      "metadata": {"k": 1}}},
        ]}],
    }  # fmt: skip
    assert row.expected_output == "ideal"


def test_focus_is_the_labelled_span(tmp_path):
    tree = spans(("r", None), ("c", "r"))
    by_id = interaction("a", type="span", content_id="c", content=tree)
    by_name = interaction("b", type="span", content={**tree, "focus": "c"})
    neither = interaction("d", type="span", content_id="trace", content=tree)
    assert [row.content["focus"] for row in read(tmp_path, by_id, by_name, neither).interactions] == ["c", "c", "r"]
    refused(tmp_path, interaction(type="span", content={**tree, "focus": "x"}), match="focus names no span")
    refused(tmp_path, interaction(content={**tree, "focus": "c"}), match="focus is for rows of type span")


def test_sessions_have_traces(tmp_path):
    session = {"session_id": "c", "traces": [{"trace_id": "t1", **spans(("a", None))}, spans(("b", None))]}
    (row,) = read(tmp_path, interaction(type="session", content=session)).interactions
    assert [t["trace_id"] for t in row.content["traces"]] == ["t1", "trace-2"]
    assert row.content["focus"] == "a"
    refused(tmp_path, interaction(content=session), match="a trace has one trace, here are 2")


def test_cyclic_spans_are_unresolvable_and_orphans_are_kept_and_counted(tmp_path):
    raw = read(
        tmp_path,
        interaction("cycle", content=spans(("r", None), ("a", "b"), ("b", "a"))),
        interaction("self", content=spans(("a", "a"))),
        interaction("orphan", content=spans(("r", None), ("x", "gone"))),
        interaction("headless", content=spans(("x", "gone"), ("y", "x"))),
    )
    assert [row.content_problem for row in raw.interactions] == ["span_cycle", "span_cycle", "", ""]
    assert raw.interactions[3].content["traces"][0]["root_span_id"] == "x"
    assert raw.counts["orphan_spans"] == 2
    assert intake(raw, label=LABEL).excluded["unresolvable"] == ("cycle", "self")


def test_a_chain_of_five_thousand_spans_is_no_recursion(tmp_path):
    chain = [("s0", None), *((f"s{n}", f"s{n - 1}") for n in range(1, 5000))]
    (row,) = read(tmp_path, interaction(content=spans(*chain))).interactions
    assert len(row.content["traces"][0]["spans"]) == 5000


def test_gt4_expired_content_and_display_blocks_are_unresolvable(tmp_path):
    raw = read(
        tmp_path,
        interaction("a", content=None, content_problem="expired"),
        interaction("b", type="display_block", display_block=[{"type": "text", "content": "x"}], content=None),
        interaction("c", status="declined"),
    )
    found = intake(raw, label=LABEL)
    assert (found.excluded["unresolvable"], found.excluded["declined"]) == (("a", "b"), ("c",))
    assert [row.content_problem for row in raw.interactions[:2]] == ["expired", "display_block"]


@pytest.mark.parametrize(
    "values",
    [
        [{"label_schema_id": LABEL, "name_when_saved": "an older name", "type": "categorical", "value": ["good"],
          "assessment": "pass", "reasoning": "why"}],
        {LABEL: {"value": "good", "reasoning": "why"}},
        {"ok": {"value": "good", "reasoning": "why"}},
        {"an older name": {"label_schema_id": LABEL, "value": "good", "reasoning": "why"}},
    ],
)  # fmt: skip
def test_gt5_labels_are_addressed_by_id_whatever_name_was_saved(tmp_path, values):
    raw = read(tmp_path, interaction(annotations=[{"created_by": "ann", "label_values": values}]))
    (row,) = intake(raw, label=LABEL).rows
    assert (row.label, row.reasons, row.annotators) == ("good", ("why",), ("ann",))


def test_a_map_may_hold_bare_values(tmp_path):
    raw = read(tmp_path, interaction(annotations=[{"created_by": "ann", "label_values": {"ok": "bad"}}]))
    assert [row.label for row in intake(raw, label="ok").rows] == ["bad"]


def test_an_annotation_of_another_label_leaves_the_row_pending(tmp_path):
    labels = [{"id": LABEL, "name": "ok", "type": "boolean"}, {"id": "n", "name": "note", "type": "text"}]
    raw = read(
        tmp_path, interaction(annotations=[{"created_by": "ann", "label_values": {"note": "hm"}}]), labels=labels
    )
    assert intake(raw, label=LABEL).excluded["pending"] == ("i1",)


def test_ev3_app_verdict_fields_must_lead_somewhere(tmp_path):
    def verdict(span, path):
        return interaction(app_verdict={"value": "bad", "fields": [{"span_id": span, "path": path}]})

    (row,) = intake(read(tmp_path, verdict("s1", "meta.output.value")), label=LABEL).rows
    assert (row.app_verdict, row.app_fields) == ("bad", (("s1", "meta.output.value"),))
    for span, path in (("s1", "meta.output.valeu"), ("s2", "meta.output.value")):
        refused(tmp_path, verdict(span, path), match=r"leads nowhere \(at /interactions/0/app_verdict/fields/0\)")
    refused(tmp_path, verdict("s1", "output.value"), match="does not match")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"lable": 1}, r"unknown key 'lable' \(at /interactions/0\)"),
        ({"type": "chat"}, r"should be one of .*\(at /interactions/0/type\)"),
        ({"annotations": [{"label_values": [{"value": 1}]}]}, "missing key 'label_schema_id'"),
        ({"annotations": [{"label_values": {"zz": 1}}]}, r"no label 'zz' in label_schemas"),
        ({"annotations": [{"label_values": [{"label_schema_id": LABEL, "value": "x"}] * 2}]}, "one label twice"),
        ({"content": {"spans": [{"span_id": "s1", "name": "n", "kind": "llm", "meta": {}}]}},
         r"unknown key 'meta' \(at /interactions/0/content/spans/0\)"),
        ({"content": {"spans": [SPAN, SPAN]}}, r"stands twice \(at /interactions/0/content/spans/1/span_id\)"),
        ({"content": {"spans": [SPAN], "traces": []}}, "this key may not stand here|may not be empty"),
        ({"content_problem": "expired"}, "this key may not stand here"),
        ({"content": None, "content_problem": "Text of a customer!"}, "does not match"),
        ({"status": "pending"}, r"says pending, but an annotation holds a value \(at /interactions/0/status\)"),
    ],
)  # fmt: skip
def test_broken_interactions_name_file_pointer_and_row(tmp_path, broken, message):
    text = refused(tmp_path, interaction("row-x", **broken), match=message)
    assert "q.json, row row-x: " in text


def test_messages_never_quote_recorded_text(tmp_path):
    text = refused(
        tmp_path, interaction(content={"spans": "the customer's secret"}), match="should be array, is a string"
    )
    assert "secret" not in text


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({"id": "a", "name": "a", "type": "categorical"}, r"missing key 'values' \(at /label_schemas/0\)"),
        ({"id": "a", "name": "a", "type": "categorical", "values": ["x", " x"]}, "unique"),
        (
            {"id": "a", "name": "a", "type": "categorical", "values": ["x"], "value_descriptions": {"y": ""}},
            "'y', which is not",
        ),
        ({"id": "a", "name": "a", "type": "score", "min": 3, "max": 3}, "min is not below max"),
        ({"id": "a", "name": "a", "type": "stars"}, "should be one of"),
        ({"id": "", "name": "a", "type": "text"}, "may not be empty"),
    ],
)
def test_broken_label_schemas(tmp_path, label, message):
    refused(tmp_path, match=message, labels=[label])


def test_label_schemas_become_typed(tmp_path):
    labels = [
        {"id": "b", "name": "b", "type": "boolean", "value_descriptions": {"true": "yes"}},
        {"id": "c", "name": "c", "type": "categorical", "values": ["y ", "x"], "description": None},
        {"id": "m", "name": "m", "type": "categorical", "values": ["x"], "multi_select": True},
        {"id": "n", "name": "n", "type": "numeric", "min": 1, "max": 5, "is_integer": True},
        {"id": "t", "name": "t", "type": "text"},
    ]
    b, c, m, n, t = read(tmp_path, labels=labels).schemas
    assert (b.kind, b.classes) == ("boolean", (False, True))
    assert (c.kind, c.classes) == ("categorical", ("y", "x"))
    assert m.kind == "multiselect"
    assert (n.kind, n.minimum, n.maximum, n.is_integer) == ("numeric", 1, 5, True)
    assert type(t).__name__ == "TextSchema"
    refused(tmp_path, match="label id 'b' stands twice", labels=[labels[0], labels[0]])


def test_jsonl_faults_name_their_line(tmp_path):
    header = {key: value for key, value in bundle().items() if key != "interactions"}
    path = tmp_path / "q.jsonl"
    path.write_text(f"{json.dumps(header)}\n\n{json.dumps(interaction())}\n{json.dumps(interaction('i2', extra=1))}\n")
    with pytest.raises(BadInput, match=r"q\.jsonl, line 4, row i2: unknown key 'extra'"):
        open_source(str(path)).read()
    path.write_text(f"{json.dumps(header)}\n{{broken\n")
    with pytest.raises(BadInput, match="line 2: broken JSON"):
        open_source(str(path)).read()


def test_gt8_duplicate_keys_in_a_json_bundle_name_their_line(tmp_path):
    path = tmp_path / "q.json"
    path.write_text('\n{"schema_version": 1,\n "queue": {"id": "a",\n  "id": "b"}}')
    with pytest.raises(BadInput, match="line 4: duplicate key: key 'id' appears twice"):
        read_bundle(path)
    path.write_text('{"schema_version": 1,\n oops')
    with pytest.raises(BadInput, match="line 2: broken JSON"):
        read_bundle(path)


def test_names_with_escape_codes_and_paths_stay_text_in_messages(tmp_path):
    text = refused(tmp_path, interaction("\x1b[31m../../x", lable=1), match="unknown key")
    assert "\x1b" not in text
    raw = read(tmp_path, interaction(), labels=None)
    assert visible(raw.description) == raw.description


def test_open_source_tells_the_kinds_apart(tmp_path):
    flat = tmp_path / "rows.jsonl"
    flat.write_text('{"output": "a", "label": "good"}\n')
    options = SourceOptions(columns=FlatColumns(output="output"), queue_name="other")
    source = open_source(str(flat), options)
    assert isinstance(source, FlatFile)
    assert source.read().identity == "other"
    path = write_json(tmp_path / "q.json", bundle(interaction()))
    assert open_source(str(path), SourceOptions(queue_name="x")).read().identity == "x"
    with pytest.raises(SettingsError, match="column options are for flat files"):
        open_source(str(path), options)
    with pytest.raises(BadInput, match="no such file"):
        open_source(str(tmp_path / "none.json"))
    (tmp_path / "q.parquet").write_text("x")
    with pytest.raises(BadInput, match="no queue this program reads"):
        open_source(str(tmp_path / "q.parquet"))
    with pytest.raises(BadInput, match="no such file"):
        open_source(str(tmp_path)).read()  # a folder without queue.json


def test_the_practice_queue_is_a_bundle_that_can_be_fitted():
    raw = open_source("practice").read()
    fitted = [s.id for s in raw.schemas if type(s).__name__ != "TextSchema"]
    assert fitted
    assert len(raw.interactions) >= 100


def test_the_page_on_bundles_names_every_key_of_the_schema():
    page = (Path(__file__).parents[2] / "docs" / "queues.md").read_text(encoding="utf-8")

    def keys(node):
        if isinstance(node, dict):
            yield from node.get("properties", {})
            for value in node.values():
                yield from keys(value)
        elif isinstance(node, list):
            for value in node:
                yield from keys(value)

    missing = sorted(key for key in set(keys(bundle_schema())) if not re.search(rf"\b{key}\b", page))
    assert missing == []


def test_the_published_schema_is_a_schema_and_refuses_unknown_keys_everywhere():
    from jsonschema import Draft202012Validator

    schema = bundle_schema()
    Draft202012Validator.check_schema(schema)
    free = {"tool_calls", "tool_results"}  # lists of free objects

    def closed(node, path):
        if isinstance(node, dict):
            if "properties" in node and node.get("type") == "object":
                assert node.get("additionalProperties") is False, path
            for key, value in node.items():
                if key not in free:
                    closed(value, f"{path}/{key}")
        elif isinstance(node, list):
            for value in node:
                closed(value, path)

    closed(schema, "")
