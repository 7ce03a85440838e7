"""What the loop is given: Protocols and a workspace, never a vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fitter.clients.base import ModelClient, ModelSettings
from fitter.evidence.targets.base import Target
from fitter.loop.strategies import Describer, Drafter, LabelChecker, Proposer
from fitter.publishing.publisher import Publisher
from fitter.queues.source import LabelSource
from fitter.records import VerdictContract
from fitter.settings import FitSettings
from fitter.workspace import Workspace


class Progress(Protocol):
    """Tells a person how far the run is."""

    def phase(self, text: str) -> None:
        """A new phase begins."""
        ...

    def passes(self, done: int, total: int, failures: int) -> None:
        """Passes made in this phase."""
        ...


class Quiet:
    """Reports nothing (library use, tests)."""

    def phase(self, text: str) -> None:
        """Ignores it."""

    def passes(self, done: int, total: int, failures: int) -> None:
        """Ignores it."""


@dataclass(frozen=True, kw_only=True)
class Team:
    """The strategies of one fit, opened once its settings are resolved.

    Attributes:
        judge: the model that judges.
        drafter, describer, proposer, checker: who reads text in the fit; they may run on another model.
        model_settings: the judge's settings.
        clients: what the probe settles: ``judge``, and ``advisors`` where that is another client.
        client_settings: the settings each of them is used with, where they are not the judge's.
    """

    judge: ModelClient
    drafter: Drafter
    describer: Describer
    proposer: Proposer
    checker: LabelChecker
    model_settings: ModelSettings
    clients: Mapping[str, ModelClient] = field(default_factory=dict)
    client_settings: Mapping[str, ModelSettings] = field(default_factory=dict)


def _hold_nothing(seal: str, holder: str) -> None:
    """Holds no lock: for callers that already do."""


def _tell_nobody(text: str) -> None:
    """Says nothing: library use without a reporter."""


@dataclass(kw_only=True)
class Deps:
    """Everything a node may reach.

    Attributes:
        workspace: where artefacts lie.
        open_source: settings → label source.
        open_team: (settings, run id) → judge and strategies; SettingsError for a spec that cannot be served.
        settle: settles a team's instruments with a probe (OUT-2) and returns the record of it.
        adopt: gives a team the instruments of such a record, on resume.
        open_target: by platform name.
        open_publisher: (settings, workspace) → the registry of the platform they name.
        check_label: raises SettingsError when a model cannot serve a label kind.
        progress: reporter.
        with_text: also write a report with customer text, into private/.
        interactive: somebody can be asked.
        hold: (seal id, holder) → holds the seal for the rest of the process; UserError names another holder.
        note: tells a person what a check before any spend found, each thing once.
    """

    workspace: Workspace
    open_source: Callable[[FitSettings], LabelSource]
    open_team: Callable[[FitSettings, str], Team]
    settle: Callable[[Team, VerdictContract, str], Mapping[str, Any]]
    adopt: Callable[[Team, Mapping[str, Any]], None]
    open_target: Callable[[str], Target]
    open_publisher: Callable[[FitSettings, Workspace], Publisher]
    check_label: Callable[[FitSettings, Any], None]
    progress: Progress = field(default_factory=Quiet)
    with_text: bool = False
    interactive: bool = False
    hold: Callable[[str, str], None] = _hold_nothing
    note: Callable[[str], None] = _tell_nobody
