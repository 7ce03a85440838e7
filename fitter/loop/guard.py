"""Guards on criteria before they are scored: memorisation (LO-4) and hostile proposals (IN-4). Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fitter.records import Criterion, Draft
from fitter.textsafe import forbidden, is_blank

MAX_CRITERION_CHARS = 400
MAX_CRITERIA = 40
RUN_WORDS = 8
RUN_CHARS = 40
MIN_LITERAL_ROWS = 3

_WORD = re.compile(r"\w+", re.UNICODE)
# Quotation marks that enclose a literal; an apostrophe inside a word is none.
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)|(?<!\w)‘([^’]+)’(?!\w)")
_ALWAYS = re.compile(
    r"(?i)^\W*(?:(?:please|you\s+must|you\s+should)\s+)?(?:always|in\s+(?:all|every)\s+cases?|no\s+matter\s+what|regardless|whatever\b.*)"
    r"\b.*\b(?:answer|say|return|output|reply|choose|label)\b"
    r"|^\W*(?:(?:answer|say|return|output|reply|choose|label)\b.*\b)?(?:always|for\s+every\s+(?:row|reply|case|input)|in\s+(?:all|every)\s+cases?)\W*$"
    r"|^\W*(?:always|any\s+case|anything|every\s+(?:reply|case|row|input|interaction|output)|(?:it\s+is\s+)?true)\W*$"
)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One reason to refuse a draft or a change.

    Attributes:
        rule: ``LO-4`` or ``IN-4``.
        code: machine-readable kind.
        where: criterion id, ``task`` or ``otherwise``.
        message: what is wrong, without quoting customer text.
    """

    rule: str
    code: str
    where: str
    message: str


def normalise(text: str) -> str:
    """NFKC, case-folded, runs of white space as one blank."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class Corpus:
    """Train payloads and reviewers' reasoning, prepared once for many checks.

    Args:
        row_ids: train row ids.
        payloads: rendered train payloads, one a row.
        reasons: reviewers' reasoning of the train rows.
        allowed: label definition and domain notes: runs found there are not memorised.
    """

    def __init__(
        self, *, row_ids: Sequence[str], payloads: Sequence[str], reasons: Iterable[str], allowed: Iterable[str]
    ) -> None:
        self.row_ids = frozenset(row_ids)
        self.payloads = tuple(normalise(p) for p in payloads)
        texts = [*payloads, *reasons]
        # A separator that normalisation never yields keeps runs from crossing two texts.
        self._chars = "\x00".join(normalise(t) for t in texts)
        self._words = " \x00 ".join(" ".join(_words(t)) for t in texts)
        joined = list(allowed)
        self._allowed_chars = "\x00".join(normalise(t) for t in joined)
        self._allowed_words = " \x00 ".join(" ".join(_words(t)) for t in joined)

    def has_word_run(self, text: str) -> bool:
        """True when an 8-word run of ``text`` stands in the corpus and not in the allowed texts."""
        words = _words(text)
        for start in range(len(words) - RUN_WORDS + 1):
            run = " ".join(words[start : start + RUN_WORDS])
            if _whole(run, self._words) and not _whole(run, self._allowed_words):
                return True
        return False

    def has_char_run(self, text: str) -> bool:
        """True when a 40-character run of ``text`` stands in the corpus and not in the allowed texts."""
        flat = normalise(text)
        half = RUN_CHARS // 2
        # Any 40-character window holds a whole block of 20 that starts at a multiple of 20: look for those first.
        for block in range(0, len(flat) - half + 1, half):
            if flat[block : block + half] not in self._chars:
                continue
            low = max(0, block + half - RUN_CHARS)
            for start in range(low, min(block, len(flat) - RUN_CHARS) + 1):
                run = flat[start : start + RUN_CHARS]
                if len(run) == RUN_CHARS and run in self._chars and run not in self._allowed_chars:
                    return True
        return False

    def rows_with(self, literal: str) -> int:
        """Train rows whose payload holds the literal, compared case-folded."""
        needle = normalise(literal)
        return sum(needle in payload for payload in self.payloads)

    def in_allowed(self, literal: str) -> bool:
        """True when the label definition or the domain notes hold the literal."""
        return normalise(literal) in self._allowed_chars


def _whole(run: str, words: str) -> bool:
    """True when ``run`` stands in ``words`` at word boundaries."""
    return f" {run} " in f" {words} "


def _row_id_in(text: str, row_ids: frozenset[str]) -> bool:
    # A bare small number is a figure of speech, not an identity: such ids are not looked for.
    tokens = {t.strip(".,;:!?()[]\"'`") for t in text.split()}
    hits = {t for t in tokens if t in row_ids and not (t.isdigit() and len(t) < 4) and len(t) > 2}
    if hits:
        return True
    return any(" " in rid and rid in text for rid in row_ids)


def _check_text(text: str, where: str, corpus: Corpus) -> list[Violation]:
    found: list[Violation] = []

    def add(rule: str, code: str, message: str) -> None:
        found.append(Violation(rule=rule, code=code, where=where, message=message))

    if is_blank(text):
        add("IN-4", "blank", "is empty")
    if len(text) > MAX_CRITERION_CHARS:
        add("IN-4", "too_long", f"has {len(text)} characters, over {MAX_CRITERION_CHARS}")
    for code, message in forbidden(text):
        add("IN-4", code, message)
    if _ALWAYS.search(text):
        add("IN-4", "unconditional", "answers one class whatever the row says")
    if _row_id_in(text, corpus.row_ids):
        add("LO-4", "row_id", "names a train row")
    if corpus.has_word_run(text):
        add("LO-4", "word_run", f"copies a run of {RUN_WORDS} words from a train row or a reviewer's reasoning")
    if corpus.has_char_run(text):
        add("LO-4", "char_run", f"copies a run of {RUN_CHARS} characters from a train row or a reviewer's reasoning")
    for match in _QUOTED.finditer(text):
        literal = next(group for group in match.groups() if group is not None)
        if not corpus.in_allowed(literal) and corpus.rows_with(literal) < MIN_LITERAL_ROWS:
            add("LO-4", "rare_literal", f"quotes a literal found in fewer than {MIN_LITERAL_ROWS} train rows")
            break
    return found


def copies(text: str, corpus: Corpus) -> bool:
    """True when a text copies a run of a train row or a reviewer's reasoning, or names a row."""
    return corpus.has_word_run(text) or corpus.has_char_run(text) or _row_id_in(text, corpus.row_ids)


def check_draft(draft: Draft, corpus: Corpus) -> list[Violation]:
    """Checks a whole draft: v0 and the redraft."""
    found = _check_text(draft.task, "task", corpus)
    found = [v for v in found if v.code != "too_long" or len(draft.task) > 4 * MAX_CRITERION_CHARS]
    if len(draft.criteria) > MAX_CRITERIA:
        found.append(
            Violation(rule="IN-4", code="too_many", where="criteria", message=f"has over {MAX_CRITERIA} criteria")
        )
    for criterion in draft.criteria:
        found += check_criterion(criterion, corpus)
    return found


def check_criterion(criterion: Criterion, corpus: Corpus) -> list[Violation]:
    """Checks one criterion of a proposed change."""
    return _check_text(criterion.text, criterion.id, corpus)
