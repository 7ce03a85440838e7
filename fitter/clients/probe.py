"""The instrument probe before v0: the provider's refusals are met once, here, and never in a measured pass (OUT-2).

A ladder, not a table of model names: the probe sends what the fit will send, and steps down exactly where a 400 names
what it refuses. What was settled is part of the client's identity, and so of every pass's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fitter.clients.base import Message, ModelClient, ModelRequest, ModelSettings, Reply
from fitter.clients.instrument import Instrument, step_down
from fitter.clients.local import DEFAULT_CAP, LocalClient
from fitter.clients.remote import Refused, RemoteClient
from fitter.errors import Outage, SettingsError
from fitter.jsonio import JSONFault, canonical, strict_loads
from fitter.records import VerdictContract

_MOST_STEPS = 12


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a probe found.

    Attributes:
        instrument: settled; None for a client that has nothing to settle (lexicon, replay).
        calls: the calls that were answered, for journal and ledger: they cost money too.
        refusals: what the provider refused on the way, in order, as (feature, its words).
    """

    instrument: Instrument | None
    calls: tuple[tuple[ModelRequest, Reply], ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()


def probe_request(contract: VerdictContract, settings: ModelSettings) -> ModelRequest:
    """A harmless interaction to grade, in the contract's form; it holds nothing of the queue."""
    form = canonical({name: f"<{name}>" for name in contract.schema.get("properties", {})})
    return ModelRequest(
        messages=(
            Message(
                role="system",
                text="This is a check of the connection, before any grading. Answer with one JSON object in this form, "
                f"nothing around it: {form}",
            ),
            Message(
                role="user", text='Grade the reply "Hello, how can I help?" in any way that fits the form. JSON only.'
            ),
        ),
        schema=contract.schema,
        schema_name="verdict",
        settings=settings,
    )


def _follows(text: str, schema: Mapping[str, Any]) -> bool:
    try:
        value = strict_loads(text)
    except JSONFault:
        return False
    return isinstance(value, dict) and set(value) == set(schema.get("properties", {}))


async def settle(client: ModelClient, contract: VerdictContract, settings: ModelSettings) -> Probe:
    """Settles the instrument and hands it to the client.

    Args:
        client: any client; one without parameters to settle is left alone.
        contract: the verdict's contract: providers judge the very schema that the fit will send.
        settings: the settings of the fit.

    Raises:
        SettingsError: the provider refuses the request whatever is left out, or the cause is the user's to mend.
        Outage: the model does not answer.
    """
    inner = await client.remote() if isinstance(client, LocalClient) else client
    if not isinstance(inner, RemoteClient):
        return Probe(instrument=None)
    if isinstance(client, LocalClient) and settings.max_output_tokens is None:
        settings = replace(settings, max_output_tokens=DEFAULT_CAP)
    request = probe_request(contract, settings)
    current = inner.guess(request)
    refusals: list[tuple[str, str]] = []
    for _ in range(_MOST_STEPS):
        try:
            reply = await inner.call(request, current, run=0)
        except Refused as refused:
            # A request refused without naming anything: a server that does not know the schema mode may say only that.
            feature = refused.feature or "schema"
            below = step_down(current, feature, inner.wire.quirks, fixed_mode=inner.options.schema_mode is not None)
            if below is None:
                raise SettingsError(
                    f"{inner.spec} does not take the probe's request: {refused.message}",
                    hint="check the model's name and the options in fit.toml; docs/models.md lists them",
                ) from None
            refusals.append((feature, refused.message))
            current = below
            continue
        if reply.outcome == "unavailable":
            raise Outage(
                f"{inner.spec} does not answer: {reply.detail}",
                hint="is the server up and the URL right? Nothing was measured; run the same command again",
            )
        settled = replace(
            current,
            model_returned=reply.model,
            answered=reply.outcome,
            form_followed=_follows(reply.text, request.schema) if reply.outcome == "ok" else None,
        )
        (client if isinstance(client, LocalClient) else inner).adopt(settled)
        return Probe(instrument=settled, calls=((request, reply),), refusals=tuple(refusals))
    raise SettingsError(f"{inner.spec} kept refusing the probe: {refusals[-1][1]}")


def accepted_names(client: ModelClient) -> tuple[str, ...]:
    """Model names that may answer for the asked one (OUT-2): ``accepted_models`` and the name seen in the probe."""
    names = list(client.identity.get("accepted_models", ()))
    instrument = client.identity.get("instrument")
    if isinstance(instrument, Mapping) and isinstance(instrument.get("model_returned"), str):
        names.append(instrument["model_returned"])
    return tuple(dict.fromkeys(names))
