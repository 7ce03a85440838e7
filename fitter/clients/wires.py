"""The wire formats: a request and an instrument become the body of one SDK call. Pure.

A parameter that nobody asked for is not sent (lesson 18), apart from what an API demands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fitter.clients.base import ModelRequest
from fitter.clients.envelope import Reader, read_chat, read_messages, read_responses
from fitter.clients.faults import Feature
from fitter.clients.instrument import Instrument
from fitter.clients.quirks import QUIRKS, Quirks, fit_schema

Build: TypeAlias = Callable[[str, ModelRequest, Instrument, Quirks, int], dict[str, Any]]

# Some APIs refuse an empty assistant turn; a follow-up to an empty answer still has to say so.
_NOTHING = "(no answer)"


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One wire format of one dialect.

    Attributes:
        name: key of the quirk table, part of the identity.
        path: of the API, relative to the server's address.
        build: makes the call's parameters, the body as plain JSON.
        read: reads the envelope.
    """

    name: str
    path: str
    build: Build
    read: Reader

    @property
    def quirks(self) -> Quirks:
        """The dialect's row of the table."""
        return QUIRKS[self.name]


def _turns(request: ModelRequest) -> list[dict[str, Any]]:
    return [
        {"role": m.role, "content": m.text if m.text.strip() or m.role != "assistant" else _NOTHING}
        for m in request.messages
    ]


def _cap(request: ModelRequest, instrument: Instrument, quirks: Quirks) -> dict[str, Any]:
    tokens = request.settings.max_output_tokens or quirks.token_default
    return {instrument.token_parameter: tokens} if tokens is not None and instrument.token_parameter else {}


def _sampling(request: ModelRequest, instrument: Instrument) -> dict[str, Any]:
    value = request.settings.temperature
    return {"temperature": value} if value is not None and instrument.temperature != "refused" else {}


def _chat(model: str, request: ModelRequest, instrument: Instrument, quirks: Quirks, run: int) -> dict[str, Any]:
    params: dict[str, Any] = {"model": model, "messages": _turns(request)}
    if instrument.schema_mode == "json_schema":
        spec: dict[str, Any] = {"name": request.schema_name, "schema": fit_schema(request.schema, quirks)[0]}
        if quirks.strict:
            spec["strict"] = True
        params["response_format"] = {"type": "json_schema", "json_schema": spec}
    elif instrument.schema_mode == "json_object":
        params["response_format"] = {"type": "json_object"}
    params |= _cap(request, instrument, quirks) | _sampling(request, instrument)
    if request.settings.reasoning_effort is not None and instrument.effort != "refused":
        params["reasoning_effort"] = request.settings.reasoning_effort
    if instrument.seed == "sent":
        params["seed"] = run + 1
    return params


def _responses(model: str, request: ModelRequest, instrument: Instrument, quirks: Quirks, run: int) -> dict[str, Any]:
    del run
    params: dict[str, Any] = {"model": model, "input": _turns(request)}
    if instrument.schema_mode == "json_schema":
        params["text"] = {
            "format": {
                "type": "json_schema",
                "name": request.schema_name,
                "schema": fit_schema(request.schema, quirks)[0],
                "strict": quirks.strict,
            }
        }
    elif instrument.schema_mode == "json_object":
        params["text"] = {"format": {"type": "json_object"}}
    params |= _cap(request, instrument, quirks) | _sampling(request, instrument)
    if request.settings.reasoning_effort is not None and instrument.effort != "refused":
        params["reasoning"] = {"effort": request.settings.reasoning_effort}
    if instrument.store == "sent":
        params["store"] = False
    return params


def _messages(model: str, request: ModelRequest, instrument: Instrument, quirks: Quirks, run: int) -> dict[str, Any]:
    del run
    system = "\n\n".join(m.text for m in request.messages if m.role == "system")
    turns = [turn for turn in _turns(request) if turn["role"] != "system"]
    params: dict[str, Any] = {"model": model, "messages": turns}
    if system:
        params["system"] = system
    config: dict[str, Any] = {}
    if instrument.schema_mode == "json_schema":
        config["format"] = {"type": "json_schema", "schema": fit_schema(request.schema, quirks)[0]}
    if request.settings.reasoning_effort is not None and instrument.effort != "refused":
        config["effort"] = request.settings.reasoning_effort
    if config:
        params["output_config"] = config
    return params | _cap(request, instrument, quirks) | _sampling(request, instrument)


def sent_features(params: Mapping[str, Any]) -> frozenset[Feature]:
    """The optional features in a call's parameters: what a provider's error may name."""
    config = params.get("output_config") or {}
    found: dict[Feature, bool] = {
        "schema": "response_format" in params or "text" in params or "format" in config,
        "temperature": "temperature" in params,
        "tokens": bool({"max_tokens", "max_completion_tokens", "max_output_tokens"} & set(params)),
        "effort": "reasoning_effort" in params or "reasoning" in params or "effort" in config,
        "store": "store" in params,
        "seed": "seed" in params,
    }
    return frozenset(feature for feature, there in found.items() if there)


def chat_wire(dialect: str) -> Wire:
    """Chat Completions in a dialect: ``openai``, ``azure``, ``compatible`` or ``local``."""
    return Wire(name=f"{dialect}-chat", path="/chat/completions", build=_chat, read=read_chat)


def responses_wire(dialect: str) -> Wire:
    """The Responses API in a dialect: ``openai`` or ``compatible``."""
    return Wire(name=f"{dialect}-responses", path="/responses", build=_responses, read=read_responses)


def messages_wire() -> Wire:
    """Anthropic Messages."""
    return Wire(name="anthropic-messages", path="/v1/messages", build=_messages, read=read_messages)
