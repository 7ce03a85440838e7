"""Nothing is lost: Ctrl-C, full disks, read-only folders, locks, outages, edited artefacts, clones (phase c)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.cli import main as command
from fitter.clients.base import Reply
from fitter.errors import Outage, Tampered
from fitter.holdout import hold_seal, seal_id
from fitter.loop.steps import finish
from fitter.workspace import Workspace, init
from tests.cli.cli_kit import FITTER, ROOT, cli, fit, flags, interactions, runs_of, write_jsonl
from tests.faults.test_kill import artefacts
from tests.loop.scripted import add, number_of, queue, rows, truth, world

pytestmark = pytest.mark.slow


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return tmp_path / "ws"


@pytest.fixture
def q(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "q.jsonl", interactions(48))


def popen(*argv: object, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FITTER, *map(str, argv)], cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
    )  # fmt: skip


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


def test_ctrl_c_is_130_names_the_run_and_resumes_to_the_same_artefacts(tmp_path: Path, ws: Path, q: Path) -> None:
    process = popen("--workspace", ws, "fit", q, *flags(max_iterations="3", runs="3"), "--yes")
    stderr = process.stderr
    assert stderr is not None
    for line in iter(stderr.readline, ""):
        if line.startswith("draft:000"):
            break
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err + out
    assert "run helpful-001 was interrupted; nothing paid for is lost" in err
    assert f"`fitter --workspace {ws} resume helpful-001` goes on" in err
    ended = cli("--workspace", ws, "resume", "helpful-001")
    assert ended.code == 0, ended.err
    plain = tmp_path / "plain"
    assert fit(plain, q, max_iterations="3", runs="3").code == 0
    left, right = artefacts(ws), artefacts(plain)
    assert sorted(left) == sorted(right)
    assert [n for n in left if left[n] != right[n]] == []


# -- the disk ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [600, 5_000, 20_000, 60_000])
def test_a_full_disk_is_one_clear_error_and_resumes(limit: int, tmp_path: Path, ws: Path, q: Path) -> None:
    init(ws)
    ended = fit(ws, q, fsize=limit)
    assert ended.code in (1, 2, 4), ended.all
    assert ended.err.count("error: ") == 1
    assert not list(ws.rglob(".new-*"))
    if runs_of(ws):
        assert "resume helpful-001" in ended.err, ended.err
        resumed = cli("--workspace", ws, "resume", "helpful-001")
    else:
        resumed = fit(ws, q)
    assert resumed.code == 0, resumed.err
    plain = tmp_path / "plain"
    init(plain)
    assert fit(plain, q).code == 0
    left, right = artefacts(ws), artefacts(plain)
    assert [n for n in right if left.get(n) != right[n]] == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_read_only_workspace_is_a_clear_error_and_can_still_be_looked_at(open_folder: Path) -> None:
    q = write_jsonl(open_folder / "q.jsonl", interactions(24))
    ws = open_folder / "ws"
    ws.mkdir()
    os.chmod(ws, 0o555)
    ended = fit(ws, q, nobody=True)
    assert ended.code == 2
    assert "cannot write the workspace" in ended.err
    assert "--workspace" in ended.err
    os.chmod(ws, 0o755)
    assert fit(ws, q).code == 0
    for path in [ws, *ws.rglob("*")]:
        if "private" not in path.parts:
            os.chmod(path, 0o555 if path.is_dir() else 0o444)
    assert "published" in cli("--workspace", ws, "runs", nobody=True).out
    shown = cli("--workspace", ws, "show", "helpful-001", nobody=True).out
    assert "# Fit report" in shown
    if os.getuid() == 0:  # another user's private/ is closed to a colleague
        assert "private/ is not here or may not be read" in shown
    again = fit(ws, q, nobody=True)
    assert again.code in (1, 2)
    assert again.err.count("error: ") == 1
    assert runs_of(ws) == ["helpful-001"]
    for path in [ws, *ws.rglob("*")]:
        os.chmod(path, 0o755 if path.is_dir() else 0o644)


def test_an_os_error_in_the_middle_of_a_run_is_exit_1_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    q = write_jsonl(tmp_path / "q.jsonl", interactions(24))
    whole = finish.injection

    def broken(*_: Any) -> Any:
        raise OSError(5, "Input/output error", "/somewhere/odd\x1b[31m")

    monkeypatch.setattr(finish, "injection", broken)
    with pytest.raises(SystemExit) as ended:
        command.main(["--workspace", str(tmp_path / "ws"), "fit", str(q), *flags(), "--yes"])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "run helpful-001 had to stop: Input/output error" in said
    assert "\x1b" not in said
    monkeypatch.setattr(finish, "injection", whole)
    assert fitting.Fitting(tmp_path / "ws").resume("helpful-001").exit_code == 0


# -- two at once -------------------------------------------------------------------------------------------------------


def test_a_second_fit_on_one_seal_is_told_who_holds_it_and_leaves_nothing(ws: Path, q: Path) -> None:
    init(ws)
    with hold_seal(Workspace(ws), seal_id("q", "label"), holder="run other-001"):
        before = sorted(p for p in ws.rglob("*"))
        ended = fit(ws, q)
        assert ended.code == 2
        assert "run other-001" in ended.err
        assert "pid" in ended.err
        assert sorted(p for p in ws.rglob("*")) == before
    assert fit(ws, q).code == 0


def test_a_run_under_way_cannot_be_resumed_beside_itself(ws: Path, q: Path) -> None:
    process = popen("--workspace", ws, "fit", q, *flags(max_iterations="3", runs="7"), "--yes")
    stderr = process.stderr
    assert stderr is not None
    for line in iter(stderr.readline, ""):
        if line.startswith("draft:000"):
            break
    process.send_signal(signal.SIGSTOP)
    ended = cli("--workspace", ws, "resume", "helpful-001")
    second = fit(ws, q)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert ended.code == 2
    assert "run helpful-001" in ended.err
    assert second.code == 2
    assert "run helpful-001" in second.err
    assert runs_of(ws) == ["helpful-001"]


def test_two_fits_on_two_queues_run_at_once(tmp_path: Path, ws: Path, q: Path) -> None:
    # Other words, so that neither queue has seen the other's rows.
    rows_ = [{**row, "output": str(row["output"]).replace(".", ", as agreed.")} for row in interactions(48)]
    other = write_jsonl(tmp_path / "other.jsonl", rows_)
    both = [
        popen("--workspace", ws, "fit", q, *flags(name="one"), "--yes"),
        popen("--workspace", ws, "fit", other, *flags(name="two"), "--yes"),
    ]
    said = [p.communicate(timeout=300) for p in both]
    assert [p.returncode for p in both] == [0, 0], said
    assert runs_of(ws) == ["one-001", "two-001"]
    for name, queue_ in (("one", q), ("two", other)):
        alone = tmp_path / f"alone-{name}"
        assert fit(alone, queue_, name=name).code == 0
        folder = f"runs/{name}-001/"
        left, right = artefacts(ws), artefacts(alone)
        assert {n: d for n, d in left.items() if n.startswith(folder)} == {
            n: d for n, d in right.items() if n.startswith(folder)
        }


# -- models ------------------------------------------------------------------------------------------------------------


def test_out3_an_outage_is_exit_4_scores_nothing_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    down = {"is": True}

    def answer(system: str, user: str, run: int) -> Any:
        if down["is"] and number_of(user) >= 12:
            return Reply(outcome="unavailable", detail="connection refused")
        return truth(user) if number_of(user) != 1 else "good"

    made = world(tmp_path, monkeypatch, answer)
    path = queue(tmp_path / "q.jsonl", rows())
    argv = ["--workspace", str(made.workspace), "fit", str(path), *flags(name="scripted", max_iterations="0"), "--yes"]
    with pytest.raises(SystemExit) as ended:
        command.main(argv)
    assert ended.value.code == 4
    said = capsys.readouterr().err
    assert "resume scripted-001` goes on" in said
    assert not made.store().has("cards/000.json")
    with pytest.raises(Outage):
        fitting.Fitting(made.workspace).resume("scripted-001")
    down["is"] = False
    answered = {user for _, user, _ in made.judge.asked if number_of(user) < 12}
    before = len(made.judge.asked)
    assert fitting.Fitting(made.workspace).resume("scripted-001").exit_code == 0
    asked_again = [u for _, u, _ in made.judge.asked[before:] if u in answered]
    assert asked_again == []  # LO-7: what was answered is not paid for again
    card = made.store().read("cards/000.json")["card"]
    assert card["rows"]["scored"] == 24
    assert card["rows"]["excluded"] == {}


def test_budget_is_exit_4_and_resume_takes_a_larger_one(ws: Path, q: Path) -> None:
    ended = fit(ws, q, "--budget-calls=40")
    assert ended.code == 4
    assert "budget of 40 calls is reached" in ended.err
    assert f"`fitter --workspace {ws} resume helpful-001` goes on" in ended.err
    assert cli("--workspace", ws, "resume", "helpful-001").code == 4
    assert cli("--workspace", ws, "resume", "helpful-001", "--budget-calls=0").code == 2
    assert cli("--workspace", ws, "resume", "helpful-001", "--budget-calls=45").code == 4
    done = cli("--workspace", ws, "resume", "helpful-001", "--budget-calls=1000")
    assert done.code == 0, done.err
    assert json.loads((ws / "runs/helpful-001/budget.json").read_text(encoding="utf-8"))["budget_calls"] == 1000


# -- edited artefacts --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    path = write_jsonl(folder / "q.jsonl", interactions(48))
    assert fit(folder / "ws", path, "--budget-calls=75").code == 4
    return folder / "ws"


EDITED = (
    "config.json", "split.json", "cards/000.json", "passes/000.jsonl", "labels/train.jsonl", "private/train.jsonl",
    "prompts/000.json", "baseline.json", "map.json",
)  # fmt: skip


@pytest.mark.parametrize("name", EDITED)
def test_an_artefact_edited_between_stop_and_resume_is_exit_1_and_named(
    name: str, stopped: Path, tmp_path: Path
) -> None:
    ws = tmp_path / "ws"
    shutil.copytree(stopped, ws)
    path = ws / "runs" / "helpful-001" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ended = cli("--workspace", ws, "resume", "helpful-001", "--budget-calls=1000")
    assert ended.code == 1, ended.all
    assert name in ended.err
    assert "changed after it was written" in ended.err
    path.unlink()
    gone = cli("--workspace", ws, "resume", "helpful-001", "--budget-calls=1000")
    assert gone.code == 1
    assert f"{name} is gone" in gone.err


def test_an_untouched_copy_resumes(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "ws")
    ended = cli("--workspace", tmp_path / "ws", "resume", "helpful-001", "--budget-calls=1000")
    assert ended.code == 0, ended.err


def test_the_holdouts_rows_edited_before_the_opening_are_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, lambda system, user, run: truth(user), changes=[add("One.")])
    opening = finish.holdout

    def not_yet(*_: Any) -> Any:
        raise Outage("held here")

    monkeypatch.setattr(finish, "holdout", not_yet)
    with pytest.raises(Outage):
        made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=0)
    monkeypatch.setattr(finish, "holdout", opening)
    (path,) = made.workspace.glob("holdouts/*/private/*.jsonl")
    path.write_text(path.read_text(encoding="utf-8").replace("good", "fine", 1), encoding="utf-8")
    with pytest.raises(Tampered, match="after they were sealed"):
        fitting.Fitting(made.workspace).resume("scripted-001")


# -- a clone -----------------------------------------------------------------------------------------------------------


def test_the_tracked_half_cloned_elsewhere_shows_every_figure_and_what_it_cannot_verify(
    tmp_path: Path, ws: Path, q: Path
) -> None:
    assert fit(ws, q).code == 0
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "records"]):
        subprocess.run([*git, *argv], cwd=ws, check=True, capture_output=True)
    clone = tmp_path / "clone"
    subprocess.run([*git, "clone", "-q", str(ws), str(clone)], check=True, capture_output=True)
    names = {p.name for p in clone.rglob("*") if ".git" not in p.parts}
    assert not names & {"private", "calls.sqlite", "state.sqlite", "run.lock", "fit.lock"}
    here, there = (cli("--workspace", w, "show", "helpful-001") for w in (ws, clone))
    assert (here.code, there.code) == (0, 0)
    report = (ws / "runs/helpful-001/report.md").read_text(encoding="utf-8")
    assert report.strip() in there.out
    assert "private/ is not here or may not be read" in there.out
    assert "cannot be checked" in there.out
    assert "private/ is not here" not in here.out
    assert cli("--workspace", clone, "runs").out == cli("--workspace", ws, "runs").out
    resumed = cli("--workspace", clone, "resume", "helpful-001")
    assert resumed.code == 1
    assert "checkpoint" in resumed.err
    shown = cli("--workspace", clone, "evidence", "t-000", "--run", "helpful-001")
    assert shown.code == 2
    assert "private/ is not in git" in shown.err
    card = clone / "runs/helpful-001/cards/000.json"
    card.write_text(card.read_text(encoding="utf-8").replace("0.9", "0.8", 1), encoding="utf-8")
    assert "cards/000.json" in cli("--workspace", clone, "show", "helpful-001").out  # named as changed


# -- SC-3 --------------------------------------------------------------------------------------------------------------

COLLECTOR = """
import http.server, sys, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def handle_any(self):
        with open(sys.argv[1], "a") as log:
            log.write(self.command + " " + self.path + "\\n")
        self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
    do_GET = do_POST = do_PUT = do_PATCH = do_HEAD = handle_any
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_sc3_no_tracing_leaves_the_machine_and_no_secret_is_written(tmp_path: Path, ws: Path, q: Path) -> None:
    log = tmp_path / "collected"
    log.write_text("", encoding="utf-8")
    collector = subprocess.Popen([sys.executable, "-c", COLLECTOR, str(log)], stdout=subprocess.PIPE, text=True)
    stdout = collector.stdout
    assert stdout is not None
    port = stdout.readline().strip()
    secret = "canary-secret-5f1d"
    url = f"http://127.0.0.1:{port}"
    tracing = {
        "LANGSMITH_TRACING": "true", "LANGCHAIN_TRACING_V2": "true", "LANGSMITH_ENDPOINT": url,
        "LANGCHAIN_ENDPOINT": url, "LANGSMITH_API_KEY": secret, "LANGCHAIN_API_KEY": secret, "OPENAI_API_KEY": secret,
        "ANTHROPIC_API_KEY": secret, "DD_API_KEY": secret, "LANGGRAPH_STRICT_MSGPACK": "true",
    }  # fmt: skip
    try:
        process = popen("--workspace", ws, "fit", q, *flags(), "--yes", **tracing)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        time.sleep(0.5)
        assert log.read_text(encoding="utf-8") == ""
        # The collector does collect: the same environment without our switch would have been heard.
        probe = "import os, urllib.request; urllib.request.urlopen(os.environ['LANGSMITH_ENDPOINT'] + '/probe').read()"
        subprocess.run([sys.executable, "-c", probe], env={**os.environ, **tracing, "no_proxy": "*"}, check=True)
        assert log.read_text(encoding="utf-8") == "GET /probe\n"
    finally:
        collector.kill()
        collector.communicate()
    assert secret not in out + err
    assert [p for p in ws.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()] == []
