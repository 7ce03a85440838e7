"""The concepts: general qualities of a reply as data, how a text is searched for them, how a sentence refers to them.

``concepts.json`` is fixed before any real data is judged. A concept holds in a text when at least ``at_least`` of its
cues occur (whole words, case-insensitive) or one of its structural tests does, and none of its ``unless`` tests holds.
A sentence refers to a concept by an alias, or by an opposite with the sign turned.
"""

from __future__ import annotations

import importlib.resources
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

from fitter.jsonio import digest, strict_loads
from fitter.lexicon.qualities import compile_test

_TOKEN = re.compile(r"\w+(?:['-]\w+)*|[.,!?;:%]")
_BOUNDARIES: Final = frozenset(".,!?;:")
_CLAUSE_WORDS: Final = frozenset({"but", "although", "though", "whereas", "while"})

# The closed list of negations. Before a mention, in the same clause:
_BEFORE: Final = frozenset(
    ("no", "not", "without", "never", "lack", "lacks", "lacked", "lacking", "nothing", "none", "neither", "nor",
     "hardly", "avoid", "avoids", "avoiding", "omit", "omits", "omitting", "omitted", "miss", "misses", "missed",
     "missing", "cannot", "absent", "absence", "insufficient", "little")
)  # fmt: skip
_BEFORE_PAIRS: Final = frozenset(
    {("fails", "to"), ("fail", "to"), ("failed", "to"), ("failing", "to"), ("free", "of"), ("devoid", "of")}
    | {("instead", "of"), ("rather", "than"), ("short", "on")}
)
# After it, in the same clause ("a reason is missing"):
_AFTER: Final = frozenset({"missing", "absent", "lacking", "omitted", "isn't", "aren't", "wasn't", "weren't"})
_AFTER_PAIRS: Final = frozenset((be, "not") for be in ("is", "are", "was", "were"))

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """A mapping that forgets what was used longest ago once it holds ``limit`` entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value at ``key``; made and kept when it is not there."""
        if key in self._items:
            self._items.move_to_end(key)
            return self._items[key]
        value = self._items[key] = make()
        if len(self._items) > self._limit:
            self._items.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._items)


@dataclass(frozen=True, kw_only=True)
class Concept:
    """One general quality of a reply.

    Attributes:
        id: stable name.
        name: for people.
        criterion: the sentence that says a reply has it.
        negated: the sentence that says a reply does not.
        cues: words and phrases that show it.
        at_least: how many distinct cues must occur.
        usual_share: a guess, made by hand, at the share of everyday replies that have it, 0-1.
        tests: structural tests that show it.
        unless: structural tests that rule it out.
        aliases: how a criterion or a reviewer refers to it.
        opposites: how they refer to its absence.
    """

    id: str
    name: str
    criterion: str
    negated: str
    cues: tuple[str, ...]
    at_least: int
    usual_share: float
    tests: tuple[str, ...]
    unless: tuple[str, ...]
    aliases: tuple[str, ...]
    opposites: tuple[str, ...]

    def sentence(self, positive: bool) -> str:
        """The criterion sentence, or its negated form."""
        return self.criterion if positive else self.negated

    def share(self, positive: bool) -> float:
        """Guessed share of replies for which the lexicon would find :meth:`sentence` true.

        Cue lists are never complete, so a missing cue says less than a present one: half of the replies that have the
        quality are taken to show none of its cues.
        """
        return self.usual_share if positive else 1.0 - self.usual_share / 2


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A sentence speaks of a concept.

    Attributes:
        concept: concept id.
        positive: False when it speaks of its absence.
        at, end: token positions, end exclusive.
    """

    concept: str
    positive: bool
    at: int
    end: int

    @property
    def key(self) -> tuple[str, bool]:
        """Concept and sign."""
        return self.concept, self.positive


def tokens(text: str) -> list[str]:
    """Case-folded words and the marks that end a clause, in order."""
    return _TOKEN.findall(text.replace("’", "'").casefold())


def text_key(text: str) -> bytes:
    """A short digest under which results on a text are kept, so that caches hold no customer text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Phrases(Generic[V]):
    """Token sequences to find, each with what it stands for; found by their first token."""

    def __init__(self, phrases: Iterable[tuple[str, V]]) -> None:
        self._words: dict[str, list[V]] = {}
        self._longer: dict[str, list[tuple[list[str], V]]] = {}
        for phrase, value in phrases:
            parts = tokens(phrase)
            if len(parts) == 1:
                self._words.setdefault(parts[0], []).append(value)
            else:
                self._longer.setdefault(parts[0], []).append((parts, value))

    def find(self, words: list[str]) -> Iterator[tuple[int, int, V]]:
        """(start, end, value) of every occurrence, overlapping ones too."""
        for at, word in enumerate(words):
            for value in self._words.get(word, ()):
                yield at, at + 1, value
            for parts, value in self._longer.get(word, ()):
                if words[at : at + len(parts)] == parts:
                    yield at, at + len(parts), value

    def values(self, words: list[str]) -> Iterator[V]:
        """The value of every phrase that occurs, some more than once: faster where places do not count."""
        distinct = set(words)
        for word in distinct & self._words.keys():
            yield from self._words[word]
        firsts = distinct & self._longer.keys()
        for at, word in enumerate(words) if firsts else ():
            if word in firsts:
                for parts, value in self._longer[word]:
                    if words[at : at + len(parts)] == parts:
                        yield value


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What is known of one text: concepts shown by cues, and those settled by tests too (filled when asked for)."""

    by_cue: frozenset[str]
    settled: dict[str, bool]


class Lexicon:
    """All concepts, compiled once."""

    def __init__(self, version: int, concepts: Iterable[Concept], hash_: str) -> None:
        self.version = version
        self.hash = hash_
        self.concepts: dict[str, Concept] = {c.id: c for c in concepts}
        self._cues = _Phrases((cue, (c.id, cue)) for c in self.concepts.values() for cue in c.cues)
        self._names = _Phrases(
            (name, (c.id, positive))
            for c in self.concepts.values()
            for positive, names in ((True, c.aliases), (False, c.opposites))
            for name in names
        )
        self._tests = {
            c.id: (tuple(map(compile_test, c.tests)), tuple(map(compile_test, c.unless)))
            for c in self.concepts.values()
        }
        self._found: Bounded[bytes, _Found] = Bounded(16_384)
        self._bullets: Bounded[str, Mention | None] = Bounded(2_048)

    def holding(self, text: str, among: Iterable[str] | None = None) -> frozenset[str]:
        """Ids of the concepts that hold in a text.

        Args:
            text: any text.
            among: the concepts to look for; None means all.
        """
        found = self._found.get(text_key(text), lambda: _Found(by_cue=self._by_cue(text), settled={}))
        return frozenset(c for c in (self.concepts if among is None else among) if self._holds(c, text, found))

    def _by_cue(self, text: str) -> frozenset[str]:
        cues: dict[str, set[str]] = {}
        for concept, cue in self._cues.values(tokens(text)):
            cues.setdefault(concept, set()).add(cue)
        return frozenset(c for c, found in cues.items() if len(found) >= self.concepts[c].at_least)

    def _holds(self, concept: str, text: str, found: _Found) -> bool:
        if concept not in found.settled:
            shows, rules_out = self._tests[concept]
            shown = concept in found.by_cue or any(test(text) for test in shows)
            found.settled[concept] = shown and not any(test(text) for test in rules_out)
        return found.settled[concept]

    def mentions(self, text: str) -> list[Mention]:
        """Every concept a text speaks of, in order; where mentions overlap the longest stays."""
        words = tokens(text)
        hits = [(end - at, at, end, concept, sign) for at, end, (concept, sign) in self._names.find(words)]
        hits.sort(key=lambda hit: (-hit[0], hit[1]))
        taken: set[int] = set()
        out = []
        for _, at, end, concept, sign in hits:
            if taken.isdisjoint(range(at, end)):
                taken.update(range(at, end))
                turned = negated(words, at, end)
                out.append(Mention(concept=concept, positive=sign != turned, at=at, end=end))
        return sorted(out, key=lambda m: m.at)

    def read_bullet(self, text: str) -> Mention | None:
        """The one concept a criterion sentence maps to, or None.

        The longest alias wins: most words, then most characters, then the earliest.
        """

        def read() -> Mention | None:
            words = tokens(text)
            return min(
                self.mentions(text),
                key=lambda m: (m.at - m.end, -len(" ".join(words[m.at : m.end])), m.at),
                default=None,
            )

        return self._bullets.get(text, read)


def negated(words: list[str], at: int, end: int) -> bool:
    """True when an odd number of negations bears on ``words[at:end]`` within its clause."""
    return _negations(words, at, end) % 2 == 1


def _negations(words: list[str], at: int, end: int) -> int:
    """How many negations of the closed list bear on words[at:end] within its clause."""
    low = at
    while low > 0 and words[low - 1] not in _BOUNDARIES and words[low - 1] not in _CLAUSE_WORDS:
        low -= 1
    high = end
    while high < len(words) and words[high] not in _BOUNDARIES and words[high] not in _CLAUSE_WORDS:
        high += 1
    count = 0
    for i in range(low, at):
        if words[i] == "not" and words[i + 1] in ("only", "just"):
            continue
        pair = (words[i], words[i + 1]) if i + 1 < at else ("", "")
        if words[i] in _BEFORE or words[i].endswith("n't") or pair in _BEFORE_PAIRS:
            count += 1
    for i in range(end, high):
        pair = (words[i], words[i + 1]) if i + 1 < high else ("", "")
        if words[i] in _AFTER or pair in _AFTER_PAIRS:
            count += 1
    return count


@cache
def load() -> Lexicon:
    """The shipped concepts.

    Raises:
        ValueError: the package's data file is damaged.
    """
    raw = strict_loads((importlib.resources.files("fitter.lexicon") / "concepts.json").read_text(encoding="utf-8"))
    concepts = [_concept(entry) for entry in raw["concepts"]]
    return Lexicon(int(raw["version"]), concepts, digest(raw))


def _concept(entry: dict[str, Any]) -> Concept:
    fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return Concept(**fields)
