"""A row, rendered exactly as the deployed evaluator's model would get it, or the reason why not (EV-6, EV-7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fitter.errors import RunError
from fitter.evidence.map import EvidenceMap
from fitter.evidence.targets.base import FieldState, Target
from fitter.judge.prompt import JudgePrompt, build_prompt, leftover_placeholders
from fitter.records import Draft, Framing, Row, VerdictContract
from fitter.textsafe import one_line, visible

UnrenderedReason: TypeAlias = Literal["unrenderable", "oversized", "fence_collision"]

_REDRAWS = 16


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The user message of one row.

    Attributes:
        text: to the byte what the model gets.
        size: its length in bytes of UTF-8.
        states: evidence field → resolved, empty or missing.
        truncated: evidence fields that the target's own per-field cap cut; reported, never silent.
    """

    text: str = field(repr=False)
    size: int
    states: Mapping[str, FieldState]
    truncated: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unrendered:
    """A row that is excluded and counted before any call, never scored wrong.

    Attributes:
        reason: the exclusion's code.
        detail: for people; names fields and sizes, never content.
        states: evidence field → state, where the payload exists.
    """

    reason: UnrenderedReason
    detail: str
    states: Mapping[str, FieldState] = field(default_factory=dict)


def render(
    target: Target, prompt: JudgePrompt | str, evidence: EvidenceMap, row: Row, framing: Framing
) -> Rendered | Unrendered:
    """Renders one row.

    Args:
        target: whose template grammar and size limit hold.
        prompt: a prompt version, or a bare user template.
        evidence: the map the template was built from.
        row: the row.
        framing: decides what of the app's own verdict is left out.

    Raises:
        RunError: the template holds a placeholder that the map does not fill (IN-2), or lacks one of the map's.
        SettingsError: a selector or placeholder that does not parse.
    """
    template = prompt if isinstance(prompt, str) else prompt.user_template
    compiled = target.compile(evidence)
    gap = next((g for g in compiled.gaps if any(f.name == g.field and f.required for f in evidence.fields)), None)
    if gap is not None:
        return Unrendered(reason="unrenderable", detail=f"required field {gap.field} cannot be carried: {gap.why}")
    payload = target.payload(row, evidence.scope, framing)
    if payload is None:
        return Unrendered(reason="unrenderable", detail=f"the row has nothing that a {evidence.scope} evaluator sees")
    resolved = target.resolve(template, payload)
    paths = {
        item.name: placeholder.removeprefix("{{").removesuffix("}}") for item, placeholder in compiled.placeholders
    }
    if isinstance(prompt, JudgePrompt) and (left := leftover_placeholders(prompt, paths.values())):
        raise RunError(
            f"the prompt holds {one_line(left[0], 80)!r}, which the evidence map does not fill",
            hint="prompt and evidence map belong to different versions; no call was made",
        )
    absent = [name for name, path in paths.items() if path not in resolved.states]
    if absent:
        raise RunError(f"the prompt's template has no place for the evidence map's field {absent[0]}")
    states = {name: resolved.states[path] for name, path in paths.items()}
    missing = [f.name for f in evidence.fields if f.required and states.get(f.name) == "missing"]
    if missing:
        return Unrendered(
            reason="unrenderable", detail=f"required field {', '.join(missing)} is missing", states=states
        )
    if "resolved" not in states.values():
        return Unrendered(reason="unrenderable", detail="every evidence field is missing or empty", states=states)
    size = len(resolved.text.encode("utf-8", "surrogatepass"))
    if size > target.max_user_bytes:
        detail = f"{size:,} bytes are over the target's limit of {target.max_user_bytes:,}"
        return Unrendered(reason="oversized", detail=detail, states=states)
    # Counted rather than searched, because the template itself holds the nonce; a payload that holds it adds to it.
    if isinstance(prompt, JudgePrompt) and resolved.text.count(prompt.nonce) != template.count(prompt.nonce):
        return Unrendered(reason="fence_collision", detail="the payload holds the prompt's nonce", states=states)
    truncated = tuple(name for name, path in paths.items() if path in resolved.truncated)
    return Rendered(text=resolved.text, size=size, states=states, truncated=truncated)


def build_clear_prompt(
    target: Target,
    draft: Draft,
    contract: VerdictContract,
    evidence: EvidenceMap,
    train: Iterable[Row],
    framing: Framing,
) -> JudgePrompt:
    """A prompt version whose nonce no train payload holds, redrawn until that is so (IN-1).

    Args:
        target: the target.
        draft, contract: as for ``build_prompt``.
        evidence: the map.
        train: train rows only; a holdout row that holds the nonce is excluded later, never looked at here.
        framing: EV-3.

    Raises:
        RunError: sixteen nonces in a row stood in train payloads, which is no accident.
    """
    compiled = target.compile(evidence)
    rows = tuple(train)
    for redraw in range(_REDRAWS):
        prompt = build_prompt(draft, contract, compiled, redraw=redraw)
        if not any(_collides(render(target, prompt, evidence, row, framing)) for row in rows):
            return prompt
    raise RunError(
        f"{_REDRAWS} nonces in a row stand in train payloads",
        hint="somebody who knows this prompt wrote them; look for 32-digit hex words in the train rows",
    )


def readable(target: Target, evidence: EvidenceMap, row: Row, framing: Framing) -> str:
    """A row as the judge will see it, field by field, safe for a terminal (SC-5): what ``fitter evidence ROW`` shows.

    The label, the reviewers and everything else private is not in it.
    """
    compiled = target.compile(evidence)
    payload = target.payload(row, evidence.scope, framing)
    lines = [
        f"row {one_line(row.id)}",
        f"scope {evidence.scope}, framing {framing}, target {target.name}, map {evidence.hash[:12]}",
    ]
    if payload is None:
        return "\n".join([*lines, "", f"unrenderable: the row has nothing that a {evidence.scope} evaluator sees", ""])
    for item, placeholder in compiled.placeholders:
        resolved = target.resolve(placeholder, payload)
        state = next(iter(resolved.states.values()), "missing")
        cut = ", cut by the target's per-field cap" if resolved.truncated else ""
        size = len(resolved.text.encode("utf-8", "surrogatepass"))
        need = ", required" if item.required else ""
        lines += ["", f"[{item.name}]  {one_line(item.path)}  ({state}, {size:,} bytes{need}{cut})"]
        if resolved.text:
            # Indented, so that no payload line can pass for a heading of ours.
            lines += [f"  | {line}" for line in visible(resolved.text).split("\n")]
    for gap in compiled.gaps:
        lines += ["", f"[{gap.field}]  {one_line(gap.path)}  (not carried: {gap.why})"]
    template = "\n\n".join(placeholder for _, placeholder in compiled.placeholders)
    outcome = render(target, template, evidence, row, framing)
    if isinstance(outcome, Unrendered):
        lines += ["", f"{outcome.reason}: {outcome.detail}"]
    return "\n".join([*lines, ""])


def field_states(
    target: Target, evidence: EvidenceMap, rows: Iterable[Row], framing: Framing
) -> dict[str, dict[str, int]]:
    """Per field, how many rows resolve, are empty or miss it (EV-7); rows with no payload count as missing."""
    compiled = target.compile(evidence)
    counts = {item.name: {"resolved": 0, "empty": 0, "missing": 0} for item, _ in compiled.placeholders}
    template = "\n".join(placeholder for _, placeholder in compiled.placeholders)
    for row in rows:
        payload = target.payload(row, evidence.scope, framing)
        states = {} if payload is None else target.resolve(template, payload).states
        for item, placeholder in compiled.placeholders:
            counts[item.name][states.get(placeholder.removeprefix("{{").removesuffix("}}"), "missing")] += 1
    return counts


def _collides(outcome: Rendered | Unrendered) -> bool:
    return isinstance(outcome, Unrendered) and outcome.reason == "fence_collision"
