"""From a spec to a client: the only place that knows them all. Nothing heavy is imported before it is chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitter.clients.base import ModelClient
from fitter.clients.options import ClientOptions, make_options, parse_spec
from fitter.clients.retry import Retrier


def open_client(
    spec: str,
    options: ClientOptions | Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    retrier: Retrier | None = None,
) -> ModelClient:
    """Opens the model a spec names; makes no call.

    Args:
        spec: e.g. ``lexicon``, ``openai:gpt-5.4-mini``, ``openai:qwen3@http://127.0.0.1:8000/v1``; docs/models.md.
        options: see :class:`ClientOptions`, or the same as plain data.
        env: where keys are looked up; default: the process's environment.
        retrier: replaces the retry loop and its limiter (tests).

    Raises:
        SettingsError: not a spec, a missing key, an option that does not fit, a package that is not installed.
        BadInput: a ``replay:`` file that cannot be read.
    """
    parsed = parse_spec(spec)
    chosen = options if isinstance(options, ClientOptions) else make_options(options or {})
    env = os.environ if env is None else env
    if parsed.provider == "lexicon":
        from fitter.lexicon.judge import LexiconClient

        return LexiconClient()
    if parsed.provider == "replay":
        from fitter.clients.replay import ReplayClient

        return ReplayClient(parsed.text, Path(parsed.model))
    if parsed.provider == "local":
        from fitter.clients.local import LocalClient

        return LocalClient(parsed, chosen)
    if parsed.provider in ("openai", "azure"):
        from fitter.clients.openai import open_azure, open_openai

        opener = open_openai if parsed.provider == "openai" else open_azure
        return opener(parsed, chosen, env, retrier)
    from fitter.clients.anthropic import open_anthropic, open_bedrock, open_vertex

    others = {"anthropic": open_anthropic, "bedrock": open_bedrock, "vertex": open_vertex}
    return others[parsed.provider](parsed, chosen, env, retrier)
