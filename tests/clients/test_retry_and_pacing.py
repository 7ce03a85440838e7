"""Bounds, jitter, Retry-After, rate-limit headers and the limiter, on a clock that moves only by sleeping."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.clients.body import Exchange
from fitter.clients.faults import Fault, read_fault
from fitter.clients.pacing import Pacer
from fitter.clients.ratelimit import asked_wait, duration, exhausted_for, retry_after
from fitter.clients.retry import Broken, Outcome, RetryPolicy
from tests.clients.helpers import FakeTime, quick, run

Step = Exchange | Broken


def got(status: int, body: bytes = b"{}", **headers: str) -> Exchange:
    return Exchange(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}, body=body)


def judge(exchange: Exchange) -> Fault | None:
    return read_fault(exchange, frozenset()) if exchange.status >= 300 else None


def play(
    steps: Iterator[Step] | list[Step], policy: RetryPolicy | None = None
) -> tuple[Outcome, FakeTime, int, Callable[[], int]]:
    time, script, asked = FakeTime(), iter(steps), 0
    retrier = quick(time=time, policy=policy)

    async def attempt(_: float) -> Exchange:
        nonlocal asked
        asked += 1
        step = next(script)
        if isinstance(step, Broken):
            raise step
        return step

    outcome = run(retrier.run(attempt, judge, timeout_s=30))
    return outcome, time, asked, lambda: retrier.pacer.limit


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_out3_transport_failures_are_retried_then_answered(status: int) -> None:
    outcome, time, asked, _ = play([got(status), got(status), got(200)])
    assert outcome.fault is None
    assert outcome.gave_up is None
    assert asked == 3
    assert outcome.faults == (str(status),) * 2
    assert len(time.slept) == 2


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_out3_retries_are_bounded(status: int) -> None:
    outcome, _, asked, _ = play(iter(lambda: got(status), None))
    assert asked == RetryPolicy().attempts
    assert outcome.gave_up is not None
    assert "gave up after 6 attempts" in outcome.gave_up


@pytest.mark.parametrize("status", [300, 301, 307, 400, 401, 402, 403, 404, 405, 410, 413, 422])
def test_what_no_retry_can_mend_is_asked_once(status: int) -> None:
    outcome, time, asked, _ = play([got(status)])
    assert asked == 1
    assert time.slept == []
    assert outcome.fault is not None
    assert outcome.fault.action != "retry"


def test_silence_is_bounded_more_tightly_because_it_may_have_been_charged() -> None:
    outcome, _, asked, _ = play(iter(lambda: Broken("timeout", "nothing"), None))
    assert asked == 2
    assert outcome.faults == ("timeout", "timeout")
    assert outcome.gave_up is not None
    assert outcome.exchange is None


def test_connection_faults_are_retried() -> None:
    outcome, _, asked, _ = play([Broken("connection", "reset"), got(503), got(200)])
    assert asked == 3
    assert outcome.faults == ("connection", "503")


def test_retry_after_is_never_undercut() -> None:
    outcome, time, _, _ = play([got(429, retry_after="37"), got(200)])
    assert outcome.gave_up is None
    assert sum(time.slept) >= 37
    assert sum(time.slept) <= 38.5


def test_a_pause_longer_than_the_bound_ends_the_call_at_once() -> None:
    outcome, time, asked, _ = play([got(429, retry_after="86400")])
    assert asked == 1
    assert outcome.gave_up is not None
    assert "asks to wait 86400 s" in outcome.gave_up
    assert time.slept == []


def test_rate_limit_reset_is_used_where_there_is_no_retry_after() -> None:
    _, time, _, _ = play([got(429, x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="1m2s"), got(200)])
    assert 62 <= sum(time.slept) <= 64


def test_an_exhausted_limit_on_a_good_answer_holds_the_next_call() -> None:
    time = FakeTime()
    retrier = quick(time=time)

    async def attempt(_: float) -> Exchange:
        return got(200, x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="9s")

    async def two() -> None:
        await retrier.run(attempt, judge, timeout_s=5)
        assert time.slept == []
        await retrier.run(attempt, judge, timeout_s=5)

    run(two())
    assert time.slept[0] == pytest.approx(9)


def test_x_should_retry_false_is_believed() -> None:
    outcome, _, asked, _ = play([got(503, x_should_retry="false")])
    assert asked == 1
    assert outcome.gave_up is not None


def test_patience_bounds_the_whole_call() -> None:
    policy = RetryPolicy(attempts=20, patience_s=50, base_s=10, cap_s=20)
    outcome, time, _, _ = play(iter(lambda: got(503), None), policy)
    assert outcome.gave_up is not None
    assert time.now - 1000 <= 50


def test_each_attempt_has_a_deadline() -> None:
    retrier = quick(policy=RetryPolicy(timeouts=1))

    async def attempt(_: float) -> Exchange:
        await asyncio.sleep(30)
        raise AssertionError

    outcome = run(retrier.run(attempt, judge, timeout_s=0.05))
    assert outcome.faults == ("timeout",)


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_backoff_is_jittered_within_half_and_whole_and_capped(failures: int, seed: int) -> None:
    policy = RetryPolicy()
    pause = policy.backoff(failures, random.Random(seed))
    whole = min(policy.cap_s, policy.base_s * 2.0 ** min(failures - 1, 30))
    assert whole / 2 <= pause <= whole


# --- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("6m0s", 360), ("120ms", 0.12), ("1h2m", 3720), ("1.5s", 1.5), ("17", 17), ("", None), ("soon", None),
     ("-3", None), ("nan", None), ("inf", None), ("1s junk", None), ("9" * 60, None)],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    assert duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 20:00:30 GMT", "date": "Mon, 30 Nov 2026 20:00:00 GMT"}, 30),
        ({"retry-after": "Mon, 30 Nov 2026 20:00:00 GMT", "date": "Mon, 30 Nov 2026 20:00:30 GMT"}, 0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "NaN"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_retry_after_by_the_servers_own_clock(headers: dict[str, str], seconds: float | None) -> None:
    """The server's date is used where it gives one: a wrong local clock shortens no pause."""
    assert retry_after(headers) == (None if seconds is None else pytest.approx(seconds))


def test_exhausted_limits_take_the_longest_reset_and_ignore_the_rest() -> None:
    headers = {
        "date": "Mon, 30 Nov 2026 20:00:00 GMT",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-30T20:00:20Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-11-30T20:00:50Z",
        "anthropic-ratelimit-output-tokens-remaining": "4",
        "anthropic-ratelimit-output-tokens-reset": "2026-11-30T21:00:00Z",
    }
    assert exhausted_for(headers) == pytest.approx(50)
    assert asked_wait({**headers, "retry-after": "7"}) == pytest.approx(7)
    assert exhausted_for({"x-ratelimit-remaining-requests": "x", "x-ratelimit-reset-requests": "9s"}) is None


@given(st.text(max_size=60))
def test_header_values_never_crash(text: str) -> None:
    for found in (duration(text), retry_after({"retry-after": text, "date": text})):
        assert found is None or found >= 0


# --- the limiter ------------------------------------------------------------------------------------------------------


def test_aimd_a_burst_of_429s_halves_once_and_successes_climb_back() -> None:
    pacer = Pacer(16)

    async def burst() -> None:
        tickets = []
        for _ in range(16):
            async with pacer.slot() as ticket:
                tickets.append(ticket)
        for ticket in tickets:
            pacer.slow_down(ticket)
        assert pacer.limit == 8  # one burst, one signal
        async with pacer.slot() as later:
            pacer.slow_down(later)
        assert pacer.limit == 4
        for _ in range(5):
            pacer.success()
        assert pacer.limit == 5  # about a window of successes: one more
        for _ in range(10_000):
            pacer.success()
        assert pacer.limit == 16  # never above the maximum

    run(burst())


def test_the_limit_never_falls_below_one() -> None:
    pacer = Pacer(2)
    for n in range(50):
        pacer.slow_down(n + 1_000_000)
    assert pacer.limit == 1


@given(st.integers(1, 9), st.integers(1, 60), st.integers(0, 2**16))
def test_never_more_in_flight_than_the_limit_and_nobody_starves(limit: int, calls: int, seed: int) -> None:
    rng = random.Random(seed)
    pacer, most, done = Pacer(limit), 0, 0

    async def call() -> None:
        nonlocal most, done
        async with pacer.slot() as ticket:
            most = max(most, pacer.in_flight)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            if rng.random() < 0.2:
                pacer.slow_down(ticket)
            else:
                pacer.success()
        done += 1

    async def work() -> None:
        tasks = [asyncio.create_task(call()) for _ in range(calls)]
        await asyncio.sleep(0)
        killed = [task for task in tasks if rng.random() < 0.2 and task.cancel()]
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert done >= calls - len(killed)

    run(work())
    assert most <= limit
    assert pacer.in_flight == 0


def test_a_hold_holds_everybody() -> None:
    time = FakeTime()
    pacer = Pacer(4, clock=time.clock, sleep=time.sleep)
    pacer.hold(12)
    pacer.hold(3)  # never shortens

    async def work() -> None:
        async with pacer.slot():
            assert time.now >= 1012

    run(work())


def test_one_pacer_serves_several_loops_one_after_another() -> None:
    pacer = Pacer(1)

    async def work() -> None:
        async def call() -> None:
            async with pacer.slot():
                await asyncio.sleep(0)

        await asyncio.gather(*(call() for _ in range(5)))

    run(work())
    run(work())
    assert pacer.in_flight == 0
