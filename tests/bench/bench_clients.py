"""What a call through a vendor's SDK costs: the real runner, journal on, against a stand-in in its own process.

    python -m tests.bench.bench_clients [--api chat|responses|anthropic] [--rows 1000] [--runs 3] [--latency 0.1]
        [--concurrency 64]

Prints wall clock, its ratio to the ideal (calls x latency / concurrency), CPU time a call here and in the stand-in, and
memory; then what the same phase costs when it is read again from the journal. Run it on a quiet machine: the ratio is
the processor's share as much as ours. Targets of issue 4: at most 1.25; 50,000 rows x 3 under 700 MB (--latency 0).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fitter.calls.journal import Journal
from fitter.clients.base import ModelSettings
from fitter.clients.probe import accepted_names, settle
from fitter.clients.registry import open_client
from fitter.judge.passes import PassResult, measure
from tests.judge.passes_kit import a_prompt, items_for
from tests.suites import ROOT


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--api", choices=("chat", "responses", "anthropic"), default="chat")
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--latency", type=float, default=0.1)
    options.add_argument("--concurrency", type=int, default=64)
    args = options.parse_args()
    kind = "anthropic" if args.api == "anthropic" else "openai"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.serve", kind, str(args.latency)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    choice = {} if kind == "anthropic" else {"api": args.api}
    spec = f"anthropic:m@{url}" if kind == "anthropic" else f"openai:m@{url}/v1"
    client = open_client(spec, {"concurrency": args.concurrency, **choice}, {})
    prompt = a_prompt()
    items = items_for(prompt, args.rows)

    async def probe() -> None:
        await settle(client, prompt.contract, ModelSettings())
        await client.aclose()

    def phase(journal: Journal) -> tuple[PassResult, float, float]:
        """The phase, its wall clock and its CPU time, seconds."""
        began, cpu = time.perf_counter(), time.process_time()
        result = measure(
            client=client,
            prompt=prompt,
            items=items,
            runs=args.runs,
            settings=ModelSettings(),
            journal=journal,
            run_id="bench",
            phase="bench",
            concurrency=args.concurrency,
            accepted_models=accepted_names(client),
        )
        assert all(p.unusable is None for p in result.passes)
        return result, time.perf_counter() - began, time.process_time() - cpu

    asyncio.run(probe())
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "calls.sqlite") as journal:
        result, wall, spent = phase(journal)
        again, wall_again, spent_again = phase(journal)
    served = int(server.communicate()[0].split()[-1])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ideal = result.made * args.latency / args.concurrency
    ratio = f"ideal {ideal:.2f} s, ratio {wall / ideal:.2f}" if ideal else f"{result.made / wall:.0f} calls/s"
    print(
        f"{args.api}: {result.made:,} calls, {args.latency * 1000:.0f} ms each, {args.concurrency} at once: "
        f"{wall:.2f} s, {ratio}; CPU {spent / result.made * 1000:.2f} ms a call, in the stand-in "
        f"{(used.ru_utime + used.ru_stime) / served * 1000:.2f} ms; "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(
        f"again: {again.made:,} calls, {again.reused:,} from the journal: {wall_again:.2f} s; "
        f"CPU {spent_again / max(1, again.reused) * 1000:.2f} ms a pass"
    )


if __name__ == "__main__":
    main()
