"""Figures as plain aligned text for a terminal. Pure; cells are made safe here (SC-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitter.textsafe import one_line

_WHOLE = 10_000  # so many characters are taken before the middle is cut


def number(value: float | None, digits: int = 4) -> str:
    """``0.8370``, or ``null``."""
    return "null" if value is None else f"{value:.{digits}f}"


def cell(value: object, limit: int = 60) -> str:
    """Untrusted text on one line."""
    return one_line(str(value), limit)


def short(value: object, limit: int = 28) -> str:
    """Untrusted text as a narrow cell; what is cut is its middle, since names of one list often differ at the end."""
    whole = one_line(str(value), _WHOLE)
    if len(whole) <= limit:
        return whole
    tail = (limit - 1) // 3
    return f"{whole[: limit - 1 - tail]}…{whole[-tail:]}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    out = []
    for line in lines:
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        out.append("  " + "  ".join(cells).rstrip())
    return out


def interval(ci: Mapping[str, Any] | None) -> str:
    """``95% CI 0.7400 to 0.9100 (wilson, n=70)`` with every reservation that belongs to it."""
    if ci is None:
        return "no interval"
    if ci["low"] is None:
        return f"no interval ({ci.get('why') or 'null'})"
    notes = [str(ci["method"]), f"n={ci['n']}"]
    if ci["assumes_independent_rows"]:
        notes.append("assumes independent rows")
    if not ci["reliable"]:
        notes.append(str(ci.get("why") or "interval not reliable"))
    return f"95% CI {number(ci['low'])} to {number(ci['high'])} ({', '.join(notes)})"


def figure(value: Mapping[str, Any]) -> str:
    """A figure, or why there is none."""
    return number(value["value"]) if value["value"] is not None else f"null ({value.get('why')})"


def plain(value: Any, limit: int = 60) -> str:
    """A label as people read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "{" + ", ".join(cell(v, 30) for v in value) + "}"
    return cell(value, limit)


def show_score(result: Mapping[str, Any]) -> list[str]:
    """The readable form of ``fitter score``."""
    given = result["inputs"]
    lines = [f"labels {cell(given['labels']['file'], 120)}: {given['labels']['rows']} rows, {given['labels']['kind']}"]
    lines += [_passes_line("passes", given["passes"])]
    if given["against"] is not None:
        lines += [_passes_line("against", given["against"])]
    seeded = given["config_hash"]
    lines += [f"resamples: of {'labels, metric and runs' if seeded is None else f'the fit with config hash {seeded}'}"]
    lines += ["", *card_lines(result)]
    if result["paired"] is not None:
        lines += ["", *paired_lines(result["paired"], result["headline"]["metric"])]
    if result["slices"]:
        head = ("slice", "rows", "scored", "headline", "ci95", "deployable", "constant")
        body = []
        for part in result["slices"]:
            card = part["card"]
            ci = card["headline"]["ci95"]
            ends = "null" if ci["low"] is None else f"{number(ci['low'], 3)}..{number(ci['high'], 3)}"
            body.append(
                (
                    f"{short(part['field'], 20)}={short(part['value'])}",
                    str(card["rows"]["labelled"]),
                    str(card["rows"]["scored"]),
                    number(card["headline"]["value"]),
                    ends if ci["reliable"] else f"{ends} (not reliable)",
                    number(card["deployable"]["mean"]),
                    number(card["constant_judge"]["value"]),
                )
            )
        lines += ["", "Slices: looked at many at once, some differ by chance alone", *table(head, body)]
    return lines


def _passes_line(name: str, given: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{n} {cell(reason, 40)}" for reason, n in given["unusable"].items())
    return f"{name} {cell(given['file'], 120)}: {given['passes']} passes; unusable: {reasons or 'none'}"


def _against_constant(constant: Mapping[str, Any], headline: Mapping[str, Any]) -> str:
    """Whether the headline beats no judge, and whether its interval still reaches it."""
    if headline["value"] is None:
        return "nothing could be scored"
    if not constant["beaten"]:
        return "NOT beaten"
    low, high, bar = headline["ci95"]["low"], headline["ci95"]["high"], constant["bar"]
    if low is None or low <= bar <= high:
        return "beaten, but the interval includes it: not shown to be better"
    return "beaten"


def card_lines(card: Mapping[str, Any]) -> list[str]:
    """One card: headline first, with the policy it hangs on."""
    headline, deployable, rows, policy = card["headline"], card["deployable"], card["rows"], card["policy"]
    constant, accuracy, flips = card["constant_judge"], card["accuracy"], card["flip_rate"]
    vocabulary = "; open vocabulary: an answer that is no class is wrong" if policy["open_vocabulary"] else ""
    lines = [
        f"{cell(headline['metric'])} ({headline['direction']} is better) {figure(headline)}, "
        f"{interval(headline['ci95'])}",
    ]
    if "ci95_groups" in headline:
        lines.append(f"  over groups: {interval(headline['ci95_groups'])}")
    lines += [
        f"policy: {policy['meaning']}; {policy['runs']} runs a row, quorum {policy['quorum']}{vocabulary}",
        f"best constant judge {figure(constant)} (always {plain(constant['label'])}): "
        + _against_constant(constant, headline),
        f"deployable (single passes) {number(deployable['mean'])}, {interval(deployable['ci95'])}",
        f"  stdev {number(deployable['stdev'])}, min {number(deployable['min'])}, max {number(deployable['max'])}; "
        + ", ".join(f"run {r['run']}: {number(r['value'])}" for r in deployable["per_run"])
        + f"; coverage {deployable['coverage'] * 100:.1f}%",
        f"accuracy {figure(accuracy)}, {interval(accuracy['wilson95'])}",
        f"rows: {rows['labelled']} labelled, {rows['scored']} scored",
    ]
    lines += [f"  excluded, {cell(why)}: {len(ids)} ({_ids(ids)})" for why, ids in rows["excluded"].items()]
    lines += [f"  counted wrong, {cell(why)}: {len(ids)} ({_ids(ids)})" for why, ids in rows["counted_wrong"].items()]
    if card["off_vocabulary"]:
        lines.append(f"off vocabulary: {card['off_vocabulary']} passes whose answer is no class; they are wrong")
    lines.append(f"flip rate {figure(flips)} on {flips['rows']} rows, pairwise {number(flips['pairwise'])}")
    quorum = card["quorum"]
    lines.append(
        f"without the quorum {figure(quorum['headline_without_quorum'])} "
        f"({len(quorum['rows_lost_to_quorum_alone'])} rows lost to it alone); "
        f"all unusable rows wrong {figure(quorum['headline_all_unusable_wrong'])}"
    )
    lines += _class_lines(card)
    sure = card["confidence"]
    if any(band["passes"] for band in sure["bands"]):
        lines.append(
            f"confidence: {number(sure['when_right'], 1)} when right, {number(sure['when_wrong'], 1)} when wrong; "
            f"{sure['missing']} missing, {sure['invalid']} invalid"
        )
        body = [
            (f"{b['low']}-{b['high']}", str(b["passes"]), str(b["rows"]), number(b["right"], 3)) for b in sure["bands"]
        ]
        lines += table(("confidence", "passes", "rows", "right"), body)
    return lines + [f"note: {cell(warning, 300)}" for warning in card["warnings"]]


def _class_lines(card: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    body: list[tuple[str, ...]] = []
    if card["per_class"]:
        for name, c in card["per_class"].items():
            ci = c["wilson95"]
            ends = "null" if ci["low"] is None else f"{number(ci['low'], 3)}..{number(ci['high'], 3)}"
            body.append(
                (short(name), str(c["support"]), str(c["predicted"]), number(c["recall"]), ends,
                 number(c["precision"]), number(c["f1"]))
            )  # fmt: skip
        lines += table(("class", "rows", "predicted", "recall", "wilson95", "precision", "f1"), body)
    confusion = card["confusion"]
    if confusion is not None and "counts" in confusion:
        head = ("human ↓ judge →", *(short(c, 14) for c in confusion["columns"]))
        lines += table(head, [(short(plain(c, _WHOLE)), *map(str, n)) for c, n in
                              zip(confusion["classes"], confusion["counts"], strict=True)])  # fmt: skip
    elif confusion is not None:
        body = [
            (short(plain(v["label"], _WHOLE)), *(str(v[k]) for k in ("tp", "fn", "fp", "tn")))
            for v in confusion["one_vs_rest"]
        ]
        lines += table(("value", "tp", "fn", "fp", "tn"), body)
    if card["thirds"]:
        body = [
            (f"{number(t['low'], 2)}..{number(t['high'], 2)}", str(t["rows"]), number(t["mae"])) for t in card["thirds"]
        ]
        lines += table(("label range", "rows", "mae"), body)
    return lines


def paired_lines(paired: Mapping[str, Any], metric: str) -> list[str]:
    """Candidate against best."""
    delta, least = paired["headline_delta"], paired["min_delta"]
    p_name = "sign_p" if "sign_p" in paired else "mcnemar_p"
    p_bootstrap = "" if delta["p"] is None else f"; bootstrap p {number(delta['p'])}"
    terms = ", ".join(f"{k} {number(v)}" for k, v in least["terms"].items() if v is not None)
    lines = [
        f"Paired, candidate minus best, on {paired['rows']} rows; {paired['policy']['meaning']}",
        f"  {cell(metric)} {figure(paired['best'])} → {figure(paired['candidate'])}, delta {figure(delta)} "
        f"({'improved' if delta['improved'] else 'not improved'}), {interval(delta['ci95'])}{p_bootstrap}",
        f"  gained {len(paired['gained_ids'])} ({_ids(paired['gained_ids'])})",
        f"  lost {len(paired['lost_ids'])} ({_ids(paired['lost_ids'])})",
        f"  {p_name} {number(paired[p_name])}: {cell(paired['tests'], 200)}",
        f"  min_delta {number(least['value'])} ({cell(least['winner'])}; {terms}); one row is worth "
        f"{number(least['one_row'])}",
    ]
    for name, check in paired["audit"].items():
        lines.append(f"  audit {name}: {'passed' if check['passed'] else 'FAILED'}: {cell(check['says'], 200)}")
    label = f", {paired['label']}" if paired["label"] else ""
    lines.append(f"  decision: {paired['decision']} ({paired['basis']}{label})")
    return lines + [f"    {cell(sentence, 300)}" for sentence in paired["reasoning"]]


def _ids(rows: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(cell(row, 40) for row in rows[:most])
    return shown + (f", and {len(rows) - most} more" if len(rows) > most else "") if rows else "none"
