"""The limiter: how many calls may be in flight, and not before when.

Additive increase, multiplicative decrease: a full window of successes adds one slot, an answer that says "slow down"
halves them, at most once a window, so that one burst of 429s counts as one signal. A pause asked for by the provider
holds every call, not only the one that was told. One pacer serves one client; it belongs to no event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]


class Pacer:
    """Admits calls.

    Args:
        maximum: most calls in flight.
        clock: monotonic seconds.
        sleep: waits; replaced in tests.
    """

    def __init__(
        self, maximum: int, *, clock: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep
    ) -> None:
        if maximum < 1:
            raise ValueError("at least one call must be allowed")
        self.maximum = maximum
        self._window = float(maximum)
        self._running = 0
        self._started = 0
        self._deaf_until = 0  # calls started before the last halving may not halve again
        self._held_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._sleep = sleep

    @property
    def limit(self) -> int:
        """Calls that may be in flight now; a pass runner need not keep more workers busy than this."""
        return max(1, int(self._window))

    @property
    def in_flight(self) -> int:
        """Calls in flight now."""
        return self._running

    def held_for(self) -> float:
        """Seconds until the next call may start."""
        return max(0.0, self._held_until - self._clock())

    def hold(self, seconds: float) -> None:
        """Nobody calls for this long. Never shortens an earlier hold."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    def success(self) -> None:
        """An answer came: a whole window of them adds one slot."""
        self._window = min(float(self.maximum), self._window + 1.0 / max(1.0, self._window))
        self._wake()

    def slow_down(self, ticket: int) -> None:
        """The call with this ticket was told to slow down: halve, unless it started before the last halving."""
        if ticket < self._deaf_until:
            return
        self._window = max(1.0, self._window / 2.0)
        self._deaf_until = self._started

    def _wake(self) -> None:
        free = self.limit - self._running
        while free > 0 and self._waiting:
            future = self._waiting.popleft()
            loop = future.get_loop()
            if loop.is_closed() or future.done():
                continue  # left over from a loop that was torn down, or cancelled while it waited
            future.set_result(None)
            free -= 1

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """One call's place; yields its ticket. Waits while the window is full or a hold lasts."""
        while True:
            wait = self.held_for()
            if wait > 0:
                await self._sleep(wait)
                continue
            if self._running < self.limit:
                break
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            try:
                await future
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    self._wake()  # it had been given the place: pass it on
                raise
        ticket = self._started
        self._started += 1
        self._running += 1
        try:
            yield ticket
        finally:
            self._running -= 1
            self._wake()
