"""Structural tests on a text: the closed list that ``concepts.json`` may name. Pure, linear in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_URL = re.compile(r"(?:https?://|www\.)\S+")
_WORD = re.compile(r"\w+(?:['-]\w+)*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")
_FENCE = re.compile(r"```|~~~|`[^`\n]{1,200}`")
_CODE_LINE = re.compile(
    r"^[ \t]*(?:def \w+\(|return\b.*[;)]|\w+ = \w|import \w|for \(|if \(.*\) ?\{)|[;{]$", re.MULTILINE
)
_LIST_LINE = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+\S", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?]+(?:\s+|$)|\n+")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]|(?<!\\S)[:;]-?[)(DP](?!\\w)")
_IDENTIFIER = re.compile(
    r"#\d{2,}"  # an issue or order number
    r"|\b[A-Z]{1,5}-\d{2,}\b"  # a ticket: AB-1234
    r"|(?<=\w)_\w"  # snake_case
    r"|(?<=[a-z])[A-Z]"  # camelCase, PascalCase
    r"|(?<=\w)\(\)"  # a call
)
# A shout: two neighbouring words of three or more capitals, or one of six.
_SHOUT = re.compile(r"\b[A-Z]{3,}[ ,]+[A-Z]{3,}\b|\b[A-Z]{6,}\b")
_CLOSERS: Final = "\"'”’)]}*_`»\u200b"
_PHRASE_WORDS: Final = 5


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _without_urls(text: str) -> str:
    return _URL.sub(" ", text)


def _repeated_sentence(text: str) -> bool:
    """The same sentence of three or more words twice."""
    seen: set[str] = set()
    for sentence in _SENTENCE_END.split(text):
        words = " ".join(_words(sentence.casefold()))
        if words.count(" ") >= 2:
            if words in seen:
                return True
            seen.add(words)
    return False


def _repeated_phrase(text: str) -> bool:
    """The same run of five words twice."""
    words = _words(text.casefold())
    seen: set[tuple[str, ...]] = set()
    for start in range(len(words) - _PHRASE_WORDS + 1):
        run = tuple(words[start : start + _PHRASE_WORDS])
        if run in seen:
            return True
        seen.add(run)
    return False


def _no_terminal_punctuation(text: str) -> bool:
    """More than three words, and the last line ends in neither a stop, a closed fence, a link nor a list item."""
    lines = text.rstrip().splitlines()
    if not lines or len(_words(text)) <= 3:
        return False
    last = lines[-1].rstrip()
    if _LIST_LINE.match(last) or last.endswith(("```", "~~~")) or _URL.search(last.split()[-1]):
        return False
    bare = last.rstrip(_CLOSERS)
    return not bare.endswith((".", "!", "?", "…", ":", ";", "。", "！", "？")) and not _EMOJI.search(bare[-2:])


PLAIN_TESTS: Final[dict[str, Callable[[str], bool]]] = {
    "has_url": lambda text: _URL.search(text) is not None,
    "has_code": lambda text: _FENCE.search(text) is not None or _CODE_LINE.search(text) is not None,
    "has_number": lambda text: _NUMBER.search(_without_urls(text)) is not None,
    "has_question": lambda text: "?" in _without_urls(text),
    "has_list": lambda text: len(_LIST_LINE.findall(text)) >= 2,
    "has_identifier": lambda text: _IDENTIFIER.search(_without_urls(text)) is not None,
    "has_emoji": lambda text: _EMOJI.search(text) is not None,
    "all_caps": lambda text: _SHOUT.search(text) is not None,
    "many_exclamations": lambda text: text.count("!") >= 3 or "!!" in text,
    "repeated_sentence": _repeated_sentence,
    "repeated_phrase": _repeated_phrase,
    "no_terminal_punctuation": _no_terminal_punctuation,
}

# Tests with a whole number, written NAME:N in concepts.json.
COUNT_TESTS: Final[dict[str, Callable[[str, int], bool]]] = {
    "min_words": lambda text, n: len(_words(text)) >= n,
    "max_words": lambda text, n: len(_words(text)) <= n,
}


def compile_test(name: str) -> Callable[[str], bool]:
    """The predicate behind a test's name.

    Raises:
        ValueError: not in the closed list.
    """
    if name in PLAIN_TESTS:
        return PLAIN_TESTS[name]
    head, _, count = name.partition(":")
    if head in COUNT_TESTS and count.isascii() and count.isdigit():
        check, n = COUNT_TESTS[head], int(count)
        return lambda text: check(text, n)
    raise ValueError(f"{name!r} is no structural test")
