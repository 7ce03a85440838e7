"""Whole fits with a real language model on this machine, SmolLM2-135M (suite local): real tokens, strict contracts.

It judges near chance and its advice may be unusable, so the ending is one of the honest ones: an evaluator, none, or no
first draft. Which one hangs on the machine's arithmetic; what is asserted holds of each.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import FITTER, ROOT, cli, flags, interactions, write_jsonl

pytestmark = [pytest.mark.slow, pytest.mark.suite("local")]

SPEC = "local:smollm2"
RUN = "helpful-001"
ROWS, RUNS = 4, 3


def journal(workspace: Path) -> list[dict[str, Any]]:
    """Every call on record, oldest first."""
    path = workspace / "runs" / "calls.sqlite"
    if not path.is_file():
        return []
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute("SELECT * FROM calls ORDER BY id")]


def given(folder: Path, **changes: str) -> list[object]:
    """``fit`` with every answer; caps keep a model that repeats itself from writing on."""
    config = folder / "fit.toml"
    config.write_text("[judge_options]\nmax_output_tokens = 64\n[proposer_options]\nmax_output_tokens = 400\n")
    queue = write_jsonl(folder / "queue.jsonl", interactions(ROWS))
    return ["fit", queue, "--config", config, *flags(judge=SPEC, runs=str(RUNS), **changes), "--yes"]


def killed_after(workspace: Path, calls: int, *argv: object) -> str | None:
    """Starts a command and kills it, with SIGKILL, once so many judge calls are on record; its words if it failed."""
    process = subprocess.Popen(
        [*FITTER, "--workspace", str(workspace), *map(str, argv)], cwd=ROOT, env=dict(os.environ),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 300
    while sum(call["row"] != "" for call in journal(workspace)) < calls:
        if process.poll() is not None:
            said = process.communicate()[1]
            assert process.returncode == 1, said
            return said
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    return None


def test_judge_and_advisors_are_a_real_model_killed_resumed_and_replayed(tmp_path: Path) -> None:
    # A draft of such a model is refused as often as not; where each is, the model still judges another's draft.
    for proposer, notes in ((SPEC, ""), (SPEC, "Be strict."), (SPEC, "Be kind."), ("lexicon", "")):
        ws = tmp_path / f"ws {proposer} {notes}"
        failed = killed_after(ws, 4, *given(tmp_path, proposer=proposer, max_iterations="1", notes=notes))
        before = journal(ws)
        if failed is None:
            break
        assert "there is no first draft" in failed
        assert {call["role"] for call in before} == {"judge", "proposer", "drafter"}  # both probes, and the drafter
    assert failed is None
    done = cli("--workspace", ws, "resume", RUN)
    assert done.code in (0, 3), done.all
    after = journal(ws)

    # Nothing answered is asked again, and what was answered stays.
    assert after[: len(before)] == before
    assert max(Counter((c["phase"], c["row"], c["run"], c["attempt"], c["request_hash"]) for c in after).values()) == 1
    folder = ws / "runs" / RUN
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    reused = [event["reused"] for event in events if event.get("phase") == "draft:000" and "reused" in event]
    assert reused == [sum(call["phase"] == "draft:000" for call in before)]

    # A real model: it names itself, bills tokens, and its draft is its own.
    assert {call["model"] for call in after} == {"SmolLM2-135M-Instruct.Q4_1.gguf"}
    assert all(call["input_tokens"] > 0 and call["output_tokens"] > 0 for call in after)
    assert proposer == "lexicon" or any(call["outcome"] == "ok" and call["role"] == "drafter" for call in after)
    assert {call["outcome"] for call in after} <= {"ok", "length"}  # under grammar nothing else ends a call
    passes = [json.loads(line) for line in (folder / "passes" / "000.jsonl").read_text().splitlines()][1:]
    assert len(passes) == ROWS * RUNS
    assert {p.get("unusable") for p in passes} <= {None, "length", "blank_reasoning"}
    assert any(p.get("unusable") is None for p in passes)

    report = (folder / "report.md").read_text()
    assert "Judge: `local:smollm2`, answered by `SmolLM2-135M-Instruct.Q4_1.gguf`. Schema mode: JSON Schema" in report
    assert "nothing was paid for: every model ran on this machine" in report
    if done.code == 0:
        assert json.loads((folder / "receipt.json").read_text())["receipt"]["fields_different"] == 0
    else:
        assert "no evaluator was created, because" in report

    replayed = cli("--workspace", ws, "replay", RUN)
    assert replayed.code == 0, replayed.all
    assert "nothing differs" in replayed.out
    spent = cli("--workspace", ws, "cost", RUN)
    assert spent.out.splitlines()[0] == f"run {RUN}: cost nothing"
    assert f"{sum(call['output_tokens'] for call in after if call['role'] == 'judge')} output tokens" in spent.out
    assert cli("--workspace", ws, "show", RUN).code == 0
