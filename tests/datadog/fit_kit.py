"""Whole fits of a Datadog queue through the command line: the platform and the judge's vendor are loopback servers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.cli_kit import Ended, cli, interactions
from tests.servers import openai_api
from tests.servers.analyst import PROBE, Heard, says
from tests.servers.datadog import StandIn
from tests.servers.loopback import Server

QUEUE = 'datadog:"Nightly review"'
NAME, APP, MODEL = "reply_quality", "support", "gpt-5.4-mini"
RUN = f"{NAME}-001"
PAGE = "https://app.datadoghq.com/llm/evaluations"
VENDOR_KEY = "sk-canary-5b1f0e77c2d94a60-deadbeef"
QUALITY = {
    "id": "k1aa",
    "name": "quality",
    "type": "categorical",
    "values": ["bad", "good"],
    "has_reasoning": True,
    "description": "Does the reply help?",
}


def nightly(server: StandIn, rows: int = 48, *, other_app: int = 0) -> str:
    """A queue of labelled traces that a judge can tell apart, most of the time, and an organisation that can run it.

    Args:
        server: whose world is filled.
        rows: labelled rows.
        other_app: how many of them belong to another app, which an evaluator of ours would never see.
    """
    world = server.world
    queue = world.queue("Nightly review", [QUALITY])
    for n, row in enumerate(interactions(rows)):
        app = "another" if n < other_app else APP
        io = {"input": {"value": row["input"]}, "output": {"value": row["output"]}}
        world.span(row["id"], f"{row['id']}-1", name="turn", kind="workflow", ml_app=app, **io)
        world.span(row["id"], f"{row['id']}-2", parent=f"{row['id']}-1", name="draft", offset_ms=1, ml_app=app, **io)
        world.interaction(queue, row["id"], [{"by": "ann", "values": {"k1aa": ([row["label"]], row["reason"])}}])
    world.interaction(queue, "t-000", [], key="pending-1")
    world.account("openai", MODEL)
    return queue


def answers(body: Mapping[str, Any]) -> str:
    """The analyst, which also knows the probe in the platform's own field names."""
    heard = Heard(body)
    if heard.system.startswith(PROBE):
        return json.dumps({"reasoning": "It greets.", "categorical_eval": "good"})
    return says(body)


@contextmanager
def vendor() -> Iterator[Server]:
    """The judge's vendor."""
    with Server(openai_api.api(openai_api.Model(says=answers, key=VENDOR_KEY))) as server:
        yield server


def env(stand_in: StandIn, **more: str) -> dict[str, str]:
    """What a user would have exported."""
    return stand_in.env(FITTER_TEST_KEY=VENDOR_KEY, DD_LLMOBS_MCP_CALLS="0", **more)


TOML = """
[judge_options]
key_env = "FITTER_TEST_KEY"
api = "responses"
temperature = 0
"""


def fit(
    workspace: Path, stand_in: StandIn, model: Server, *more: object, toml: str = "", env_: Any = None, **changes: Any
) -> Ended:
    """``fitter fit datadog:"Nightly review" ... --publish-to datadog --yes``."""
    workspace.parent.mkdir(parents=True, exist_ok=True)
    config = workspace.parent / f"{workspace.name}.toml"
    config.write_text(TOML + toml, encoding="utf-8")
    given: dict[str, Any] = {
        "goal": "Catch replies that help nobody",
        "costly": "same",
        "framing": "grader",
        "metric": "balanced_accuracy",
        "judge": f"openai:{MODEL}@{model.url}/v1",
        "proposer": "lexicon",
        "name": NAME,
        "app": APP,
        "scope": "trace",
        "publish-to": "datadog",
        "backend": "rest",
        "max-iterations": "1",
        "runs": "1",
        "queue": QUEUE,
        "config": str(config),
        **{k.replace("_", "-"): v for k, v in changes.items()},
    }
    queue = given.pop("queue")
    flags = [f"--{k}={v}" for k, v in given.items() if v is not None]
    return cli("--workspace", workspace, "fit", queue, *flags, "--yes", *more, env=env_ or env(stand_in))


def read(workspace: Path, *parts: str) -> Any:
    """A JSON file of the workspace."""
    return json.loads(workspace.joinpath(*parts).read_bytes())


def receipt(workspace: Path) -> Any:
    """The receipt of the one run."""
    return read(workspace, "publish", "datadog", NAME, RUN, "receipt.json")


def decided(workspace: Path) -> dict[str, bytes]:
    """What a fit decided and measured, byte for byte."""
    folder = workspace / "runs" / RUN
    wanted = ("decisions", "cards", "prompts", "census", "labels", "passes", "renders")
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for d in wanted for p in sorted((folder / d).glob("*"))}
    whole = ("result.json", "stop.json", "holdout.json", "config_hash", "split.json")
    return found | {n: (folder / n).read_bytes() for n in whole if (folder / n).is_file()}
