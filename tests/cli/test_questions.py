"""Questions, fit.toml, dry runs, and looking at what is there (LO-1, phase b)."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.cli.cli_kit import ANSWERS, FITTER, cli, fit, flags, interactions, runs_of, write_csv, write_jsonl

pytestmark = pytest.mark.slow


def _terminal() -> None:
    """Makes the terminal ours, so that Ctrl-C is a signal, and one that is not ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a real terminal, whose other end we hold."""

    def __init__(self, argv: list[str], cwd: Path) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*FITTER, *argv], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=_terminal,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "TERM": "xterm",
                 "COLUMNS": "200"},
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def until(self, text: str, seconds: float = 120) -> None:
        """Reads until the text was shown."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            ready, _, _ = select.select([self.ours], [], [], 1)
            if ready:
                try:
                    data = os.read(self.ours, 65536)
                except OSError:
                    data = b""
                assert data, f"ended without {text!r}: {self.seen}"
                self.seen += data.decode("utf-8", "replace").replace("\r", "")

    def say(self, text: str) -> None:
        os.write(self.ours, f"{text}\n".encode())

    def end(self) -> int:
        """Reads to the end; the exit code."""
        while True:
            try:
                data = os.read(self.ours, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode("utf-8", "replace").replace("\r", "")
        os.close(self.ours)
        return self.process.wait(timeout=120)


def test_lo1_missing_answers_are_asked_in_one_go_and_a_disagreement_as_its_own_question(
    tmp_path: Path, good: Path, ws: Path
) -> None:
    given = [f for f in flags() if not f.startswith(("--goal", "--costly", "--metric", "--framing", "--name"))]
    shell = Terminal(["--workspace", str(ws), "fit", str(good), *given, "--with-text"], tmp_path)
    shell.until("what the judge is for, in one sentence")
    assert "These answers are needed, and none has a default." in shell.seen
    for answer, following in (
        ("Find unhelpful replies", "whose miss is the costlier error"),
        ("bad", "replicator, grader or corrector"),
        ("critic", "one of: grader, replicator, corrector"),  # asked again, not refused
        ("grader", "the headline metric"),
        ("balanced_accuracy", "the evaluator's name"),
        ("asked", "domain notes"),
        ("", "which one governs"),
    ):
        shell.say(answer)
        shell.until(following)
    assert "Metric and goal disagree: missing 'bad' is the costlier error" in shell.seen
    assert shell.seen.count("These answers are needed") == 1
    shell.say("metric")
    assert shell.end() == 0, shell.seen
    assert "disabled: it scores nothing until you enable it" in shell.seen
    config = (
        json.loads((ws / "runs/asked-001/config.json").read_text(encoding="utf-8"))
        if (ws / "runs/asked-001/config.json").is_file()
        else None
    )
    if config is None:  # the folder is named before the evaluator's name is known
        (run,) = runs_of(ws)
        config = json.loads((ws / "runs" / run / "config.json").read_text(encoding="utf-8"))
    settings = config["settings"]
    assert settings["governs"] == "metric"
    assert (settings["goal"], settings["costly"], settings["name"]) == ("Find unhelpful replies", "bad", "asked")


def test_ctrl_c_at_a_question_is_130_and_leaves_nothing(tmp_path: Path, good: Path, ws: Path) -> None:
    given = [f for f in flags() if not f.startswith("--goal")]
    shell = Terminal(["--workspace", str(ws), "fit", str(good), *given], tmp_path)
    shell.until("what the judge is for")
    os.write(shell.ours, b"\x03")
    assert shell.end() == 130, shell.seen
    assert "Traceback" not in shell.seen
    assert "it left no run behind" in shell.seen
    assert runs_of(ws) == []


def test_lo1_without_a_terminal_one_error_lists_everything_that_is_missing(tmp_path: Path, ws: Path) -> None:
    two = [{**r, "verdict": r["label"]} for r in interactions(24)]
    path = write_jsonl(tmp_path / "q.jsonl", two)
    for more in ([], ["--yes"]):
        ended = cli("--workspace", ws, "fit", path, *more)
        assert ended.code == 2
        for name in ("goal", "costly", "framing", "metric", "judge", "name", "app", "publish-to"):
            assert f"--{name} " in ended.err, name
        assert ended.err.count("error:") == 1
        assert not ws.exists()


def test_yes_accepts_only_what_was_given(good: Path, ws: Path) -> None:
    for name in ("goal", "costly", "framing", "metric", "judge", "name", "app", "publish-to"):
        given = [f for f in flags() if not f.startswith(f"--{name}=")]
        ended = cli("--workspace", ws, "fit", good, *given, "--yes")
        assert ended.code == 2, name
        missing = re.findall(r"^  --([a-z-]+) ", ended.err, flags=re.MULTILINE)
        assert missing == [name]


TOML = """
goal = "From the file"
costly = "same"
framing = "grader"
metric = "accuracy"
judge = "lexicon"
name = "from_file"
app = "shop"
publish_to = "local"
max_iterations = 0
runs = 1
notes = "Mind the tone."

[columns]
input = "asked"
output = "answered"
label = "verdict"

[label_map]
ok = true
"not ok" = "false"
"""


def test_fit_toml_has_the_flags_names_and_flags_win(tmp_path: Path, ws: Path) -> None:
    rows = [
        {"id": r["id"], "asked": r["input"], "answered": r["output"], "verdict": "ok" if r["label"] == "good" else
         "not ok"} for r in interactions(24)
    ]  # fmt: skip
    path = write_csv(tmp_path / "q.csv", rows)
    (tmp_path / "fit.toml").write_text(TOML, encoding="utf-8")
    ended = cli("--workspace", ws, "fit", path, "--yes", "--metric=balanced_accuracy", cwd=tmp_path)
    assert ended.code in (0, 3), ended.all
    config = json.loads((ws / "runs/from_file-001/config.json").read_text(encoding="utf-8"))
    settings = config["settings"]
    assert settings["metric"] == "balanced_accuracy"
    assert (settings["goal"], settings["notes"], settings["runs"]) == ("From the file", "Mind the tone.", 1)
    assert settings["columns"] == {"input": "asked", "label": "verdict", "output": "answered"}
    assert config["fixed"]["label"]["kind"] == "boolean"
    again = cli("--workspace", tmp_path / "ws2", "fit", path, "--yes", "--label-map", "ok=false", "--label-map",
                "not ok=true", "--config", tmp_path / "fit.toml", "--name=flipped")  # fmt: skip
    assert again.code in (0, 3), again.all
    flipped = json.loads((tmp_path / "ws2/runs/flipped-001/config.json").read_text(encoding="utf-8"))["settings"]
    assert flipped["label_map"] == {"not ok": "true", "ok": "false"}


def test_dry_run_shows_config_split_and_calls_and_writes_nothing(tmp_path: Path, ws: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", interactions(60))
    ended = fit(ws, path, "--dry-run", runs="3", max_iterations="4")
    assert ended.code == 0, ended.err
    assert '"metric": "balanced_accuracy"' in ended.out
    found = re.search(r"train (\d+) rows, holdout (\d+) rows", ended.out)
    assert found is not None
    train, held = map(int, found.groups())
    assert train + held == 60
    held_by_class = [int(n) for n in re.findall(r"class \w+: (\d+) of 30 held out", ended.out)]
    assert (len(held_by_class), sum(held_by_class)) == (2, held)
    assert not re.search(r"t-\d{3}", ended.out)  # SP-7: how many are held out, never which
    assert f"v0 {train * 3}, and as many for a redraft; at most {train * 3} an iteration, at most 4" in ended.out
    assert not ws.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["q.jsonl"]
    # What it shows is what a fit does.
    assert fit(ws, path, max_iterations="0").code == 0
    split = json.loads((ws / "runs/helpful-001/split.json").read_text(encoding="utf-8"))
    assert (split["train_rows"], split["holdout_rows"]) == (train, held)
    before = {p: p.read_bytes() for p in ws.rglob("*") if p.is_file()}
    later = fit(ws, path, "--dry-run")
    assert "the holdout was opened by helpful-001" in later.out
    assert {p: p.read_bytes() for p in ws.rglob("*") if p.is_file()} == before


def test_dry_run_says_what_is_still_to_be_answered(good: Path, ws: Path) -> None:
    ended = cli("--workspace", ws, "fit", good, "--dry-run")
    assert ended.code == 0
    assert "Still to be answered" in ended.out
    for name in ("goal", "metric", "judge"):
        assert f"--{name} " in ended.out
    assert not ws.exists()


def test_a_holdout_that_was_opened_is_refused_before_anything_is_written(tmp_path: Path, ws: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", interactions(60))
    assert fit(ws, path, max_iterations="0").code == 0
    before = sorted(p for p in ws.rglob("*"))
    ended = fit(ws, path, max_iterations="0")
    assert ended.code == 2
    assert "opened by helpful-001 on " in ended.err
    assert "--exposed-holdout" in ended.err
    assert sorted(p for p in ws.rglob("*")) == before
    other = fit(ws, write_jsonl(tmp_path / "r.jsonl", [{**r, "id": f"u{r['id']}", "output": r["output"] + " Really.",
                "input": r["input"] + "!"} for r in interactions(60)]), "--queue-name=q")  # fmt: skip
    assert other.code == 2
    assert "--queue-name" in other.err
    assert sorted(p for p in ws.rglob("*")) == before


def test_runs_show_and_evidence(tmp_path: Path, ws: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", interactions(48))
    empty = cli("--workspace", ws, "runs")
    assert (empty.code, "no runs here yet" in empty.out) == (0, True)
    assert not ws.exists()
    assert fit(ws, path).code == 0
    listed = cli("--workspace", ws, "runs")
    figures = r"0\.\d{3} +[01]\.\d{3} \(in-sample, selected from 2 candidates\)"
    assert re.search(rf"helpful-001 +published +balanced_accuracy +{figures} +helpful", listed.out), listed.out
    shown = cli("--workspace", ws, "show", "helpful-001")
    assert "# Fit report: `helpful`" in shown.out
    assert "What can be verified here" in shown.out
    train = [json.loads(line)["id"] for line in (ws / "runs/helpful-001/labels/train.jsonl").read_text(
        encoding="utf-8").splitlines()[1:]]  # fmt: skip
    held = [json.loads(line)["id"] for line in (ws / "runs/helpful-001/labels/holdout.jsonl").read_text(
        encoding="utf-8").splitlines()[1:]]  # fmt: skip
    row = cli("--workspace", ws, "evidence", train[0])
    assert row.code == 0
    assert "How do I reset box" in row.out
    refused = cli("--workspace", ws, "evidence", held[0])
    assert refused.code == 2
    assert "How do I reset box" not in refused.all
    resumed = cli("--workspace", ws, "resume", "helpful-001")
    assert resumed.code == 0
    assert "disabled: it scores nothing until you enable it" in resumed.out


def test_the_exit_codes_are_documented(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    shown = " ".join(cli("--help").out.split())
    for code, what in (("0", "done"), ("1", "failed or is unfinished"), ("2", "mistake"), ("3", "no evaluator"),
                       ("4", "resumable"), ("130", "interrupted")):  # fmt: skip
        assert re.search(rf"\b{code} [^;]*{what}", shown), code
        documented = (root / "docs" / "cli.md").read_text(encoding="utf-8")
        assert re.search(rf"^\| {code} \|.*{what.split()[-1]}", documented, flags=re.MULTILINE), code
    assert set(ANSWERS) >= {"goal", "costly", "framing", "metric", "judge", "name", "app", "publish-to"}


@pytest.mark.parametrize("framing", ["replicator", "corrector"])
def test_ev3_framings_end_to_end(framing: str, tmp_path: Path, ws: Path) -> None:
    rows = [{**r, "app_says": "good" if i % 3 else r["label"]} for i, r in enumerate(interactions(24))]
    path = write_jsonl(tmp_path / "q.jsonl", rows)
    ended = fit(ws, path, "--app-verdict-col=app_says", framing=framing)
    assert ended.code in (0, 3), ended.all
    report = (ws / "runs/helpful-001/report.md").read_text(encoding="utf-8")
    assert f"framing {framing}" in report
    assert "the judge agrees with the app on" in report
    assert "A judge that reproduces the app is a copy of it." in report
    proof = json.loads((ws / "runs/helpful-001/isolation.json").read_text(encoding="utf-8"))
    assert ("app_verdict" in proof["fields"]) is (framing != "corrector")


def test_lo1_options_that_do_not_fit_the_label_are_refused_with_what_would(tmp_path: Path) -> None:
    queue = write_jsonl(tmp_path / "q.jsonl", interactions(24))
    ended = fit(tmp_path / "ws", queue, "--tolerance", "5", metric="mae")
    assert ended.code == 2
    assert "--tolerance is for numbers" in ended.err
    assert "mae needs a numeric label" in ended.err
    assert "--label-kind numeric" in ended.err
    assert "spearman" not in ended.err.split("takes one of", 1)[1]
