"""What every opener of a vendor's client does: whose key, which headers, one :class:`RemoteClient`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from fitter.clients.options import ClientOptions, Spec
from fitter.clients.remote import RemoteClient
from fitter.clients.retry import Retrier
from fitter.clients.secrets import Redactor, read_headers, read_key
from fitter.clients.transport import Build, Vendor, load_sdk
from fitter.clients.wires import Wire
from fitter.errors import SettingsError

_CUSTOM_HEADERS: Mapping[Vendor, str] = {"openai": "OPENAI_CUSTOM_HEADERS", "anthropic": "ANTHROPIC_CUSTOM_HEADERS"}


def named_key(spec: Spec, options: ClientOptions, env: Mapping[str, str], *, own: str | None) -> str | None:
    """The key for a server; None where none is named.

    Args:
        spec: for the message.
        options: may name a variable or a command.
        env: the environment.
        own: the variable that holds the vendor's own key, at the vendor's own server only.

    Raises:
        SettingsError: a variable is named, or is the vendor's own, and is not set.
    """
    name = options.key_env or own
    key = read_key(key_env=name, key_command=options.key_command, env=env)
    if key is None and name is not None:
        raise SettingsError(
            f"{spec.text} needs a key, and {name} is not set",
            hint="set it in the environment, or name another with key_env or key_command",
        )
    return key


def extra_headers(vendor: Vendor, options: ClientOptions, env: Mapping[str, str]) -> dict[str, str]:
    """The user's extra headers, resolved.

    Raises:
        SettingsError: one cannot be resolved, or the SDK's own variable for extra headers is set: those would go to
            any server, and change the instrument unseen.
    """
    hidden = _CUSTOM_HEADERS[vendor]
    if env.get(hidden) or os.environ.get(hidden):
        raise SettingsError(
            f"{hidden} is set: its headers would go to the model unseen and unrecorded",
            hint="unset it, and name the headers in fit.toml as env:NAME",
        )
    return read_headers(options.headers, env)


def open_remote(
    vendor: Vendor,
    build: Build,
    *,
    spec: Spec,
    options: ClientOptions,
    wire: Wire,
    url: str,
    headers: Mapping[str, str],
    key: str | None,
    where: str | None = None,
    secrets: Iterable[str] = (),
    signs: bool = False,
    retrier: Retrier | None = None,
) -> RemoteClient:
    """A client whose SDK is imported at its first call.

    Args:
        vendor: whose SDK.
        build: makes the SDK's client.
        spec: the user's spec.
        options: the user's options.
        wire: the API.
        url: the server.
        headers: extra headers; their values and the key are masked in everything that leaves the client.
        key: None for a server without one.
        where: the server as the record names it, if the URL alone does not.
        secrets: further values to mask.
        signs: the SDK signs requests with credentials that it finds itself.
        retrier: replaced in tests.
    """
    return RemoteClient(
        spec=spec,
        wire=wire,
        options=options,
        redactor=Redactor([*([key] if key else []), *headers.values(), *secrets]),
        load_sdk=lambda: load_sdk(vendor, build, url=url, headers=headers, signs=signs),
        where=where or url,
        retrier=retrier,
    )
