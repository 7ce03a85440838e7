"""The three strategies that read text in a fit. Lexicon and model-backed ones stand behind the same Protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fitter.records import Bucket, Change, Draft, DraftBrief, ErrorRow, ProposalBrief


class Drafter(Protocol):
    """Writes v0's criteria (LO-2)."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        ...

    def draft(self, brief: DraftBrief) -> Draft:
        """Drafts, or redrafts when ``brief.failure`` names what was wrong."""
        ...


class Describer(Protocol):
    """Turns error rows into emergent buckets (LO-3); it is given no bucket list."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        ...

    def describe(self, errors: Sequence[ErrorRow], *, again: int = 0) -> list[Bucket]:
        """Every error row is in exactly one bucket; buckets ranked by size, then name.

        Args:
            errors: what best gets wrong.
            again: how many iterations in a row asked this and got no usable answer.

        Raises:
            NoAdvice: no usable answer.
        """
        ...


class Proposer(Protocol):
    """Proposes ONE focused change aimed at one bucket (LO-3)."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        ...

    def propose(self, brief: ProposalBrief) -> Change | None:
        """One change, or None when there is nothing left to try (``no_change``)."""
        ...


class LabelChecker(Protocol):
    """Decides, from a label and its reviewer's reasoning alone, whether the reasoning contradicts the label (LO-5)."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it, as JSON."""
        ...

    def contradicts(self, label: str, reason: str, *, labels: Sequence[str], call: int) -> bool:
        """One of three calls (``call`` is 0, 1 or 2); True when the reasoning argues for another of ``labels``."""
        ...


class NoAdvice(Exception):
    """A strategy has no usable answer: the iteration cannot be measured and is ``no_change`` with this cause (LO-6)."""
