"""The report's figures: scores, classes, disagreements, decisions. Pure; every figure with its reservation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.loop.stop import SENTENCES
from fitter.report import limits as limits_of
from fitter.report.facts import HOLDOUT_WINNER, main_card
from fitter.report.figures import Instruments, code, figure, ids, interval, number, plain_figure, plural, prose, table
from fitter.report.glossary import DECIDES, TERMS, words
from fitter.report.names import Facts, beaten, cards_shown, in_sample, noise_gain, reaches, rows_called, side, where
from fitter.scoring.values import EPSILON


def opening(facts: Facts) -> list[str]:
    """The first sentences: what must not be overlooked, then the deployable score (PU-2, ME-4)."""
    name = main_card(facts)
    if name is None:
        return []
    card = facts["cards"][name]
    deployable, headline, constant = card["deployable"], card["headline"], card["constant_judge"]
    lines = []
    shortfalls = [
        what
        for what, value in (("deployable score", deployable["mean"]), ("headline", headline["value"]))
        if not beaten(facts, name, value)
    ]
    if shortfalls:
        which = " and the ".join(shortfalls)
        lines.append(
            # No figure here: the report's first one is the deployable score, in the next sentence (ME-4).
            f"**Not shown to be better than no judge: the {which} of the winner ({side(facts, name)}) "
            f"{'is' if len(shortfalls) == 1 else 'are'} not better than the constant judge that always answers "
            f"{code(constant['label'])}. Do not rely on it.**"
        )
    elif reaches(deployable["ci95"], constant["bar"]):
        lines.append(
            "**Not shown to be better than no judge: the interval of the deployable score includes what the constant "
            f"judge that always answers {code(constant['label'])} gets ({side(facts, name)}).**"
        )
    runs = ", ".join(f"run {r['run'] + 1}: {number(r['value'])}" for r in deployable["per_run"])
    lines.append(
        f"**Deployable score: {headline['metric']} {number(deployable['mean'])}** ({interval(deployable['ci95'])}), "
        f"{where(facts, name)}. It is the metric over single calls, which is what a published evaluator makes: {runs}. "
        + coverage(card)
        + f" The best constant judge on these rows ({code(constant['label'])}) gets {number(constant['value'])}."
    )
    if name != HOLDOUT_WINNER:
        reason = facts["holdout"]["reason"] if facts["holdout"] else "the run did not open one"
        lines.append(
            f"**There is no out-of-sample figure**: {prose(reason)}. Every figure here is {in_sample(facts)}, and "
            "therefore flattering."
        )
    elif facts["holdout"]["exposure"]:
        lines.append(f"**These rows are an {facts['holdout']['exposure']}**: they had been looked at before this fit.")
    return lines + [f"**{said}**" for said in warnings(facts)]


def coverage(card: Mapping[str, Any]) -> str:
    """How many calls gave a usable answer: the first ones, which are all that a deployed evaluator makes, in front."""
    deployable = card["deployable"]
    every = f"{number(deployable['coverage'] * 100, 1)}%"
    if not deployable["rescued"]:
        return f"Coverage: {every} of the calls gave a usable answer. No pass needed its retry."
    asked = card["rows"]["labelled"] * len(deployable["per_run"])
    first = deployable["coverage"] - deployable["rescued"] / asked
    without = number(deployable["without_rescued"]["value"])
    return (
        f"Coverage: {number(first * 100, 1)}% of the first calls gave a usable answer, {every} after the fit's one "
        f"retry, which a deployed evaluator does not have. {plural(deployable['rescued'], 'pass', 'passes')} that only "
        f"the retry rescued are in the score; without them it is {without}."
    )


def warnings(facts: Facts) -> list[str]:
    """What stands beside the first figure because it is easily overlooked: changes that did not hold up, or none."""
    lines = []
    held_out = facts["holdout"]
    improvement = held_out["improvement"] if held_out and held_out["opened"] else None
    if improvement is not None and _direction(improvement["paired"]) == "worse":
        paired = improvement["paired"]
        lines.append(
            f"The kept changes did not hold up on the {rows_called(facts, HOLDOUT_WINNER)}: by votes the winner is "
            f"worse than v0, {number(paired['best']['value'])} → {number(paired['candidate']['value'])} in "
            f"{_metric(facts)}, {len(paired['gained_ids'])} rows gained and {len(paired['lost_ids'])} lost. Nothing "
            "was chosen from these rows."
        )
    tried = facts["decisions"]
    if tried and all(d["candidate"] is None for d in tried):
        cause = code(tried[-1]["attempt"]["basis"], 160)
        lines.append(
            f"No change was ever measured: in {plural(len(tried), 'iteration')} none could be ({cause}). The winner is "
            "v0 as it was drafted, and nothing was compared with it."
        )
    return lines


def _direction(paired: Mapping[str, Any]) -> str:
    delta = paired["headline_delta"]
    if delta["value"] is None or abs(delta["value"]) <= EPSILON:
        return "neither better nor worse"
    return "better" if delta["improved"] else "worse"


def scores(facts: Facts) -> list[str]:
    """v0 and the winner on train and holdout (SP-6), beside the constant judge."""
    intervals = Instruments()
    rows = [_score_row(facts, stem, called, intervals) for stem, called in cards_shown(facts, brief=True)]
    head = ("version and rows", "headline (votes)", "95% CI", "deployable", "95% CI", "accuracy", "95% CI",
            "constant judge", "rows", "flip rate, pairwise", "noise gains")  # fmt: skip
    lines = ["## Scores", "", table(head, rows), "", intervals.note()]
    lines.append(f'Train figures are {in_sample(facts)}, which the column "noise gains" repeats beside them.')
    lines.append(
        "Flip rate: the share of rows whose passes are not all the same answer; pairwise: the share of the pairs of "
        "their passes that differ."
    )
    lines += limits_of.optimism(facts)
    improvement = facts["holdout"]["improvement"] if facts["holdout"] and facts["holdout"]["opened"] else None
    if improvement is not None:
        paired = improvement["paired"]
        delta = paired["headline_delta"]
        lines.append(
            f"{_sample(facts)}, from v0 to the winner: {figure(delta, delta['ci95'])} ({_direction(paired)}) in "
            f"{_metric(facts)} on "
            f"{paired['rows']} paired rows, {len(paired['gained_ids'])} gained and {len(paired['lost_ids'])} lost. "
            + _tests(paired)
            + " Nothing was chosen from these rows."
        )
    elif facts["holdout"] and facts["holdout"]["opened"]:
        lines.append("No change was kept, so the winner is v0 and there is no improvement to measure.")
    return lines


def _sample(facts: Facts) -> str:
    exposure = facts["holdout"]["exposure"]
    return f"On an {exposure}" if exposure else "Out of sample"


def _metric(facts: Facts) -> str:
    return code(facts["config"]["settings"]["metric"])


def _score_row(facts: Facts, stem: str, called: str, intervals: Instruments) -> list[str]:
    card = facts["cards"][stem]
    headline, accuracy, deployable, flips = card["headline"], card["accuracy"], card["deployable"], card["flip_rate"]
    ends = intervals.ends(headline["ci95"])
    if "ci95_groups" in headline:
        ends += f"; over groups {intervals.ends(headline['ci95_groups'])}"
    return [
        called,
        plain_figure(headline),
        ends,
        number(deployable["mean"]),
        intervals.ends(deployable["ci95"]),
        plain_figure(accuracy),
        intervals.ends(accuracy["wilson95"]),
        f"{number(card['constant_judge']['value'])} ({code(card['constant_judge']['label'], 40)})",
        f"{card['rows']['scored']} of {card['rows']['labelled']}",
        "null (one pass a row)" if flips["value"] is None else f"{number(flips['value'])}, pairwise "
        f"{number(flips['pairwise'])}",
        noise_gain(facts, stem),
    ]  # fmt: skip


def _tests(paired: Mapping[str, Any]) -> str:
    """Every p with what it tests (KE-2)."""
    parts = []
    if paired.get("mcnemar_p") is not None:
        parts.append(f"Exact two-sided McNemar on the discordant rows: p = {number(paired['mcnemar_p'], 4)}")
    if paired.get("sign_p") is not None:
        parts.append(f"Exact sign test on the rows whose error changed: p = {number(paired['sign_p'], 4)}")
    if paired["headline_delta"].get("p") is not None:
        parts.append(
            f"paired bootstrap of the headline's delta against 0: p = {number(paired['headline_delta']['p'], 4)}"
        )
    return "; ".join(parts) + "." if parts else ""


def disagreements(facts: Facts) -> list[str]:
    """Which rows the winner gets wrong, by direction; they stay wrong (GT-2)."""
    lines = ["## Where the winner and the human differ", ""]
    for name, found in facts["disagreements"].items():
        called = rows_called(facts, name)
        if not found["rows"]:
            lines.append(f"- {called}: no standing vote differs from its label")
        for direction, rows in found["rows"].items():
            lines.append(f"- {called}, human → judge {code(direction, 80)}, {plural(len(rows), 'row')}: {ids(rows)}")
    lines.append("")
    lines.append(
        "A row that differs is counted wrong. Where you think the human erred, correct the queue and fit again."
    )
    return lines


def confidence(facts: Facts) -> list[str]:
    """Confidence is reported and never used (OUT-5)."""
    name = main_card(facts)
    if name is None:
        return []
    found = facts["cards"][name]["confidence"]
    lines = [f"## Confidence ({where(facts, name)})", ""]
    if found["when_right"] is None and found["when_wrong"] is None:
        return [
            *lines,
            f"The judge gave no usable confidence ({found['missing']} missing, {found['invalid']} invalid).",
        ]
    lines.append(
        f"Mean confidence {number(found['when_right'], 1)} when right and {number(found['when_wrong'], 1)} when wrong; "
        f"difference {figure(found['difference'], found['interval'])}. "
        f"{found['missing']} missing, {found['invalid']} invalid. It weighs no vote and decides nothing."
    )
    if found["advice"]:
        lines.append(f"**{found['advice'][0].upper()}{found['advice'][1:]}.**")
    return lines


def decisions(facts: Facts) -> list[str]:
    """Every iteration: what was tried, what the keep rule said, and on which figures (KE)."""
    lines = [f"## Decisions (train, {in_sample(facts)})", ""]
    baseline = facts["baseline"]
    if baseline is not None:
        least = baseline["min_delta"]
        terms = "; ".join(f"{TERMS[k]} {number(v, 4)}" for k, v in least["terms"].items() if v is not None)
        lines.append(
            f"min_delta, the smallest gain that may be called more than noise, is {number(least['value'], 4)}: "
            f"{terms}; {DECIDES[least['winner']]}. It is fixed at v0. One row is "
            f"worth {number(least['one_row'], 4)}. A change is kept when the headline rises strictly "
            "on the paired rows and the "
            "audit passes; significance only labels it, and that is a declared deviation from testing first."
        )
    degenerate = facts["degenerate"]
    if degenerate is not None and degenerate["failure"]:
        lines.append(f"The first draft was redrafted once because {degenerate['failure']}.")
    early = [d["decision"]["passes"] for d in facts["decisions"] if "passes" in (d.get("decision") or {})]
    if early:
        spared = sum(p["of"] - p["made"] for p in early)
        lines.append(
            f"{plural(len(early), 'candidate')} {'was' if len(early) == 1 else 'were'} decided early: "
            f"{plural(spared, 'pass', 'passes')} of {sum(p['of'] for p in early)} could change neither a "
            "decision nor the winner and were not made (`--exhaustive` makes them)."
        )
    rows = [_decision_row(d) for d in facts["decisions"]]
    if rows:
        lines += ["", table(("#", "aimed at", "change", "outcome", "headline", "gained/lost", "tests"), rows), ""]
        lines += [*words(rows), ""]
        for d in facts["decisions"]:
            if d.get("decision"):
                lines += [f"- iteration {d['iteration']}: {code('; '.join(d['decision']['reasoning']), 700)}"]
    stop = facts["stop"]
    if stop is not None:
        lines += ["", f"The loop stopped after {plural(stop['iterations'], 'iteration')}: {SENTENCES[stop['reason']]}."]
        if stop["contradicting_reasons"]:
            lines.append(
                "Finding: the reviewers' reasoning of these rows argues for another label than "
                "theirs; the rows stay wrong: "
                + ids(stop["contradicting_reasons"], most=len(stop["contradicting_reasons"]))
            )
    refused = sum(len(d["refused"]) for d in (*facts["drafts"].values(), *facts["guards"]))
    lines.append(
        "The memorisation and injection guards refused "
        f"{plural(refused, 'proposal or criterion', 'proposals or criteria')}."
    )
    return lines


def _decision_row(record: Mapping[str, Any]) -> list[str]:
    attempt = record["attempt"]
    row = [str(record["iteration"]), code(attempt["bucket"], 60), code(attempt["change"], 120)]
    made = record.get("decision")
    if made is None:
        return [*row, f"no_change: {code(attempt['basis'], 120)}", "-", "-", "-"]
    paired = made["paired"]
    outcome = f"{attempt['outcome']}, {made['basis']}"
    if "passes" in made:
        outcome += f", decided early, {made['passes']['made']} of {made['passes']['of']} passes"
    if paired is None:
        sure = made["settled"]
        most = len(sure["gained_ids"]) + len(sure["open_ids"])
        return [*row, outcome, "not measured", f"at most {most}/at least {len(sure['lost_ids'])}", "-"]
    if made["label"]:
        outcome += f", **{made['label']}**"
    if made["off_target"]:
        outcome += ", off_target"
    return [
        *row,
        outcome,
        f"{number(paired['best']['value'])} → {number(paired['candidate']['value'])}",
        f"{len(paired['gained_ids'])}/{len(paired['lost_ids'])}",
        _tests(paired),
    ]
