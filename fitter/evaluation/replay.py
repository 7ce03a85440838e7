"""``fitter replay``: every score card, decision and report figure of a run again, from its retained passes alone.

No model is called, no queue and no platform is read, nothing is written. Each check names the artefact that differs
and goes on with the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from fitter import __version__
from fitter.errors import FitterError, UserError
from fitter.evaluation.integrity import Findings, check_bytes
from fitter.evaluation.provenance import check_private, check_prompts, check_publication, check_seal
from fitter.jsonio import canonical
from fitter.labels import LabelKind, from_json, same
from fitter.loop.decide import decide, differences
from fitter.loop.early import recompute
from fitter.loop.stop import stop_reason
from fitter.records import IMPROVED, NOT_KEPT
from fitter.runstore import MANIFEST, RunStore
from fitter.scoring.card import Card, beats, card_of
from fitter.scoring.frame import Fixed, seed_from
from fitter.scoring.paired import MinDelta, min_delta
from fitter.scoring.table import CardInput
from fitter.settings import FitSettings, config_hash
from fitter.textsafe import one_line
from fitter.workspace import Workspace

HOLDOUT = "holdout-"
_MOST = 8  # figures named per artefact


def replay(workspace: Workspace, run_id: str) -> Findings:
    """Recomputes a run.

    Raises:
        UserError: there is no such run.
    """
    store = RunStore(workspace, run_id)
    if not store.has("config.json"):
        raise UserError(f"there is no run {one_line(repr(run_id), 80)} here", hint="`fitter runs` lists them")
    found = Findings()
    again = _Replay(store, found)
    if store.has(MANIFEST) or store.has("receipt.json"):
        again.check("the bytes of the run's folder", lambda: check_bytes(store, found))
    else:
        found.unverified.append("the run is unfinished: there is no manifest of its bytes yet")
    again.check("config.json", again.config)
    again.check("prompts", lambda: check_prompts(store, found))
    again.check("private artefacts", lambda: check_private(store, found))
    if store.names("cards"):
        again.check("score cards", again.cards)
        again.check("baseline.json", again.baseline)
        again.check("decisions", again.decisions)
        again.check("stop.json", again.stop)
        again.check("holdout.json", again.holdout)
        again.check("optimism.json", again.optimism)
    again.check("result.json", again.result)
    again.check("report.md", again.report)
    again.check("seal", lambda: check_seal(store, found))
    again.check("publication", lambda: check_publication(store, found))
    if store.has("injection.json"):
        found.unverified.append(
            "planted orders, proposals, error descriptions and call counts are taken as recorded: "
            "their answers came from calls that only the journal keeps"
        )
    return found


class _Replay:
    """The figures of one run, recomputed."""

    def __init__(self, store: RunStore, found: Findings) -> None:
        self.store = store
        self.found = found
        self._cards: dict[str, Card] = {}

    def check(self, what: str, task: Callable[[], None]) -> None:
        """Runs one check; what cannot be read is a difference, and the next check goes on."""
        try:
            task()
        except FitterError as fault:
            self.found.differs(what, fault.message)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError) as fault:
            self.found.differs(what, f"it cannot be recomputed: {type(fault).__name__} {one_line(str(fault), 120)}")

    def compare(self, artefact: str, recorded: Any, computed: Any) -> bool:
        """Names every figure that differs."""
        faults = differences(recorded, computed)
        for key, was, now in faults[:_MOST]:
            shown = f"recorded {one_line(canonical(was), 60)}, recomputed {one_line(canonical(now), 60)}"
            self.found.differs(artefact, f"{key or 'it'}: {shown}")
        if len(faults) > _MOST:
            self.found.differs(artefact, f"{len(faults) - _MOST} more figures differ")
        return not faults

    # -- what the run was made with -------------------------------------------------------------------------------

    @cached_property
    def fixed(self) -> Fixed:
        """Scoring's fixed quantities."""
        return Fixed.from_json(self.store.read("config.json")["fixed"]["scoring"])

    @cached_property
    def settings(self) -> FitSettings:
        """The frozen settings."""
        return FitSettings.model_validate(self.store.read("config.json")["settings"])

    def config(self) -> None:
        """The config's own hash, and the seed that hangs on it."""
        config = self.store.read("config.json")
        fixed = dict(config["fixed"])
        scoring = fixed.pop("scoring", None)
        before = None if scoring is None else {**scoring, "seed": 0}
        hashed = config_hash(self.settings, {**fixed, "scoring": before})
        good = self.compare("config.json", config["config_hash"], hashed)
        if scoring is not None:
            good &= self.compare("config.json", scoring["seed"], seed_from(config["config_hash"]))
        if config["run"] != self.store.run_id:
            self.found.differs("config.json", f"it names run {one_line(str(config['run']), 60)}")
            good = False
        if good:
            self.found.verified.append("config: its hash covers settings, label schema, snapshot and seal")
        if fixed["fitter"] != __version__:
            self.found.unverified.append(f"the run was made with fitter {fixed['fitter']}, this is {__version__}")

    def given(self, name: str) -> CardInput:
        """What a version gave, from the tracked half alone."""
        kind: LabelKind = self.fixed.kind
        rows = self.store.read_rows("labels/holdout.jsonl" if name.startswith(HOLDOUT) else "labels/train.jsonl")
        renders = self.store.read_rows(f"renders/{name}.jsonl")
        return CardInput(
            labels={r["id"]: from_json(r["label"], kind) for r in rows},
            groups={r["id"]: r["group"] for r in rows},
            passes=self.store.read_passes(name, kind),
            excluded={r["row"]: r["excluded"] for r in renders if "excluded" in r},
        )

    def card(self, name: str) -> Card:
        """A score card, recomputed."""
        if name not in self._cards:
            self._cards[name] = card_of(self.fixed, self.given(name))
        return self._cards[name]

    # -- figures ----------------------------------------------------------------------------------------------------

    def cards(self) -> None:
        """Every score card from labels and passes."""
        names, good = self.store.names("cards"), 0
        early = {f"{d['candidate']:03d}" for d in self._decided() if "passes" in d["decision"]}
        unscored = sorted(set(self.store.names("passes")) - set(names) - early)
        if unscored and self.store.has("result.json"):
            self.found.differs(f"cards/{unscored[0]}.json", "the version was measured and has no score card")
        for name in names:
            artefact = f"cards/{name}.json"

            def one(name: str = name, artefact: str = artefact) -> None:
                nonlocal good
                record = self.store.read(artefact)
                good += self.compare(artefact, record["card"], self.card(name).to_json())
                if not name.startswith(HOLDOUT) and record["version"] != int(name):
                    self.found.differs(artefact, f"it is said to be of version {record['version']}")

            self.check(artefact, one)
        if good == len(names):
            self.found.verified.append(f"{good} score cards recomputed from labels and retained passes")

    def _v0(self) -> int:
        """The version that entered iteration 1 (LO-2)."""
        failure = self.store.read("degenerate.json")["failure"]
        return self._after_redraft() if failure else 0

    def _after_redraft(self) -> int:
        first, second = self.card("000").headline.value, self.card("001").headline.value
        if first is None:
            return 1
        worse = second is None or (first - second) * self.fixed.metric.sign > 1e-12
        return 0 if worse else 1

    def baseline(self) -> None:
        """min_delta, and whether the first draft had to be redrafted."""
        if not self.store.has("baseline.json"):
            return
        first = self.card("000")
        answers = {p.label for p in self.given("000").passes if p.label is not None}
        failure = None
        if len(answers) <= 1:
            failure = "the draft gives every row the same answer"
        elif not first.beats_constant:
            failure = "the draft does not beat the judge that always gives the best constant answer"
        good = self.compare("degenerate.json", self.store.read("degenerate.json")["failure"], failure)
        v0 = self._v0()
        card = self.card(f"{v0:03d}")
        computed = {"v0": v0, "min_delta": min_delta(self.fixed, card.deployable, card.rows.scored).to_json()}
        record = {k: v for k, v in self.store.read("baseline.json").items() if k != "schema_version"}
        if self.compare("baseline.json", record, computed) and good:
            self.found.verified.append("v0 and min_delta follow from the first drafts' passes")

    def decisions(self) -> None:
        """Every decision, and that each iteration started from the best kept before it (KE-4, KE-5)."""
        names = self.store.names("decisions")
        if not names:
            return
        best = v0 = self._v0()
        good = 0
        for name in names:
            artefact = f"decisions/{name}.json"
            record = self.store.read(artefact)
            if record["best"] != best or record["iteration"] != int(name):
                self.found.differs(artefact, f"it compares with version {record['best']}, best was version {best}")
            if record["candidate"] is None:
                good += record["attempt"]["outcome"] == "no_change"
                continue

            def one(record: Mapping[str, Any] = record, artefact: str = artefact, name: str = name) -> None:
                nonlocal good
                good += self._decision(record, artefact, name, v0)

            self.check(artefact, one)
            if record["attempt"]["outcome"] == "kept":
                best = record["candidate"]
        if good == len(names):
            self.found.verified.append(f"{good} decisions recomputed from the retained passes")

    def _decision(self, record: Mapping[str, Any], artefact: str, name: str, v0: int) -> bool:
        made = record["decision"]
        inputs = {k: self.given(f"{record[k]:03d}") for k in ("best", "candidate")}
        first = inputs["best"] if v0 == record["best"] else self.given(f"{v0:03d}")
        faults = recompute(made, **inputs, v0=first)
        for key, was, now in faults[:_MOST]:
            shown = f"recorded {one_line(canonical(was), 60)}, recomputed {one_line(canonical(now), 60)}"
            self.found.differs(artefact, f"{key}: {shown}")
        census = self.store.read(f"census/{name}.json")
        bucket = next(b for b in census["buckets"] if b["name"] == census["target"])
        good = not faults
        for what, recorded, expected in (
            ("fixed", made["fixed"], self.fixed.to_json()),
            ("min_delta", made["min_delta"], self.store.read("baseline.json")["min_delta"]),
            ("bucket_rows", made["bucket_rows"], sorted(bucket["rows"])),
            ("v0", record["v0"], v0),
            ("outcome", record["attempt"]["outcome"], "kept" if made["decision"] == "keep" else "discarded"),
            ("basis", record["attempt"]["basis"], IMPROVED if made["decision"] == "keep" else NOT_KEPT),
        ):
            if canonical(recorded) != canonical(expected):
                self.found.differs(artefact, f"its {what} is not that of the run")
                good = False
        return good

    def _path(self) -> tuple[int, int, int, int]:
        """(best, iterations, discarded in a row, no_change in a row) at the end, from the decisions."""
        best, discarded, unchanged, iterations = self._v0(), 0, 0, 0
        for name in self.store.names("decisions"):
            record = self.store.read(f"decisions/{name}.json")
            iterations = record["iteration"]
            if record["candidate"] is None:
                unchanged += 1
                continue
            kept = record["decision"]["decision"] == "keep"
            best = record["candidate"] if kept else best
            discarded, unchanged = (0 if kept else discarded + 1), 0
        return best, iterations, discarded, unchanged

    def stop(self) -> None:
        """Why the loop ended; that a label ceiling was reached is taken as recorded."""
        if not self.store.has("stop.json"):
            return
        record = self.store.read("stop.json")
        best, iterations, discarded, unchanged = self._path()
        votes = {v.row: v.value for v in self.card(f"{best:03d}").votes if v.value is not None}
        labels = self.given(f"{best:03d}").labels
        errors = [row for row, vote in votes.items() if not same(vote, labels[row])]
        ceiling = record["contradicting_reasons"]
        reason = stop_reason(
            iteration=iterations,
            max_iterations=self.settings.max_iterations,
            discarded_in_row=discarded,
            patience=self.settings.patience,
            no_change_in_row=unchanged,
            errors=len(errors),
            without_vote=len(labels) - len(votes),
            label_ceiling=bool(errors) and len(ceiling) == len(errors),
        )
        if not set(ceiling) <= set(errors):
            self.found.differs("stop.json", "it names rows that best gets right")
        if self.compare("stop.json", [record["reason"], record["iterations"]], [reason, iterations]):
            self.found.verified.append("the loop's end follows from its decisions")

    def holdout(self) -> None:
        """The improvement out of sample."""
        if not self.store.has("holdout.json"):
            return
        record = self.store.read("holdout.json")
        if not record["opened"]:
            return
        v0, winner = self._v0(), self._path()[0]
        if (record["v0"], record["winner"]) != (v0, winner):
            self.found.differs("holdout.json", "it was not opened for v0 and the winner of these decisions")
        improvement = None
        if v0 != winner:
            first, last = self.given(f"{HOLDOUT}v0"), self.given(f"{HOLDOUT}winner")
            least = MinDelta.from_json(self.store.read("baseline.json")["min_delta"])
            improvement = decide(self.fixed, best=first, candidate=last, v0=first, min_delta=least).to_json()
        rows = len(self.store.read_rows("labels/holdout.jsonl"))
        computed = {"rows": rows, "improvement": improvement}
        if self.compare("holdout.json", {k: record[k] for k in computed}, computed):
            self.found.verified.append("the improvement on the holdout recomputed from the retained passes")

    def optimism(self) -> None:
        """What selection alone could have gained."""
        if not self.store.has("optimism.json"):
            return
        from fitter.scoring.optimism import selection_optimism

        record = self.store.read("optimism.json")
        v0 = self._v0()
        again = selection_optimism(self.fixed, self.card(f"{v0:03d}").table, candidates=record["candidates"])
        recorded = {k: v for k, v in record.items() if k != "schema_version"}
        if self.compare("optimism.json", recorded, again.to_json()):
            self.found.verified.append("the selection optimism simulated again, with the same figures")

    def result(self) -> None:
        """Winner, versions, and whether an evaluator may be created (PU-2)."""
        if not self.store.has("result.json"):
            return
        record = self.store.read("result.json")
        if not self.store.names("cards"):
            if record["winner"] is not None or record["ending"] is None:
                self.found.differs("result.json", "it names a winner where nothing was measured")
            return
        best = self._path()[0]
        v0 = self._v0()
        kept = {v0, *(d["candidate"] for d in self._decided() if d["decision"]["decision"] == "keep")}
        cards = [self.card(f"{version:03d}") for version in sorted(kept)]
        better = any(beats(self.fixed, c.headline, c.constant) for c in cards)
        versions = len([n for n in self.store.names("passes") if not n.startswith(HOLDOUT)])
        computed = {
            "v0": v0,
            "winner": best,
            "versions": versions,
            "ending": None if better else "not_better_than_constant",
        }
        if self.compare("result.json", {k: record[k] for k in computed}, computed):
            self.found.verified.append("winner and ending follow from cards and decisions")

    def _decided(self) -> list[dict[str, Any]]:
        records = [self.store.read(f"decisions/{n}.json") for n in self.store.names("decisions")]
        return [r for r in records if r["candidate"] is not None]

    def report(self) -> None:
        """The report, rendered again from the tracked half."""
        if not self.store.path("report.md").is_file():
            return
        from fitter.report.facts import gather
        from fitter.report.markdown import render, render_text

        facts = gather(self.store)
        self._same_text("report.md", render(facts), private=False)
        if self.store.path("report-with-text.md", private=True).is_file():
            self._same_text("report-with-text.md", render_text(facts, self.store), private=True)

    def _same_text(self, name: str, text: str, *, private: bool) -> None:
        shown = f"private/{name}" if private else name
        here = self.store.path(name, private=private).read_bytes().decode("utf-8", "replace").split("\n")
        again = text.split("\n")
        for number, (was, now) in enumerate(zip(here, again, strict=False), 1):
            if was != now:
                what = f"line {number}: recorded {one_line(was, 80)!r}, rendered {one_line(now, 80)!r}"
                self.found.differs(shown, what)
                return
        if len(here) != len(again):
            self.found.differs(shown, f"it has {len(here)} lines, rendered again {len(again)}")
            return
        self.found.verified.append(f"{shown}: every line rendered again from the artefacts, the same")


def show(run_id: str, found: Findings) -> list[str]:
    """What a replay found, for people."""
    lines = [f"run {run_id}, replayed without a model call"]
    lines += [f"  verified: {one_line(sentence, 300)}" for sentence in found.verified]
    lines += [f"  not verified here: {one_line(sentence, 300)}" for sentence in found.unverified]
    lines += [f"  DIFFERS: {one_line(name, 80)}: {one_line(what, 300)}" for name, what in found.differences]
    n = len(found.differences)
    lines.append("nothing differs" if not n else f"{n} {'difference' if n == 1 else 'differences'}")
    return lines
