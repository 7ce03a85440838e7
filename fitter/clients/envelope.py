"""The provider's envelope, read before the text (OUT-2). Pure: one reader per wire format, bytes in, Envelope out.

Text is taken from text parts only: reasoning and thinking parts are dropped by their API type, never by looking into
text. Whatever the text says, an envelope that reports no complete answer is an unusable pass with its own code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fitter.clients.base import Usage
from fitter.jsonio import JSONFault, strict_loads
from fitter.records import UnusableReason
from fitter.textsafe import is_blank

Outcome: TypeAlias = Literal["ok"] | UnusableReason
_ABSURD = 10**12  # tokens in one call


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What one answer's envelope says.

    Attributes:
        outcome: ``ok`` or the reason there is no answer.
        text: the text parts, joined; empty unless ``ok``.
        model: the model name returned.
        usage: tokens, unknown where absent or absurd.
        detail: the provider's words on why not.
        error: an error object inside a 200, for the caller to classify.
    """

    outcome: Outcome
    text: str = ""
    model: str | None = None
    usage: Usage | None = None
    detail: str = ""
    error: Mapping[str, Any] | None = None


Reader: TypeAlias = Callable[[bytes], Envelope]


class _Bad(Exception):
    """The body is not an envelope of this API."""


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Bad(f"{what} is not an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Bad(f"{what} is not a list")
    return value


def _tokens(source: Any, *path: str) -> int | None:
    """A token count, or None when it is missing or cannot be true (negative, not whole, absurd)."""
    for key in path:
        if not isinstance(source, dict):
            return None
        source = source.get(key)
    if isinstance(source, bool) or not isinstance(source, int) or not 0 <= source < _ABSURD:
        return None
    return source


def _name(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _parse(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise _Bad(f"the answer is not UTF-8 (byte {fault.start})") from None
    try:
        value = strict_loads(text, max_depth=128)
    except JSONFault as fault:
        raise _Bad(f"the answer is not one JSON object ({fault.code}): {fault}") from None
    return _object(value, "the answer")


def _settle(outcome: Outcome, text: str, **rest: Any) -> Envelope:
    """``ok`` with no visible text is ``empty_text``; anything else keeps no text."""
    if outcome == "ok" and is_blank(text):
        return Envelope(outcome="empty_text", **{"detail": "the answer holds no text", **rest})
    return Envelope(outcome=outcome, text=text if outcome == "ok" else "", **rest)


def _guard(read: Callable[[dict[str, Any]], Envelope]) -> Reader:
    def reader(body: bytes) -> Envelope:
        try:
            value = _parse(body)
            error = value.get("error")
            if isinstance(error, dict) and error:
                return Envelope(outcome="bad_envelope", detail=str(error.get("message") or ""), error=error)
            if isinstance(error, str) and error:
                return Envelope(outcome="bad_envelope", detail=error, error={"message": error})
            return read(value)
        except _Bad as fault:
            return Envelope(outcome="bad_envelope", detail=str(fault))

    return reader


# --- Chat Completions (OpenAI, Azure, vLLM, Ollama, llama.cpp, gateways) ----------------------------------------------

_CHAT_FINISH: Mapping[str, Outcome] = {
    "stop": "ok",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
}


def _chat_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for part in _list(content, "content"):
        piece = _object(part, "a content part")
        if piece.get("type") in ("text", "output_text"):
            if not isinstance(piece.get("text"), str):
                raise _Bad("a text part holds no text")
            parts.append(piece["text"])
    return "".join(parts)


def _chat(value: dict[str, Any]) -> Envelope:
    choices = _list(value.get("choices"), "choices")
    if len(choices) != 1:
        raise _Bad(f"{len(choices)} choices where one was asked for")
    choice = _object(choices[0], "the choice")
    message = _object(choice.get("message"), "the message")
    used = value.get("usage")
    rest = {
        "model": _name(value.get("model")),
        "usage": Usage(
            input=_tokens(used, "prompt_tokens"),
            cached=_tokens(used, "prompt_tokens_details", "cached_tokens"),
            output=_tokens(used, "completion_tokens"),
            reasoning=_tokens(used, "completion_tokens_details", "reasoning_tokens"),
        ),
    }
    finish = choice.get("finish_reason")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return _settle("refusal", "", **rest, detail=refusal)
    if message.get("tool_calls") or message.get("function_call"):
        return _settle("tool_call", "", **rest, detail="the model called a tool instead of answering")
    outcome = _CHAT_FINISH.get(finish, "incomplete") if isinstance(finish, str) else "incomplete"
    detail = "" if outcome == "ok" else f"finish_reason {finish!r}"
    return _settle(outcome, _chat_text(message.get("content")), **rest, **({"detail": detail} if detail else {}))


# --- Responses API ----------------------------------------------------------------------------------------------------


def _responses(value: dict[str, Any]) -> Envelope:
    used = value.get("usage")
    rest = {
        "model": _name(value.get("model")),
        "usage": Usage(
            input=_tokens(used, "input_tokens"),
            cached=_tokens(used, "input_tokens_details", "cached_tokens"),
            output=_tokens(used, "output_tokens"),
            reasoning=_tokens(used, "output_tokens_details", "reasoning_tokens"),
        ),
    }
    status = value.get("status")
    if status == "incomplete":
        details = value.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        outcome: Outcome = "incomplete"
        if reason == "max_output_tokens":
            outcome = "length"
        elif reason == "content_filter":
            outcome = "content_filter"
        return _settle(outcome, "", **rest, detail=f"incomplete: {reason}")
    if status != "completed":
        return _settle("incomplete", "", **rest, detail=f"status {status!r}")
    texts: list[str] = []
    for item in _list(value.get("output"), "output"):
        piece = _object(item, "an output item")
        kind = piece.get("type")
        if kind == "message":
            if piece.get("status") not in (None, "completed"):
                return _settle("incomplete", "", **rest, detail=f"message status {piece.get('status')!r}")
            for part in _list(piece.get("content"), "content"):
                content = _object(part, "a content part")
                if content.get("type") == "refusal":
                    return _settle("refusal", "", **rest, detail=str(content.get("refusal") or ""))
                if content.get("type") == "output_text":
                    if not isinstance(content.get("text"), str):
                        raise _Bad("a text part holds no text")
                    texts.append(content["text"])
        elif isinstance(kind, str) and kind.endswith("_call"):
            return _settle("tool_call", "", **rest, detail=f"the model answered with a {kind}")
    return _settle("ok", "".join(texts), **rest)


# --- Anthropic Messages -----------------------------------------------------------------------------------------------

_ANTHROPIC_STOP: Mapping[str, Outcome] = {
    "end_turn": "ok",
    "stop_sequence": "ok",
    "max_tokens": "length",
    "model_context_window_exceeded": "context_overflow",
    "refusal": "refusal",
    "tool_use": "tool_call",
    "pause_turn": "incomplete",
}


def _sum(*counts: int | None) -> int | None:
    known = [c for c in counts if c is not None]
    return sum(known) if known else None


def _messages(value: dict[str, Any]) -> Envelope:
    if value.get("type") != "message":
        raise _Bad(f"type {value.get('type')!r} is not a message")
    used = value.get("usage")
    fresh = _tokens(used, "input_tokens")
    cached = _tokens(used, "cache_read_input_tokens")
    written = _tokens(used, "cache_creation_input_tokens")
    rest = {
        "model": _name(value.get("model")),
        # Anthropic counts cached tokens beside input_tokens; here, as at OpenAI, input holds them all.
        "usage": Usage(
            input=None if fresh is None else _sum(fresh, cached, written),
            cached=cached,
            output=_tokens(used, "output_tokens"),
            reasoning=_tokens(used, "output_tokens_details", "thinking_tokens"),
        ),
    }
    stop = value.get("stop_reason")
    outcome = _ANTHROPIC_STOP.get(stop, "incomplete") if isinstance(stop, str) else "incomplete"
    texts: list[str] = []
    for block in _list(value.get("content"), "content"):
        piece = _object(block, "a content block")
        kind = piece.get("type")
        if kind == "text":
            if not isinstance(piece.get("text"), str):
                raise _Bad("a text block holds no text")
            texts.append(piece["text"])
        elif isinstance(kind, str) and kind.endswith("tool_use") and outcome == "ok":
            outcome = "tool_call"
    detail = "" if outcome == "ok" else f"stop_reason {stop!r}"
    return _settle(outcome, "".join(texts), **rest, **({"detail": detail} if detail else {}))


read_chat: Reader = _guard(_chat)
read_responses: Reader = _guard(_responses)
read_messages: Reader = _guard(_messages)
