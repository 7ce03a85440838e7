"""After a fit: where a winner may be published, what ``verify`` finds, and that a rehearsal has no verdicts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fitter import published
from fitter.deployed import observe
from fitter.errors import SettingsError, Tampered, UserError
from fitter.evidence.map import EvidenceMap
from fitter.evidence.targets.base import Compiled, Resolved
from fitter.evidence.targets.local import LocalTarget
from fitter.fitting import Fitting
from fitter.jsonio import sha256
from fitter.settings import make
from fitter.workspace import Workspace
from tests.cli.cli_kit import interactions, write_jsonl

NAME, RUN = "helpful", "helpful-001"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One local fit; tests that change anything take a copy."""
    folder = tmp_path_factory.mktemp("afterwards")
    fitter = Fitting(folder / "ws")
    given = make(
        queue=str(write_jsonl(folder / "good.jsonl", interactions(24))),
        goal="Catch replies that help nobody", costly="same", framing="grader", metric="balanced_accuracy",
        judge="lexicon", proposer="lexicon", name=NAME, app="shop", publish_to="local", max_iterations=0, runs=1,
    )  # fmt: skip
    assert fitter.start(fitter.complete(given)).exit_code == 0
    return folder / "ws"


@pytest.fixture
def ws(fitted: Path, tmp_path: Path) -> Path:
    shutil.copytree(fitted, tmp_path / "ws")
    return tmp_path / "ws"


class Elsewhere(LocalTarget):
    """Another platform that differs from the fit's in nothing."""

    name = "elsewhere"


class LessEvidence(Elsewhere):
    def compile(self, evidence: EvidenceMap) -> Compiled:
        made = super().compile(evidence)
        return Compiled(placeholders=made.placeholders[1:], gaps=())


class OtherText(Elsewhere):
    def resolve(self, template: str, payload: Mapping[str, Any]) -> Resolved:
        made = super().resolve(template, payload)
        return Resolved(text=made.text + " ", states=made.states)


class OtherJudges(Elsewhere):
    def hosts(self, judge_spec: str) -> str | None:
        return "it runs no lexicon"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (LessEvidence(), "template cannot carry the evidence"),
        (OtherText(), "resolves to another text in 24 train rows"),
        (OtherJudges(), "it runs no lexicon"),
        (Elsewhere(), "is not a platform fitter can publish to"),  # the winner fits; only the publisher does not exist
    ],
)
def test_a_winner_goes_only_where_the_measured_prompt_is_the_prompt_that_runs(
    fitted: Path, monkeypatch: pytest.MonkeyPatch, target: Elsewhere, words: str
) -> None:
    monkeypatch.setattr(published, "open_target", lambda name: target)
    with pytest.raises(SettingsError, match=words):
        published.publish_run(Fitting(fitted), RUN, to="elsewhere")


def test_publishing_again_changes_neither_run_nor_receipt(ws: Path) -> None:
    def files() -> dict[str, bytes]:
        folders = (ws / "runs" / RUN, ws / "publish" / "local" / NAME / RUN)
        found = [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()]
        return {str(p): p.read_bytes() for p in found}

    before = files()
    (ws / "publish" / "local" / "registry" / f"{NAME}.json").unlink()  # somebody deleted the evaluator
    receipt = published.publish_run(Fitting(ws), RUN, to="local")
    assert receipt.compared > 5
    assert files() == before
    assert published.verify_published(Workspace(ws), NAME).intact


def test_a_run_without_a_measured_winner_is_refused(ws: Path) -> None:
    with pytest.raises(UserError, match="there is no run"):
        published.publish_run(Fitting(ws), "nothing-001", to="local")
    (ws / "runs" / RUN / "result.json").unlink()
    with pytest.raises(UserError, match="not measured to its end"):
        published.publish_run(Fitting(ws), RUN, to="local")


def test_pu4_verify_compares_with_the_receipt_field_by_field(ws: Path) -> None:
    found = published.verify_published(Workspace(ws), NAME)
    assert found.intact
    assert "  disabled" in found.lines()
    registry = ws / "publish" / "local" / "registry" / f"{NAME}.json"
    document = json.loads(registry.read_text())
    registry.write_text(json.dumps({**document, "scope": "trace"}))
    found = published.verify_published(Workspace(ws), NAME)
    assert [f.field for f in found.different] == ["/scope"]
    assert not found.intact
    registry.write_text(json.dumps({**document, "enabled": True}))
    found = published.verify_published(Workspace(ws), NAME)
    assert not found.intact
    assert any("ENABLED, at /enabled: not by this program" in line for line in found.lines())
    registry.unlink()
    assert published.verify_published(Workspace(ws), NAME).lines()[-1].strip().startswith("GONE")


def test_verify_finds_the_run_whose_evaluator_it_is(ws: Path) -> None:
    folder = ws / "publish" / "local" / NAME
    shutil.copytree(folder / RUN, folder / "helpful-002")
    later = folder / "helpful-002"
    sent = json.loads((later / "sent.json").read_text()) | {"scope": "trace"}
    raw = json.dumps(sent).encode()
    (later / "sent.json").write_bytes(raw)
    receipt = json.loads((later / "receipt.json").read_text()) | {"run": "helpful-002"}
    receipt["sha256"]["sent.json"] = sha256(raw)
    (later / "receipt.json").write_text(json.dumps(receipt))
    assert published.verify_published(Workspace(ws), NAME).published.run == RUN
    assert not published.verify_published(Workspace(ws), NAME, run="helpful-002").intact
    with pytest.raises(UserError, match="no receipt"):
        published.verify_published(Workspace(ws), NAME, run="helpful-003")
    with pytest.raises(UserError, match="no platform"):
        published.verify_published(Workspace(ws), NAME, at="moon")


def test_a_receipt_whose_files_were_edited_is_no_measure(ws: Path) -> None:
    sent = ws / "publish" / "local" / NAME / RUN / "sent.json"
    sent.write_text(sent.read_text().replace("false", "true", 1))
    with pytest.raises(Tampered, match="is not what the receipt says"):
        published.verify_published(Workspace(ws), NAME)


def test_pu1_a_rehearsal_has_no_verdicts_to_compare(fitted: Path) -> None:
    with pytest.raises(SettingsError, match="rehearsal: nothing runs there"):
        observe(Fitting(fitted), NAME)


def test_sc5_names_cannot_leave_the_folder(fitted: Path) -> None:
    for name in ("../registry", "/etc/passwd", "a\x1b[31m"):
        with pytest.raises(UserError, match="no receipt") as caught:
            published.verify_published(Workspace(fitted), name)
        assert "\x1b" not in str(caught.value)
