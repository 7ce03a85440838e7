"""`fitter show`: exit 1 where one byte of a finished run is not what was written, and says so first (SC-4)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.evaluation.conftest import RUN
from tests.evaluation.lines import Command

FLIPPED = ("report.md", "cards/000.json", "cards/holdout-winner.json", "labels/train.jsonl", "private/train.jsonl",
           "private/reasoning/000.jsonl")  # fmt: skip


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_run_as_it_was_written_is_shown_with_exit_0(practice_run: Path, fitter: Command) -> None:
    code, out, err = fitter("--workspace", practice_run, "show", RUN)
    assert (code, err) == (0, "")
    assert out.startswith("# Fit report")
    assert "WARNING" not in out
    assert out.count("match the manifest") == 2


@pytest.mark.parametrize("name", FLIPPED)
def test_one_flipped_byte_is_exit_1_and_the_first_line(
    name: str, practice_run: Path, tmp_path: Path, fitter: Command
) -> None:
    workspace = Path(shutil.copytree(practice_run, tmp_path / "ws"))
    flip(workspace / "runs" / RUN / name)
    code, out, _ = fitter("--workspace", workspace, "show", RUN)
    assert code == 1
    half, _, rest = name.partition("/")
    kind, shown = ("private", rest) if half == "private" else ("tracked", name)
    assert out.startswith("WARNING: this run's files were changed after it ended; "
                          f"`fitter --workspace {workspace} replay {RUN}` names them.\n")  # fmt: skip
    assert f"- {kind} artefacts: 1 of " in out
    assert f" differ from the manifest: {shown}\n" in out
    other = "tracked" if kind == "private" else "private"
    assert f"- {other} artefacts: all " in out
    # flipped back, it is the run again: the exit code hangs on the bytes and on nothing else
    flip(workspace / "runs" / RUN / name)
    assert fitter("--workspace", workspace, "show", RUN)[0] == 0


def test_a_tracked_file_that_is_gone_is_exit_1_and_a_clone_without_private_is_not(
    practice_run: Path, tmp_path: Path, fitter: Command
) -> None:
    workspace = Path(shutil.copytree(practice_run, tmp_path / "ws"))
    folder = workspace / "runs" / RUN
    shutil.rmtree(folder / "private")
    code, out, _ = fitter("--workspace", workspace, "show", RUN)
    assert code == 0
    assert "private/ is not here" in out
    (folder / "cards" / "000.json").unlink()
    flip(folder / "report.md")
    code, out, _ = fitter("--workspace", workspace, "show", RUN)
    assert code == 1
    assert out.startswith("WARNING")
    assert "differ from the manifest: report.md; 1 of " in out
    assert "are missing: cards/000.json\n" in out
