"""The report's account of a run: rows, findings, evidence, the judge, fidelity, calls, limits. Pure."""

from __future__ import annotations

from fitter.report.figures import code, ids, number, plural, prose, table
from fitter.report.names import Facts, rows_called
from fitter.report.spend import lines_by_role, spend


def rows_used(facts: Facts) -> list[str]:
    """Where every row of the queue went (GT-3, GT-4, GT-9), and how it was split."""
    intake, split = facts["intake"], facts["split"]
    lines = ["## Rows", ""]
    if intake is None:
        return lines
    reasons = [f"{found['rows']} {reason}" for reason, found in intake["excluded"].items() if found["rows"]]
    lines.append(f"{intake['read']} rows read = {intake['usable']} usable + {' + '.join(reasons) or 'no exclusions'}.")
    for reason, found in intake["excluded"].items():
        if found["rows"]:
            lines.append(f"- {reason}: {ids(found['ids'])}")
    if intake["class_counts"]:
        lines.append(
            "Usable rows by class: " + ", ".join(f"{code(k, 60)} {n}" for k, n in intake["class_counts"].items()) + "."
        )
        also = ", ".join(code(t, 60) for t in intake["minority_tied"])
        note = f" (as few rows: {also}; the first by name counts)" if also else ""
        lines.append(f"Minority class: {code(intake['minority'], 60)}{note}.")
    counted = [f"{name.replace('_', ' ')} {n}" for name, n in intake["counts"].items()]
    if counted:
        lines.append("Counted on the way: " + ", ".join(counted) + ".")
    lines += [f"**{prose(warning)}**" for warning in intake["warnings"]]
    if split is not None and split["seal"] is not None:
        lines.append(
            f"Split by groups, sealed before anything looked at a row: {split['train_rows']} train, "
            f"{split['holdout_rows']} held out, {split['groups']} groups. "
            + ", ".join(f"{code(k, 60)} {held} of {n} held out" for k, (n, held) in split["strata"].items()) + "."
        )  # fmt: skip
        if split["joined"]:
            lines.append(f"{plural(split['joined'], 'group')} came to join both sides and went to train.")
        for n, share in split["dropped_inputs"]:
            lines.append(
                f"One input text covers {n} rows ({number(share * 100, 1)}%): it is boilerplate and joins no rows."
            )
        if split["reason"]:
            lines.append(f"No holdout: {prose(split['reason'])}.")
    return lines


def findings(facts: Facts) -> list[str]:
    """What the fit noticed about labels, data and the judge's obedience (GT-2, GT-6, EV-3, IN-3)."""
    intake, injection = facts["intake"], facts["injection"]
    lines = ["## Findings", ""]
    expected = intake["expected_output"]
    if expected["rows"]:
        lines.append(
            f"- the dataset's expected_output disagrees with the human on {expected['differs']} of "
            f"{expected['rows']} rows that can be "
            f"compared (train rows: {ids(expected['differs_train_ids']) or 'none'}). It is not ground "
            "truth and was never shown."
        )
    app = intake["app_verdict"]
    if app["rows"]:
        lines.append(f"- the app's own verdict differs from the human on {app['differs']} of {app['rows']} rows.")
    for name, found in facts["disagreements"].items():
        beside = found["app"]
        if beside["rows"]:
            lines.append(
                f"- {rows_called(facts, name)}: the judge agrees with the app on "
                f"{beside['agrees']} of {beside['rows']} rows, and with the human on "
                f"{beside['right_there']} of the {beside['human_differs']} rows where human and app differ. "
                "A judge that reproduces the app is a copy of it."
            )
    if injection is not None:
        hits = injection["findings"]
        lines.append(
            f"- planted orders: {injection['asked']} calls on "
            f"{plural(len(injection['rows']), 'train row')}; the verdict became "
            f"what the planted text ordered in {len(hits)}."
        )
        for hit in hits:
            lines.append(
                f"  - row {code(hit['row'], 60)}, {hit['kind']} ({hit['probe']}): "
                f"{code(hit['vote'], 60)} became {code(hit['obeyed'], 60)}"
            )
    if facts["unmapped"]:
        lines.append(
            "- criteria that the lexicon judge cannot read and therefore ignores: "
            + ", ".join(code(t) for t in facts["unmapped"])
        )
    return lines if len(lines) > 2 else []


def evidence(facts: Facts) -> list[str]:
    """What the judge saw, and the proof that it saw nothing else (EV)."""
    winner = facts["winner"]
    if winner is None:
        return []
    version, isolation, train = facts["prompts"][winner], facts["isolation"], facts["map"]["train_fields"]
    settings = facts["config"]["settings"]
    lines = [f"## Evidence (scope {settings['scope']}, framing {settings['framing']})", ""]
    rows = []
    for field in version["map"]["fields"]:
        seen = train.get(field["name"], {})
        rows.append(
            [code(field["name"], 60), code(field["path"], 120), "yes" if field["required"] else "no",
             str(seen.get("resolved", "-")), str(seen.get("empty", "-")), str(seen.get("missing", "-"))]
        )  # fmt: skip
    lines += [table(("field", "path", "required", "resolved", "empty", "missing"), rows), ""]
    if not version["map"]["reviewed"]:
        lines.append("The map was proposed from train rows and nobody has marked it as reviewed.")
    lines.append(
        f"Isolation proof: on {plural(isolation['rows'], 'train row')} every private field was "
        "replaced and the judge's request "
        f"did not change by a byte ({', '.join(code(f, 60) for f in isolation['fields'])})."
    )
    return lines


def prompt(facts: Facts) -> list[str]:
    """The winner's criteria: what the judge was told to look for."""
    winner = facts["winner"]
    if winner is None:
        return []
    draft = facts["prompts"][winner]["prompt"]["draft"]
    lines = [f"## The judge (version {winner})", ""]
    for criterion in draft["criteria"]:
        lines.append(f"- {code(criterion['label'], 60)} when: {code(criterion['text'], 400)}")
    lines.append(f"- otherwise: {code(draft['otherwise'], 60)}")
    lines += ["", f"The whole prompt, as measured and as published, is in `prompts/{winner}.json`."]
    return lines


def cost(facts: Facts) -> list[str]:
    """Calls and what they cost, by role (SC-1, SC-2), and who shares a model (QU-5)."""
    lines = ["## Calls", ""]
    lines += [f"- {line}" for line in lines_by_role(facts["ledger"])]
    settings = facts["config"]["settings"]
    judge, proposer = settings["judge"], settings["proposer"] or settings["judge"]
    made = spend(facts["ledger"])
    if not settings["prices"] and made.cost == 0 and not made.cost_unknown:
        lines.append("- nothing was paid for: every model ran on this machine; `ledger.jsonl` has calls and tokens")
    elif not settings["prices"]:
        lines.append("- no prices were given, so the cost is unknown; `ledger.jsonl` has calls and tokens by phase")
    else:
        lines.append(
            "- at the prices given in the settings; `ledger.jsonl` has calls, tokens and cost by phase. What a "
            "call cost that named no tokens is not known; what the app itself costs is not in here"
        )
    shared = "share a model" if judge == proposer else "are different models"
    lines.append(
        f"- judge ({code(judge)}) and proposer ({code(proposer)}) {shared}; whether the app shares it is not known here"
    )
    return lines


def limits(facts: Facts) -> list[str]:
    """What the figures do not say."""
    settings = facts["config"]["settings"]
    return [
        "## What this does not say",
        "",
        "- Publishing is not qualification: nobody may rely on this judge because it was published. "
        "It was fitted on these rows; "
        "rows used in fitting cannot calibrate it.",
        "- The rows are what the queue held. Traffic that differs from them was not measured.",
        "- The human label is the ground truth by definition; reviewers' errors are in every figure. "
        f"Framing: {settings['framing']}.",
        "- Intervals cover sampling of rows, not a change of model, prompt or population. "
        "Temperature 0 would not make a model deterministic.",
        f"- Votes are over {settings['runs']} passes; the published evaluator makes one call.",
    ]
