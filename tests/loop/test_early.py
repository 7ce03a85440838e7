"""Fewer calls, same decisions: decided early is decided as the exhaustive run decides it (KE, LO-5, LO-6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fitter.calls.journal import Journal
from fitter.labels import LabelValue
from fitter.loop.decide import decide
from fitter.loop.early import Planner, decide_early, recompute, settled
from fitter.records import Pass
from fitter.scoring.votes import vote
from tests.loop.worlds import DELTA, by_runner, drawn, exhaustive, passes_wanted, staged, trajectory
from tests.scoring.build import frame, judged


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


@pytest.mark.parametrize("block", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, *range(3, 11)))])
def test_the_whole_trajectory_equals_the_exhaustive_runs(block: int) -> None:
    saved = total = 0
    for seed in range(block * 60, block * 60 + 60):
        if (found := drawn(seed)) is None:
            continue
        world, v0, candidates = found
        *early, calls = trajectory(world, candidates, v0, staged)
        *whole, every = trajectory(world, candidates, v0, exhaustive)
        assert early == whole, (seed, world.fixed.metric.text)
        saved, total = saved + every - calls, total + every
    assert 0.1 < saved / total < 1


def test_the_real_runner_makes_the_passes_that_the_plan_wants_and_decides_the_same(tmp_path: Path) -> None:
    reached = set()
    with Journal(tmp_path / "calls.sqlite") as journal:
        for seed in range(1000, 1030):
            if (found := drawn(seed)) is None:
                continue
            world, v0, candidates = found
            by_hand = trajectory(world, candidates, v0, staged)
            assert trajectory(world, candidates, v0, partial(by_runner, journal=journal)) == by_hand, seed
            reached |= {(world.fixed.kind, one) for one in by_hand[0]}
    assert {(kind, one) for kind in ("categorical", "boolean") for one in ("keep", "discard")} <= reached
    assert {("numeric", "discard"), ("multiselect", "discard")} <= reached


@pytest.mark.parametrize("seed", range(40, 60))
def test_ke5_an_early_record_is_recomputed_and_holds_what_the_exhaustive_decision_says(seed: int) -> None:
    found = drawn(seed)
    if found is None:
        return
    world, v0, candidates = found
    for candidate in candidates:
        made = passes_wanted(world.fixed, v0, candidate)
        given = replace(candidate, passes=made)
        more = {"min_delta": DELTA, "bucket_rows": sorted(candidate.labels)[:3]}
        record = decide_early(world.fixed, best=v0, candidate=given, v0=v0, **more)
        if len(made) == len(candidate.passes):
            assert record is None
            continue
        assert record is not None
        whole = decide(world.fixed, best=v0, candidate=candidate, v0=v0, **more).record
        assert record["decision"] == whole["decision"] == "discard"
        assert record["passes"] == {"made": len(made), "of": len(candidate.passes)}
        assert f"decided early, {len(made)} of {len(candidate.passes)} passes" in record["reasoning"][0]
        sure = record["settled"]
        assert set(sure["gained_ids"]) <= set(whole["paired"]["gained_ids"])
        assert set(sure["lost_ids"]) <= set(whole["paired"]["lost_ids"])
        assert set(whole["paired"]["gained_ids"]) <= {*sure["gained_ids"], *sure["open_ids"]}
        if sure["votes"]:  # every vote is in: all that votes decide is there, to the digit
            assert {k: record[k] for k in ("basis", "paired", "audit")} == {
                k: whole[k] for k in ("basis", "paired", "audit")
            }
        else:
            assert record["basis"] == "cannot_gain"
            assert len(sure["lost_ids"]) >= len(sure["gained_ids"]) + len(sure["open_ids"])
        assert "labels_only" not in record  # what missing passes would show is not made up
        assert recompute(record, best=v0, candidate=given, v0=v0) == []
        wrong = {**record, "passes": {"made": len(made), "of": 1}}
        assert [key for key, _, _ in recompute(wrong, best=v0, candidate=given, v0=v0)] == ["passes.of"]
        few = replace(given, passes=made[: len(made) // 2])
        assert recompute(record, best=v0, candidate=few, v0=v0)


def test_nothing_is_decided_early_where_rows_without_a_vote_count_as_wrong() -> None:
    fixed = frame(["a", "b"], failures="wrong")
    with pytest.raises(ValueError, match="excluded"):
        Planner(fixed, best=judged(["a", "b"], ["a", "b"]), excluded={}, keeps=lambda _: False)


def test_lo6_a_candidate_whose_headline_may_not_exist_is_measured_to_its_end() -> None:
    """One constant number for every row loses rows and has no rank correlation: that is no_change, not a discard."""
    truth: list[LabelValue] = [float(1 + n % 5) for n in range(20)]
    fixed = frame(truth, "spearman", kind="numeric", runs=3, resamples=20)
    v0 = judged(truth, [[t] * 3 for t in truth])
    constant = judged(truth, [[3.0] * 3 for _ in truth])
    assert exhaustive(fixed, v0, constant, v0)[0] == "no_change"
    assert staged(fixed, v0, constant, v0) == ("no_change", 60)
    by_error = frame(truth, "mae", kind="numeric", runs=3, resamples=20)  # the same answers do have a mean error
    found, calls = staged(by_error, v0, constant, v0)
    assert (found, calls < 60) == ("discard", True)
