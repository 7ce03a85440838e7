"""Runs the command line as a user would, and makes the small queues it is run on."""

from __future__ import annotations

import atexit
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FITTER = [sys.executable, "-W", "ignore", "-m", "fitter.cli.main"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        """Both streams."""
        return self.out + self.err


class _Zygote:
    """Starts on the first command; see tests/cli/zygote.py."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def send(self, order: Mapping[str, Any]) -> int:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.cli.zygote"],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            atexit.register(self.close)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        code: int = json.loads(stdout.readline())["code"]
        return code

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate("", timeout=10)
            self._process = None


_ZYGOTE = _Zygote()


def cli(
    *argv: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    fsize: int | None = None,
    nobody: bool = False,
) -> Ended:
    """Runs ``fitter ARGV`` in a process of its own.

    Args:
        argv: the arguments.
        cwd: where; default an empty folder.
        env: variables added to the environment.
        fsize: no file may grow past so many bytes (a full disk).
        nobody: run without the superuser's rights, where the tests have them.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        out, err = Path(folder) / "out", Path(folder) / "err"
        code = _ZYGOTE.send(
            {"argv": [str(a) for a in argv], "cwd": str(cwd or folder), "env": dict(env or {}), "out": str(out),
             "err": str(err), "fsize": fsize, "nobody": nobody}
        )  # fmt: skip
        ended = Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
    assert "Traceback" not in ended.all, ended.all
    return ended


# What a fit must be told, without label: the queue's only one is taken.
ANSWERS: dict[str, str] = {
    "goal": "Catch replies that help nobody",
    "costly": "same",
    "framing": "grader",
    "metric": "balanced_accuracy",
    "judge": "lexicon",
    "proposer": "lexicon",
    "name": "helpful",
    "app": "shop",
    "publish-to": "local",
    "max-iterations": "1",
    "runs": "1",
}


def flags(**changes: str | None) -> list[str]:
    """The answers as flags; a change of None leaves a flag out."""
    given: dict[str, str | None] = {**ANSWERS, **{k.replace("_", "-"): v for k, v in changes.items()}}
    return [f"--{k}={v}" for k, v in given.items() if v is not None]


def fit(workspace: Path, queue: object, *more: object, cwd: Path | None = None, **changes: Any) -> Ended:
    """``fitter fit`` with every answer and ``--yes``."""
    run: dict[str, Any] = {k: changes.pop(k) for k in ("env", "fsize", "nobody") if k in changes}
    return cli("--workspace", workspace, "fit", queue, *flags(**changes), "--yes", *more, cwd=cwd, **run)


def interactions(n: int = 48, **more: Any) -> list[dict[str, Any]]:
    """Flat rows of two kinds of reply that the lexicon judge can tell apart, most of the time."""
    rows = []
    for i in range(n):
        good = i % 2 == 0
        reply = (
            f"Please open Settings, choose Account {i} and click Reset. You will have it by Monday."
            if good
            else f"I am not sure, maybe it could perhaps be number {i}. Sorry about that."
        )
        if i % 7 == 3:
            reply = f"Thank you for message {i}."
        rows.append(
            {
                "id": f"t-{i:03d}",
                "input": f"How do I reset box {i}?",
                "output": reply,
                "label": "good" if good else "bad",
                "reason": "It says concretely what to do." if good else "It hedges and does not say what to do.",
                **more,
            }
        )
    return rows


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A flat JSON Lines queue."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A flat CSV queue."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def runs_of(workspace: Path) -> list[str]:
    """Run folders, hidden left-overs included; without the journal and git's file."""
    folder = workspace / "runs"
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir())
