"""An independent, slow reading of the template grammar, written from the contract's words and not from the code.

It works on the text of the path, one step at a time and one value at a time, by recursion; it has no tree, no regular
expression for placeholders and no shared helper with ``fitter.evidence.targets.grammar``.
"""

from __future__ import annotations

import json
from typing import Any

NOTHING = object()


def render(template: str, payload: Any) -> tuple[str, dict[str, str]]:
    """Text and states; assumes that the template parses."""
    out, states = "", {}
    rest = template
    while "{{" in rest:
        before, _, rest = rest.partition("{{")
        path, _, rest = rest.partition("}}")
        path = path.strip()
        text, states[path] = show(path, payload)
        out += before + text
    return out + rest, states


def show(path: str, payload: Any) -> tuple[str, str]:
    if path == "*":
        return dump(payload), state_of(payload)
    value = walk(payload, tokens(path))
    if value is NOTHING:
        return "", "missing"
    if isinstance(value, Fan):
        if not value.items:
            return "", "empty" if value.hollow else "missing"
        value = value.items
        if value == [[]]:
            return "", "empty"
    if isinstance(value, str):
        return value, state_of(value)
    if value is None:
        return "", "empty"
    if isinstance(value, list):
        if value == [[]]:
            return "", "empty"
        for element in value:
            if not isinstance(element, str):
                return dump(value), state_of(value)
        return "\n".join(value), state_of(value)
    return dump(value), state_of(value)


class Fan:
    """Several values; ``hollow`` when they are none only because lists were empty."""

    def __init__(self, items: list[Any], hollow: bool) -> None:
        self.items = items
        self.hollow = hollow


def tokens(path: str) -> list[str]:
    """``a.b[0][x:y]`` → ``.a .b [0] [x:y]``, character by character."""
    out: list[str] = []
    inside = False
    word = "."
    for ch in path:
        if inside:
            word += ch
            if ch == "]":
                inside = False
                out.append(word)
                word = ""
        elif ch in ".[":
            if word:
                out.append(word)
            word = ch
            inside = ch == "["
        else:
            word += ch
    if word:
        out.append(word)
    return out


def walk(value: Any, steps: list[str]) -> Any:
    """The value at the end of the steps: a plain one, NOTHING, or a Fan."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step.startswith("."):
        if isinstance(value, list):
            return fan([walk(element, steps) for element in value])
        if isinstance(value, dict) and step[1:] in value:
            return walk(value[step[1:]], rest)
        return NOTHING
    inner = step[1:-1]
    if not isinstance(value, list):
        return NOTHING
    if inner.strip() == "*":
        return fan([walk(element, rest) for element in value])
    if inner.strip().isdigit():
        number = int(inner)
        return walk(value[number], rest) if number < len(value) else NOTHING
    pieces = inner.split(",")
    if len(pieces) == 2 and all(p.strip().isdigit() for p in pieces):
        first, last = (int(p) for p in pieces)
        chosen = [walk(value[i], rest) for i in range(first, last + 1) if i < len(value)]
        return fan(chosen) if chosen else NOTHING
    where, _, wanted = inner.partition(":")
    chosen = [walk(element, rest) for element in value if field(element, where.strip().split(".")) == wanted]
    return fan(chosen) if chosen else NOTHING


def fan(values: list[Any]) -> Fan:
    items: list[Any] = []
    hollow = True
    for value in values:
        if value is NOTHING:
            hollow = False
        elif isinstance(value, Fan):
            items += value.items
            hollow = hollow and value.hollow
        else:
            items.append(value)
    return Fan(items, hollow)


def field(element: Any, names: list[str]) -> Any:
    for name in names:
        if not isinstance(element, dict):
            return NOTHING
        element = element.get(name, NOTHING)
    return element if isinstance(element, str) else NOTHING


def state_of(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, str):
        return "resolved" if value.strip() else "empty"
    if isinstance(value, list | dict):
        inner = value if isinstance(value, list) else list(value.values())
        return "resolved" if any(state_of(v) == "resolved" for v in inner) else "empty"
    return "resolved"


def dump(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
