"""What of a row's content no judge may see: the allow-list, the private keys, the app's own verdict (EV-1..3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

SPAN_KEYS: Final = (
    "span_id", "trace_id", "parent_id", "name", "status", "start_ns", "duration", "metrics", "tags", "ml_app",
)  # fmt: skip
META_KEYS: Final = ("span", "input", "output", "metadata", "tool_definitions")

# These exist only because somebody graded (EV-2). They are dropped at any depth, also inside free-form metadata.
PRIVATE_KEYS: Final = frozenset({"evaluation", "expected_output", "assessment", "annotations"})


def public_span(span: Mapping[str, Any], app_paths: Iterable[str] = ()) -> dict[str, Any]:
    """A fresh copy of a span that holds only what an evaluator may see.

    Args:
        span: a recorded span in the normal form.
        app_paths: dotted paths in it that the app's verdict step wrote and that are to be left out.
    """
    out = {key: _public(span[key]) for key in SPAN_KEYS if key in span}
    meta = span.get("meta")
    if isinstance(meta, Mapping):
        out["meta"] = {key: _public(meta[key]) for key in META_KEYS if key in meta}
    for path in app_paths:
        _drop(out, path.split("."))
    return out


def _public(value: Any) -> Any:
    # Strings first, dict before Mapping: this runs for every value of every row, and an abstract check is slow.
    if isinstance(value, str):
        return value
    if isinstance(value, dict | Mapping):
        return {key: _public(inner) for key, inner in value.items() if key not in PRIVATE_KEYS}
    if isinstance(value, list | tuple):
        return [_public(inner) for inner in value]
    return value


def _drop(node: Any, keys: list[str]) -> None:
    """Removes a dotted path; a list is entered by index where the path names one, else in every element.

    A list element that the app wrote becomes null, so that the others keep their places.
    """
    head, rest = keys[0], keys[1:]
    if isinstance(node, list):
        if not (head.isascii() and head.isdigit()):
            for element in node:
                _drop(element, keys)
        elif len(head) < 10 and int(head) < len(node):
            if rest:
                _drop(node[int(head)], rest)
            else:
                node[int(head)] = None
    elif isinstance(node, dict) and head in node:
        if rest:
            _drop(node[head], rest)
        else:
            del node[head]
