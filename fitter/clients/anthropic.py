"""Anthropic Messages through the ``anthropic`` SDK: direct, on Bedrock, on Vertex."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from fitter.clients.openai import refuse_hidden_headers
from fitter.clients.options import ClientOptions, Spec, is_loopback, same_host
from fitter.clients.remote import RemoteClient, Sdk, stop_on_error
from fitter.clients.retry import Retrier
from fitter.clients.secrets import Redactor, read_headers, read_key
from fitter.clients.wires import messages_wire
from fitter.errors import SettingsError

ANTHROPIC_URL = "https://api.anthropic.com"


def _sdk(build: Any, *, signs: bool = False) -> Sdk:
    import anthropic

    return Sdk(
        open=lambda: build(anthropic),
        timeout=anthropic.APITimeoutError,
        connection=anthropic.APIConnectionError,
        base=anthropic.AnthropicError,
        signs=signs,
    )


def _common(anthropic: Any, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "max_retries": 0,
        "default_headers": {"accept-encoding": "identity", **headers},
        # The SDK's own default HTTP client; no proxy to this machine, no redirects, bounded error bodies.
        "http_client": anthropic.DefaultAsyncHttpxClient(
            trust_env=not is_loopback(url), follow_redirects=False, event_hooks={"response": [stop_on_error]}
        ),
        "open_telemetry": False,  # SC-3: nothing leaves the machine but the call
    }


def open_anthropic(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``anthropic:MODEL`` or ``anthropic:MODEL@URL`` (ANTHROPIC_API_KEY goes to Anthropic only).

    Raises:
        SettingsError: no key for Anthropic, or an option that cannot be met.
    """
    refuse_hidden_headers("ANTHROPIC_CUSTOM_HEADERS", env)
    _no_api_choice(options)
    url = spec.url or ANTHROPIC_URL
    direct = spec.url is None or same_host(spec.url, ANTHROPIC_URL)
    key_env = options.key_env or ("ANTHROPIC_API_KEY" if direct else None)
    key = read_key(key_env=key_env, key_command=options.key_command, env=env)
    if key is None and (direct or options.key_env):
        raise SettingsError(
            f"{spec.text} needs a key, and {key_env} is not set",
            hint="set it in the environment, or name another with key_env or key_command",
        )
    headers = read_headers(options.headers, env)

    def build(anthropic: Any) -> Any:
        return anthropic.AsyncAnthropic(api_key=key or "none", base_url=url, **_common(anthropic, url, headers))

    return RemoteClient(
        spec=spec,
        wire=messages_wire(),
        options=options,
        redactor=Redactor([*([key] if key else []), *headers.values()]),
        load_sdk=lambda: _sdk(build),
        where=url,
        retrier=retrier,
    )


def open_bedrock(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``bedrock:MODEL``: a bearer key (AWS_BEARER_TOKEN_BEDROCK or key_env), else this machine's AWS credentials.

    Raises:
        SettingsError: no region, or AWS credentials without the SDK's AWS extra.
    """
    refuse_hidden_headers("ANTHROPIC_CUSTOM_HEADERS", env)
    _no_api_choice(options)
    region = options.region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    if not region:
        raise SettingsError(f"{spec.text} needs a region", hint="give the option region, or set AWS_REGION")
    key = read_key(key_env=options.key_env or "AWS_BEARER_TOKEN_BEDROCK", key_command=options.key_command, env=env)
    if key is None and not _installed("botocore"):
        raise SettingsError(
            f"{spec.text} has no bearer key, and AWS credentials need the SDK's AWS part, which is not installed",
            hint='set AWS_BEARER_TOKEN_BEDROCK, or install it: pip install "anthropic[bedrock]"',
        )
    headers = read_headers(options.headers, env)
    url = spec.url or f"https://bedrock-runtime.{region}.amazonaws.com"

    def build(anthropic: Any) -> Any:
        return anthropic.AsyncAnthropicBedrock(
            api_key=key, aws_region=region, base_url=url, **_common(anthropic, url, headers)
        )

    secrets = [env.get(n, "") for n in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")]
    return RemoteClient(
        spec=spec,
        wire=messages_wire(),
        options=options,
        redactor=Redactor([*([key] if key else []), *headers.values(), *secrets]),
        load_sdk=lambda: _sdk(build, signs=True),
        where=url,
        retrier=retrier,
    )


def open_vertex(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``vertex:MODEL``: an access token (key_env or key_command), else this machine's Google credentials.

    Raises:
        SettingsError: no region or project, or Google credentials without the SDK's Google extra.
    """
    refuse_hidden_headers("ANTHROPIC_CUSTOM_HEADERS", env)
    _no_api_choice(options)
    region = options.region or env.get("CLOUD_ML_REGION")
    project = options.project or env.get("ANTHROPIC_VERTEX_PROJECT_ID")
    if not region or not project:
        raise SettingsError(
            f"{spec.text} needs a region and a project",
            hint="give the options region and project, or set CLOUD_ML_REGION and ANTHROPIC_VERTEX_PROJECT_ID",
        )
    key = read_key(key_env=options.key_env, key_command=options.key_command, env=env)
    if key is None and not _installed("google.auth"):
        raise SettingsError(
            f"{spec.text} has no access token, and the SDK's part for Google credentials is not installed",
            hint='name a token with key_env or key_command, or install it: pip install "anthropic[vertex]"',
        )
    headers = read_headers(options.headers, env)
    host = "aiplatform.googleapis.com" if region == "global" else f"{region}-aiplatform.googleapis.com"
    url = spec.url or f"https://{host}/v1"

    def build(anthropic: Any) -> Any:
        return anthropic.AsyncAnthropicVertex(
            region=region, project_id=project, access_token=key, base_url=url, **_common(anthropic, url, headers)
        )

    return RemoteClient(
        spec=spec,
        wire=messages_wire(),
        options=options,
        redactor=Redactor([*([key] if key else []), *headers.values()]),
        load_sdk=lambda: _sdk(build, signs=True),
        where=f"{url} ({project})",
        retrier=retrier,
    )


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def _no_api_choice(options: ClientOptions) -> None:
    if options.api is not None:
        raise SettingsError("the option api belongs to openai: models; anthropic, bedrock and vertex have one API")
