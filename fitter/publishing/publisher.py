"""The Publisher Protocol: a platform's verbs, as it has them. Nothing here can enable an evaluator (PU-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from fitter.records import Scope, VerdictContract


@dataclass(frozen=True, kw_only=True)
class EvaluatorSpec:
    """The judge to publish, platform-neutral. There is no ``enabled`` here: a publisher always writes false.

    Attributes:
        name, app: confirmed at intake.
        scope: where it runs.
        system, user_template: the measured prompt, to the byte.
        contract: verdict fields and schema.
        judge: the judge's spec, e.g. ``lexicon`` or ``openai:gpt-5.4-mini``.
        pass_labels: canonical texts of the labels that count as a pass, where the platform wants criteria.
        metadata: hashes that tie the evaluator to its run.
    """

    name: str
    app: str
    scope: Scope
    system: str
    user_template: str
    contract: VerdictContract
    judge: str
    pass_labels: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


class Publisher(Protocol):
    """A platform's evaluator registry."""

    @property
    def name(self) -> str:
        """``local``, ``datadog``, ``mlflow``."""
        ...

    @property
    def rehearsal(self) -> bool:
        """True where nothing runs what is published (``local``): the receipt says so (PU-1)."""
        ...

    def check(self, name: str, app: str, judge: str) -> None:
        """Before any spend: may this name be written for this app, and can the platform run this judge?

        Raises:
            SettingsError: bad name, an enabled evaluator, or another app's evaluator under this name (PU-3).
        """
        ...

    def config(self, spec: EvaluatorSpec, existing: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The full document to write: the existing one with only our fields replaced, ``enabled: false``."""
        ...

    def get(self, name: str) -> Mapping[str, Any] | None:
        """Reads one evaluator, or None."""
        ...

    def put(self, name: str, config: Mapping[str, Any]) -> None:
        """Full replace. Its status proves nothing (PU-4).

        Raises:
            PublishError: the platform refused; the message starts with "the platform refused the write:".
        """
        ...

    def listing(self, app: str) -> Sequence[Mapping[str, Any]]:
        """Evaluators of an app, through the platform's listing (not through get).

        Each entry has at least ``name``; ``enabled`` where the platform's listing shows it, else None or absent.
        """
        ...

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields that must match between what was sent and what is read back, normalised for the platform."""
        ...

    @property
    def page(self) -> str:
        """The platform's evaluations page, for people."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A publisher behind a network: what it can tell before any spend, and connections to release.

    Attributes:
        notes: what a user and the report must be told about a publication there, in order, each once; filled by
            ``check`` and ``put``.
    """

    notes: list[str]

    def variables_in_use(self, app: str) -> Mapping[str, int]:
        """Template variables of existing evaluators → in how many; those are known to resolve on the platform."""
        ...

    def close(self) -> None:
        """Releases connections."""
        ...
