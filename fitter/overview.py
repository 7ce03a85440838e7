"""Reading what is there: runs of a workspace, one run's report, a row as the judge sees it, the plan of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fitter.errors import FitterError, Tampered, UserError
from fitter.jsonio import sha256
from fitter.runstore import MANIFEST, RunStore
from fitter.textsafe import one_line, visible
from fitter.workspace import Workspace

if TYPE_CHECKING:  # listing runs must stay instant: what needs pydantic is imported where it is used
    from fitter.settings import FitSettings


def list_runs(workspace: Workspace) -> list[dict[str, str]]:
    """One line a run: state, metric, deployable scores on holdout and train, evaluator. Reads a few small files."""
    return [_line(RunStore(workspace, run_id)) for run_id in workspace.run_ids()]


def _line(store: RunStore) -> dict[str, str]:
    line = dict.fromkeys(("run", "state", "metric", "holdout", "train", "evaluator"), "-")
    line["run"] = store.run_id
    try:
        config = store.read("config.json")
        line["metric"] = str(config["settings"]["metric"])
        line["state"] = state_of(store)
        if store.has("result.json"):
            winner = store.read("result.json")["winner"]
            if winner is not None:
                k = store.read("result.json")["versions"]
                called = f"in-sample, selected from {k} candidate{'' if k == 1 else 's'}"  # SP-1, wherever it is shown
                line["train"] = f"{_deployable(store, f'{winner:03d}')} ({called})"
            line["holdout"] = _deployable(store, "holdout-winner")
            exposure = store.read("holdout.json").get("exposure") if store.has("holdout.json") else None
            if exposure:
                line["holdout"] += f" ({exposure})"
        if store.has("receipt.json"):
            line["evaluator"] = str(store.read("receipt.json")["receipt"]["evaluator"])
    except FitterError as fault:
        line["state"] = f"unreadable: {one_line(fault.message, 60)}"
    except (KeyError, TypeError, ValueError, OSError) as fault:
        line["state"] = f"unreadable: {one_line(str(fault), 60)}"
    return {key: one_line(value, 80) for key, value in line.items()}


def _deployable(store: RunStore, card: str) -> str:
    if not store.has(f"cards/{card}.json"):
        return "-"
    name = f"cards/{card}.json"
    recorded = store.read(MANIFEST)["tracked"].get(name) if store.has(MANIFEST) else None
    if recorded is not None and sha256(store.path(name).read_bytes()) != recorded:
        return "changed since the run"
    mean = store.read(name)["card"]["deployable"]["mean"]
    return "null" if mean is None else f"{mean:.3f}"


def state_of(store: RunStore) -> str:
    """``published``, ``no evaluator``, or ``unfinished``."""
    if store.has("receipt.json") and store.has(MANIFEST):
        return "published"
    if store.has("result.json") and store.read("result.json")["ending"] is not None:
        return "no evaluator"
    return "unfinished"


def show_run(workspace: Workspace, run_id: str) -> tuple[str, bool]:
    """The report and what of the run can be verified from what is here; and whether a file was changed since."""
    store = RunStore(workspace, run_id)
    if not store.has("config.json"):
        raise UserError(f"there is no run {run_id!r} here", hint="`fitter runs` lists them")
    report = store.path("report.md")
    text = f"run {run_id} has no report yet\n"
    if report.is_file():
        text = report.read_text(encoding="utf-8", errors="replace")
    lines, changed = verification(store)
    checks = "\n".join(lines)
    if changed:  # said before anything that it may have changed
        replay = f"`{workspace.command} replay {run_id}`"
        text = f"WARNING: this run's files were changed after it ended; {replay} names them.\n\n{text}"
    return f"{text}\n{checks}", changed


def cost_lines(workspace: Workspace, run_id: str) -> list[str]:
    """What a run has used: from its ledger once it has one, else from the call journal, by role and by phase (SC-2).

    Raises:
        UserError: no such run.
    """
    from fitter.calls.budget import prices_by_role
    from fitter.calls.journal import Journal
    from fitter.calls.ledger import ledger_rows
    from fitter.report.figures import plural
    from fitter.report.spend import cost_text, lines_by_role, spend, tokens_text
    from fitter.settings import FitSettings

    store = RunStore(workspace, run_id)
    if not store.has("config.json"):
        raise UserError(f"there is no run {run_id!r} here, or it has made no call", hint="`fitter runs` lists them")
    finished = store.has("ledger.jsonl")
    if finished:
        rows = store.read_rows("ledger.jsonl")
    elif workspace.journal.is_file():
        settings = FitSettings.model_validate(store.read("config.json")["settings"])
        with Journal(workspace.journal) as journal:
            rows = ledger_rows(journal.calls(run_id), prices=prices_by_role(settings))
    else:
        rows = []
    lines = [
        f"run {run_id}{'' if finished else ' (so far)'}: {cost_text(spend(rows))}",
        *lines_by_role(rows),
        "by phase:",
    ]
    for row in rows:
        made = spend([row])
        calls = plural(made.calls, "call")
        lines.append(f"  {row['phase']}, {row['role']}: {calls}; {tokens_text(made)}; {cost_text(made)}")
    return lines if rows else [f"run {run_id} has made no call"]


def verification(store: RunStore) -> tuple[list[str], bool]:
    """What can be checked here, in sentences, and whether something was changed after the run ended.

    A private file that is not here was not changed: a clone has none of them. A tracked one must be here.
    """
    lines = ["What can be verified here:"]
    if not store.has(MANIFEST):
        return [
            *lines,
            f"- the run is unfinished: `{store.workspace.command} resume {store.run_id}` goes on where it was made",
        ], False
    manifest = store.read(MANIFEST)
    if not all(isinstance(manifest.get(half), dict) for half in ("tracked", "private")):
        return [*lines, f"- nothing: {MANIFEST} is not what was written"], True
    tracked = _compared(store, manifest["tracked"], "")
    private = _compared(store, manifest["private"], "private/")
    lines.append(f"- tracked artefacts: {tracked.text}")
    lines.append(f"- private artefacts: {private.text}")
    if not any(_read(store.folder / "private" / n) is not None for n in manifest["private"]):
        lines.append(
            "- private/ is not here or may not be read: every figure, decision and hash above can be shown and "
            "recomputed from labels and passes; that the passes answer these rows' text, and the reviewers' and "
            "judge's words, cannot be checked"
        )
    return lines, bool(tracked.differ or tracked.missing or private.differ)


def _read(path: Path) -> bytes | None:
    """A file's bytes; None where it is not here or belongs to somebody who keeps it to themselves."""
    try:
        return path.read_bytes()
    except OSError:
        return None


class _Half(NamedTuple):
    """One half of a run's files beside the manifest."""

    text: str
    differ: list[str]
    missing: list[str]


def _compared(store: RunStore, recorded: Mapping[str, str], prefix: str) -> _Half:
    found = {name: _read(store.folder / prefix / name) for name in recorded}
    missing = sorted(name for name, data in found.items() if data is None)
    differ = sorted(n for n, data in found.items() if data is not None and sha256(data) != recorded[n])
    said = []
    if differ:
        said.append(f"{len(differ)} of {len(recorded)} differ from the manifest: {', '.join(differ[:5])}")
    if missing and len(missing) == len(recorded):
        said.append(f"none of {len(recorded)} is here")
    elif missing:
        said.append(f"{len(missing)} of {len(recorded)} are missing: {', '.join(missing[:5])}")
    return _Half("; ".join(said) or f"all {len(recorded)} match the manifest", differ, missing)


def show_evidence(workspace: Workspace, row: str, *, run_id: str | None, map_file: Path | None) -> str:
    """One train row exactly as the judge sees it (EV-7); never a held-out row."""
    from fitter.evidence.map import EvidenceMap
    from fitter.evidence.render import readable
    from fitter.evidence.targets import open_target
    from fitter.loop.steps.drafting import read_map
    from fitter.queues.snapshot import load_rows

    if run_id is None:
        runs = [r for r in workspace.run_ids() if RunStore(workspace, r).has("map.json")]
        if not runs:
            raise UserError("there is no run here that got as far as an evidence map", hint="`fitter fit` makes one")
        run_id = max(runs, key=lambda r: (workspace.run(r) / "config.json").stat().st_mtime)
    store = RunStore(workspace, run_id)
    from fitter.settings import FitSettings

    try:
        settings = FitSettings.model_validate(store.read("config.json")["settings"])
    except (KeyError, ValueError) as fault:
        raise Tampered(f"config.json of run {run_id} is not what was written: {one_line(str(fault))}") from None
    path = store.path("train.jsonl", private=True)
    if not path.is_file():
        raise UserError(
            f"the rows of run {run_id} are not here", hint="private/ is not in git: look where the fit was run"
        )
    rows = {r.id: r for r in load_rows(path.read_text(encoding="utf-8"))}
    if row not in rows:
        raise UserError(
            f"run {run_id} has no train row {one_line(row)!r}",
            hint="held-out rows are not shown; the train rows' ids are in labels/train.jsonl of the run",
        )
    if map_file is not None:
        evidence = read_map(map_file)
    else:
        best = best_version(store)
        recorded = store.read(f"prompts/{best:03d}.json")["map"] if best is not None else store.read("map.json")["map"]
        evidence = EvidenceMap.model_validate(recorded)
    target = open_target(settings.publish_to or "local")
    assert settings.framing is not None  # config.json holds every must-ask answer
    return readable(target, evidence, rows[row], settings.framing)


def best_version(store: RunStore) -> int | None:
    """The winner, or the best so far in a run under way; None before a first version."""
    if store.has("result.json"):
        winner: int | None = store.read("result.json")["winner"]
        return winner
    best = store.read("baseline.json")["v0"] if store.has("baseline.json") else None
    for name in store.names("decisions"):
        record = store.read(f"decisions/{name}.json")
        if record["attempt"]["outcome"] == "kept":
            best = record["candidate"]
    return best


def plan_text(deps: Any, settings: FitSettings) -> str:
    """The resolved config, the split and the number of calls of a fit; writes nothing."""
    from fitter.holdout import preview
    from fitter.jsonio import pretty
    from fitter.judge.probes import injection_probes
    from fitter.loop.steps.finish import INJECTION_ROWS_PER_ANSWER
    from fitter.loop.steps.prepare import check_settings, read_queue
    from fitter.settings import disagreement, what_is

    lines = ["Settings", pretty({k: v for k, v in settings.model_dump(mode="json").items() if v not in (None, {}, "")})]
    missing = settings.missing()
    if missing:
        lines += ["Still to be answered", *(f"  --{n.replace('_', '-')}  {what_is(n)}" for n in missing), ""]
    if settings.label is None:
        return "\n".join([*lines, "The split cannot be shown before --label is given."])
    found = read_queue(deps, settings)
    if not missing:
        check_settings(deps, settings, found)
    conflict = disagreement(settings, found.label, found.minority) if settings.governs is None else None
    if conflict is not None:
        lines += [f"Metric and goal disagree: {visible(conflict)}; --governs says which one counts", ""]
    lines += ["Queue", f"  {found.read} rows read, {len(found.rows)} usable"]
    lines += [f"  {len(ids)} {reason}" for reason, ids in found.excluded.items() if ids]
    lines += [f"  class {one_line(name)}: {n}" for name, n in found.class_counts.items()]
    lines += [f"  {warning}" for warning in found.warnings]
    if not found.gate.passed:
        return "\n".join([*lines, f"  no fit is possible: {found.gate.reason}"])
    split, opened = preview(
        deps.workspace, found.rows, queue=found.identity, label=found.label, positional=found.positional
    )
    held = len(split.holdout) if split.scored else 0
    lines += ["", "Split (rows that were sealed before keep their side)"]
    lines += [f"  train {len(split.train)} rows, holdout {len(split.holdout)} rows"]
    lines += [f"  class {one_line(name)}: {out} of {all_} held out" for name, (all_, out) in split.strata.items()]
    if split.reason:
        lines += [f"  no holdout will be opened: {split.reason}"]
    if opened is not None:
        lines += [f"  the holdout was opened by {opened[0]} on {opened[1]}: a fit needs --exposed-holdout, and says so"]
    train = len(split.train) * settings.runs
    probes = len(injection_probes()) * INJECTION_ROWS_PER_ANSWER * max(1, min(len(found.class_counts), 4))
    most = train * (settings.max_iterations + 2) + 2 * held * settings.runs + probes
    lines += ["", "Judge calls, without retries (a retry at most doubles them)"]
    lines += [
        f"  v0 {train}, and as many for a redraft; at most {train} an iteration, at most {settings.max_iterations}"
    ]
    lines += [f"  holdout {held * settings.runs} for the winner, and as many for v0; planted orders about {probes}"]
    return "\n".join([*lines, f"  at most {most}"])
