"""Strict JSON in, canonical JSON out: the one place where JSON text is read or written.

``json.loads`` accepts NaN and duplicate keys, recurses without bound and raises a plain ValueError on a 5,000-digit
integer. Everything read from outside goes through :func:`strict_loads`, which turns each of these into a
:class:`JSONFault` with a code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

JSONValue: TypeAlias = Any
FaultCode: TypeAlias = Literal[
    "not_json", "duplicate_key", "too_deep", "non_finite", "number_too_long", "trailing_text"
]

MAX_DEPTH = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


class JSONFault(ValueError):
    """Text that is not one strict JSON value.

    Attributes:
        code: machine-readable kind of fault.
        line: 1-based line inside the text where known.
        at: character offset, after leading white space, where known.
    """

    def __init__(self, code: FaultCode, message: str, *, line: int | None = None, at: int | None = None) -> None:
        super().__init__(message)
        self.code: FaultCode = code
        self.line = line
        self.at = at


class _Duplicate(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise _Duplicate(key)
        out[key] = value
    return out


class _NonFinite(ValueError):
    pass


def _constant(name: str) -> Any:
    raise _NonFinite(name)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _NonFinite(text[:20])
    return value


# A whole string (or, unterminated, the rest of the text) or one bracket. Possessive: no text makes it backtrack.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def _depth_over(text: str, limit: int) -> bool:
    """True when brackets outside strings nest deeper than ``limit``."""
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        mark = found.group()
        if mark in "[{":
            depth += 1
            if depth > limit:
                return True
        elif mark in "]}":
            depth -= 1
    return False


def _duplicate_at(text: str) -> int | None:
    """Character offset of the first key that its object already has; None when no object repeats one.

    ``text`` is known to be JSON up to the repetition, so a walk over its strings and brackets is enough.
    """
    seen: list[set[str] | None] = []  # one entry an open bracket; None for arrays
    at, key_next = 0, False
    while at < len(text):
        ch = text[at]
        if ch == '"':
            value, end = json.decoder.scanstring(text, at + 1)  # type: ignore[attr-defined]
            if key_next and seen and seen[-1] is not None:
                if value in seen[-1]:
                    return at
                seen[-1].add(value)
                key_next = False
            at = end
            continue
        if ch == "{":
            seen.append(set())
            key_next = True
        elif ch == "[":
            seen.append(None)
        elif ch in "]}":
            if seen:
                seen.pop()
        elif ch == ",":
            key_next = bool(seen) and seen[-1] is not None
        at += 1
    return None


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)


def strict_loads(text: str, *, max_depth: int = MAX_DEPTH) -> JSONValue:
    """Parses exactly one JSON value.

    Args:
        text: the JSON text; surrounding JSON white space is allowed.
        max_depth: deepest allowed nesting of arrays and objects.

    Raises:
        JSONFault: not JSON, duplicate keys, NaN or Infinity, too deep, a number too long, or text after the value.
    """
    if text.count("[") + text.count("{") > max_depth and _depth_over(text, max_depth):
        raise JSONFault("too_deep", f"nested deeper than {max_depth}")
    body = text.strip(" \t\r\n")
    skipped = text[: len(text) - len(text.lstrip(" \t\r\n"))].count("\n")
    try:
        value, end = _DECODER.raw_decode(body)
    except _Duplicate as fault:
        at = _duplicate_at(body)
        line = None if at is None else 1 + skipped + body.count("\n", 0, at)
        raise JSONFault("duplicate_key", f"key {fault.key!r} appears twice in one object", line=line, at=at) from None
    except _NonFinite as fault:
        raise JSONFault("non_finite", f"{fault} is not a JSON number") from None
    except json.JSONDecodeError as fault:
        raise JSONFault("not_json", fault.msg, line=skipped + fault.lineno, at=fault.pos) from None
    except RecursionError:
        raise JSONFault("too_deep", f"nested deeper than {max_depth}") from None
    except ValueError:
        raise JSONFault("number_too_long", "an integer has too many digits") from None
    if end != len(body):
        line = 1 + skipped + body.count("\n", 0, end)
        raise JSONFault("trailing_text", "text after the first JSON value", line=line, at=end)
    return value


_KEY = re.compile(r'"[ \t\r]*:')
_NESTED = (dict, list)
_PLAIN_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float)


def flat_objects(lines: Sequence[str]) -> list[dict[str, Any]] | None:
    """Many lines at once, each one flat object (values are scalars or lists of scalars); for large files.

    Accepts a batch only where :func:`strict_loads` would accept each line as that same object, and is several times
    faster. Why that holds: no string spans a line break, so a line that starts with ``{`` starts an object there and
    one that ends with ``}`` ends one; nothing nests, so as many objects as lines is one object a line; and as many
    keys as there can be in the text is no key twice.

    Args:
        lines: without line ends and without white space around them.

    Returns:
        The objects; None when the batch must be read line by line, to name what is wrong or since it is not flat.
    """
    if not lines:
        return []
    text = "[" + ",\n".join(lines) + "]"
    if not (text.startswith("[{") and text.endswith("}]") and text.count("},\n{") == len(lines) - 1):
        return None
    try:
        found, end = _PLAIN_DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if end != len(text) or len(found) != len(lines) or sum(map(len, found)) != len(_KEY.findall(text)):
        return None
    # one opening brace a line and one bracket in all: nothing can nest, and nobody has to look
    if text.count("{") != len(lines) or text.count("[") != 1:
        for item in found:
            for value in item.values():
                if value.__class__ is dict or (value.__class__ is list and any(v.__class__ in _NESTED for v in value)):
                    return None
    objects: list[dict[str, Any]] = found
    return objects


def canonical(value: JSONValue) -> str:
    """Canonical JSON: sorted keys, no white space, UTF-8 text kept; refuses NaN.

    Lone surrogates, which have no UTF-8 form, are written as JSON escapes: the text can always be encoded.
    """
    return _encodable(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def pretty(value: JSONValue) -> str:
    """The same value, indented for people, with a final newline; byte-stable."""
    return _encodable(json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    # In JSON text a surrogate can only stand inside a string, where its escape means the same.
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def jsonl(rows: Iterable[Mapping[str, JSONValue]]) -> str:
    """One canonical object a line."""
    return "".join(canonical(row) + "\n" for row in rows)


def sha256(data: str | bytes) -> str:
    """Hex SHA-256 of text (as UTF-8; lone surrogates as their three bytes) or bytes."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def digest(value: JSONValue) -> str:
    """Hex SHA-256 of the canonical JSON of a value."""
    return sha256(canonical(value))
