"""`fitter replay`: every figure again from the retained passes; one flipped byte anywhere is found (KE-5, SC-4)."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fitter.evaluation.integrity import NO_ARTEFACTS, Findings
from fitter.evaluation.replay import replay
from fitter.jsonio import jsonl, pretty, sha256
from fitter.loop.steps.reviewers import agreement_of, kept_reviews
from fitter.runstore import RunStore
from fitter.workspace import Workspace
from tests.evaluation.conftest import RUN
from tests.evaluation.lines import Command


def again(workspace: Path) -> Findings:
    return replay(Workspace(workspace), RUN)


@pytest.fixture
def copied(practice_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(practice_run, tmp_path / "ws"))


def run_folder(workspace: Path) -> Path:
    return workspace / "runs" / RUN


def counts(workspace: Path) -> dict[str, int]:
    """How many cards, decisions, versions and private artefacts this practice run has."""
    store = RunStore(Workspace(workspace), RUN)
    private = store.folder / "private"
    return {
        "cards": len(store.names("cards")),
        "decisions": len(store.names("decisions")),
        "versions": len(store.names("prompts")),
        "private": sum(p.is_file() for p in private.rglob("*")),
    }


def rehash(workspace: Path) -> None:
    """Writes a manifest that fits the folder as it is now: whoever edits a figure may edit its hash too."""
    RunStore(Workspace(workspace), RUN).write_manifest()


def test_ke5_a_run_replays_without_a_difference(practice_run: Path, fitter: Command) -> None:
    code, out, err = fitter("--workspace", practice_run, "replay", RUN)
    assert (code, err) == (0, "")
    n = counts(practice_run)
    assert n["decisions"] >= 3
    for what in (
        "tracked artefacts have the hash",
        f"all {n['private']} private artefacts have the hash",
        f"{n['cards']} score cards recomputed",
        f"{n['decisions']} decisions recomputed",
        "v0 and min_delta follow",
        "the improvement on the holdout recomputed",
        "winner and ending follow",
        "report.md: every line rendered again",
        f"{n['versions']} prompt versions",
        f"the texts that were judged rendered again for {n['versions']} versions",
        "the seal records one look at the holdout",
    ):
        assert what in out
    assert out.rstrip().endswith("nothing differs")


def test_replay_calls_no_model_and_writes_nothing(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fitter.lexicon import LexiconClient

    async def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a replay called the model")

    monkeypatch.setattr(LexiconClient, "complete", refuse)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in copied.rglob("*") if p.is_file()}
    assert again(copied).intact
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in copied.rglob("*") if p.is_file()} == before


def artefacts(workspace: Path) -> list[Path]:
    folder = run_folder(workspace)
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in NO_ARTEFACTS and p.stat().st_size]


def bytes_differ(workspace: Path) -> bool:
    """Only the look at the bytes: what every replay does first, fast enough to do it hundreds of times."""
    from fitter.evaluation.integrity import check_bytes

    found = Findings()
    check_bytes(RunStore(Workspace(workspace), RUN), found)
    return not found.intact


def test_one_flipped_byte_in_any_artefact_is_found(copied: Path) -> None:
    chance = random.Random(20261130)
    files = artefacts(copied)
    assert len(files) > 50
    assert {"manifest.json", "events.jsonl", "given.json", "report.md", "train.jsonl"} <= {p.name for p in files}
    for path in files:
        raw = path.read_bytes()
        places = {0, len(raw) - 1, *(chance.randrange(len(raw)) for _ in range(2))}
        if path.name in ("manifest.json", "events.jsonl", "given.json"):  # what no hash in the manifest covers
            places |= {chance.randrange(len(raw)) for _ in range(25)}
        for at in sorted(places):
            flipped = bytes([raw[at] ^ (1 << chance.randrange(8))])
            path.write_bytes(raw[:at] + flipped + raw[at + 1 :])
            assert bytes_differ(copied), f"{path.name}, byte {at}: {raw[at : at + 1]!r} → {flipped!r}"
        path.write_bytes(raw)
    assert not bytes_differ(copied)


@pytest.mark.parametrize("name", ["cards/002.json", "private/train.jsonl", "config.json", "manifest.json"])
def test_a_flipped_byte_names_its_file_and_exits_1(name: str, copied: Path, fitter: Command) -> None:
    path = run_folder(copied) / name
    raw = path.read_bytes()
    at = len(raw) // 2
    path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
    code, out, _ = fitter("--workspace", copied, "replay", RUN)
    assert code == 1
    assert "DIFFERS" in out
    if name != "manifest.json":  # a flipped name or hash in the manifest is a difference of the file it is about
        assert name in out


def test_a_file_too_many_and_a_file_too_few_are_found(copied: Path) -> None:
    (run_folder(copied) / "cards" / "099.json").write_text("{}", encoding="utf-8")
    (run_folder(copied) / "census" / "001.json").unlink()
    (run_folder(copied) / "private" / "reviews.jsonl").unlink()
    named = {name for name, _ in again(copied).differences}
    assert {"cards/099.json", "census/001.json", "private/reviews.jsonl"} <= named


# -- figures that were edited together with their hash


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(pretty(document), encoding="utf-8")


def edit_line(path: Path, number: int, change: Callable[[dict[str, Any]], Any]) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows[number])
    path.write_text(jsonl(rows), encoding="utf-8")


def half_of_it(path: Path) -> None:
    """Half of the passes, which decide nothing."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")


def other_class(row: dict[str, Any]) -> None:
    row["label"] = "breaks" if row["label"] == "follows" else "follows"


def swap(record: dict[str, Any], key: str, one: str, other: str) -> None:
    record[key] = other if record[key] == one else one


EDITS: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a card's headline": ("cards/002.json", lambda p: edit(p, lambda d: d["card"]["headline"].update(value=0.9)),
                          "cards/002.json"),
    "a card's interval": ("cards/holdout-winner.json",
                          lambda p: edit(p, lambda d: d["card"]["headline"]["ci95"].update(low=0.6)),
                          "cards/holdout-winner.json"),
    "a pass": ("passes/002.jsonl", lambda p: edit_line(p, 4, other_class), "cards/002.json"),
    "a pass of an early decision": ("passes/001.jsonl", lambda p: edit_line(p, 4, other_class), "decisions/001.json"),
    "a pass that an early decision lacks": ("passes/001.jsonl", half_of_it, "decisions/001.json"),
    "the count of an early decision": ("decisions/001.json",
                                       lambda p: edit(p, lambda d: d["decision"]["passes"].update(of=900)),
                                       "decisions/001.json"),
    "why it was not kept": ("decisions/001.json", lambda p: edit(p, lambda d: d["attempt"].update(basis="improved")),
                            "decisions/001.json"),
    "a holdout pass": ("passes/holdout-winner.jsonl", lambda p: [edit_line(p, k, other_class) for k in (1, 2, 3)],
                       "cards/holdout-winner.json"),
    "a label": ("labels/train.jsonl", lambda p: edit_line(p, 3, other_class), "labels/train.jsonl"),
    "a decision": ("decisions/002.json",
                   lambda p: edit(p, lambda d: swap(d["decision"], "label", "significant", "within_noise")),
                   "decisions/002.json"),
    "an outcome": ("decisions/002.json",
                   lambda p: edit(p, lambda d: swap(d["attempt"], "outcome", "kept", "discarded")),
                   "decisions/002.json"),
    "gained rows": ("decisions/002.json", lambda p: edit(p, lambda d: d["decision"]["paired"]["gained_ids"].pop()),
                    "decisions/002.json"),
    "the bucket": ("census/001.json", lambda p: edit(p, lambda d: d["buckets"][0]["rows"].pop()),
                   "decisions/001.json"),
    "min_delta": ("baseline.json", lambda p: edit(p, lambda d: d["min_delta"].update(value=0.01)), "baseline.json"),
    "the redraft": ("degenerate.json", lambda p: edit(p, lambda d: d.update(failure="it looked bad")),
                    "degenerate.json"),
    "the stop": ("stop.json", lambda p: edit(p, lambda d: d.update(reason="ceiling")), "stop.json"),
    "the improvement": ("holdout.json", lambda p: edit(p, lambda d: d["improvement"]["paired"].update(mcnemar_p=0.01)),
                        "holdout.json"),
    "the winner": ("result.json", lambda p: edit(p, lambda d: d.update(winner=d["winner"] + 1)), "result.json"),
    "the count of candidates": ("result.json", lambda p: edit(p, lambda d: d.update(versions=d["versions"] + 1)),
                                "result.json"),
    "the optimism": ("optimism.json", lambda p: edit(p, lambda d: d["inflation"].update(value=0.0)), "optimism.json"),
    "the agreement": ("agreement.json", lambda p: edit(p, lambda d: d["percent"].update(value=1.0)), "agreement.json"),
    "a prompt's text": ("prompts/001.json",
                        lambda p: edit(p, lambda d: d["prompt"].update(system=d["prompt"]["system"] + " ")),
                        "prompts/001.json"),
    "a prompt's map": ("prompts/001.json", lambda p: edit(p, lambda d: d["map"]["fields"][0].update(required=True)),
                       "prompts/001.json"),
    "the settings": ("config.json", lambda p: edit(p, lambda d: d["settings"].update(patience=9)), "config.json"),
    "the seed": ("config.json", lambda p: edit(p, lambda d: d["fixed"]["scoring"].update(seed=1)), "config.json"),
    "the report": ("report.md", lambda p: p.write_text(p.read_text("utf-8").replace("NOT", "").replace("0.6", "0.8")),
                   "report.md"),
    "the judge's words": ("private/reasoning/000.jsonl",
                          lambda p: edit_line(p, 2, lambda d: d.update(reasoning="because")),
                          "private/reasoning/000.jsonl"),
    "a train row's text": ("private/train.jsonl",
                           lambda p: p.write_text(p.read_text("utf-8").replace("refund", "rebate")),
                           "renders/000.jsonl"),
    "a judged text": ("renders/001.jsonl", lambda p: edit_line(p, 2, lambda d: d.update(sha256="0" * 64)),
                      "renders/001.jsonl"),
    "the receipt": ("receipt.json", lambda p: edit(p, lambda d: d["receipt"].update(enabled=True)), "receipt.json"),
    "the published prompt": ("receipt.json",
                             lambda p: edit(p, lambda d: d["receipt"]["metadata"].update(prompt_hash="0" * 64)),
                             "receipt.json"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", EDITS)
def test_ke5_a_figure_edited_together_with_its_hash_is_found(what: str, copied: Path) -> None:
    name, change, where = EDITS[what]
    path = run_folder(copied) / name
    before = sha256(path.read_bytes())
    change(path)
    assert sha256(path.read_bytes()) != before
    rehash(copied)
    found = again(copied)
    assert where in {artefact for artefact, _ in found.differences}, found.differences


def test_a_seal_that_was_opened_for_another_winner_is_found(copied: Path) -> None:
    log = next((copied / "holdouts").glob("*/openings.jsonl"))
    edit_line(log, 0, lambda d: d.update(winner="0" * 64))
    assert ("holdouts/", "no opening of the holdout is on record for this run, config and winner") in again(
        copied
    ).differences


def test_what_was_sent_to_the_platform_is_checked_against_the_receipt(copied: Path) -> None:
    sent = copied / "publish" / "local" / "support_policy" / RUN / "sent.json"
    sent.write_text(sent.read_text(encoding="utf-8").replace("disabled", "disabIed", 1) + " ", encoding="utf-8")
    assert "publish/sent.json" in {name for name, _ in again(copied).differences}


def test_sc4_the_tracked_half_alone_replays_and_says_what_it_cannot_verify(copied: Path, fitter: Command) -> None:
    """A clone has neither private/ nor what git ignores; every score and decision still recomputes."""
    n = counts(copied)
    shutil.rmtree(run_folder(copied) / "private")
    shutil.rmtree(next((copied / "holdouts").glob("*/private")))
    for name in ("runs/calls.sqlite", f"runs/{RUN}/state.sqlite", f"runs/{RUN}/run.lock"):
        (copied / name).unlink()
    code, out, _ = fitter("--workspace", copied, "replay", RUN)
    assert code == 0
    assert f"{n['cards']} score cards recomputed" in out
    assert f"{n['decisions']} decisions recomputed" in out
    assert "report.md: every line rendered again" in out
    assert f"not verified here: {n['private']} private artefacts are not here" in out
    assert "the judge's words of" not in out
    path = run_folder(copied) / "passes" / "002.jsonl"
    edit_line(path, 4, other_class)
    rehash(copied)
    assert fitter("--workspace", copied, "replay", RUN)[0] == 1


def test_an_unfinished_run_replays_as_far_as_it_got(copied: Path, fitter: Command) -> None:
    for name in ("manifest.json", "receipt.json", "report.md", "result.json"):
        (run_folder(copied) / name).unlink()
    code, out, _ = fitter("--workspace", copied, "replay", RUN)
    assert code == 0
    assert "the run is unfinished" in out
    assert f"{counts(copied)['cards']} score cards recomputed" in out


def test_no_such_run(tmp_path: Path, fitter: Command) -> None:
    code, _, err = fitter("--workspace", tmp_path, "replay", "nope-001")
    assert code == 2
    assert "there is no run 'nope-001' here" in err
    assert fitter("--workspace", tmp_path, "replay", "../../etc")[0] == 2


# -- the reviews that a run keeps


def review(row: str, who: str | None, label: str, role: str = "review") -> dict[str, Any]:
    return {"row": row, "annotator": who, "label": label, "role": role}


def test_sp7_no_review_of_a_holdout_row_is_kept() -> None:
    reviews = [review(f"r{k}", who, "x") for k in range(10) for who in "ab"]
    kept = kept_reviews(reviews, train={"r0", "r1", "r2"}, usable=6, contested=["r6", "r7", "r8", "r9"])
    rows = {r["row"] for r in kept}
    assert rows >= {"r0", "r1", "r2"}
    assert not rows & {"r3", "r4", "r5"}
    assert len(rows & {"r6", "r7", "r8", "r9"}) == 2  # the train share, one half
    assert kept == kept_reviews(reviews, train={"r0", "r1", "r2"}, usable=6, contested=["r9", "r8", "r7", "r6"])


def test_agreement_numbers_reviewers_and_leaves_adjudications_and_wavering_ones_out() -> None:
    reviews = [
        review("r1", "ada", "x"), review("r1", "bob", "x"), review("r1", "eve", "y", "adjudication"),
        review("r2", "ada", "x"), review("r2", "bob", "y"),
        review("r3", "ada", "x"), review("r3", "ada", "y"), review("r3", "bob", "x"),
        review("r4", None, "x"), review("r4", "bob", "y"),
    ]  # fmt: skip
    found = agreement_of(reviews, "categorical")
    assert (found["rows"], found["percent"]["value"]) == (2, 0.5)
    assert found["annotators"] == ["reviewer 1", "reviewer 2"]
    assert "ada" not in json.dumps(found)
    numbers = agreement_of([review("r1", "ada", "1"), review("r1", "bob", "3.5")], "numeric")
    assert numbers["mean_difference"]["value"] == 2.5
    assert numbers["krippendorff_alpha"]["level"] == "interval"
    assert agreement_of([], "boolean")["rows"] == 0


def test_the_practice_report_says_ceiling_and_optimism_beside_the_figures(practice_run: Path) -> None:
    report = (run_folder(practice_run) / "report.md").read_text(encoding="utf-8")
    optimism = json.loads((run_folder(practice_run) / "optimism.json").read_text(encoding="utf-8"))
    agreed = json.loads((run_folder(practice_run) / "agreement.json").read_text(encoding="utf-8"))
    versions = counts(practice_run)["versions"]
    assert optimism["candidates"] == versions - 1
    gain = f"{optimism['inflation']['value']:.3f}"
    said = f"in-sample, selected from {versions} candidates; selection from noise alone would gain {gain}"
    assert report.count(said) >= 3
    assert f"the best of v0 and {versions - 1} null candidates" in report
    assert f"two reviewers give the same answer in {agreed['percent']['value']:.3f} of the pairs" in report
    assert "reviewer-ada" not in (run_folder(practice_run) / "agreement.json").read_text(encoding="utf-8")
