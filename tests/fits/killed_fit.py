"""Runs a fit against a stand-in in forked children that are killed, and resumes it until it ends.

    python -m tests.fits.killed_fit WORKSPACE URL SEED KILLS

Prints one JSON object. The stand-in runs in the calling process and counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from pathlib import Path

import langgraph.checkpoint.sqlite
import langsmith
import openai
import scipy.stats

from fitter.loop.steps import finish, iterate, prepare
from tests.servers import fits

LOADED = (langgraph.checkpoint.sqlite, langsmith, openai, scipy.stats, finish, iterate, prepare)


class _At:
    def __init__(self, url: str) -> None:
        self.url = url


def child(workspace: Path, url: str) -> int:
    """Forks; the child fits and exits 0, or dies. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        model = fits.model("chat", _At(url))  # type: ignore[arg-type]
        fits.finish(workspace, fits.given(model, runs=1, concurrency=4, max_iterations=1))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def calls_made(workspace: Path) -> int:
    """Calls that are durable in the journal by now."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{workspace}/runs/calls.sqlite?mode=ro", uri=True)) as journal:
            return int(journal.execute("SELECT count(*) FROM calls").fetchone()[0])
    except sqlite3.OperationalError:  # not there yet
        return 0


def ended(pid: int) -> bool:
    """True when the child ended well, False when it was killed; anything else is a failure of the product."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status):
        raise SystemExit("a child failed instead of ending or being killed")
    return True


def main() -> None:
    """See the module's docstring."""
    workspace, url = Path(sys.argv[1]), sys.argv[2]
    chance, wanted = random.Random(int(sys.argv[3])), int(sys.argv[4])
    kills, over = 0, False
    while kills < wanted and not over:
        # After so many more calls, not after so many seconds: a slow machine is killed as often as a fast one.
        until = calls_made(workspace) + chance.randint(0, 6)
        pid = child(workspace, url)
        while calls_made(workspace) < until and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(pid, signal.SIGKILL)
        over = ended(pid)
        kills += not over
    while not over:
        over = ended(child(workspace, url))
    print(json.dumps({"kills": kills}))


if __name__ == "__main__":
    main()
