"""How figures are written in a report: a value or why there is none, its interval, and how far to trust it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fitter.jsonio import canonical
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
    return f"95% CI {number(ci['low'])} to {number(ci['high'])} ({instrument(ci)})"


def instrument(ci: Mapping[str, Any]) -> str:
    """``wilson, n=70, assumes independent rows``: how an interval was made, and its reservations."""
    notes = [str(ci["method"]), f"n={ci['n']}"]
    if ci.get("assumes_independent_rows"):
        notes.append("assumes independent rows")
    if ci.get("low") is None:
        notes.append(f"no interval: {ci.get('why') or 'null'}")
    elif not ci["reliable"]:
        notes.append("interval not reliable")
    return ", ".join(notes)


class Instruments:
    """Intervals of one table: the ends stand in the cells, each instrument once below it, under a letter."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def ends(self, ci: Mapping[str, Any]) -> str:
        """``0.740 to 0.910 [a]``; ``none [b]`` where there is no interval."""
        what = instrument(ci)
        letter = self._letters.setdefault(what, _letter(len(self._letters)))
        return (
            f"none [{letter}]" if ci.get("low") is None else f"{number(ci['low'])} to {number(ci['high'])} [{letter}]"
        )

    def note(self) -> str:
        """What the letters mean."""
        return "95% intervals: " + "; ".join(f"[{k}] {what}" for what, k in self._letters.items()) + "."


def _letter(k: int) -> str:
    """a to z, then a1, b1, ..."""
    turn, place = divmod(k, 26)
    return "abcdefghijklmnopqrstuvwxyz"[place] + (str(turn) if turn else "")


def figure(value: Mapping[str, Any], ci: Mapping[str, Any] | None) -> str:
    """A figure with its interval; a null one with its reason."""
    return plain_figure(value) if value.get("value") is None else f"{number(value['value'])}, {interval(ci)}"


def plain_figure(value: Mapping[str, Any]) -> str:
    """A figure whose interval stands elsewhere; a null one with its reason."""
    return (
        f"null ({value.get('why') or 'no reason recorded'})" if value.get("value") is None else number(value["value"])
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are already safe."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def code(text: object, limit: int = 200) -> str:
    """Untrusted text as inline code; a label's value that is no text in its canonical form, as in every artefact."""
    return markdown_inline(canonical(text) if isinstance(text, bool | list) else str(text), limit)


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
