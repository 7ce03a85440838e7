"""The template grammar: what ``{{ path }}`` may say and what it resolves to (docs/evidence.md).

A template is parsed once into a small tree and substituted in one pass, so braces, template marks and ``$name`` in a
payload stay text (IN-2). The grammar is platform-neutral: aliases and the per-field cap are the caller's.

    path    = "*" | name step*
    step    = "." name | "[N]" | "[a,b]" | "[*]" | "[name.name:value]"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from fitter.errors import SettingsError
from fitter.evidence.targets.base import FieldState, Resolved
from fitter.jsonio import canonical
from fitter.textsafe import one_line

# The cap that a hosted platform puts on one field: 250 KB, counted here as bytes of UTF-8.
FIELD_CAP: Final = 250_000

_NAME = re.compile(r"[^.\[\]{}]+")
_INDEX = re.compile(r"\s*([0-9]{1,9})\s*")
_RANGE = re.compile(r"\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*")

# Alias → the path it stands for in this payload.
Aliases: TypeAlias = Mapping[str, Callable[[Mapping[str, Any]], str]]


@dataclass(frozen=True)
class Key:
    """``.name``; on a list it fans out over the elements."""

    name: str


@dataclass(frozen=True)
class Index:
    """``[N]``, 0-based."""

    at: int


@dataclass(frozen=True)
class Slice:
    """``[a,b]``, both ends included, the end clamped."""

    first: int
    last: int


@dataclass(frozen=True)
class Every:
    """``[*]``."""


@dataclass(frozen=True)
class Where:
    """``[a.b:value]``: the objects of a list whose field is exactly this string."""

    path: tuple[str, ...]
    value: str


Step: TypeAlias = Key | Index | Slice | Every | Where


@dataclass(frozen=True)
class Path:
    """A parsed path; no steps means the whole payload (``*``)."""

    text: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Template:
    """A parsed template: literal text and paths in turn."""

    parts: tuple[str | Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its placeholders, in order."""
        return tuple(part for part in self.parts if isinstance(part, Path))


@lru_cache(maxsize=512)
def parse_template(text: str) -> Template:
    """Parses a template.

    Raises:
        SettingsError: a placeholder that is not closed or does not parse, with its 1-based character position.
    """
    parts: list[str | Path] = []
    at = 0
    while (start := text.find("{{", at)) >= 0:
        end = text.find("}}", start + 2)
        if end < 0:
            raise _error(start, "the placeholder that starts here is not closed with }}")
        parts.append(text[at:start])
        parts.append(parse_path(text[start + 2 : end], start + 2))
        at = end + 2
    parts.append(text[at:])
    return Template(tuple(part for part in parts if part != ""))


@lru_cache(maxsize=2048)
def parse_path(text: str, offset: int = 0) -> Path:
    """Parses a path without its braces.

    Args:
        text: the path; surrounding white space is ignored.
        offset: where it stands in its template, for the error's position.

    Raises:
        SettingsError: it does not parse.
    """
    shown = text.strip()
    offset += len(text) - len(text.lstrip())
    if not shown:
        raise _error(offset, "the placeholder is empty")
    if shown == "*":
        return Path(shown, ())
    steps: list[Step] = []
    at = 0
    wants_name = True
    while at < len(shown):
        if wants_name:
            found = _NAME.match(shown, at)
            name = found.group(0) if found else ""
            if not name or name != name.strip() or name == "*":
                raise _error(
                    offset + at, f"a name is expected in {one_line(shown, 60)!r} ([*] stands for every element)"
                )
            steps.append(Key(name))
            at += len(name)
            wants_name = False
        elif shown[at] == ".":
            at += 1
            wants_name = True
        elif shown[at] == "[":
            end = shown.find("]", at)
            if end < 0:
                raise _error(offset + at, "the bracket that starts here is not closed with ]")
            steps.append(_bracket(shown[at + 1 : end], offset + at))
            at = end + 1
        else:
            raise _error(offset + at, f"{one_line(shown[at], 8)!r} is not expected in {one_line(shown, 60)!r}")
    if wants_name:
        raise _error(offset + at, f"{one_line(shown, 60)!r} ends with a dot")
    return Path(shown, tuple(steps))


def resolve(
    template: str, payload: Mapping[str, Any], *, aliases: Aliases | None = None, field_cap: int | None = FIELD_CAP
) -> Resolved:
    """Substitutes every placeholder in one pass.

    Args:
        template: the text.
        payload: what the evaluator sees.
        aliases: names that stand for a path, e.g. ``span_input``.
        field_cap: longest text of one placeholder, bytes of UTF-8; None for no cap.

    Raises:
        SettingsError: a placeholder that does not parse.
    """
    out: list[str] = []
    states: dict[str, FieldState] = {}
    truncated: list[str] = []
    for part in parse_template(template).parts:
        if isinstance(part, str):
            out.append(part)
            continue
        alias = (aliases or {}).get(part.text)
        text, states[part.text] = select(parse_path(alias(payload)) if alias else part, payload)
        cut = text if field_cap is None else _capped(text, field_cap)
        if len(cut) < len(text) and part.text not in truncated:
            truncated.append(part.text)
        out.append(cut)
    return Resolved(text="".join(out), states=states, truncated=tuple(truncated))


def select(path: Path, payload: Mapping[str, Any]) -> tuple[str, FieldState]:
    """Text and state of one path.

    Text: nothing found or null → ``""``; a string as it is; a list of strings joined by newlines; anything else as
    compact JSON. State: ``missing`` when the path leads nowhere, ``empty`` when it leads to nothing but null, blank
    strings and empty containers, else ``resolved``.
    """
    nodes: list[Any] = [payload]
    many = False
    for step in path.steps:
        found: list[Any] = []
        hollow = True
        for node in nodes:
            taken, only_empty_lists = _take(step, node)
            found += taken
            hollow = hollow and only_empty_lists
        many = (
            many
            or isinstance(step, Slice | Every | Where)
            or (isinstance(step, Key) and any(isinstance(node, list) for node in nodes))
        )
        if not found:
            return "", "empty" if hollow else "missing"
        nodes = found
    value = nodes if many else nodes[0]
    return _text(value), "empty" if _hollow(value) else "resolved"


def _take(step: Step, node: Any) -> tuple[list[Any], bool]:
    """What a step finds in one node, and whether it found nothing only because a list has no elements."""
    if isinstance(step, Key):
        if isinstance(node, list):
            inner = [_take(step, element) for element in node]
            return [value for taken, _ in inner for value in taken], all(hollow for _, hollow in inner)
        return ([node[step.name]] if isinstance(node, dict | Mapping) and step.name in node else []), False
    if not isinstance(node, list):
        return [], False
    if isinstance(step, Every):
        return list(node), not node
    if isinstance(step, Index):
        return node[step.at : step.at + 1], False
    if isinstance(step, Slice):
        return node[step.first : step.last + 1], False
    return [element for element in node if _matches(step, element)], False


def _matches(step: Where, element: Any) -> bool:
    for name in step.path:
        if not isinstance(element, dict | Mapping) or name not in element:
            return False
        element = element[name]
    return isinstance(element, str) and element == step.value


def _text(value: Any) -> str:
    if value is None or value == [[]]:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(element, str) for element in value):
        return "\n".join(value)
    return canonical(value)


def _hollow(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(_hollow(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_hollow(inner) for inner in value)
    return value is None


def _capped(text: str, cap: int) -> str:
    """At most ``cap`` bytes of UTF-8, cut between characters."""
    if len(text) * 4 <= cap:
        return text
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= cap else raw[:cap].decode("utf-8", "ignore")


def _bracket(inner: str, at: int) -> Step:
    if inner.strip() == "*":
        return Every()
    if found := _INDEX.fullmatch(inner):
        return Index(int(found.group(1)))
    if found := _RANGE.fullmatch(inner):
        first, last = int(found.group(1)), int(found.group(2))
        if first > last:
            raise _error(at, f"the range [{first},{last}] ends before it starts")
        return Slice(first, last)
    name, colon, value = inner.partition(":")
    keys = tuple(name.strip().split("."))
    if colon and all(_NAME.fullmatch(key) and key == key.strip() for key in keys):
        if "{" in value or "}" in value or "[" in value:
            raise _error(at, "a filter's value holds no brackets and no braces")
        return Where(keys, value)
    raise _error(
        at, f"[{one_line(inner, 40)}] is not an index from 0, a range [a,b], [*] or a filter [field.path:value]"
    )


def _error(at: int, why: str) -> SettingsError:
    return SettingsError(
        f"template, character {at + 1}: {why}", hint="docs/evidence.md gives the grammar, with examples"
    )
