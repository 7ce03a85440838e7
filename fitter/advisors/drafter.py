"""The drafter: definition, notes and reviewers' reasoning in, the criteria of v0 out (LO-2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fitter.advisors.desk import Desk, Unfit, cut, exactly, obj, prompt_text, sentence, words
from fitter.jsonio import strict_loads
from fitter.labels import LabelSchema, from_json, text
from fitter.records import Criterion, Draft, DraftBrief

MOST_CRITERIA = 12
MOST_REASONS = 120
MOST_TASK = 600  # characters
MOST_OTHERWISE = 200
MOST_NUMBER = 24

_TASK = prompt_text("drafter")

_FRAMINGS = {
    "grader": "the reviewer's assessment of the interaction.",
    "replicator": "the value the reviewer gave, from the same evidence the application had.",
    "corrector": "the value that should have been given, where the application may have got it wrong.",
}


def answers_text(brief_label: Any) -> tuple[str, list[str]]:
    """The answers a criterion may speak for, in words, and as a list."""
    if brief_label.kind == "numeric":
        said = "The answer is a number. Criteria speak for `higher` or `lower`; `otherwise` is the number, as text."
        return said, ["higher", "lower"]
    names = [text(c) for c in brief_label.classes]
    listed = ", ".join(f"`{n}`" for n in names)
    if brief_label.kind == "multiselect":
        return f"Several answers may hold at once. Criteria speak for one of: {listed}.", names
    return f"Exactly one answer holds. Criteria speak for one of: {listed}.", names


@dataclass(frozen=True)
class ModelDrafter:
    """A Drafter on a desk."""

    desk: Desk

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it."""
        return self.desk.identity

    def draft(self, brief: DraftBrief) -> Draft:
        """Drafts, or redrafts with the failure named.

        Raises:
            NoAdvice: no usable draft in two answers.
        """
        answers, allowed = answers_text(brief.label)
        numeric = brief.label.kind == "numeric"
        task = _TASK.format(
            goal=brief.goal,
            costly="both the same" if brief.costly == "same" else f"missing `{brief.costly}`",
            framing=_FRAMINGS[brief.framing],
            answers=answers,
            most=MOST_CRITERIA,
        )
        if brief.failure is not None:
            task += f"\n\nAn earlier draft failed: {brief.failure}. Write a better one, not a variation of it."
        definition = [brief.label.description or "(none)"]
        definition += [f"{value}: {meaning}" for value, meaning in sorted(brief.label.value_descriptions.items())]
        reasons = [f"- [{r.label}] {cut(r.reason, 600)}" for r in brief.reasons[:MOST_REASONS]]
        if len(brief.reasons) > MOST_REASONS:
            reasons.append(f"({len(brief.reasons) - MOST_REASONS} more are not shown)")
        return self.desk.ask(
            role="drafter",
            phase="draft" if brief.failure is None else "redraft",
            task=task,
            parts=(
                (f"definition of the label {brief.label.name}", "\n".join(definition)),
                ("domain notes", brief.notes or "(none)"),
                ("reviewers' reasoning, with the label each gave", "\n".join(reasons) or "(none)"),
            ),
            schema=_schema(allowed, numeric=numeric),
            read=lambda value: _read(value, allowed, brief.label),
        )


def _schema(allowed: list[str], *, numeric: bool) -> dict[str, Any]:
    criterion = obj({"label": {"type": "string", "enum": allowed}, "text": words()})
    return obj(
        {
            "task": words(MOST_TASK),
            "criteria": {"type": "array", "items": criterion, "maxItems": MOST_CRITERIA},
            "otherwise": words(MOST_NUMBER) if numeric else {"type": "string", "enum": allowed},
        }
    )


def _check_number(otherwise: str, label: LabelSchema) -> None:
    try:
        admitted = label.admits(from_json(strict_loads(otherwise), "numeric"))
    except ValueError:
        admitted = False
    if not admitted:
        bounds = [f"at least {label.minimum:g}"] if label.minimum is not None else []
        bounds += [f"at most {label.maximum:g}"] if label.maximum is not None else []
        kind = "whole number" if label.is_integer else "number"
        raise Unfit(f"otherwise is not a {kind} in digits and nothing else" + "".join(f", {b}" for b in bounds))


def _read(value: Mapping[str, Any], allowed: list[str], label: LabelSchema) -> Draft:
    numeric = label.kind == "numeric"
    exactly(value, ("task", "criteria", "otherwise"))
    given = value["criteria"]
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_CRITERIA:
        raise Unfit(f"criteria is not a list of 1 to {MOST_CRITERIA}")
    criteria = []
    for n, item in enumerate(given, 1):
        if not isinstance(item, dict):
            raise Unfit(f"criterion {n} is not an object")
        exactly(item, ("label", "text"))
        if item["label"] not in allowed:
            raise Unfit(f"criterion {n} speaks for an answer that is none of {allowed}")
        criteria.append(Criterion(id=f"c{n}", label=item["label"], text=sentence(item["text"], f"criterion {n}")))
    if len({(c.label, c.text) for c in criteria}) != len(criteria):
        raise Unfit("a criterion stands there twice")
    otherwise = sentence(value["otherwise"], "otherwise", MOST_NUMBER if numeric else MOST_OTHERWISE)
    if numeric:
        _check_number(otherwise, label)
    elif otherwise not in allowed:
        raise Unfit(f"otherwise is none of {allowed}")
    return Draft(task=sentence(value["task"], "task", MOST_TASK), criteria=tuple(criteria), otherwise=otherwise)
