"""What is true of a run, gathered once from its tracked artefacts; every report renders this and nothing else."""

from __future__ import annotations

from typing import Any

from fitter.runstore import RunStore


def gather(store: RunStore) -> dict[str, Any]:
    """Facts of a run, as far as it got, from the tracked half alone."""

    def maybe(name: str) -> dict[str, Any] | None:
        return store.read(name) if store.has(name) else None

    return {
        "run": store.run_id,
        "config": maybe("config.json"),
        "intake": maybe("intake.json"),
        "split": maybe("split.json"),
        "map": maybe("map.json"),
        "isolation": maybe("isolation.json"),
        "baseline": maybe("baseline.json"),
        "degenerate": maybe("degenerate.json"),
        "cards": {name: store.read(f"cards/{name}.json") for name in store.names("cards")},
        "prompts": {name: store.read(f"prompts/{name}.json") for name in store.names("prompts")},
        "decisions": [store.read(f"decisions/{name}.json") for name in store.names("decisions")],
        "stop": maybe("stop.json"),
        "holdout": maybe("holdout.json"),
        "injection": maybe("injection.json"),
        "result": maybe("result.json"),
        "ledger": store.read_rows("ledger.jsonl") if store.has("ledger.jsonl") else [],
        "receipt": maybe("receipt.json"),
    }
