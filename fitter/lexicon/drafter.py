"""The lexicon drafter: from the label's definition, the notes and the reviewers' reasons to criteria (LO-2)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from fitter import labels
from fitter.lexicon.concepts import Lexicon, load
from fitter.lexicon.judge import check_label, identity
from fitter.records import Criterion, Draft, DraftBrief
from fitter.textsafe import one_line

MAX_BULLETS: Final = 8
MAX_TASK_CHARS: Final = 1_200
# What one sentence of a definition counts, beside a reason's difference in rates (at most 1).
_DEFINED: Final = 0.5
_NOTED: Final = 0.3
_MIN_REASONS: Final = 2
# Where nothing at all was said about the label: an arbitrary start, and the loop must find the rest.
_STARTERS: Final = ("concrete_action", "reason", "identifier", "policy", "example", "length")

Key: TypeAlias = tuple[str, bool]

_SENTENCE = re.compile(r"[^.!?;\n]+")
_URL = re.compile(
    r"(?i)\b(?:https?|ftp|file|data|javascript)\s*:\S*|\bwww\.\S+|\b[\w-]+\.(?:com|org|net|io|dev|ai)\b\S*"
)
_MARKS = re.compile(
    r"\{\{|\}\}|\{%|%\}|\{#|#\}|\$\{|<<<|>>>|<%|%>|(?i:[0-9a-f]{32,})|[\"“”«»`‘]|(?<!\w)['’]|['’](?!\w)"
)


class LexiconDrafter:
    """Drafts v0 from words that refer to concepts; reads no payload."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        return identity(load(), "drafter")

    def draft(self, brief: DraftBrief) -> Draft:
        """Drafts, or redrafts with the next-best set of criteria when ``brief.failure`` is set.

        Raises:
            SettingsError: the label is numeric or multi-select.
        """
        check_label(brief.label)
        lexicon = load()
        classes = [labels.text(c) for c in brief.label.classes]
        otherwise = _otherwise(brief, classes)
        ranked = association(brief, lexicon)
        chosen = _select(ranked, classes, otherwise, frozenset(), failed=False)
        if brief.failure is not None:
            chosen = _select(ranked, classes, otherwise, frozenset(key for _, key in chosen), failed=True)
        criteria = tuple(
            Criterion(id=f"c{n}", label=label, text=lexicon.concepts[concept].sentence(positive))
            for n, (label, (concept, positive)) in enumerate(chosen, start=1)
        )
        return Draft(task=_task(brief), criteria=criteria, otherwise=otherwise)


def association(brief: DraftBrief, lexicon: Lexicon) -> dict[str, list[tuple[float, Key]]]:
    """How strongly each concept and sign speaks for each class.

    Strength = (share of the class's reasons that mention it) - (the largest such share in another class), shares being
    n / (N + 2) so that few reasons count little; plus a fixed amount for each sentence of the definition or the notes
    that mentions it for the class. With two classes, what speaks for one by its presence speaks for the other by its
    absence. Every strength is then weighed by the guessed share of replies of which the sentence is *not* true: a
    sentence that is true of nearly every reply tells nothing.

    Returns:
        class → (strength, (concept, positive)), strongest first, positive strengths only.
    """
    classes = [labels.text(c) for c in brief.label.classes]
    totals: Counter[str] = Counter()
    seen: dict[str, Counter[Key]] = {c: Counter() for c in classes}
    for reason in brief.reasons:
        if reason.label in seen and reason.reason.strip():
            totals[reason.label] += 1
            seen[reason.label].update({m.key for m in lexicon.mentions(reason.reason)})
    strength: dict[str, defaultdict[Key, float]] = {c: defaultdict(float) for c in classes}
    for label in classes:
        for key, n in seen[label].items():
            if n >= _MIN_REASONS:
                rivals = [seen[other][key] / (totals[other] + 2) for other in classes if other != label]
                strength[label][key] = n / (totals[label] + 2) - max(rivals, default=0.0)
    for label, text, weight in _definition(brief, classes):
        for mention in lexicon.mentions(text):
            strength[label][mention.key] += weight
    if len(classes) == 2:
        strength = {label: _with_mirror(strength[label], strength[other]) for label, other in (classes, classes[::-1])}
    return {
        label: sorted(
            ((s * (1 - lexicon.concepts[key[0]].share(key[1])), key) for key, s in strength[label].items() if s > 0),
            key=lambda entry: (-entry[0], entry[1]),
        )
        for label in classes
    }


def _with_mirror(own: Mapping[Key, float], rival: Mapping[Key, float]) -> defaultdict[Key, float]:
    total = defaultdict(float, own)
    for (concept, positive), s in rival.items():
        total[(concept, not positive)] += s
    return total


def _definition(brief: DraftBrief, classes: list[str]) -> Iterator[tuple[str, str, float]]:
    """(class, sentence, weight) of what was said about a class before any row was seen."""
    for label in classes:
        yield label, brief.label.value_descriptions.get(label, ""), _DEFINED
    for text in (brief.label.description, brief.notes):
        for sentence in _SENTENCE.findall(text):
            named = [c for c in classes if re.search(rf"(?<!\w){re.escape(c)}(?!\w)", sentence, re.IGNORECASE)]
            if len(named) == 1:
                yield named[0], sentence, _NOTED
            elif not named and brief.label.kind == "boolean" and text == brief.label.description:
                yield "true", sentence, _NOTED  # a boolean's definition says when it is true


def _otherwise(brief: DraftBrief, classes: list[str]) -> str:
    if brief.costly in classes:
        return brief.costly
    counts = Counter(r.label for r in brief.reasons if r.label in classes)
    return min(classes, key=lambda c: (-counts[c], classes.index(c)))


def _select(
    ranked: Mapping[str, list[tuple[float, Key]]],
    classes: list[str],
    otherwise: str,
    used: frozenset[Key],
    *,
    failed: bool,
) -> list[tuple[str, Key]]:
    """Up to eight bullets, classes by turns, those that are not the closing answer first; each concept once."""
    others = [c for c in classes if c != otherwise]
    turns = [*others, otherwise]
    best: dict[str, tuple[float, str, bool]] = {}
    for label in classes:
        for weight, (concept, positive) in ranked[label]:
            best[concept] = max(best.get(concept, (0.0, "", False)), (weight, label, positive))
    queues = {
        label: [key for _, key in ranked[label] if key not in used and best[key[0]][1:] == (label, key[1])]
        for label in turns
    }
    if not any(queues[label] for label in others):
        # Without a bullet for another class the judge is constant: turn what speaks for the closing class around.
        queues[others[0]] = [(concept, not positive) for concept, positive in queues[otherwise]]
        queues[otherwise] = []
    if not any(queues.values()):
        starters = _STARTERS[3:] if failed else _STARTERS[:3]
        queues[others[0]] = [(concept, True) for concept in starters]
    chosen: list[tuple[str, Key]] = []
    taken: set[str] = set()
    while len(chosen) < MAX_BULLETS and any(queues.values()):
        for label in turns:
            key = next((k for k in queues[label] if k[0] not in taken), None)
            queues[label] = [k for k in queues[label] if k[0] not in taken and k != key]
            if key is not None and len(chosen) < MAX_BULLETS:
                taken.add(key[0])
                chosen.append((label, key))
    return chosen


def _task(brief: DraftBrief) -> str:
    """One line: what is graded and what for. Marks, quotation marks and URLs are left out (IN-4)."""
    pieces: Iterable[str] = (
        f"You grade one recorded interaction for the label {brief.label.name}.",
        f"Goal: {brief.goal}",
        f"Definition: {brief.label.description}" if brief.label.description.strip() else "",
    )
    return one_line(_MARKS.sub(" ", _URL.sub("(link)", " ".join(p.strip() for p in pieces if p))), MAX_TASK_CHARS)
