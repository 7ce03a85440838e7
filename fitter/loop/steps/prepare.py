"""From a queue to a frozen config: what must be asked, intake, the checks before any spend, the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fitter import __version__
from fitter.errors import SettingsError, UserError
from fitter.grouping import group_rows
from fitter.holdout import preview, seal_id, seal_rows
from fitter.jsonio import canonical, strict_loads
from fitter.judge.verdict import PARSER_VERSION
from fitter.labels import LabelSchema, text, to_json
from fitter.loop.deps import Deps
from fitter.loop.state import State
from fitter.loop.steps.context import Fit
from fitter.loop.steps.drafting import map_there
from fitter.loop.steps.platform import CHECKS, ask_platform
from fitter.loop.steps.resuming import identities
from fitter.loop.steps.reviewers import agreement_of, kept_reviews
from fitter.queues.intake import IntakeOptions
from fitter.queues.intake import intake as take_in
from fitter.queues.recap import Intake
from fitter.queues.snapshot import dump_rows, row_from_json, row_to_json, snapshot_hash
from fitter.records import Row
from fitter.runstore import SCHEMA_VERSION
from fitter.scoring.frame import Fixed, fix, seed_from
from fitter.scoring.metrics import Metric
from fitter.settings import FitSettings, config_hash, disagreement, what_is
from fitter.textsafe import one_line
from fitter.workspace import write_atomic

_CHOICES: dict[str, tuple[str, ...]] = {
    "framing": ("grader", "replicator", "corrector"),
    "scope": ("span", "trace", "session"),
    "backend": ("rest", "mcp"),
}


def ask(_: Deps, state: State) -> dict[str, Any]:
    """One interrupt with everything that must be asked (LO-1); passes when nothing is missing. No effects."""
    settings = FitSettings.model_validate(state["settings"])
    question = state.get("question")
    if question is None:
        missing = settings.missing()
        if not missing:
            return {"question": None}
        question = _questions(missing, notes_too=not settings.notes)
    from langgraph.types import interrupt

    answers = {k: v for k, v in interrupt(question).items() if v != ""}
    settings = settings.with_answers(answers)
    still = settings.missing()  # e.g. the backend, once the answer to --publish-to was datadog
    return {
        "settings": settings.model_dump(mode="json"),
        "question": _questions(still, notes_too=False) if still else None,
    }


def _questions(missing: list[str], *, notes_too: bool) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": name, "what": what_is(name), "choices": list(_CHOICES.get(name, ()))} for name in missing
    ]
    if notes_too:
        fields.append({"name": "notes", "what": "domain notes for the drafter (may be empty)", "optional": True})
    return {"title": "These answers are needed, and none has a default.", "fields": fields}


def read_queue(deps: Deps, settings: FitSettings) -> Intake:
    """Reads the queue and applies the GT rules; no effects."""
    raw = deps.open_source(settings).read()
    options = IntakeOptions(
        label_kind=settings.label_kind,
        label_map={k: _typed(v) for k, v in settings.label_map.items()},
        numeric_tolerance=settings.tolerance or 0.0,
    )
    return take_in(raw, label=settings.label or "", options=options)


def _typed(value: str) -> bool | str:
    return {"true": True, "false": False}.get(value, value)


def check_settings(deps: Deps, settings: FitSettings, found: Intake) -> dict[str, Any]:
    """Everything that can be refused before any spend (LO-1), in one pass.

    Returns:
        What the platform had to tell (``platform.ask_platform``).

    Raises:
        SettingsError: lists every fault found.
    """
    faults: list[str] = []
    refusal: str | None = None

    def trial(what: Any) -> None:
        try:
            what()
        except SettingsError as fault:
            if refusal is None or refusal not in str(fault):  # the publisher may refuse the judge in the same words
                faults.append(str(fault))

    label = found.label
    if settings.costly not in (None, "same") and settings.costly not in [text(c) for c in label.classes]:
        names = ", ".join(text(c) for c in label.classes) or "no classes: the label is numeric"
        faults.append(f"--costly {settings.costly!r} is no class of label {label.name!r} ({names}), and not `same`")
    if settings.tolerance is not None and label.kind != "numeric":
        faults.append(f"--tolerance is for numbers, and label {label.name!r} is {label.kind}")
    if found.gate.passed:
        trial(lambda: fixed_scoring(settings, found, seed=0))
    target = deps.open_target(settings.publish_to or "local")
    if settings.scope is not None and settings.scope not in target.scopes:
        faults.append(f"--scope {settings.scope}: {target.name} runs evaluators at {', '.join(target.scopes)}")
    refusal = target.hosts(settings.judge or "")
    if refusal is not None:
        faults.append(f"--judge {settings.judge}: {refusal}")
    trial(lambda: deps.check_label(settings, label))
    if refusal is None:
        trial(lambda: deps.open_team(settings, ""))
    told: dict[str, Any] = {}
    trial(lambda: told.update(ask_platform(deps, settings, found)))
    if faults:
        raise SettingsError("these settings cannot work:\n" + "\n".join(f"  {fault}" for fault in faults))
    return told


def fixed_scoring(settings: FitSettings, found: Intake, *, seed: int) -> Fixed:
    """Scoring's fixed quantities over the usable rows (law, Words)."""
    label = found.label
    metric = Metric.parse(
        settings.metric or "",
        kind=label.kind,
        classes=label.classes,
        beta=settings.beta,
        groups=settings.taxonomy or None,
        floor=settings.precision_floor,
    )
    return fix(
        kind=label.kind,
        labels={r.id: r.label for r in found.rows},
        metric=metric,
        runs=settings.runs,
        seed=seed,
        classes=label.classes,
        minimum=label.minimum,
        maximum=label.maximum,
    )


def intake(deps: Deps, state: State) -> dict[str, Any]:
    """Reads the queue once, applies the GT rules, checks settings; stages the snapshot in the seal's private folder."""
    fit = Fit.of(deps, state)
    settings = FitSettings.model_validate(state["settings"])
    if fit.store.has("staged.json"):
        return {"question": None, "gate": fit.store.read("staged.json")["gate"]}
    deps.progress.phase("intake")
    found = read_queue(deps, settings)
    told = check_settings(deps, settings, found)
    conflict = conflict_of(deps, settings, found)
    if conflict is not None:
        return {"question": _governs(conflict)}
    for line in recap_lines(found):
        deps.progress.phase(line)
    seal = seal_id(found.identity, found.label.id)
    deps.hold(seal, f"run {fit.store.run_id}")
    check_seal(deps, settings, found)
    # Replaced, not written once: a run killed before staged.json is there has taken no snapshot yet.
    write_atomic(staging(deps, seal, fit.store.run_id), canonical(_staged(found, settings)), private=True)
    gate = None if found.gate.passed else found.gate.reason
    if any(told.values()):
        fit.store.replace(CHECKS, told)  # a platform may answer otherwise when a killed process asks again
    fit.store.write("staged.json", {"seal": seal, "gate": gate})
    return {"question": None, "gate": gate}


def recap_lines(found: Intake) -> list[str]:
    """The recap for people before anything is spent: counts, classes, warnings (GT-4, GT-7); no row id (SP-7)."""
    gone = [f"{len(ids)} {reason}" for reason, ids in found.excluded.items() if ids]
    lines = [f"  {found.read} rows read = {len(found.rows)} usable + {' + '.join(gone) or 'no exclusions'}"]
    lines += [f"  class {one_line(name)}: {n}" for name, n in found.class_counts.items()]
    return [*lines, *(f"  {one_line(warning, 500)}" for warning in found.warnings)]


def check_all(deps: Deps, settings: FitSettings) -> None:
    """Everything that can be refused before a run has a folder; writes nothing.

    Raises:
        SettingsError, BadInput, UserError: see the checks.
    """
    found = read_queue(deps, settings)
    check_settings(deps, settings, found)
    conflict_of(deps, settings, found)
    check_seal(deps, settings, found)
    if found.gate.passed:
        map_there(deps.workspace, settings)


def conflict_of(deps: Deps, settings: FitSettings, found: Intake) -> str | None:
    """Why metric and goal disagree, where somebody can be asked which one governs (LO-1).

    Raises:
        SettingsError: they disagree and nobody can be asked, or the answer was that the goal governs.
    """
    if settings.governs == "metric":
        return None
    conflict = disagreement(settings, found.label, found.minority)
    if conflict is None:
        return None
    if settings.governs == "goal":
        raise SettingsError(f"the goal governs, and {conflict}", hint="choose one of these with --metric")
    if not deps.interactive:
        raise SettingsError(
            f"metric and goal disagree: {conflict}",
            hint="choose another --metric, or record your answer with --governs metric",
        )
    return conflict


def check_seal(deps: Deps, settings: FitSettings, found: Intake) -> None:
    """Refuses a holdout that was opened before, unless the user asked for it by name (SP-5).

    Raises:
        UserError: it was opened, or the seal belongs to other rows.
    """
    if not found.gate.passed:
        return
    _, opened = preview(
        deps.workspace, found.rows, queue=found.identity, label=found.label, positional=found.positional
    )
    if opened is not None and not settings.exposed_holdout:
        raise _exposed(opened)


def _exposed(opened: tuple[str, str]) -> UserError:
    by = f"opened by {opened[0]} on {opened[1]}"
    return UserError(
        f"the holdout of this queue and label was {by}; it is opened once",
        hint="label new rows in a queue of another name (--queue-name), or ask for --exposed-holdout: then every "
        f"figure on it is named 'exposed holdout, {by}'",
    )


def _governs(conflict: str) -> dict[str, Any]:
    what = "which one governs: `metric` keeps it, `goal` stops so that you can choose another"
    return {
        "title": f"Metric and goal disagree: {conflict}.",
        "fields": [{"name": "governs", "what": what, "choices": ["metric", "goal"]}],
    }


def staging(deps: Deps, seal: str, run_id: str) -> Path:
    """Where the one snapshot waits for the split: in the seal's private folder, since it holds rows to be held out."""
    return deps.workspace.seal(seal) / "private" / f"staged-{run_id}.json"


def read_staged(fit: Fit) -> dict[str, Any]:
    """The staged snapshot."""
    path = staging(fit.deps, fit.store.read("staged.json")["seal"], fit.store.run_id)
    # Content was accepted at 64 levels and stands three deeper here.
    staged: dict[str, Any] = strict_loads(path.read_text(encoding="utf-8"), max_depth=80)
    return staged


def _staged(found: Intake, settings: FitSettings) -> dict[str, Any]:
    """Everything later nodes need of intake, as one private document."""
    everyone = [row.id for row in found.rows]
    return {
        "schema_version": SCHEMA_VERSION,
        "identity": found.identity,
        "positional": found.positional,
        "recap": found.to_json(train_ids=everyone),
        "label": found.label.model_dump(mode="json"),
        "rows": [row_to_json(row) for row in found.rows],
        "reviews": [[r.row, r.annotator, r.label, r.role] for r in found.reviews],
        "scoring": fixed_scoring(settings, found, seed=0).to_json() if found.gate.passed else None,
    }


def snapshot(deps: Deps, state: State) -> dict[str, Any]:
    """Freezes the config: settings, everything intake fixed, the snapshot's hash, and the hash over all of it."""
    fit = Fit.of(deps, state)
    settings = FitSettings.model_validate(state["settings"])
    if fit.store.has("config.json"):
        return {}
    staged = read_staged(fit)
    rows = [row_from_json(row) for row in staged["rows"]]
    team = deps.open_team(settings, fit.store.run_id) if state.get("gate") is None else None
    who = {} if team is None else identities(team)
    fixed: dict[str, Any] = {
        "label": staged["label"],
        "snapshot": snapshot_hash(rows),
        "seal": fit.store.read("staged.json")["seal"],
        "queue": staged["identity"],
        "target": settings.publish_to,
        "judge": who.get("judge"),
        "strategies": {k: v for k, v in who.items() if k != "judge"} or None,
        "parser": PARSER_VERSION,
        "fitter": __version__,
    }
    hashed = config_hash(settings, {**fixed, "scoring": staged["scoring"]})
    if staged["scoring"] is not None:
        fixed["scoring"] = {**staged["scoring"], "seed": seed_from(hashed)}
    fit.store.write(
        "config.json",
        {
            "run": fit.store.run_id,
            "config_hash": hashed,
            "settings": settings.model_dump(mode="json"),
            "fixed": fixed,
        },
    )
    return {}


def seal(deps: Deps, state: State) -> dict[str, Any]:
    """Draws the split and seals the holdout before anything looks at a row (SP-2); keeps train rows only."""
    fit = Fit.of(deps, state)
    if fit.store.has("split.json"):
        _drop_staging(fit)
        return {}
    staged = read_staged(fit)
    recap = staged["recap"]
    if state.get("gate"):
        fit.store.write("intake.json", _named(recap, frozenset()))
        fit.store.write("split.json", {"seal": None, "reason": "GT-7 failed: no split was drawn"})
        _drop_staging(fit)
        return {}
    deps.progress.phase("seal")
    label = LabelSchema.model_validate(staged["label"])
    rows = [row_from_json(row) for row in staged["rows"]]
    split = seal_rows(deps.workspace, rows, queue=staged["identity"], label=label, positional=staged["positional"])
    if split.opened_by is not None and split.scored and not fit.settings.exposed_holdout:
        raise _exposed(split.opened_by)
    ids = frozenset(row.id for row in split.train)
    fit.store.write_text("train.jsonl", dump_rows(split.train), private=True)
    reviews = [dict(zip(("row", "annotator", "label", "role"), r, strict=True)) for r in staged["reviews"]]
    contested = recap["excluded"]["contested"]["ids"]
    kept = kept_reviews(reviews, train=ids, usable=len(rows), contested=contested)
    fit.store.write_rows("reviews.jsonl", kept, private=True)
    fit.store.write("agreement.json", agreement_of(kept, label.kind))
    fit.store.write_rows("labels/train.jsonl", label_rows(split.train, positional=staged["positional"]))
    fit.store.write("intake.json", _named(recap, ids))
    fit.store.write("split.json", split.to_json())
    _drop_staging(fit)
    return {}


def _drop_staging(fit: Fit) -> None:
    staging(fit.deps, fit.store.read("staged.json")["seal"], fit.store.run_id).unlink(missing_ok=True)


def _named(recap: dict[str, Any], train: frozenset[str]) -> dict[str, Any]:
    """The recap with findings that name train rows only (SP-7)."""
    named = {k: v for k, v in recap.items() if k != "schema_version"}
    for key, ids in (("expected_output", "differs_train_ids"), ("app_verdict", "differs_train_ids"),
                     ("medians", "train_ids"), ("adjudicated", "train_ids")):  # fmt: skip
        named[key] = {**named[key], ids: [i for i in named[key][ids] if i in train]}
    return named


def label_rows(rows: Sequence[Row], *, positional: bool = False) -> list[dict[str, Any]]:
    """The tracked half of labelled rows: id, label, group name and the app's verdict; no text.

    Groups are named ``g0001`` in the order of their first row id.
    """
    grouping = group_rows(rows, positional=positional)
    order = sorted(grouping.groups, key=lambda g: min(m.row for m in g.members))
    name = {m.row: f"g{n:04d}" for n, group in enumerate(order, 1) for m in group.members}
    return [
        {
            "id": row.id,
            "label": to_json(row.label),
            "group": name[row.id],
            **({} if row.app_verdict is None else {"app_verdict": to_json(row.app_verdict)}),
        }
        for row in sorted(rows, key=lambda r: r.id)
    ]
