"""A model behind HTTP, called through its vendor's SDK: the part that all vendors share.

The SDK signs, addresses and sends; its retries are off. Bodies are read below it, bounded (body.py), failures are
judged by one table (faults.py), envelopes by one reader per format (envelope.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from fitter.clients.base import ModelRequest, Reply
from fitter.clients.body import RAW_CAP, Exchange, read_bounded
from fitter.clients.envelope import Envelope
from fitter.clients.faults import Fault, Feature, embedded_fault, read_fault
from fitter.clients.instrument import Instrument, first_guess
from fitter.clients.options import ClientOptions, Spec
from fitter.clients.pacing import Pacer
from fitter.clients.quirks import fit_schema
from fitter.clients.retry import Broken, Outcome, Retrier, RetryPolicy
from fitter.clients.secrets import Redactor
from fitter.clients.wires import Wire, sent_features
from fitter.errors import Outage, RunError, SettingsError

# So many calls in a row that ended unavailable, each after its own retries, are an outage: asking on is pointless.
OUTAGE_AFTER = 10
_CONNECTIONS = 16

_answer: contextvars.ContextVar[list[Exchange]] = contextvars.ContextVar("fitter_http_answer")
_LOGGERS = ("openai", "anthropic", "httpx2", "httpcore2", "httpx", "httpcore")


class Refused(Exception):
    """The provider refuses a named parameter, or (feature None) the request as such. Internal to clients/.

    Args:
        feature: what it names.
        message: its words, redacted.
    """

    def __init__(self, feature: Feature | None, message: str) -> None:
        super().__init__(message)
        self.feature = feature
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """What the shared part needs of a vendor's SDK.

    Attributes:
        open: builds the async client around a fresh HTTP client.
        timeout, connection, base: its exception classes, narrow to wide.
        signs: requests are signed with credentials found at call time (AWS, Google), which can fail outside the SDK's
            own exceptions.
    """

    open: Callable[[], Any]
    timeout: type[Exception]
    connection: type[Exception]
    base: type[Exception]
    signs: bool = False


async def stop_on_error(response: Any) -> None:
    """Response hook of the HTTP client: reads the body of a status of 300 and above, bounded, before the SDK does.

    The SDK would read it whole, however large, and would follow what it says.
    """
    if response.status_code < 300:
        return
    _answer.get().append(await read_bounded(response.status_code, response.headers, response.aiter_raw()))
    raise _Answered


class _Answered(Exception):
    """The error body has been read; it waits in the call's context."""


def clean(text: str) -> str:
    """Lone surrogates replaced: they cannot be stored or sent on as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class RemoteClient:
    """One model behind HTTP; implements ``ModelClient``.

    A client may be used from several event loops one after another (each scoring node runs its own): connections are
    opened per loop. End each loop's use with :meth:`aclose`; the client can be used again afterwards.
    """

    def __init__(
        self,
        *,
        spec: Spec,
        wire: Wire,
        options: ClientOptions,
        redactor: Redactor,
        load_sdk: Callable[[], Sdk],
        where: str,
        retrier: Retrier | None = None,
    ) -> None:
        self._spec = spec
        self.wire = wire
        self.options = options
        self.redactor = redactor
        self._load_sdk = load_sdk
        self._where = where
        self._sdk: Sdk | None = None
        self._live: tuple[asyncio.AbstractEventLoop, list[Any]] | None = None
        self._turn = itertools.count()
        self._instrument: Instrument | None = None
        self._unavailable = 0
        policy = RetryPolicy(
            attempts=options.attempts, patience_s=options.patience_s, longest_wait_s=options.longest_wait_s
        )
        self._retrier = retrier or Retrier(policy, Pacer(options.concurrency))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._spec.text}>"

    @property
    def spec(self) -> str:
        """The user's spec."""
        return self._spec.text

    @property
    def model(self) -> str:
        """The model name asked for."""
        return self._spec.model

    @property
    def pacer(self) -> Pacer:
        """The limiter; its ``limit`` is how many calls are worth having in flight now."""
        return self._retrier.pacer

    @property
    def instrument(self) -> Instrument | None:
        """What the probe settled; None before it."""
        return self._instrument

    @property
    def identity(self) -> Mapping[str, Any]:
        """Spec, API dialect, server, model names that count, and the settled instrument."""
        return {
            "spec": self._spec.text,
            "api": self.wire.name,
            "server": self._where,
            "model": self._spec.model,
            "accepted_models": sorted(self.options.accepted_models),
            "headers": sorted(self.options.headers),
            "default_output_cap": self.wire.quirks.token_default,
            "instrument": None if self._instrument is None else self._instrument.to_json(),
        }

    def adopt(self, instrument: Instrument) -> None:
        """Uses an instrument: the probe's, or on resume the recorded one."""
        self._instrument = instrument

    def guess(self, request: ModelRequest) -> Instrument:
        """The top of every ladder for a request, before anything was refused."""
        quirks = self.wire.quirks
        mode = self.options.schema_mode
        left_out = fit_schema(request.schema, quirks)[1] if (mode or quirks.modes[0]) == "json_schema" else ()
        return first_guess(
            quirks,
            temperature=request.settings.temperature is not None,
            effort=request.settings.reasoning_effort is not None,
            schema_mode=mode,
            left_out=left_out,
        )

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        """Makes one call; see ``ModelClient``.

        Raises:
            SettingsError: bad key, unknown model, a request the provider does not take.
            Outage: no quota left, or the model has not answered many calls in a row.
            RunError: the provider now refuses what it took in the probe (OUT-2).
        """
        try:
            return await self.call(request, self._instrument or self.guess(request), run=run)
        except Refused as refused:
            if self._instrument is None:
                raise SettingsError(
                    f"{self.spec} does not take this request: {refused.message}",
                    hint="the probe before a fit settles which parameters a model takes",
                ) from None
            if refused.feature is not None:
                raise RunError(
                    f"the instrument changed: {self.spec} now refuses the {refused.feature} parameter it took in the "
                    f"probe: {refused.message}",
                    hint="scores before and after cannot be compared; start a new fit",
                ) from None
            # The instrument works; this one request does not: a row of its own, counted under its own reason.
            return Reply(outcome="bad_envelope", detail=refused.message)

    async def call(self, request: ModelRequest, instrument: Instrument, *, run: int) -> Reply:
        """Makes one call with a given instrument; only the probe and :meth:`complete` use it.

        Raises:
            Refused: the provider refuses a parameter or the request.
            SettingsError, Outage: as :meth:`complete`.
        """
        if self._unavailable >= OUTAGE_AFTER:
            raise Outage(
                f"{self.spec} has not answered {self._unavailable} calls in a row, each tried several times",
                hint="when it is back, `fitter resume` goes on where this stopped",
            )
        if self._sdk is None:
            self._client()  # the SDK's import is no part of a call's latency
        started = time.perf_counter()
        params = self.wire.build(self._spec.model, request, instrument, self.wire.quirks, run)
        sent = sent_features(params)
        envelopes: list[Envelope] = []

        def judge(exchange: Exchange) -> Fault | None:
            if exchange.status >= 300:
                return read_fault(exchange, sent)
            if exchange.problem is not None:
                envelopes.append(Envelope(outcome="bad_envelope", detail=f"the answer is {exchange.problem}"))
                return None
            envelope = self.wire.read(exchange.body)
            if envelope.error is not None:
                fault = embedded_fault(envelope.error, sent)
                if fault.action != "bad_request":
                    return fault
            envelopes.append(envelope)
            return None

        async def attempt(seconds: float) -> Exchange:
            return await self._once(params, seconds)

        outcome = await self._retrier.run(attempt, judge, timeout_s=request.settings.timeout_s)
        latency = time.perf_counter() - started
        if outcome.gave_up is not None:
            self._unavailable += 1
            return self._unanswered(outcome, latency)
        self._unavailable = 0
        if outcome.fault is not None:
            return self._failed(outcome, outcome.fault, latency)
        return self._reply(envelopes[-1], outcome, latency)

    def _reply(self, envelope: Envelope, outcome: Outcome, latency: float) -> Reply:
        exact = self.redactor.exact
        return Reply(
            outcome=envelope.outcome,
            text=exact(clean(envelope.text)),
            model=None if envelope.model is None else exact(clean(envelope.model)),
            usage=envelope.usage,
            raw=self._raw(outcome),
            detail=self.redactor.detail(clean(envelope.detail)),
            latency_s=latency,
            faults=outcome.faults,
        )

    def _raw(self, outcome: Outcome) -> bytes:
        return b"" if outcome.exchange is None else self.redactor.raw(outcome.exchange.body)[:RAW_CAP]

    def _words(self, message: str) -> str:
        return self.redactor.detail(clean(message)) or "(no message)"

    def _unanswered(self, outcome: Outcome, latency: float) -> Reply:
        detail = outcome.gave_up or ""
        if outcome.fault is not None and outcome.fault.message:
            detail += f": {outcome.fault.message}"
        return Reply(
            outcome="unavailable",
            raw=self._raw(outcome),
            detail=self.redactor.detail(clean(detail)),
            latency_s=latency,
            faults=outcome.faults,
        )

    def _failed(self, outcome: Outcome, fault: Fault, latency: float) -> Reply:
        words = self._words(fault.message)
        if fault.action == "outcome" and fault.outcome is not None:
            return Reply(
                outcome=fault.outcome,
                raw=self._raw(outcome),
                detail=words,
                latency_s=latency,
                faults=outcome.faults,
            )
        if fault.action in ("parameter", "bad_request"):
            raise Refused(fault.feature, words)
        said = f"{self.spec}: HTTP {fault.label}: {words}"
        if fault.action == "outage":
            raise Outage(said, hint=fault.hint)
        raise SettingsError(said, hint=fault.hint)

    async def _once(self, params: Mapping[str, Any], seconds: float) -> Exchange:
        """One HTTP request through the SDK."""
        client, sdk = self._client()
        answers: list[Exchange] = []
        token = _answer.set(answers)
        create = attrgetter(self.wire.method)(client).with_streaming_response.create
        try:
            async with create(**self.wire.arguments(params), timeout=seconds) as response:
                try:
                    return await read_bounded(
                        response.status_code, response.headers, response.http_response.aiter_raw()
                    )
                except Exception as fault:
                    raise self._broken(fault) from None
        except Broken:
            raise
        except (_Answered, sdk.base) as fault:
            if answers:
                return answers[0]
            if isinstance(fault, sdk.timeout | sdk.connection):
                raise self._broken(fault) from None
            raise SettingsError(f"{self.spec}: {self._words(str(fault))}") from None
        except Exception as fault:
            if answers:
                return answers[0]
            if sdk.signs:
                raise SettingsError(
                    f"{self.spec}: the request could not be signed: {self._words(str(fault))}",
                    hint="check the cloud credentials of this machine",
                ) from None
            raise
        finally:
            _answer.reset(token)

    def _broken(self, fault: Exception) -> Broken:
        root = fault.__cause__ or fault
        names = {type(fault).__name__, type(root).__name__}
        silent = isinstance(fault, TimeoutError) or any(name.endswith(("Timeout", "TimeoutError")) for name in names)
        words = self.redactor.detail(str(root), 160)
        message = f"{type(root).__name__}: {words}" if words else type(root).__name__
        return Broken("timeout" if silent else "connection", message)

    def _client(self) -> tuple[Any, Sdk]:
        if self._sdk is None:
            self._sdk = self._load_sdk()
            for name in _LOGGERS:  # at DEBUG they write requests, and with them customer text, to the log
                logging.getLogger(name).setLevel(logging.WARNING)
        loop = asyncio.get_running_loop()
        if self._live is None or self._live[0] is not loop:
            self._live = (loop, [self._sdk.open() for _ in range(self._pools)])
        clients = self._live[1]
        return clients[next(self._turn) % len(clients)], self._sdk

    @property
    def _pools(self) -> int:
        """HTTP clients side by side: a connection pool looks at all its connections for every request."""
        return min(8, 1 + (self.options.concurrency - 1) // _CONNECTIONS)

    async def aclose(self) -> None:
        """Closes the connections of the running loop; a later call opens new ones."""
        self._unavailable = 0
        live, self._live = self._live, None
        if live is not None and live[0] is asyncio.get_running_loop():
            for client in live[1]:
                with contextlib.suppress(OSError, RuntimeError):
                    await client.close()
