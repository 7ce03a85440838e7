"""The lexicon describer: error rows into buckets by direction and by the concept they share most (LO-3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fitter.lexicon.concepts import Lexicon, load
from fitter.lexicon.drafter import Key
from fitter.lexicon.judge import identity, judged_text
from fitter.records import Bucket, ErrorRow

_MAX_SHARED: Final = 3
_MIN_ROWS: Final = 2


class LexiconDescriber:
    """Names what the errors of one direction have in common, as far as concepts can say it."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        return identity(load(), "describer")

    def describe(self, errors: Sequence[ErrorRow], *, again: int = 0) -> list[Bucket]:  # noqa: ARG002
        """Every error row in exactly one bucket; buckets by size, then name.

        Within a direction the concept that most reviewers' reasons share makes the first bucket, the one that most of
        the rest share the next, up to three; rows whose reasons share nothing are tried by what their text shows.
        """
        lexicon = load()
        directions: dict[str, list[ErrorRow]] = {}
        for error in errors:
            directions.setdefault(f"{error.human} → {error.judge}", []).append(error)
        buckets: list[Bucket] = []
        for direction, rows in directions.items():
            buckets += _split(direction, rows, lexicon)
        return sorted(buckets, key=lambda b: (-len(b.rows), b.name))


def _split(direction: str, rows: list[ErrorRow], lexicon: Lexicon) -> list[Bucket]:
    buckets: list[Bucket] = []
    left = rows

    def take(source: Callable[[ErrorRow, Lexicon], frozenset[Key]], what: str) -> None:
        nonlocal left
        keys = {row.row: source(row, lexicon) for row in left}
        while len(buckets) < _MAX_SHARED:
            counts = Counter(key for row in left for key in keys[row.row])
            if not counts:
                return
            key, n = min(counts.items(), key=lambda entry: (-entry[1], entry[0]))
            if n < _MIN_ROWS:
                return
            name, sentence = _name(key, lexicon)
            shared = [row for row in left if key in keys[row.row]]
            left = [row for row in left if key not in keys[row.row]]
            buckets.append(_bucket(f"{direction}: {name}", direction, f"{what} {sentence}", shared))

    take(_reasons, "Reviewers' reasons say:")
    if not buckets:
        take(_shown, "The replies share this:")
    if left:
        description = "No shared concept was found." if not buckets else "The rest: no shared concept was found."
        buckets.append(_bucket(f"{direction}: other", direction, description, left))
    return buckets


def _reasons(error: ErrorRow, lexicon: Lexicon) -> frozenset[Key]:
    return frozenset(m.key for reason in error.human_reasons for m in lexicon.mentions(reason))


def _shown(error: ErrorRow, lexicon: Lexicon) -> frozenset[Key]:
    # A quality that most replies have says nothing about these.
    held = lexicon.holding(judged_text(error.evidence))
    return frozenset((concept, True) for concept in held if lexicon.concepts[concept].usual_share <= 0.3)


def _name(key: Key, lexicon: Lexicon) -> tuple[str, str]:
    concept = lexicon.concepts[key[0]]
    return (concept.id if key[1] else f"no {concept.id}"), concept.sentence(key[1])


def _bucket(name: str, direction: str, description: str, rows: list[ErrorRow]) -> Bucket:
    return Bucket(name=name, direction=direction, description=description, rows=tuple(sorted(r.row for r in rows)))
