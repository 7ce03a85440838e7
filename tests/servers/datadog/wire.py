"""Requests, replies, error bodies and time windows of the stand-in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.servers.datadog.switches import Switches

JSON_API = "application/vnd.api+json"
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass
class Request:
    """One received request, as recorded."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any = None

    def one(self, key: str, default: str = "") -> str:
        values = self.query.get(key) or [default]
        return values[0]


@dataclass
class Reply:
    status: int = 200
    body: Any = None  # None sends nothing
    content_type: str = JSON_API
    headers: dict[str, str] = field(default_factory=dict)

    def payload(self) -> bytes:
        if self.body is None:
            return b""
        if isinstance(self.body, str):
            return self.body.encode()
        return json.dumps(self.body, ensure_ascii=False).encode()


class Refusal(Exception):
    """A request the platform refuses."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

    def reply(self, switches: Switches, secrets: str = "") -> Reply:
        detail = self.detail + (f" (request had {secrets})" if switches.echo_keys_in_errors else "")
        if self.status in (401, 403, 429):
            return Reply(self.status, {"errors": [detail]}, "application/json")
        shape = switches.error_shape
        if shape == "strings":
            return Reply(self.status, {"errors": [detail]}, "application/json")
        if shape == "reason":
            return Reply(self.status, {"reason": detail}, "application/json")
        if shape == "detail":
            return Reply(self.status, {"detail": detail}, "application/json")
        if shape == "html":
            return Reply(self.status, f"<html><body><h1>{self.status}</h1>{detail}</body></html>", "text/html")
        return Reply(self.status, {"errors": [{"title": "Generic Error", "detail": detail}]})


def moment(text: str, now: float) -> float:
    """``now-90d``, ISO-8601 or 13-digit milliseconds, as epoch seconds."""
    text = str(text).strip()
    if text == "now":
        return now
    if match := re.fullmatch(r"now-(\d+)([smhdw])", text):
        return now - int(match[1]) * _UNIT[match[2]]
    if re.fullmatch(r"\d{13}", text):
        return int(text) / 1000
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise Refusal(400, f"invalid time {text!r}") from None


def window(start: Any, end: Any, now: float, default: str) -> tuple[float, float]:
    return moment(start or default, now), moment(end or "now", now) + 1
