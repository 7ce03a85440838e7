"""Runs a stand-in as its own process: ``python -m tests.servers.serve openai|anthropic [latency seconds]``.

Prints its URL on the first line, then serves until its standard input ends; then prints how many requests it got.
"""

from __future__ import annotations

import sys

from tests.servers import anthropic_api, openai_api
from tests.servers.loopback import Server


def main() -> None:
    latency = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    if sys.argv[1] == "anthropic":
        script = anthropic_api.api(anthropic_api.Model(before_s=latency))
    else:
        script = openai_api.api(openai_api.Model(before_s=latency))
    with Server(script) as server:
        print(server.url, flush=True)
        sys.stdin.read()
        print(len(server.asked), flush=True)


if __name__ == "__main__":
    main()
