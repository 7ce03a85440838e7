"""Bounded, jittered retries around one HTTP attempt (OUT-3): transport faults end here, never in a verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fitter.clients.body import Exchange
from fitter.clients.faults import Fault
from fitter.clients.pacing import Pacer, Sleep
from fitter.clients.ratelimit import asked_wait, exhausted_for

Attempt = Callable[[float], Awaitable[Exchange]]
Judge = Callable[[Exchange], "Fault | None"]


class Broken(Exception):
    """One attempt that brought no answer: refused, reset, half-closed, timed out.

    Args:
        kind: short code for the record: ``timeout``, ``connection``.
        message: for people, free of secrets.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The bounds.

    Attributes:
        attempts: most HTTP requests for one call.
        timeouts: most of them that may end in silence: each may have been charged for.
        base_s, cap_s: exponential backoff, full jitter between half and the whole.
        patience_s: most seconds for the call, waits included.
        longest_wait_s: a longer pause asked for by the provider ends the call at once.
    """

    attempts: int = 6
    timeouts: int = 2
    base_s: float = 0.5
    cap_s: float = 20.0
    patience_s: float = 600.0
    longest_wait_s: float = 120.0

    def backoff(self, failures: int, rng: random.Random) -> float:
        """Seconds before the next attempt after so many failures (1, 2, ...)."""
        step = min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, 30))
        return step * (0.5 + 0.5 * rng.random())


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a call ended.

    Attributes:
        exchange: the last HTTP answer; None when there was none.
        fault: what is wrong with it; None for a 2xx.
        gave_up: why there is no usable answer although every bound was used; None otherwise.
        faults: labels of the faults before the end, in order.
    """

    exchange: Exchange | None
    fault: Fault | None
    gave_up: str | None
    faults: tuple[str, ...]


class Retrier:
    """Runs attempts through the pacer until there is an answer, a cause no retry can mend, or a bound is reached."""

    def __init__(
        self,
        policy: RetryPolicy,
        pacer: Pacer,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.policy = policy
        self.pacer = pacer
        self._rng = rng or random.Random()
        self._clock = clock
        self._sleep = sleep

    async def run(self, attempt: Attempt, judge: Judge, *, timeout_s: float) -> Outcome:
        """Makes one call.

        Args:
            attempt: one HTTP request; gets its deadline in seconds, raises :class:`Broken`.
            judge: the fault of an answer, or None when it is one.
            timeout_s: deadline of each attempt.
        """
        policy, faults, silences = self.policy, list[str](), 0
        end = self._clock() + policy.patience_s
        last: tuple[Exchange | None, Fault | None] = (None, None)
        while True:
            held = self.pacer.held_for()
            if held > policy.longest_wait_s:
                return self._over(last, faults, f"the provider asks to wait {held:.0f} s")
            left = end - self._clock() - held
            if left <= 0:
                return self._over(last, faults, f"no answer within {policy.patience_s:.0f} s")
            asked: float | None = None
            async with self.pacer.slot() as ticket:
                try:
                    exchange = await self._bounded(attempt, min(timeout_s, left))
                except Broken as broken:
                    label, why, last = broken.kind, broken.message, (None, None)
                    silences += broken.kind == "timeout"
                else:
                    fault = judge(exchange)
                    if fault is None or fault.action != "retry":
                        self._answered(exchange)
                        return Outcome(exchange=exchange, fault=fault, gave_up=None, faults=tuple(faults))
                    label, why, last = fault.label, f"HTTP {fault.label}", (exchange, fault)
                    asked = asked_wait(exchange.headers)
                    if fault.slow_down:
                        self.pacer.slow_down(ticket)
                        if asked is not None:
                            self.pacer.hold(asked)
                    if exchange.headers.get("x-should-retry", "").strip().lower() == "false":
                        faults.append(label)
                        return self._over(last, faults, f"{why}, and the provider says that a retry is useless")
            faults.append(label)
            if len(faults) >= policy.attempts:
                return self._over(last, faults, f"{why}; gave up after {len(faults)} attempts")
            if silences >= policy.timeouts:
                return self._over(last, faults, f"{why}; gave up after {silences} attempts without an answer")
            if asked is not None and asked > policy.longest_wait_s:
                return self._over(last, faults, f"{why}; the provider asks to wait {asked:.0f} s")
            pause = policy.backoff(len(faults), self._rng)
            if asked is not None:
                # Never sooner than asked; a little later, so that the waiting calls do not come back as one.
                pause = asked + min(pause, 1.0)
            if self._clock() + pause >= end:
                return self._over(last, faults, f"{why}; no answer within {policy.patience_s:.0f} s")
            await self._sleep(pause)

    async def _bounded(self, attempt: Attempt, seconds: float) -> Exchange:
        try:
            async with asyncio.timeout(seconds):
                return await attempt(seconds)
        except TimeoutError:
            raise Broken("timeout", f"no complete answer within {seconds:.0f} s") from None

    def _answered(self, exchange: Exchange) -> None:
        self.pacer.success()
        spent = exhausted_for(exchange.headers)
        if spent is not None:
            self.pacer.hold(min(spent, self.policy.longest_wait_s))

    @staticmethod
    def _over(last: tuple[Exchange | None, Fault | None], faults: list[str], why: str) -> Outcome:
        return Outcome(exchange=last[0], fault=last[1], gave_up=why, faults=tuple(faults))
