"""The MCP client: tools over streamable HTTP, with an allow-list, the platform's fair-use limit and readable errors.

The `mcp` package is an extra (``judge-fitter[datadog-mcp]``). It is asynchronous; its session lives in one background
thread, so that everything else here stays plain calls. Tools outside the allow-list are refused before they are sent,
and the known write tools are switched off in the endpoint's URL as well (GT-1).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from fitter.clients.options import is_loopback
from fitter.errors import FitterError, Outage, RunError, SettingsError
from fitter.queues.datadog_http import Refused, Retry, error_text, parse, refusal
from fitter.queues.datadog_site import Access
from fitter.queues.datadog_tools import DENIED_TOOLS

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

FAIR_USE: Final = (50, 10.0)  # calls, seconds: what the platform allows in a burst
_INTENT: Final = "fit an evaluator to human annotations (read) and publish it disabled"
_MAX_EVENT: Final = 512 << 20
_NOT_FOUND: Final = ("not found", "no spans found", "not_found", "unknown_dataset")
_LIMITED: Final = ("too many requests", "rate limit")


def fair_use(env: Mapping[str, str]) -> tuple[int, float] | None:
    """The limit to keep to: the platform's, or ``DD_LLMOBS_MCP_CALLS`` calls in 10 seconds; 0 is none.

    Raises:
        SettingsError: the variable is no number of calls.
    """
    given = env.get("DD_LLMOBS_MCP_CALLS", "").strip()
    if not given:
        return FAIR_USE
    if not (given.isascii() and given.isdigit() and len(given) <= 6):
        raise SettingsError("DD_LLMOBS_MCP_CALLS is no number of calls in 10 seconds", hint="e.g. 50; 0 for no limit")
    return (int(given), FAIR_USE[1]) if int(given) else None


class McpTools:
    """Tools over MCP (implements ``Tools``).

    Args:
        access: site and keys.
        allow: tool names that may be called.
        endpoint: URL without query; None for the site's own.
        retry: patience.
        rate: (calls, seconds) of the fair-use limit, None for none.
        timeout_s: deadline of one call.

    Raises:
        SettingsError: the site has no MCP server, or the package is not installed.
    """

    road = "MCP"

    def __init__(
        self,
        access: Access,
        allow: frozenset[str],
        *,
        endpoint: str | None = None,
        retry: Retry | None = None,
        rate: tuple[int, float] | None = FAIR_USE,
        timeout_s: float = 60.0,
    ) -> None:
        url = endpoint or access.site.mcp
        if url is None:
            raise SettingsError(
                f"the site {access.site.name} has no MCP server", hint="use --backend rest: it reads and publishes too"
            )
        try:
            import mcp  # noqa: F401
        except ImportError:
            raise SettingsError(
                "--backend mcp needs a package that is not installed",
                hint="pip install 'judge-fitter[datadog-mcp]', or use --backend rest",
            ) from None
        query = urlencode({"toolsets": "llmobs", "omit_tools": ",".join(sorted(set(DENIED_TOOLS) - allow))})
        self._url = f"{url}?{query}"
        self._origin = url
        self._access = access
        self._allow = allow
        self._retry = retry or Retry()
        self._rate = rate
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._recent: deque[float] = deque()
        self._stack: ExitStack | None = None
        self._portal: BlockingPortal | None = None
        self._client: Any = None
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._failed: tuple[int, str, str | None] | None = None  # last bad HTTP reply: status, body, reset

    def call(self, tool: str, args: Mapping[str, Any], *, what: str) -> Any:
        """See ``Tools``."""
        if tool not in self._allow:
            raise RunError(f"refused to call the tool {tool}: it is not on this client's allow-list")
        broken = limited = 0
        while True:
            try:
                self._connect(what)
                result = self._send(tool, self._arguments(tool, args))
            except _Limited as fault:
                limited += 1
                if limited > self._retry.limited:
                    raise Outage(f"{what}: Datadog's MCP rate limit did not clear in {limited} tries") from None
                self._retry.sleep(self._wait(fault.reset, limited))
            except _Broken as fault:
                broken += 1
                self.close()
                if broken > self._retry.retries:
                    raise Outage(f"{what}: Datadog's MCP server cannot be reached: {fault}") from None
                self._retry.sleep(self._wait(None, broken))
            else:
                outcome = self._outcome(tool, result, what)
                if outcome is not _AGAIN:
                    return outcome
                limited += 1
                if limited > self._retry.limited:
                    raise Outage(f"{what}: Datadog's MCP rate limit did not clear in {limited} tries")
                self._retry.sleep(self._wait(None, limited))

    def close(self) -> None:
        """Ends the session and its thread."""
        with self._lock:
            stack, self._stack, self._client, self._portal = self._stack, None, None, None
            if stack is not None:
                try:
                    stack.close()
                except BaseExceptionGroup as fault:  # what broke the session is already reported
                    if fault.split(Exception)[1] is not None:
                        raise
                except Exception:
                    pass

    # session
    def _connect(self, what: str) -> None:
        with self._lock:
            if self._client is not None:
                return
            from anyio.from_thread import start_blocking_portal

            self._failed = None
            stack = ExitStack()
            try:
                portal = stack.enter_context(start_blocking_portal())
                client = stack.enter_context(portal.wrap_async_context_manager(self._session()))
                listed = portal.call(client.list_tools)
            except BaseException as fault:
                self._stack = stack
                self.close()
                if not isinstance(fault, Exception):
                    raise
                raise self._explain(fault, what) from None
            self._stack, self._portal, self._client = stack, portal, client
            self._schemas = {tool.name: tool.input_schema or {} for tool in listed.tools}
            absent = sorted(self._allow - set(self._schemas))
            if absent:
                self.close()
                raise SettingsError(
                    f"Datadog's MCP server does not offer {', '.join(absent)}",
                    hint="the application key needs mcp_read (mcp_write to publish) and the product's permissions; or "
                    "use --backend rest",
                )

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        import httpx2
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client

        async def watch(response: httpx2.Response) -> None:
            # The transport reports a bad status as a bare "error response"; people need to know which one.
            if response.status_code >= 400 and response.request.method == "POST":
                await response.aread()
                reset = response.headers.get("x-ratelimit-reset")
                self._failed = (response.status_code, response.text[:20_000], reset)

        async with httpx2.AsyncClient(
            headers=self._access.mcp_headers(),
            timeout=self._timeout_s,
            trust_env=not is_loopback(self._origin),
            event_hooks={"response": [watch]},
        ) as http:
            transport = streamable_http_client(self._url, http_client=http, max_sse_event_size=_MAX_EVENT)
            # "legacy" is the handshake of the protocol version that the platform documents.
            async with Client(transport, mode="legacy", cache=None, read_timeout_seconds=self._timeout_s) as client:
                yield client

    def _send(self, tool: str, args: dict[str, Any]) -> Any:
        # One call at a time: a bad status is reported beside the call, and must not be taken for another call's. Fair
        # use leaves little to gain from more.
        with self._lock:
            self._hold()
            self._failed = None
            if self._portal is None:
                raise _Broken("the session ended")
            try:
                return self._portal.call(self._client.call_tool, tool, args)
            except Exception as fault:
                raise self._explain(fault, f"calling {tool}") from None

    def _explain(self, fault: Exception, what: str) -> Exception:
        """The real cause of a failed exchange: the last bad HTTP reply, if there was one."""
        if isinstance(fault, FitterError):
            return fault
        if self._failed is None:
            return _Broken(self._access.redact.detail(str(fault) or type(fault).__name__))
        status, body, reset = self._failed
        if status == 429:
            return _Limited(reset)
        if status >= 500 or status == 408:
            return _Broken(error_text(status, body, self._access))
        if status == 404:
            return SettingsError(
                f"{what}: there is no MCP server at {self._origin}",
                hint="some sites still use another path: set DD_LLMOBS_MCP_PATH=/api/unstable/mcp-server/mcp",
            )
        return refusal(status, body, self._access, what)

    # calls
    def _arguments(self, tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
        schema = self._schemas.get(tool, {})
        known = schema.get("properties")
        known = known if isinstance(known, Mapping) else {}
        out = dict(args)
        if not known or "telemetry" in known or schema.get("additionalProperties") is not False:
            out["telemetry"] = {"intent": _INTENT}
        strange = sorted(set(out) - set(known)) if schema.get("additionalProperties") is False else []
        if strange:
            # Left out, it would change the answer without a word: a default time window, a lost field.
            raise RunError(f"Datadog's tool {tool} no longer takes {', '.join(strange)}", hint="use --backend rest")
        return out

    def _outcome(self, tool: str, result: Any, what: str) -> Any:
        texts = [block.text for block in result.content if getattr(block, "type", None) == "text"]
        if result.is_error:
            said = "\n".join(texts)
            low = said.lower()
            detail = error_text(400, said, self._access)
            if any(mark in low for mark in _LIMITED):
                return _AGAIN
            if '"unauthorized"' in low or '"forbidden"' in low:
                raise refusal(401 if "unauthorized" in low else 403, said, self._access, what)
            status = 404 if any(mark in low for mark in _NOT_FOUND) else 400
            raise Refused(f"{what}: Datadog's tool {tool} answers: {detail}", status=status, detail=detail)
        if not texts and isinstance(result.structured_content, dict):
            return result.structured_content
        body = "".join(texts)
        if not body.strip():
            return None
        try:
            return parse(body, what)
        except RunError as fault:
            hint = "the server cuts large results; use --backend rest for this queue"
            raise RunError(fault.message, hint=hint) from None

    def _hold(self) -> None:
        """Fair use: never more than ``rate`` calls in its span."""
        if self._rate is None:
            return
        calls, span = self._rate
        now = time.monotonic()
        while self._recent and now - self._recent[0] >= span:
            self._recent.popleft()
        wait = span - (now - self._recent[0]) if len(self._recent) >= calls else 0.0
        if len(self._recent) >= calls:
            self._recent.popleft()
        self._recent.append(now + wait)
        if wait > 0:
            self._retry.sleep(wait)

    def _wait(self, reset: str | None, turn: int) -> float:
        try:
            wait = float(reset or "")
        except ValueError:
            wait = self._retry.base_s * 2.0 ** (turn - 1)
        return min(max(wait, 0.0), self._retry.longest_s) if wait == wait else self._retry.base_s


_AGAIN: Final = object()


class _Limited(Exception):
    def __init__(self, reset: str | None) -> None:
        super().__init__("rate limit")
        self.reset = reset


class _Broken(Exception):
    pass
