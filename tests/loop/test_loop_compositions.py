"""Where two rooms meet: what neither of them can hold alone (GT-7, SP-2, EV-7, LO-4, LO-5, LO-6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.clients.base import Reply
from fitter.errors import RunError, SettingsError, Stopped, UserError
from fitter.loop.steps import resuming
from fitter.runstore import RunStore
from tests.loop.scripted import World, add, number_of, queue, rows, truth, world


def wrong_on(*numbers: int) -> Any:
    def answer(system: str, user: str, run: int) -> str:
        said = truth(user)
        return {"good": "bad", "bad": "good"}[said] if number_of(user) in numbers else said

    return answer


class Heard:
    """Remembers what a person is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def phase(self, text: str) -> None:
        self.lines.append(text)

    def passes(self, done: int, total: int, failures: int) -> None:
        """Says nothing."""


def test_gt7_the_recap_says_before_any_call_that_a_class_is_small_and_names_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = (1, 3, 5, 7)
    records = [
        {**r, "label": "bad" if i in few else "good", "output": f"Reply number {i} {'nay' if i in few else 'aye'}."}
        for i, r in enumerate(rows(20))
    ]
    records.append({**records[0], "id": "t-900", "label": ""})
    heard = Heard()

    def answer(system: str, user: str, run: int) -> str:
        assert any("wide enough to swallow most improvements" in line for line in heard.lines)
        return wrong_on(1)(system, user, run)

    made = world(tmp_path, monkeypatch, answer)
    settings = made.settings(queue(tmp_path / "q.jsonl", records), max_iterations=0)
    fitting.Fitting(made.workspace, progress=heard).start(settings)
    recap = "\n".join(heard.lines)
    assert "21 rows read = 20 usable + 1 pending" in recap
    assert "class bad: 4" in recap
    assert "Not separately measurable (under 6 rows): bad (4)" in recap
    assert "t-0" not in recap
    assert "t-900" not in recap


def test_sp2_a_resumed_fit_works_from_its_snapshot_whatever_became_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = {"it": True}

    def answer(system: str, user: str, run: int) -> Any:
        return Reply(outcome="unavailable", detail="503") if down["it"] else wrong_on(1)(system, user, run)

    made = world(tmp_path, monkeypatch, answer)
    path = queue(tmp_path / "q.jsonl", rows(60))
    with pytest.raises(Stopped):
        made.fit(path, max_iterations=0)
    before = made.store().read("config.json")["fixed"]["snapshot"]
    train = made.store().path("train.jsonl", private=True).read_bytes()
    path.write_text("no queue any more", encoding="utf-8")
    down["it"] = False
    assert fitting.Fitting(made.workspace).resume("scripted-001").exit_code == 0
    assert made.store().read("config.json")["fixed"]["snapshot"] == before
    assert made.store().path("train.jsonl", private=True).read_bytes() == train
    assert len(made.store().read_rows("labels/train.jsonl")) + len(made.store().read_rows("labels/holdout.jsonl")) == 60


def test_sp2_a_run_killed_before_its_snapshot_counted_takes_it_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1))
    path = queue(tmp_path / "q.jsonl", rows(60))
    write = RunStore.write

    def killed(self: RunStore, name: str, *args: Any, **more: Any) -> None:
        if name == "staged.json":
            raise RunError("killed here")
        write(self, name, *args, **more)

    monkeypatch.setattr(RunStore, "write", killed)
    with pytest.raises(RunError, match="killed here"):
        made.fit(path, max_iterations=0)
    assert list(made.workspace.glob("holdouts/*/private/staged-scripted-001.json"))
    monkeypatch.setattr(RunStore, "write", write)
    queue(path, rows(62))
    assert fitting.Fitting(made.workspace).resume("scripted-001").exit_code == 0
    assert made.store().read("intake.json")["usable"] == 62
    assert not list(made.workspace.glob("holdouts/*/private/staged-*.json"))


def test_ev7_a_field_that_the_template_cannot_carry_is_told_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()

    def answer(system: str, user: str, run: int) -> str:
        assert any("not carried by local" in line for line in heard.lines)
        return wrong_on(1)(system, user, run)

    made = world(tmp_path, monkeypatch, answer)
    path = made.workspace / "evidence_maps" / "scripted.json"
    path.parent.mkdir(parents=True)
    fields = [
        {"name": "output", "path": "meta.output.value", "required": True, "why": "the reply"},
        {"name": "verdict", "path": "evaluation.value", "required": False, "why": "a grade"},
    ]
    path.write_text(json.dumps({"schema_version": 1, "scope": "span", "fields": fields}), encoding="utf-8")
    settings = made.settings(queue(tmp_path / "q.jsonl", rows()), max_iterations=0)
    fitting.Fitting(made.workspace, progress=heard).start(settings)
    assert any("verdict (evaluation.value)" in line for line in heard.lines)
    assert made.judge.asked


def test_lo4_a_refused_first_proposal_is_counted_though_the_second_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = rows()
    records[3]["output"] = "nay the seven purple elephants crossed a river of warm honey yesterday evening"
    copying = add("The reply has seven purple elephants crossed a river of warm honey in it.")
    made = world(tmp_path, monkeypatch, wrong_on(1, 3), changes=[copying, add("The reply is rude.")])
    made.fit(queue(tmp_path / "q.jsonl", records), max_iterations=1)
    record = made.store().read("guards/001.json")
    assert record["accepted_turn"] == 2
    assert len(record["refused"]) == 1
    assert "guards refused 1 proposal or criterion" in made.report()


def test_lo5_every_row_of_a_label_ceiling_is_printed_and_a_row_without_a_vote_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = range(0, 100, 2)

    def answer(system: str, user: str, run: int) -> Any:
        if number_of(user) == 101:
            return Reply(outcome="refusal", detail="no")
        return wrong_on(*wrong)(system, user, run)

    made = world(tmp_path, monkeypatch, answer, contradicts=lambda label, reason, call: True)
    made.fit(queue(tmp_path / "q.jsonl", rows(140)), max_iterations=3)
    stop = made.store().read("stop.json")
    train = {r["id"] for r in made.store().read_rows("labels/train.jsonl")}
    errors = sorted(f"t-{i:03d}" for i in wrong if f"t-{i:03d}" in train)
    assert stop["reason"] == "label_ceiling"
    assert stop["contradicting_reasons"] == errors
    line = next(line for line in made.report().splitlines() if "the rows stay wrong" in line)
    assert [row for row in errors if f"`{row}`" not in line] == []
    assert made.store().read("cards/000.json")["card"]["accuracy"]["value"] < 0.7


def test_lo6_a_candidate_that_shares_no_measurable_rows_with_best_is_no_change_and_no_discard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [i for i in range(24) if i % 2]

    def answer(system: str, user: str, run: int) -> Any:
        silent = bad[::2] if "One." in system else bad[1::2]
        if number_of(user) in silent:
            return Reply(outcome="refusal", detail="no")
        return wrong_on(bad[0])(system, user, run)

    made = world(tmp_path, monkeypatch, answer, changes=[add("One.")])
    made.fit(queue(tmp_path / "q.jsonl", rows()), max_iterations=1, patience=1, metric="f1:bad")
    cards = [made.store().read(f"cards/{n}.json")["card"]["headline"]["value"] for n in ("000", "001")]
    assert None not in cards
    record = made.store().read("decisions/001.json")
    assert record["attempt"]["outcome"] == "no_change"
    assert record["attempt"]["basis"].startswith("not measurable")
    assert (record["candidate"], record["unmeasured"]) == (None, 1)
    assert made.store().read("stop.json")["reason"] == "max_iterations"  # patience was not spent
    assert "no_change" in made.report()


def stopped_by_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A run that measured nothing yet; its model answers when it is resumed."""
    down = {"it": True}

    def answer(system: str, user: str, run: int) -> Any:
        if down["it"]:
            down["it"] = len(made.judge.asked) < 20
            return Reply(outcome="unavailable", detail="503")
        return wrong_on(1)(system, user, run)

    made = world(tmp_path, monkeypatch, answer)
    with pytest.raises(Stopped) as stop:
        made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=0)
    assert stop.value.exit_code == 4  # OUT-3: a pause, nothing scored
    assert not made.store().has("cards/000.json")
    down["it"] = False
    return made


@pytest.mark.parametrize("what", ["fitter", "parser", "judge", "proposer"])
def test_lo7_out2_a_run_is_not_resumed_with_other_code_or_other_models(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stopped_by_an_outage(tmp_path, monkeypatch)
    asked = len(made.judge.asked)
    with monkeypatch.context() as other:
        if what == "fitter":
            other.setattr(resuming, "__version__", "99.0")
        elif what == "parser":
            other.setattr(resuming, "PARSER_VERSION", "another")
        elif what == "judge":
            other.setattr(made.judge, "identity", {"spec": "scripted", "concepts": "changed"})
        else:
            other.setattr(made.proposer, "identity", {"proposer": "changed"})
        with pytest.raises(RunError, match=what):
            fitting.Fitting(made.workspace).resume("scripted-001")
    assert len(made.judge.asked) == asked
    assert fitting.Fitting(made.workspace).resume("scripted-001").exit_code == 0


def test_sp5_a_crash_after_the_opening_is_finished_by_the_same_run_and_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = {"now": False}

    def answer(system: str, user: str, run: int) -> Any:
        if list(made.workspace.glob("holdouts/*/openings.jsonl")) and not opened["now"]:
            return Reply(outcome="unavailable", detail="503")
        return wrong_on(1)(system, user, run)

    made = world(tmp_path, monkeypatch, answer)
    path = queue(tmp_path / "q.jsonl", rows(60))
    with pytest.raises(Stopped):
        made.fit(path, max_iterations=0)
    (log,) = made.workspace.glob("holdouts/*/openings.jsonl")
    before = log.read_bytes()
    assert not made.store().has("holdout.json")
    with pytest.raises(UserError, match="opened by scripted-001"):
        made.fit(path, max_iterations=0)
    opened["now"] = True
    outcome = fitting.Fitting(made.workspace).resume("scripted-001")
    assert outcome.exit_code == 0
    assert log.read_bytes() == before
    assert not list(made.workspace.glob("holdouts/*/exposures.jsonl"))
    assert made.store().read("holdout.json")["exposure"] == ""
    assert "holdout, opened once" in made.report()


def test_sc4_every_tracked_artefact_has_a_schema_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(*range(0, 60, 7)), changes=[add("One."), None])
    made.fit(queue(tmp_path / "q.jsonl", rows(60)), max_iterations=2)
    files = [p for p in made.workspace.rglob("*.json*") if "private" not in p.parts]
    names = {p.name for p in files}
    assert {"given.json", "hashes.jsonl", "events.jsonl", "openings.jsonl", "seal.json", "scripted.json"} <= names
    without = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        records = [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
        if "schema_version" not in records[0]:
            without.append(path.relative_to(made.workspace).as_posix())
    assert without == []


@pytest.mark.parametrize(("beta", "agrees"), [(0.5, False), (1.0, True), (2.0, True)])
def test_lo1_a_beta_that_weighs_false_alarms_more_cannot_serve_a_costly_miss(
    beta: float, agrees: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, wrong_on(1))
    path = queue(tmp_path / "q.jsonl", rows())
    changes = {"costly": "bad", "metric": "fbeta:bad", "beta": beta, "max_iterations": 0}
    if agrees:
        assert made.fit(path, **changes).exit_code == 0
        return
    with pytest.raises(SettingsError, match=r"disagree.*false alarm more than a miss"):
        made.fit(path, **changes)
    assert made.judge.asked == []
    assert made.fit(path, governs="metric", **changes).exit_code == 0
    assert "asked which governs, the answer was: metric" in made.report()
