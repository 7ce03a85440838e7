"""Where a run's figures come from: prompts by their own hashes, rows and words by digests, seal and publication."""

from __future__ import annotations

from typing import Any

from fitter.errors import FitterError
from fitter.evaluation.integrity import Findings
from fitter.evidence.map import EvidenceMap
from fitter.evidence.render import Rendered, render
from fitter.evidence.targets import open_target
from fitter.evidence.targets.base import Target
from fitter.holdout import openings
from fitter.jsonio import canonical, digest, pretty, sha256
from fitter.judge.prompt import JudgePrompt, build_prompt
from fitter.queues.snapshot import load_rows
from fitter.records import Framing, Row
from fitter.runstore import RunStore
from fitter.textsafe import one_line


def _target(store: RunStore) -> Target:
    return open_target(store.read("config.json")["settings"]["publish_to"] or "local")


def check_prompts(store: RunStore, found: Findings) -> None:
    """Each version: its own hash, and the text that its criteria and map render, nonce included."""
    names, good = store.names("prompts"), 0
    target = _target(store)
    for name in names:
        artefact = f"prompts/{name}.json"
        try:
            version = store.read(artefact)
            prompt = JudgePrompt.from_json(version["prompt"])
            evidence = EvidenceMap.model_validate(version["map"])
            if evidence.hash != version["map_hash"]:
                found.differs(artefact, "its evidence map is not the one its map_hash names")
                continue
            again = build_prompt(prompt.draft, prompt.contract, target.compile(evidence), redraw=prompt.redraw)
        except FitterError as fault:
            found.differs(artefact, fault.message)
            continue
        except (KeyError, TypeError, ValueError) as fault:
            found.differs(artefact, f"it is no version file: {one_line(str(fault), 120)}")
            continue
        if canonical(again.to_json()) != canonical(version["prompt"]):
            found.differs(artefact, "its criteria and map do not render its text and nonce")
            continue
        good += 1
    if names and good == len(names):
        found.verified.append(f"{good} prompt versions: hash, nonce and text follow from criteria and map")


def check_private(store: RunStore, found: Findings) -> None:
    """The judge's words by their digests; the train rows by their labels; the judged texts rendered again."""
    if not (store.folder / "private").is_dir():
        return
    _check_reasoning(store, found)
    path = store.path("train.jsonl", private=True)
    if not path.is_file():
        return
    rows = load_rows(path.read_text(encoding="utf-8"))
    _check_labels(store, found, rows)
    _check_agreement(store, found)
    _check_renders(store, found, {row.id: row for row in rows})


def _check_reasoning(store: RunStore, found: Findings) -> None:
    names, good = store.names("passes"), 0
    for name in names:
        artefact = f"private/reasoning/{name}.jsonl"
        if not store.has(f"reasoning/{name}.jsonl", private=True):
            found.unverified.append(f"{artefact} is not here: the judge's words of these passes cannot be checked")
            continue
        words = {(r["row"], r["run"]): r["reasoning"] for r in store.read_rows(f"reasoning/{name}.jsonl", private=True)}
        passes = {(r["row"], r["run"]): r.get("reasoning_sha256") for r in store.read_rows(f"passes/{name}.jsonl")}
        odd = [
            key
            for key in sorted(set(words) | set(passes))
            if key not in words or key not in passes or (sha256(words[key]) if words[key] else None) != passes[key]
        ]
        for row, run in odd[:3]:
            found.differs(
                artefact, f"row {one_line(row, 60)}, run {run}: the words are not those the pass's digest names"
            )
        good += not odd
    if names and good == len(names):
        found.verified.append(f"the judge's words of {good} versions match the digests in the tracked passes")


def _check_labels(store: RunStore, found: Findings, rows: tuple[Row, ...]) -> None:
    from fitter.loop.steps.prepare import label_rows

    recorded = store.read_rows("labels/train.jsonl")
    # Positional rows are grouped by content alone; the recorded file is one of the two.
    if all(canonical(recorded) != canonical(label_rows(rows, positional=p)) for p in (False, True)):
        found.differs("labels/train.jsonl", "it is not what the private train rows say")
    else:
        found.verified.append(f"{len(rows)} train labels and groups follow from the private rows")


def _check_agreement(store: RunStore, found: Findings) -> None:
    if not store.has("agreement.json"):
        return
    from fitter.loop.steps.reviewers import agreement_of

    recorded = {k: v for k, v in store.read("agreement.json").items() if k != "schema_version"}
    reviews = store.read_rows("reviews.jsonl", private=True)
    kind = store.read("config.json")["fixed"]["label"]["kind"]
    again = agreement_of(reviews, kind)
    if canonical({**recorded, **again}) != canonical(recorded):
        found.differs("agreement.json", "its figures are not those of the private reviews")
    else:
        found.verified.append("the reviewers' agreement follows from the private reviews")


def _check_renders(store: RunStore, found: Findings, rows: dict[str, Row]) -> None:
    names = [n for n in store.names("renders") if not n.startswith("holdout-")]
    framing: Framing = store.read("config.json")["settings"]["framing"]
    target, good = _target(store), 0
    for name in names:
        version = store.read(f"prompts/{name}.json")
        prompt, evidence = JudgePrompt.from_json(version["prompt"]), EvidenceMap.model_validate(version["map"])
        odd = []
        for record in store.read_rows(f"renders/{name}.jsonl"):
            made = render(target, prompt, evidence, rows[record["row"]], framing)
            text = sha256(made.text) if isinstance(made, Rendered) else made.reason
            if text != record.get("sha256", record.get("excluded")):
                odd.append(record["row"])
        for row in odd[:3]:
            found.differs(
                f"renders/{name}.jsonl", f"row {one_line(row, 60)} does not render to the text that was judged"
            )
        good += not odd
    if names and good == len(names):
        found.verified.append(f"the texts that were judged rendered again for {good} versions, the same to the byte")


def check_seal(store: RunStore, found: Findings) -> None:
    """The holdout's one opening is on record, for this run, config and winner (SP-5)."""
    if not store.has("holdout.json") or not store.read("holdout.json")["opened"]:
        return
    split, config, record = store.read("split.json"), store.read("config.json"), store.read("holdout.json")
    if not (store.workspace.seal(split["seal"]) / "openings.jsonl").is_file():
        found.unverified.append("the seal is not here: that the holdout was opened once, for this winner, is not shown")
        return
    version = store.read(f"prompts/{record['winner']:03d}.json")
    winner = digest([JudgePrompt.from_json(version["prompt"]).hash, EvidenceMap.model_validate(version["map"]).hash])
    looks = openings(store.workspace, split["seal"])
    mine = [
        n for n, o in enumerate(looks)
        if (o["run"], o["config"], o["winner"], o["snapshot"])
        == (store.run_id, config["config_hash"], winner, split["snapshot"])
    ]  # fmt: skip
    if not mine:
        found.differs("holdouts/", "no opening of the holdout is on record for this run, config and winner")
    elif (mine[0] == 0) != (record["exposure"] == ""):
        found.differs("holdout.json", "whether it was the first to open the holdout is not what the seal records")
    else:
        found.verified.append("the seal records one look at the holdout for this run, config and winner")


def check_publication(store: RunStore, found: Findings) -> None:
    """The receipt, and that the evaluator sent is the measured winner, disabled (PU-1, PU-4)."""
    if not store.has("receipt.json"):
        return
    receipt, config = store.read("receipt.json")["receipt"], store.read("config.json")
    version = store.read(f"prompts/{store.read('result.json')['winner']:03d}.json")
    prompt = JudgePrompt.from_json(version["prompt"])
    expected: dict[str, Any] = {
        "run": store.run_id,
        "config_hash": config["config_hash"],
        "prompt_hash": prompt.hash,
        "map_hash": version["map_hash"],
        "nonce": prompt.nonce,
    }
    for key, value in expected.items():
        if receipt["metadata"].get(key) != value:
            found.differs("receipt.json", f"the evaluator's {key} is not that of the winner")
    if receipt["enabled"] is not False or receipt["fields_different"] or not receipt["listed"]:
        found.differs("receipt.json", "it does not say: disabled, read back equal, listed")
    folder = store.workspace.publish(receipt["publisher"], receipt["evaluator"], store.run_id)
    if not folder.is_dir():
        found.unverified.append("what was sent and read back is not here (publish/)")
        return
    for name, recorded in receipt["sha256"].items():
        path = folder / name
        if not path.is_file() or sha256(path.read_bytes()) != recorded:
            found.differs(f"publish/{name}", "it is not what the receipt records")
    copy = folder / "receipt.json"
    if not copy.is_file() or copy.read_text(encoding="utf-8") != pretty(receipt):
        found.differs("publish/receipt.json", "it is not the run's receipt")
    if found.intact:
        found.verified.append("what was sent, read back and listed has the hashes in the receipt, and is the winner")
