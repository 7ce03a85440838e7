"""The journal's one table: schema, migrations, and rows to records and back. Only journal.py uses it."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fitter.calls.record import RAW_CAP, CallRecord
from fitter.errors import UserError

# Append-only: a published migration is never edited, a new one is added below it. PRAGMA user_version counts them.
_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE calls (
            id INTEGER PRIMARY KEY, key TEXT NOT NULL, run_id TEXT NOT NULL, phase TEXT NOT NULL, role TEXT NOT NULL,
            row TEXT NOT NULL, run INTEGER NOT NULL, attempt INTEGER NOT NULL, spec TEXT NOT NULL,
            instrument TEXT NOT NULL, request_hash TEXT NOT NULL, outcome TEXT NOT NULL, fault TEXT, model TEXT,
            text BLOB NOT NULL, detail TEXT NOT NULL, raw BLOB NOT NULL, raw_sha256 TEXT NOT NULL,
            raw_bytes INTEGER NOT NULL, input_tokens INTEGER, cached_tokens INTEGER, output_tokens INTEGER,
            reasoning_tokens INTEGER, latency_s REAL NOT NULL, at REAL NOT NULL)""",
        # One answer a key. A call that never got an answer is on record (it may have cost something) and does not
        # stand in the way of the next one.
        "CREATE UNIQUE INDEX one_answer ON calls(key) WHERE outcome <> 'unavailable'",
        "CREATE INDEX by_run ON calls(run_id, id)",
        "CREATE TRIGGER never_changed BEFORE UPDATE ON calls BEGIN SELECT RAISE(ABORT, 'calls are append-only'); END",
        "CREATE TRIGGER never_deleted BEFORE DELETE ON calls BEGIN SELECT RAISE(ABORT, 'calls are append-only'); END",
    ),
)

_COLUMNS: Final = (
    "key", "run_id", "phase", "role", "row", "run", "attempt", "spec", "instrument", "request_hash", "outcome", "fault",
    "model", "text", "detail", "raw", "raw_sha256", "raw_bytes", "input_tokens", "cached_tokens", "output_tokens",
    "reasoning_tokens", "latency_s", "at",
)  # fmt: skip
_SELECT: Final = ", ".join(_COLUMNS)
_NO_BODIES: Final = _SELECT.replace(" text,", " X'00' AS text,").replace(" raw,", " X'00' AS raw,")
_FIRST_WINS: Final = "ON CONFLICT (key) WHERE outcome <> 'unavailable' DO NOTHING"
_PLAIN, _ZLIB = b"\x00", b"\x01"
_PACK_FROM = 1024
# Rows an INSERT: few long statements, because every step of SQLite hands the interpreter lock away and then has to wait
# for it. 32 rows stay below the 999 variables of older SQLite builds.
_CHUNKS: Final = (32, 8, 1)
_IN = 500
_PAGE = 1000


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Brings the file to this version, all or nothing, safe against a second process doing the same.

    Raises:
        UserError: a newer fitter wrote the file.
    """
    if _version(connection) == len(_MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        if version > len(_MIGRATIONS):
            raise UserError(
                f"{path} was written by a newer fitter (format {version}, this one knows {len(_MIGRATIONS)})",
                hint="upgrade judge-fitter, or use another workspace",
            )
        for number, statements in enumerate(_MIGRATIONS[version:], start=version + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def insert(connection: sqlite3.Connection, records: Sequence[CallRecord]) -> list[tuple[CallRecord, CallRecord]]:
    """Inserts calls in order; one whose key already has an answer is left out: the first writer wins.

    Returns:
        (ours, stored) for every call left out whose stored answer differs from ours.
    """
    before = connection.total_changes
    one = "(" + ",".join("?" * len(_COLUMNS)) + ")"
    at = 0
    for size in _CHUNKS:
        while len(records) - at >= size:
            values = [value for record in records[at : at + size] for value in _values(record)]
            rows = ",".join([one] * size)
            connection.execute(f"INSERT INTO calls ({_SELECT}) VALUES {rows} {_FIRST_WINS}", values)
            at += size
    if connection.total_changes - before == len(records):
        return []
    offered = [record for record in records if record.outcome != "unavailable"]
    stored = get_many(connection, [record.key for record in offered])
    return [(mine, stored[mine.key]) for mine in offered if not mine.same_answer(stored[mine.key])]


def get_many(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, CallRecord]:
    """Answers by key."""
    found: dict[str, CallRecord] = {}
    for at in range(0, len(keys), _IN):
        part = keys[at : at + _IN]
        # Padded to one statement length, so that SQLite's statement cache has one entry for all sizes.
        marks = ",".join("?" * _IN)
        for row in connection.execute(
            f"SELECT {_SELECT} FROM calls WHERE outcome <> 'unavailable' AND key IN ({marks})",
            [*part, *[""] * (_IN - len(part))],
        ):
            found[row[0]] = _record(row)
    return found


def page(connection: sqlite3.Connection, run_id: str, *, after: int, bodies: bool) -> list[tuple[int, CallRecord]]:
    """The next calls of a fit in the order written, as (id, record)."""
    columns = _SELECT if bodies else _NO_BODIES
    rows = connection.execute(
        f"SELECT id, {columns} FROM calls WHERE run_id = ? AND id > ? ORDER BY id LIMIT {_PAGE}", (run_id, after)
    )
    return [(row[0], _record(row[1:])) for row in rows]


def count(connection: sqlite3.Connection, run_id: str) -> int:
    """Number of calls of a fit."""
    return int(connection.execute("SELECT count(*) FROM calls WHERE run_id = ?", (run_id,)).fetchone()[0])


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _pack(data: bytes) -> bytes:
    return _PLAIN + data if len(data) < _PACK_FROM else _ZLIB + zlib.compress(data, 1)


def _unpack(data: bytes) -> bytes:
    return zlib.decompress(data[1:]) if data[:1] == _ZLIB else data[1:]


def _clean(text: str) -> str:
    """SQLite's text cannot hold lone surrogates; escaped, they stay readable."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _values(r: CallRecord) -> tuple[Any, ...]:
    model = None if r.model is None else _clean(r.model)
    text = _pack(r.text.encode("utf-8", "surrogatepass"))
    return (
        r.key, r.run_id, r.phase, r.role, _clean(r.row), r.run, r.attempt, r.spec, r.instrument, r.request_hash,
        r.outcome, r.fault, model, text, _clean(r.detail), _pack(r.raw[:RAW_CAP]), r.raw_sha256, r.raw_bytes,
        r.input_tokens, r.cached_tokens, r.output_tokens, r.reasoning_tokens, r.latency_s, r.at,
    )  # fmt: skip


def _record(row: Sequence[Any]) -> CallRecord:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["text"] = _unpack(values["text"]).decode("utf-8", "surrogatepass")
    values["raw"] = _unpack(values["raw"])
    return CallRecord(**values)
