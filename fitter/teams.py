"""From settings to the models and strategies of a fit, and the probe that settles their instruments (OUT-2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fitter.advisors import Desk, ModelChecker, ModelDescriber, ModelDrafter, ModelProposer
from fitter.calls.budget import check_budget, open_budget
from fitter.calls.journal import Journal
from fitter.calls.record import CallRecord, Role, call_key
from fitter.clients.base import ModelClient, ModelRequest, ModelSettings, Reply
from fitter.clients.instrument import Instrument
from fitter.clients.options import make_options
from fitter.clients.probe import Probe, settle
from fitter.clients.registry import open_client
from fitter.errors import SettingsError
from fitter.jsonio import digest, sha256
from fitter.loop.deps import Team
from fitter.records import VerdictContract
from fitter.settings import FitSettings

# Options of one call rather than of the client (fit.toml mixes both in one table).
_CALL = ("temperature", "max_output_tokens", "reasoning_effort", "timeout_s")


def split_options(options: Mapping[str, Any]) -> tuple[ModelSettings, dict[str, Any]]:
    """Per-call settings, and what the client takes.

    Raises:
        SettingsError: a value of the wrong type.
    """
    call = {k: v for k, v in options.items() if k in _CALL}
    kinds: dict[str, tuple[type, ...]] = {
        "temperature": (int, float), "max_output_tokens": (int,), "reasoning_effort": (str,), "timeout_s": (int, float),
    }  # fmt: skip
    for name, value in call.items():
        if isinstance(value, bool) or not isinstance(value, kinds[name]):
            raise SettingsError(f"the model option {name} has a value of the wrong type")
        if isinstance(value, int | float) and (value < 0 or (name != "temperature" and value == 0)):
            raise SettingsError(f"the model option {name} is {value}")
    return ModelSettings(**call), {k: v for k, v in options.items() if k not in _CALL}


def _capped(settings: ModelSettings, spec: str, *, advice: bool = False) -> ModelSettings:
    """A local model is always asked with a cap, so that a retry and a budget reckon with it."""
    if not spec.startswith("local:") or settings.max_output_tokens is not None:
        return settings
    from fitter.clients.local import ADVICE_CAP, DEFAULT_CAP

    return replace(settings, max_output_tokens=ADVICE_CAP if advice else DEFAULT_CAP)


def open_team(settings: FitSettings, journal: Path, run_id: str) -> Team:
    """Judge and strategies; makes no call.

    Raises:
        SettingsError: a spec, option or key that cannot work.
    """
    check_budget(settings)
    given, rest = split_options(settings.judge_options)
    model_settings = _capped(given, settings.judge or "")
    judge = open_client(settings.judge or "", make_options({"concurrency": settings.concurrency, **rest}))
    spec = settings.proposer or settings.judge
    if spec == "lexicon":
        from fitter.lexicon import LexiconChecker, LexiconDescriber, LexiconDrafter, LexiconProposer

        return Team(
            judge=judge,
            drafter=LexiconDrafter(),
            describer=LexiconDescriber(),
            proposer=LexiconProposer(),
            checker=LexiconChecker(),
            model_settings=model_settings,
            clients={"judge": judge},
        )
    same = spec == settings.judge and not settings.proposer_options
    advisor_settings, advisor_rest = (given, rest) if same else split_options(settings.proposer_options)
    if (spec or "").startswith("replay:"):
        raise SettingsError("--proposer cannot be replay: recorded passes hold no advice", hint="lexicon, or a model")
    advisor_settings = _capped(advisor_settings, spec or "", advice=True)
    advisors = judge if same else open_client(spec or "", make_options(advisor_rest))
    desk = Desk(
        client=advisors,
        settings=advisor_settings,
        journal=journal,
        run_id=run_id,
        budget=lambda book: open_budget(settings, book, run_id, "proposer"),
    )
    return Team(
        judge=judge,
        drafter=ModelDrafter(desk),
        describer=ModelDescriber(desk),
        proposer=ModelProposer(desk),
        checker=ModelChecker(desk),
        model_settings=model_settings,
        clients={"judge": judge} if same else {"judge": judge, "advisors": advisors},
        client_settings={"advisors": advisor_settings},
    )


def settle_team(team: Team, contract: VerdictContract, journal: Path, run_id: str) -> dict[str, Any]:
    """Probes every client of a team once; journals the calls and returns the record (``instrument.json``).

    Raises:
        SettingsError: a provider refuses the request whatever is left out.
        Outage: a model does not answer.
    """
    record: dict[str, Any] = {}
    for name, client in team.clients.items():
        found = asyncio.run(_settle(client, contract, team.client_settings.get(name, team.model_settings)))
        role: Role = "judge" if name == "judge" else "proposer"
        with Journal(journal) as book:
            for request, reply in found.calls:
                book.append_now(_record(client, request, reply, run_id, role))
        record[name] = {
            "spec": client.spec,
            "instrument": None if found.instrument is None else found.instrument.to_json(),
            "refused": [[feature, words] for feature, words in found.refusals],
        }
    return {"clients": record}


async def _settle(client: ModelClient, contract: VerdictContract, settings: ModelSettings) -> Probe:
    try:
        return await settle(client, contract, settings)
    finally:
        await client.aclose()


def adopt_instruments(team: Team, record: Mapping[str, Any]) -> None:
    """Gives clients the instruments of an earlier probe, so that a resumed run measures with the same."""
    for name, client in team.clients.items():
        given = record["clients"].get(name, {}).get("instrument")
        adopt = getattr(client, "adopt", None)
        if given is not None and adopt is not None:
            adopt(Instrument.from_json(given))


def _record(client: ModelClient, request: ModelRequest, reply: Reply, run_id: str, role: Role) -> CallRecord:
    request_hash, instrument = sha256(request.to_bytes()), digest(client.identity)
    return CallRecord.of(
        reply,
        key=call_key(
            run_id=run_id,
            request_hash=request_hash,
            instrument=instrument,
            parser_version="probe",
            row="",
            run=0,
            attempt=1,
        ),
        run_id=run_id,
        phase="probe",
        role=role,
        spec=client.spec,
        instrument=instrument,
        request_hash=request_hash,
        at=time.time(),
    )
