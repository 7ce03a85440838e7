"""Processes that die: SIGKILL and SIGINT at arbitrary moments, two processes on one journal, a full disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fitter.calls.journal import Journal

ROOT = Path(__file__).parents[2]
ROWS = 40


def start(folder: Path, *, rows: int = ROWS, wait: float = 0.004, limit: int | None = None) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "tests.judge.killed_phase", str(folder / "calls.sqlite"), str(folder / "bill"), str(rows),
        str(wait), *([] if limit is None else [str(limit)]),
    ]  # fmt: skip
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


def bill(folder: Path) -> list[str]:
    path = folder / "bill"
    return path.read_text().splitlines() if path.exists() else []


def durable(folder: Path) -> list[str]:
    with Journal(folder / "calls.sqlite") as journal:
        return [f"Reply {int(c.row[4:])}|{c.run}|{c.attempt}" for c in journal.calls("fit-1")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """An uninterrupted phase: its output and its bill."""
    folder = tmp_path_factory.mktemp("whole")
    code, out = finish(start(folder))
    assert code == 0
    assert sorted(bill(folder)) == sorted(durable(folder))
    return out, bill(folder)


def killed(folder: Path, sig: signal.Signals, after: float) -> int:
    process = start(folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.send_signal(sig)
    process.communicate(timeout=60)
    return process.returncode


def test_lo7_killed_at_random_moments_nothing_durable_is_paid_again(
    tmp_path: Path, whole: tuple[str, list[str]]
) -> None:
    out, paid = whole
    moments = random.Random(20261130)
    kills = 0
    for _ in range(6):
        before = durable(tmp_path)
        billed = len(bill(tmp_path))
        code = killed(tmp_path, signal.SIGKILL, moments.uniform(0.0, 0.16))
        kills += code == -signal.SIGKILL
        again = bill(tmp_path)[billed:]
        assert not set(before) & set(again)  # what was durable was never asked for again
    assert kills >= 4
    before, billed = durable(tmp_path), len(bill(tmp_path))
    code, resumed = finish(start(tmp_path))
    assert code == 0
    assert not set(before) & set(bill(tmp_path)[billed:])
    assert resumed == out
    assert set(bill(tmp_path)) == set(paid)
    assert sorted(durable(tmp_path)) == sorted(paid)
    # What a kill can lose is bounded: one group that was not durable yet, and the calls in flight.
    assert len(bill(tmp_path)) - len(paid) < kills * (256 + 4)


def test_lo7_ctrl_c_loses_no_call_at_all(tmp_path: Path, whole: tuple[str, list[str]]) -> None:
    out, paid = whole
    code = killed(tmp_path, signal.SIGINT, 0.12)
    assert code in (-signal.SIGINT, 130, 1)
    assert 0 < len(bill(tmp_path)) < len(paid)
    assert sorted(durable(tmp_path)) == sorted(bill(tmp_path))
    code, resumed = finish(start(tmp_path))
    assert (code, resumed) == (0, out)
    assert sorted(bill(tmp_path)) == sorted(paid)


def test_two_processes_share_one_journal(tmp_path: Path, whole: tuple[str, list[str]]) -> None:
    out, paid = whole
    both = [start(tmp_path), start(tmp_path)]
    ends = [finish(process) for process in both]
    assert ends == [(0, out), (0, out)]
    assert sorted(durable(tmp_path)) == sorted(paid)


def test_a_full_disk_stops_resumably_and_nothing_half_written_counts(
    tmp_path: Path, whole: tuple[str, list[str]]
) -> None:
    out, paid = whole
    code, said = finish(start(tmp_path, limit=150_000))
    assert code == 4, said
    assert "fitter resume" in said
    kept = durable(tmp_path)
    billed = len(bill(tmp_path))
    assert len(kept) < len(paid)
    code, resumed = finish(start(tmp_path))
    assert (code, resumed) == (0, out)
    assert not set(kept) & set(bill(tmp_path)[billed:])
