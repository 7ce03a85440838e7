"""Specs and options of a model client: what the user may write, checked before anything is opened."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from fitter.errors import SettingsError
from fitter.textsafe import one_line

Provider: TypeAlias = Literal["openai", "anthropic", "azure", "bedrock", "vertex", "local", "replay", "lexicon"]
Api: TypeAlias = Literal["responses", "chat", "messages"]

PROVIDERS: tuple[Provider, ...] = ("lexicon", "openai", "anthropic", "azure", "bedrock", "vertex", "local", "replay")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_HINT = (
    "a judge is one of: lexicon, openai:MODEL, openai:MODEL@URL, anthropic:MODEL, azure:DEPLOYMENT, bedrock:MODEL, "
    "vertex:MODEL, local:smollm2, local:/path/model.gguf, replay:PATH"
)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A parsed spec.

    Attributes:
        text: as the user wrote it.
        provider: which client.
        model: model, deployment or path; empty for ``lexicon``.
        url: the server, for specs with ``@URL``.
    """

    text: str
    provider: Provider
    model: str
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Options of one client, the names of ``fit.toml``.

    Attributes:
        api: ``responses`` or ``chat`` for the OpenAI family; default: responses at OpenAI itself, else chat.
        accepted_models: returned model names that count as the asked one (OUT-2).
        headers: extra headers, name → ``env:NAME``.
        key_env: environment variable that holds the key.
        key_command: command that prints the key.
        schema_mode: skips the ladder and uses this mode.
        concurrency: most calls in flight.
        attempts: most HTTP requests for one call.
        patience_s: most seconds one call may take, retries and waits included.
        longest_wait_s: a provider that asks for a longer pause is unavailable.
        api_version: Azure's.
        region: Bedrock's and Vertex's.
        project: Vertex's.
        context_tokens: context window of a ``local:`` model.
    """

    api: Api | None = None
    accepted_models: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    key_env: str | None = None
    key_command: str | None = None
    schema_mode: Literal["json_schema", "json_object", "text"] | None = None
    concurrency: int = 8
    attempts: int = 6
    patience_s: float = 600.0
    longest_wait_s: float = 120.0
    api_version: str | None = None
    region: str | None = None
    project: str | None = None
    context_tokens: int = 8192

    def __post_init__(self) -> None:
        if self.key_env is not None and not _ENV_NAME.match(self.key_env):
            # Most likely the key itself was pasted here: do not quote it.
            raise SettingsError("key_env must be the NAME of an environment variable, not a key")
        if not 1 <= self.concurrency <= 1024:
            raise SettingsError("concurrency is from 1 to 1024")
        if not 1 <= self.attempts <= 20:
            raise SettingsError("attempts is from 1 to 20")
        if not 0 < self.patience_s <= 86_400 or not 0 <= self.longest_wait_s <= 86_400:
            raise SettingsError("patience_s and longest_wait_s are seconds, at most a day")
        if not 512 <= self.context_tokens <= 1_048_576:
            raise SettingsError("context_tokens is from 512 to 1048576")


def make_options(values: Mapping[str, Any]) -> ClientOptions:
    """Builds options from plain data.

    Raises:
        SettingsError: an unknown name or a value of the wrong type.
    """
    known = {f.name for f in fields(ClientOptions)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise SettingsError(f"unknown model option(s) {', '.join(unknown)}", hint=f"known: {', '.join(sorted(known))}")
    wanted: dict[str, type | tuple[type, ...]] = {
        "concurrency": int,
        "attempts": int,
        "context_tokens": int,
        "patience_s": (int, float),
        "longest_wait_s": (int, float),
        "headers": Mapping,
        "accepted_models": (list, tuple),
    }
    clean: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        kind = wanted.get(name, str)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise SettingsError(f"the model option {name} has a value of the wrong type")
        clean[name] = value
    if "headers" in clean and not all(isinstance(v, str) for v in clean["headers"].values()):
        raise SettingsError("each of the headers is written as env:NAME")
    if "accepted_models" in clean:
        if not all(isinstance(v, str) for v in clean["accepted_models"]):
            raise SettingsError("accepted_models is a list of model names")
        clean["accepted_models"] = tuple(clean["accepted_models"])
    for name, allowed in (("api", ("responses", "chat")), ("schema_mode", ("json_schema", "json_object", "text"))):
        if name in clean and clean[name] not in allowed:
            raise SettingsError(f"{name} is one of {', '.join(allowed)}")
    return ClientOptions(**clean)


def parse_spec(text: str) -> Spec:
    """Reads a spec such as ``openai:qwen3@http://127.0.0.1:8000/v1``.

    Raises:
        SettingsError: not a spec; says which there are.
    """
    text = text.strip()
    if text == "lexicon":
        return Spec(text=text, provider="lexicon", model="")
    name, colon, rest = text.partition(":")
    shown = one_line(text, 80)
    if name not in PROVIDERS or name == "lexicon" or not colon:
        raise SettingsError(f"{shown!r} is not a model", hint=_HINT)
    if not rest.strip():
        raise SettingsError(f"{shown!r} names no model", hint=_HINT)
    if name in ("replay", "local"):
        return Spec(text=text, provider=name, model=rest)
    model, at, url = rest.partition("@http")
    if at:
        url = "http" + url
    elif "@" in rest and name in ("openai", "anthropic", "azure"):
        raise SettingsError(
            f"{shown!r}: the part after @ is not a URL", hint="write it with its scheme, e.g. @http://localhost:8000/v1"
        )
    if any(ch.isspace() or ord(ch) < 32 for ch in model) or not model:
        raise SettingsError(f"{shown!r} names no model", hint=_HINT)
    if at:
        check_url(url)
    return Spec(text=text, provider=name, model=model, url=url.rstrip("/") if at else None)


def check_url(url: str) -> None:
    """Refuses URLs that are none, or that carry credentials.

    Raises:
        SettingsError: says what is wrong, without quoting credentials.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise SettingsError("the model's URL cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise SettingsError("the model's URL needs http:// or https:// and a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(
            "the model's URL may hold no user, password, query or fragment",
            hint="give the key with key_env or key_command, or a header as env:NAME",
        )


def is_loopback(url: str) -> bool:
    """True for a server on this machine: it is reached without any proxy."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_host(url: str, official: str) -> bool:
    """True when a URL is https at exactly the official host: only there does the vendor's own key go."""
    one, other = urlsplit(url), urlsplit(official)
    return one.scheme == "https" and one.hostname == other.hostname and one.port in (None, 443)
