"""What the client tests share: the contract, requests, a clock that only moves when somebody sleeps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from fitter.clients.base import Message, ModelRequest, ModelSettings, Reply
from fitter.clients.pacing import Pacer
from fitter.clients.probe import Probe, settle
from fitter.clients.registry import open_client
from fitter.clients.retry import Retrier, RetryPolicy
from fitter.labels import LabelSchema
from fitter.records import VerdictContract

T = TypeVar("T")
CANARY = "sk-canary-3f9ab27c55d14e0a-deadbeef"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "minLength": 1},
        "label": {"type": "string", "enum": ["good", "bad"]},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["reasoning", "label", "confidence"],
    "additionalProperties": False,
}
CONTRACT = VerdictContract(
    label_field="label",
    reasoning_field="reasoning",
    confidence_field="confidence",
    schema=SCHEMA,
    label=LabelSchema(id="q", name="q", kind="categorical", classes=("good", "bad")),
)


def request(text: str = "hello", *, row: str | None = None, **settings: Any) -> ModelRequest:
    return ModelRequest(
        messages=(Message(role="system", text="Grade."), Message(role="user", text=text)),
        schema=SCHEMA,
        schema_name="verdict",
        settings=ModelSettings(**settings),
        row=row,
    )


class FakeTime:
    """A clock that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def quick(
    *, concurrency: int = 8, time: FakeTime | None = None, policy: RetryPolicy | None = None, seed: int = 0
) -> Retrier:
    """The real retry loop, whose pauses take no time."""
    time = time or FakeTime()
    return Retrier(
        policy or RetryPolicy(),
        Pacer(concurrency, clock=time.clock, sleep=time.sleep),
        rng=random.Random(seed),
        clock=time.clock,
        sleep=time.sleep,
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def ask(
    spec: str,
    req: ModelRequest | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    retrier: Retrier | None = None,
    probe: bool = False,
) -> Reply:
    """One call through a fresh client."""

    async def work() -> Reply:
        client = open_client(spec, options or {}, env or {}, retrier=retrier or quick())
        req_ = req or request()
        try:
            if probe:
                await settle(client, CONTRACT, req_.settings)
            return await client.complete(req_, run=0)
        finally:
            await client.aclose()

    return run(work())


def probe(
    spec: str,
    *,
    options: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> Probe:
    """The probe through a fresh client."""

    async def work() -> Probe:
        client = open_client(spec, options or {}, env or {}, retrier=quick())
        try:
            return await settle(client, CONTRACT, ModelSettings(**settings))
        finally:
            await client.aclose()

    return run(work())
