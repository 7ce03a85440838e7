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

from fitter.calls.journal import Journal
from fitter.clients.base import ModelClient, ModelRequest, ModelSettings, Reply
from fitter.evidence.map import EvidenceField
from fitter.evidence.targets.base import Compiled
from fitter.judge.passes import Item, measure
from fitter.judge.prompt import JudgePrompt, build_prompt
from fitter.labels import LabelSchema
from fitter.records import Criterion, Draft, VerdictContract


class Trivial:
    """Answers at once."""

    spec = "trivial"
    identity: Mapping[str, Any] = {"client": "trivial"}

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        return Reply(outcome="ok", text='{"reasoning":"it names no action","label":"bad","confidence":60}')

    async def aclose(self) -> None:
        return None


def a_prompt() -> JudgePrompt:
    label = LabelSchema(id="q", name="quality", kind="categorical", classes=("bad", "good"))
    schema = {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "label": {"type": "string", "enum": ["bad", "good"]},
            "confidence": {"type": "integer"},
        },
        "required": ["reasoning", "label", "confidence"],
        "additionalProperties": False,
    }
    contract = VerdictContract(
        label_field="label", reasoning_field="reasoning", confidence_field="confidence", schema=schema, label=label
    )
    draft = Draft(
        task="Grade the support assistant's reply.",
        criteria=(
            Criterion(id="c1", label="bad", text="The reply hedges instead of answering."),
            Criterion(id="c2", label="good", text="The reply names a concrete action."),
        ),
        otherwise="good",
    )
    fields = Compiled(
        placeholders=(
            (EvidenceField(name="input", path="meta.input.value"), "{{span_input}}"),
            (EvidenceField(name="output", path="meta.output.value"), "{{span_output}}"),
        ),
        gaps=(),
    )
    return build_prompt(draft, contract, fields)


def items_for(prompt: JudgePrompt, rows: int) -> list[Item]:
    said = "Perhaps you could restart the device, and please contact us again if it does not help. " * 4
    return [
        Item(
            row=f"row-{n:06d}",
            user_text=prompt.user_template.replace("{{span_input}}", f"Question {n}").replace(
                "{{span_output}}", f"{said}{n}"
            ),
        )
        for n in range(rows)
    ]


def main() -> None:
    rows, runs = (int(a) for a in (sys.argv[1:3] or ("10000", "3")))
    prompt = a_prompt()
    items = items_for(prompt, rows)
    clients: list[ModelClient] = [Trivial()]
    try:
        from fitter.lexicon.judge import LexiconClient

        clients.append(LexiconClient())
    except ImportError:
        print("lexicon: not there")
    for client in clients:
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "calls.sqlite") as journal:
            for title in ("first", "again"):
                profile = cProfile.Profile() if "--profile" in sys.argv else None
                start = time.perf_counter()
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
                    f"{len(result.passes) / seconds:,.0f}/s; made {result.made:,}, reused {result.reused:,}; "
                    f"peak {peak:.0f} MB; journal {(Path(folder) / 'calls.sqlite').stat().st_size / 1e6:.0f} MB"
                )


if __name__ == "__main__":
    main()
