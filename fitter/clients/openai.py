"""OpenAI, Azure OpenAI and every server that speaks OpenAI's formats, through the ``openai`` SDK."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fitter.clients.options import Api, ClientOptions, Spec, check_url, is_loopback, same_host
from fitter.clients.remote import RemoteClient, Sdk, stop_on_error
from fitter.clients.retry import Retrier
from fitter.clients.secrets import Redactor, read_headers, read_key
from fitter.clients.wires import Wire, chat_wire, responses_wire
from fitter.errors import SettingsError

OPENAI_URL = "https://api.openai.com/v1"
AZURE_API_VERSION = "2025-04-01-preview"


def _sdk(build: Any) -> Sdk:
    import openai

    return Sdk(
        open=lambda: build(openai),
        timeout=openai.APITimeoutError,
        connection=openai.APIConnectionError,
        base=openai.OpenAIError,
    )


def _http(openai: Any, url: str) -> Any:
    """The SDK's own default HTTP client; no proxy to this machine, no redirects, bounded error bodies."""
    return openai.DefaultAsyncHttpxClient(
        trust_env=not is_loopback(url), follow_redirects=False, event_hooks={"response": [stop_on_error]}
    )


def refuse_hidden_headers(name: str, env: Mapping[str, str]) -> None:
    """The SDKs add headers from an environment variable, to any server: they would change the instrument unseen.

    Raises:
        SettingsError: the variable is set.
    """
    if env.get(name) or os.environ.get(name):
        raise SettingsError(
            f"{name} is set: its headers would go to the model unseen and unrecorded",
            hint="unset it, and name the headers in fit.toml as env:NAME",
        )


def _wire(api: Api | None, dialect: str, default: Api) -> Wire:
    return responses_wire(dialect) if (api or default) == "responses" else chat_wire(dialect)


def open_openai(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``openai:MODEL`` at OpenAI, ``openai:MODEL@URL`` at any compatible server.

    OPENAI_API_KEY goes to OpenAI only; another server gets a key only when ``key_env`` or ``key_command`` names one.

    Raises:
        SettingsError: no key for OpenAI, or an option that cannot be met.
    """
    refuse_hidden_headers("OPENAI_CUSTOM_HEADERS", env)
    url = spec.url or OPENAI_URL
    at_openai = spec.url is None or same_host(spec.url, OPENAI_URL)
    key_env = options.key_env or ("OPENAI_API_KEY" if at_openai else None)
    key = read_key(key_env=key_env, key_command=options.key_command, env=env)
    if key is None and (at_openai or options.key_env):
        raise SettingsError(
            f"{spec.text} needs a key, and {key_env} is not set",
            hint="set it in the environment, or name another with key_env or key_command",
        )
    headers = read_headers(options.headers, env)

    def build(openai: Any) -> Any:
        extra: dict[str, Any] = {"accept-encoding": "identity", **headers}
        if not at_openai:
            extra |= {"OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}
        return openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=url,
            max_retries=0,
            default_headers=extra,
            http_client=_http(openai, url),
        )

    return RemoteClient(
        spec=spec,
        wire=_wire(options.api, "openai" if at_openai else "compatible", "responses" if at_openai else "chat"),
        options=options,
        redactor=Redactor([*([key] if key else []), *headers.values()]),
        load_sdk=lambda: _sdk(build),
        where=url,
        retrier=retrier,
    )


def open_azure(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``azure:DEPLOYMENT`` (endpoint from AZURE_OPENAI_ENDPOINT) or ``azure:DEPLOYMENT@URL``; Chat Completions.

    Raises:
        SettingsError: no endpoint or no key.
    """
    refuse_hidden_headers("OPENAI_CUSTOM_HEADERS", env)
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
    key_env = options.key_env or "AZURE_OPENAI_API_KEY"
    key = read_key(key_env=key_env, key_command=options.key_command, env=env)
    if key is None:
        raise SettingsError(f"{spec.text} needs a key, and {key_env} is not set")
    headers = read_headers(options.headers, env)
    version = options.api_version or env.get("OPENAI_API_VERSION") or AZURE_API_VERSION

    def build(openai: Any) -> Any:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=url,
            azure_deployment=spec.model,
            api_version=version,
            api_key=key,
            max_retries=0,
            default_headers={"accept-encoding": "identity", **headers},
            http_client=_http(openai, url),
        )

    return RemoteClient(
        spec=spec,
        wire=chat_wire("azure"),
        options=options,
        redactor=Redactor([key, *headers.values()]),
        load_sdk=lambda: _sdk(build),
        where=f"{url} ({version})",
        retrier=retrier,
    )


def open_local(spec: Spec, options: ClientOptions) -> RemoteClient:
    """The loopback server of a local model: Chat Completions, no key, JSON by grammar."""
    url = spec.url or ""

    def build(openai: Any) -> Any:
        omitted = {"OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}
        return openai.AsyncOpenAI(
            api_key="none",
            base_url=url,
            max_retries=0,
            default_headers={"accept-encoding": "identity", **omitted},
            http_client=_http(openai, url),
        )

    return RemoteClient(
        spec=spec,
        wire=chat_wire("local"),
        options=options,
        redactor=Redactor(),
        load_sdk=lambda: _sdk(build),
        where="this machine",
        retrier=None,
    )
