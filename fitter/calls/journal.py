"""The call journal: every model call of a workspace in one SQLite file, group-committed (docs/calls.md).

Append-only. A call counts once the group it was committed with is durable (WAL, ``synchronous=FULL``): until
:meth:`Journal.flush` or :meth:`Journal.append` returned, nothing may be concluded from it. One thread owns the writing
connection; groups close after 256 calls or 20 ms, whichever is first, and 50 ms at the latest. Several processes may
share the file: for one key the first writer wins and everybody reads the winner.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from fitter.calls import table
from fitter.calls.record import CallRecord
from fitter.errors import FitterError, RunError, Stopped, Tampered, UserError

GROUP_CALLS = 256
GROUP_SECONDS = 0.05
_LINGER_SECONDS = 0.02
_ROOM = 8 * GROUP_CALLS  # calls handed over and not yet durable, before `room()` makes the caller wait
_BUSY_SECONDS = 30.0


class _Ticket:
    """Something waiting until all that was submitted before it is durable; also wakes on failure."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._future: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def for_loop(self) -> asyncio.Future[None]:
        self._loop = asyncio.get_running_loop()
        self._future = self._loop.create_future()
        return self._future

    def ring(self) -> None:
        self._done.set()
        future, loop = self._future, self._loop
        if future is not None and loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, future)

    def wait(self) -> None:
        self._done.wait()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Journal:
    """A workspace's call journal.

    Use as a context manager, or call :meth:`close`: leaving writes what was submitted.

    Attributes:
        path: the SQLite file.
        conflicts: keys for which another writer had already stored a different answer; the stored one counts.
    """

    def __init__(self, path: Path) -> None:
        """Opens the journal, creating or migrating it.

        Args:
            path: ``Workspace.journal``.

        Raises:
            UserError: the folder or the file cannot be written, or a newer fitter wrote it.
            RunError: the file is not a journal, or is damaged.
        """
        self.path = path
        self.conflicts: set[str] = set()
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._buffer: list[CallRecord] = []
        self._since = 0.0
        self._in_flight = 0
        self._failure: FitterError | None = None
        self._inbox: queue.SimpleQueue[list[CallRecord] | _Ticket | None] = queue.SimpleQueue()
        self._held: list[CallRecord] | None = None  # a group for the commit after this one; the writer's own
        self._reader = _open(path)
        self._writer = threading.Thread(target=self._write_loop, name="fitter-journal", daemon=True)
        self._closed = False
        self._writer.start()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- writing -------------------------------------------------------------------------------------------------

    def submit(self, record: CallRecord) -> None:
        """Hands a call over for writing; it counts after the next :meth:`flush`. Order is kept.

        Raises:
            Stopped: an earlier write failed (disk full, ...): nothing more is taken.
        """
        self._raise_failure()
        with self._lock:
            if self._closed:
                raise RunError("the call journal is closed")
            now = time.monotonic()
            if not self._buffer:
                self._since = now
                self._schedule()
            self._buffer.append(record)
            self._in_flight += 1
            if len(self._buffer) >= GROUP_CALLS or now - self._since >= _LINGER_SECONDS:
                self._hand_over()

    async def room(self) -> None:
        """Waits while too many submitted calls are not durable yet: what a crash could lose stays bounded."""
        if self._in_flight >= _ROOM:
            await self.flush()

    async def flush(self) -> None:
        """Returns when everything submitted so far is durable.

        Raises:
            Stopped: it could not be made durable; says why.
        """
        ticket = _Ticket()
        future = ticket.for_loop()
        self._post(ticket)
        await future
        self._raise_failure()

    def flush_now(self) -> None:
        """:meth:`flush` for callers without an event loop."""
        ticket = _Ticket()
        self._post(ticket)
        ticket.wait()
        self._raise_failure()

    async def append(self, record: CallRecord) -> CallRecord:
        """Writes one call and returns the durable record: the first writer's, if another one was first."""
        self.submit(record)
        await self.flush()
        return self._winner(record)

    def append_now(self, record: CallRecord) -> CallRecord:
        """:meth:`append` for callers without an event loop."""
        self.submit(record)
        self.flush_now()
        return self._winner(record)

    def close(self) -> None:
        """Writes what was submitted and closes the file; a failed write was or will be raised by flush, not here."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._hand_over()
            self._inbox.put(None)
        self._writer.join()
        with self._read_lock:
            self._reader.close()

    # --- reading -------------------------------------------------------------------------------------------------

    def get_many(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """Durable calls by key. An ``unavailable`` call is no answer and is never found: it may be made again."""
        with self._read_lock, self._reading():
            return table.get_many(self._reader, list(keys))

    def get(self, key: str) -> CallRecord | None:
        """One durable call, or None."""
        return self.get_many([key]).get(key)

    def calls(self, run_id: str, *, bodies: bool = False) -> Iterator[CallRecord]:
        """Every durable call of a fit, ``unavailable`` ones too, in the order written.

        Args:
            run_id: the fit.
            bodies: with reply text and raw body; without, both are left empty (the ledger needs neither).
        """
        last = 0
        while True:
            with self._read_lock, self._reading():
                batch = table.page(self._reader, run_id, after=last, bodies=bodies)
            if not batch:
                return
            last = batch[-1][0]
            yield from (record for _, record in batch)

    def count(self, run_id: str) -> int:
        """Number of durable calls of a fit, ``unavailable`` ones too."""
        with self._read_lock, self._reading():
            return table.count(self._reader, run_id)

    # --- inside --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as fault:
            raise _explained(fault, self.path) from fault

    def _winner(self, record: CallRecord) -> CallRecord:
        if record.outcome == "unavailable":
            return record
        stored = self.get(record.key)
        if stored is None:
            raise RunError(f"{self.path}: a call that was just committed cannot be read back")
        return stored

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _schedule(self) -> None:
        """Closes the group after the linger time, when an event loop is there to do it."""
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._tick)

    def _tick(self) -> None:
        with self._lock:
            if self._buffer and time.monotonic() - self._since >= _LINGER_SECONDS * 0.9:
                self._hand_over()

    def _hand_over(self) -> None:
        if self._buffer:
            self._inbox.put(self._buffer)
            self._buffer = []

    def _post(self, ticket: _Ticket) -> None:
        with self._lock:
            if self._closed:
                raise RunError("the call journal is closed")
            self._hand_over()
            self._inbox.put(ticket)

    def _write_loop(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while True:
                group, tickets, last = self._next_group()
                if group and self._failure is None:
                    try:
                        if connection is None:
                            connection = _connect(self.path)
                        self._commit(connection, group)
                    except FitterError as fault:
                        self._failure = fault
                    except sqlite3.Error as fault:
                        self._failure = _explained(fault, self.path)
                    except Exception as fault:  # a defect: whoever waits must hear of it, not hang
                        self._failure = RunError(f"the call journal failed: {type(fault).__name__}: {fault}")
                with self._lock:
                    self._in_flight -= len(group)
                for ticket in tickets:
                    ticket.ring()
                if last:
                    return
        finally:
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()

    def _next_group(self) -> tuple[list[CallRecord], list[_Ticket], bool]:
        """What to commit next: groups that wait together are committed together, up to the limit."""
        group: list[CallRecord] = []
        tickets: list[_Ticket] = []
        entry = self._inbox.get() if self._held is None else self._held
        self._held = None
        while True:
            if entry is None:
                return group, tickets, True
            if isinstance(entry, _Ticket):
                tickets.append(entry)
            elif len(group) + len(entry) > GROUP_CALLS:
                self._held = entry
                return group, tickets, False
            else:
                group += entry
            try:
                entry = self._inbox.get_nowait()
            except queue.Empty:
                return group, tickets, False

    def _commit(self, connection: sqlite3.Connection, group: list[CallRecord]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            lost = table.insert(connection, group)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        for mine, stored in lost:
            if mine.request_hash != stored.request_hash:
                raise Tampered(
                    f"{self.path}: call {mine.key[:12]} is stored for another request",
                    hint="the journal was changed after it was written; start a new fit",
                )
            self.conflicts.add(mine.key)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _open(path: Path) -> sqlite3.Connection:
    """Creates (0600), checks and migrates the file; the reading connection."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # before SQLite: -wal and -shm take over its mode
        try:
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    except OSError as fault:
        raise UserError(
            f"cannot write the call journal {path}: {fault.strerror}",
            hint="choose another folder with --workspace DIR, before the command",
        ) from None
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(path)
        _wal(connection)
        table.migrate(connection, path)
    except sqlite3.Error as fault:
        if connection is not None:
            connection.close()
        raise _explained(fault, path) from fault
    except FitterError:
        if connection is not None:
            connection.close()
        raise
    return connection


def _wal(connection: sqlite3.Connection) -> None:
    """Switches to WAL; SQLite does not wait for others here by itself."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as fault:
            if fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _explained(fault: sqlite3.Error, path: Path) -> FitterError:
    """A SQLite error as one for people."""
    code = getattr(fault, "sqlite_errorcode", 0) & 0xFF
    lost = "answers that were not durable yet are not counted and will be asked for again"
    if code == sqlite3.SQLITE_FULL:
        return Stopped(f"the disk is full: {path} cannot grow; {lost}", hint="make room, then `fitter resume`")
    if code == sqlite3.SQLITE_IOERR:
        return Stopped(
            f"the disk refused a write or read of {path} ({fault}); {lost}",
            hint="check free space, file size limits and the disk, then `fitter resume`",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Stopped(
            f"another process kept {path} locked for {_BUSY_SECONDS:.0f} s; {lost}", hint="then `fitter resume`"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return Stopped(
            f"the call journal {path} cannot be written ({fault}); {lost}",
            hint="make the workspace writable, then `fitter resume`",
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return RunError(
            f"{path} is not a call journal, or is damaged ({fault})",
            hint="move it away; finished runs do not need it, an unfinished one has to be started anew",
        )
    return RunError(f"the call journal {path} failed: {fault}")
