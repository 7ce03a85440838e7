"""Judges and strategies that say what a test wants, so that every branch of the loop can be provoked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.clients.base import ModelRequest, ModelSettings, Reply, Usage
from fitter.loop.deps import Team
from fitter.records import Bucket, Change, Criterion, Draft, DraftBrief, ErrorRow, ProposalBrief
from fitter.runstore import RunStore
from fitter.settings import make

# (system message, user message, run) → label, or a whole reply
Answer = Callable[[str, str, int], Any]


@dataclass
class Judge:
    """Answers by a function; remembers what it was asked."""

    answer: Answer
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    spec: str = "lexicon"
    identity: Mapping[str, Any] = field(default_factory=lambda: {"spec": "scripted"})

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        system, user = request.messages[0].text, request.messages[1].text
        call = (system, user, run)
        self.asked.append(call)
        said = self.answer(*call)
        if isinstance(said, Reply):
            return said
        verdict = {"reasoning": "As scripted.", "label": said, "confidence": 90}
        return Reply(outcome="ok", text=json.dumps(verdict), usage=Usage(input=1, output=1))

    async def aclose(self) -> None:
        """Nothing to close."""


@dataclass
class Drafter:
    """Hands out drafts in turn, the last one again and again."""

    drafts: list[Draft]
    briefs: list[DraftBrief] = field(default_factory=list)
    identity: Mapping[str, Any] = field(default_factory=lambda: {"drafter": "scripted"})

    def draft(self, brief: DraftBrief) -> Draft:
        self.briefs.append(brief)
        return self.drafts[min(len(self.briefs), len(self.drafts)) - 1]


@dataclass
class Describer:
    """One bucket for each direction."""

    identity: Mapping[str, Any] = field(default_factory=lambda: {"describer": "scripted"})

    def describe(self, errors: Sequence[ErrorRow], *, again: int = 0) -> list[Bucket]:
        ways = sorted({f"{e.human} → {e.judge}" for e in errors})
        return [
            Bucket(
                name=way,
                direction=way,
                description="errors of one direction",
                rows=tuple(e.row for e in errors if f"{e.human} → {e.judge}" == way),
            )
            for way in ways
        ]


@dataclass
class Proposer:
    """Hands out changes in turn, then None."""

    changes: list[Change | None]
    briefs: list[ProposalBrief] = field(default_factory=list)
    identity: Mapping[str, Any] = field(default_factory=lambda: {"proposer": "scripted"})

    def propose(self, brief: ProposalBrief) -> Change | None:
        self.briefs.append(brief)
        at = len(self.briefs) - 1
        return self.changes[at] if at < len(self.changes) else None


@dataclass
class Checker:
    """Says whether a reviewer's reasoning contradicts the label."""

    says: Callable[[str, str, int], bool] = lambda label, reason, call: False
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    identity: Mapping[str, Any] = field(default_factory=lambda: {"checker": "scripted"})

    def contradicts(self, label: str, reason: str, *, labels: Sequence[str], call: int) -> bool:
        self.asked.append((label, reason, call))
        return self.says(label, reason, call)


def draft(*criteria: tuple[str, str], otherwise: str = "good") -> Draft:
    """A draft of (class, text) bullets."""
    return Draft(
        task="Decide how good the reply is.",
        criteria=tuple(Criterion(id=f"c{n}", label=label, text=text) for n, (label, text) in enumerate(criteria)),
        otherwise=otherwise,
    )


def add(text: str, label: str = "bad") -> Change:
    """A change that adds one criterion."""
    return Change(action="add", bucket="x", why="scripted", criterion=Criterion(id="new", label=label, text=text))


def rows(n: int = 24, **more: Any) -> list[dict[str, Any]]:
    """Flat rows; every second one is bad, and says so in a word that only it holds."""
    return [
        {
            "id": f"t-{i:03d}",
            "input": f"Question number {i}?",
            "output": f"Reply number {i} {'aye' if i % 2 == 0 else 'nay'}.",
            "label": "good" if i % 2 == 0 else "bad",
            "reason": "Because of what it says.",
            **more,
        }
        for i in range(n)
    ]


def queue(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """A flat JSON Lines queue."""
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def number_of(user: str) -> int:
    """Which row a rendered text is."""
    found = re.search(r"number (\d+)", user)
    return -1 if found is None else int(found.group(1))


def truth(user: str) -> str:
    """What the human said, from the row's text."""
    return "good" if " aye" in user else "bad"


@dataclass
class World:
    """A workspace in which the team is scripted."""

    workspace: Path
    judge: Judge
    drafter: Drafter
    proposer: Proposer
    checker: Checker
    describer: Describer = field(default_factory=Describer)

    def install(self, patch: pytest.MonkeyPatch) -> World:
        """Every fit in this test has this team."""

        def opened(*_: Any) -> Team:
            return Team(
                judge=self.judge,
                drafter=self.drafter,
                describer=self.describer,
                proposer=self.proposer,
                checker=self.checker,
                model_settings=ModelSettings(),
            )

        patch.setattr(fitting, "open_team", opened)
        return self

    def settings(self, path: Path, **changes: Any) -> Any:
        """Settings with every answer given."""
        given: dict[str, Any] = {
            "queue": str(path), "goal": "Find bad replies", "costly": "same", "label": "label", "framing": "grader",
            "metric": "balanced_accuracy", "judge": "lexicon", "proposer": "lexicon", "name": "scripted", "app": "shop",
            "scope": "span", "publish_to": "local", "runs": 1, "max_iterations": 2,
        }  # fmt: skip
        return make(**{**given, **changes})

    def fit(self, path: Path, **changes: Any) -> fitting.Outcome:
        """Runs a fit to its end."""
        return fitting.Fitting(self.workspace).start(self.settings(path, **changes))

    def store(self, run: str = "scripted-001") -> RunStore:
        """A run's artefacts."""
        return RunStore(fitting.Fitting(self.workspace).workspace, run)

    def report(self, run: str = "scripted-001") -> str:
        """A run's report."""
        return (self.workspace / "runs" / run / "report.md").read_text(encoding="utf-8")


def world(
    tmp_path: Path,
    patch: pytest.MonkeyPatch,
    answer: Answer,
    *,
    drafts: Sequence[Draft] | None = None,
    changes: Sequence[Change | None] = (),
    contradicts: Callable[[str, str, int], bool] | None = None,
) -> World:
    """A scripted world in a fresh workspace."""
    return World(
        workspace=tmp_path / "ws",
        judge=Judge(answer),
        drafter=Drafter(list(drafts or [draft(("bad", "The reply is poor."))])),
        proposer=Proposer(list(changes)),
        checker=Checker() if contradicts is None else Checker(contradicts),
    ).install(patch)
