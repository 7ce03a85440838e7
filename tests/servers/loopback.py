"""A real HTTP/1.1 server on a loopback port that answers as scripted, well or badly.

A script is a callable ``Asked -> Play``: it sees the request (and its number) and says what goes over the socket, to
the byte: delays, single bytes, half-closed and reset connections, silence. Every request is recorded. It runs its own
event loop in a thread; ``python -m tests.servers.serve`` runs one as a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as received.

    Attributes:
        number: 0 for the server's first request, in order of arrival.
        path: with its query.
        headers: names in lower case.
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Play:
    """What goes over the socket.

    Attributes:
        status: HTTP status.
        headers: extra headers; ``content-length`` is added unless given here.
        body: bytes, or a function that yields them piece by piece (50 MB need not lie in memory).
        before_s: seconds before the first byte.
        piece: bytes written at once; None: all.
        gap_s: seconds between pieces.
        stop_after: after so many body bytes ``ending`` happens; None: after the whole.
        ending: ``keep`` the connection; ``close`` it; ``reset`` it (RST); ``half``-close it and linger; ``silence``:
            keep it open and say no more.
        no_answer: do ``ending`` without a status line.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Callable[[], Iterator[bytes]] = b""
    before_s: float = 0.0
    piece: int | None = None
    gap_s: float = 0.0
    stop_after: int | None = None
    ending: Literal["keep", "close", "reset", "half", "silence"] = "keep"
    no_answer: bool = False


Script = Callable[[Asked], Play]


def answer(value: Any, *, status: int = 200, **rest: Any) -> Play:
    """A JSON answer."""
    headers = {"content-type": "application/json", **rest.pop("headers", {})}
    return Play(status=status, body=json.dumps(value, ensure_ascii=False).encode(), headers=headers, **rest)


def with_faults(script: Script, *faults: tuple[Callable[[Asked], bool], Callable[[Play], Play]]) -> Script:
    """A script some of whose answers are spoilt: (when, how) pairs, the first that applies."""

    def spoilt(asked: Asked) -> Play:
        play = script(asked)
        for when, how in faults:
            if when(asked):
                return how(play)
        return play

    return spoilt


class Server:
    """The server; a context manager. ``script`` may be replaced while it runs; with ``tls`` it speaks HTTPS."""

    def __init__(self, script: Script, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self.connections = 0
        self._port = port
        self._tls = tls
        self._open = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="stand-in")
        self.port = 0
        self.errors: list[BaseException] = []

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the stand-in did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self.errors:
            raise self.errors[0]

    def close(self) -> None:
        """Stops listening and drops every connection."""
        if self._stop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            self.connections += 1
            try:
                await self._talk(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            except BaseException as fault:
                self.errors.append(fault)
            finally:
                tasks.discard(task)
                with contextlib.suppress(ConnectionError, RuntimeError):
                    writer.close()

        server = await asyncio.start_server(welcome, "127.0.0.1", self._port, limit=2**20, backlog=512, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = Asked(number=len(self.asked), method=method, path=path, headers=headers, body=body)
            self.asked.append(asked)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
            try:
                keep = await self._play(self.script(asked), writer)
            finally:
                self._open -= 1
            if not keep:
                return

    async def _play(self, play: Play, writer: asyncio.StreamWriter) -> bool:
        if play.before_s:
            await asyncio.sleep(play.before_s)
        if not play.no_answer:
            whole = isinstance(play.body, bytes)
            headers = {k.lower(): v for k, v in play.headers.items()}
            if whole and "content-length" not in headers and "transfer-encoding" not in headers:
                headers["content-length"] = str(len(play.body))  # type: ignore[arg-type]
            if not whole:
                headers.setdefault("connection", "close")
            lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
            writer.write(f"HTTP/1.1 {play.status} Scripted\r\n{lines}\r\n".encode("latin-1", "replace"))
            written = 0
            async for piece in self._pieces(play):
                if play.stop_after is not None:
                    piece = piece[: play.stop_after - written]
                writer.write(piece)
                written += len(piece)
                await writer.drain()
                if play.stop_after is not None and written >= play.stop_after:
                    break
                if play.gap_s:
                    await asyncio.sleep(play.gap_s)
            await writer.drain()
            if not whole and play.ending == "keep":
                return False
        return await self._end(play.ending, writer)

    @staticmethod
    async def _pieces(play: Play) -> AsyncIterator[bytes]:
        if not isinstance(play.body, bytes):
            for piece in play.body():
                yield piece
            return
        step = play.piece or len(play.body) or 1
        for start in range(0, len(play.body), step):
            yield play.body[start : start + step]

    @staticmethod
    async def _end(ending: str, writer: asyncio.StreamWriter) -> bool:
        if ending == "keep":
            return True
        if ending == "silence":
            await asyncio.sleep(3600)
        if ending == "half":
            with contextlib.suppress(OSError):
                writer.write_eof()
            await asyncio.sleep(3600)
        if ending == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False


def zeros(megabytes: int) -> Callable[[], Iterator[bytes]]:
    """A body of so many megabytes of spaces, a piece at a time."""

    def pieces() -> Iterator[bytes]:
        block = b" " * (1024 * 1024)
        for _ in range(megabytes):
            yield block

    return pieces


def spoil(play: Play, **changes: Any) -> Play:
    """The same play with something changed."""
    return replace(play, **changes)
