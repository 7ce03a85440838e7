"""SP-3: which rows stay together."""

from __future__ import annotations

import random

from fitter.grouping import full_content, group_rows, input_text
from fitter.records import Row
from tests.queues.queue_builders import content


def row(name, *, text=None, question=None, **more):
    return Row(id=name, label="good", **more,
               content=content(text or f"reply {name}", question=question or f"question {name}"))  # fmt: skip


def groups(rows, **options):
    return sorted(sorted(m.row for m in g.members) for g in group_rows(rows, **options).groups)


def padded(*rows):
    """The rows among 100 others, so that no text of theirs covers 5%."""
    return [*rows, *(row(f"z{n:03}") for n in range(100))]


def joined(*rows):
    return [names for names in groups(padded(*rows)) if not names[0].startswith("z")]


def test_sp3_rows_are_joined_by_group_session_content_id_content_and_input():
    session = {**content("a", question="b"), "session_id": "s"}
    assert joined(row("a", group="g"), row("b", group="g"), row("c", group="h")) == [["a", "b"], ["c"]]
    assert joined(row("a", content_id="g"), row("b", content_id="g"), row("c", group="g")) == [["a", "b"], ["c"]]
    assert joined(row("a", text="same", question="x"), row("b", text="same", question="x")) == [["a", "b"]]
    assert joined(row("a", question="same"), row("b", question=" same\n"), row("c")) == [["a", "b"], ["c"]]
    other = {**content("c", question="d"), "session_id": "s"}
    assert joined(Row(id="a", label="x", content=session), Row(id="b", label="x", content=other)) == [["a", "b"]]


def test_sp3_joining_is_transitive():
    chain = (row("a", group="1"), row("b", group="1", content_id="2"), row("c", content_id="2", question="3"),
             row("d", question="3"), row("e"))  # fmt: skip
    assert joined(*chain) == [["a", "b", "c", "d"], ["e"]]


def test_sp3_an_input_over_five_percent_of_the_rows_joins_nothing_and_is_reported():
    def drawn(n):
        return [*(row(f"a{i}", question="boilerplate") for i in range(n)), *(row(f"b{i:03}") for i in range(100 - n))]

    at_five = group_rows(drawn(5))
    assert (len(at_five.groups), at_five.dropped_inputs) == (96, ())
    at_six = group_rows(drawn(6))
    assert (len(at_six.groups), at_six.dropped_inputs) == (100, ((6, 0.06),))
    other = [*drawn(6), row("x", question="shared"), row("y", question="shared")]
    assert ["x", "y"] in groups(other)  # only that text is dropped, not the key


def test_sp3_a_common_full_content_joins_whatever_its_share():
    rows = [row(f"a{n}", text="thanks", question="hi") for n in range(10)]
    assert len(groups(rows)) == 1


def test_rows_without_input_are_not_joined_by_its_absence():
    rows = [Row(id=str(n), label="x", content=content(f"t{n}", question="")) for n in range(30)]
    assert len(groups(rows)) == 30


def test_full_content_ignores_ids_and_times_and_private_fields():
    one, two = content("x"), content("x")
    span = two["traces"][0]["spans"][0]
    span |= {"span_id": "other", "trace_id": "other", "start_ns": 5, "evaluation": {"v": 1}, "expected_output": "e"}
    two |= {"focus": "other"}
    span["meta"]["input"] = {"value": "q"}
    rows = [Row(id="a", content=one, label="x"), Row(id="b", content=two, label="y")]
    assert full_content(rows[0]) == full_content(rows[1])
    span["meta"]["metadata"] = {"k": 1}
    assert full_content(rows[0]) != full_content(Row(id="b", content=two, label="y"))


def test_input_text_takes_messages_without_their_ids_where_there_is_no_value():
    def asked(message_id):
        made = content("x")
        calls = [{"name": "f", "arguments": {}, "tool_id": message_id}]
        made["traces"][0]["spans"][0]["meta"]["input"] = {
            "messages": [{"role": "user", "content": "hi", "id": message_id, "tool_calls": calls}]
        }
        return Row(id=message_id, content=made, label="x")

    assert input_text(asked("1")) == input_text(asked("2")) != ""
    assert full_content(asked("1")) == full_content(asked("2"))


def test_grouping_does_not_hang_on_row_order_and_key_functions_can_be_given():
    rows = padded(row("a", group="g"), row("b", group="g", question="q"), row("c", question="q"))
    shuffled = list(rows)
    random.Random(7).shuffle(shuffled)
    assert group_rows(shuffled) == group_rows(rows)
    assert len(groups(rows, content_of=lambda r: "same", input_of=lambda r: "")) == 1


def test_a_positional_groups_key_hangs_on_content_alone():
    one = group_rows([row("row-0001", text="t", question="q")], positional=True)
    two = group_rows([row("row-0002", text="t", question="q")], positional=True)
    assert one.groups[0].key == two.groups[0].key
    assert group_rows([row("a")]).groups[0].key != group_rows([row("b")]).groups[0].key
