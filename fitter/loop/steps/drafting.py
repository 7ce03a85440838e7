"""Split, map, isolation and the first draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitter.errors import BadInput, RunError, UserError
from fitter.evidence.isolation import prove_isolation
from fitter.evidence.map import EvidenceMap
from fitter.evidence.propose_map import NoEvidence, propose_map
from fitter.evidence.render import build_clear_prompt, field_states
from fitter.jsonio import JSONFault, pretty, strict_loads
from fitter.judge.frame import checked
from fitter.labels import text
from fitter.loop.deps import Deps
from fitter.loop.guard import Corpus, Violation, check_draft
from fitter.loop.state import State
from fitter.loop.steps.context import Fit, Version, number
from fitter.loop.steps.measuring import render_rows
from fitter.loop.strategies import NoAdvice
from fitter.records import Criterion, Draft, DraftBrief, LabelledReason
from fitter.settings import FitSettings
from fitter.textsafe import one_line
from fitter.workspace import Workspace, write_atomic


def evidence_map(deps: Deps, state: State) -> dict[str, Any]:
    """The reviewed map where there is one, else a default proposed from train rows and written for review."""
    fit = Fit.of(deps, state)
    if fit.store.has("map.json"):
        return {"ending": fit.store.read("map.json").get("ending")}
    deps.progress.phase("evidence map")
    path = deps.workspace.evidence_map(fit.settings.name or "")
    try:
        reviewed = map_there(deps.workspace, fit.settings)
        if reviewed is not None:
            found = reviewed
        else:
            found = propose_map(fit.train, fit.scope, fit.target, fit.framing)
            write_atomic(path, pretty(found.model_dump(mode="json")))
    except NoEvidence as fault:
        fit.store.write("map.json", {"ending": "no_evidence", "why": str(fault)})
        return {"ending": "no_evidence"}
    compiled = fit.target.compile(found)
    for gap in compiled.gaps:  # known before any spend (EV-7, LO-1)
        deps.progress.phase(
            f"  not carried by {fit.target.name}: {one_line(gap.field)} ({one_line(gap.path)}): {gap.why}"
        )
    fit.store.write(
        "map.json",
        {
            "map": found.model_dump(mode="json"),
            "map_hash": found.hash,
            "gaps": [{"field": g.field, "path": g.path, "why": g.why} for g in compiled.gaps],
            "train_fields": field_states(fit.target, found, fit.train, fit.framing),
            "ending": None,
        },
    )
    return {}


def map_there(workspace: Workspace, settings: FitSettings) -> EvidenceMap | None:
    """The map that lies in evidence_maps/ for this evaluator, or None.

    Raises:
        BadInput: it cannot be read, or is for another scope.
    """
    path = workspace.evidence_map(settings.name or "")
    if not path.is_file():
        return None
    found = read_map(path)
    if settings.scope is not None and found.scope != settings.scope:
        raise BadInput(
            f"this map is for scope {found.scope}, the fit is at {settings.scope}",
            file=str(path),
            hint="move the map away to have one proposed, or fit at its scope",
        )
    return found


def read_map(path: Any) -> EvidenceMap:
    """Reads a map file.

    Raises:
        BadInput: not there, not JSON, or not a map.
    """
    try:
        return EvidenceMap.model_validate(strict_loads(path.read_text(encoding="utf-8")))
    except OSError as fault:
        raise BadInput(f"cannot be read: {fault.strerror}", file=str(path)) from None
    except JSONFault as fault:
        raise BadInput(f"is not JSON: {fault}", file=str(path), line=fault.line) from None
    except ValueError as fault:
        raise BadInput(f"is not an evidence map: {fault}", file=str(path)) from None


def isolation(deps: Deps, state: State) -> dict[str, Any]:
    """The isolation proof before the first model call (EV-5): every train row, in the frame, with no criteria yet."""
    fit = Fit.of(deps, state)
    if fit.store.has("isolation.json"):
        return {}
    deps.progress.phase("isolation proof")
    found = EvidenceMap.model_validate(fit.store.read("map.json")["map"])
    labels = fit.labels_allowed
    bare = Draft(
        task="Isolation proof.",
        criteria=(Criterion(id="c0", label=labels[0], text="The interaction is graded."),),
        otherwise=_any_answer(fit),
    )
    prompt = build_clear_prompt(fit.target, bare, fit.target.contract(fit.label), found, fit.train, fit.framing)
    proof = prove_isolation(fit.target, prompt, found, fit.train, fit.framing)
    fit.store.write(
        "isolation.json",
        {"rows": proof.rows, "fields": list(proof.fields), "passed": proof.passed, "digest": proof.digest},
    )
    return {}


def probe(deps: Deps, state: State) -> dict[str, Any]:
    """Settles the instruments once, before v0, and records what they are (OUT-2)."""
    fit = Fit.of(deps, state)
    if not fit.store.has("instrument.json"):
        team = fit.team
        if team.clients:
            deps.progress.phase(f"probe of {team.judge.spec}")
        fit.store.write("instrument.json", deps.settle(team, fit.target.contract(fit.label), fit.store.run_id))
    return {}


def _any_answer(fit: Fit) -> str:
    if fit.label.kind == "numeric":
        return text(min(float(r.label) for r in fit.train))  # type: ignore[arg-type]
    return text(fit.label.classes[0])


def draft(deps: Deps, state: State) -> dict[str, Any]:
    """Writes version ``state["version"]``: the first draft, or the one redraft with the first one's failure named."""
    fit = Fit.of(deps, state)
    at = state.get("version", 0)
    if fit.store.has(f"prompts/{number(at)}.json"):
        return {"version": at, "draft_version": state.get("draft_version", at)}
    deps.progress.phase("draft" if at == 0 else "redraft")
    found = EvidenceMap.model_validate(fit.store.read("map.json")["map"])
    failure = fit.store.read("degenerate.json")["failure"] if at > 0 else None
    try:
        made, refused = _drafted(fit, found, failure)
    except NoAdvice as fault:
        if at == 0:
            raise RunError(
                f"there is no first draft: {fault}",
                hint="add domain notes (--notes) that say in general words what each class means, or let another model "
                "draft (--proposer), in a new fit",
            ) from None
        # The redraft is a second chance, no condition: the first draft is measured again, from the journal.
        first = fit.version(state["draft_version"]).prompt.draft
        made, refused, failure = first, [], f"{failure}; and there is no redraft: {fault}"
    fit.store.write(f"drafts/{number(at)}.json", {"failure": failure, "refused": refused})
    write_version(fit, at, made, found)
    return {"version": at, "draft_version": state.get("draft_version", at)}


def write_version(fit: Fit, at: int, made: Draft, found: EvidenceMap) -> Version:
    """Frames a draft for the target, fences it, and writes the version file."""
    prompt = build_clear_prompt(fit.target, made, fit.target.contract(fit.label), found, fit.train, fit.framing)
    version = Version(number=at, prompt=prompt, evidence=found)
    fit.store.write(f"prompts/{number(at)}.json", version.to_json())
    return version


def brief_of(fit: Fit, failure: str | None) -> DraftBrief:
    """What the drafter may know (LO-2)."""
    settings = fit.settings
    return DraftBrief(
        label=fit.label,
        goal=settings.goal or "",
        costly=settings.costly or "same",
        framing=fit.framing,
        notes=settings.notes,
        reasons=tuple(
            LabelledReason(row=row.id, label=text(row.label), reason=reason)
            for row in fit.train
            for reason in row.reasons
        ),
        failure=failure,
    )


def train_corpus(fit: Fit, found: EvidenceMap) -> Corpus:
    """Train payloads as judged under a map, for the guards."""
    bare = Draft(
        task="Guard.",
        criteria=(Criterion(id="c0", label=fit.labels_allowed[0], text="The interaction is graded."),),
        otherwise=_any_answer(fit),
    )
    prompt = build_clear_prompt(fit.target, bare, fit.target.contract(fit.label), found, fit.train, fit.framing)
    texts = render_rows(fit, Version(number=0, prompt=prompt, evidence=found), fit.train)[0]
    # The fence and its headings are ours, not the rows': they may not count as memorised text.
    return fit.corpus([_without_fence(t, prompt.nonce) for t in texts.values()])


def _without_fence(rendered: str, nonce: str) -> str:
    return "\n".join(line for line in rendered.split("\n") if nonce not in line)


def _drafted(fit: Fit, found: EvidenceMap, failure: str | None) -> tuple[Draft, list[dict[str, str]]]:
    """A draft that passes the guards: asked for again once, then pruned criterion by criterion.

    Raises:
        NoAdvice: there is no such draft.
    """
    corpus = train_corpus(fit, found)
    drafter = fit.team.drafter
    made = drafter.draft(brief_of(fit, failure))
    violations = check_draft(made, corpus)
    refused = _recorded(violations)
    if violations:
        again = "; ".join(sorted({f"{v.where} {v.message}" for v in violations}))
        made = drafter.draft(brief_of(fit, f"{failure}; {again}" if failure else again))
        violations = check_draft(made, corpus)
        refused += _recorded(violations)
    bad = {v.where for v in violations}
    kept = tuple(c for c in made.criteria if c.id not in bad)
    if "task" in bad or not kept:
        raise NoAdvice(
            "the drafter twice wrote a draft that the guards refuse: " + "; ".join(v.message for v in violations[:3])
        )
    pruned = Draft(task=made.task, criteria=kept, otherwise=made.otherwise)
    try:
        checked(pruned, fit.label)
    except UserError as fault:  # whoever drafted, it is no mistake of the user's
        raise NoAdvice(f"the draft cannot stand in a prompt: {fault.message}") from None
    return pruned, refused


def _recorded(violations: Sequence[Violation]) -> list[dict[str, str]]:
    return [{"rule": v.rule, "code": v.code, "where": v.where} for v in violations]
