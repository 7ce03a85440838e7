"""What scoring costs: run by hand, `python -m tests.bench.bench_scoring`; figures go to the closing note.

Times are CPU seconds of one thread, so that a busy machine does not change them much.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import random  # noqa: E402
import resource  # noqa: E402
from collections.abc import Callable  # noqa: E402
from time import process_time  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from fitter.loop.decide import decide  # noqa: E402
from fitter.records import Pass  # noqa: E402
from fitter.scoring.bootstrap import compress, figures  # noqa: E402
from fitter.scoring.card import card_of  # noqa: E402
from fitter.scoring.frame import Fixed, fix  # noqa: E402
from fitter.scoring.metrics import Metric  # noqa: E402
from fitter.scoring.paired import min_delta  # noqa: E402
from fitter.scoring.statistic import measure  # noqa: E402
from fitter.scoring.table import CardInput  # noqa: E402

CLASSES = [f"c{k}" for k in range(5)]


def frame(metric: str, labels: dict[str, str]) -> Fixed:
    return fix(
        kind="categorical",
        labels=labels,
        metric=Metric.parse(metric, kind="categorical", classes=CLASSES),
        runs=3,
        seed=1,
        classes=CLASSES,
    )


def timed(task: Callable[[], Any], best_of: int = 3) -> tuple[float, Any]:
    times, out = [], None
    for _ in range(best_of):
        start = process_time()
        out = task()
        times.append(process_time() - start)
    return min(times), out


def macro_f1(truth: list[int], said: list[int]) -> float:
    total = 0.0
    for k in range(5):
        hits = sum(t == k == s for t, s in zip(truth, said, strict=True))
        total += 2 * hits / (truth.count(k) + said.count(k))
    return total / 5


def plain_row_resampling(truth: list[int], a: list[int], b: list[int], resamples: int) -> None:
    rng = random.Random(1)
    n = len(truth)
    for _ in range(resamples):
        pick = [rng.randrange(n) for _ in range(n)]
        t = [truth[i] for i in pick]
        macro_f1(t, [b[i] for i in pick]) - macro_f1(t, [a[i] for i in pick])


def bootstraps() -> None:
    rng = np.random.default_rng(0)
    fixed = frame("macro_f1", {f"r{k}": CLASSES[k % 5] for k in range(50)})
    for n in (5_000, 1_000_000):
        truth = rng.integers(0, 5, n)
        a = np.where(rng.random(n) < 0.70, truth, rng.integers(0, 5, n))
        b = np.where(rng.random(n) < 0.75, truth, rng.integers(0, 5, n))
        counting, patterns = timed(lambda t=truth, a=a, b=b: compress([t, a, b]), 1)
        before = measure(fixed, CLASSES, patterns.keys[:, 0], patterns.keys[:, 1]).compute
        after = measure(fixed, CLASSES, patterns.keys[:, 0], patterns.keys[:, 2]).compute

        def task(p: Any = patterns, x: Any = before, y: Any = after) -> Any:
            return figures(p, lambda w: y(w) - x(w), resamples=10_000, seed=1, purpose="bench")

        spent, _ = timed(task, 5)
        print(
            f"10,000 paired macro_f1 resamples, {n:>9,} rows: {spent * 1e3:6.1f} ms (counting {counting * 1e3:.1f} ms)"
        )
        if n == 5_000:
            lists = [x.tolist() for x in (truth, a, b)]
            plain, _ = timed(lambda x=lists: plain_row_resampling(*x, 20), 1)
            ratio = plain * 500 / spent
            print(f"  plain Python row resampling, extrapolated from 20: {plain * 500:6.1f} s, ratio {ratio:,.0f}")


def cards() -> None:
    rng = random.Random(2)
    for n in (50, 200, 1_000, 100_000):
        for metric in ("accuracy", "balanced_accuracy", "macro_f1"):
            labels = {f"r{k:06d}": rng.choice(CLASSES) for k in range(n)}
            fixed = frame(metric, labels)

            def judge(skill: float, labels: dict[str, str] = labels) -> CardInput:
                passes = [
                    Pass(
                        row=row,
                        run=run,
                        label=label if rng.random() < skill else rng.choice(CLASSES),
                        confidence=rng.randrange(50, 100),
                    )
                    for row, label in labels.items()
                    for run in range(3)
                ]
                return CardInput(labels=labels, passes=passes)

            best, candidate = judge(0.7), judge(0.75)
            spent, card = timed(lambda f=fixed, b=best: card_of(f, b), 1 if n > 1_000 else 3)
            noise = min_delta(fixed, card.deployable, card.rows.scored)
            both, _ = timed(
                lambda f=fixed, b=best, c=candidate, m=noise: decide(f, best=b, candidate=c, v0=b, min_delta=m), 1
            )
            print(f"{n:>7,} rows x 3, {metric:<18} card {spent:6.3f} s, decision {both:6.3f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:,.0f} MB")


if __name__ == "__main__":
    bootstraps()
    cards()
