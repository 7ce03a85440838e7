"""RUN, NAME and ROW: who gives one where another is wanted is told which it is, and what takes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fitter.cli.main import main

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """Two runs of one evaluator, which was published; an older one of another, which was not."""
    for run, name in (("tone-001", "tone"), ("tone-002", "tone"), ("old-001", "old")):
        folder = tmp_path / "runs" / run
        (folder / "labels").mkdir(parents=True)
        config = {"schema_version": 1, "settings": {"name": name, "metric": "accuracy"}}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        rows = [{"schema_version": 1}, {"id": f"{name} row/1", "label": "good"}]
        (folder / "labels" / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        (folder / "labels" / "holdout.jsonl").write_text('{"schema_version":1}\n{"id":"held","label":"good"}\n')
    (tmp_path / "publish" / "local" / "tone" / "tone-001").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def say(ws: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*argv: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["--workspace", str(ws), *argv])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return run


@pytest.mark.parametrize("command", ["show", "resume", "replay", "cost", "publish", "compare"])
def test_a_name_or_a_row_where_a_run_is_wanted(command: str, say: Say, ws: Path) -> None:
    rest = {"publish": ("--to", "local"), "compare": ("tone-001",)}.get(command, ())
    code, out, err = say(command, "tone", *rest)
    assert (code, out) == (2, "")
    assert err == (
        "error: 'tone' is an evaluator's name, where a run is wanted\n  → runs that fitted it: tone-001, tone-002\n"
    )
    code, out, err = say(command, "old row/1", *rest)
    assert (code, out) == (2, "")
    assert "'old row/1' is a row of run old-001, where a run is wanted" in err
    assert f"`fitter --workspace {ws} evidence 'old row/1' --run old-001` shows the row" in err


@pytest.mark.parametrize("command", ["verify", "fidelity"])
def test_a_run_or_a_row_where_a_name_is_wanted(command: str, say: Say, ws: Path) -> None:
    code, out, err = say(command, "tone-001")
    assert (code, out) == (2, "")
    assert "'tone-001' is a run, where an evaluator's name is wanted" in err
    assert f"that run fitted tone: `fitter --workspace {ws} {command} tone --run tone-001`" in err
    code, _, err = say(command, "tone row/1")
    assert code == 2
    assert "'tone row/1' is a row of run tone-002, where an evaluator's name is wanted" in err
    code, _, err = say(command, "tone", "--run", "tone")
    assert code == 2
    assert "'tone' is an evaluator's name, where a run is wanted" in err


def test_a_run_or_a_name_where_a_row_is_wanted(say: Say, ws: Path) -> None:
    for given, what, run in (("tone-001", "a run", "tone-001"), ("tone", "an evaluator's name", "tone-002")):
        code, out, err = say("evidence", given)
        assert (code, out) == (2, "")
        assert f"'{given}' is {what}, where a row is wanted" in err
        assert f"`fitter --workspace {ws} evidence ROW --run {run}`" in err
    code, _, err = say("evidence", "tone row/1", "--run", "tone")
    assert code == 2
    assert "'tone' is an evaluator's name, where a run is wanted" in err


def test_what_is_none_of_them_is_left_to_the_command(say: Say) -> None:
    assert "there is no run 'nope' here" in say("show", "nope")[2]
    assert "no receipt of an evaluator 'nope'" in say("verify", "nope")[2]
    # a held-out row is not known to anybody before it is opened, and not looked for afterwards (SP-7)
    assert "there is no run 'held' here" in say("show", "held")[2]


def test_an_evaluator_may_be_called_like_a_run(say: Say, ws: Path) -> None:
    (ws / "publish" / "local" / "tone-001" / "x-001").mkdir(parents=True)
    assert "where an evaluator's name is wanted" not in say("verify", "tone-001")[2]


def test_a_run_that_cannot_be_read_stands_in_nobodys_way(say: Say, ws: Path) -> None:
    (ws / "runs" / "old-001" / "config.json").write_text("[", encoding="utf-8")
    (ws / "runs" / "old-001" / "labels" / "train.jsonl").write_text("[", encoding="utf-8")
    assert "runs that fitted it: tone-001, tone-002" in say("show", "tone")[2]
    assert "`fitter runs` lists evaluators" in say("verify", "old-001")[2]


def test_an_unfinished_run_says_how_to_go_on_in_this_workspace(say: Say, ws: Path, tmp_path: Path) -> None:
    code, out, _ = say("show", "tone-001")
    assert code == 0
    assert f"the run is unfinished: `fitter --workspace {ws} resume tone-001` goes on" in out
