"""The probe's ladders, the quirk table, the recorded instrument: settled once, before v0 (OUT-2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.clients.base import ModelSettings
from fitter.clients.instrument import Instrument, changed
from fitter.clients.probe import Probe, accepted_names, settle
from fitter.clients.quirks import QUIRKS, fit_schema
from fitter.clients.registry import open_client
from fitter.errors import Outage, SettingsError
from tests.clients.helpers import CONTRACT, SCHEMA, probe, quick, request, run
from tests.servers import anthropic_api, openai_api
from tests.servers.loopback import Play, Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(lambda _: Play(status=500)) as running:
        yield running


def at_openai(server: Server, options: Mapping[str, Any] | None = None, **settings: Any) -> Probe:
    return probe(f"openai:m@{server.url}/v1", options=options, **settings)


def settled(found: Probe) -> Instrument:
    assert found.instrument is not None
    return found.instrument


def test_a_provider_that_takes_everything(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model())
    found = at_openai(server, temperature=0.0, max_output_tokens=200, reasoning_effort="low")
    assert settled(found) == Instrument(
        schema_mode="json_schema",
        token_parameter="max_tokens",
        temperature="sent",
        effort="sent",
        model_returned="gpt-5.4-mini-2026-03-01",
        answered="ok",
        form_followed=True,
    )
    assert found.refusals == ()
    assert len(found.calls) == 1
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("refuses", "mode", "requests"),
    [
        ({}, "json_schema", 1),
        ({"json_schema": "response_format type json_schema is unavailable"}, "json_object", 2),
        ({"json_schema": "no", "json_object": "'response_format' is not supported"}, "text", 3),
    ],
)
def test_schema_ladder_is_visible_and_remembered(
    server: Server, refuses: Mapping[str, str], mode: str, requests: int
) -> None:
    """Lesson 21."""
    server.script = openai_api.api(openai_api.Model(refuses=refuses))
    found = at_openai(server)
    assert settled(found).schema_mode == mode
    assert [feature for feature, _ in found.refusals] == ["schema"] * (requests - 1)
    assert len(server.asked) == requests


def test_anthropic_ladder_has_no_json_object_rung(server: Server) -> None:
    server.script = anthropic_api.api(
        anthropic_api.Model(refuses={"format": "output_config.format: not supported on this model"})
    )
    found = probe(f"anthropic:m@{server.url}")
    assert settled(found).schema_mode == "text"
    assert len(server.asked) == 2


def test_a_server_that_only_says_bad_request_steps_down_the_schema_ladder(server: Server) -> None:
    good = openai_api.api(openai_api.Model())
    server.script = lambda asked: (
        good(asked) if "response_format" not in asked.json else openai_api.error(400, "Bad Request")
    )
    assert settled(at_openai(server)).schema_mode == "text"


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
def test_temperature_refused_is_dropped_once_and_remembered(server: Server, api: str) -> None:
    """Lesson 18; the report says "not temperature-pinned"."""
    message = "Unsupported value: 'temperature' does not support 0 with this model."
    if api == "anthropic":
        server.script = anthropic_api.api(anthropic_api.Model(refuses={"temperature": f"`temperature`: {message}"}))
        spec, options = f"anthropic:m@{server.url}", {}
    else:
        server.script = openai_api.api(openai_api.Model(refuses={"temperature": message}))
        spec, options = f"openai:m@{server.url}/v1", {"api": api}

    async def work() -> None:
        client = open_client(spec, options, {}, retrier=quick())
        found = await settle(client, CONTRACT, ModelSettings(temperature=0.0))
        assert settled(found).temperature == "refused"
        assert [f for f, _ in found.refusals] == ["temperature"]
        assert any("Not temperature-pinned" in s for s in settled(found).sentences())
        probed = len(server.asked)
        for _ in range(3):
            assert (await client.complete(request(temperature=0.0), run=0)).outcome == "ok"
        assert len(server.asked) == probed + 3
        assert all("temperature" not in asked.json for asked in server.asked[probed:])
        await client.aclose()

    run(work())
    assert server.asked[0].json["temperature"] == 0.0


def test_nothing_is_sent_that_was_not_asked_for(server: Server) -> None:
    """Lesson 18: hidden defaults."""
    server.script = openai_api.api(openai_api.Model())
    found = at_openai(server)
    assert set(server.asked[0].json) == {"model", "messages", "response_format"}
    assert settled(found).temperature == "not asked"
    assert any("none was asked for" in s for s in settled(found).sentences())


@pytest.mark.parametrize(
    ("refuses", "name"),
    [
        ({"max_tokens": "Use 'max_completion_tokens' instead of 'max_tokens'."}, "max_completion_tokens"),
        ({"max_tokens": "max_tokens", "max_completion_tokens": "unknown field max_completion_tokens"}, None),
    ],
)
def test_token_parameter_is_chosen_by_what_the_provider_takes(
    server: Server, refuses: Mapping[str, str], name: str | None
) -> None:
    """Lesson 19."""
    server.script = openai_api.api(openai_api.Model(refuses=refuses))
    found = settled(at_openai(server, max_output_tokens=300))
    assert found.token_parameter == name
    if name is None:
        assert any("output cap is refused" in s for s in found.sentences())


def test_an_openai_spec_starts_with_the_newer_name() -> None:
    assert QUIRKS["openai-chat"].token_parameters[0] == "max_completion_tokens"


def test_anthropic_always_gets_a_cap_and_its_refusal_is_no_reason_to_drop_it(server: Server) -> None:
    server.script = anthropic_api.api(anthropic_api.Model())
    probe(f"anthropic:m@{server.url}")
    assert server.asked[0].json["max_tokens"] == 4096
    server.script = anthropic_api.api(anthropic_api.Model(refuses={"max_tokens": "max_tokens: 4096 > 1024"}))
    with pytest.raises(SettingsError, match="max_tokens: 4096 > 1024"):
        probe(f"anthropic:m@{server.url}")


def test_reasoning_effort_and_store_are_dropped_where_refused(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model(refuses={"reasoning": "reasoning.effort?", "store": "store?"}))
    found = settled(at_openai(server, {"api": "responses"}, reasoning_effort="high"))
    assert (found.effort, found.store) == ("refused", "refused")


def test_a_fixed_schema_mode_is_never_stepped_down(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model(refuses={"json_schema": "no json_schema"}))
    with pytest.raises(SettingsError, match="no json_schema"):
        at_openai(server, {"schema_mode": "json_schema"})
    assert settled(at_openai(server, {"schema_mode": "json_object"})).schema_mode == "json_object"


def test_a_request_refused_whatever_is_left_out_is_a_settings_error_with_the_cause(server: Server) -> None:
    server.script = lambda _: openai_api.error(400, "the moon is in the wrong phase")
    with pytest.raises(SettingsError, match="wrong phase"):
        at_openai(server)
    assert len(server.asked) <= 4


def test_a_provider_that_does_not_answer_the_probe_is_an_outage(server: Server) -> None:
    server.script = lambda _: Play(status=503)
    with pytest.raises(Outage, match="does not answer") as caught:
        at_openai(server)
    assert "Nothing was measured" in str(caught.value)


@pytest.mark.parametrize(
    ("says", "followed"),
    [
        ('{"reasoning":"r","label":"good","confidence":1}', True),
        ('```json\n{"reasoning":"r","label":"good","confidence":1}\n```', False),
        ('{"verdict":"good"}', False),
    ],
)
def test_a_schema_accepted_but_not_followed_is_recorded(server: Server, says: str, followed: bool) -> None:
    """A server may take response_format and ignore it."""
    server.script = openai_api.api(openai_api.Model(says=lambda _: says))
    found = settled(at_openai(server))
    assert found.form_followed is followed
    assert any("did not follow" in s for s in found.sentences()) is not followed


def test_length_stop_and_refusal_of_the_probe_settle_the_instrument_too(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model(finish="length"))
    found = settled(at_openai(server))
    assert (found.answered, found.form_followed) == ("length", None)


def test_out2_the_model_name_seen_in_the_probe_is_accepted_and_part_of_the_identity(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model(name="served-by-another-name"))

    async def work() -> None:
        options = {"accepted_models": ["also-this"]}
        client = open_client(f"openai:m@{server.url}/v1", options, {}, retrier=quick())
        before = json.dumps(client.identity, sort_keys=True)
        assert accepted_names(client) == ("also-this",)
        await settle(client, CONTRACT, ModelSettings())
        assert accepted_names(client) == ("also-this", "served-by-another-name")
        assert json.dumps(client.identity, sort_keys=True) != before
        await client.aclose()

    run(work())


def test_out2_identity_never_changes_by_calling(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model())

    async def work() -> None:
        client = open_client(f"openai:m@{server.url}/v1", {}, {}, retrier=quick())
        await settle(client, CONTRACT, ModelSettings())
        before = json.dumps(client.identity, sort_keys=True)
        await client.complete(request(), run=0)
        server.script = openai_api.api(openai_api.Model(name="another"))
        assert (await client.complete(request(), run=1)).model == "another"
        assert json.dumps(client.identity, sort_keys=True) == before
        await client.aclose()

    run(work())


def test_the_probe_shows_nothing_of_the_queue_and_uses_the_fits_own_schema(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model())
    at_openai(server)
    sent = server.asked[0].json
    assert sent["response_format"]["json_schema"]["schema"]["properties"] == SCHEMA["properties"]
    assert "connection" in sent["messages"][0]["content"]


def test_lexicon_and_replay_have_nothing_to_settle(tmp_path: Any) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"row":"a","run":0,"text":"x"}\n')
    for spec in ("lexicon", f"replay:{file}"):
        assert asyncio.run(settle(open_client(spec), CONTRACT, ModelSettings())) == Probe(instrument=None)


# --- the record -------------------------------------------------------------------------------------------------------


def test_an_instrument_survives_the_record_and_resume(server: Server) -> None:
    server.script = openai_api.api(openai_api.Model(refuses={"temperature": "temperature"}))
    found = settled(at_openai(server, temperature=0.0))
    again = Instrument.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert changed(found, again) == []

    async def work() -> None:
        client = open_client(f"openai:m@{server.url}/v1", {}, {}, retrier=quick())
        client.adopt(again)  # type: ignore[attr-defined]
        number = len(server.asked)
        assert (await client.complete(request(temperature=0.0), run=0)).outcome == "ok"
        assert "temperature" not in server.asked[number].json
        await client.aclose()

    run(work())


def test_out2_what_changed_between_two_probes_is_named() -> None:
    then = Instrument(schema_mode="json_schema", token_parameter="max_tokens", model_returned="m-1", temperature="sent")
    now = Instrument(schema_mode="json_object", token_parameter="max_tokens", model_returned="m-2", temperature="sent")
    assert changed(then, now) == [
        "schema mode: 'json_schema' then, 'json_object' now",
        "model returned: 'm-1' then, 'm-2' now",
    ]


@pytest.mark.parametrize("value", [{}, {"schema_version": 2}, {"schema_version": 1, "schema_mode": "text"}])
def test_what_is_no_instrument_is_refused(value: Mapping[str, Any]) -> None:
    with pytest.raises(SettingsError):
        Instrument.from_json(value)


# --- schemas ----------------------------------------------------------------------------------------------------------

MULTI = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string", "minLength": 1},
        "label": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 2, "uniqueItems": True},
        "minimum": {"type": "number", "minimum": 0, "maximum": 10},
        "confidence": {"type": "integer"},
    },
    "required": ["reasoning", "label"],
    "additionalProperties": False,
}


def test_each_dialect_gets_the_schema_it_takes() -> None:
    openai, left = fit_schema(MULTI, QUIRKS["openai-responses"])
    assert "uniqueItems" not in openai["properties"]["label"]
    assert openai["properties"]["label"]["minItems"] == 2
    assert openai["required"] == ["reasoning", "label", "minimum", "confidence"]
    assert left == ("minLength", "optional properties", "uniqueItems")

    anthropic, left = fit_schema(MULTI, QUIRKS["anthropic-messages"])
    assert anthropic["properties"]["minimum"] == {"type": "number"}  # a property's name is no keyword
    assert "minItems" not in anthropic["properties"]["label"]
    assert left == ("maximum", "minItems", "minLength", "minimum", "uniqueItems")

    plain, left = fit_schema(MULTI, QUIRKS["compatible-chat"])
    assert plain == MULTI
    assert left == ()


@given(st.sampled_from(sorted(QUIRKS)))
def test_reasoning_stays_first_in_every_dialect(dialect: str) -> None:
    """Lesson 5: the reason is asked for before the verdict."""
    fitted, _ = fit_schema(SCHEMA, QUIRKS[dialect])
    assert list(fitted["properties"]) == ["reasoning", "label", "confidence"]
    assert fitted["additionalProperties"] is False
    assert fitted["properties"]["label"]["enum"] == ["good", "bad"]


def test_what_the_dialect_left_out_is_recorded(server: Server) -> None:
    server.script = anthropic_api.api(anthropic_api.Model())
    found = settled(probe(f"anthropic:m@{server.url}"))
    assert found.schema_left_out == ("maximum", "minLength", "minimum")
    assert any("checked by our parser: maximum" in s for s in found.sentences())
