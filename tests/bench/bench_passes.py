"""Passes a second and peak memory of the runner, journal on: `python tests/bench/bench_passes.py [rows] [runs]`.

Run by hand. The trivial client shows what the runner and the journal cost; the lexicon shows a real fit's speed.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from fitter.calls.journal import Journal
from fitter.clients.base import ModelClient, ModelRequest, ModelSettings, Reply
from fitter.judge.passes import measure
from fitter.lexicon.judge import LexiconClient
from tests.judge.passes_kit import BAD, a_prompt, items_for


class Trivial:
    """Answers at once."""

    spec = "trivial"
    identity: Mapping[str, Any] = {"client": "trivial"}

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        return Reply(outcome="ok", text=BAD)

    async def aclose(self) -> None:
        return None


SAID = "Perhaps you could restart the device, and please contact us again if it does not help. " * 4


def main() -> None:
    rows, runs = (int(a) for a in (sys.argv[1:3] or ("10000", "3")))
    prompt = a_prompt()
    items = items_for(prompt, rows, lambda n: f"{SAID}{n}")
    clients: list[ModelClient] = [Trivial(), LexiconClient()]
    for client in clients:
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "calls.sqlite") as journal:
            for title in ("first", "again"):
                profile = cProfile.Profile() if "--profile" in sys.argv else None
                start, cpu = time.perf_counter(), time.process_time()
                if profile:
                    profile.enable()
                result = measure(
                    client=client,
                    prompt=prompt,
                    items=items,
                    runs=runs,
                    settings=ModelSettings(),
                    journal=journal,
                    run_id="bench",
                    phase="v0",
                )
                if profile:
                    profile.disable()
                    pstats.Stats(profile).sort_stats("tottime").print_stats(22)
                seconds = time.perf_counter() - start
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(
                    f"{client.spec:8} {title}: {len(result.passes):,} passes in {seconds:.2f} s, "
                    f"{len(result.passes) / seconds:,.0f}/s "
                    f"(cpu {time.process_time() - cpu:.2f} s); made {result.made:,}, reused {result.reused:,}; "
                    f"peak {peak:.0f} MB; journal {(Path(folder) / 'calls.sqlite').stat().st_size / 1e6:.0f} MB"
                )


if __name__ == "__main__":
    main()
