"""Passes that early decisions save on candidates that are not kept: `python -m tests.bench.bench_early [trials]`.

100 rows, 75% of them right, ten borderline ones, 3 runs; simulated judges, the real runner with its journal on.
Targets of issue 4: at least 40% at no true effect, 60% at -10 points.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from fitter.calls.journal import Journal
from tests.loop.worlds import by_runner, outcome
from tests.scoring.build import frame, judged

ROWS, RUNS, BORDERLINE = 100, 3, 10


def answers(chance: random.Random, truth: list[str], right: list[bool], shift: float) -> list[list[str]]:
    """Three passes a row of a judge that changes 5% of the rows either way, and is worse by ``shift`` on the rest."""
    other = {"bad": "good", "good": "bad"}
    table = []
    for k, (label, at) in enumerate(zip(truth, right, strict=True)):
        usual = at if chance.random() < 0.95 else not at
        if shift and usual and chance.random() < -shift / 0.75:
            usual = False
        runs = [chance.random() < 0.5 if k < BORDERLINE else usual for _ in range(RUNS)]
        table.append([label if one else other[label] for one in runs])
    return table


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for effect in (0.0, -0.10):
        chance = random.Random(20261130)
        made = total = kept = 0
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "calls.sqlite") as journal:
            for _ in range(trials):
                truth = [chance.choice(["bad", "good"]) for _ in range(ROWS)]
                fixed = frame(truth, "accuracy", runs=RUNS, resamples=50)
                right = [chance.random() < 0.75 for _ in truth]
                best, candidate = (judged(truth, answers(chance, truth, right, shift)) for shift in (0.0, effect))
                if outcome(fixed, best, candidate, best) == "keep":
                    kept += 1
                    continue
                found, calls = by_runner(fixed, best, candidate, best, journal)
                assert found == "discard"
                made, total = made + calls, total + ROWS * RUNS
        print(f"true effect {effect:+.2f}: {trials - kept} of {trials} not kept; passes saved {1 - made / total:.1%}")


if __name__ == "__main__":
    main()
