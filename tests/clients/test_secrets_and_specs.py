"""Keys come from the environment or a command and appear nowhere; specs and options are checked before any opening."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.clients.options import ClientOptions, is_loopback, make_options, parse_spec, same_host
from fitter.clients.registry import open_client
from fitter.clients.secrets import MASK, Redactor, read_headers, read_key
from fitter.errors import BadInput, FitterError, SettingsError
from tests.clients.helpers import CANARY


def test_sc3_a_redactor_masks_the_key_its_ends_and_anything_shaped_like_one() -> None:
    red = Redactor([CANARY])
    others = "Bearer abcdefghij; sk-proj-ABCDEFGH1234; AKIAABCDEFGHIJKLMNOP"
    text = f"bad key {CANARY}, i.e. {CANARY[:8]}***{CANARY[-8:]}; {others}"
    shown = red.detail(text)
    for part in (CANARY, CANARY[:8], CANARY[-8:], "abcdefghij", "ABCDEFGH1234", "AKIAABCD"):
        assert part not in shown
    assert red.raw(f"x{CANARY}y".encode()) == f"x{MASK}y".encode()
    assert CANARY not in repr(red)


@given(st.text(max_size=40), st.text(max_size=40))
def test_sc3_no_text_around_a_key_lets_it_through(before: str, after: str) -> None:
    red = Redactor([CANARY])
    assert CANARY not in red.exact(before + CANARY + after)
    assert CANARY not in red.detail(before + CANARY + after)


def test_content_is_only_masked_where_it_is_exactly_the_key() -> None:
    """The judge's text may discuss keys; only ours is hidden."""
    text = "The reply shows sk-someoneelse-123456 and Bearer tokens."
    assert Redactor([CANARY]).exact(text) == text
    assert Redactor(["ab"]).exact("abab") == "abab"  # too short to be a secret


def test_detail_is_one_safe_line() -> None:
    assert Redactor().detail("a\n\x1b[31mred\u202e") == "a \\u{1b}[31mred\\u{202e}"
    assert len(Redactor().detail("x" * 10_000)) <= 300


def test_key_command_prints_the_key_and_its_output_is_never_quoted() -> None:
    command = f"{sys.executable} -c \"print('{CANARY}')\""
    assert read_key(key_env="X", key_command=command, env={"X": "other"}) == CANARY
    for bad in (
        f"{sys.executable} -c \"import sys; print('{CANARY}', file=sys.stderr); sys.exit(3)\"",
        f"{sys.executable} -c \"print('{CANARY}'); print('more')\"",
        f'{sys.executable} -c ""',
        "no-such-program-here",
        "'unbalanced",
        " ",
    ):
        with pytest.raises(SettingsError) as caught:
            read_key(key_env=None, key_command=bad, env={})
        assert CANARY not in str(caught.value).replace(bad, "")


def test_no_shell_reads_a_key_command() -> None:
    with pytest.raises(SettingsError):
        read_key(key_env=None, key_command="false; echo key", env={})


def test_headers_are_named_by_variable_only() -> None:
    assert read_headers({"X-Team": "env:TEAM"}, {"TEAM": "blue"}) == {"X-Team": "blue"}
    for headers, env in (
        ({"Authorization": f"Bearer {CANARY}"}, {}),
        ({"X-Team": "env:"}, {}),
        ({"X-Team": "env:MISSING"}, {}),
        ({"X-Team": "env:BAD"}, {"BAD": "a\r\nb: c"}),
        ({"X Team": "env:TEAM"}, {"TEAM": "blue"}),
    ):
        with pytest.raises(SettingsError) as caught:
            read_headers(headers, env)
        assert CANARY not in str(caught.value)


def test_a_key_pasted_as_key_env_is_refused_and_not_quoted() -> None:
    with pytest.raises(SettingsError) as caught:
        make_options({"key_env": CANARY})
    assert CANARY not in str(caught.value)


# --- specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "provider", "model", "url"),
    [
        ("lexicon", "lexicon", "", None),
        ("openai:gpt-5.4-mini", "openai", "gpt-5.4-mini", None),
        ("openai:qwen3:8b@http://localhost:11434/v1/", "openai", "qwen3:8b", "http://localhost:11434/v1"),
        ("openai:org/model@https://host.example/v1", "openai", "org/model", "https://host.example/v1"),
        ("anthropic:claude-sonnet-5", "anthropic", "claude-sonnet-5", None),
        ("azure:my-deployment", "azure", "my-deployment", None),
        ("bedrock:eu.anthropic.claude-v1:0", "bedrock", "eu.anthropic.claude-v1:0", None),
        ("vertex:claude-sonnet-5@20260301", "vertex", "claude-sonnet-5@20260301", None),
        ("local:smollm2", "local", "smollm2", None),
        ("local:/models/a b@c.gguf", "local", "/models/a b@c.gguf", None),
        ("replay:passes.jsonl", "replay", "passes.jsonl", None),
    ],
)
def test_specs(text: str, provider: str, model: str, url: str | None) -> None:
    spec = parse_spec(text)
    assert (spec.provider, spec.model, spec.url, spec.text) == (provider, model, url, text)


@pytest.mark.parametrize(
    "text",
    ["", "gpt-5", "openai", "openai:", "openai: ", "opnai:x", "lexicon:x", "openai:m@host:80", "openai:@http://h/v1",
     "openai:m@http://", "openai:m@http://u:p@h/v1", "openai:m@http://h/v1?k=v", "openai:m@http://h:99999999/",
     "openai:m m", "openai:m\x00"],
)  # fmt: skip
def test_what_is_no_spec_is_a_user_error_with_a_hint(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_spec(text)


def test_a_password_in_a_url_is_refused_and_not_quoted() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_spec(f"openai:m@https://user:{CANARY}@host/v1")
    assert CANARY not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_spec_or_a_user_error(text: str) -> None:
    for candidate in (text, "openai:" + text, "openai:m@http" + text, "azure:" + text):
        with contextlib.suppress(SettingsError):
            spec = parse_spec(candidate)
            assert spec.model or spec.provider == "lexicon"
            assert spec.url is None or spec.url.startswith(("http://", "https://"))


@pytest.mark.parametrize(
    ("url", "loopback"),
    [("http://127.0.0.1:8/v1", True), ("http://localhost/v1", True), ("http://[::1]:9/", True),
     ("http://127.9.9.9/", True), ("https://api.openai.com/v1", False), ("http://127.0.0.1.evil.example/", False),
     ("http://localhost.evil.example", False)],
)  # fmt: skip
def test_loopback(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


def test_a_vendors_own_key_goes_to_exactly_the_vendors_host() -> None:
    assert same_host("https://api.anthropic.com/v1", "https://api.anthropic.com")
    for url in (
        "https://api.anthropic.com.evil.example",
        "http://api.anthropic.com",
        "https://evil.example/api.anthropic.com",
        "https://api.anthropic.com:8443",
    ):
        assert not same_host(url, "https://api.anthropic.com")


@pytest.mark.parametrize(
    "options",
    [{"nope": 1}, {"concurrency": 0}, {"concurrency": "8"}, {"concurrency": True}, {"api": "completions"},
     {"headers": {"a": 1}}, {"accepted_models": "x"}, {"accepted_models": [1]}, {"attempts": 99},
     {"schema_mode": "xml"}, {"patience_s": -1}, {"context_tokens": 1}],
)  # fmt: skip
def test_bad_options_are_user_errors(options: Mapping[str, Any]) -> None:
    with pytest.raises(SettingsError):
        make_options(options)


def test_options_round() -> None:
    assert make_options({"api": "chat", "accepted_models": ["a"], "key_env": None}) == ClientOptions(
        api="chat", accepted_models=("a",)
    )


@pytest.mark.parametrize(
    ("spec", "options", "env", "says"),
    [
        ("openai:gpt-5", {}, {}, "OPENAI_API_KEY is not set"),
        ("anthropic:claude-sonnet-5", {}, {}, "ANTHROPIC_API_KEY is not set"),
        ("azure:d", {}, {}, "AZURE_OPENAI_ENDPOINT"),
        ("azure:d@http://127.0.0.1:1", {}, {}, "AZURE_OPENAI_API_KEY is not set"),
        ("azure:d@http://127.0.0.1:1", {"api": "responses"}, {"AZURE_OPENAI_API_KEY": CANARY}, "Chat Completions"),
        ("openai:m@http://127.0.0.1:1/v1", {"key_env": "NOPE"}, {}, "NOPE is not set"),
        ("anthropic:m", {"api": "chat"}, {"ANTHROPIC_API_KEY": CANARY}, "belongs to openai"),
        ("bedrock:m", {}, {}, "needs a region"),
        ("bedrock:m", {"region": "eu-west-1"}, {}, "AWS"),
        ("vertex:m", {"region": "eu"}, {}, "project"),
        ("vertex:m", {"region": "eu", "project": "p"}, {}, "Google"),
        ("openai:m", {}, {"OPENAI_API_KEY": CANARY, "OPENAI_CUSTOM_HEADERS": "a: b"}, "OPENAI_CUSTOM_HEADERS is set"),
        ("anthropic:m", {}, {"ANTHROPIC_API_KEY": CANARY, "ANTHROPIC_CUSTOM_HEADERS": "a: b"}, "is set"),
        ("local:/no/such.gguf", {}, {}, ""),
        ("replay:/no/such.jsonl", {}, {}, "cannot be read"),
    ],
)
def test_what_cannot_be_opened_says_why_before_any_call(
    spec: str, options: Mapping[str, Any], env: Mapping[str, str], says: str
) -> None:
    with pytest.raises((SettingsError, BadInput)) as caught:
        open_client(spec, options, env)
    assert says in str(caught.value)
    assert CANARY not in str(caught.value)
    assert isinstance(caught.value, FitterError)


def test_lexicon_is_registered() -> None:
    assert open_client("lexicon").spec == "lexicon"


@given(st.integers(8, len(CANARY) - 1), st.text(max_size=10), st.text(max_size=10))
def test_sc3_beginnings_and_ends_of_a_key_are_masked_whole(length: int, before: str, after: str) -> None:
    red = Redactor([CANARY])
    for part in (CANARY[:length], CANARY[-length:]):
        masked = red.known(before + part + after)
        assert part not in masked
        assert MASK in masked
        assert red.raw((before + part + after).encode()).count(MASK.encode()) >= 1


def test_a_key_of_one_character_repeated_ends_the_search() -> None:
    assert MASK in Redactor(["a" * 20]).known("a" * 50)
    assert "xyz" in Redactor([MASK + "abcdefgh" + MASK]).known(MASK * 3 + "xyz")
