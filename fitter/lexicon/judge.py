"""The lexicon judge: an honest, transparent instrument that reads only what the request says.

Bullets are read from the system text, the reply from the fenced payload. Each bullet that holds gives one point to its
class; the class with most points is the answer, none at all is the Otherwise class, and a true tie is drawn from the
request's own bytes and the run index, so that ties flip between runs as a sampling model's would.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from fitter.clients.base import ModelRequest, Reply, Usage
from fitter.errors import RunError, SettingsError
from fitter.judge.frame import parse_frame
from fitter.judge.prompt import parse_parts
from fitter.labels import LabelSchema
from fitter.lexicon.concepts import Bounded, Lexicon, Mention, load, text_key
from fitter.textsafe import one_line

SPEC: Final = "lexicon"
JUDGE_VERSION: Final = 1
OUTPUT_PART: Final = "output"
_REASONING_NAMES: Final = ("reasoning", "rationale", "explanation")
_FENCE_OPEN = re.compile(r"<<<([0-9a-f]{32})\n")


class BulletLike(Protocol):
    """A criterion, whoever holds it: ``records.Criterion`` or the frame's own."""

    @property
    def label(self) -> str:
        """The class it speaks for, as canonical text."""
        ...

    @property
    def text(self) -> str:
        """The sentence."""
        ...


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the bullets say about one text.

    Attributes:
        leaders: the classes with most points; the Otherwise class alone when no bullet holds.
        confidence: 0-100, from the margin.
        matched: indices of the bullets that hold.
    """

    leaders: tuple[str, ...]
    confidence: int
    matched: tuple[int, ...]


def check_label(schema: LabelSchema) -> None:
    """Refuses the labels that the lexicon cannot judge.

    Raises:
        SettingsError: the label is numeric or multi-select.
    """
    if schema.kind in ("numeric", "multiselect"):
        kind = "numeric" if schema.kind == "numeric" else "multi-select"
        raise SettingsError(
            f"lexicon cannot judge the {kind} label {one_line(schema.name, 60)}: it picks one class by counting cues",
            hint="choose a boolean or single-choice label with --label, or a model with --judge and --proposer",
        )


def unmapped_bullets(criteria: Iterable[BulletLike]) -> tuple[BulletLike, ...]:
    """The criteria that map to no concept: the lexicon judge is blind to them, and the report says so."""
    lexicon = load()
    return tuple(c for c in criteria if lexicon.read_bullet(c.text) is None)


def holds(mention: Mention | None, held: frozenset[str]) -> bool:
    """True when a bullet's concept is present (or, negated, absent) among the concepts of a text."""
    return mention is not None and (mention.concept in held) is mention.positive


def tally(criteria: Iterable[BulletLike], otherwise: str, held: frozenset[str], lexicon: Lexicon) -> Tally:
    """Counts the bullets that hold.

    Confidence is the leader's share of the points after one more point for every class in play (Laplace), in percent:
    one bullet against none is 67, a tie between two classes is 50.
    """
    points: dict[str, int] = {otherwise: 0}
    matched = []
    for at, criterion in enumerate(criteria):
        points.setdefault(criterion.label, 0)
        if holds(lexicon.read_bullet(criterion.text), held):
            points[criterion.label] += 1
            matched.append(at)
    best = max(points.values())
    leaders = tuple(label for label, n in points.items() if n == best) if best else (otherwise,)
    confidence = round(100 * (best + 1) / (sum(points.values()) + len(points))) if len(points) > 1 else 100
    return Tally(leaders=leaders, confidence=confidence, matched=tuple(matched))


def judged_text(user_text: str, nonce: str | None = None) -> str:
    """What the lexicon looks at: the part named ``output``, else all parts of the payload.

    Args:
        user_text: the rendered user message.
        nonce: the fence's nonce; None reads it from the message's own first line.
    """
    if nonce is None:
        opening = _FENCE_OPEN.match(user_text)
        nonce = opening.group(1) if opening else ""
    try:
        parts = parse_parts(user_text, nonce)
    except RunError:
        return user_text
    chosen = [text for name, text in parts if name == OUTPUT_PART] or [text for _, text in parts]
    return "\n\n".join(chosen)


@dataclass(frozen=True, kw_only=True)
class _Fields:
    """The answer's fields, as the request's schema names them."""

    reasoning: str | None
    label: str
    boolean: bool
    confidence: str | None


def _fields(schema: Mapping[str, Any]) -> _Fields:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    confidence = next((name for name in properties if "confidence" in name.casefold()), None)
    reasoning = next((name for name in properties if name.casefold() in _REASONING_NAMES), None)
    rest = [name for name in properties if name not in (confidence, reasoning)]
    if len(rest) != 1:
        raise SettingsError(
            "lexicon cannot tell which field of the verdict is the label: "
            + one_line(", ".join(properties) or "the schema lists none", 100)
        )
    kind = properties[rest[0]].get("type")
    if kind in ("number", "integer", "array"):
        raise SettingsError(
            "lexicon answers with one class: a numeric or multi-select label needs a model",
            hint="choose a boolean or single-choice label with --label, or a model with --judge",
        )
    return _Fields(reasoning=reasoning, label=rest[0], boolean=kind == "boolean", confidence=confidence)


class _Bullets:
    """One system text, read once."""

    def __init__(self, system: str) -> None:
        frame = parse_frame(system)
        self.nonce = frame.nonce
        self.criteria = frame.criteria
        self.otherwise = frame.otherwise
        lexicon = load()
        self.spoken_of = {m.concept for c in self.criteria if (m := lexicon.read_bullet(c.text)) is not None}
        self.tallies: Bounded[bytes, Tally] = Bounded(16_384)
        self._answers: Bounded[tuple[_Fields, Tally, str], str] = Bounded(1_024)

    def answer(self, fields: _Fields, found: Tally, label: str) -> str:
        """The verdict as JSON text; rows of which the same bullets hold share it."""

        def make() -> str:
            return _answer(fields, label, found.confidence, self._reasoning(found, label))

        return self._answers.get((fields, found, label), make)

    def _reasoning(self, found: Tally, label: str) -> str:
        """The bullets that hold, in plain words."""
        if not found.matched:
            return f"No criterion holds, so the closing line decides: {label}."
        said = "; ".join(f"for {self.criteria[i].label}: {self.criteria[i].text}" for i in found.matched)
        drawn = f" The classes are level; drawn: {label}." if len(found.leaders) > 1 else ""
        return f"These criteria hold: {said}{drawn}"


class LexiconClient:
    """The judge as a :class:`~fitter.clients.base.ModelClient`: no network, no state that shapes an answer."""

    def __init__(self) -> None:
        self._lexicon = load()
        self._systems: Bounded[str, _Bullets] = Bounded(8)
        self._schema: tuple[Mapping[str, Any], _Fields] | None = None

    @property
    def spec(self) -> str:
        """``lexicon``."""
        return SPEC

    @property
    def identity(self) -> Mapping[str, Any]:
        """Version of the code's reading and hash of the concepts."""
        return identity(self._lexicon, "judge")

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        """Answers one request; a follow-up after a refused answer gets the same answer again.

        Raises:
            UserError: the system text is not the judge's frame.
            SettingsError: the answer's schema is not that of one class.
        """
        system = next((m.text for m in request.messages if m.role == "system"), "")
        user = next((m.text for m in request.messages if m.role == "user"), "")
        bullets = self._systems.get(system, lambda: _Bullets(system))
        found = bullets.tallies.get(text_key(user), lambda: self._tally(bullets, user))
        label = found.leaders[0] if len(found.leaders) == 1 else _draw(request, run, found.leaders)
        text = bullets.answer(self._read_schema(request.schema), found, label)
        return Reply(
            outcome="ok",
            text=text,
            model=SPEC,
            usage=Usage(input=0, cached=0, output=0, reasoning=0),
            raw=text.encode("utf-8", "surrogatepass"),
        )

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _tally(self, bullets: _Bullets, user: str) -> Tally:
        held = self._lexicon.holding(judged_text(user, bullets.nonce), bullets.spoken_of)
        return tally(bullets.criteria, bullets.otherwise, held, self._lexicon)

    def _read_schema(self, schema: Mapping[str, Any]) -> _Fields:
        # The runner hands over one schema object for a whole phase; reading it once is enough.
        if self._schema is None or self._schema[0] is not schema:
            self._schema = (schema, _fields(schema))
        return self._schema[1]


def identity(lexicon: Lexicon, part: str) -> Mapping[str, Any]:
    """What identifies one of the lexicon's parts, as JSON."""
    return {
        "provider": SPEC,
        "model": SPEC,
        "part": part,
        "version": JUDGE_VERSION,
        "concepts_version": lexicon.version,
        "concepts": lexicon.hash,
    }


def _draw(request: ModelRequest, run: int, leaders: tuple[str, ...]) -> str:
    """A level class by hash of the first request and the run; follow-ups draw what was drawn before."""
    first = request if len(request.messages) <= 2 else replace(request, messages=request.messages[:2])
    hashed = hashlib.sha256(f"{run}\x00{first.digest}".encode())
    return leaders[int.from_bytes(hashed.digest()[:8], "big") % len(leaders)]


def _answer(fields: _Fields, label: str, confidence: int, reasoning: str) -> str:
    answer: dict[str, Any] = {}
    if fields.reasoning is not None:
        answer[fields.reasoning] = reasoning
    answer[fields.label] = label == "true" if fields.boolean else label
    if fields.confidence is not None:
        answer[fields.confidence] = confidence
    return json.dumps(answer, ensure_ascii=False)
