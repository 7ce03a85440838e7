"""Every fault over real sockets, through the vendors' real SDKs."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import os
import random
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fitter.clients.base import ModelClient, Reply
from fitter.clients.body import MAX_BODY, RAW_CAP
from fitter.clients.probe import settle
from fitter.clients.registry import open_client
from fitter.clients.remote import OUTAGE_AFTER
from fitter.clients.retry import RetryPolicy
from fitter.errors import Outage, RunError, SettingsError
from fitter.records import UnusableReason
from tests.clients.helpers import CANARY, CONTRACT, FakeTime, ask, quick, request, run
from tests.servers import anthropic_api, openai_api
from tests.servers.loopback import Asked, Play, Script, Server, answer, spoil, with_faults, zeros

GOOD = openai_api.verdict({})


@dataclass(frozen=True)
class Api:
    """One API of one SDK, against its stand-in."""

    name: str
    spec: str
    options: dict[str, Any]
    env: dict[str, str]
    script: Callable[[], Script]
    model: str

    def ask(self, server: Server, **rest: Any) -> Reply:
        options = {**self.options, **rest.pop("options", {})}
        return ask(self.spec.format(url=server.url), options=options, env=self.env, **rest)

    def open(self, server: Server, **rest: Any) -> ModelClient:
        return open_client(self.spec.format(url=server.url), self.options, self.env, **rest)


def _openai() -> Script:
    return openai_api.api(openai_api.Model(key=CANARY))


def _anthropic() -> Script:
    return anthropic_api.api(anthropic_api.Model(key=CANARY))


KEY = {"key_env": "TEST_KEY"}
ENV = {"TEST_KEY": CANARY}
APIS = [
    Api("chat", "openai:m@{url}/v1", KEY, ENV, _openai, "gpt-5.4-mini-2026-03-01"),
    Api("responses", "openai:m@{url}/v1", {**KEY, "api": "responses"}, ENV, _openai, "gpt-5.4-mini-2026-03-01"),
    Api("azure", "azure:dep@{url}", KEY, ENV, _openai, "gpt-5.4-mini-2026-03-01"),
    Api("anthropic", "anthropic:m@{url}", KEY, ENV, _anthropic, "claude-sonnet-5"),
    Api("bedrock", "bedrock:m@{url}", {**KEY, "region": "eu-west-1"}, ENV, _anthropic, "claude-sonnet-5"),
    Api("vertex", "vertex:m@{url}/v1", {**KEY, "region": "eu", "project": "p"}, ENV, _anthropic, "claude-sonnet-5"),
]
BOTH = [APIS[0], APIS[3]]  # one of each SDK


def named(api: Api) -> str:
    return api.name


@pytest.fixture(params=APIS, ids=named)
def api(request: pytest.FixtureRequest) -> Api:
    found = request.param
    assert isinstance(found, Api)
    return found


@pytest.fixture(params=BOTH, ids=named)
def either(request: pytest.FixtureRequest) -> Api:
    found = request.param
    assert isinstance(found, Api)
    return found


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(lambda _: Play(status=500)) as running:
        yield running


def first(fault: Callable[[Play], Play], *, times: int = 1) -> Callable[[Script], Script]:
    """Spoils the first answers."""
    return lambda script: with_faults(script, (lambda asked: asked.number < times, fault))


def always(fault: Callable[[Play], Play]) -> Callable[[Script], Script]:
    return first(fault, times=10**9)


def test_a_good_answer(api: Api, server: Server) -> None:
    server.script = api.script()
    reply = api.ask(server)
    assert reply.outcome == "ok"
    assert reply.text == GOOD
    assert reply.model == api.model
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.cached, reply.usage.output) == (120, 100, 30)
    assert json.loads(reply.raw)["model"] == api.model
    assert reply.faults == ()
    assert len(server.asked) == 1


# --- every status at every call position ------------------------------------------------------------------------------

RETRIED = (408, 409, 425, 429, 500, 502, 503, 504, 529)
STOPS = (301, 302, 307, 308, 401, 403, 404, 405, 410)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("status", RETRIED)
def test_out3_every_passing_status_at_every_position_of_three_calls(
    either: Api, server: Server, status: int, position: int
) -> None:
    server.script = with_faults(
        either.script(), (lambda asked: asked.number == position, lambda _: answer({"error": "x"}, status=status))
    )

    async def work() -> list[Reply]:
        client = either.open(server, retrier=quick())
        try:
            return [await client.complete(request(f"row {n}"), run=0) for n in range(3)]
        finally:
            await client.aclose()

    replies = run(work())
    assert [r.outcome for r in replies] == ["ok"] * 3
    assert [r.faults for r in replies] == [(str(status),) if n == position else () for n in range(3)]
    assert len(server.asked) == 4  # the SDK's own retries are off: each request is one of ours


@pytest.mark.parametrize("status", RETRIED)
def test_out3_a_status_that_does_not_pass_ends_unavailable_within_the_bound(
    either: Api, server: Server, status: int
) -> None:
    server.script = lambda _: answer({"error": {"message": "no luck"}}, status=status)
    reply = either.ask(server)
    assert reply.outcome == "unavailable"
    assert "no luck" in reply.detail
    assert len(server.asked) == RetryPolicy().attempts
    assert reply.faults == (str(status),) * 6
    assert reply.text == ""


@pytest.mark.parametrize("status", STOPS)
def test_a_status_no_retry_can_mend_stops_at_once_with_the_real_cause(either: Api, server: Server, status: int) -> None:
    server.script = lambda _: answer(
        {"error": {"message": "the real cause", "type": "x"}},
        status=status,
        headers={"location": "http://127.0.0.1:9/"},
    )
    with pytest.raises(SettingsError, match="the real cause") as caught:
        either.ask(server)
    assert len(server.asked) == 1
    assert caught.value.exit_code == 2


def test_bad_key_says_so_without_the_key(api: Api, server: Server) -> None:
    """Lessons 22 and 25. The stand-in quotes the key back, whole and masked."""
    server.script = (
        openai_api.api(openai_api.Model(key="another"))
        if api in APIS[:3]
        else anthropic_api.api(anthropic_api.Model(key="another"))
    )
    with pytest.raises(SettingsError) as caught:
        api.ask(server)
    said = str(caught.value)
    assert "401" in said
    assert "key" in said
    for part in (CANARY, CANARY[:8], CANARY[-4:]):
        assert part not in said
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("api", "play"),
    [
        (BOTH[0], openai_api.error(429, "You exceeded your current quota", code="insufficient_quota")),
        (BOTH[1], anthropic_api.error(400, "Your credit balance is too low to access the Anthropic API.")),
    ],
    ids=["openai", "anthropic"],
)
def test_spent_quota_is_not_slow_down(api: Api, play: Play, server: Server) -> None:
    """Lesson 24: it stops the run, resumable, at once."""
    server.script = lambda _: play
    with pytest.raises(Outage) as caught:
        api.ask(server)
    assert caught.value.exit_code == 4
    assert "resume" in str(caught.value)
    assert len(server.asked) == 1


def test_unknown_model_stops(api: Api, server: Server) -> None:
    server.script = lambda _: openai_api.error(404, "The model `m` does not exist", code="model_not_found")
    with pytest.raises(SettingsError, match="does not exist"):
        api.ask(server)
    assert len(server.asked) == 1


def test_retry_after_is_honoured_over_the_wire(either: Api, server: Server) -> None:
    clock = FakeTime()
    server.script = first(lambda _: Play(status=429, headers={"Retry-After": "41"}))(either.script())
    assert either.ask(server, retrier=quick(time=clock)).outcome == "ok"
    assert sum(clock.slept) >= 41


# --- sockets ----------------------------------------------------------------------------------------------------------

SOCKETS: dict[str, Callable[[Play], Play]] = {
    "reset before the answer": lambda p: spoil(p, no_answer=True, ending="reset"),
    "closed before the answer": lambda p: spoil(p, no_answer=True, ending="close"),
    "half-closed before the answer": lambda p: spoil(p, no_answer=True, ending="half"),
    "reset in the body": lambda p: spoil(p, stop_after=40, ending="reset"),
    "closed in the body": lambda p: spoil(p, stop_after=40, ending="close"),
    "half-closed in the body": lambda p: spoil(p, stop_after=40, ending="half"),
    "error body cut off": lambda p: Play(
        status=500, headers={"content-length": "900"}, body=b"{", stop_after=1, ending="close"
    ),
}


@pytest.mark.parametrize("how", SOCKETS)
def test_out3_a_broken_connection_is_retried_and_never_a_verdict(either: Api, server: Server, how: str) -> None:
    server.script = first(SOCKETS[how], times=2)(either.script())
    reply = either.ask(server, req=request(timeout_s=10))
    assert reply.outcome == "ok", reply
    assert len(reply.faults) == 2
    assert len(server.asked) == 3


@pytest.mark.parametrize("how", SOCKETS)
def test_out3_a_connection_that_stays_broken_is_unavailable(either: Api, server: Server, how: str) -> None:
    server.script = always(SOCKETS[how])(either.script())
    reply = either.ask(server, req=request(timeout_s=10))
    assert reply.outcome == "unavailable"
    assert reply.text == ""
    assert reply.usage is None  # unknown, not zero


def test_out3_silence_ends_at_the_deadline(either: Api, server: Server) -> None:
    server.script = always(lambda p: spoil(p, no_answer=True, ending="silence"))(either.script())
    began = time.perf_counter()
    reply = either.ask(server, req=request(timeout_s=0.3))
    assert time.perf_counter() - began < 5
    assert reply.outcome == "unavailable"
    assert reply.faults == ("timeout", "timeout")


def test_out3_bytes_then_silence_ends_at_the_deadline(either: Api, server: Server) -> None:
    """A trickle must not keep a call alive for ever: the deadline is on the whole answer, not on each byte."""
    server.script = always(lambda p: spoil(p, piece=1, gap_s=0.05))(either.script())
    began = time.perf_counter()
    reply = either.ask(server, req=request(timeout_s=0.4))
    assert time.perf_counter() - began < 5
    assert reply.faults == ("timeout", "timeout")


def test_one_byte_at_a_time_is_an_answer(either: Api, server: Server) -> None:
    server.script = always(lambda p: spoil(p, piece=1))(either.script())
    assert either.ask(server).outcome == "ok"


def test_nobody_listening_is_unavailable(either: Api) -> None:
    with Server(lambda _: Play()) as gone:
        pass
    reply = either.ask(gone)
    assert reply.outcome == "unavailable"
    assert reply.faults == ("connection",) * 6


# --- bodies -----------------------------------------------------------------------------------------------------------


def _gzip(play: Play, data: bytes | None = None) -> Play:
    assert isinstance(play.body, bytes)
    body = gzip.compress(play.body if data is None else data)
    return spoil(play, body=body, headers={**play.headers, "content-encoding": "gzip"})


@functools.cache
def bomb(megabytes: int) -> bytes:
    """A gzip stream that unpacks to so many megabytes."""
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = b" " * (1024 * 1024)
    return b"".join([*(packer.compress(block) for _ in range(megabytes)), packer.flush()])


BODIES: dict[str, Callable[[Play], Play]] = {
    "50 MB": lambda p: spoil(p, body=zeros(50)),
    "gzip bomb": lambda p: spoil(p, body=bomb(80), headers={"content-encoding": "gzip"}),
    "broken gzip": lambda p: spoil(p, headers={"content-encoding": "gzip"}),
    "brotli, never asked for": lambda p: spoil(p, headers={"content-encoding": "br"}),
    "truncated JSON": lambda p: spoil(p, body=p.body[:-30]),  # type: ignore[index]
    "invalid UTF-8": lambda p: spoil(p, body=p.body.replace(b"m", b"\xff", 1)),  # type: ignore[union-attr]
    "HTML": lambda p: spoil(p, body=b"<html>please log in</html>"),
    "nothing": lambda p: spoil(p, body=b""),
    "duplicate keys": lambda p: spoil(p, body=p.body.replace(b'"model"', b'"model": "x", "model"', 1)),  # type: ignore[union-attr]
    "two objects": lambda p: spoil(p, body=p.body * 2),  # type: ignore[operator]
    "deep nesting": lambda p: spoil(p, body=b"[" * 100_000),
    "5,000 digits": lambda p: spoil(p, body=b'{"usage":' + b"9" * 5000 + b"}"),
}


@pytest.mark.parametrize("how", BODIES)
def test_out2_a_body_that_is_no_envelope_is_an_unusable_pass(either: Api, server: Server, how: str) -> None:
    server.script = always(BODIES[how])(either.script())
    reply = either.ask(server)
    assert reply.outcome == "bad_envelope"
    assert reply.text == ""
    assert reply.detail
    assert ("larger than 4 MiB" in reply.detail) is (how in ("50 MB", "gzip bomb"))  # it stopped listening there
    assert len(reply.raw) <= RAW_CAP


@pytest.mark.parametrize("how", ["50 MB", "gzip bomb", "invalid UTF-8", "deep nesting", "nothing", "5,000 digits"])
@pytest.mark.parametrize("status", [400, 500])
def test_an_error_with_such_a_body_is_read_bounded_too(either: Api, server: Server, how: str, status: int) -> None:
    """The SDK would read an error's body whole, however large."""
    server.script = always(lambda p: spoil(BODIES[how](p), status=status))(either.script())
    if status == 500:
        assert either.ask(server).outcome == "unavailable"
    else:
        with pytest.raises(SettingsError):
            either.ask(server)


def test_a_large_reply_costs_little_memory(server: Server) -> None:
    import tracemalloc

    api = BOTH[0]
    server.script = always(lambda p: spoil(p, body=bomb(80), headers={"content-encoding": "gzip"}))(api.script())
    api.ask(server)  # imports are not what is measured
    tracemalloc.start()
    api.ask(server)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * MAX_BODY


def test_gzip_is_read_though_not_asked_for(either: Api, server: Server) -> None:
    server.script = always(_gzip)(either.script())
    reply = either.ask(server)
    assert reply.outcome == "ok"
    assert all(asked.headers["accept-encoding"] == "identity" for asked in server.asked)


def test_absurd_usage_over_the_wire_is_unknown(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model(usage={"prompt_tokens": 10**400, "completion_tokens": -5}))
    reply = BOTH[0].ask(server)
    assert reply.outcome == "ok"
    assert reply.usage is not None
    assert (reply.usage.input, reply.usage.output) == (None, None)


def test_lone_surrogates_in_a_reply_are_replaced(server: Server) -> None:
    """Lesson 16: such a text could be neither stored nor sent on."""
    body = openai_api.chat_body("X", openai_api.Model())
    raw = json.dumps(body).encode().replace(b'"X"', b'"a \\ud800 b"')
    server.script = lambda _: Play(body=raw)
    reply = BOTH[0].ask(server)
    assert reply.text == "a \ufffd b"
    reply.text.encode()


@pytest.mark.parametrize(
    ("api", "model", "outcome"),
    [
        (APIS[0], {"finish": "length"}, "length"),
        (APIS[0], {"finish": "content_filter"}, "content_filter"),
        (APIS[0], {"extra": {"refusal": "no"}}, "refusal"),
        (APIS[0], {"extra": {"tool_calls": [{"id": "1"}]}}, "tool_call"),
        (APIS[0], {"says": lambda _: ""}, "empty_text"),
        (APIS[3], {"stop": "max_tokens"}, "length"),
        (APIS[3], {"stop": "refusal"}, "refusal"),
        (APIS[3], {"stop": "tool_use"}, "tool_call"),
        (APIS[3], {"says": lambda _: ""}, "empty_text"),
    ],
)
def test_out2_outcomes_over_the_wire(api: Api, model: Any, outcome: UnusableReason, server: Server) -> None:
    server.script = (
        openai_api.api(openai_api.Model(**model)) if api is APIS[0] else anthropic_api.api(anthropic_api.Model(**model))
    )
    reply = api.ask(server)
    assert reply.outcome == outcome
    assert reply.text == ""
    assert len(server.asked) == 1


def test_a_content_filter_400_is_an_outcome_and_asked_once(server: Server) -> None:
    server.script = lambda _: openai_api.error(400, "filtered", code="content_filter")
    reply = APIS[2].ask(server)
    assert (reply.outcome, reply.detail) == ("content_filter", "filtered")
    assert len(server.asked) == 1


# --- many calls -------------------------------------------------------------------------------------------------------


def _work(client: ModelClient, calls: int, workers: int) -> list[Reply | Outage]:
    async def work() -> list[Reply | Outage]:
        numbers, found = iter(range(calls)), list[Reply | Outage]()

        async def worker() -> None:
            for number in numbers:
                try:
                    found.append(await client.complete(request(f"row {number}"), run=0))
                except Outage as outage:
                    found.append(outage)

        await asyncio.gather(*(worker() for _ in range(workers)))
        await client.aclose()
        return found

    return run(work())


def test_out3_thirty_percent_random_faults_lose_no_call_and_invent_no_verdict(either: Api, server: Server) -> None:
    rng = random.Random(7)
    spoilers: list[Callable[[Play], Play]] = [
        *(lambda _, s=s: answer({"error": "x"}, status=s) for s in RETRIED),
        *(SOCKETS[name] for name in SOCKETS if not name.startswith("half")),
    ]
    server.script = with_faults(either.script(), (lambda _: rng.random() < 0.3, lambda p: rng.choice(spoilers)(p)))
    found = _work(either.open(server, retrier=quick(concurrency=16)), 150, 16)
    replies = [r for r in found if isinstance(r, Reply)]
    assert len(replies) == 150
    assert {r.outcome for r in replies} <= {"ok", "unavailable"}
    assert sum(r.outcome == "ok" for r in replies) >= 147  # 0.3 ** 6 a call
    assert all(r.text == (GOOD if r.outcome == "ok" else "") for r in replies)
    assert len(server.asked) == sum(len(r.faults) + (r.outcome == "ok") for r in replies)


def test_an_outage_is_noticed_and_not_asked_on(either: Api, server: Server) -> None:
    """The no-progress guard: after some calls without any answer the rest are refused without a request."""
    server.script = lambda _: Play(status=503)
    found = _work(either.open(server, retrier=quick()), 60, 4)
    assert sum(isinstance(r, Outage) for r in found) >= 60 - OUTAGE_AFTER - 4
    assert len(server.asked) <= (OUTAGE_AFTER + 4) * RetryPolicy().attempts


def test_concurrency_halves_on_429_and_never_exceeds_the_maximum(server: Server) -> None:
    api = BOTH[0]
    slow = always(lambda p: spoil(p, before_s=0.01))(api.script())
    server.script = with_faults(slow, (lambda asked: asked.number in (55, 56), lambda _: Play(status=429)))
    retrier = quick(concurrency=8)
    found = _work(api.open(server, retrier=retrier), 60, 30)
    assert all(isinstance(r, Reply) and r.outcome == "ok" for r in found)
    assert server.most_at_once <= 8
    assert retrier.pacer.limit < 8


def test_a_client_serves_one_event_loop_after_another(either: Api, server: Server) -> None:
    """Each scoring node runs its own loop; warnings are errors here, so a leaked socket would fail this test."""
    server.script = either.script()
    client = either.open(server, retrier=quick())
    for _ in range(3):
        assert [r.outcome for r in _work(client, 4, 2) if isinstance(r, Reply)] == ["ok"] * 4


def test_a_cancelled_call_gives_its_place_back(server: Server) -> None:
    api = BOTH[0]
    server.script = always(lambda p: spoil(p, no_answer=True, ending="silence"))(api.script())

    async def work() -> None:
        client = api.open(server, retrier=quick(concurrency=1))
        for _ in range(3):
            task = asyncio.create_task(client.complete(request(), run=0))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        server.script = api.script()
        assert (await client.complete(request(), run=0)).outcome == "ok"
        await client.aclose()

    run(work())


# --- the machine around us --------------------------------------------------------------------------------------------


def test_loopback_gets_no_proxy_even_when_http_proxy_is_set(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(lambda _: Play(status=502)) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        server.script = api.script()
        assert api.ask(server).outcome == "ok"
        assert proxy.asked == []


def test_a_vendors_key_is_not_sent_to_another_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID"):
        monkeypatch.setenv(name, CANARY)
    server.script = openai_api.api(openai_api.Model())
    assert ask(f"openai:m@{server.url}/v1", env=os.environ).outcome == "ok"
    server.script = anthropic_api.api(anthropic_api.Model())
    assert ask(f"anthropic:m@{server.url}", env=os.environ).outcome == "ok"
    assert len(server.asked) == 2
    for asked in server.asked:
        assert CANARY not in str(asked)


def test_the_environment_cannot_move_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(lambda _: Play(status=500)) as elsewhere:
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "AZURE_OPENAI_ENDPOINT", "ANTHROPIC_BEDROCK_BASE_URL",
                     "ANTHROPIC_VERTEX_BASE_URL"):  # fmt: skip
            monkeypatch.setenv(name, elsewhere.url)
        for api in APIS:
            server.script = api.script()
            assert api.ask(server).outcome == "ok"
        assert elsewhere.asked == []


def test_redirects_are_not_followed(either: Api, server: Server) -> None:
    with Server(either.script()) as other:
        server.script = lambda asked: Play(status=307, headers={"location": other.url + asked.path})
        with pytest.raises(SettingsError, match="redirect"):
            either.ask(server)
        assert other.asked == []


def test_extra_headers_are_sent_and_only_their_names_are_recorded(either: Api, server: Server) -> None:
    server.script = either.script()

    async def work() -> str:
        client = open_client(
            either.spec.format(url=server.url),
            {**either.options, "headers": {"X-Team": "env:TEAM"}},
            {**either.env, "TEAM": "blue-secret-team"},
        )
        await client.complete(request(), run=0)
        await client.aclose()
        return json.dumps(dict(client.identity))

    identity = run(work())
    assert server.asked[0].headers["x-team"] == "blue-secret-team"
    assert "blue-secret-team" not in identity
    assert "X-Team" in identity


def test_sc3_a_server_that_echoes_the_key_everywhere_gets_it_into_nothing(
    either: Api, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The canary test: texts, model name, raw body, details, errors, identity, repr and logs."""
    caplog.set_level("DEBUG")
    spoken = json.dumps({"reasoning": f"your key is {CANARY}", "label": "good", "confidence": 1})
    plays: list[Play] = []
    model: Any = {"name": f"model-{CANARY}", "says": lambda _: spoken}
    good = openai_api.api(openai_api.Model(**model)) if either is BOTH[0] else anthropic_api.api(
        anthropic_api.Model(**model)
    )  # fmt: skip
    for status in (200, 400, 401, 402, 403, 404, 413, 429, 500):
        plays.append(
            answer({"error": {"message": f"{CANARY} {CANARY[:12]}…", "code": CANARY, "type": CANARY}}, status=status)
        )
    plays.append(Play(body=CANARY.encode()))
    seen: list[str] = []

    async def work() -> None:
        client = either.open(server, retrier=quick())
        server.script = good
        reply = await client.complete(request(), run=0)
        assert reply.outcome == "ok"
        assert "[secret]" in reply.text
        seen.append(repr(reply) + repr(client) + json.dumps(dict(client.identity)))
        for play in plays:
            server.script = lambda _, p=play: p
            try:
                seen.append(repr(await client.complete(request(), run=0)))
            except (SettingsError, Outage, RunError) as fault:
                seen.append(f"{fault!r} {fault} {fault.hint} {fault.__cause__!r}")
        server.script = good
        found = await settle(client, CONTRACT, request().settings)
        seen.append(repr(found) + json.dumps(dict(client.identity)))
        await client.aclose()

    run(work())
    everything = "\n".join([*seen, caplog.text])
    assert len(seen) == len(plays) + 2
    for part in (CANARY, CANARY[:12], CANARY[-8:]):
        assert part not in everything


def test_sc3_the_sdks_loggers_do_not_write_requests(
    either: Api, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server.script = either.script()
    assert either.ask(server, req=request("customer text nobody may log")).outcome == "ok"
    assert "customer text nobody may log" not in caplog.text


def test_out2_an_instrument_that_changes_under_the_fit_stops_the_run(either: Api, server: Server) -> None:
    """A parameter that was taken in the probe and is refused later: scores could not be compared."""

    async def work() -> None:
        client = either.open(server, retrier=quick())
        server.script = either.script()
        await settle(client, CONTRACT, request(temperature=0.0).settings)
        assert (await client.complete(request(temperature=0.0), run=0)).outcome == "ok"
        server.script = lambda _: openai_api.error(400, "temperature is not supported", param="temperature")
        with pytest.raises(RunError, match="the instrument changed"):
            await client.complete(request(temperature=0.0), run=0)
        # A refusal that names nothing is about that one request.
        server.script = lambda _: openai_api.error(400, "this request is odd")
        reply = await client.complete(request(temperature=0.0), run=0)
        assert (reply.outcome, reply.detail) == ("bad_envelope", "this request is odd")
        await client.aclose()

    run(work())


def test_every_request_is_recorded_by_the_stand_in(server: Server) -> None:
    """The stand-in itself: what it records is what was sent."""
    server.script = APIS[0].script()
    APIS[0].ask(server, req=request("hello there"))
    asked: Asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.json["messages"][1] == {"role": "user", "content": "hello there"}
    assert asked.headers["authorization"] == f"Bearer {CANARY}"
