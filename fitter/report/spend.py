"""What a fit used and cost, from its ledger rows (SC-1, SC-2): judge and advisors apart, unknown beside known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitter.report.figures import plural

ADVISORS = ("drafter", "describer", "proposer")


@dataclass(frozen=True, kw_only=True)
class Spend:
    """Sums over ledger rows.

    Attributes:
        calls, retries, unusable: attempts.
        input, output: known tokens; ``tokens_unknown`` calls named none.
        cost: of the calls whose cost is known, None when there is none; ``cost_unknown`` counts the others.
        upper_bound: some tokens were billed at a higher price for want of a better one.
    """

    calls: int
    retries: int
    unusable: int
    input: int
    output: int
    tokens_unknown: int
    cost: float | None
    cost_unknown: int
    upper_bound: bool


def spend(rows: Iterable[Mapping[str, Any]]) -> Spend:
    """Sums ledger rows (``calls/ledger.py``)."""
    given = list(rows)
    known = [row["cost"]["known"] for row in given if row["cost"]["known"] is not None]
    return Spend(
        calls=sum(row["calls"] for row in given),
        retries=sum(row["retries"] for row in given),
        unusable=sum(sum(row["unusable"].values()) for row in given),
        input=sum(row["tokens"]["input"]["known"] for row in given),
        output=sum(row["tokens"]["output"]["known"] for row in given),
        tokens_unknown=sum(max(row["tokens"][k]["calls_unknown"] for k in ("input", "output")) for row in given),
        cost=math.fsum(known) if known else None,
        cost_unknown=sum(row["cost"]["calls_unknown"] for row in given),
        upper_bound=any(row["cost"]["upper_bound"] for row in given),
    )


def cost_text(made: Spend) -> str:
    """Cost in words; an unknown part is never left out."""
    if made.cost is None or (made.cost == 0 and made.cost_unknown):
        return "cost unknown"
    if made.cost == 0:
        return "cost nothing"
    text = f"cost {'at most ' if made.upper_bound else ''}{made.cost:.6f} USD"
    return text if not made.cost_unknown else f"{text} known, and {plural(made.cost_unknown, 'call')} of unknown cost"


def tokens_text(made: Spend) -> str:
    """Tokens in words."""
    text = f"{made.input} input and {made.output} output tokens"
    return (
        text if not made.tokens_unknown else f"{text} known, and {plural(made.tokens_unknown, 'call')} that named none"
    )


def lines_by_role(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a role, then the advisors' sum beside the judge's (SC-2)."""
    lines = []
    for role in ("judge", *ADVISORS):
        found = [row for row in rows if row["role"] == role]
        if found:
            made = spend(found)
            lines.append(
                f"{role}: {plural(made.calls, 'call')}, of these {plural(made.retries, 'retry', 'retries')}; "
                f"{plural(made.unusable, 'unusable answer')}; {tokens_text(made)}; {cost_text(made)}"
            )
    others = [row for row in rows if row["role"] in ADVISORS]
    if len({row["role"] for row in others}) > 1:
        lines.append(f"drafter, describer and proposer together: {cost_text(spend(others))}")
    return lines
