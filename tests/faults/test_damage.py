"""Whatever is damaged in a run's folder is named in clear words: no traceback, no wrong figure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cli_kit import FITTER, ROOT, cli, fit, flags, interactions, runs_of, write_jsonl

pytestmark = pytest.mark.slow
RESUME = ("resume", "helpful-001", "--budget-calls=1000")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    assert fit(folder / "ws", write_jsonl(folder / "q.jsonl", interactions(48)), "--budget-calls=75").code == 4
    return folder / "ws"


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(5000, len(data), 97):
        data[at] ^= 255
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8192])


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, tuple[str, Callable[[Path], object], tuple[str, ...], int, str]] = {
    "checkpoint is rubbish": ("state.sqlite", lambda p: p.write_bytes(b"x" * 5000), RESUME, 1, "checkpoint"),
    "checkpoint is cut": ("state.sqlite", cut, RESUME, 1, "checkpoint"),
    "checkpoint is garbled": ("state.sqlite", garble, RESUME, 1, "checkpoint"),
    "checkpoint is gone": ("state.sqlite", Path.unlink, RESUME, 1, "checkpoint"),
    "journal is rubbish": ("../calls.sqlite", lambda p: p.write_bytes(b"x" * 5000), RESUME, 1, "calls.sqlite"),
    "hashes are rubbish": ("hashes.jsonl", lambda p: p.write_text("xx\n"), RESUME, 1, "hashes.jsonl"),
    "hashes are no hashes": ("hashes.jsonl", lambda p: p.write_text('{"file": 1}\n'), RESUME, 1, "hashes.jsonl"),
    "budget is no number": (
        "budget.json", lambda p: p.write_text('{"schema_version": 1, "budget_calls": "many"}'), RESUME[:2], 1,
        "budget.json",
    ),
    "config is empty": ("config.json", lambda p: p.write_text('{"schema_version": 1}'), ("runs",), 0, "unreadable"),
    "config is no text": ("config.json", lambda p: p.write_bytes(b"\xff\xfe"), ("runs",), 0, "unreadable"),
    "config is a folder": ("config.json", folder_instead, ("show", "helpful-001"), 2, "no run"),
    "config is empty, for a row": (
        "config.json", lambda p: p.write_text('{"schema_version": 1}'), ("evidence", "t-000"), 1, "config.json",
    ),
    "report is no text": (
        "report.md", lambda p: p.write_bytes(b"\xff\x1b[31m"), ("show", "helpful-001"), 0, "\\u{1b}",
    ),
    "manifest is empty": (
        "manifest.json", lambda p: p.write_text('{"schema_version": 1}'), ("show", "helpful-001"), 1,
        "manifest.json is not what was written",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(case: str, stopped: Path, tmp_path: Path) -> None:
    name, harm, argv, code, word = DAMAGE[case]
    ws = tmp_path / "ws"
    shutil.copytree(stopped, ws)
    harm((ws / "runs" / "helpful-001" / name).resolve())
    ended = cli("--workspace", ws, *argv)
    assert ended.code == code, ended.all
    assert word in ended.all
    assert "\x1b" not in ended.all


def test_an_empty_checkpoint_or_a_lost_journal_costs_calls_but_no_decision(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "ws")
    (tmp_path / "ws/runs/helpful-001/state.sqlite").write_bytes(b"")
    for path in (tmp_path / "ws/runs").glob("calls.sqlite*"):
        path.unlink()
    shutil.copytree(stopped, tmp_path / "whole")
    reports = []
    for name in ("ws", "whole"):
        ended = cli("--workspace", tmp_path / name, *RESUME)
        assert ended.code == 0, ended.err
        folder = tmp_path / name / "runs" / "helpful-001"
        reports.append(
            {p.name: p.read_bytes() for d in ("cards", "decisions", "passes") for p in (folder / d).iterdir()}
        )
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("text", "word"),
    [("{", "is not JSON"), ("[]", "not an evidence map"), ("\xff", "map")],
)
def test_a_broken_evidence_map_is_refused_before_anything_is_written(text: str, word: str, tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    (ws / "evidence_maps").mkdir(parents=True)
    (ws / "evidence_maps/helpful.json").write_text(text, encoding="latin-1")
    ended = fit(ws, write_jsonl(tmp_path / "q.jsonl", interactions(24)))
    assert ended.code == 2, ended.all
    assert word in ended.err
    assert "helpful.json" in ended.err
    assert runs_of(ws) == []


def test_a_map_for_another_scope_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    ws, path = tmp_path / "ws", write_jsonl(tmp_path / "q.jsonl", interactions(24))
    assert fit(ws, path).code == 0
    ended = fit(ws, path, "--scope=trace")
    assert ended.code == 2
    assert "for scope span, the fit is at trace" in ended.err
    assert runs_of(ws) == ["helpful-001"]


def test_bytes_that_are_no_text_are_refused_as_settings_and_fine_as_paths(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", interactions(24))
    start = [*map(os.fsencode, FITTER), b"--workspace", os.fsencode(tmp_path) + b"/ws\xff", b"fit", os.fsencode(path)]
    bad = [*start, *map(os.fsencode, flags(goal=None)), b"--goal=\xff\xfe", b"--yes"]
    ended = subprocess.run(bad, cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 2
    assert b"goal: is not UTF-8 text" in ended.stderr
    ended = subprocess.run([*start, *map(os.fsencode, flags()), b"--yes"], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr
