"""A phase of calls in a process of its own, for tests that kill it: `python killed_phase.py JOURNAL COUNTER ROWS WAIT`.

Every call is appended to COUNTER the moment it is made, as one short line: what a provider would have billed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fitter.calls.journal import Journal
from fitter.clients.base import ModelSettings, Reply
from fitter.errors import Stopped
from fitter.judge.passes import measure
from tests.judge.passes_kit import Scripted, a_prompt, by_hash, items_for


def main() -> int:
    path, counter, rows, wait = sys.argv[1:5]
    bill = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def billed(said: str, run: int, attempt: int) -> Reply:
        os.write(bill, f"{said}|{run}|{attempt}\n".encode())
        return by_hash(said, run, attempt)

    if len(sys.argv) > 5:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[5]), int(sys.argv[5])))
    prompt = a_prompt()
    print("ready", flush=True)
    try:
        with Journal(Path(path)) as journal:
            result = measure(
                client=Scripted(billed, wait=float(wait)),
                prompt=prompt,
                items=items_for(prompt, int(rows)),
                runs=3,
                settings=ModelSettings(),
                journal=journal,
                run_id="fit-1",
                phase="v0",
                concurrency=4,
            )
    except Stopped as stop:
        print(stop, flush=True)
        return stop.exit_code
    for made in result.passes:
        print(made.row, made.run, made.label, made.unusable, made.attempts, made.first_fault)
    return 0


if __name__ == "__main__":
    sys.exit(main())
