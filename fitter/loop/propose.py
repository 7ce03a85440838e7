"""Applying ONE focused change (LO-3): a candidate differs from best in exactly one place. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

from fitter.errors import UserError
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.records import Change, Criterion, Draft


class BadChange(UserError):
    """A proposed change that does not fit best: the proposal is refused, the run goes on."""


def describe(change: Change) -> str:
    """One line that identifies a change, for records, attempts and reports."""
    if change.action == "add" and change.criterion is not None:
        return f'add under "{change.criterion.label}": {change.criterion.text}'
    if change.action == "replace" and change.criterion is not None:
        return f"replace {change.target_id} by: {change.criterion.text}"
    if change.action == "move" and change.criterion is not None:
        return f'move {change.target_id} to "{change.criterion.label}": {change.criterion.text}'
    if change.action == "drop":
        return f"drop {change.target_id}"
    if change.action == "set_otherwise":
        return f'otherwise answer "{change.otherwise}"'
    return f"evidence map: {dict(change.map_change or {})}"


def _index(draft: Draft, target_id: str | None) -> int:
    for at, criterion in enumerate(draft.criteria):
        if criterion.id == target_id:
            return at
    raise BadChange(f"the change names criterion {target_id!r}, which is not in the prompt")


def _need(change: Change) -> Criterion:
    if change.criterion is None:
        raise BadChange(f"the change {change.action!r} brings no criterion")
    return change.criterion


def apply(
    change: Change,
    draft: Draft,
    evidence: EvidenceMap,
    *,
    labels: tuple[str, ...],
    new_id: str,
    numeric: bool = False,
) -> tuple[Draft, EvidenceMap]:
    """Best with the one change made.

    Args:
        change: the proposal.
        draft: best's criteria.
        evidence: best's map.
        labels: canonical texts that a criterion may speak for.
        new_id: id of an added criterion.
        numeric: the label is a number, and so is the closing answer.

    Returns:
        The candidate's draft and map; exactly one of them differs from best's.

    Raises:
        BadChange: it names what is not there, changes nothing, or would leave a prompt without criteria.
    """
    criteria = list(draft.criteria)
    if change.action == "change_map":
        return draft, _change_map(change, evidence)
    if change.action == "set_otherwise":
        fits = _is_number(change.otherwise) if numeric else change.otherwise in labels
        if not fits or change.otherwise == draft.otherwise:
            raise BadChange("the change sets the closing answer to what it is, or to no class")
        return replace(draft, otherwise=change.otherwise or ""), evidence
    if change.action == "add":
        added = replace(_need(change), id=new_id)
        if any(c.text == added.text and c.label == added.label for c in criteria):
            raise BadChange("the criterion is already in the prompt")
        criteria.append(added)
    elif change.action == "drop":
        del criteria[_index(draft, change.target_id)]
        if not criteria:
            raise BadChange("the change would leave the prompt without criteria")
    else:
        at = _index(draft, change.target_id)
        new = replace(_need(change), id=criteria[at].id)
        if new == criteria[at]:
            raise BadChange("the change leaves the criterion as it is")
        if change.action == "replace" and new.label != criteria[at].label:
            raise BadChange("a replaced criterion keeps its class; moving it is another change")
        if change.action == "move" and new.text != criteria[at].text:
            raise BadChange("a moved criterion keeps its text; rewriting it is another change")
        criteria[at] = new
    for criterion in criteria:
        if criterion.label not in labels:
            raise BadChange(f"the change speaks for {criterion.label!r}, which is no class of the label")
    return replace(draft, criteria=tuple(criteria)), evidence


def _is_number(text: str | None) -> bool:
    try:
        return text is not None and math.isfinite(float(text))
    except ValueError:
        return False


def _change_map(change: Change, evidence: EvidenceMap) -> EvidenceMap:
    edit = dict(change.map_change or {})
    if set(edit) == {"drop"}:
        left = tuple(f for f in evidence.fields if f.name != edit["drop"])
        if len(left) == len(evidence.fields):
            raise BadChange(f"the change drops field {edit['drop']!r}, which is not in the map")
        if not left:
            raise BadChange("the change would leave the evidence map empty")
        return evidence.model_copy(update={"fields": left, "reviewed": False})
    if set(edit) == {"add"}:
        try:
            added = EvidenceField.model_validate(edit["add"])
        except ValueError:  # what it says quotes the field, which is a model's words
            raise BadChange("the change adds a map field whose name or path is not valid") from None
        if any(f.name == added.name or f.path == added.path for f in evidence.fields):
            raise BadChange("the change adds a field that the map already has")
        return evidence.model_copy(update={"fields": (*evidence.fields, added), "reviewed": False})
    raise BadChange("a map change adds one field or drops one")


def change_to_json(change: Change) -> dict[str, Any]:
    """A change as JSON."""
    return asdict(change)


def change_from_json(record: dict[str, Any]) -> Change:
    """Reads :func:`change_to_json` back."""
    criterion = record["criterion"]
    return Change(**{**record, "criterion": None if criterion is None else Criterion(**criterion)})
