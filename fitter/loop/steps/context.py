"""What nodes read back from a run's artefacts. Nothing here is kept between nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fitter.errors import Tampered
from fitter.evidence.map import EvidenceMap
from fitter.evidence.targets.base import Target
from fitter.judge.prompt import JudgePrompt
from fitter.labels import LabelSchema, text
from fitter.loop.deps import Deps, Team
from fitter.loop.guard import Corpus
from fitter.loop.state import State
from fitter.queues.snapshot import load_rows
from fitter.records import Attempt, Framing, Row, Scope
from fitter.runstore import BUDGET, RunStore
from fitter.scoring.frame import Fixed
from fitter.settings import FitSettings

BUDGETS = ("budget_calls", "budget_tokens", "budget_usd")


def number(version: int) -> str:
    """File stem of a version or iteration: ``007``."""
    return f"{version:03d}"


@dataclass(frozen=True, kw_only=True)
class Version:
    """One prompt and one map, as measured."""

    number: int
    prompt: JudgePrompt
    evidence: EvidenceMap

    def to_json(self) -> dict[str, Any]:
        """The version file's content."""
        return {
            "version": self.number,
            "prompt": self.prompt.to_json(),
            "map": self.evidence.model_dump(mode="json"),
            "map_hash": self.evidence.hash,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Version:
        """Reads a version file."""
        return cls(
            number=value["version"],
            prompt=JudgePrompt.from_json(value["prompt"]),
            evidence=EvidenceMap.model_validate(value["map"]),
        )


class Fit:
    """One fit's artefacts, read on demand."""

    def __init__(self, deps: Deps, run_id: str) -> None:
        self.deps = deps
        self.store = RunStore(deps.workspace, run_id)

    @classmethod
    def of(cls, deps: Deps, state: State) -> Fit:
        """The fit of a state."""
        return cls(deps, state["run"])

    @cached_property
    def config(self) -> dict[str, Any]:
        """The frozen config."""
        return self.store.read("config.json")

    @cached_property
    def settings(self) -> FitSettings:
        """The resolved settings."""
        settings = FitSettings.model_validate(self.config["settings"])
        if self.store.has(BUDGET):  # a resumed run may be given a larger budget; nothing that is measured depends on it
            given = {k: v for k, v in self.store.read(BUDGET).items() if k in BUDGETS and v is not None}
            if any(type(v) not in (int, float) or v <= 0 for v in given.values()):
                raise Tampered(f"{self.store.path(BUDGET)} holds no budget", hint="remove it, then resume")
            settings = settings.model_copy(update=given)
        return settings

    @cached_property
    def label(self) -> LabelSchema:
        """The label schema fixed at intake."""
        return LabelSchema.model_validate(self.config["fixed"]["label"])

    @cached_property
    def fixed(self) -> Fixed:
        """What scoring needs, fixed at intake."""
        return fixed_of(self.config)

    @cached_property
    def target(self) -> Target:
        """The platform whose template decides what the judge sees."""
        return self.deps.open_target(self.settings.publish_to or "local")

    @cached_property
    def team(self) -> Team:
        """Judge and strategies, with the instruments that the probe settled."""
        team = self.deps.open_team(self.settings, self.store.run_id)
        if self.store.has("instrument.json"):
            self.deps.adopt(team, self.store.read("instrument.json"))
        return team

    @property
    def scope(self) -> Scope:
        """The evaluator's scope."""
        scope = self.settings.scope
        assert scope is not None
        return scope

    @property
    def framing(self) -> Framing:
        """The framing."""
        framing = self.settings.framing
        assert framing is not None
        return framing

    @cached_property
    def train(self) -> list[Row]:
        """The train rows, sorted by id."""
        path = self.store.path("train.jsonl", private=True)
        return list(load_rows(path.read_text(encoding="utf-8")))

    @cached_property
    def groups(self) -> dict[str, str]:
        """Train row id → group name, from the tracked labels file."""
        return {r["id"]: r["group"] for r in self.store.read_rows("labels/train.jsonl")}

    def version(self, number_: int) -> Version:
        """One version file."""
        return Version.from_json(self.store.read(f"prompts/{number(number_)}.json"))

    def attempts(self) -> list[Attempt]:
        """Earlier iterations, as a proposer may see them."""
        found = []
        for name in self.store.names("decisions"):
            record = self.store.read(f"decisions/{name}.json")
            found.append(Attempt(**record["attempt"]))
        return found

    def corpus(self, payloads: Sequence[str]) -> Corpus:
        """What the memorisation guard compares with."""
        return Corpus(
            row_ids=[r.id for r in self.train],
            payloads=payloads,
            reasons=[reason for r in self.train for reason in r.reasons],
            allowed=[self.definition, self.settings.notes, self.settings.goal or ""],
        )

    @property
    def definition(self) -> str:
        """The label's definition as reviewers read it."""
        parts = [self.label.description, *(f"{k}: {v}" for k, v in sorted(self.label.value_descriptions.items()))]
        return "\n".join(p for p in parts if p)

    @property
    def labels_allowed(self) -> tuple[str, ...]:
        """What a criterion may speak for."""
        if self.label.kind == "numeric":
            return ("higher", "lower")
        return tuple(text(c) for c in self.label.classes)


def fixed_of(config: Mapping[str, Any]) -> Fixed:
    """Scoring's fixed quantities from a frozen config."""
    return Fixed.from_json(config["fixed"]["scoring"])
