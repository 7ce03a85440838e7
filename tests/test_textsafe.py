"""Untrusted text, shown safely (SC-5)."""

from __future__ import annotations

import html
import re
import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fitter.textsafe import (
    csv_cell,
    html_text,
    is_blank,
    markdown_code,
    markdown_inline,
    one_line,
    safe_name,
    visible,
)

anything = st.text(st.characters(codec=None), max_size=60)
nasty = st.text(st.sampled_from("ab`|<>&\"'=+@-\n\r\t\x00\x1b\u202e\u200b\u2028\ud800\ue000{}*_[]#!"), max_size=60)
HOSTILE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


@given(anything | nasty)
def test_sc5_nothing_hidden_is_left(text: str) -> None:
    shown = visible(text)
    assert not [ch for ch in shown if unicodedata.category(ch) in HOSTILE and ch not in "\n\t"]
    shown.encode("utf-8")
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\u{1b}[31mred"),
        ("a\u202eb", "a\\u{202e}b"),
        ("\r", "\\u{d}"),
        ("\u2028", "\\u{2028}"),
        ("\ud800", "\\u{d800}"),
        ("é 語 👍\n\t.", "é 語 👍\n\t."),
    ],
)
def test_sc5_control_and_bidi_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(anything | nasty, st.integers(1, 50))
def test_one_line_is_one_line_and_short(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert "\t" not in line
    assert line == line.strip()


@given(nasty)
@example("```\n````\nx")
def test_sc5_a_markdown_block_cannot_be_left(text: str) -> None:
    block = markdown_code(text).split("\n")
    fence = block[0].removesuffix("text")
    assert set(fence) == {"`"}
    assert block[-1] == fence
    assert not [line for line in block[1:-1] if line.lstrip().startswith(fence)]
    assert "\n".join(block[1:-1]) == visible(text)


@given(nasty)
@example("a`")
@example("``|``")
def test_sc5_inline_code_cannot_be_left_nor_break_a_table(text: str) -> None:
    shown = markdown_inline(text)
    if shown == "(empty)":
        assert not one_line(text)
        return
    ticks = re.match(r"`+", shown)
    assert ticks is not None
    n = len(ticks.group())
    assert "\n" not in shown
    inside = shown[n:-n]
    assert shown.endswith("`" * n)
    assert not inside.startswith("`")
    assert not inside.endswith("`")
    assert n not in [len(run) for run in re.findall(r"`+", inside)]
    assert not re.search(r"(?<!\\)\|", inside)


@given(nasty)
def test_sc5_html_is_text(text: str) -> None:
    shown = html_text(text)
    assert not set("<>\"'") & set(shown)
    assert html.unescape(shown) == visible(text)


@given(anything | nasty)
@example("=cmd()")
@example("\t=1")
@example("＝1")
def test_sc5_no_cell_is_a_formula(text: str) -> None:
    cell = csv_cell(text)
    assert not cell or cell[0] not in "=+-@\t\r\n＝＋－＠"
    assert cell.removeprefix("'") == visible(text).removeprefix("'")


@given(anything | nasty)
@example("")
@example("..")
@example("../../etc/passwd")
@example("-rf")
@example(".hidden")
@example("a/b\x00")
@example("x" * 500)
def test_sc5_names_stay_in_their_folder(text: str) -> None:
    name = safe_name(text)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)
    assert len(name) <= 60
    assert PurePosixPath("/x", name).parent == PurePosixPath("/x")
    assert name != ".."


@given(anything | nasty, anything | nasty)
def test_distinct_texts_keep_distinct_names(a: str, b: str) -> None:
    assert (safe_name(a) == safe_name(b)) == (a == b)


def test_a_name_cannot_be_chosen_to_meet_anothers() -> None:
    victim = safe_name("support quality")
    assert safe_name(victim) != victim
    assert safe_name("report-20261130") == "report-20261130"
    assert safe_name("e\u0301") != safe_name("\u00e9")


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\u200b\u2060", "\u3164", "\u2800\ufeff", "\x00\x1b", "\ud800", "\u00a0"]
)
def test_out1_blank_is_what_nobody_can_see(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(text + ".")
