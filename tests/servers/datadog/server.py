"""The stand-in: one loopback HTTP server with all three surfaces, a record of every request, and violations.

A queue write or an ``enabled: true`` that arrives here is a *violation*: the fixture fails the test that caused it,
whatever the test itself asserted.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from tests.servers.datadog.facade import Facade
from tests.servers.datadog.mcp_side import QUEUE_WRITES, McpSide
from tests.servers.datadog.registry import Registry
from tests.servers.datadog.rest import Rest
from tests.servers.datadog.switches import Switches
from tests.servers.datadog.wire import Refusal, Reply, Request
from tests.servers.datadog.world import World

MCP_PATHS = ("/v1/mcp", "/api/unstable/mcp-server/mcp")


def _enabled(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("enabled") is True or any(_enabled(v) for v in value.values())
    return isinstance(value, list) and any(_enabled(v) for v in value)


class StandIn:
    """Start it with ``with StandIn(...) as server``; set ``server.switches`` and ``server.world`` before calls."""

    def __init__(self, world: World | None = None, switches: Switches | None = None) -> None:
        self.world = world or World()
        self.switches = switches or Switches()
        self.requests: list[Request] = []
        self.tool_calls: list[tuple[str, dict[str, Any]]] = []
        self.violations: list[str] = []
        self.count = 0
        registry = Registry(self.world, self.switches)
        self.registry = registry
        self.rest = Rest(self.world, self.switches, registry)
        self.facade = Facade(self.world, self.switches, registry, self.rest, "now-1h")
        tools = Facade(self.world, self.switches, registry, self.rest, "now-1d")
        self.mcp = McpSide(tools, self.rest, self.switches, self._tool_called)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    # life
    def __enter__(self) -> StandIn:
        # IPPROTO_TCP by name: asyncio sets TCP_NODELAY only then, and without it every reply waits 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app, interface="asgi3", log_level="critical", lifespan="on", ws="none", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            if time.monotonic() > deadline:
                raise RuntimeError("the stand-in did not start")
            time.sleep(0.005)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._thread.join(timeout=10)

    def reset(self) -> None:
        """As new: an empty world, default switches, nothing recorded. Starting a server for each test costs more."""
        vars(self.world).update(vars(World()))
        vars(self.switches).update(vars(Switches()))
        self.registry.reset()
        self.mcp.calls = self.count = 0
        self.mcp.manager.json_response = True
        for record in (self.requests, self.tool_calls, self.violations):
            record.clear()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def env(self, **more: str) -> dict[str, str]:
        """The environment a user would have set."""
        return {
            "DD_API_KEY": self.switches.api_key,
            "DD_APP_KEY": self.switches.app_key,
            "DD_LLMOBS_OVERRIDE_ORIGIN": self.origin,
            **more,
        }

    def calls(self, method: str, part: str) -> list[Request]:
        return [r for r in self.requests if r.method == method and part in r.path]

    # ASGI
    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        raw = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            raw += message.get("body", b"")
            more = message.get("more_body", False)
        body: Any = None
        with contextlib.suppress(ValueError):
            body = json.loads(raw) if raw else None
        path = (
            urllib.parse.unquote(scope["path"])
            if "%2F" not in scope.get("raw_path", b"").decode().upper()
            else scope["path"]
        )
        request = Request(scope["method"], path, query, headers, body)
        self._record(request)
        if path in MCP_PATHS:
            reply = self._mcp_gate(request)
            if reply is None:
                sent = False

                async def again() -> Any:
                    nonlocal sent
                    if sent:
                        return await receive()
                    sent = True
                    return {"type": "http.request", "body": raw, "more_body": False}

                await self.mcp.app(scope, again, send)
                return
        else:
            reply = self._rest_reply(request)
        await self._send(reply, send)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        async with self._running():
            while True:
                message = await receive()
                if message["type"] == "lifespan.startup":
                    await send({"type": "lifespan.startup.complete"})
                else:
                    break
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with self.mcp.manager.run():
            yield

    async def _send(self, reply: Reply, send: Any) -> None:
        raw = reply.payload()
        headers = {"content-type": reply.content_type, "content-length": str(len(raw)), **reply.headers}
        if self.switches.limit_headers:
            reset = self.switches.limit_reset
            limits = {"limit": "100", "period": "10", "remaining": "0" if reply.status == 429 else "99", "reset": reset}
            headers |= {f"x-ratelimit-{k}": v for k, v in limits.items()}
        packed = [(k.encode(), v.encode()) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": packed})
        await send({"type": "http.response.body", "body": raw})

    # what arrived
    def _record(self, request: Request) -> None:
        self.requests.append(request)
        queue_path = "annotation-queues" in request.path or "annotated-interactions" in request.path
        writes = request.method not in ("GET", "HEAD")
        if queue_path and writes:
            self.violations.append(f"queue write: {request.method} {request.path}")
        elif request.method == "DELETE" and request.path not in MCP_PATHS:
            self.violations.append(f"delete: {request.path}")
        elif writes and _enabled(request.body):
            self.violations.append(f"enabled: true in {request.method} {request.path}")

    def _tool_called(self, name: str, args: dict[str, Any]) -> None:
        self.tool_calls.append((name, args))
        if name in QUEUE_WRITES or name.startswith("delete_"):
            self.violations.append(f"write tool: {name}")

    # gates
    def _fault(self, request: Request) -> Refusal | None:
        s = self.switches
        if s.fail_path not in request.path:
            return None
        self.count += 1
        if self.count <= s.limit_first or (s.limit_every and self.count % s.limit_every == 0):
            return Refusal(429, "Too many requests")
        if self.count <= s.fail_first:
            return Refusal(s.fail_status, "internal trouble")
        return None

    def _keys(self, request: Request, api: str, app: str) -> Refusal | None:
        headers = request.headers
        if headers.get("authorization", "").startswith("Bearer "):
            return None if headers["authorization"][7:] == self.switches.bearer else Refusal(401, "Unauthorized")
        if headers.get(api) != self.switches.api_key:
            return Refusal(401, "Unauthorized")
        if headers.get(app) != self.switches.app_key or self.switches.forbidden:
            return Refusal(403, "Forbidden")
        return None

    def _rest_reply(self, request: Request) -> Reply:
        secrets = f"{request.headers.get('dd-api-key')} {request.headers.get('dd-application-key')}"
        try:
            if fault := self._keys(request, "dd-api-key", "dd-application-key") or self._fault(request):
                raise fault
            if self.switches.not_json and self.switches.not_json in request.path:
                return Reply(200, "<html>proxy login</html>", "text/html")
            reply = self.rest.handle(request) or self.facade.handle(request)
            if reply is None:
                raise Refusal(404, "not found")
        except Refusal as fault:
            return fault.reply(self.switches, secrets)
        return reply

    def _mcp_gate(self, request: Request) -> Reply | None:
        s = self.switches
        if s.mcp_off or (s.mcp_old_path_only and request.path == "/v1/mcp"):
            return Reply(404, {"errors": ["not found"]}, "application/json")
        if "dd-api-key" in request.headers or "dd-application-key" in request.headers:
            return Reply(403, {"errors": ["Forbidden"]}, "application/json")  # hyphens are the REST spelling
        fault = self._keys(request, "dd_api_key", "dd_application_key") or self._fault(request)
        return fault.reply(s) if fault else None
