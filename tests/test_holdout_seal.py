"""SP-4 to SP-7 on disk: the seal, its one opening, what may be seen before."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from fitter import holdout
from fitter.errors import RunError, Tampered, UserError
from fitter.holdout import hold_seal, open_holdout, openings, seal_id, seal_rows
from fitter.records import Row
from fitter.workspace import Workspace
from tests.queues.queue_builders import GOOD_BAD, content


def row(name, label="good", **more):
    return Row(id=name, label=label, content=content(f"text-of-{name}", question=f"question-of-{name}"),
               reasons=(f"reason-of-{name}",), **more)  # fmt: skip


ROWS = [row(f"id-{n:03}-x", "good" if n % 2 else "bad") for n in range(60)]


def seal(ws, rows=ROWS, **more):
    return seal_rows(ws, rows, queue=more.pop("queue", "queue"), label=GOOD_BAD, **more)


def opening(ws, sealed, run="run-1", winner="w1", **more):
    return open_holdout(ws, sealed.seal, snapshot=sealed.snapshot, run=run, config_hash="c1", winner_hash=winner,
                        on=more.pop("on", "2026-11-30"), **more)  # fmt: skip


@pytest.fixture
def ws(tmp_path):
    return Workspace(tmp_path)


def tracked(ws):
    """Everything a seal leaves outside private folders, as one text."""
    files = [p for p in ws.root.rglob("*") if p.is_file() and "private" not in p.parts]
    return "".join(p.read_text() for p in files) + "".join(str(p) for p in files)


def test_sp2_the_same_rows_in_any_order_give_the_same_split_again(ws):
    first = seal(ws)
    before = (ws.seal(first.seal) / "seal.json").read_bytes()
    assert seal(ws, list(reversed(ROWS))) == first
    assert (ws.seal(first.seal) / "seal.json").read_bytes() == before
    assert (len(first.train), first.holdout_rows, first.new, first.scored) == (42, 18, 60, True)


def test_sp5_train_and_opened_holdout_are_all_rows_once(ws):
    sealed = seal(ws)
    opened = opening(ws, sealed)
    assert opened.exposure == ""
    assert sorted([*sealed.train, *opened.rows], key=lambda r: r.id) == ROWS


def test_sp5_the_opening_is_durable_before_a_row_is_read(ws, monkeypatch):
    sealed = seal(ws)
    log = ws.seal(sealed.seal) / "openings.jsonl"
    seen = []
    read = holdout._read_rows
    monkeypatch.setattr(holdout, "_read_rows", lambda *a: (seen.append(log.read_text()), read(*a))[1])
    opening(ws, sealed)
    assert json.loads(seen[0]) == {"schema_version": 1, "run": "run-1", "config": "c1", "winner": "w1",
                                   "snapshot": sealed.snapshot, "on": "2026-11-30"}  # fmt: skip


def test_sp5_a_disk_that_cannot_record_the_opening_opens_nothing(ws, monkeypatch):
    sealed = seal(ws)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(holdout, "write_atomic", full)
    monkeypatch.setattr(holdout, "_read_rows", lambda *a: pytest.fail("rows were read without a record"))
    with pytest.raises(OSError, match="No space"):
        opening(ws, sealed)


def test_sp5_the_same_triple_may_finish_and_nothing_else(ws):
    sealed = seal(ws)
    first = opening(ws, sealed)
    assert opening(ws, sealed, on="2026-12-01") == first
    assert len(openings(ws, sealed.seal)) == 1
    for other in ({"run": "run-2"}, {"winner": "w2"}):
        with pytest.raises(UserError, match="was opened by run-1 on 2026-11-30; it is opened once") as refused:
            opening(ws, sealed, **other)
        assert "--exposed-holdout" in str(refused.value)
    with pytest.raises(UserError, match="opened once"):
        open_holdout(ws, sealed.seal, snapshot=sealed.snapshot, run="run-1", config_hash="c2", winner_hash="w1", on="x")
    assert len(openings(ws, sealed.seal)) == 1


def _open_elsewhere(root, seal_name, snapshot, run, queue):
    try:
        open_holdout(Workspace(Path(root)), seal_name, snapshot=snapshot, run=run, config_hash="c1", winner_hash="w1",
                     on="2026-11-30")  # fmt: skip
        queue.put(f"{run} opened")
    except UserError as refused:
        queue.put(f"{run} refused: {refused.message}")


def test_sp5_refused_from_another_process_too(ws):
    sealed = seal(ws)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    processes = [
        context.Process(target=_open_elsewhere, args=(str(ws.root), sealed.seal, sealed.snapshot, f"run-{n}", answers))
        for n in range(4)
    ]
    for process in processes:
        process.start()
    told = [answers.get(timeout=30) for _ in processes]
    for process in processes:
        process.join()
    assert sum(answer.endswith("opened") for answer in told) == 1
    assert len(openings(ws, sealed.seal)) == 1


def test_sp5_an_exposed_holdout_must_be_asked_for_and_is_named(ws):
    sealed = seal(ws)
    assert sealed.opened_by is None
    first = opening(ws, sealed, exposed=True)  # nothing was opened yet: this is the one opening
    assert first.exposure == ""
    assert seal(ws).opened_by == ("run-1", "2026-11-30")
    later = opening(ws, sealed, run="run-2", on="2026-12-24", exposed=True)
    assert later.exposure == "exposed holdout, opened by run-1 on 2026-11-30"
    assert later.rows == first.rows
    opening(ws, sealed, run="run-2", on="2026-12-25", exposed=True)
    assert [(o["run"], o["on"]) for o in openings(ws, sealed.seal)] == [
        ("run-1", "2026-11-30"),
        ("run-2", "2026-12-24"),
    ]


def test_sp5_a_damaged_opening_log_is_not_taken_for_never_opened(ws):
    sealed = seal(ws)
    opening(ws, sealed)
    log = ws.seal(sealed.seal) / "openings.jsonl"
    for damage in ("{", '{"run": "run-1"}\n'):
        log.write_text(damage)
        with pytest.raises(Tampered):
            opening(ws, sealed, run="run-2")


def test_sp7_nothing_of_a_holdout_row_is_outside_private(ws):
    sealed = seal(ws)
    private = ws.seal(sealed.seal) / "private"
    (file,) = private.iterdir()
    held = [json.loads(line)["id"] for line in file.read_text().splitlines()]
    assert len(held) == 18
    shown = tracked(ws) + repr(sealed) + json.dumps(sealed.to_json())
    for name in held:
        assert name not in shown
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert "private/" in (ws.root / "holdouts" / ".gitignore").read_text()
    for r in ROWS:  # in tracked files not even a train id stands: digests only
        assert r.id not in tracked(ws)


def test_sp4_new_rows_are_assigned_and_old_rows_keep_their_side(ws):
    first = seal(ws)
    more = [*ROWS, *(row(f"new-{n:03}", "good" if n % 2 else "bad") for n in range(40))]
    second = seal(ws, more)
    old = {r.id for r in ROWS}
    assert {r.id for r in second.train} & old == {r.id for r in first.train}
    assert (second.new, second.holdout_rows, second.joined) == (40, 30, 0)
    assert {r.id for r in opening(ws, second).rows} & old == old - {r.id for r in first.train}
    assert seal(ws).train == first.train  # the earlier snapshot still splits as it did


def test_sp4_a_group_that_joins_both_sides_leaves_the_holdout_for_good(ws):
    first = seal(ws)
    seen = {r.id for r in first.train}
    held = next(r.id for r in ROWS if r.id not in seen)
    pair = {held, first.train[0].id}
    bridged = [Row(**{**vars(r), "group": "bridge"}) if r.id in pair else r for r in ROWS]
    second = seal(ws, bridged)
    assert (second.joined, second.holdout_rows) == (1, 17)
    third = seal(ws)  # the bridge is gone, but its rows were seen in train
    assert held in {r.id for r in third.train}
    assert third.holdout_rows == 17
    assert len(opening(ws, third).rows) == 17


def test_sp4_a_queue_of_the_same_name_with_no_row_in_common_is_another_queue(ws):
    seal(ws)
    others = [row(f"other-{n}", "good" if n % 2 else "bad") for n in range(60)]
    with pytest.raises(UserError, match="no row in common") as refused:
        seal(ws, others)
    assert "--queue-name" in str(refused.value)
    assert seal(ws, others, queue="another").scored
    assert seal(ws, [*ROWS[:1], *others[1:]]).scored


def test_sp4_positional_rows_shifted_by_one_keep_their_side(ws):
    def numbered(rows):
        return [Row(**{**vars(r), "id": f"row-{n:04}"}) for n, r in enumerate(rows, 1)]

    def texts(rows):
        return {r.reasons for r in rows}

    first = seal(ws, numbered(ROWS), positional=True)
    second = seal(ws, numbered([row("brand-new"), *ROWS]), positional=True)
    assert texts(first.train) <= texts(second.train)
    assert second.new == 1
    # The same queue later with an id column is still known by its content.
    third = seal(ws, ROWS)
    assert texts(third.train) == texts(first.train)


def test_a_small_queue_has_no_holdout_and_says_why(ws):
    sealed = seal(ws, ROWS[:30])
    assert (len(sealed.train), sealed.holdout_rows, sealed.scored) == (30, 0, False)
    with pytest.raises(UserError, match="there is no holdout to open: there are 30 usable rows"):
        opening(ws, sealed)
    with pytest.raises(UserError, match="no split of this snapshot was sealed"):
        open_holdout(ws, sealed.seal, snapshot="0" * 64, run="r", config_hash="c", winner_hash="w", on="x")


@pytest.mark.parametrize("at", ["rows", "seal"])
def test_a_kill_while_sealing_changes_nothing(ws, monkeypatch, at):
    expected = seal(Workspace(ws.root / "elsewhere"))

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    name = "write_once" if at == "rows" else "write_atomic"
    with monkeypatch.context() as patch:
        patch.setattr(holdout, name, killed)
        with pytest.raises(KeyboardInterrupt):
            seal(ws)
    assert not (ws.seal(expected.seal) / "seal.json").exists()
    assert seal(ws) == expected


def test_changed_files_are_noticed(ws):
    sealed = seal(ws)
    folder = ws.seal(sealed.seal)
    (private,) = (folder / "private").iterdir()
    good = private.read_text()
    private.write_text(good.replace('"good"', '"bad"', 1))
    with pytest.raises(Tampered, match="changed after they were sealed"):
        opening(ws, sealed)
    private.unlink()
    with pytest.raises(RunError, match="are gone"):
        opening(ws, sealed)
    assert seal(ws).train == sealed.train  # a clone with the queue at hand seals the same rows again
    assert private.read_text() == good
    record = folder / "seal.json"
    record.write_text(record.read_text().replace('"train_rows": 42', '"train_rows": 43'))
    with pytest.raises(Tampered, match="does not match its own hash"):
        seal(ws)
    record.write_text("{}")
    with pytest.raises(Tampered):
        seal(ws)


def test_two_fits_on_one_seal_are_told_and_on_two_seals_are_not(ws):
    name = seal_id("queue", "label")
    with hold_seal(ws, name, holder="fit run-1"), hold_seal(ws, seal_id("queue", "other"), holder="fit run-2"):
        with (
            pytest.raises(UserError, match=rf"held by fit run-1 \(pid {os.getpid()}\)"),
            hold_seal(ws, name, holder="x"),
        ):
            pytest.fail("two fits hold one seal")
        assert seal(ws).scored  # the holder itself may seal


def test_seal_names_are_distinct_and_cannot_leave_their_folder(ws):
    assert seal_id("a--b", "c") != seal_id("a", "b--c")
    for name in ("../../etc", "a/b\x00", "\x1b[31m"):
        folder = ws.seal(seal_id(name, "../x"))
        assert folder.parent == ws.root / "holdouts"
        assert seal(ws, queue=name).scored
