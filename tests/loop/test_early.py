"""Fewer calls, same decisions: decided early is decided as the exhaustive run decides it (KE, LO-5, LO-6)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from fitter.labels import LabelValue
from fitter.loop.decide import decide
from fitter.loop.early import Planner, settled
from fitter.records import Pass
from fitter.scoring.card import card_of
from fitter.scoring.frame import Fixed
from fitter.scoring.paired import MinDelta
from fitter.scoring.table import CardInput
from fitter.scoring.votes import vote
from tests.scoring.build import frame, judged, labels_of

DELTA = MinDelta(value=0.02, winner="floor", terms={"floor": 0.02, "half_run_stdev": None, "user": None}, one_row=None)


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_out4_a_settled_row_has_the_vote_that_every_continuation_gives(runs: int) -> None:
    choices: tuple[LabelValue | None, ...] = ("a", "b", "c", None)

    def outcome(answers: Sequence[LabelValue | None]) -> Any:
        made = [
            Pass(row="r", run=n, label=a, unusable=None if a is not None else "not_json") for n, a in enumerate(answers)
        ]
        found = vote(made, runs, "categorical")
        return found.value if found.reason is None else None

    for done in range(1, runs + 1):
        for answers in product(choices, repeat=done):
            ends = {outcome([*answers, *rest]) for rest in product(choices, repeat=runs - done)}
            assert settled(answers, runs, "categorical") == (len(ends) == 1), answers


def test_nu1_a_median_is_settled_only_when_all_is_said() -> None:
    assert not settled([3.0, 3.0], 3, "numeric")
    assert settled([3.0, 3.0, 3.0], 3, "numeric")
    assert settled([None, None], 3, "numeric")  # the quorum is out of reach


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
    return decide(fixed, best=best, candidate=candidate, v0=v0, min_delta=DELTA).decision


def staged(fixed: Fixed, best: CardInput, whole: CardInput, v0: CardInput) -> tuple[str, int]:
    """The same, asking for passes only as the plan wants them; and how many were made."""
    answers = {(p.row, p.run): p for p in whole.passes}
    made: list[Pass] = []

    def keeps(given: CardInput) -> bool:
        return decide(fixed, best=best, candidate=given, v0=v0, min_delta=DELTA).kept

    plan = Planner(fixed, best=best, excluded={}, keeps=keeps)
    while True:
        step = plan.next(made)
        if step.kind == "discard":
            return "discard", len(made)
        if step.kind == "complete":
            return outcome(fixed, best, CardInput(labels=whole.labels, passes=made, groups=whole.groups), v0), len(made)
        assert step.passes
        for key in step.passes:
            made.append(answers.pop(key))  # a pass asked for twice, or unknown, is a KeyError


def trajectory(world: World, candidates: list[CardInput], v0: CardInput, *, exhaustive: bool) -> tuple[Any, ...]:
    """Outcomes, patience and winner of a loop over these candidates."""
    best, winner, patience, seen, calls = v0, -1, 0, [], 0
    for n, candidate in enumerate(candidates):
        if exhaustive:
            found, made = outcome(world.fixed, best, candidate, v0), len(candidate.passes)
        else:
            found, made = staged(world.fixed, best, candidate, v0)
        calls += made
        seen.append(found)
        if found == "keep":
            best, winner, patience = candidate, n, 0
        elif found == "discard":
            patience += 1
        if patience == 3:
            break
    return tuple(seen), winner, patience, calls


@pytest.mark.parametrize("block", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, *range(3, 11)))])
def test_the_whole_trajectory_equals_the_exhaustive_runs(block: int) -> None:
    saved = total = 0
    for seed in range(block * 60, block * 60 + 60):
        world = World(seed)
        spoilt = world.chance.choice([0.0, 0.05, 0.3])
        v0 = world.judge(0.6, spoilt)
        if card_of(world.fixed, v0).headline.value is None:
            continue
        candidates = [world.judge(world.chance.choice([0.4, 0.6, 0.75, 0.9]), spoilt) for _ in range(6)]
        *early, calls = trajectory(world, candidates, v0, exhaustive=False)
        *whole, every = trajectory(world, candidates, v0, exhaustive=True)
        assert early == whole, (seed, world.fixed.metric.text)
        saved, total = saved + every - calls, total + every
    assert 0.1 < saved / total < 1


def test_nothing_is_decided_early_where_rows_without_a_vote_count_as_wrong() -> None:
    fixed = frame(["a", "b"], failures="wrong")
    with pytest.raises(ValueError, match="excluded"):
        Planner(fixed, best=judged(["a", "b"], ["a", "b"]), excluded={}, keeps=lambda _: False)
