"""Runs a fit in forked children that are killed, and resumes it until it ends: a script for the tests here.

    python -m tests.faults.driver WORKSPACE plain
    python -m tests.faults.driver WORKSPACE boundaries      SIGKILL before and after every node, one after the other
    python -m tests.faults.driver WORKSPACE random SEED N   SIGKILL at N random moments

Imports are done once, before forking, so that a child's time is the fit's own. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import langgraph.checkpoint.sqlite
import langsmith
import scipy.stats

from fitter import fitting, settings
from fitter.loop import graph
from fitter.loop.steps import finish, iterate, prepare

LOADED = (langgraph.checkpoint.sqlite, langsmith, scipy.stats, finish, iterate, prepare)

GIVEN = {
    "queue": "practice",
    "goal": "Catch replies that break the support policy",
    "costly": "same",
    "label": "policy_verdict",
    "framing": "grader",
    "metric": "balanced_accuracy",
    "judge": "lexicon",
    "proposer": "lexicon",
    "name": "support_policy",
    "app": "support-assistant",
    "scope": "trace",
    "publish_to": "local",
    "max_iterations": 2,
}
RUN = "support_policy-001"


class Boundaries:
    """Counts node boundaries and kills this process at one of them."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def hit(self) -> None:
        if self.seen == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1

    def install(self) -> None:
        bind = graph._bind

        def killing(step: Any, deps: Any) -> Any:
            node = bind(step, deps)

            def wrapped(state: Any) -> Any:
                self.hit()
                made = node(state)
                self.hit()
                return made

            return wrapped

        graph._bind = killing


def go(workspace: Path) -> None:
    """Starts the fit, or resumes it once it has a folder."""
    fitter = fitting.Fitting(workspace)
    if (workspace / "runs" / RUN / fitting.GIVEN).is_file():
        fitter.resume(RUN)
    else:
        fitter.start(settings.make(**GIVEN))


def child(workspace: Path, at: int | None) -> int:
    """Forks; the child fits and exits 0, or dies. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if at is not None:
            Boundaries(at).install()
        go(workspace)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


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
    workspace, mode = Path(sys.argv[1]), sys.argv[2]
    kills = 0
    if mode == "plain":
        ended(child(workspace, None))
    elif mode == "boundaries":
        # A child that died before node X resumes before X: die after X's effects next. One that died after X's effects,
        # before its checkpoint, also resumes before X: pass X this time, and die before the node that follows.
        while not ended(child(workspace, 0 if not kills else 1 + (kills + 1) % 2)):
            kills += 1
            if kills > 200:
                raise SystemExit("no end in sight")
    else:
        chance = random.Random(int(sys.argv[3]))
        for _ in range(int(sys.argv[4])):
            pid = child(workspace, None)
            time.sleep(chance.uniform(0.0, 1.5))
            os.kill(pid, signal.SIGKILL)
            if ended(pid):
                break
            kills += 1
        while not ended(child(workspace, None)):
            kills += 1
    print(json.dumps({"kills": kills}))


if __name__ == "__main__":
    main()
