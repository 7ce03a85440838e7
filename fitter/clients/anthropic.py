"""Anthropic Messages through the ``anthropic`` SDK: direct, on Bedrock, on Vertex."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any

from fitter.clients.opening import extra_headers, named_key, open_remote
from fitter.clients.options import ClientOptions, Spec, same_host
from fitter.clients.remote import RemoteClient
from fitter.clients.retry import Retrier
from fitter.clients.secrets import read_key
from fitter.clients.wires import messages_wire
from fitter.errors import SettingsError

ANTHROPIC_URL = "https://api.anthropic.com"


def open_anthropic(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``anthropic:MODEL`` or ``anthropic:MODEL@URL`` (ANTHROPIC_API_KEY goes to Anthropic only).

    Raises:
        SettingsError: no key for Anthropic, or an option that cannot be met.
    """
    headers = _headers(options, env)
    url = spec.url or ANTHROPIC_URL
    direct = spec.url is None or same_host(spec.url, ANTHROPIC_URL)
    key = named_key(spec, options, env, own="ANTHROPIC_API_KEY" if direct else None)
    access = {"api_key": key or "none", "base_url": url}
    return _open("AsyncAnthropic", access, spec=spec, options=options, headers=headers, key=key, retrier=retrier)


def open_bedrock(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``bedrock:MODEL``: a bearer key (AWS_BEARER_TOKEN_BEDROCK or key_env), else this machine's AWS credentials.

    Raises:
        SettingsError: no region, or AWS credentials without the SDK's AWS extra.
    """
    headers = _headers(options, env)
    region = options.region or env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    if not region:
        raise SettingsError(f"{spec.text} needs a region", hint="give the option region, or set AWS_REGION")
    key = read_key(key_env=options.key_env or "AWS_BEARER_TOKEN_BEDROCK", key_command=options.key_command, env=env)
    if key is None and not _installed("botocore"):
        raise SettingsError(
            f"{spec.text} has no bearer key, and AWS credentials need the SDK's AWS part, which is not installed",
            hint='set AWS_BEARER_TOKEN_BEDROCK, or install it: pip install "anthropic[bedrock]"',
        )
    url = spec.url or f"https://bedrock-runtime.{region}.amazonaws.com"
    return _open(
        "AsyncAnthropicBedrock",
        {"api_key": key, "aws_region": region, "base_url": url},
        spec=spec,
        options=options,
        headers=headers,
        key=key,
        secrets=[env.get(n, "") for n in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")],
        signs=True,
        retrier=retrier,
    )


def open_vertex(spec: Spec, options: ClientOptions, env: Mapping[str, str], retrier: Retrier | None) -> RemoteClient:
    """``vertex:MODEL``: an access token (key_env or key_command), else this machine's Google credentials.

    Raises:
        SettingsError: no region or project, or Google credentials without the SDK's Google extra.
    """
    headers = _headers(options, env)
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
    host = "aiplatform.googleapis.com" if region == "global" else f"{region}-aiplatform.googleapis.com"
    url = spec.url or f"https://{host}/v1"
    return _open(
        "AsyncAnthropicVertex",
        {"region": region, "project_id": project, "access_token": key, "base_url": url},
        spec=spec,
        options=options,
        headers=headers,
        key=key,
        where=f"{url} ({project})",
        signs=True,
        retrier=retrier,
    )


def _open(
    client: str,
    access: Mapping[str, Any],
    *,
    spec: Spec,
    options: ClientOptions,
    headers: Mapping[str, str],
    key: str | None,
    retrier: Retrier | None,
    where: str | None = None,
    secrets: Iterable[str] = (),
    signs: bool = False,
) -> RemoteClient:
    """One of the SDK's clients, by the name of its class."""

    def build(sdk: Any, shared: dict[str, Any]) -> Any:
        # SC-3: nothing leaves the machine but the call.
        return getattr(sdk, client)(**access, **shared, open_telemetry=False)

    return open_remote(
        "anthropic",
        build,
        spec=spec,
        options=options,
        wire=messages_wire(),
        url=access["base_url"],
        headers=headers,
        key=key,
        where=where,
        secrets=secrets,
        signs=signs,
        retrier=retrier,
    )


def _headers(options: ClientOptions, env: Mapping[str, str]) -> dict[str, str]:
    if options.api is not None:
        raise SettingsError("the option api belongs to openai: models; anthropic, bedrock and vertex have one API")
    return extra_headers("anthropic", options, env)


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
