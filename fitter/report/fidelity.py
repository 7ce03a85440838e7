"""How the published evaluator will differ from the judge that was measured (PU-5), as a report's section. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.report.figures import code, ids, interval, number, plural, prose
from fitter.report.names import Facts, where


def fidelity(facts: Facts) -> list[str]:
    """The gaps; the score on the rows that the evaluator would see; what the platform had to tell."""
    lines = [f"- {gap}: {sentence}" for gap, sentence in facts["gaps"]]
    lines += [*_seen(facts), *_notes(facts), *_variables(facts)]
    return ["## Fidelity gaps", "", *lines] if lines else []


def _seen(facts: Facts) -> list[str]:
    deployed = facts["deployed"]
    if deployed is None or deployed["deployed"]["rehearsal"]:
        return []
    lines = []
    for _, found in sorted(deployed["seen"].items()):
        stem, score = found["card"], found["score"]
        said = f"the evaluator would see {found['seen']} of {plural(found['labelled'], 'labelled row')}"
        if score is not None:
            said += (
                f"; on those alone the deployable score is {_mean(score['deployable'])}, best constant judge "
                f"{number(score['constant_judge']['value'])} (on all rows "
                f"{number(facts['cards'][stem]['deployable']['mean'])})"
            )
        else:
            said += "; the figures above stand" if found["seen"] else "; there is no figure for what it would see"
        lines.append(f"- seen_rows ({where(facts, stem)}): {said}.")
    for key, called in (("hidden", "Rows it would not see"), ("unknown", "Rows of which that cannot be told")):
        if deployed["deployed"][key]:
            lines.append(f"  - {called}: {ids(sorted(deployed['deployed'][key]))}.")
    return lines


def _mean(deployable: Mapping[str, Any]) -> str:
    return f"{number(deployable['mean'])}, {interval(deployable['ci95'])}"


def _notes(facts: Facts) -> list[str]:
    """What checks and publication had to tell; each once."""
    found = [held["notes"] for held in (facts["checks"], facts["deployed"]) if held is not None]
    return [f"- platform: {prose(note)}." for note in dict.fromkeys(note for notes in found for note in notes)]


def _variables(facts: Facts) -> list[str]:
    deployed = facts["deployed"]
    if deployed is None or not deployed["variables"]:
        return []
    used = "; ".join(
        code(name, 80) + (f" in {plural(n, 'existing evaluator')}" if n else " in none")
        for name, n in deployed["variables"].items()
    )
    return [
        f"- variables: existing evaluators use those of the template as follows: {used}. One that none uses is not "
        "known to resolve there."
    ]
