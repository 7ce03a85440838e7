"""How figures are written in a report: a value or why there is none, its interval, and how far to trust it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fitter.textsafe import markdown_inline, one_line


def number(value: float | None, digits: int = 3) -> str:
    """``0.837``, or ``null``."""
    return "null" if value is None else f"{value:.{digits}f}"


def interval(ci: Mapping[str, Any] | None) -> str:
    """``95% CI 0.740 to 0.910 (wilson, n=70)`` with every reservation that belongs to it."""
    if ci is None:
        return "no interval"
    if ci.get("low") is None:
        return f"no interval ({ci.get('why') or 'null'})"
    notes = [str(ci["method"]), f"n={ci['n']}"]
    if ci.get("assumes_independent_rows"):
        notes.append("assumes independent rows")
    if not ci["reliable"]:
        notes.append("interval not reliable")
    return f"95% CI {number(ci['low'])} to {number(ci['high'])} ({', '.join(notes)})"


def figure(value: Mapping[str, Any], ci: Mapping[str, Any] | None) -> str:
    """A figure with its interval; a null one with its reason."""
    if value.get("value") is None:
        return f"null ({value.get('why') or 'no reason recorded'})"
    return f"{number(value['value'])}, {interval(ci)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are already safe."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def code(text: object, limit: int = 200) -> str:
    """Untrusted text as inline code."""
    return markdown_inline(str(text), limit)


_MARKS = re.compile(r"[\\`<>\[\]|]")


def prose(text: str) -> str:
    """A sentence that may hold names from the queue: on one line, hidden characters visible, no markup."""
    return _MARKS.sub(lambda found: "\\" + found.group(), one_line(text, 2000))


def ids(rows: Sequence[str], most: int = 40) -> str:
    """Row ids as inline code; a long list is cut and says by how much."""
    shown = ", ".join(code(row, 60) for row in rows[:most])
    return shown + (f" and {len(rows) - most} more" if len(rows) > most else "")


def plural(n: int, word: str, words: str | None = None) -> str:
    """``1 row``, ``2 rows``."""
    return f"{n} {word if n == 1 else words or word + 's'}"
