"""LO-7: a killed run resumes where it was: same decisions byte for byte, and nothing paid for twice."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = "support_policy-001"
# Clocks and SQLite's own bookkeeping differ between any two runs; everything else must be the same byte for byte.
LOOSE = {"events.jsonl", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "run.lock", "fit.lock", "seal.lock",
         "calls.sqlite", "calls.sqlite-wal", "calls.sqlite-shm"}  # fmt: skip


def drive(workspace: Path, *how: str) -> int:
    env = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.faults.driver", str(workspace), *how],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    kills: int = json.loads(done.stdout.splitlines()[-1])["kills"]
    return kills


def artefacts(workspace: Path) -> dict[str, bytes]:
    return {
        p.relative_to(workspace).as_posix(): p.read_bytes()
        for p in sorted(workspace.rglob("*"))
        if p.is_file() and p.name not in LOOSE
    }


def calls(workspace: Path) -> list[str]:
    with sqlite3.connect(workspace / "runs" / "calls.sqlite") as db:
        return sorted(key for (key,) in db.execute("SELECT key FROM calls"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = tmp_path_factory.mktemp("plain")
    drive(workspace, "plain")
    return workspace


def compare(killed: Path, plain: Path) -> None:
    left, right = artefacts(killed), artefacts(plain)
    assert sorted(left) == sorted(right)
    assert [name for name in left if left[name] != right[name]] == []
    assert f"runs/{RUN}/report.md" in left
    assert f"runs/{RUN}/decisions/001.json" in left
    assert calls(killed) == calls(plain)


@pytest.mark.slow
def test_lo7_sigkill_at_every_node_boundary(tmp_path: Path, uninterrupted: Path) -> None:
    kills = drive(tmp_path / "ws", "boundaries")
    assert kills >= 35
    compare(tmp_path / "ws", uninterrupted)


@pytest.mark.slow
def test_lo7_sigkill_at_ten_random_moments(tmp_path: Path, uninterrupted: Path) -> None:
    kills = drive(tmp_path / "ws", "random", "20261130", "10")
    assert kills >= 3
    compare(tmp_path / "ws", uninterrupted)
