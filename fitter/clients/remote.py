"""A model behind HTTP, called through its vendor's SDK: the part that all vendors share.

Requests go out and bodies come in through transport.py; failures are judged by one table (faults.py), envelopes by one
reader per format (envelope.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from fitter.clients.base import ModelRequest, Reply
from fitter.clients.body import RAW_CAP, Exchange
from fitter.clients.envelope import Envelope
from fitter.clients.faults import Fault, Feature, embedded_fault, read_fault
from fitter.clients.instrument import Instrument, first_guess
from fitter.clients.options import ClientOptions, Spec
from fitter.clients.pacing import Pacer
from fitter.clients.quirks import fit_schema
from fitter.clients.retry import Outcome, Retrier, RetryPolicy
from fitter.clients.secrets import Redactor, clean
from fitter.clients.transport import Sdk, Transport
from fitter.clients.wires import Wire, sent_features
from fitter.errors import Outage, RunError, SettingsError

# So many calls in a row that ended unavailable, each after its own retries, are an outage: asking on is pointless.
OUTAGE_AFTER = 10


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
        self._where = where
        self._transport = Transport(load_sdk, redactor, spec.text)
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
        self._transport.ready()  # the SDK's import is no part of a call's latency
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
            return await self._transport.post(self.wire.path, params, seconds)

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
        words = self.redactor.words(fault.message)
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

    async def aclose(self) -> None:
        """Closes the connections of the running loop; a later call opens new ones."""
        self._unavailable = 0
        await self._transport.aclose()
