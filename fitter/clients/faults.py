"""What an HTTP status with an error body means for a call. Pure: bytes in, a decision out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fitter.clients.body import Exchange
from fitter.jsonio import JSONFault, strict_loads
from fitter.records import UnusableReason

Feature: TypeAlias = Literal["schema", "temperature", "tokens", "effort", "store", "seed"]
Action: TypeAlias = Literal["retry", "outcome", "parameter", "bad_request", "settings", "outage"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The meaning of one failed HTTP answer.

    Attributes:
        action: ``retry`` later; ``outcome``: an unusable pass with its own code; ``parameter``: one named parameter is
            refused; ``bad_request``: the request as such is refused; ``settings`` and ``outage`` stop the run.
        label: short, for the record, e.g. ``429``.
        message: the provider's own words, not yet redacted.
        outcome: for ``outcome``.
        feature: for ``parameter``.
        hint: for people, on a stop.
        slow_down: the answer asks for fewer calls (429, 529).
    """

    action: Action
    label: str
    message: str
    outcome: UnusableReason | None = None
    feature: Feature | None = None
    hint: str | None = None
    slow_down: bool = False


# What a provider may call the thing it refuses. Longest name at the earliest place in the message wins.
_NAMES: Mapping[Feature, tuple[str, ...]] = {
    "schema": (
        "response_format", "text.format", "output_config.format", "output_format", "json_schema", "output_config",
        "structured output", "guided_json", "json mode", "schema",
    ),
    "temperature": ("temperature",),
    "tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "effort": ("reasoning_effort", "reasoning.effort", "output_config.effort", "reasoning", "effort", "thinking"),
    "store": ("store",),
    "seed": ("seed",),
}  # fmt: skip

_QUOTA_CODES = frozenset(
    {
        "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
        "insufficient_balance", "insufficient_credits", "insufficient_user_quota", "account_deactivated",
        "payment_required",
    }
)  # fmt: skip
_QUOTA_WORDS = re.compile(
    r"credit balance is too low|insufficient (?:credit|balance|quota|fund)|billing hard limit", re.I
)
_FILTER_CODES = frozenset(
    {
        "content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt",
        "data_inspection_failed", "prompt_blocked",
    }
)  # fmt: skip
_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_OVERFLOW_WORDS = re.compile(
    r"prompt is too long|input is too long|maximum context length|context length (?:exceeded|of)|context window"
    r"|exceeds? the (?:available )?context|too many (?:input )?tokens|longer than the model's context",
    re.I,
)
_MODEL_CODES = frozenset({"model_not_found", "deploymentnotfound", "unknown_model", "invalid_model"})
_MODEL_WORDS = re.compile(
    r"\bmodel\b.{0,120}\b(?:not found|does not exist|not available|is not supported)|unknown model", re.I
)
_RETRY = frozenset({408, 409, 425, 429})


@dataclass(frozen=True)
class _Words:
    message: str
    codes: frozenset[str]
    param: str


def _words(body: bytes) -> _Words:
    """Message, codes and parameter out of any provider's error body; plain text and HTML give a message."""
    text = body[:65_536].decode("utf-8", "replace")
    try:
        value: Any = strict_loads(text)
    except JSONFault:
        return _Words(text.strip(), frozenset(), "")
    if not isinstance(value, dict):
        return _Words(text.strip(), frozenset(), "")
    error: Any = value.get("error", value)
    if isinstance(error, str):
        detail = value.get("message") or value.get("error_description")
        return _Words(f"{error}: {detail}" if isinstance(detail, str) else error, frozenset({error.lower()}), "")
    if not isinstance(error, dict):
        error = value
    inner = error.get("innererror")
    found = [error.get("code"), error.get("type"), error.get("status")]
    if isinstance(inner, dict):
        found.append(inner.get("code"))
    codes = frozenset(str(code).lower() for code in found if isinstance(code, str | int) and not isinstance(code, bool))
    message = error.get("message") or error.get("detail") or error.get("msg")
    param = error.get("param")
    return _Words(
        message if isinstance(message, str) and message else text.strip(),
        codes,
        param if isinstance(param, str) else "",
    )


def named_feature(param: str, message: str, sent: frozenset[Feature]) -> Feature | None:
    """The sent feature that an error names, by its ``param`` or by the earliest name in its message."""
    for feature in sent:
        for name in _NAMES[feature]:
            if param and (param == name or param.startswith(name + ".")):
                return feature
    best: tuple[int, int, Feature] | None = None
    lower = message.lower()
    for feature in sorted(sent):
        for name in _NAMES[feature]:
            hit = re.search(rf"(?<![a-z0-9_.]){re.escape(name)}(?![a-z0-9_])", lower)
            if hit and (best is None or (hit.start(), -len(name)) < best[:2]):
                best = (hit.start(), -len(name), feature)
    return best[2] if best else None


def read_fault(exchange: Exchange, sent: frozenset[Feature]) -> Fault:
    """Decides what a status of 300 and above means.

    Args:
        exchange: the HTTP answer.
        sent: optional parameters that were sent, which an error may name.
    """
    return decide(exchange.status, _words(exchange.body), sent)


def embedded_fault(error: Mapping[str, Any], sent: frozenset[Feature]) -> Fault:
    """The same for an error object inside a 200 answer (gateways, the Responses API's ``failed``)."""
    code = error.get("code")
    message = error.get("message")
    words = _Words(
        message if isinstance(message, str) else "",
        frozenset(str(c).lower() for c in (code, error.get("type")) if isinstance(c, str | int)),
        "",
    )
    status = 0
    if isinstance(code, int) and not isinstance(code, bool) and 300 <= code < 600:
        status = code
    elif words.codes & {"rate_limit_exceeded", "rate_limit_error"}:
        status = 429
    elif words.codes & {"overloaded_error"}:
        status = 529
    elif words.codes & {"server_error", "api_error", "timeout_error", "vector_store_timeout", "internal_error"}:
        status = 500
    return decide(status, words, sent)


def decide(status: int, words: _Words, sent: frozenset[Feature]) -> Fault:
    """The table. Order matters: what no retry can mend comes before what a retry may."""
    label, message, codes = str(status or "error"), words.message, words.codes
    if status == 402 or codes & _QUOTA_CODES or (status != 429 and _QUOTA_WORDS.search(message)):
        return Fault(
            action="outage",
            label=label,
            message=message,
            hint="the account has no quota or credit left: add some, then `fitter resume` goes on where it stopped",
        )
    if codes & _FILTER_CODES:
        return Fault(action="outcome", label=label, message=message, outcome="content_filter")
    if status in (401, 403, 407):
        hint = "the provider refuses the key: is it the right one, for this server, and still valid?"
        if status == 403:
            hint = "the key is known but may not do this: check its permissions, project and region"
        return Fault(action="settings", label=label, message=message, hint=hint)
    if status == 429 or status >= 500 or status in _RETRY:
        return Fault(action="retry", label=label, message=message, slow_down=status in (429, 529))
    if status == 413 or codes & _OVERFLOW_CODES or _OVERFLOW_WORDS.search(message):
        return Fault(action="outcome", label=label, message=message, outcome="context_overflow")
    if status == 404 or codes & _MODEL_CODES or _MODEL_WORDS.search(message):
        return Fault(
            action="settings",
            label=label,
            message=message,
            hint="no such model, deployment or path here: check the model's name, the URL and the api option",
        )
    if 300 <= status < 400:
        return Fault(
            action="settings",
            label=label,
            message=message,
            hint="redirects are not followed, so that a key never goes to another host: give the final URL",
        )
    if status in (400, 422, 0):
        feature = named_feature(words.param, message, sent)
        if feature is not None and status:
            return Fault(action="parameter", label=label, message=message, feature=feature)
        return Fault(action="bad_request", label=label, message=message)
    return Fault(action="settings", label=label, message=message, hint="is this URL the model's API?")
