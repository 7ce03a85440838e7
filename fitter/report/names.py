"""What figures are called in a report: in-sample, out of sample or exposed; and whether they beat no judge. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fitter.report.facts import HOLDOUT_V0, HOLDOUT_WINNER
from fitter.report.figures import number, plural

Facts: TypeAlias = Mapping[str, Any]


def chance(facts: Facts) -> str:
    """The few words that follow "in-sample, selected from k candidates" wherever a train figure is shown."""
    found = facts["optimism"]
    if found is None:
        return ""
    if found["inflation"]["value"] is None:
        return "; what selection alone would gain is not known"
    return f"; selection from noise alone would gain {number(found['inflation']['value'])}"


def in_sample(facts: Facts, *, brief: bool = False) -> str:
    """How every train figure is called (SP-1); brief, where what selection from noise would gain stands beside it."""
    called = f"in-sample, selected from {plural(facts['result']['versions'], 'candidate')}"
    return called if brief else called + chance(facts)


def where(facts: Facts, card: str) -> str:
    """What the rows of a card are called."""
    if card in (HOLDOUT_WINNER, HOLDOUT_V0):
        return facts["holdout"]["exposure"] or "holdout, opened once"
    return in_sample(facts)


def rows_called(facts: Facts, card: str, *, brief: bool = False) -> str:
    """The side a card's rows stand on, with the name that every figure on them carries (SP-1, SP-5)."""
    if card not in (HOLDOUT_WINNER, HOLDOUT_V0):
        return f"train ({in_sample(facts, brief=brief)})"
    return str(facts["holdout"]["exposure"] or "holdout")


def side(facts: Facts, card: str) -> str:
    """:func:`where` without any figure, for a sentence that stands before the report's first one (ME-4)."""
    if card in (HOLDOUT_WINNER, HOLDOUT_V0):
        return where(facts, card)
    return in_sample(facts, brief=True)


def noise_gain(facts: Facts, stem: str) -> str:
    """What selection from noise alone would gain, for a table's cell beside a train figure; a dash on held-out rows."""
    if facts["optimism"] is None or stem in (HOLDOUT_V0, HOLDOUT_WINNER):
        return "-"
    return number(facts["optimism"]["inflation"]["value"])


def cards_shown(facts: Facts, *, brief: bool = False) -> list[tuple[str, str]]:
    """The cards whose headlines a report shows, as (stem, version and rows): v0 and winner on train, then held out."""
    only = facts["v0"] == facts["winner"]
    won = "v0 = winner" if only else "winner"
    train = [(facts["winner"], won)] if only else [(facts["v0"], "v0"), (facts["winner"], won)]
    named = [*train, (HOLDOUT_V0, "v0"), (HOLDOUT_WINNER, won)]
    return [
        (stem, f"{called}, {rows_called(facts, stem, brief=brief)}") for stem, called in named if stem in facts["cards"]
    ]


def reaches(ci: Mapping[str, Any] | None, bar: float | None) -> bool:
    """True when an interval includes the constant judge's figure, or there is no interval to tell."""
    if bar is None:
        return False
    if ci is None or ci.get("low") is None:
        return True
    return bool(ci["low"] <= bar <= ci["high"])


def beaten(facts: Facts, card: str, value: float | None) -> bool:
    """True when a figure is strictly better than the constant judge's on the same rows."""
    bar = facts["cards"][card]["constant_judge"]["bar"]
    sign = 1 if facts["cards"][card]["headline"]["direction"] == "higher" else -1
    return value is not None and bar is not None and (value - bar) * sign > 1e-12
