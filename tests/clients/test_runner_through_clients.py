"""The pass runner over real SDKs and over a recording: what a fit does with a client."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from fitter.calls.journal import Journal
from fitter.clients.base import ModelClient, ModelSettings
from fitter.clients.probe import accepted_names, settle
from fitter.clients.registry import open_client
from fitter.errors import Outage, SettingsError
from fitter.jsonio import jsonl
from fitter.judge.passes import PassResult, measure
from tests.clients.helpers import CANARY, quick
from tests.judge.passes_kit import a_prompt, items_for
from tests.servers import anthropic_api, openai_api
from tests.servers.loopback import Asked, Play, Server, answer, with_faults

PROMPT = a_prompt()


def judge(client: ModelClient, folder: Path, *, rows: int = 12, runs: int = 3) -> PassResult:
    async def probe() -> None:
        await settle(client, PROMPT.contract, ModelSettings())
        await client.aclose()

    if client.identity.get("instrument", "") is None:
        asyncio.run(probe())
    with Journal(folder / "calls.sqlite") as journal:
        return measure(
            client=client,
            prompt=PROMPT,
            items=items_for(PROMPT, rows),
            runs=runs,
            settings=ModelSettings(),
            journal=journal,
            run_id="fit-1",
            phase="v0",
            concurrency=6,
            accepted_models=accepted_names(client),
        )


def test_a_phase_through_both_sdks_with_faults_is_paid_once_and_resumed_for_nothing(tmp_path: Path) -> None:
    """LO-7 through the real SDKs: faults are retried, the second run of the phase makes no request at all."""
    rng = random.Random(3)
    for name, script in (
        ("openai", openai_api.api(openai_api.Model())),
        ("anthropic", anthropic_api.api(anthropic_api.Model())),
    ):
        folder = tmp_path / name
        folder.mkdir()
        flaky = with_faults(script, (lambda _: rng.random() < 0.2, lambda _: answer({"error": "x"}, status=503)))
        with Server(flaky) as server:
            spec = f"openai:m@{server.url}/v1" if name == "openai" else f"anthropic:m@{server.url}"
            first = judge(open_client(spec, {}, {}, retrier=quick()), folder)
            assert len(first.passes) == 36
            assert all(p.label == "good" for p in first.passes)
            requests = len(server.asked)
            again = judge(open_client(spec, {}, {}, retrier=quick()), folder)
            assert again.passes == first.passes
            assert again.made == 0
            # Only the second client's probe asked anything, and what the faults made it repeat.
            assert sum("check of the connection" not in asked.body.decode() for asked in server.asked[requests:]) == 0


def test_out2_a_model_that_is_exchanged_under_the_fit_gives_no_votes(tmp_path: Path) -> None:
    model = openai_api.Model(name="served-name")
    with Server(openai_api.api(model)) as server:
        client = open_client(f"openai:asked-name@{server.url}/v1", {}, {}, retrier=quick())

        async def probe() -> None:
            await settle(client, PROMPT.contract, ModelSettings())
            await client.aclose()

        asyncio.run(probe())
        assert all(p.label == "good" for p in judge(client, tmp_path).passes)
        model.name = "another-name"
        (tmp_path / "b").mkdir()
        assert {p.unusable for p in judge(client, tmp_path / "b").passes} == {"wrong_model"}


def test_out3_rows_left_short_pause_the_run_and_resume_asks_only_for_them(tmp_path: Path) -> None:
    good = openai_api.api(openai_api.Model())
    broken = [True]

    with Server(good) as server:
        client = open_client(f"openai:m@{server.url}/v1", {}, {}, retrier=quick())
        theirs = items_for(PROMPT, 12)[3].user_text

        def by_text(asked: Asked) -> Play:
            said = asked.json["messages"][-1]["content"]
            return Play(status=503) if broken[0] and said == theirs else good(asked)

        server.script = by_text
        with pytest.raises(Outage):
            judge(client, tmp_path)
        broken[0] = False
        before = len(server.asked)
        whole = judge(client, tmp_path)
        assert len(whole.passes) == 36
        assert all(p.label == "good" for p in whole.passes)
        assert len(server.asked) - before == 3  # the one row's three passes


def test_a_bad_key_in_the_middle_stops_the_phase_with_its_cause(tmp_path: Path) -> None:
    good = openai_api.api(openai_api.Model())
    with Server(good) as server:
        server.script = with_faults(
            good, (lambda asked: asked.number >= 9, lambda _: openai_api.error(401, f"key {CANARY} was revoked"))
        )
        options, env = {"key_env": "K"}, {"K": CANARY}
        with pytest.raises(SettingsError, match="was revoked") as caught:
            judge(open_client(f"openai:m@{server.url}/v1", options, env, retrier=quick()), tmp_path)
        assert CANARY not in str(caught.value)
    for file in tmp_path.iterdir():
        assert CANARY.encode() not in file.read_bytes()


def test_a_recording_is_replayed_by_row_whatever_the_order(tmp_path: Path) -> None:
    rows = [item.row for item in items_for(PROMPT, 12)]
    truth = {row: ("good", "bad")[n % 2] for n, row in enumerate(rows)}
    records = [{"row": row, "run": run, "label": truth[row], "confidence": 50} for row in rows for run in range(3)]
    random.Random(1).shuffle(records)
    (tmp_path / "passes.jsonl").write_text(jsonl(records))
    found = judge(open_client(f"replay:{tmp_path / 'passes.jsonl'}"), tmp_path)
    assert {(p.row, p.label) for p in found.passes} == set(truth.items())
    assert len(found.passes) == 36
