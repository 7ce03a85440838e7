"""Which rows must stay on one side of the split (SP-3). Pure.

Rows are joined, transitively, by the same explicit group, session, content id, full visible content, or input text.
One input text that covers more than 5% of the rows is boilerplate, not a shared question: it joins nothing and is
reported; every other text still joins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitter.jsonio import canonical, digest
from fitter.records import Row

BOILERPLATE_SHARE = 0.05
_MESSAGE_IDS = frozenset({"id", "tool_id"})


def _without_ids(side: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(side)
    if isinstance(out.get("messages"), list):
        out["messages"] = [_message(message) for message in out["messages"]]
    return out


def _message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    kept = {key: value for key, value in message.items() if key != "id"}
    for part in ("tool_calls", "tool_results"):
        if isinstance(kept.get(part), list):
            kept[part] = [
                {k: v for k, v in item.items() if k not in _MESSAGE_IDS} if isinstance(item, Mapping) else item
                for item in kept[part]
            ]
    return kept


def visible_content(content: Mapping[str, Any]) -> str:
    """Canonical JSON of everything in normal-form content that an evaluator could see, without ids and times."""
    traces = []
    for trace in content["traces"]:
        spans = []
        for span in trace["spans"]:
            meta = dict(span["meta"])
            for side in ("input", "output"):
                if isinstance(meta.get(side), Mapping):
                    meta[side] = _without_ids(meta[side])
            spans.append([span["name"], meta])
        traces.append(spans)
    return canonical(traces)


def full_content(row: Row) -> str:
    """Default key of "the same full content an evaluator could see"."""
    return visible_content(row.content)


def input_text(row: Row) -> str:
    """Default key of "the same input text": the focus span's input, white space collapsed; "" when there is none."""
    focus = row.content["focus"]
    for trace in row.content["traces"]:
        for span in trace["spans"]:
            if span["span_id"] == focus:
                side = span["meta"].get("input") or {}
                value = side.get("value")
                if value in (None, "", [], {}):
                    value = _without_ids(side).get("messages")
                if value in (None, "", [], {}):
                    return ""
                return " ".join((value if isinstance(value, str) else canonical(value)).split())
    return ""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One row as grouping and seal see it.

    Attributes:
        row: row id.
        content: digest of the full visible content.
        keys: digests of the keys that join it to other rows beside its content (group, session, content id, input).
    """

    row: str
    content: str
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that may never be separated.

    Attributes:
        key: smallest member digest; what assignment hangs on.
        members: sorted by row id.
    """

    key: str
    members: tuple[Member, ...]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """All rows in groups.

    Attributes:
        groups: sorted by key.
        dropped_inputs: (rows covered, share) of each boilerplate input text, largest first.
    """

    groups: tuple[Group, ...]
    dropped_inputs: tuple[tuple[int, float], ...] = ()


def group_rows(
    rows: Sequence[Row],
    *,
    positional: bool = False,
    content_of: Callable[[Row], str] = full_content,
    input_of: Callable[[Row], str] = input_text,
) -> Grouping:
    """Joins rows into groups (SP-3).

    Args:
        rows: usable rows, any order; the result does not depend on it.
        positional: row ids are only row numbers, so a group's key hangs on content alone.
        content_of: full visible content of a row.
        input_of: input text of a row; "" joins nothing.
    """
    inputs = {row.id: input_of(row) for row in rows}
    covered: dict[str, int] = defaultdict(int)
    for text in inputs.values():
        if text:
            covered[text] += 1
    boilerplate = {text for text, n in covered.items() if n > 1 and n > BOILERPLATE_SHARE * len(rows)}

    members = []
    for row in sorted(rows, key=lambda r: r.id):
        keys = [] if row.group is None else [digest(["group", row.group])]
        if row.content.get("session_id"):
            keys.append(digest(["session", row.content["session_id"]]))
        if row.content_id:
            keys.append(digest(["content_id", row.content_id]))
        if inputs[row.id] and inputs[row.id] not in boilerplate:
            keys.append(digest(["input", inputs[row.id]]))
        members.append(Member(row=row.id, content=digest(["content", content_of(row)]), keys=tuple(keys)))

    parent = list(range(len(members)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[str, int] = {}
    for i, member in enumerate(members):
        for key in (member.content, *member.keys):
            parent[root(i)] = root(first.setdefault(key, i))

    joined: dict[int, list[Member]] = defaultdict(list)
    for i, member in enumerate(members):
        joined[root(i)].append(member)
    groups = [
        Group(key=min(m.content if positional else digest(["id", m.row]) for m in group), members=tuple(group))
        for group in joined.values()
    ]
    dropped = sorted(((covered[text], covered[text] / len(rows)) for text in boilerplate), reverse=True)
    return Grouping(groups=tuple(sorted(groups, key=lambda g: g.key)), dropped_inputs=tuple(dropped))
