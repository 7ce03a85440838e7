"""The proposer: best's criteria and one bucket of errors in, ONE focused change out (LO-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitter.advisors.describer import inside
from fitter.advisors.desk import Desk, Unfit, cut, exactly, obj, plain, prompt_text, sentence, words
from fitter.advisors.drafter import answers_text
from fitter.records import Change, Criterion, ProposalBrief
from fitter.textsafe import one_line

MOST_ERRORS = 10
_ACTIONS = ("add", "replace", "move", "drop", "set_otherwise", "add_evidence", "drop_evidence", "none")
_KEYS = ("why", "action", "target_id", "label", "text", "otherwise", "field_name", "field_path")
_MOST_OTHERWISE, _MOST_NAME, _MOST_PATH = 200, 40, 500  # characters

_TASK = prompt_text("proposer")


@dataclass(frozen=True)
class ModelProposer:
    """A Proposer on a desk."""

    desk: Desk

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it."""
        return self.desk.identity

    def propose(self, brief: ProposalBrief) -> Change | None:
        """One change, or None when the model sees nothing left to try.

        Raises:
            NoAdvice: no usable answer.
        """
        answers, allowed = answers_text(brief.label)
        task = _TASK.format(
            goal=brief.goal,
            costly="both the same" if brief.costly == "same" else f"missing `{brief.costly}`",
            answers=answers,
        )
        if brief.rejected is not None:
            why = one_line(brief.rejected, 300)
            task += f"\n\nYour proposal for this iteration was refused: {why}. Propose another one."
        criteria = [f"{c.id} [{c.label}] {c.text}" for c in brief.draft.criteria]
        criteria.append(f"otherwise: {brief.draft.otherwise}")
        buckets = [
            f"{'>>' if b.name == brief.target.name else '  '} {b.name} ({len(b.rows)} errors): {b.description}"
            for b in brief.buckets
        ]
        attempts = [f"{a.iteration}. {a.change} | aimed at {a.bucket} | {a.outcome}, {a.basis}" for a in brief.attempts]
        parts = [
            ("criteria in use", "\n".join(criteria)),
            ("evidence in use", "\n".join(f"{name}: {path}" for name, path in brief.map_fields.items())),
            ("kinds of error, largest first; the target is marked >>", "\n".join(buckets)),
            ("domain notes", brief.notes or "(none)"),
            ("tried before", "\n".join(attempts) or "(nothing)"),
        ]
        for n, error in enumerate(brief.errors[:MOST_ERRORS], 1):
            reasons = " / ".join(error.human_reasons) or "(none given)"
            parts.append(
                (
                    f"error {n}: reviewer {error.human}, judge {error.judge}",
                    f"{cut(inside(error.evidence), 3000)}\nReviewer's reasoning: {cut(reasons, 1000)}\n"
                    f"Judge's reasoning: {cut(error.judge_reasoning, 1000)}",
                )
            )
        return self.desk.ask(
            role="proposer",
            phase="propose",
            task=task,
            parts=parts,
            schema=_schema(brief, allowed),
            read=lambda value: _read(value, brief, allowed),
        )


def _schema(brief: ProposalBrief, allowed: list[str]) -> dict[str, Any]:
    def text(most: int) -> dict[str, Any]:
        return {"type": ["string", "null"], "maxLength": most}

    def one_of(names: list[str]) -> dict[str, Any]:
        return {"type": ["string", "null"], "enum": [*names, None]}

    return obj(
        {
            "why": words(),
            "action": {"type": "string", "enum": list(_ACTIONS)},
            "target_id": one_of([c.id for c in brief.draft.criteria]),
            "label": one_of(allowed),
            "text": text(400),
            "otherwise": text(_MOST_OTHERWISE),
            "field_name": text(_MOST_NAME),
            "field_path": text(_MOST_PATH),
        }
    )


def _read(value: Mapping[str, Any], brief: ProposalBrief, allowed: list[str]) -> Change | None:
    exactly(value, _KEYS)
    action, why = value["action"], plain(value["why"], "why")
    if action not in _ACTIONS:
        raise Unfit(f"action is none of {list(_ACTIONS)}")
    if action == "none":
        return None
    base: dict[str, Any] = {"bucket": brief.target.name, "why": why}
    if action in ("replace", "move", "drop"):
        by_id = {c.id: c for c in brief.draft.criteria}
        if not isinstance(value["target_id"], str) or value["target_id"] not in by_id:
            raise Unfit(f"target_id is none of {sorted(by_id)}")
        old = by_id[value["target_id"]]
        if action == "drop":
            return Change(action="drop", target_id=old.id, **base)
        if action == "replace":
            new = Criterion(id=old.id, label=old.label, text=sentence(value["text"], "text"))
            return Change(action="replace", target_id=old.id, criterion=new, **base)
        moved = Criterion(id=old.id, label=_label(value["label"], allowed), text=old.text)
        return Change(action="move", target_id=old.id, criterion=moved, **base)
    if action == "add":
        added = Criterion(id="new", label=_label(value["label"], allowed), text=sentence(value["text"], "text"))
        return Change(action="add", criterion=added, **base)
    if action == "set_otherwise":
        otherwise = plain(value["otherwise"], "otherwise", _MOST_OTHERWISE)
        if brief.label.kind != "numeric":
            otherwise = _label(otherwise, allowed)
        return Change(action="set_otherwise", otherwise=otherwise, **base)
    name = plain(value["field_name"], "field_name", _MOST_NAME)
    if action == "drop_evidence":
        if name not in brief.map_fields:
            raise Unfit(f"field_name is none of {sorted(brief.map_fields)}")
        return Change(action="change_map", map_change={"drop": name}, **base)
    if name in brief.map_fields:
        raise Unfit("field_name is a field that is shown already")
    field = {"name": name, "path": plain(value["field_path"], "field_path", _MOST_PATH), "why": why}
    return Change(action="change_map", map_change={"add": field}, **base)


def _label(value: Any, allowed: list[str]) -> str:
    if value not in allowed:
        raise Unfit(f"label is none of {allowed}")
    return str(value)
