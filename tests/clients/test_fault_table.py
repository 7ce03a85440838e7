"""What each provider's error means: one case a line, in the provider's own shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.clients.body import Exchange
from fitter.clients.faults import Feature, embedded_fault, named_feature, read_fault

ALL: frozenset[Feature] = frozenset({"schema", "temperature", "tokens", "effort", "store", "seed"})


def fault(status: int, body: Any, sent: frozenset[Feature] = ALL) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_fault(Exchange(status=status, headers={}, body=raw), sent)


def oai(message: str, code: Any = None, kind: str = "invalid_request_error", param: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def ant(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("status", "body", "action"),
    [
        # bad key (lesson 22: the real cause)
        (401, oai("Incorrect API key provided", "invalid_api_key"), "settings"),
        (401, ant("authentication_error", "invalid x-api-key"), "settings"),
        (403, oai("Country, region, or territory not supported", "unsupported_country_region_territory"), "settings"),
        (403, ant("permission_error", "Your API key does not have permission"), "settings"),
        # spent quota is not slow down (lesson 24)
        (429, oai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "outage"),
        (400, ant("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), "outage"),
        (402, ant("billing_error", "pay"), "outage"),
        (402, {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}}, "outage"),
        (403, oai("Billing hard limit has been reached", "billing_hard_limit_reached"), "outage"),
        # slow down
        (429, oai("Rate limit reached for gpt-5 in organization", "rate_limit_exceeded", "tokens"), "retry"),
        (429, oai("You exceeded your current quota, please check your plan", 429, "RESOURCE_EXHAUSTED"), "retry"),
        (429, ant("rate_limit_error", "This request would exceed your rate limit"), "retry"),
        (529, ant("overloaded_error", "Overloaded"), "retry"),
        (500, ant("api_error", "Internal server error"), "retry"),
        (503, b"<html>upstream</html>", "retry"),
        (408, b"", "retry"),
        (409, b"", "retry"),
        # unknown model
        (404, oai("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"), "settings"),
        (404, ant("not_found_error", "model: claude-9"), "settings"),
        (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, "settings"),
        (404, {"error": "model 'llama9' not found"}, "settings"),
        (400, oai("The requested model 'x' does not exist.", "model_not_found"), "settings"),
        # content filter: its own reason, not retried (lesson 23)
        (400, {"error": {"code": "content_filter", "message": "filtered",
                         "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "outcome"),
        (400, oai("Invalid prompt: flagged", "invalid_prompt"), "outcome"),
        # too long is too long, not a length stop (lesson 15)
        (400, oai("This model's maximum context length is 8192 tokens.", "context_length_exceeded"), "outcome"),
        (400, ant("invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"), "outcome"),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "exceeds the available context"}},
         "outcome"),
        (413, ant("request_too_large", "Request exceeds the maximum size"), "outcome"),
        # named parameters (lessons 18, 19, 21)
        (400, oai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
                  " instead.", "unsupported_parameter", param="max_tokens"), "parameter"),
        (400, ant("invalid_request_error", "temperature: Extra inputs are not permitted"), "parameter"),
        (422, {"detail": "response_format.json_schema is unknown"}, "parameter"),
        # the rest
        (400, oai("Something else is wrong"), "bad_request"),
        (302, b"", "settings"),
        (405, b"Method not allowed", "settings"),
    ],
)  # fmt: skip
def test_each_error_has_its_meaning(status: int, body: Any, action: str) -> None:
    assert fault(status, body).action == action


@pytest.mark.parametrize(
    ("message", "param", "feature"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model.", "temperature", "temperature"),
        ("`temperature` may only be set to 1 when thinking is enabled", "", "temperature"),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "", "tokens"),
        (
            "Invalid schema for response_format 'verdict': 'uniqueItems' is not permitted.",
            "text.format.schema",
            "schema",
        ),
        ("output_config.format: structured outputs are not supported with this model", "", "schema"),
        ("output_config.effort: not supported", "", "effort"),
        ("Unknown parameter: 'reasoning.effort'", "reasoning.effort", "effort"),
        ("invalid value for max_output_tokens", "", "tokens"),
        ("the restore point is gone", "", None),
        ("temperatures are rising", "", None),
    ],
)
def test_the_parameter_a_400_names(message: str, param: str, feature: str | None) -> None:
    assert named_feature(param, message, ALL) == feature


def test_a_parameter_that_was_not_sent_is_never_named() -> None:
    assert named_feature("temperature", "temperature", frozenset({"schema"})) is None
    assert fault(400, oai("temperature is bad", param="temperature"), frozenset()).action == "bad_request"


@pytest.mark.parametrize(
    ("error", "action"),
    [
        ({"code": "server_error", "message": "x"}, "retry"),
        ({"code": "rate_limit_exceeded", "message": "x"}, "retry"),
        ({"code": 502, "message": "upstream"}, "retry"),
        ({"code": 402, "message": "no credits"}, "outage"),
        ({"type": "overloaded_error", "message": "x"}, "retry"),
        ({"code": "invalid_prompt", "message": "x"}, "outcome"),
        ({"code": "bogus", "message": "temperature"}, "bad_request"),
    ],
)
def test_an_error_inside_a_200_means_the_same(error: dict[str, Any], action: str) -> None:
    assert embedded_fault(error, ALL).action == action


@given(
    st.integers(300, 599),
    st.one_of(
        st.binary(max_size=300),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "param", "innererror"]), inner)
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_any_error_body_is_decided_without_a_crash(status: int, body: bytes) -> None:
    found = fault(status, body)
    assert found.action in ("retry", "outcome", "parameter", "bad_request", "settings", "outage")
    assert (found.outcome is not None) == (found.action == "outcome")
    assert (found.feature is not None) == (found.action == "parameter")
