"""Stand-in for OpenAI's Responses API and Chat Completions, Azure's paths, and servers that only speak the format.

``Model`` is the scripted behaviour behind the wire: it decides which parameters it refuses and what it answers; the
functions below put that into OpenAI's envelopes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.loopback import Asked, Play, answer

Answer = Callable[[Mapping[str, Any]], str]
_DEPLOYMENT = re.compile(r"^/openai/deployments/([^/]+)/chat/completions\?api-version=([^&]+)$")


def verdict(_: Mapping[str, Any]) -> str:
    """A plain good verdict."""
    return '{"reasoning":"It answers the question.","label":"good","confidence":90}'


@dataclass(kw_only=True)
class Model:
    """How the model behind the wire behaves.

    Attributes:
        name: the name it returns.
        known: names it answers to; empty: any.
        key: the key it wants; None: any.
        says: the answer's text, from the request's body.
        refuses: parameter name → the 400's message; the parameter is looked for at the top of the body and in ``text``
            and ``response_format`` by type (``json_schema``, ``json_object``).
        finish: Chat finish_reason.
        usage: overrides of the usage object.
        extra: keys put into the message (chat) or appended output items (responses, under ``items``).
        before_s: latency.
    """

    name: str = "gpt-5.4-mini-2026-03-01"
    known: tuple[str, ...] = ()
    key: str | None = None
    says: Answer = verdict
    refuses: Mapping[str, str] = field(default_factory=dict)
    finish: str | None = "stop"
    usage: Mapping[str, Any] | None = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    before_s: float = 0.0


def error(
    status: int, message: str, *, code: Any = None, kind: str = "invalid_request_error", param: Any = None
) -> Play:
    """OpenAI's error shape."""
    return answer({"error": {"message": message, "type": kind, "param": param, "code": code}}, status=status)


def chat_body(text: str | None, model: Model) -> dict[str, Any]:
    """A chat.completion object."""
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 30,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 12},
        **(model.usage or {}),
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model.name,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None, **model.extra},
                "finish_reason": model.finish,
                "logprobs": None,
            }
        ],
        **({"usage": usage} if model.usage is not None else {}),
    }


def responses_body(text: str, model: Model, *, status: str = "completed", **rest: Any) -> dict[str, Any]:
    """A response object, with a reasoning item before the message, as reasoning models send."""
    usage = {
        "input_tokens": 120,
        "output_tokens": 30,
        "total_tokens": 150,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens_details": {"reasoning_tokens": 12},
        **(model.usage or {}),
    }
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": model.name,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": '{"label":"bad"}'}]},
            message,
            *model.extra.get("items", []),
        ],
        **({"usage": usage} if model.usage is not None else {}),
        **rest,
    }


def _refused(body: Mapping[str, Any], model: Model) -> Play | None:
    form = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    for name, message in model.refuses.items():
        if name in body:
            return error(400, message, code="unsupported_parameter", param=name)
        if name == form.get("type"):
            return error(400, message, param="response_format" if "response_format" in body else "text.format")
    return None


def api(model: Model) -> Callable[[Asked], Play]:
    """The script: routes, checks key and model, refuses parameters, answers."""

    def script(asked: Asked) -> Play:
        azure = _DEPLOYMENT.match(asked.path)
        key = asked.headers.get("api-key") if azure else asked.headers.get("authorization", "").removeprefix("Bearer ")
        if asked.method != "POST":
            return error(405, "Method not allowed.")
        if model.key is not None and key != model.key:
            shown = f"{(key or '')[:8]}***{(key or '')[-4:]}"
            return error(401, f"Incorrect API key provided: {shown}. {key}", code="invalid_api_key")
        body = asked.json
        if model.known and body.get("model") not in model.known:
            return error(404, f"The model `{body.get('model')}` does not exist or you do not have access to it.",
                         code="model_not_found")  # fmt: skip
        refused = _refused(body, model)
        if refused is not None:
            return refused
        if azure or asked.path.endswith("/chat/completions"):
            return answer(chat_body(model.says(body), model), before_s=model.before_s)
        if asked.path.endswith("/responses"):
            return answer(responses_body(model.says(body), model), before_s=model.before_s)
        return error(404, f"Unknown request URL: {asked.method} {asked.path}.", kind="invalid_request_error")

    return script
