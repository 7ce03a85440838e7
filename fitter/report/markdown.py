"""The report as Markdown, its summary for the terminal, and the last lines of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.publishing.verify import DISABLED_LINE, REHEARSAL_LINE
from fitter.queues.snapshot import load_rows
from fitter.report import account, breakdown, limits, names, sections
from fitter.report.facts import main_card
from fitter.report.fidelity import fidelity
from fitter.report.figures import code, interval, number, prose
from fitter.report.instrument import instrument
from fitter.runstore import RunStore
from fitter.textsafe import markdown_code, one_line, visible

NO_EVALUATOR = {
    "not_better_than_constant": "no kept version had a train headline strictly above the best "
    "constant judge on the same rows",
}


def why_none(facts: Mapping[str, Any]) -> str | None:
    """Why no evaluator was created (PU-2), or None."""
    result = facts["result"]
    if result is None or result["ending"] is None:
        return None
    if result["ending"] == "gate":
        return str(result["gate"])
    if result["ending"] == "no_evidence":
        return str(facts["map"]["why"])
    return NO_EVALUATOR[result["ending"]]


def render(facts: Mapping[str, Any]) -> str:
    """The report without customer text: ids, labels, figures, reasons."""
    settings = facts["config"]["settings"]
    lines = [f"# Fit report: {code(settings['name'])}", ""]
    none = why_none(facts)
    if none is not None:
        lines += [f"**No evaluator was created, because {prose(none)}.**", ""]
    lines += [line for text in sections.opening(facts) for line in (text, "")]
    lines += [*_about(facts), ""]
    if facts["winner"] is not None:
        for section in (
            sections.scores, limits.ceiling, breakdown.per_class, sections.disagreements, sections.confidence,
            sections.decisions, breakdown.exclusions,
        ):  # fmt: skip
            lines += [*section(facts), ""]
    lines += [*account.rows_used(facts), ""]
    if facts["intake"] is not None:
        found = account.findings(facts)
        lines += [*found, ""] if found else []
    if facts["winner"] is not None:
        for section in (
            account.evidence, account.prompt, fidelity, instrument,
            account.cost, account.limits,
        ):  # fmt: skip
            made = section(facts)
            lines += [*made, ""] if made else []
    lines += ["## Evaluator", "", *(f"- {prose(line)}" for line in closing(facts))]
    config_hash = facts["config"]["config_hash"]
    lines += [
        "",
        f"Config hash `{config_hash}`. Every figure is recomputed from the retained passes of this run's folder.",
    ]
    return "\n".join(lines) + "\n"


def _about(facts: Mapping[str, Any]) -> list[str]:
    config = facts["config"]
    settings = config["settings"]
    label = config["fixed"]["label"]
    costly = settings["costly"]
    lines = [
        f"Run {code(facts['run'])}. Goal: {code(settings['goal'], 400)}.",
        f"Costlier error: {'both the same' if costly == 'same' else 'missing ' + code(costly, 60)}.",
        f"Label {code(label['name'])} of queue {code(config['fixed']['queue'])}; metric {code(settings['metric'])}; "
        f"framing {settings['framing']}; scope {settings['scope']}; judge {code(settings['judge'])}, "
        f"{settings['runs']} passes a row; proposer {code(settings['proposer'] or settings['judge'])}.",
    ]
    if settings["governs"]:
        lines.append(f"Metric and goal disagreed; asked which governs, the answer was: {settings['governs']}.")
    return lines


def summary(facts: Mapping[str, Any]) -> str:
    """The few lines that end a run on the terminal."""
    lines = ["", f"run {facts['run']}"]
    none = why_none(facts)
    if none is not None:
        lines.append(f"No evaluator was created, because {none}.")
    name = main_card(facts)
    if name is not None:
        card = facts["cards"][name]
        metric, deployable, constant = card["headline"]["metric"], card["deployable"], card["constant_judge"]
        lines.append(f"deployable {metric} {number(deployable['mean'])}, {interval(deployable['ci95'])}")
        lines.append(f"  {names.where(facts, name)}; best constant judge {number(constant['value'])}")
        if deployable["rescued"]:
            lines.append(f"  {sections.coverage(card)}")
        for stem, called in ((facts["v0"], "v0"), (facts["winner"], "winner")):
            if stem in facts["cards"]:
                headline = facts["cards"][stem]["headline"]
                lines.append(
                    f"  {called} on train ({names.in_sample(facts)}): {number(headline['value'])}, "
                    f"{interval(headline['ci95'])}"
                )
        for stem, called in (("holdout-v0", "v0"), ("holdout-winner", "winner")):
            if stem in facts["cards"]:
                headline = facts["cards"][stem]["headline"]
                lines.append(
                    f"  {called} on the {names.rows_called(facts, stem)}, by votes: {number(headline['value'])}, "
                    f"{interval(headline['ci95'])}"
                )
        if names.beaten(facts, name, deployable["mean"]) and names.reaches(deployable["ci95"], constant["bar"]):
            lines.append("  not shown to be better than the constant judge: the interval includes it")
        if not names.beaten(facts, name, deployable["mean"]):
            lines.append("  NOT better than the constant judge: do not rely on it")
        lines += [f"  {said}" for said in sections.warnings(facts)]
    lines.append(f"report: runs/{facts['run']}/report.md")
    return "\n".join(lines)


def closing(facts: Mapping[str, Any]) -> list[str]:
    """The last lines of a run (PU-6), or why no evaluator was created (PU-2)."""
    none = why_none(facts)
    if none is not None:
        return [f"no evaluator was created, because {visible(none)}"]
    if facts["receipt"] is None:
        return ["not published yet"]
    receipt = facts["receipt"]["receipt"]
    lines = [REHEARSAL_LINE] if receipt["rehearsal"] else []
    return [
        *lines,
        f"read back and listed: {receipt['fields_compared']} fields compared, {receipt['fields_different']} differ",
        f"evaluator: {one_line(receipt['evaluator'])} (app {one_line(receipt['app'])})",
        f"evaluations page: {one_line(receipt['page'])}",
        DISABLED_LINE,
    ]


def render_text(facts: Mapping[str, Any], store: RunStore) -> str:
    """The report with the text of the train rows on which winner and human differ; only for private/."""
    winner = facts["winner"]
    text = render(facts)
    if winner is None:
        return text
    rows = {r.id: r for r in load_rows(store.path("train.jsonl", private=True).read_text(encoding="utf-8"))}
    words = {(r["row"], r["run"]): r["reasoning"] for r in store.read_rows(f"reasoning/{winner}.jsonl", private=True)}
    lines = [text, "## Train rows that differ, with text (private)", ""]
    from fitter.grouping import visible_content

    for direction, found in facts["disagreements"][winner]["rows"].items():
        for row in found:
            lines += [f"### {code(row)}: human → judge {code(direction)}", ""]
            lines += ["What was recorded:", "", markdown_code(visible_content(rows[row].content)), ""]
            if rows[row].reasons:
                lines += ["Reviewers:", "", markdown_code("\n".join(rows[row].reasons)), ""]
            lines += ["Judge:", "", markdown_code(words.get((row, 0), "")), ""]
    return "\n".join(lines) + "\n"
