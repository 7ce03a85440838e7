"""The Target Protocol: everything about a platform that decides what its judge sees and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.labels import LabelSchema
from fitter.records import Framing, Row, Scope, VerdictContract

FieldState: TypeAlias = Literal["resolved", "empty", "missing"]


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Evidence that the target's template cannot carry (EV-7)."""

    field: str
    path: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A map compiled to a target's placeholders.

    Attributes:
        placeholders: (field, placeholder text with braces) in map order, only those the template can carry.
        gaps: the rest.
    """

    placeholders: tuple[tuple[EvidenceField, str], ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A template resolved against one payload.

    Attributes:
        text: the text, to the byte what the deployed evaluator's model would get.
        states: placeholder path → resolved, empty or missing.
        truncated: paths cut by the target's per-field cap.
    """

    text: str
    states: Mapping[str, FieldState]
    truncated: tuple[str, ...] = ()


class Target(Protocol):
    """One platform's evaluator template. Pure: no files, no network."""

    @property
    def name(self) -> str:
        """``local``, ``datadog``, ``mlflow``."""
        ...

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Scopes an evaluator of this platform can run at."""
        ...

    @property
    def max_user_bytes(self) -> int:
        """Largest rendered user message, bytes of UTF-8; above it a row is ``oversized`` (EV-6)."""
        ...

    def hosts(self, judge_spec: str) -> str | None:
        """None when the platform can run this judge; else why not, for the user."""
        ...

    def contract(self, label: LabelSchema) -> VerdictContract:
        """The verdict's field names and JSON Schema for a label."""
        ...

    def compile(self, evidence: EvidenceMap) -> Compiled:
        """Compiles a map; raises SettingsError for a selector that does not parse."""
        ...

    def payload(self, row: Row, scope: Scope, framing: Framing) -> Mapping[str, Any] | None:
        """What the deployed template would see of this row (EV-1, EV-2, EV-3), or None if nothing is at the scope.

        The only function that may read ``row.content``; it builds by allow-list.
        """
        ...

    def resolve(self, template: str, payload: Mapping[str, Any]) -> Resolved:
        """Substitutes every placeholder in one pass (IN-2); raises SettingsError for one that does not parse."""
        ...
