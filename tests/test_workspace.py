"""Paths, locks and atomic writes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fitter import workspace
from fitter.errors import Tampered, UserError
from fitter.workspace import Workspace, ensure_private, init, lock, write_atomic, write_once


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_init_makes_the_folders_and_keeps_private_things_out_of_git(tmp_path: Path) -> None:
    ws = init(tmp_path / "new" / "ws")
    assert sorted(p.name for p in ws.root.iterdir()) == ["evidence_maps", "holdouts", "prompts", "publish", "runs"]
    assert "calls.sqlite*" in (ws.root / "runs" / ".gitignore").read_text().splitlines()
    assert "private/" in (ws.root / "holdouts" / ".gitignore").read_text().splitlines()
    (ws.root / "runs" / ".gitignore").write_text("mine\n")
    init(ws.root)
    assert (ws.root / "runs" / ".gitignore").read_text() == "mine\n"


def test_sc4_git_sees_nothing_private(tmp_path: Path) -> None:
    ws = init(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    write_atomic(ws.private("fit-1") / "passes.jsonl", "secret", private=True)
    write_atomic(ws.seal("s") / "private" / "rows.jsonl", "secret", private=True)
    write_atomic(ws.run("fit-1") / "config.json", "{}")
    for name in ("calls.sqlite", "calls.sqlite-wal", "state.sqlite"):
        (ws.root / "runs" / name).write_text("x")
    with lock(ws.run("fit-1") / "run.lock", holder="me"):
        seen = subprocess.run(
            ["git", "status", "--porcelain", "-uall"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
    assert sorted(line[3:] for line in seen.splitlines()) == [
        "holdouts/.gitignore", "runs/.gitignore", "runs/fit-1/config.json",
    ]  # fmt: skip


def test_init_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the workspace"):
        init(tmp_path / "file")


BAD_IDS = ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a..b", "x" * 81, "a\n", "a\x00", "é", "-x", "calls.sqlite"]


@pytest.mark.parametrize("run_id", BAD_IDS, ids=repr)
def test_run_ids_cannot_leave_their_folder(tmp_path: Path, run_id: str) -> None:
    for path in (Workspace(tmp_path).run, Workspace(tmp_path).private):
        with pytest.raises(UserError, match="is not a run id"):
            path(run_id)


def test_paths_of_untrusted_names_stay_inside(tmp_path: Path) -> None:
    ws = Workspace(tmp_path)
    for name in ("../../x", "/etc/passwd", "..", "", "a\x00b", "\u202e"):
        for path in (ws.seal(name), ws.prompts(name), ws.evidence_map(name), ws.publish(name, name)):
            assert tmp_path in path.parents
            assert ".." not in path.parts
            assert path.resolve().is_relative_to(tmp_path.resolve())
    assert ws.run("2026.11-fit_1") == tmp_path / "runs" / "2026.11-fit_1"


def test_run_ids_are_folders_with_a_config(tmp_path: Path) -> None:
    ws = Workspace(tmp_path)
    assert ws.run_ids() == []
    for name in ("b", "a", "c"):
        ws.run(name).mkdir(parents=True)
    for name in ("b", "a"):
        write_atomic(ws.run(name) / "config.json", "{}")
    assert ws.run_ids() == ["a", "b"]


def test_sc4_private_files_are_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "run" / "private" / "rows.jsonl"
    write_atomic(path, "x", private=True)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    path.parent.chmod(0o755)
    ensure_private(path.parent)
    assert mode(path.parent) == 0o700
    write_atomic(tmp_path / "report.md", "x")
    assert mode(tmp_path / "report.md") == 0o644


def test_a_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    write_atomic(path, "a long first text")
    write_atomic(path, b"\xff")
    assert path.read_bytes() == b"\xff"
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("where", ["fsync", "replace", "chmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(workspace.os, where, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_new_bytes_are_on_disk_before_they_get_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(workspace.os, "fsync", lambda fd: (done.append("fsync"), real_fsync(fd))[1])
    monkeypatch.setattr(workspace.os, "replace", lambda a, b: (done.append("replace"), real_replace(a, b))[1])
    write_atomic(tmp_path / "a", "x")
    assert done == ["fsync", "replace", "fsync"]  # the file, its name, the folder


def test_lo7_write_once_takes_the_same_bytes_again_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "decision.json"
    write_once(path, "a")
    write_once(path, b"a")
    with pytest.raises(Tampered, match="other content"):
        write_once(path, "b")
    assert path.read_text() == "a"


def refused(path: Path, words: str) -> None:
    with pytest.raises(UserError, match=words), lock(path, holder="run fit-2"):
        pytest.fail("two holders")


def test_a_second_holder_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "seals" / "x.lock"
    with lock(path, holder="run fit-1"):
        refused(path, rf"x\.lock is held by run fit-1 \(pid {os.getpid()}\)")
        assert mode(path) == 0o600
    with lock(path, holder="run fit-3 \x1b[2J"):
        refused(path, r"run fit-3 \\u\{1b\}")


def test_a_lock_is_free_after_an_error_and_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with pytest.raises(RuntimeError), lock(path, holder="run fit-1"):
        raise RuntimeError
    assert path.read_bytes() == b""
    with lock(path, holder="b"):
        assert path.read_bytes().startswith(b"b (pid ")


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    code = (
        "import sys, time; from pathlib import Path; from fitter.workspace import lock\n"
        "with lock(Path(sys.argv[1]), holder='the dead'):\n    print('held', flush=True); time.sleep(60)"
    )
    root = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root)}
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=root, env=env)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    refused(path, "the dead")
    child.kill()
    child.communicate(timeout=30)
    with lock(path, holder="me"):
        assert path.read_bytes().startswith(b"me (pid ")


def test_a_lock_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the lock file"), lock(tmp_path / "file" / "x.lock", holder="me"):
        pytest.fail("locked nothing")
