"""The call journal: durable, append-only, shared, and clear about what went wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sqlite3
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fitter.calls import journal as journal_module
from fitter.calls import table
from fitter.calls.journal import GROUP_CALLS, Journal
from fitter.calls.record import RAW_CAP, CallRecord, call_key
from fitter.errors import FitterError, RunError, Stopped, Tampered, UserError


def a_call(n: int = 0, **more: Any) -> CallRecord:
    values: dict[str, Any] = {
        "key": f"{n:064x}", "run_id": "fit-1", "phase": "v0", "role": "judge", "row": f"row-{n}", "spec": "test:m",
        "instrument": "i" * 64, "request_hash": f"{n:063x}r", "outcome": "ok", "text": f"answer {n}", "at": 1e9 + n,
    }  # fmt: skip
    return CallRecord(**{**values, **more})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "calls.sqlite"


def stored(path: Path, run_id: str = "fit-1") -> list[CallRecord]:
    with Journal(path) as journal:
        return list(journal.calls(run_id, bodies=True))


def test_append_returns_only_when_another_process_could_read_it(path: Path) -> None:
    async def go() -> None:
        with Journal(path) as journal:
            assert await journal.append(a_call(1)) == a_call(1)
            other = sqlite3.connect(path)
            assert other.execute("SELECT count(*) FROM calls").fetchone() == (1,)
            other.close()

    asyncio.run(go())


def test_many_appends_at_once_share_commits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    real = table.insert
    monkeypatch.setattr(table, "insert", lambda c, g: (groups.append(len(g)), real(c, g))[1])

    async def go() -> None:
        with Journal(path) as journal:
            await asyncio.gather(*(journal.append(a_call(n)) for n in range(600)))

    asyncio.run(go())
    assert sum(groups) == 600
    assert max(groups) <= GROUP_CALLS
    assert len(groups) < 300


def test_submitted_calls_become_durable_by_themselves(path: Path) -> None:
    async def go() -> None:
        with Journal(path) as journal:
            journal.submit(a_call(1))
            until = time.monotonic() + 20
            while not journal.count("fit-1"):
                assert time.monotonic() < until
                await asyncio.sleep(0.005)

    asyncio.run(go())


def test_a_full_group_does_not_wait_for_the_event_loop(path: Path) -> None:
    with Journal(path) as journal:
        for n in range(GROUP_CALLS):
            journal.submit(a_call(n))
        until = time.monotonic() + 20
        while journal.count("fit-1") < GROUP_CALLS:
            assert time.monotonic() < until
            time.sleep(0.005)


def test_order_is_kept_and_closing_writes_everything(path: Path) -> None:
    with Journal(path) as journal:
        for n in range(700):
            journal.submit(a_call(n))
    assert [c.row for c in stored(path)] == [f"row-{n}" for n in range(700)]


def test_without_an_event_loop(path: Path) -> None:
    with Journal(path) as journal:
        assert journal.append_now(a_call(3)) == a_call(3)
        assert journal.get(a_call(3).key) == a_call(3)
        assert journal.get("unknown") is None


def test_room_bounds_what_is_not_durable_yet(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    real = table.insert
    monkeypatch.setattr(table, "insert", lambda c, g: (gate.wait(20), real(c, g))[1])

    async def go() -> int:
        with Journal(path) as journal:
            done = 0

            async def submit_all() -> None:
                nonlocal done
                for n in range(10_000):
                    journal.submit(a_call(n))
                    done += 1
                    await journal.room()

            work = asyncio.create_task(submit_all())
            await asyncio.sleep(0.3)
            waiting_at = done
            gate.set()
            await work
            return waiting_at

    assert asyncio.run(go()) == 8 * GROUP_CALLS


def test_every_field_survives(path: Path) -> None:
    call = a_call(
        1, phase="holdout:v0", role="proposer", run=2, attempt=2, outcome="length", fault="length", model="m-2026",
        text="é\ud800\x00 " * 2000, detail="why", raw=bytes(range(256)) * 40, raw_sha256="d" * 64, raw_bytes=10240,
        input_tokens=1, cached_tokens=0, output_tokens=3, reasoning_tokens=None, latency_s=1.25,
    )  # fmt: skip
    with Journal(path) as journal:
        journal.append_now(call)
    assert stored(path) == [call]
    assert {f.name for f in dataclasses.fields(CallRecord)} == set(table._COLUMNS)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(codec=None), max_size=2000),
    raw=st.binary(max_size=3000),
    row=st.text(max_size=20),
)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, text: str, raw: bytes, row: str) -> None:
    path = tmp_path_factory.mktemp("any") / "calls.sqlite"
    call = a_call(1, text=text, raw=raw, row=row)
    with Journal(path) as journal:
        assert journal.append_now(call) == call


def test_untrusted_names_with_lone_surrogates_are_escaped_not_fatal(path: Path) -> None:
    with Journal(path) as journal:
        got = journal.append_now(a_call(1, model="m\ud800", detail="\udcff"))
    assert (got.model, got.detail) == ("m\\ud800", "\\udcff")


def test_a_large_body_is_capped_and_its_digest_covers_all_of_it(path: Path) -> None:
    with Journal(path) as journal:
        got = journal.append_now(a_call(1, raw=b"x" * (RAW_CAP + 5), raw_sha256="whole", raw_bytes=RAW_CAP + 5))
    assert len(got.raw) == RAW_CAP
    assert (got.raw_sha256, got.raw_bytes) == ("whole", RAW_CAP + 5)
    assert path.stat().st_size < 100_000  # packed


def test_bodies_are_left_out_on_request(path: Path) -> None:
    with Journal(path) as journal:
        journal.append_now(a_call(1, raw=b"body"))
        (bare,) = journal.calls("fit-1")
    assert (bare.text, bare.raw) == ("", b"")
    assert bare.row == "row-1"


def test_calls_of_one_fit_only_in_pages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_PAGE", 3)
    with Journal(path) as journal:
        for n in range(10):
            journal.submit(a_call(n, run_id=f"fit-{n % 2}"))
        journal.flush_now()
        assert [c.row for c in journal.calls("fit-1")] == [f"row-{n}" for n in (1, 3, 5, 7, 9)]
        assert (journal.count("fit-1"), journal.count("fit-9")) == (5, 0)


def test_get_many_asks_in_parts(path: Path) -> None:
    with Journal(path) as journal:
        for n in range(1300):
            journal.submit(a_call(n))
        journal.flush_now()
        found = journal.get_many([a_call(n).key for n in range(0, 2600, 2)])
    assert set(found) == {a_call(n).key for n in range(0, 1300, 2)}


# --- one answer a key ------------------------------------------------------------------------------------------------


def test_the_first_writer_wins_and_a_different_second_answer_is_noticed(path: Path) -> None:
    with Journal(path) as mine, Journal(path) as theirs:
        theirs.append_now(a_call(1, text="theirs"))
        assert mine.append_now(a_call(1, text="mine")).text == "theirs"
        assert mine.conflicts == {a_call(1).key}
        assert mine.append_now(a_call(1, text="theirs", at=5.0, latency_s=9.0)).at == a_call(1).at
        assert theirs.conflicts == set()
    assert [c.text for c in stored(path)] == ["theirs"]


def test_the_same_key_twice_in_one_group(path: Path) -> None:
    with Journal(path) as journal:
        for text in ("first", "second", "first"):
            journal.submit(a_call(1, text=text))
        journal.flush_now()
        assert journal.conflicts == {a_call(1).key}
    assert [c.text for c in stored(path)] == ["first"]


def test_one_key_for_two_requests_is_tampering(path: Path) -> None:
    with Journal(path) as journal:
        journal.append_now(a_call(1))
        with pytest.raises(Tampered, match="another request"):
            journal.append_now(a_call(1, request_hash="e" * 64))


def test_out3_an_unavailable_call_is_on_record_and_stands_in_nobodys_way(path: Path) -> None:
    down = a_call(1, outcome="unavailable", text="")
    with Journal(path) as journal:
        assert journal.append_now(down) == down
        journal.append_now(down)
        assert journal.get(down.key) is None
        assert journal.append_now(a_call(1)).text == "answer 1"
        journal.append_now(down)
        assert journal.get(down.key) == a_call(1)
        assert journal.count("fit-1") == 4
        assert journal.conflicts == set()


def test_sc1_calls_can_be_neither_changed_nor_deleted(path: Path) -> None:
    with Journal(path) as journal:
        journal.append_now(a_call(1))
        raw = sqlite3.connect(path)
        for statement in ("UPDATE calls SET text = x'00'", "DELETE FROM calls"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(statement)
        raw.close()
    assert stored(path) == [a_call(1)]


@given(parts=st.lists(st.tuples(st.text(max_size=4), st.integers(0, 12), st.integers(1, 2)), min_size=2, max_size=2))
def test_lesson29_keys_differ_where_any_part_differs(parts: list[tuple[str, int, int]]) -> None:
    def key(row: str, run: int, attempt: int) -> str:
        return call_key(
            run_id="fit", request_hash="h", instrument="i", parser_version="1", row=row, run=run, attempt=attempt
        )

    assert (key(*parts[0]) == key(*parts[1])) == (parts[0] == parts[1])


# --- files -----------------------------------------------------------------------------------------------------------


def test_sc4_the_files_are_private(path: Path) -> None:
    old = os.umask(0)
    try:
        with Journal(path) as journal:
            journal.append_now(a_call(1))
            modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert set(modes) >= {"calls.sqlite", "calls.sqlite-wal"}
    assert set(modes.values()) == {0o600}


def test_sc4_an_open_file_of_wider_mode_is_closed(path: Path) -> None:
    Journal(path).close()
    path.chmod(0o644)
    Journal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_journal_is_a_wal_and_commits_are_synced(path: Path) -> None:
    with Journal(path) as journal:
        assert journal._reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection = journal_module._connect(path)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        connection.close()


def test_migrations_are_counted_and_run_once(path: Path) -> None:
    Journal(path).close()
    Journal(path).close()
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone() == (len(table._MIGRATIONS),)
    raw.close()


def test_a_failed_migration_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_MIGRATIONS", (*table._MIGRATIONS, ("CREATE TABLE more (x)", "NOT SQL")))
    with pytest.raises(FitterError):
        Journal(path)
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    raw.close()
    monkeypatch.undo()
    Journal(path).close()


def test_a_newer_journal_is_refused(path: Path) -> None:
    Journal(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version=99")
    raw.close()
    with pytest.raises(UserError, match=r"newer fitter \(format 99"):
        Journal(path)


def test_many_processes_may_open_a_new_journal_at_once(path: Path) -> None:
    journals: list[Journal] = []
    threads = [threading.Thread(target=lambda: journals.append(Journal(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(journals) == 8
    for n, journal in enumerate(journals):
        journal.submit(a_call(n))
    for journal in journals:
        journal.close()
    assert len(stored(path)) == 8


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_journal(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is not a database, it is a letter " * 100)
    with pytest.raises(RunError, match="not a call journal, or is damaged"):
        Journal(path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="cannot write the call journal") as stop:
        Journal(tmp_path / "runs" / "calls.sqlite")
    assert stop.value.exit_code == 2


CODES = [
    (sqlite3.SQLITE_FULL, Stopped, "disk is full"),
    (sqlite3.SQLITE_IOERR | (3 << 8), Stopped, "disk refused"),
    (sqlite3.SQLITE_BUSY, Stopped, "another process kept"),
    (sqlite3.SQLITE_READONLY, Stopped, "cannot be written"),
    (sqlite3.SQLITE_CORRUPT, RunError, "damaged"),
    (sqlite3.SQLITE_SCHEMA, RunError, "failed"),
]


@pytest.mark.parametrize(("code", "kind", "words"), CODES, ids=[words for _, _, words in CODES])
def test_a_failed_write_counts_nothing_of_its_group_and_stops_the_rest(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[FitterError], words: str
) -> None:
    def failing(connection: sqlite3.Connection, group: list[CallRecord]) -> Any:
        real(connection, group[:1])
        fault = sqlite3.OperationalError("as the disk says")
        fault.sqlite_errorcode = code
        raise fault

    real = table.insert

    async def go() -> None:
        with Journal(path) as journal:
            await journal.append(a_call(0))
            monkeypatch.setattr(table, "insert", failing)
            journal.submit(a_call(1))
            journal.submit(a_call(2))
            with pytest.raises(kind, match=words):
                await journal.flush()
            with pytest.raises(kind, match=words):
                journal.submit(a_call(3))
            with pytest.raises(kind, match=words):
                journal.flush_now()

    asyncio.run(go())
    monkeypatch.undo()
    assert stored(path) == [a_call(0)]


def test_a_defect_in_the_writer_is_told_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(table, "insert", broken)
    with Journal(path) as journal, pytest.raises(RunError, match="KeyError"):
        journal.append_now(a_call(1))


def test_a_writer_waits_for_another_process(path: Path) -> None:
    Journal(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, lambda: other.execute("COMMIT")).start()
    with Journal(path) as journal:
        assert journal.append_now(a_call(1)) == a_call(1)
    other.close()


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(RunError, match="closed"):
        journal.submit(a_call(1))
    with pytest.raises(RunError, match="closed"):
        journal.flush_now()
