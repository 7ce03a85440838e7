"""The judge's prompt: criteria (data) rendered into a fixed frame, and the exact inverse (docs/judge.md).

The system message is static. The user message is a template: a fence with a nonce, a heading for each part, and one
placeholder under each heading. The payload therefore stands between two lines that its author could not know (IN-1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fitter.clients.base import Message, ModelRequest, ModelSettings
from fitter.errors import RunError, Tampered, UserError
from fitter.evidence.targets.base import Compiled
from fitter.jsonio import digest
from fitter.judge.frame import (
    TEMPLATE_MARKS,
    Frame,
    FrameCriterion,
    checked,
    frame_of,
    parse_frame,
    render_system,
    text_fault,
)
from fitter.labels import LabelSchema
from fitter.records import Criterion, Draft, VerdictContract
from fitter.textsafe import one_line

__all__ = [
    "SCHEMA_NAME",
    "TEMPLATE_MARKS",
    "Frame",
    "FrameCriterion",
    "JudgePrompt",
    "build_prompt",
    "collides",
    "contract_from_json",
    "contract_to_json",
    "draft_from_json",
    "draft_to_json",
    "leftover_placeholders",
    "parse_frame",
    "parse_parts",
    "request",
    "text_fault",
]

SCHEMA_VERSION: Final = 1
SCHEMA_NAME: Final = "verdict"

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class JudgePrompt:
    """One version of a judge's prompt: what is measured is what ships.

    Attributes:
        draft: the criteria it renders.
        contract: what the judge must answer.
        nonce: 32 lower-case hex digits (128 bits), derived from the version's own text.
        system: the system message, static.
        user_template: the user message with the target's placeholders.
        redraw: how often the nonce was redrawn because a train payload held it.
    """

    draft: Draft
    contract: VerdictContract
    nonce: str
    system: str
    user_template: str
    redraw: int = 0

    @property
    def hash(self) -> str:
        """Hash of everything the judge is told and must answer; criterion ids do not count."""
        return digest([self.system, self.user_template, contract_to_json(self.contract)])

    def to_json(self) -> dict[str, Any]:
        """The version file's content."""
        return {
            "schema_version": SCHEMA_VERSION,
            "hash": self.hash,
            "nonce": self.nonce,
            "redraw": self.redraw,
            "draft": draft_to_json(self.draft),
            "contract": contract_to_json(self.contract),
            "system": self.system,
            "user_template": self.user_template,
        }

    @classmethod
    def from_json(cls, value: Any) -> JudgePrompt:
        """Reads :meth:`to_json`'s form back.

        Raises:
            UserError: not a version file of this schema version.
            Tampered: the text differs from its recorded hash, or the criteria are not those the text renders.
        """
        if not isinstance(value, Mapping) or value.get("schema_version") != SCHEMA_VERSION:
            raise UserError("this is not a prompt version file of schema version 1")
        try:
            prompt = cls(
                draft=draft_from_json(value["draft"]),
                contract=contract_from_json(value["contract"]),
                nonce=str(value["nonce"]),
                system=str(value["system"]),
                user_template=str(value["user_template"]),
                redraw=int(value["redraw"]),
            )
            recorded = value["hash"]
        except (KeyError, TypeError, ValueError) as fault:
            raise UserError(f"the prompt version file is incomplete or malformed: {one_line(str(fault))}") from None
        if prompt.hash != recorded:
            raise Tampered(
                "the prompt version's text differs from its recorded hash",
                hint="restore the file, or start a new fit: a changed prompt is a new version",
            )
        frame = parse_frame(prompt.system)
        if frame != frame_of(prompt.draft, prompt.contract.label, prompt.nonce):
            raise Tampered("the prompt version's criteria are not those its system text renders")
        return prompt


def build_prompt(draft: Draft, contract: VerdictContract, compiled: Compiled, *, redraw: int = 0) -> JudgePrompt:
    """Renders a draft into the frame for one target and evidence map.

    Args:
        draft: task, criteria and the closing class.
        contract: the target's verdict contract.
        compiled: the evidence map, compiled by the same target.
        redraw: raise by one when a train payload holds the nonce.

    Raises:
        UserError: a criterion, the task or the closing answer that the frame cannot hold.
    """
    draft = checked(draft, contract.label)
    if not compiled.placeholders:
        raise UserError(
            "the target's template can carry none of the evidence map's fields",
            hint="`fitter evidence` shows each field's gap; choose another scope or map",
        )
    parts = [(field.name, placeholder) for field, placeholder in compiled.placeholders]
    nonce = digest(
        {
            "task": draft.task,
            "criteria": [[c.label, c.text] for c in draft.criteria],
            "otherwise": draft.otherwise,
            "schema": contract.schema,
            "parts": parts,
            "redraw": redraw,
        }
    )[:32]
    body = "\n\n".join(f"[{nonce} {name}]\n{placeholder}" for name, placeholder in parts)
    return JudgePrompt(
        draft=draft,
        contract=contract,
        nonce=nonce,
        system=render_system(draft, contract, nonce),
        user_template=f"<<<{nonce}\n{body}\n{nonce}>>>",
        redraw=redraw,
    )


def request(prompt: JudgePrompt, user_text: str, settings: ModelSettings | None = None) -> ModelRequest:
    """The one call that judges a row.

    Args:
        prompt: the version.
        user_text: the rendered user message.
        settings: model settings; None sends none.

    Raises:
        RunError: the user message does not stand in this version's fence (it was rendered for another version).
    """
    if not (user_text.startswith(f"<<<{prompt.nonce}\n") and user_text.endswith(f"\n{prompt.nonce}>>>")):
        raise RunError("a user message was rendered for another prompt version: its fence carries another nonce")
    return ModelRequest(
        messages=(Message(role="system", text=prompt.system), Message(role="user", text=user_text)),
        schema=prompt.contract.schema,
        schema_name=SCHEMA_NAME,
        settings=settings or ModelSettings(),
    )


def parse_parts(user_text: str, nonce: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of each part of a rendered user message, texts verbatim.

    Exact because no payload may hold the nonce: such a row is a ``fence_collision`` and never gets here.
    """
    head, tail = f"<<<{nonce}\n[{nonce} ", f"\n{nonce}>>>"
    if not (user_text.startswith(head) and user_text.endswith(tail)):
        raise RunError("the user message does not stand in the fence of this nonce")
    parts = []
    for part in user_text[len(head) : -len(tail)].split(f"\n\n[{nonce} "):
        name, _, text = part.partition("]\n")
        parts.append((name, text))
    return tuple(parts)


def collides(nonce: str, texts: Iterable[str]) -> bool:
    """True when a payload text holds the nonce: the prompt must be redrawn, or the row left out (IN-1)."""
    return any(nonce in text for text in texts)


def leftover_placeholders(prompt: JudgePrompt, resolved: Iterable[str]) -> tuple[str, ...]:
    """Placeholders that would reach the judge unfilled (IN-2), read from the template, never from a payload.

    Args:
        prompt: the version.
        resolved: placeholder paths that the target resolved.

    Returns:
        Unfilled placeholders and stray template marks of the user template; any in the system text.
    """
    known = set(resolved)
    found = [m.group(0) for m in _PLACEHOLDER.finditer(prompt.user_template) if m.group(1).strip() not in known]
    rest = _PLACEHOLDER.sub("", prompt.user_template)
    found += [mark for mark in TEMPLATE_MARKS if mark in rest]
    found += [mark for mark in TEMPLATE_MARKS if mark in prompt.system]
    return tuple(found)


def draft_to_json(draft: Draft) -> dict[str, Any]:
    """A draft as JSON."""
    return {
        "task": draft.task,
        "criteria": [{"id": c.id, "label": c.label, "text": c.text} for c in draft.criteria],
        "otherwise": draft.otherwise,
    }


def draft_from_json(value: Mapping[str, Any]) -> Draft:
    """Reads :func:`draft_to_json`'s form back; KeyError or TypeError when it is not that."""
    criteria = tuple(Criterion(id=c["id"], label=c["label"], text=c["text"]) for c in value["criteria"])
    return Draft(task=value["task"], criteria=criteria, otherwise=value["otherwise"])


def contract_to_json(contract: VerdictContract) -> dict[str, Any]:
    """A contract as JSON; property order of the schema is kept beside it, since canonical JSON sorts keys."""
    return {
        "label_field": contract.label_field,
        "reasoning_field": contract.reasoning_field,
        "confidence_field": contract.confidence_field,
        "schema": dict(contract.schema),
        "property_order": list(contract.schema.get("properties", {})),
        "label": contract.label.model_dump(mode="json"),
    }


def contract_from_json(value: Mapping[str, Any]) -> VerdictContract:
    """Reads :func:`contract_to_json`'s form back, properties in their recorded order."""
    schema = dict(value["schema"])
    if "properties" in schema:
        schema["properties"] = {name: schema["properties"][name] for name in value["property_order"]}
    return VerdictContract(
        label_field=value["label_field"],
        reasoning_field=value["reasoning_field"],
        confidence_field=value["confidence_field"],
        schema=schema,
        label=LabelSchema.model_validate(value["label"]),
    )
