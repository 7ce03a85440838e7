"""The report's account of every card: classes, confusion, rows without a verdict (ME-2, GT-7, OUT-4, EV-6). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.report.facts import main_card
from fitter.report.figures import code, ids, interval, number, prose, table
from fitter.report.names import Facts, cards_shown


def per_class(facts: Facts) -> list[str]:
    """What stands beside each headline of the score table, the card of the report's first figure first."""
    main = main_card(facts)
    lines: list[str] = []
    for stem, called in sorted(cards_shown(facts), key=lambda shown: shown[0] != main):
        lines += [f"## By class: {called}", "", *_card(facts["cards"][stem]), ""]
    return lines[:-1]


def _card(card: Mapping[str, Any]) -> list[str]:
    """Confusion, recalls with Wilson, thirds of a numeric range, small classes."""
    lines = []
    if card["per_class"]:
        rows = [
            [code(label, 60), str(c["support"]), _recall(c), number(c["precision"]), number(c["f1"])]
            for label, c in card["per_class"].items()
        ]
        lines += [table(("class", "rows", "recall", "precision", "F1"), rows), ""]
    confusion = card["confusion"]
    if confusion is not None and "counts" in confusion:
        head = ["human ↓, judge →", *(code(c, 40) for c in confusion["columns"])]
        counted = zip(confusion["classes"], confusion["counts"], strict=True)
        body = [[code(_plain(c), 60), *(str(n) for n in row)] for c, row in counted]
        lines += [table(head, body), ""]
    elif confusion is not None:
        body = [
            [code(_plain(v["label"]), 60), *(str(v[k]) for k in ("tp", "fn", "fp", "tn"))]
            for v in confusion["one_vs_rest"]
        ]
        lines += [table(("value", "held, said", "held, not said", "not held, said", "neither"), body), ""]
    if card["thirds"]:
        body = [
            [f"{number(t['low'])} to {number(t['high'])}", str(t["rows"]), number(t["mae"])] for t in card["thirds"]
        ]
        lines += [table(("third of the label range", "rows", "MAE"), body), ""]
    small = card["small_classes"]
    if small["classes"]:
        names = ", ".join(code(_plain(c), 60) for c in small["classes"])
        without = small["headline_without"]
        lines.append(
            f"Not separately measurable here, with under 6 rows: {names}. The headline is "
            f"{number(card['headline']['value'])} with them and "
            f"{number(None if without is None else without['value'])} "
            "without them."
        )
    lines += [prose(f"{warning[0].upper()}{warning[1:]}.") for warning in card["warnings"]]
    return lines


def _recall(figures: Mapping[str, Any]) -> str:
    if figures["recall"] is None:
        return "null (no rows)"
    return f"{number(figures['recall'])}, {interval(figures['wilson95'])}"


def _plain(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def exclusions(facts: Facts) -> list[str]:
    """Rows that each card left out, by reason, and what the quorum costs."""
    shown = cards_shown(facts)
    if not shown:
        return []
    lines = ["## Rows without a verdict", ""]
    for stem, called in shown:
        card = facts["cards"][stem]
        said = "; ".join(f"{reason}: {ids(rows)}" for reason, rows in card["rows"]["excluded"].items()) or "none"
        quorum = card["quorum"]
        lines.append(f"- {called}: {said}. Policy: {card['policy']['meaning']}.")
        lines.append(
            f"  A vote needs {card['policy']['quorum']} of {card['policy']['runs']} usable passes, a "
            "declared deviation. "
            f"Rows lost to it alone: {ids(quorum['rows_lost_to_quorum_alone']) or 'none'}; headline without it "
            f"{number(quorum['headline_without_quorum']['value'])}, with every unusable row counted wrong "
            f"{number(quorum['headline_all_unusable_wrong']['value'])}."
        )
    return lines
