"""Comparing what was sent with what was read back, and looking for anything that is not disabled. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fitter.jsonio import JSONValue, canonical


@dataclass(frozen=True, kw_only=True)
class FieldDiff:
    """One field of the sent config beside what was read back.

    Attributes:
        field: JSON pointer, e.g. ``/prompt/system``.
        state: ``equal``, ``different``, ``missing`` (sent, not stored) or ``unexpected`` (stored, not sent).
        sent, read_back: the leaf values; None where there is none.
    """

    field: str
    state: Literal["equal", "different", "missing", "unexpected"]
    sent: JSONValue = None
    read_back: JSONValue = None

    def to_json(self) -> dict[str, JSONValue]:
        """The JSON form; equal fields carry no values, they are in sent.json."""
        if self.state == "equal":
            return {"field": self.field, "state": self.state}
        return {"field": self.field, "state": self.state, "sent": self.sent, "read_back": self.read_back}


def diff_fields(sent: Mapping[str, Any], read_back: Mapping[str, Any]) -> list[FieldDiff]:
    """Compares two documents leaf by leaf, type-strict (true is not 1), sorted by JSON pointer. Pure."""
    left, right = _leaves(sent), _leaves(read_back)
    rows = []
    for pointer in sorted({*left, *right}):
        if pointer not in right:
            rows.append(FieldDiff(field=pointer, state="missing", sent=left[pointer]))
        elif pointer not in left:
            rows.append(FieldDiff(field=pointer, state="unexpected", read_back=right[pointer]))
        else:
            a, b = left[pointer], right[pointer]
            same = canonical(a) == canonical(b)
            rows.append(FieldDiff(field=pointer, state="equal" if same else "different", sent=a, read_back=b))
    return rows


def equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """True when two documents are the same JSON, type-strict."""
    return canonical(a) == canonical(b)


def _leaves(value: Any, pointer: str = "") -> dict[str, JSONValue]:
    """Leaf values by JSON pointer; empty objects and lists are leaves."""
    items: Sequence[tuple[str, Any]]
    if isinstance(value, Mapping) and value:
        items = [(str(key).replace("~", "~0").replace("/", "~1"), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {pointer: value} if pointer else {}
    found: dict[str, JSONValue] = {}
    for key, item in items:
        found.update(_leaves(item, f"{pointer}/{key}"))
    return found


def enabled_at(value: Any, pointer: str = "") -> str | None:
    """Pointer of the first ``enabled`` switch, at any depth, that is not exactly false."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            here = f"{pointer}/{key}"
            # A property named "enabled" inside a JSON Schema is an object, no switch.
            if key == "enabled" and item is not False and not isinstance(item, Mapping):
                return here
            found = enabled_at(item, here)
            if found is not None:
                return found
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            found = enabled_at(item, f"{pointer}/{index}")
            if found is not None:
                return found
    return None
