"""Simulated candidates: drawn at random, decided from all their passes, in stages, and in stages by the real runner."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from fitter.calls.journal import Journal
from fitter.clients.base import ModelRequest, ModelSettings, Reply
from fitter.evidence.map import EvidenceField
from fitter.evidence.targets import open_target
from fitter.evidence.targets.base import Compiled
from fitter.judge.passes import Item, measure
from fitter.judge.prompt import build_prompt
from fitter.labels import LabelSchema, LabelValue, text, to_json
from fitter.loop.decide import decide
from fitter.loop.early import Planner
from fitter.records import Criterion, Draft, Pass
from fitter.scoring.card import card_of
from fitter.scoring.frame import Fixed
from fitter.scoring.paired import MinDelta
from fitter.scoring.table import CardInput
from tests.scoring.build import frame, judged, labels_of

DELTA = MinDelta(value=0.02, winner="floor", terms={"floor": 0.02, "half_run_stdev": None, "user": None}, one_row=None)


class World:
    """A metric, labels, groups, and candidates drawn at random, with unusable passes and borderline rows."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        kind, metric, options = chance.choice(METRICS)
        self.runs = chance.choice([1, 3, 3, 3, 5])
        n = chance.randint(8, 26)
        if kind == "numeric":
            self.values: list[LabelValue] = [float(chance.randint(1, 5)) for _ in range(n)]
            self.values[:3] = [1.0, 3.0, 5.0]
            self.answers: list[LabelValue] = [float(k) for k in range(1, 6)]
        elif kind == "multiselect":
            self.answers = [frozenset(s) for s in ({"a"}, {"b"}, {"a", "b"})]
            self.values = [chance.choice(self.answers) for _ in range(n)]
            self.values[:2] = self.answers[:2]
        elif kind == "boolean":
            self.answers = [True, False]
            self.values = [chance.random() < 0.7 for _ in range(n)]
            self.values[:2] = [True, False]
        else:
            self.answers = ["a", "b", "c"][: chance.choice([2, 3])] if ":c" not in metric else ["a", "b", "c"]
            self.values = [chance.choice(self.answers) for _ in range(n)]
            self.values[: len(self.answers)] = self.answers
        more = {"classes": ["a", "b"]} if kind == "multiselect" else {}
        self.fixed: Fixed = frame(
            self.values, metric, kind=kind, runs=self.runs, options=options, resamples=20, **more
        )  # fmt: skip
        labels = labels_of(self.values)
        self.groups = {row: f"g{k // 2}" for k, row in enumerate(labels)} if chance.random() < 0.3 else None

    def judge(self, right: float, spoilt: float) -> CardInput:
        """A judge that is right with a probability, steady on most rows, undecided on some."""
        chance, table = self.chance, []
        for truth in self.values:
            usual = truth if chance.random() < right else chance.choice(self.answers)
            flips = 0.5 if chance.random() < 0.2 else 0.03
            answers: list[LabelValue | None] = [
                None if chance.random() < spoilt else chance.choice(self.answers) if chance.random() < flips else usual
                for _ in range(self.runs)
            ]
            table.append(answers)
        return judged(self.values, table, groups=self.groups)


METRICS: list[tuple[Any, str, dict[str, Any]]] = [
    ("categorical", "accuracy", {}), ("categorical", "balanced_accuracy", {}), ("categorical", "macro_f1", {}),
    ("categorical", "weighted_f1", {}), ("categorical", "cohens_kappa", {}), ("categorical", "f1:a", {}),
    ("boolean", "f1_minority", {}), ("boolean", "fbeta_minority", {"beta": 2.0}), ("boolean", "balanced_accuracy", {}),
    ("boolean", "accuracy", {"floor": "true=0.8"}), ("multiselect", "mean_credit:jaccard", {}),
    ("multiselect", "mean_credit:exact", {}), ("multiselect", "macro_f1", {}), ("multiselect", "accuracy", {}),
    ("numeric", "mae", {}), ("numeric", "spearman", {}),
]  # fmt: skip


def outcome(fixed: Fixed, best: CardInput, candidate: CardInput, v0: CardInput) -> str:
    """What the exhaustive loop makes of a candidate."""
    if card_of(fixed, candidate).headline.value is None:
        return "no_change"
    made = decide(fixed, best=best, candidate=candidate, v0=v0, min_delta=DELTA)
    return "no_change" if made.basis == "not_measurable" else made.decision


def staged(fixed: Fixed, best: CardInput, whole: CardInput, v0: CardInput) -> tuple[str, int]:
    """The same, asking for passes only as the plan wants them; and how many were made."""
    made = passes_wanted(fixed, best, whole, v0)
    if len(made) < len(whole.passes):
        return "discard", len(made)
    return outcome(fixed, best, replace(whole, passes=made), v0), len(made)


def passes_wanted(fixed: Fixed, best: CardInput, whole: CardInput, v0: CardInput | None = None) -> list[Pass]:
    """The passes that the plan wants of a candidate, in the order in which it wants them."""
    answers = {(p.row, p.run): p for p in whole.passes}
    made: list[Pass] = []

    def keeps(given: CardInput) -> bool:
        return decide(fixed, best=best, candidate=given, v0=v0 or best, min_delta=DELTA).kept

    plan = Planner(fixed, best=best, excluded={}, keeps=keeps)
    while (step := plan.next(made)).kind == "make":
        assert step.passes
        made += [answers.pop(key) for key in step.passes]  # a pass asked for twice, or unknown, is a KeyError
    assert step.kind == ("complete" if not answers else "discard")
    return made


# (frame, best, candidate, v0) → what the loop makes of the candidate, and the passes that it took
Decider: TypeAlias = Callable[[Fixed, CardInput, CardInput, CardInput], tuple[str, int]]


def exhaustive(fixed: Fixed, best: CardInput, candidate: CardInput, v0: CardInput) -> tuple[str, int]:
    """Decided from all passes."""
    return outcome(fixed, best, candidate, v0), len(candidate.passes)


def trajectory(world: World, candidates: list[CardInput], v0: CardInput, decider: Decider) -> tuple[Any, ...]:
    """Outcomes, winner, what patience stood at, and the passes of a loop over these candidates."""
    best, winner, patience, unchanged, seen, calls = v0, -1, 0, 0, [], 0
    for n, candidate in enumerate(candidates):
        found, made = decider(world.fixed, best, candidate, v0)
        calls += made
        seen.append(found)
        if found == "keep":
            best, winner, patience, unchanged = candidate, n, 0, 0
        elif found == "discard":
            patience, unchanged = patience + 1, 0
        else:
            unchanged += 1
        if patience == 3 or unchanged == 3:
            break
    return tuple(seen), winner, patience, unchanged, calls


def drawn(seed: int) -> tuple[World, CardInput, list[CardInput]] | None:
    """A world, its v0 and six candidates; None where v0 has no headline, so that no loop begins."""
    world = World(seed)
    spoilt = world.chance.choice([0.0, 0.05, 0.3])
    v0 = world.judge(0.6, spoilt)
    if card_of(world.fixed, v0).headline.value is None:
        return None
    return world, v0, [world.judge(world.chance.choice([0.4, 0.6, 0.75, 0.9]), spoilt) for _ in range(6)]


class Recorded:
    """A model that gives the recorded answers: the row's id is what it is shown."""

    spec = "test:recorded"

    def __init__(self, whole: CardInput) -> None:
        self.identity = {"model": "recorded"}
        self.answers = {(p.row, p.run): p.label for p in whole.passes}
        self.asked: set[tuple[str, int]] = set()

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        assert request.row is not None
        assert f"<{request.row}>" in request.messages[1].text
        self.asked.add((request.row, run))
        label = self.answers[request.row, run]
        said = {"reasoning": "as recorded", "label": None if label is None else to_json(label), "confidence": 50}
        return Reply(outcome="ok", text=json.dumps(said) if label is not None else "no idea", model="recorded")

    async def aclose(self) -> None:
        """Nothing to close."""


def schema_of(fixed: Fixed) -> LabelSchema:
    """A label of the frame's kind."""
    limits = {"minimum": 1.0, "maximum": 5.0} if fixed.kind == "numeric" else {}
    return LabelSchema(id="q", name="quality", kind=fixed.kind, classes=fixed.classes, **limits)


def by_runner(fixed: Fixed, best: CardInput, whole: CardInput, v0: CardInput, journal: Journal) -> tuple[str, int]:
    """The same as :func:`staged`, with the runner of the product making the passes; and how many it asked for."""
    label = schema_of(fixed)
    first, last = ("higher", "1") if fixed.kind == "numeric" else (text(fixed.classes[0]),) * 2
    prompt = build_prompt(
        Draft(task="Say it again.", criteria=(Criterion(id="c1", label=first, text="It is so."),), otherwise=last),
        open_target("local").contract(label),
        Compiled(placeholders=((EvidenceField(name="output", path="meta.output.value"), "{{span_output}}"),), gaps=()),
    )
    client = Recorded(whole)

    def keeps(given: CardInput) -> bool:
        return decide(fixed, best=best, candidate=given, v0=v0, min_delta=DELTA).kept

    planner = Planner(fixed, best=best, excluded={}, keeps=keeps)
    result = measure(
        client=client,
        prompt=prompt,
        items=[
            Item(row=r, user_text=prompt.user_template.replace("{{span_output}}", f"<{r}>"))
            for r in sorted(whole.labels)
        ],
        runs=fixed.runs,
        settings=ModelSettings(),
        journal=journal,
        run_id=f"run-{random.random()}",
        phase="candidate",
        plan=lambda made: planner.next(made).passes,
    )
    assert {(p.row, p.run): p.label for p in result.passes} == {key: client.answers[key] for key in client.asked}
    given = CardInput(labels=whole.labels, passes=result.passes, groups=whole.groups)
    if len(result.passes) < len(whole.passes):
        assert planner.next(result.passes).kind == "discard"
        return "discard", len(result.passes)
    return outcome(fixed, best, given, v0), len(result.passes)
