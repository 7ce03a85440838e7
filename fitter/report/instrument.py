"""The report's account of the instrument: what was settled with the provider before v0 (OUT-2). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.clients.instrument import Instrument
from fitter.report.figures import code
from fitter.report.names import Facts

_CALLED = {"judge": "Judge", "advisors": "Drafter, describer and proposer"}


def instrument(facts: Facts) -> list[str]:
    """How each model was called; empty where every model is built in."""
    record = facts["instrument"]
    clients: Mapping[str, Any] = {} if record is None else record["clients"]
    settled = {name: found for name, found in clients.items() if found["instrument"] is not None}
    if not settled:
        return []
    lines = ["## Instrument", "", "Settled in a probe before v0, and the same in every call after it:", ""]
    for name in sorted(settled, key=list(_CALLED).index):
        found = settled[name]
        made = Instrument.from_json(found["instrument"])
        lines.append(
            f"- {_CALLED[name]}: {code(found['spec'], 120)}, answered by {_answered(made)}. {_parameters(made)}"
        )
        lines += [f"  - {said}" for said in made.sentences()]
        refused = [feature for feature, _ in found["refused"]]
        if refused:
            lines.append(f"  - Refused by the provider in the probe, and never sent again: {', '.join(refused)}.")
    if "judge" in settled and facts["winner"] is not None:
        lines += [
            "",
            "An answer from another model is an unusable pass (`wrong_model`). Many of them, or a provider that "
            "refuses what it took before, would have stopped the run: every figure here was measured with this one "
            "instrument.",
        ]
    return lines


def _answered(made: Instrument) -> str:
    return "a model that the provider does not name" if made.model_returned is None else code(made.model_returned, 120)


def _parameters(made: Instrument) -> str:
    mode = {"json_schema": "JSON Schema", "json_object": "JSON object", "text": "plain text"}[made.schema_mode]
    cap = "none taken" if made.token_parameter is None else code(made.token_parameter, 60)
    return f"Schema mode: {mode}; output cap parameter: {cap}; temperature: {made.temperature}."
