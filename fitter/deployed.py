"""``fidelity``: an enabled evaluator's verdicts on the labelled rows, beside the human labels and the fitted score.

Only its owner enables an evaluator. Before that there is nothing to compare, and this refuses to look.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitter.errors import RunError, SettingsError, UserError
from fitter.fitting import Fitting
from fitter.jsonio import pretty, sha256
from fitter.labels import LabelValue, from_json, same, to_json
from fitter.loop.steps.context import Fit, number
from fitter.loop.steps.finish import open_for
from fitter.loop.steps.measuring import card_input, standing
from fitter.platforms import open_publisher
from fitter.published import Backend, Published, publications, settings_for
from fitter.publishing.diff import diff_fields, enabled_at
from fitter.publishing.publisher import Remote
from fitter.records import Pass, Row
from fitter.report.facts import gather
from fitter.report.figures import interval
from fitter.report.figures import number as shown
from fitter.report.names import where
from fitter.runstore import SCHEMA_VERSION
from fitter.scoring.card import card_of
from fitter.scoring.table import CardInput
from fitter.settings import DATADOG
from fitter.textsafe import one_line
from fitter.workspace import Workspace, write_atomic

FILE = "fidelity.json"


@dataclass(frozen=True, kw_only=True)
class Side:
    """Verdicts on one side of the split.

    Attributes:
        called: what every figure on these rows is called (SP-1, SP-5).
        labelled: labelled rows.
        verdicts: row id → the evaluator's verdict.
        unreadable: rows whose verdict is no value of the label.
        deployed: card of the verdicts, one call a row.
        fitted: the fit's own card on just these rows.
        agrees: rows on which the verdict is the fit's standing vote, of those that have one.
        voted: how many have one.
    """

    called: str
    labelled: int
    verdicts: Mapping[str, LabelValue]
    unreadable: tuple[str, ...]
    deployed: Mapping[str, Any] | None
    fitted: Mapping[str, Any] | None
    agrees: int
    voted: int

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"{self.called}: verdicts on {len(self.verdicts)} of {self.labelled} labelled rows"]
        if self.unreadable:
            lines.append(f"  {len(self.unreadable)} more are no value of the label: {', '.join(self.unreadable[:10])}")
        if self.deployed is None or self.fitted is None:
            return lines
        head, fit = self.deployed["headline"], self.fitted["deployable"]
        lines.append(
            f"  evaluator against the humans: {head['metric']} {shown(head['value'])}, {interval(head['ci95'])}"
        )
        lines.append(f"  the fit on the same rows (deployable): {shown(fit['mean'])}, {interval(fit['ci95'])}")
        lines.append(f"  best constant judge on the same rows: {shown(self.deployed['constant_judge']['value'])}")
        lines.append(f"  same answer as the fit's vote: {self.agrees} of {self.voted} rows")
        return lines


@dataclass(frozen=True, kw_only=True)
class Observed:
    """An enabled evaluator beside its fit.

    Attributes:
        published: the publication.
        changed: fields, other than the switch, that are no longer as they were published.
        sides: train, and the holdout where the run has opened it.
        file: where the record was written.
    """

    published: Published
    changed: tuple[str, ...]
    sides: tuple[Side, ...]
    file: Path

    def lines(self) -> list[str]:
        """For people."""
        name = one_line(str(self.published.receipt["evaluator"]))
        lines = [f"evaluator {name} at {self.published.at}, enabled by its owner; fitted by run {self.published.run}"]
        if self.changed:
            lines.append(f"  CHANGED since it was published: {', '.join(one_line(f, 80) for f in self.changed[:8])}")
        for side in self.sides:
            lines += side.lines()
        lines.append("Verdicts carry no version: those of an earlier evaluator of this name are among them.")
        return lines


def observe(
    fitting: Fitting,
    name: str,
    *,
    at: str | None = None,
    run: str | None = None,
    backend: Backend | None = None,
    since: str | None = None,
) -> Observed:
    """Pulls an enabled evaluator's verdicts on the labelled rows and compares them.

    Args:
        fitting: the workspace, with the fit's private half.
        name: evaluator.
        at, run: which publication, where there are several.
        backend: how Datadog is reached; None for the fit's own.
        since: how far back verdicts are looked for; None for the fit's own window.

    Raises:
        SettingsError: it is disabled, or a rehearsal: there are no verdicts.
        UserError: no receipt here, or the evaluator is gone, or the fit's rows are not here.
        RunError: enabled, and yet no verdict on any labelled row.
    """
    workspace = fitting.workspace
    said = publications(workspace, name, at=at, run=run)[-1]
    if said.at != DATADOG:
        raise SettingsError(f"{said.at} is a rehearsal: nothing runs there, so there are no verdicts to compare")
    changed = _changed(workspace, said, name, backend)
    with fitting.measured(said.run) as fit:
        facts = gather(fit.store)
        if not fit.store.has("train.jsonl", private=True):
            raise UserError(
                f"the rows of run {said.run} are not here", hint="private/ is not in git: look where the fit was run"
            )
        winner = int(said.receipt["metadata"]["version"])
        sides = [(number(winner), fit.train, fit.groups)]
        if fit.store.read("holdout.json")["opened"]:
            groups = {r["id"]: r["group"] for r in fit.store.read_rows("labels/holdout.jsonl")}
            sides.append(("holdout-winner", list(open_for(fit, fit.version(winner)).rows), groups))
        verdicts = _verdicts(fit, name, [row for _, rows, _ in sides for row in rows], backend, since)
        made = tuple(_side(fit, where(facts, stem), stem, rows, groups, verdicts) for stem, rows, groups in sides)
    if not any(side.verdicts or side.unreadable for side in made):
        raise RunError(
            f"{one_line(name, 60)!r} is enabled, and has no verdict on any of the labelled rows",
            hint="an evaluator scores what arrives after it was enabled: label such rows in the queue and fit again, "
            "or widen --since",
        )
    observed = Observed(published=said, changed=changed, sides=made, file=said.folder / FILE)
    write_atomic(observed.file, pretty(_record(observed)))
    return observed


def _changed(workspace: Workspace, said: Published, name: str, backend: Backend | None) -> tuple[str, ...]:
    publisher = open_publisher(settings_for(workspace, said, backend), workspace)
    try:
        stored = publisher.get(name)
        if stored is None:
            raise UserError(f"{said.at} has no evaluator {one_line(name, 60)!r} any more", hint="`fitter verify` tells")
        if enabled_at(stored) is None:
            raise SettingsError(
                f"{one_line(name, 60)!r} is disabled: it has scored nothing, so there is nothing to compare",
                hint=f"its owner enables it at {publisher.page}; nothing in this program can",
            )
        fields = diff_fields(publisher.comparable(said.sent), publisher.comparable(stored))
    finally:
        if isinstance(publisher, Remote):
            publisher.close()
    return tuple(f.field for f in fields if f.state != "equal" and not f.field.endswith("enabled"))


def _verdicts(
    fit: Fit, name: str, rows: Sequence[Row], backend: Backend | None, since: str | None
) -> Mapping[str, Mapping[str, Any]]:
    """Content id → verdict."""
    from fitter.queues.datadog import QueueOptions, fetch_verdicts
    from fitter.queues.datadog_mcp import fair_use

    chosen = backend or fit.settings.backend
    if chosen is None:
        raise SettingsError("verdicts are read over REST or over MCP", hint="add --backend rest or --backend mcp")
    options = QueueOptions(backend=chosen, mcp_rate=fair_use(os.environ))
    if (window := since or fit.settings.since) is not None:
        options = replace(options, since=window)
    wanted = [(str(row.content["kind"]), row.content_id) for row in rows if row.content_id]
    if not wanted:
        raise SettingsError("these rows name no content of the platform", hint="only rows of a Datadog queue do")
    return fetch_verdicts(name, wanted, env=os.environ, options=options)


def _side(
    fit: Fit,
    called: str,
    stem: str,
    rows: Sequence[Row],
    groups: Mapping[str, str],
    found: Mapping[str, Mapping[str, Any]],
) -> Side:
    verdicts: dict[str, LabelValue] = {}
    unreadable = []
    for row in rows:
        verdict = found.get(row.content_id or "")
        if verdict is None:
            continue
        try:
            value = from_json(verdict.get("value"), fit.label.kind)
        except ValueError:
            unreadable.append(row.id)
            continue
        if fit.label.admits(value):
            verdicts[row.id] = value
        else:
            unreadable.append(row.id)
    given = card_input(fit, stem, rows, groups)
    votes = {row: v for row, v in standing(card_of(fit.fixed, given)).items() if row in verdicts}
    deployed = fitted = None
    if verdicts:
        labels = {row: label for row, label in given.labels.items() if row in verdicts}
        near = {row: group for row, group in groups.items() if row in verdicts}
        once = [Pass(row=row, run=0, label=value) for row, value in sorted(verdicts.items())]
        deployed = card_of(replace(fit.fixed, runs=1), CardInput(labels=labels, passes=once, groups=near)).to_json()
        fitted = card_of(
            fit.fixed,
            CardInput(
                labels=labels,
                passes=[p for p in given.passes if p.row in verdicts],
                groups=near,
                excluded={row: why for row, why in given.excluded.items() if row in verdicts},
            ),
        ).to_json()
    return Side(
        called=called,
        labelled=len(rows),
        verdicts=verdicts,
        unreadable=tuple(unreadable),
        deployed=deployed,
        fitted=fitted,
        agrees=sum(same(vote, verdicts[row]) for row, vote in votes.items()),
        voted=len(votes),
    )


def _record(observed: Observed) -> dict[str, Any]:
    """The tracked record: ids, labels and figures, no text (SC-4)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluator": observed.published.receipt["evaluator"],
        "run": observed.published.run,
        "changed": list(observed.changed),
        "sent_sha256": sha256((observed.published.folder / "sent.json").read_bytes()),
        "sides": [
            {
                "called": side.called,
                "labelled": side.labelled,
                "verdicts": {row: to_json(value) for row, value in sorted(side.verdicts.items())},
                "unreadable": list(side.unreadable),
                "evaluator": side.deployed,
                "fit": side.fitted,
                "same_as_vote": [side.agrees, side.voted],
            }
            for side in observed.sides
        ],
    }
