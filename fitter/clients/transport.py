"""One HTTP request through a vendor's SDK, and the connections behind it.

The SDK signs, addresses and sends; its retries are off. Requests go through its general ``post``, which hands out the
unread HTTP answer: the typed methods walk the body against their type hints, and wrap the answer, on every call. Bodies
are read below the SDK, bounded (body.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fitter.clients.body import Exchange, read_bounded
from fitter.clients.options import is_loopback
from fitter.clients.retry import Broken
from fitter.clients.secrets import Redactor
from fitter.errors import SettingsError

Vendor: TypeAlias = Literal["openai", "anthropic"]
# The SDK's module and the arguments that every one of its clients gets; returns the async client.
Build: TypeAlias = Callable[[Any, dict[str, Any]], Any]

_BASES: Mapping[Vendor, str] = {"openai": "OpenAIError", "anthropic": "AnthropicError"}
_LOGGERS = ("openai", "anthropic", "httpx2", "httpcore2", "httpx", "httpcore")
_answer: contextvars.ContextVar[list[Exchange]] = contextvars.ContextVar("fitter_http_answer")


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """What is needed of a vendor's SDK.

    Attributes:
        open: builds an async client around a fresh HTTP client.
        answer: the type of an HTTP answer, which the SDK returns unread when it is asked for it.
        timeout, connection, base: its exception classes, narrow to wide.
        signs: requests are signed with credentials found at call time (AWS, Google), which can fail outside the SDK's
            own exceptions.
    """

    open: Callable[[], Any]
    answer: type[Any]
    timeout: type[Exception]
    connection: type[Exception]
    base: type[Exception]
    signs: bool = False


def load_sdk(vendor: Vendor, build: Build, *, url: str, headers: Mapping[str, str], signs: bool = False) -> Sdk:
    """Imports a vendor's SDK.

    Its clients get the SDK's own default HTTP client, with no proxy to this machine, no redirects and bounded error
    bodies. They share one TLS context: reading the machine's certificates takes 20 ms.

    Args:
        vendor: which SDK.
        build: makes a client of it.
        url: the server, to see whether it is this machine.
        headers: extra headers, resolved.
        signs: as in :class:`Sdk`.
    """
    sdk: Any = importlib.import_module(vendor)
    http: Any = importlib.import_module("httpx2")
    for name in _LOGGERS:  # at DEBUG they write requests, and with them customer text, to the log
        logging.getLogger(name).setLevel(logging.WARNING)
    trust_env = not is_loopback(url)
    tls = http.create_ssl_context(trust_env=trust_env)

    def fresh() -> Any:
        client = sdk.DefaultAsyncHttpxClient(
            verify=tls, trust_env=trust_env, follow_redirects=False, event_hooks={"response": [_stop_on_error]}
        )
        # Compressed answers are read all the same, but none is asked for.
        sent = {"accept-encoding": "identity", **headers}
        return build(sdk, {"max_retries": 0, "default_headers": sent, "http_client": client})

    return Sdk(
        open=fresh,
        answer=http.Response,
        timeout=sdk.APITimeoutError,
        connection=sdk.APIConnectionError,
        base=getattr(sdk, _BASES[vendor]),
        signs=signs,
    )


async def _stop_on_error(response: Any) -> None:
    """Response hook of the HTTP client: reads the body of a status of 300 and above, bounded, before the SDK does.

    The SDK would read it whole, however large, and would follow what it says.
    """
    if response.status_code < 300:
        return
    _answer.get().append(await read_bounded(response.status_code, response.headers, response.aiter_raw()))
    raise _Answered


class _Answered(Exception):
    """The error body has been read; it waits in the call's context."""


class Transport:
    """HTTP requests to one server through its vendor's SDK.

    Every call in flight has an SDK client, and so a connection, to itself: a shared pool looks at all its connections
    for each request. The client last given back is taken first, so that there are never more than calls at once.
    Connections belong to an event loop; after :meth:`aclose` the next loop opens its own.

    Args:
        load: imports the SDK, at the first call.
        redactor: for what the SDK's exceptions say.
        spec: the user's spec, for messages.
    """

    def __init__(self, load: Callable[[], Sdk], redactor: Redactor, spec: str) -> None:
        self._load = load
        self._redactor = redactor
        self._spec = spec
        self._sdk: Sdk | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: list[Any] = []
        self._free: list[Any] = []

    def ready(self) -> Sdk:
        """The SDK, imported."""
        if self._sdk is None:
            self._sdk = self._load()
        return self._sdk

    async def post(self, path: str, body: Mapping[str, Any], seconds: float) -> Exchange:
        """One request and its answer, whatever the status.

        Args:
            path: of the API, relative to the server's address.
            body: plain JSON.
            seconds: the SDK's timeouts; the deadline of the whole is the caller's.

        Raises:
            Broken: no whole answer came.
            SettingsError: the request could not be built or signed.
        """
        sdk = self.ready()
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._open, self._free = loop, [], []
        free = self._free
        if not free:
            free.append(sdk.open())
            self._open.append(free[-1])
        client = free.pop()
        answers: list[Exchange] = []
        token = _answer.set(answers)
        try:
            answer = await client.post(path, cast_to=sdk.answer, body=body, options={"timeout": seconds}, stream=True)
            try:
                return await read_bounded(answer.status_code, answer.headers, answer.aiter_raw())
            except Exception as fault:
                raise self._broken(fault) from None
            finally:
                await answer.aclose()
        except Broken:
            raise
        except (_Answered, sdk.base) as fault:
            if answers:
                return answers[0]
            if isinstance(fault, sdk.timeout | sdk.connection):
                raise self._broken(fault) from None
            raise SettingsError(f"{self._spec}: {self._redactor.words(str(fault))}") from None
        except Exception as fault:
            if answers:
                return answers[0]
            if sdk.signs:
                raise SettingsError(
                    f"{self._spec}: the request could not be signed: {self._redactor.words(str(fault))}",
                    hint="check the cloud credentials of this machine",
                ) from None
            raise
        finally:
            _answer.reset(token)
            free.append(client)

    def _broken(self, fault: Exception) -> Broken:
        root = fault.__cause__ or fault
        names = {type(fault).__name__, type(root).__name__}
        silent = isinstance(fault, TimeoutError) or any(name.endswith(("Timeout", "TimeoutError")) for name in names)
        words = self._redactor.detail(str(root), 160)
        message = f"{type(root).__name__}: {words}" if words else type(root).__name__
        return Broken("timeout" if silent else "connection", message)

    async def aclose(self) -> None:
        """Closes the connections of the running loop; a later call opens new ones."""
        clients, loop = self._open, self._loop
        self._loop, self._open, self._free = None, [], []
        if loop is asyncio.get_running_loop():
            for client in clients:
                with contextlib.suppress(OSError, RuntimeError):
                    await client.close()
