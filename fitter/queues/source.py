"""What a label source hands to intake. A source has no write verb (GT-1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from fitter.labels import LabelSchema


@dataclass(frozen=True, kw_only=True)
class RawAnnotation:
    """One reviewer's answer for the target label, before intake judges it.

    Attributes:
        annotator: who; None where nobody is named.
        value: the recorded JSON value; None where the reviewer gave none.
        reason: the reviewer's reasoning.
        role: ``adjudication`` settles a contested row (GT-4).
    """

    annotator: str | None
    value: Any
    reason: str = ""
    role: Literal["review", "adjudication"] = "review"


@dataclass(frozen=True, kw_only=True)
class RawInteraction:
    """One interaction of a queue.

    Attributes:
        id: row key; ``positional`` says that it is only a row number.
        annotations: by label schema id.
        content: normal form of docs/evidence.md, or None when it is gone.
        content_problem: why content is None.
        declined: a reviewer declined the item.
        where: (file, 1-based line) for error messages.
    """

    id: str
    annotations: Mapping[str, tuple[RawAnnotation, ...]]
    content: Mapping[str, Any] | None
    content_problem: str = ""
    content_id: str | None = None
    group: str | None = None
    declined: bool = False
    expected_output: Any = None
    app_verdict: Any = None
    app_fields: tuple[tuple[str, str], ...] = ()
    where: tuple[str, int | None] = ("", None)
    positional: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RawQueue:
    """A whole queue, read once.

    Attributes:
        identity: stable name of the queue; with the label it names the seal.
        description: where it came from, for people.
        schemas: the labels it carries. ``classes`` may be empty when the source lists none (flat files): intake
            then takes the values seen.
        interactions: in source order.
        counts: what the reader itself counted (e.g. ``collapsed_duplicates``, ``stripped``, ``surrogates_replaced``).
    """

    identity: str
    description: str
    schemas: tuple[LabelSchema | UnlistedSchema | TextSchema, ...]
    interactions: tuple[RawInteraction, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class UnlistedSchema:
    """A label whose source does not say its kind or classes (flat files): intake infers both from the values."""

    id: str
    name: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class TextSchema:
    """A free-text label: listed so that it can be named in an error, never fitted (GT-8)."""

    id: str
    name: str
    description: str = ""


class LabelSource(Protocol):
    """A read-only queue."""

    def read(self) -> RawQueue:
        """Reads everything once.

        Raises:
            BadInput: a file that cannot be read, with file and line.
            Outage: the platform does not answer.
        """
        ...
