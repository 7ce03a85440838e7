"""What a fit asks of the platform it publishes to: checks before any spend, and what was published there (PU-5)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fitter.jsonio import strict_loads
from fitter.loop.deps import Deps
from fitter.loop.steps.context import Fit, number
from fitter.loop.steps.measuring import card_input
from fitter.publishing.fidelity import Describing
from fitter.publishing.publisher import EvaluatorSpec, Publisher, Remote
from fitter.queues.recap import Intake
from fitter.records import Row
from fitter.scoring.card import card_of
from fitter.scoring.table import CardInput
from fitter.settings import FitSettings, check_platform_options
from fitter.textsafe import one_line

CHECKS = "checks.json"
DEPLOYED = "deployed.json"

_SHOWN_VARIABLES = 12


@contextlib.contextmanager
def opened_publisher(deps: Deps, settings: FitSettings) -> Iterator[Publisher]:
    """The publisher of a fit, its connections released afterwards."""
    publisher = deps.open_publisher(settings, deps.workspace)
    try:
        yield publisher
    finally:
        if isinstance(publisher, Remote):
            publisher.close()


def ask_platform(deps: Deps, settings: FitSettings, found: Intake) -> dict[str, Any]:
    """Asks the platform, before any spend, whether this evaluator may be written there and can run (LO-1, PU-3).

    Returns:
        ``notes``: what a person must be told; ``variables``: template variables of existing evaluators → in how many.
        Each note was told.

    Raises:
        SettingsError: it may not, or cannot; or an option that does not fit.
        Outage: the platform does not answer.
    """
    check_platform_options(settings, found.label)
    told: dict[str, Any] = {"notes": list(queue_notes(settings, found)), "variables": {}}
    with opened_publisher(deps, settings) as publisher:
        publisher.check(settings.name or "", settings.app or "", settings.judge or "")
        if isinstance(publisher, Remote):
            told["notes"] += publisher.notes
            told["variables"] = dict(publisher.variables_in_use(settings.app or ""))
    for note in told["notes"]:
        deps.note(note)
    if told["variables"]:
        deps.note(f"existing evaluators use {shown_variables(told['variables'])}")
    return told


def queue_notes(settings: FitSettings, found: Intake) -> Iterator[str]:
    """What the queue cannot say, and the chosen framing would need."""
    if settings.framing == "replicator" and settings.reads_datadog and not any(r.app_fields for r in found.rows):
        yield (
            "framing replicator: an annotation queue does not say what the app's own verdict step wrote, so no field "
            "is hidden from the judge on that ground; look at the evidence (`fitter evidence ROW`): if a span holds "
            "the app's verdict, the judge would copy it"
        )


def shown_variables(variables: Mapping[str, int]) -> str:
    """The most used ones, for people."""
    most = list(variables.items())[:_SHOWN_VARIABLES]
    rest = f" and {len(variables) - len(most)} more" if len(variables) > len(most) else ""
    return ", ".join("{{" + one_line(name, 60) + "}}" + f" ({n})" for name, n in most) + rest


# -- after the write ------------------------------------------------------------------------------------------------


def write_deployed(
    fit: Fit,
    publisher: Publisher,
    spec: EvaluatorSpec,
    receipt_dir: Path,
    *,
    winner: int,
    held_out: Sequence[Row],
) -> None:
    """Retains what the platform will do with the evaluator, and the score on the rows it would see (PU-5). Idempotent.

    Args:
        fit: the fit.
        publisher: where it was published.
        spec: what was published.
        receipt_dir: where its read-back lies.
        winner: the version that was published.
        held_out: the holdout rows, where this run has opened them.
    """
    if fit.store.has(DEPLOYED) or not isinstance(publisher, Describing):
        return
    config = strict_loads((receipt_dir / "read_back.json").read_text(encoding="utf-8"))
    deployed = publisher.deployed(spec, config, [*fit.train, *held_out])
    unsure = {*deployed.hidden, *deployed.unknown}
    sets: dict[str, Any] = {"train": _on_seen_rows(fit, number(winner), fit.train, fit.groups, unsure)}
    if held_out:
        groups = {r["id"]: r["group"] for r in fit.store.read_rows("labels/holdout.jsonl")}
        sets["holdout"] = _on_seen_rows(fit, "holdout-winner", held_out, groups, unsure)
    fit.store.write(
        DEPLOYED,
        {
            "deployed": asdict(deployed),
            "seen": sets,
            "notes": list(publisher.notes) if isinstance(publisher, Remote) else [],
            "variables": _variables(fit, spec),
        },
    )


def _variables(fit: Fit, spec: EvaluatorSpec) -> dict[str, int]:
    """Each placeholder of the published template → in how many existing evaluators it was in use before the write."""
    if not fit.store.has(CHECKS):
        return {}
    used = fit.store.read(CHECKS)["variables"]
    compiled = fit.target.compile(fit.version(int(spec.metadata["version"])).evidence)
    names = [placeholder.strip("{}") for _, placeholder in compiled.placeholders]
    return {name: used.get(name, 0) for name in names}


def _on_seen_rows(
    fit: Fit, stem: str, rows: Sequence[Row], groups: Mapping[str, str], unsure: set[str]
) -> dict[str, Any]:
    """The winner's figures on the rows that the evaluator would surely see; None where that is all of them."""
    seen = {row.id for row in rows if row.id not in unsure}
    made: dict[str, Any] = {"labelled": len(rows), "seen": len(seen), "card": stem, "score": None}
    if not seen or len(seen) == len(rows):
        return made
    given = card_input(fit, stem, rows, groups)
    card = card_of(
        fit.fixed,
        CardInput(
            labels={k: v for k, v in given.labels.items() if k in seen},
            passes=[p for p in given.passes if p.row in seen],
            groups={k: v for k, v in groups.items() if k in seen},
            excluded={k: v for k, v in given.excluded.items() if k in seen},
        ),
    ).to_json()
    return {**made, "score": {key: card[key] for key in ("deployable", "headline", "constant_judge")}}
