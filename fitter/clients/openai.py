"""OpenAI, Azure OpenAI and every server that speaks OpenAI's formats, through the ``openai`` SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.clients.opening import extra_headers, named_key, open_remote
from fitter.clients.options import ClientOptions, Spec, check_url, same_host
from fitter.clients.remote import RemoteClient
from fitter.clients.retry import Retrier
from fitter.clients.wires import chat_wire, responses_wire
from fitter.errors import SettingsError

OPENAI_URL = "https://api.openai.com/v1"
AZURE_API_VERSION = "2025-04-01-preview"


def _compatible(sdk: Any, shared: dict[str, Any], **rest: Any) -> Any:
    """A client for a server that is not OpenAI's: the tenant named in the environment is no business of it."""
    shared["default_headers"] |= {"OpenAI-Organization": sdk.omit, "OpenAI-Project": sdk.omit}
    return sdk.AsyncOpenAI(**rest, **shared)


def open_openai(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``openai:MODEL`` at OpenAI, ``openai:MODEL@URL`` at any compatible server.

    OPENAI_API_KEY goes to OpenAI only; another server gets a key only when ``key_env`` or ``key_command`` names one.

    Raises:
        SettingsError: no key for OpenAI, or an option that cannot be met.
    """
    headers = extra_headers("openai", options, env)
    url = spec.url or OPENAI_URL
    at_openai = spec.url is None or same_host(spec.url, OPENAI_URL)
    key = named_key(spec, options, env, own="OPENAI_API_KEY" if at_openai else None)
    dialect, api = ("openai", "responses") if at_openai else ("compatible", "chat")

    def build(sdk: Any, shared: dict[str, Any]) -> Any:
        access = {"api_key": key or "none", "base_url": url}
        return sdk.AsyncOpenAI(**access, **shared) if at_openai else _compatible(sdk, shared, **access)

    return open_remote(
        "openai",
        build,
        spec=spec,
        options=options,
        wire=responses_wire(dialect) if (options.api or api) == "responses" else chat_wire(dialect),
        url=url,
        headers=headers,
        key=key,
        retrier=retrier,
    )


def open_azure(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``azure:DEPLOYMENT`` (endpoint from AZURE_OPENAI_ENDPOINT) or ``azure:DEPLOYMENT@URL``; Chat Completions.

    Raises:
        SettingsError: no endpoint or no key.
    """
    headers = extra_headers("openai", options, env)
    url = spec.url or env.get("AZURE_OPENAI_ENDPOINT", "").strip().rstrip("/")
    if not url:
        raise SettingsError(
            f"{spec.text} needs the resource's address",
            hint="set AZURE_OPENAI_ENDPOINT, e.g. to https://RESOURCE.openai.azure.com",
        )
    check_url(url)
    if options.api == "responses":
        raise SettingsError(
            "an azure: model is called by Chat Completions",
            hint=f"for the Responses API write openai:{spec.model}@{url}/openai/v1, with the options api and key_env",
        )
    key = named_key(spec, options, env, own="AZURE_OPENAI_API_KEY")
    version = options.api_version or env.get("OPENAI_API_VERSION") or AZURE_API_VERSION

    def build(sdk: Any, shared: dict[str, Any]) -> Any:
        return sdk.AsyncAzureOpenAI(
            azure_endpoint=url, azure_deployment=spec.model, api_version=version, api_key=key, **shared
        )

    return open_remote(
        "openai",
        build,
        spec=spec,
        options=options,
        wire=chat_wire("azure"),
        url=url,
        where=f"{url} ({version})",
        headers=headers,
        key=key,
        retrier=retrier,
    )


def open_local(spec: Spec, options: ClientOptions) -> RemoteClient:
    """The loopback server of a local model: Chat Completions, no key, JSON by grammar."""
    url = spec.url or ""

    def build(sdk: Any, shared: dict[str, Any]) -> Any:
        return _compatible(sdk, shared, api_key="none", base_url=url)

    return open_remote(
        "openai",
        build,
        spec=spec,
        options=options,
        wire=chat_wire("local"),
        url=url,
        where="this machine",
        headers={},
        key=None,
    )
