"""From a reply to a pass, purely: envelope before text, one retry at most (OUT-1, OUT-2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

from fitter.clients.base import Message, ModelRequest
from fitter.judge.verdict import Fault, Verdict, complaint, parse_verdict
from fitter.records import Pass, UnusableReason, VerdictContract
from fitter.textsafe import is_blank, one_line

MAX_ATTEMPTS: Final = 2

# The output cap of the one retry after a length stop, when the first call left it to the provider.
DEFAULT_RAISED_CAP: Final = 16_384

# Asking again cannot help (a refusal stands, the context stays too long, another instrument answered), or is the
# business of whoever resumes the run (unavailable).
FINAL: Final[frozenset[UnusableReason]] = frozenset(
    {"refusal", "content_filter", "context_overflow", "wrong_model", "unavailable"}
)

# What a retry quotes of the rejected answer: enough to see the mistake, never a megabyte of it.
_QUOTED: Final = 8_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_YEAR, _MONTH, _DAY = r"20\d\d", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_DATE = re.compile(rf"(?:[-@]{_YEAR}-{_MONTH}-{_DAY}|[-@]{_YEAR}{_MONTH}{_DAY}|-{_MONTH}{_DAY})")


def model_matches(asked: str, returned: str | None, accepted: Iterable[str] = ()) -> bool:
    """True when the model that answered may stand for the one that was asked (OUT-2).

    Equal; or the asked name plus a date suffix (``-2026-03-01``, ``-20260301``, ``@20260301``, ``-0613``); or listed.
    A provider that names no model claims nothing that could differ.

    Args:
        asked: the model name that was asked for.
        returned: the name in the reply.
        accepted: names the user accepted, and the one seen in the probe before v0.
    """
    if returned is None or returned == asked or returned in accepted:
        return True
    return returned.startswith(asked) and _DATE.fullmatch(returned[len(asked) :]) is not None


def read_reply(
    *,
    outcome: Literal["ok"] | UnusableReason,
    text: str,
    model: str | None,
    asked: str,
    accepted: Sequence[str],
    contract: VerdictContract,
    detail: str = "",
) -> Verdict | Fault:
    """Reads one attempt: the envelope decides first, whatever the text says; then the model; then the text."""
    if outcome != "ok":
        return Fault(reason=outcome, detail=one_line(detail))
    if not model_matches(asked, model, accepted):
        return Fault(reason="wrong_model", detail=f"asked {one_line(asked, 60)}, got {one_line(model or '', 60)}")
    return parse_verdict(text, contract)


def next_request(
    first: ModelRequest, attempt: int, reading: Verdict | Fault, text: str, contract: VerdictContract
) -> ModelRequest | None:
    """The request of the one retry, or None when this attempt was the last.

    After a length stop the same request with a larger output cap; otherwise the conversation continued with the
    answer and what was wrong with it.

    Args:
        first: the request of attempt 1.
        attempt: the attempt just read, from 1.
        reading: what it gave.
        text: the answer's text.
        contract: the verdict contract.
    """
    if isinstance(reading, Verdict) or attempt >= MAX_ATTEMPTS or reading.reason in FINAL:
        return None
    if reading.reason == "length":
        cap = first.settings.max_output_tokens
        return first.with_cap(DEFAULT_RAISED_CAP if cap is None else 2 * cap)
    told = complaint(reading, contract)
    if is_blank(text):  # providers refuse an empty assistant turn
        return replace(first, messages=(*first.messages, Message(role="user", text=told)))
    return first.follow_up(_SURROGATE.sub("\ufffd", text[:_QUOTED]), told)


def to_pass(row: str, run: int, readings: Sequence[Verdict | Fault]) -> Pass:
    """One pass from the readings of its attempts, in order.

    Raises:
        ValueError: no attempts, or more than :data:`MAX_ATTEMPTS`.
    """
    if not 1 <= len(readings) <= MAX_ATTEMPTS:
        raise ValueError(f"a pass has one or two attempts, not {len(readings)}")
    first, last = readings[0], readings[-1]
    first_fault = first.reason if len(readings) > 1 and isinstance(first, Fault) else None
    if isinstance(last, Fault):
        return Pass(row=row, run=run, unusable=last.reason, attempts=len(readings), first_fault=first_fault)
    return Pass(
        row=row,
        run=run,
        label=last.label,
        confidence=last.confidence,
        confidence_fault=last.confidence_fault,
        reasoning=last.reasoning,
        attempts=len(readings),
        first_fault=first_fault,
    )
