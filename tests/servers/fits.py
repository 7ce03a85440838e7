"""Whole fits over loopback: settings, and what must hold of every artefact they leave."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from fitter import fitting, settings
from tests.servers import anthropic_api, openai_api
from tests.servers.analyst import says
from tests.servers.loopback import Asked, Play, Server

CANARY = "sk-canary-7d0c1b6ea94f4f55-deadbeef"
Vendor = Literal["openai", "chat", "anthropic"]

PRACTICE: Mapping[str, Any] = {
    "queue": "practice",
    "goal": "Catch replies that break the support policy",
    "costly": "same",
    "label": "policy_verdict",
    "framing": "grader",
    "metric": "balanced_accuracy",
    "name": "support_policy",
    "app": "support-assistant",
    "scope": "trace",
    "publish_to": "local",
    "max_iterations": 2,
}
RUN = "support_policy-001"

KEYS = {"openai": "OPENAI_API_KEY", "chat": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


def script(vendor: Vendor, *, answers: Callable[[Mapping[str, Any]], str] = says) -> Callable[[Asked], Play]:
    """The vendor's API with the analyst behind it; it wants the canary for a key."""
    if vendor == "anthropic":
        return anthropic_api.api(anthropic_api.Model(says=answers, key=CANARY))
    return openai_api.api(openai_api.Model(says=answers, key=CANARY))


def model(vendor: Vendor, server: Server) -> dict[str, Any]:
    """Spec and options of a model on a stand-in, for ``judge`` and ``judge_options``."""
    options: dict[str, Any] = {"key_env": "FITTER_TEST_KEY", "api": "responses" if vendor == "openai" else "chat"}
    if vendor == "anthropic":
        return {"spec": f"anthropic:claude-sonnet-5@{server.url}", "options": {"key_env": "FITTER_TEST_KEY"}}
    return {"spec": f"openai:gpt-5.4-mini@{server.url}/v1", "options": options}


def given(judge: Mapping[str, Any], advisors: Mapping[str, Any] | None = None, **more: Any) -> settings.FitSettings:
    """Settings of a fit of the practice queue."""
    values: dict[str, Any] = {**PRACTICE, "judge": judge["spec"], "judge_options": judge["options"], **more}
    if advisors is not None:
        values |= {"proposer": advisors["spec"], "proposer_options": advisors["options"]}
    return settings.make(**values)


def finish(workspace: Path, given_: settings.FitSettings, run: str = RUN) -> fitting.Outcome:
    """Starts the fit, or resumes it once it has a folder."""
    fitter = fitting.Fitting(workspace)
    if (workspace / "runs" / run / fitting.GIVEN).is_file():
        return fitter.resume(run)
    return fitter.start(fitter.complete(given_))


def files(workspace: Path) -> dict[str, bytes]:
    """Every file of a workspace."""
    return {p.relative_to(workspace).as_posix(): p.read_bytes() for p in sorted(workspace.rglob("*")) if p.is_file()}


def decisions(workspace: Path, run: str = RUN) -> dict[str, Any]:
    """What a fit decided, read from its folder."""
    folder = workspace / "runs" / run
    found = {p.name: json.loads(p.read_bytes()) for p in sorted((folder / "decisions").glob("*.json"))}
    found |= {p.name: json.loads((folder / p.name).read_bytes()) for p in map(Path, ("result.json", "stop.json"))}
    cards = {f"card {p.name}": json.loads(p.read_bytes()) for p in sorted((folder / "cards").glob("*.json"))}
    return {**found, **cards}


def no_key_in(workspace: Path) -> None:
    """SC-3: the canary key, whole or in part, is in no file, not even inside the journal's pages."""
    for name, data in files(workspace).items():
        assert CANARY.encode() not in data, name
        assert CANARY[10:26].encode() not in data, name
    with sqlite3.connect(workspace / "runs" / "calls.sqlite") as db:
        for row in db.execute("SELECT * FROM calls"):
            assert CANARY not in repr(row)


def calls(workspace: Path) -> list[tuple[str, str, str]]:
    """(role, phase, outcome) of every call on record."""
    with sqlite3.connect(workspace / "runs" / "calls.sqlite") as db:
        return list(db.execute("SELECT role, phase, outcome FROM calls"))


def serving(*scripts: Callable[[Asked], Play]) -> tuple[ExitStack, list[Server]]:
    """Several servers at once; close the stack."""
    stack = ExitStack()
    return stack, [stack.enter_context(Server(one)) for one in scripts]
