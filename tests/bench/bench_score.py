"""What `fitter score` costs on 100,000 rows x 3 passes: run by hand, `python -m tests.bench.bench_score`.

A whole process from start to end, JSON printed: wall-clock and CPU seconds and peak memory. A busy machine inflates
both times; the plain loop that is timed beside it says by how much.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

ROWS, RUNS = 100_000, 3
CLASSES = [f"c{k}" for k in range(5)]


def write_files(folder: Path) -> tuple[Path, Path]:
    chance = random.Random(1)
    labels, passes = folder / "labels.jsonl", folder / "passes.jsonl"
    with labels.open("w", encoding="utf-8") as human, passes.open("w", encoding="utf-8") as said:
        for k in range(ROWS):
            row, label = f"r{k:06d}", chance.choice(CLASSES)
            human.write(json.dumps({"id": row, "label": label}) + "\n")
            for run in range(RUNS):
                answer = label if chance.random() < 0.7 else chance.choice(CLASSES)
                said.write(
                    json.dumps({"id": row, "run": run, "label": answer, "confidence": chance.randrange(50, 100)})
                )
                said.write("\n")
    return labels, passes


def measured(command: list[str]) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds, peak MB) of a process."""
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def plain_loop() -> float:
    """CPU seconds of three million plain additions: about 0.2 on an idle core of 2024."""
    best = 9.0
    for _ in range(5):
        start, total = process_time(), 0
        for k in range(3_000_000):
            total += k * k
        best = min(best, process_time() - start)
    return best


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        labels, passes = write_files(Path(name))
        for metric in ("accuracy", "balanced_accuracy", "macro_f1"):
            command = [sys.executable, "-m", "fitter.cli.main", "score", "--labels", str(labels),
                       "--passes", str(passes), "--metric", metric, "--runs", str(RUNS), "--json"]  # fmt: skip
            wall, cpu, peak = min(measured(command) for _ in range(3))
            print(f"{ROWS:,} rows x {RUNS}, {metric:<18} wall {wall:5.2f} s, CPU {cpu:5.2f} s, peak {peak:4.0f} MB")
    print(f"plain loop beside it: {plain_loop():.3f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(f"bench itself {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
