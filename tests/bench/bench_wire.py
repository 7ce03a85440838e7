"""The runner through the OpenAI SDK against a slow server.

Run by hand: `python tests/bench/bench_wire.py [rows] [runs] [concurrency]`.
The stand-in is a process of its own and answers after 100 ms. Ideal is calls x latency / concurrency.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fitter.calls.journal import Journal
from fitter.clients.base import ModelSettings
from fitter.clients.registry import open_client
from fitter.judge.passes import measure
from tests.judge.passes_kit import a_prompt, items_for

ROOT = Path(__file__).parents[2]
LATENCY = 0.1


def main() -> None:
    rows, runs, concurrency = (int(a) for a in (sys.argv[1:4] or ("1000", "3", "64")))
    prompt = a_prompt()
    items = items_for(prompt, rows)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.serve", "openai", str(LATENCY)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    options = {"concurrency": concurrency, "api": "chat"}
    client = open_client(f"openai:gpt-5.4-mini@{url}/v1", options, {"OPENAI_API_KEY": "none"})
    loads = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "calls.sqlite") as journal:
        for title in ("warm", "first", "again"):
            some = items[:64] if title == "warm" else items
            start, cpu = time.perf_counter(), time.process_time()
            result = measure(
                client=client, prompt=prompt, items=some, runs=runs, settings=ModelSettings(), journal=journal,
                run_id="warm" if title == "warm" else "bench", phase="v0", concurrency=concurrency,
            )  # fmt: skip
            wall, used = time.perf_counter() - start, time.process_time() - cpu
            ideal = result.made * LATENCY / concurrency
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            ratio = f"{wall / ideal:.2f} x ideal ({ideal:.2f} s)" if ideal else "all from the journal"
            print(
                f"{title}: {result.made:,} calls, {result.reused:,} reused, {wall:.2f} s, {ratio}; "
                f"cpu {1e3 * used / max(1, len(result.passes)):.2f} ms a pass; peak {peak:.0f} MB"
            )
    print(
        "load before and after:", *(f"{x:.2f}" for x in (loads[0], os.getloadavg()[0])), "on", os.cpu_count(), "cores"
    )
    out, _ = server.communicate()
    print("requests the server got:", out.split()[-1])


if __name__ == "__main__":
    main()
