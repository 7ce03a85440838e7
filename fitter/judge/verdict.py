"""The strict verdict parser (OUT-1): exactly one JSON object, nothing around it, no repair.

The object is parsed directly first, so a valid object whose strings hold three backticks is just valid. Only when that
fails is the text looked at, and then only to name what is wrong with it, never to rescue a verdict from it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fitter.jsonio import JSONFault, canonical, strict_loads
from fitter.judge.frame import contract_text
from fitter.labels import LabelValue
from fitter.records import UnusableReason, VerdictContract
from fitter.textsafe import is_blank, one_line

# Part of every pass's key: a verdict read by another parser is another measurement (lesson 29).
PARSER_VERSION: Final = "verdict-1"

# Longest reply that is read at all; a verdict is a few hundred characters.
MAX_CHARS: Final = 1_000_000

_LOOKS: Final = 20
_FENCED = re.compile(r"```[A-Za-z0-9_-]*\s*[{\[]")
_CUT_TOKEN = re.compile(r"-|\.|[eE][+-]?|t(r(ue?)?)?|f(a(l(se?)?)?)?|n(u(ll?)?)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A usable answer.

    Attributes:
        label: the value, valid for the schema.
        confidence: 0-100, or None.
        confidence_fault: why there is none although the contract asks for it (OUT-5); the label stands.
        reasoning: the judge's text, lone surrogates replaced.
    """

    label: LabelValue
    confidence: int | None = None
    confidence_fault: Literal["missing", "invalid"] | None = None
    reasoning: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An answer that is not the contract's object.

    Attributes:
        reason: machine-readable kind.
        detail: for people, one line; may quote the judge's text, so it belongs in private/.
    """

    reason: UnusableReason
    detail: str = ""


def parse_verdict(text: str, contract: VerdictContract) -> Verdict | Fault:
    """Reads one reply. Total: never raises, whatever the text, and never takes long.

    Args:
        text: the reply's text, as the provider returned it.
        contract: field names and what the label may be.
    """
    if len(text) > MAX_CHARS:
        return Fault(reason="not_json", detail=f"the reply is longer than {MAX_CHARS:,} characters; it was not read")
    try:
        value = strict_loads(text)
    except JSONFault as fault:
        return _not_one_object(text, fault)
    if not isinstance(value, dict):
        return Fault(reason="not_an_object", detail=f"the reply is a JSON {_kind(value)}")
    known = {contract.reasoning_field, contract.label_field, contract.confidence_field}
    for key in value:
        if key not in known:
            return Fault(reason="unknown_key", detail=f"unknown field {one_line(key, 60)!r}")
    for key in (contract.reasoning_field, contract.label_field):
        if key not in value:
            return Fault(reason="missing_key", detail=f"field {key!r} is missing")
    reasoning = value[contract.reasoning_field]
    if not isinstance(reasoning, str):
        return Fault(reason="wrong_type", detail=f"{contract.reasoning_field!r} is a JSON {_kind(reasoning)}")
    if is_blank(reasoning):
        return Fault(reason="blank_reasoning", detail=f"{contract.reasoning_field!r} is blank")
    label = _label(value[contract.label_field], contract)
    if isinstance(label, Fault):
        return label
    confidence, confidence_fault = _confidence(value, contract)
    return Verdict(
        label=label,
        confidence=confidence,
        confidence_fault=confidence_fault,
        reasoning=_SURROGATE.sub("\ufffd", reasoning),
    )


def complaint(fault: Fault, contract: VerdictContract) -> str:
    """What the one retry tells the judge: what was wrong, and the contract again.

    It quotes nothing of the reply, which may carry text of the graded content.
    """
    what = _WHAT.get(fault.reason, "your reply could not be used")
    return f"Your last reply was not accepted ({fault.reason}): {what}. {contract_text(contract)}"


_WHAT: Final[dict[str, str]] = {
    "not_json": "it is not valid JSON",
    "fenced": "the object stands in a code fence; leave the fence out",
    "truncated": "the object is not complete; keep the reasoning short and close the object",
    "two_objects": "it holds more than one JSON object; give exactly one",
    "text_around_json": "there is text before or after the object; leave it out",
    "duplicate_key": "a field stands twice in the object",
    "unknown_key": "the object has a field that was not asked for",
    "missing_key": "a required field is missing",
    "not_an_object": "it is JSON but not an object",
    "blank_reasoning": "the reasoning is blank",
    "wrong_type": "a field's value has the wrong JSON type",
    "label_not_in_schema": "the answer is not one of the allowed values, spelled exactly",
    "out_of_range": "the number is outside the allowed range",
    "too_deep": "it is nested too deeply",
    "non_finite": "it holds NaN or Infinity, which are not JSON",
    "number_too_long": "a number has too many digits",
    "empty_text": "it is empty",
}


def _label(value: Any, contract: VerdictContract) -> LabelValue | Fault:
    schema, name = contract.label, contract.label_field
    wrong = Fault(reason="wrong_type", detail=f"{name!r} is a JSON {_kind(value)}")
    if schema.kind == "boolean":
        return value if isinstance(value, bool) else wrong
    if schema.kind == "categorical":
        if not isinstance(value, str):
            return wrong
        return value if value in schema.classes else _unlisted(value, name)
    if schema.kind == "multiselect":
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            return wrong
        strange = [v for v in value if v not in schema.classes]
        if strange or not value:
            return _unlisted(strange[0] if strange else "[]", name)
        return frozenset(value)
    return _number(value, contract, wrong)


def _number(value: Any, contract: VerdictContract, wrong: Fault) -> LabelValue | Fault:
    schema = contract.label
    if isinstance(value, bool) or not isinstance(value, int | float):
        return wrong
    try:
        number = float(value)
    except OverflowError:
        return Fault(reason="out_of_range", detail=f"{contract.label_field!r} is outside the range of numbers")
    if schema.is_integer and not number.is_integer():
        return Fault(reason="wrong_type", detail=f"{contract.label_field!r} is not a whole number")
    if not schema.admits(number):
        return Fault(reason="out_of_range", detail=f"{contract.label_field!r} is {number:g}")
    return number


def _unlisted(value: str, name: str) -> Fault:
    return Fault(reason="label_not_in_schema", detail=f"{name!r} is {one_line(value, 60)!r}")


def _confidence(
    value: dict[str, Any], contract: VerdictContract
) -> tuple[int | None, Literal["missing", "invalid"] | None]:
    if contract.confidence_field is None:
        return None, None
    if contract.confidence_field not in value:
        return None, "missing"
    given = value[contract.confidence_field]
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 100 or given != int(given):
        return None, "invalid"
    return int(given), None


def _not_one_object(text: str, fault: JSONFault) -> Fault:
    """Names what is wrong with a text that is not one JSON value."""
    detail = one_line(str(fault), 160)
    if fault.code != "not_json" and fault.code != "trailing_text":
        return Fault(reason=fault.code, detail=detail)
    body = text.strip(" \t\r\n")
    if is_blank(body):
        return Fault(reason="empty_text", detail="the reply is empty")
    at = len(body) if fault.at is None else fault.at
    if fault.code == "not_json" and body.startswith("{") and _cut_at(body, at, str(fault)):
        return Fault(reason="truncated", detail=detail)
    if body.startswith("```") or _FENCED.search(body):
        return Fault(reason="fenced", detail="the object stands in a code fence")
    end = _object_end(body, 0)
    if end is None:
        return Fault(reason="not_json", detail=detail)
    if _object_end(body, end) is not None:
        return Fault(reason="two_objects", detail="the reply holds more than one JSON object")
    return Fault(reason="text_around_json", detail="there is text before or after the object")


def _cut_at(body: str, at: int, message: str) -> bool:
    """True when the decoder failed because the text ends, not because of a character in it."""
    rest = body[at:].rstrip(" \t\r\n")
    if not rest or message.startswith("Unterminated string") or _CUT_TOKEN.fullmatch(rest):
        return True
    return message.startswith("Invalid \\") and len(rest) < 8 and '"' not in rest


def _object_end(body: str, start: int) -> int | None:
    """End of the first complete JSON object at or after ``start``; looks at a bounded number of braces."""
    at = body.find("{", start)
    for _ in range(_LOOKS):
        if at < 0:
            return None
        try:
            return _PLAIN.raw_decode(body, at)[1]
        except (ValueError, RecursionError):
            at = body.find("{", at + 1)
    return None


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean ({canonical(value)})"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
