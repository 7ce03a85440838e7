"""The lexicon proposer: the one change to one criterion that would mend most of the targeted bucket (LO-3).

It sees the bucket's errors only, never a row that the judge gets right, so a change that touches every reply would
always look best. What it gains on the bucket is therefore set against the share of everyday replies it would touch
(``usual_share``), a guess made by hand before any data; what reviewers said about the rows counts for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fitter import labels
from fitter.lexicon.concepts import Lexicon, Mention, load
from fitter.lexicon.judge import check_label, identity, judged_text, tally
from fitter.records import Attempt, Change, Criterion, Draft, ErrorRow, ProposalBrief

_ACTIONS: Final = ("add", "move", "replace", "drop")
_ID = re.compile(r"\bc(\d{1,6})\b")


@dataclass(frozen=True, kw_only=True)
class _Option:
    """One possible change, and what to hold against it.

    Attributes:
        change: the change.
        draft: the prompt with it.
        mention: the concept and sign that the changed bullet speaks of.
        touched: guessed share of everyday replies whose points it changes.
    """

    change: Change
    draft: Draft
    mention: Mention
    touched: float


class LexiconProposer:
    """Tries every single change on the bucket's errors and proposes the most telling one not tried before."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        return identity(load(), "proposer")

    def propose(self, brief: ProposalBrief) -> Change | None:
        """The best change; the second best when the first was refused; None when nothing is left to try.

        Raises:
            SettingsError: the label is numeric or multi-select.
        """
        check_label(brief.label)
        lexicon = load()
        ranked = rank(brief, lexicon)
        skip = 0 if brief.rejected is None else 1
        return ranked[skip] if len(ranked) > skip else None


def rank(brief: ProposalBrief, lexicon: Lexicon) -> list[Change]:
    """Changes that mend at least one error of the bucket, best first.

    Score = share of the bucket mended + share of it where reviewers moreover speak of just that quality - share of
    everyday replies touched. Ties: the change that touches fewer replies, then concept id, sign and action.
    """
    held = {error.row: lexicon.holding(judged_text(error.evidence)) for error in brief.errors}
    said = {
        error.row: {m.key for reason in error.human_reasons for m in lexicon.mentions(reason)} for error in brief.errors
    }
    scored = []
    for option in _options(brief, lexicon):
        if any(_is_attempt(option.change, attempt) for attempt in brief.attempts):
            continue
        rows = [e.row for e in brief.errors if _mends(option.draft, e, held[e.row], lexicon)]
        mended = len(rows)
        if mended == 0:
            continue
        spoken = sum(option.mention.key in said[row] for row in rows) if option.change.action == "add" else 0
        score = (mended + spoken) / len(brief.errors) - option.touched
        order = (-round(score, 9), option.touched, *option.mention.key, _ACTIONS.index(option.change.action))
        why = (
            f"it would turn {mended} of the {len(brief.errors)} errors of the bucket to the human's answer"
            f"{f', and reviewers speak of it on {spoken}' if spoken else ''}."
        )
        scored.append((order, option.change.target_id or "", replace(option.change, why=why)))
    scored.sort(key=lambda entry: (entry[0], entry[1]))
    return [change for _, _, change in scored]


def _mends(draft: Draft, error: ErrorRow, held: frozenset[str], lexicon: Lexicon) -> bool:
    return tally(draft.criteria, draft.otherwise, held, lexicon).leaders == (error.human,)


def _options(brief: ProposalBrief, lexicon: Lexicon) -> Iterator[_Option]:
    """Every single change: add a sentence, or move, negate or drop a bullet."""
    draft, bucket = brief.draft, brief.target.name
    present = {(m.key, c.label) for c in draft.criteria if (m := lexicon.read_bullet(c.text))}
    new_id = _new_id(draft, brief.attempts)
    classes = [labels.text(c) for c in brief.label.classes]
    wanted = [label for label in classes if any(error.human == label for error in brief.errors)]
    for concept in lexicon.concepts.values():
        for positive in (True, False):
            for label in wanted:
                if any(((concept.id, positive), other) in present for other in classes):
                    continue  # already a bullet, for this class or (cancelling out) for another
                added = Criterion(id=new_id, label=label, text=concept.sentence(positive))
                yield _Option(
                    change=Change(action="add", bucket=bucket, why="", criterion=added),
                    draft=replace(draft, criteria=(*draft.criteria, added)),
                    mention=_mention(concept.id, positive),
                    touched=concept.share(positive),
                )
    for at, criterion in enumerate(draft.criteria):
        mention = lexicon.read_bullet(criterion.text)
        if mention is None:
            continue
        concept = lexicon.concepts[mention.concept]
        # The errors are where the judge's own bullets held, so finding one there says less than finding something new:
        # its share counts double.
        share = min(1.0, 2 * concept.share(mention.positive))
        for label in wanted:
            if label != criterion.label:
                moved = replace(criterion, label=label)
                change = Change(action="move", bucket=bucket, why="", criterion=moved, target_id=criterion.id)
                yield _Option(change=change, draft=_with(draft, at, moved), mention=mention, touched=share)
        turned = replace(criterion, text=concept.sentence(not mention.positive))
        if ((concept.id, not mention.positive), criterion.label) not in present:
            change = Change(action="replace", bucket=bucket, why="", criterion=turned, target_id=criterion.id)
            yield _Option(change=change, draft=_with(draft, at, turned), mention=mention, touched=1.0)
        if len(draft.criteria) > 1:
            change = Change(action="drop", bucket=bucket, why="", target_id=criterion.id)
            yield _Option(change=change, draft=_with(draft, at, None), mention=mention, touched=share)


def _with(draft: Draft, at: int, criterion: Criterion | None) -> Draft:
    middle = () if criterion is None else (criterion,)
    return replace(draft, criteria=(*draft.criteria[:at], *middle, *draft.criteria[at + 1 :]))


def _mention(concept: str, positive: bool) -> Mention:
    return Mention(concept=concept, positive=positive, at=0, end=0)


def _new_id(draft: Draft, attempts: tuple[Attempt, ...]) -> str:
    """An id that no bullet has now or was given in an earlier change."""
    texts = [c.id for c in draft.criteria] + [a.change for a in attempts]
    numbers = [int(n) for text in texts for n in _ID.findall(text)]
    return f"c{max(numbers, default=0) + 1}"


def _is_attempt(change: Change, attempt: Attempt) -> bool:
    """True when an earlier attempt's text names this change: its action, its bullet, its class, its sentence."""
    text = attempt.change
    if not text.startswith(change.action):
        return False
    head = text if change.criterion is None else text.removesuffix(change.criterion.text)
    if change.criterion is not None and not text.endswith(change.criterion.text):
        return False
    if change.target_id is not None and not re.search(rf"(?<!\w){re.escape(change.target_id)}(?!\w)", head):
        return False
    if change.action in ("add", "move") and change.criterion is not None:
        return f'"{change.criterion.label}"' in head
    return True
