"""LO-7 over a wire: a fit that is killed again and again asks for nothing twice but what was in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import fits, openai_api
from tests.servers.analyst import says
from tests.servers.loopback import Server

ROOT = Path(__file__).resolve().parents[2]
CONCURRENCY = 4


@pytest.mark.slow
def test_lo7_sigkill_again_and_again_with_the_server_counting(tmp_path: Path) -> None:
    port = 0

    def drive(name: str, kills: int) -> tuple[int, Counter[bytes]]:
        nonlocal port
        api = openai_api.api(openai_api.Model(says=says, key=fits.CANARY, before_s=0.02))
        with Server(api, port=port) as server:
            port = server.port
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", "tests.fits.killed_fit", str(tmp_path / name), server.url,
                 "20261130", str(kills)],
                cwd=ROOT, env={**os.environ, "FITTER_TEST_KEY": fits.CANARY}, capture_output=True, text=True,
                timeout=300, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-4000:]
            return json.loads(done.stdout)["kills"], Counter(asked.body for asked in server.asked)

    _, plain = drive("plain", 0)
    kills, asked = drive("killed", 30)
    assert kills >= 25
    assert set(asked) == set(plain)
    twice = sum((asked - plain).values())
    # What a kill can lose: calls in flight, and answers of the last moments that were not durable yet (docs/calls.md).
    assert twice <= kills * 2 * CONCURRENCY
    assert fits.decisions(tmp_path / "killed") == fits.decisions(tmp_path / "plain")
    fits.no_key_in(tmp_path / "killed")
