"""What stands beside the figures: how much selection alone could gain, and how far the reviewers themselves agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.report.figures import number, plural, table
from fitter.report.names import Facts, rows_called

_MOST_PAIRS = 10


def optimism(facts: Facts) -> list[str]:
    """What the words above mean."""
    found = facts["optimism"]
    if found is None:
        return []
    if found["inflation"]["value"] is None:
        why = found["inflation"]["why"]
        return [f"Selection optimism: not known, because {why}."]
    k = found["candidates"]
    return [
        f"Selection optimism: the best of v0 and {plural(k, 'null candidate')} (v0 asked again, its passes on each row "
        f"drawn anew) would seem better than one of them by {number(found['inflation']['value'])} on average and by up "
        f"to {number(found['upper95']['value'])} in 95% of {found['simulations']} simulations, with no change at all. "
        "It simulates the judge's pass noise only: what a prompt change does to these particular rows comes on top."
    ]


def ceiling(facts: Facts) -> list[str]:
    """Inter-reviewer agreement beside the judge's own score: the ceiling that any judge can reach."""
    found = facts["agreement"]
    if found is None:
        return []
    lines = ["## How far the reviewers agree", ""]
    if not found["rows"]:
        return [
            *lines,
            "No row that the run keeps has two named reviewers, so the ceiling that any judge can reach is not known.",
        ]
    rows = plural(found["rows"], "row")
    lines.append(
        f"On {rows} with two or more named reviewers (train rows, and as large a share of the contested rows, which "
        f"have no label), two reviewers give the same answer in {_figure(found['percent'])} of the pairs; "
        f"Krippendorff's alpha ({found['krippendorff_alpha']['level']}) {_figure(found['krippendorff_alpha'])}, "
        f"Fleiss' kappa {_figure(found['fleiss_kappa'])}."
    )
    if found["mean_difference"] is not None:
        lines.append(f"Their mean absolute difference is {_figure(found['mean_difference'])}: a reviewer's own MAE.")
    for name in ("holdout-winner", facts["winner"]):
        if name in facts["cards"]:
            card = facts["cards"][name]
            same = number(card["accuracy"]["value"])
            mae = f", MAE {number(card['headline']['value'])}" if card["headline"]["metric"] == "mae" else ""
            lines.append(
                f"Beside it, the winner gives the human's answer on the {rows_called(facts, name)} in {same} of its "
                f"votes{mae}."
            )
            break
    lines.append(
        "Agreement among reviewers is the ceiling: where a judge comes near it, what is left of its errors cannot be "
        "told from the reviewers' own."
    )
    pairs = found["pairwise"]
    if pairs:
        body = [[f"{p['a']}, {p['b']}", str(p["rows"]), number(p["equal"]), number(p["cohens_kappa"])] for p in pairs]
        lines += ["", table(("reviewers", "rows", "same answer", "Cohen's kappa"), body[:_MOST_PAIRS])]
        if len(pairs) > _MOST_PAIRS:
            lines.append(f"and {len(pairs) - _MOST_PAIRS} more pairs in `agreement.json`")
    return lines


def _figure(value: Mapping[str, Any]) -> str:
    return number(value["value"]) if value["value"] is not None else f"null ({value['why']})"
