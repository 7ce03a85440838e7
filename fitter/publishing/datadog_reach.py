"""Which labelled rows a published evaluator would run on: app, scope, root spans, filter. Pure.

A fit's score is about the labelled rows; an evaluator scores what its filter lets through. Only filter terms whose
meaning is certain are evaluated; anything else leaves a row *unknown*, which is said, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fitter.records import Row

_TERM: Final = re.compile(r'(@?)([A-Za-z_][A-Za-z0-9_.]*):(?:"([^"\\]*)"|([^\s"()*?\\]+))')
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "parent_id": ("parent_id",),
    "name": ("name",),
    "ml_app": ("ml_app",),
    "status": ("status",),
    "span_kind": ("meta", "span", "kind"),
    "meta.span.kind": ("meta", "span", "kind"),
}


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Row ids by whether the evaluator would run on them."""

    seen: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def reach(config: Mapping[str, Any], rows: Iterable[Row]) -> Reach:
    """Sorts rows by whether the evaluator of a nested document would see them.

    Args:
        config: as sent or read back.
        rows: labelled rows.
    """
    target = config.get("target")
    target = target if isinstance(target, Mapping) else {}
    found: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for row in rows:
        found[_sees(target, row)].append(row.id)
    return Reach(seen=tuple(found[True]), hidden=tuple(found[False]), unknown=tuple(found[None]))


def shown_filter(config: Mapping[str, Any]) -> str:
    """What decides where it fires, for people; empty for nothing but the app."""
    target = config.get("target")
    target = target if isinstance(target, Mapping) else {}
    parts = [str(target["filter"])] if target.get("filter") else []
    if target.get("root_spans_only"):
        parts.append("root spans only")
    return ", ".join(parts)


def _sees(target: Mapping[str, Any], row: Row) -> bool | None:
    span = _matched(target.get("eval_scope"), row)
    if span is None:
        return False
    app = span.get("ml_app")
    if app is not None and app != target.get("application_name"):
        return False
    if target.get("root_spans_only") and span.get("parent_id") != "undefined":
        return False
    verdict = _filter(str(target.get("filter") or ""), span)
    # A row whose source does not say its app may belong to another one.
    return None if verdict and app is None else verdict


def _matched(scope: Any, row: Row) -> Mapping[str, Any] | None:
    """The span the filter is matched on: the labelled one at span scope, else the root."""
    traces = row.content.get("traces") or []
    spans = [span for trace in traces for span in trace["spans"]]
    wanted = row.content.get("focus")
    if scope == "session" and not row.content.get("session_id"):
        return None
    if scope != "span":
        home = next((t for t in traces if any(s["span_id"] == wanted for s in t["spans"])), None)
        wanted = None if home is None else home["root_span_id"]
    return next((span for span in spans if span["span_id"] == wanted), None)


def _filter(query: str, span: Mapping[str, Any]) -> bool | None:
    """Terms are joined by "and"; None as soon as one is not certain and none is false."""
    verdict: bool | None = True
    rest = query.strip()
    while rest:
        term = _TERM.match(rest)
        if term is None or (term.end() < len(rest) and not rest[term.end()].isspace()):
            return None  # operators, ranges, wildcards, negation: the whole query may mean something else
        held = _term(term[1] == "@", term[2], term[3] if term[3] is not None else term[4], span)
        if held is False:
            verdict = False
        elif held is None and verdict:
            verdict = None
        rest = rest[term.end() :].strip()
    return verdict


def _term(attribute: bool, key: str, value: str, span: Mapping[str, Any]) -> bool | None:
    path = _PATHS.get(key) if attribute or key in ("ml_app", "status") else None
    if path is not None:
        node: Any = span
        for part in path:
            node = node.get(part) if isinstance(node, Mapping) else None
        return None if node is None else node == value
    if attribute:
        return None
    return f"{key}:{value}" in [str(tag) for tag in span.get("tags", ())]
