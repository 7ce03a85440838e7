"""``fitter estimate``: the pass rate of unlabelled traffic, corrected for the judge's own errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fitter.errors import SettingsError
from fitter.evaluation.reading import LabelFile, PassRecord, read_labels, read_passes
from fitter.evaluation.score import class_list
from fitter.evaluation.tables import cell, figure, interval, number
from fitter.labels import LabelKind, LabelValue, text
from fitter.scoring.estimate import PassRate, Proportion, pass_rate
from fitter.scoring.frame import present
from fitter.scoring.votes import votes_by_row

SCHEMA_VERSION = 1


def from_counts(sensitivity: str, specificity: str, verdicts: str) -> dict[str, Any]:
    """From counts written as ``45/50``.

    Raises:
        SettingsError: a count that is not written so.
        BadInput: hits that are more than rows.
    """
    rates = {"sensitivity": sensitivity, "specificity": specificity, "verdicts": verdicts}
    read = {name: _proportion(name, written) for name, written in rates.items()}
    found = pass_rate(sensitivity=read["sensitivity"], specificity=read["specificity"], apparent=read["verdicts"])
    return _result(found, {"source": "counts as given"}, None, None)


def from_files(labels: Path, passes: Path, unlabelled: Path, *, pass_class: str, runs: int) -> dict[str, Any]:
    """From human-labelled rows with the judge's passes, and the judge's passes on unlabelled traffic.

    Args:
        labels: LABELS file.
        passes: the judge's passes on those rows.
        unlabelled: the judge's passes on the traffic.
        pass_class: the class that is a pass; every other answer is a fail.
        runs: passes a row, on both sides.

    Raises:
        BadInput: a file that cannot be read.
        SettingsError: labels without classes, or no such class.
    """
    if labels.name == "train.jsonl" and (labels.parent.parent / "config.json").is_file():
        raise SettingsError(
            f"{labels}: the judge was fitted on these rows, so its errors on them say too little",
            hint="use rows that played no part in the fit: labels/holdout.jsonl of the run, or newly labelled ones",
        )
    human = read_labels(labels)
    if human.kind not in ("boolean", "categorical"):
        raise SettingsError(f"a pass rate needs classes, and these labels are {human.kind}", hint="label pass or fail")
    classes = class_list(human, None) or tuple(sorted(present(human.labels), key=text))
    good = next((c for c in classes if text(c) == pass_class), None)
    if good is None:
        names = ", ".join(text(c) for c in classes)
        raise SettingsError(f"no label is {pass_class!r}", hint=f"--pass-class is one of: {names}")
    judged = read_passes(passes, labels=human, runs=runs, classes=None)
    nobody = replace(human, labels={})
    traffic = read_passes(unlabelled, labels=nobody, runs=runs, classes=None, known_rows=False)
    _refuse_labelled_traffic(human, traffic.passes, traffic.path)
    votes = _votes(judged.passes, runs, human.kind)
    passing = [votes.get(row) for row, value in human.labels.items() if value == good]
    failing = [votes.get(row) for row, value in human.labels.items() if value != good]
    verdicts = list(_votes(traffic.passes, runs, human.kind).values())
    found = pass_rate(
        sensitivity=_share(passing, good, True),
        specificity=_share(failing, good, False),
        apparent=_share(verdicts, good, True),
    )
    without = {
        "labelled": sum(v is None for v in (*passing, *failing)),
        "unlabelled": sum(v is None for v in verdicts),
    }
    source = {
        "source": "votes", "runs": runs, "labels": human.path, "labels_sha256": human.sha256, "passes": judged.path,
        "passes_sha256": judged.sha256, "unlabelled": traffic.path, "unlabelled_sha256": traffic.sha256,
    }  # fmt: skip
    return _result(found, source, pass_class, without)


def _refuse_labelled_traffic(human: LabelFile, passes: Sequence[PassRecord], path: str) -> None:
    shared = sorted({p.row for p in passes} & set(human.labels))
    if shared:
        raise SettingsError(
            f"{path}: row {shared[0]!r} is labelled: the rows that the judge's errors were counted on are no traffic",
            hint="leave the labelled rows out of --unlabelled",
        )


def _votes(passes: Sequence[PassRecord], runs: int, kind: LabelKind) -> dict[str, LabelValue | None]:
    # a PassRecord has every member of a pass that a vote looks at
    found = votes_by_row(passes, runs, kind)  # type: ignore[arg-type]
    return {row: vote.value for row, vote in found.items()}


def _share(votes: Sequence[LabelValue | None], good: LabelValue, wanted: bool) -> Proportion:
    standing = [v for v in votes if v is not None]
    return Proportion(hits=sum((v == good) is wanted for v in standing), rows=len(standing))


def _proportion(name: str, written: str) -> Proportion:
    hits, slash, rows = written.partition("/")
    if not slash or not hits.strip().isdecimal() or not rows.strip().isdecimal():
        raise SettingsError(f"--{name} {written!r} is no count", hint="write hits/rows, e.g. 45/50")
    return Proportion(hits=int(hits), rows=int(rows))


def _result(
    found: PassRate, source: Mapping[str, Any], pass_class: str | None, without: Mapping[str, int] | None
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "inputs": dict(source),
        "pass_class": pass_class,
        **found.to_json(),
        "identifiable": found.value.value is not None,
        "rows_without_vote": None if without is None else dict(without),
    }


def show(found: Mapping[str, Any]) -> list[str]:
    """For people."""
    lines = []
    if found["pass_class"] is not None:
        lines.append(f"a pass is {cell(found['pass_class'])}")
    for name, what in (
        ("sensitivity", "judge passes among the rows that humans pass"),
        ("specificity", "judge fails among the rows that humans fail"),
        ("apparent", "judge passes among the unlabelled rows"),
    ):
        part = found[name]
        lines.append(f"{name} {number(part['rate'])} ({part['hits']} of {part['rows']}): {what}")
    known = found["informedness"]
    lines.append(f"sensitivity + specificity - 1: {figure(known)}, {interval(known['ci95'])}")
    if found["identifiable"]:
        lines.append(f"corrected pass rate {figure(found['pass_rate'])}, {interval(found['ci95'])}")
        if found["unclipped"] != found["pass_rate"]["value"]:
            lines.append(f"  cut to 0..1 from {number(found['unclipped'])}: the three rates do not fit together well")
    else:
        lines.append(f"NO corrected pass rate: {found['pass_rate']['why']}")
    without = found["rows_without_vote"]
    if without is not None and any(without.values()):
        lines.append(
            f"rows without a vote, no part of it: {without['labelled']} labelled, {without['unlabelled']} unlabelled"
        )
    if found["identifiable"]:
        lines.append(
            "It holds as far as the judge errs on the traffic as on the labelled rows, and those were not used to fit "
            "it."
        )
    return lines
