"""Untrusted text, shown safely (SC-5): terminal, Markdown, HTML, CSV, file names."""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata

_KEEP = {"\n", "\t"}
_FORMULA = "=+-@\t\r\n＝＋－＠"  # full-width forms too: some spreadsheets fold them
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_TAGGED = re.compile(r"-[0-9a-f]{12}\Z")


def _hidden(ch: str) -> bool:
    """Control, format (bidi, zero-width), surrogate, private-use and line-separator characters."""
    return unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and ch not in _KEEP


def is_blank(text: str) -> bool:
    """True for nothing but white space and invisible characters (OUT-1)."""
    return all(
        ch.isspace()
        or unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
        or ch in "\u2800\u3164\u115f\u1160\uffa0"
        for ch in text
    )


def visible(text: str) -> str:
    """Control, bidi and other invisible characters as visible ``\\u{...}`` escapes; newlines and tabs kept."""
    if text.isprintable():  # nothing hidden: the common case, and fast
        return text
    return "".join(f"\\u{{{ord(ch):x}}}" if _hidden(ch) else ch for ch in text)


def one_line(text: str, limit: int = 200) -> str:
    """Visible, on one line, at most ``limit`` characters (an ellipsis counts)."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def markdown_code(text: str) -> str:
    """A fenced block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{visible(text)}\n{fence}"


def markdown_inline(text: str, limit: int = 200) -> str:
    """Inline code on one line; backticks inside are outnumbered; pipes escaped for tables."""
    body = one_line(text, limit).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return f"{ticks}{pad}{body}{pad}{ticks}" if body else "(empty)"


def html_text(text: str) -> str:
    """Escaped for HTML text and attribute values."""
    return html.escape(visible(text), quote=True)


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    shown = visible(text)
    return "'" + shown if shown[:1] and shown[0] in _FORMULA else shown


def safe_name(text: str, *, limit: int = 60) -> str:
    """A file-system name that cannot leave its folder; distinct texts keep distinct names.

    Letters, digits, ``_ . -`` stay; other runs become ``-``;
    a changed or shortened text, and one that looks like such a name, carries 12 hex digits of its hash.
    """
    name = _NAME.sub("-", text).strip("-.")
    if name == text and 0 < len(name) <= limit and not _TAGGED.search(name):
        return name
    tag = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[: limit - 13].rstrip('-.') or 'x'}-{tag}"


# What could leave the place in a prompt or template where a text is put.
_TEMPLATE_MARKS = ("{{", "}}", "{%", "%}", "{#", "#}", "${", "<<<", ">>>", "<%", "%>")
_HEX_NONCE = re.compile(r"[0-9a-f]{32}")
_URL = re.compile(r"(?i)\b(?:https?|ftp|file|data|javascript)\s*:|\bwww\.|\b[\w-]+\.(?:com|org|net|io|dev|ai)\b")


def forbidden(text: str) -> list[tuple[str, str]]:
    """What no advisor's text may hold (IN-4), as (code, message)."""
    found = []
    if any(unicodedata.category(ch) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for ch in text):
        found.append(("control_characters", "holds control, bidi or line-break characters"))
    if any(mark in text for mark in _TEMPLATE_MARKS):
        found.append(("template_marks", "holds template or fence marks"))
    if _HEX_NONCE.search(text.casefold()):
        found.append(("nonce", "holds something that looks like a fence nonce"))
    if _URL.search(text):
        found.append(("url", "holds a URL"))
    return found
