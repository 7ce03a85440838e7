"""Stand-in for the Anthropic Messages API, also under Bedrock's and Vertex's paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.loopback import Asked, Play, answer
from tests.servers.openai_api import Answer, verdict


@dataclass(kw_only=True)
class Model:
    """How the model behind the wire behaves; attributes as in the OpenAI stand-in.

    Attributes:
        blocks: content blocks put before the text block (thinking, tool_use, ...).
        stop: stop_reason.
    """

    name: str = "claude-sonnet-5"
    known: tuple[str, ...] = ()
    key: str | None = None
    says: Answer = verdict
    refuses: Mapping[str, str] = field(default_factory=dict)
    stop: str | None = "end_turn"
    usage: Mapping[str, Any] | None = field(default_factory=dict)
    blocks: tuple[Mapping[str, Any], ...] = ({"type": "thinking", "thinking": '{"label":"bad"}', "signature": "x"},)
    before_s: float = 0.0


def error(status: int, message: str, *, kind: str = "invalid_request_error") -> Play:
    """Anthropic's error shape."""
    return answer({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}, status=status)


def message_body(text: str, model: Model) -> dict[str, Any]:
    """A message object."""
    usage = {
        "input_tokens": 20,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 100,
        "output_tokens": 30,
        **(model.usage or {}),
    }
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model.name,
        "content": [*model.blocks, *([{"type": "text", "text": text}] if text else [])],
        "stop_reason": model.stop,
        "stop_sequence": None,
        **({"usage": usage} if model.usage is not None else {}),
    }


def api(model: Model) -> Callable[[Asked], Play]:
    """The script: checks version header, key, model and required fields, refuses parameters, answers."""

    def script(asked: Asked) -> Play:
        path = asked.path.partition("?")[0]
        bedrock = path.startswith("/model/") and path.endswith("/invoke")
        vertex = path.endswith(":rawPredict")
        if not (bedrock or vertex or path.endswith("/v1/messages")) or asked.method != "POST":
            return error(404, "Not found", kind="not_found_error")
        body = asked.json
        if bedrock or vertex:
            key = asked.headers.get("authorization", "").removeprefix("Bearer ")
            if not body.get("anthropic_version"):
                return error(400, "anthropic_version is required")
        else:
            key = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
            if not asked.headers.get("anthropic-version"):
                return error(400, "anthropic-version: header is required")
            if not body.get("model"):
                return error(400, "model: Field required")
        if model.key is not None and key != model.key:
            return error(401, f"invalid x-api-key {key}", kind="authentication_error")
        if not isinstance(body.get("max_tokens"), int):
            return error(400, "max_tokens: Field required")
        for turn in body["messages"]:
            if turn["role"] not in ("user", "assistant") or not turn["content"]:
                return error(400, "messages: text content blocks must be non-empty")
        if model.known and body.get("model") not in model.known:
            return error(404, f"model: {body.get('model')}", kind="not_found_error")
        for name, message in model.refuses.items():
            if name in body or name in (body.get("output_config") or {}):
                return error(400, message)
        return answer(message_body(model.says(body), model), before_s=model.before_s)

    return script
