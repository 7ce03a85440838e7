"""Bytes of a file become text and JSON: UTF-8 only, strict JSON, and text that every later step can carry.

Two kinds of character are replaced by U+FFFD and counted, because they would break a request, a file or a digest far
from here: lone surrogates (``surrogates_replaced``) and NUL (``nul_replaced``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fitter.errors import BadInput
from fitter.jsonio import JSONFault, strict_loads
from fitter.textsafe import one_line

_BROKEN = re.compile("[\x00\ud800-\udfff]")
_SHOWN_COLUMNS = 40


def read_text(path: Path) -> str:
    """Reads a whole UTF-8 file, with or without a byte order mark.

    Raises:
        BadInput: missing, not a file, unreadable, or not UTF-8 (with the line of the first bad byte).
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BadInput("there is no such file", file=str(path), hint="check the path") from None
    except IsADirectoryError:
        raise BadInput("this is a folder, not a file", file=str(path)) from None
    except OSError as fault:
        raise BadInput(f"cannot be read: {fault.strerror}", file=str(path)) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise BadInput(
            f"is not UTF-8 (byte {raw[fault.start]:#04x} at offset {fault.start})",
            file=str(path),
            line=line,
            hint="save it as UTF-8; spreadsheets call this 'CSV UTF-8'",
        ) from None


def scrub(text: str, counts: Counter[str]) -> str:
    """Replaces lone surrogates and NUL by U+FFFD, counting each replaced character."""
    found = _BROKEN.findall(text)
    if not found:
        return text
    for mark in found:
        counts["nul_replaced" if mark == "\x00" else "surrogates_replaced"] += 1
    return _BROKEN.sub("\ufffd", text)


def scrub_json(value: Any, counts: Counter[str]) -> Any:
    """:func:`scrub` on every string of a JSON value, object keys included.

    Raises:
        ValueError: two keys of one object become the same.
    """
    if isinstance(value, str):
        return scrub(value, counts)
    if isinstance(value, list):
        return [scrub_json(item, counts) for item in value]
    if isinstance(value, dict):
        out = {scrub(key, counts): scrub_json(item, counts) for key, item in value.items()}
        if len(out) != len(value):
            raise ValueError("two keys differ only in characters that are not text")
        return out
    return value


def parse_json(text: str, path: Path, counts: Counter[str], *, line: int | None = None) -> Any:
    """Parses one strict JSON value of a file and scrubs it.

    Args:
        text: the JSON text.
        path: for messages.
        counts: where replaced characters are counted.
        line: the text's own line in the file (JSON Lines); None when the text is the whole file.

    Raises:
        BadInput: with file and line.
    """
    try:
        return scrub_json(strict_loads(text), counts)
    except JSONFault as fault:
        what = "duplicate key" if fault.code == "duplicate_key" else "broken JSON"
        at = line if line is not None else fault.line
        raise BadInput(f"{what}: {one_line(str(fault))}", file=str(path), line=at) from None
    except ValueError as fault:
        raise BadInput(str(fault), file=str(path), line=line) from None


def json_lines(text: str) -> Iterator[tuple[int, str]]:
    """(1-based line number, text) of every line that is not blank; only ``\\n`` ends a line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip(" \t\r"):
            yield number, line


def columns_text(names: list[str]) -> str:
    """Column names for a message, quoted, at most 40 of them."""
    shown = ", ".join(repr(one_line(name, 60)) for name in names[:_SHOWN_COLUMNS])
    more = f" and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    return f"{shown}{more}" if names else "(none)"
