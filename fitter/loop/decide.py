"""The keep rule (KE-1 to KE-3) and its record (KE-5). Pure: no files, no clock, no network.

decide(fixed, best, candidate, v0, ...) → Decision → to_json() → decisions.jsonl
redecide(record, best, candidate, v0)   → the differences between a record and its recomputation
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fitter.errors import RunError
from fitter.jsonio import canonical
from fitter.scoring.audit import Check, audit, flip_check, target_check
from fitter.scoring.card import policy
from fitter.scoring.frame import Fixed
from fitter.scoring.paired import ALPHA, MinDelta, Paired, compare
from fitter.scoring.table import CardInput, Table, tabulate, together
from fitter.scoring.values import EPSILON

RECORD_VERSION = 1

Basis = Literal["improved", "not_improved", "audit_failed", "not_measurable"]
Label = Literal["significant", "within_noise"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether the candidate becomes best, on which basis, and everything it was decided from.

    Attributes:
        kept: the candidate becomes best.
        basis: why.
        label: ``significant`` or ``within_noise``; None for a discard.
        off_target: a kept gain that lies mostly outside the targeted bucket (luck); None where no bucket was aimed at.
        paired: candidate against best.
        paired_v0: candidate against v0; None when best is v0.
        audit: checks that can discard, against best.
        audit_v0: the same against v0, cumulatively; empty when best is v0.
        labels_only: checks that only label.
        significance: condition → holds, for the label.
        min_delta: see :class:`MinDelta`.
        reasoning: sentences for people, in order.
        record: all of it as plain JSON.
    """

    kept: bool
    basis: Basis
    label: Label | None
    off_target: bool | None
    paired: Paired
    paired_v0: Paired | None
    audit: tuple[Check, ...]
    audit_v0: tuple[Check, ...]
    labels_only: tuple[Check, ...]
    significance: Mapping[str, bool]
    min_delta: MinDelta
    reasoning: tuple[str, ...]
    record: Mapping[str, Any]

    @property
    def decision(self) -> Literal["keep", "discard"]:
        """The word in the record."""
        return "keep" if self.kept else "discard"

    def to_json(self) -> dict[str, Any]:
        """The record (KE-5): figures, reason codes, row ids and hashes; no clocks, latencies, random ids or paths."""
        return dict(self.record)

    def comparison(self) -> dict[str, Any]:
        """The ``paired`` object of ``fitter score --against``: the comparison with its audit and decision, flat."""
        shown = ("min_delta", "audit", "labels_only", "significance", "decision", "basis", "label", "reasoning")
        return {**self.record["paired"], **{key: self.record[key] for key in shown}}


def decide(
    fixed: Fixed,
    *,
    best: CardInput,
    candidate: CardInput,
    v0: CardInput,
    min_delta: MinDelta,
    bucket_rows: Collection[str] | None = None,
    allow_outage: bool = False,
) -> Decision:
    """Applies the keep rule.

    Kept if and only if the headline moves strictly in the metric's direction on the paired rows and the audit passes
    against best and, cumulatively, against v0. Significance only labels.

    Args:
        fixed: what was fixed at intake.
        best, candidate, v0: what each version gave on the same labelled rows.
        min_delta: derived once at v0.
        bucket_rows: rows of the targeted bucket; None where nothing was aimed at (``fitter score --against``).
        allow_outage: score rows left short by an outage as rows without a vote instead of refusing. For anybody's
            recorded passes; a fit pauses and resumes instead (OUT-3).

    Raises:
        RunError: a row was left short by an outage (OUT-3).
        BadInput: the versions were not scored on the same rows and labels.
    """
    first = v0 is best
    tables = [tabulate(fixed, best), tabulate(fixed, candidate)]
    tables = together(fixed, [*tables, tables[0] if first else tabulate(fixed, v0)])
    if not allow_outage:
        _refuse_outage(tables)
    at_best, at_candidate, at_v0 = tables
    digests = digests_of(best, candidate, v0)
    best_is_v0 = digests[0] == digests[2]
    paired = compare(fixed, at_best, at_candidate)
    paired_v0 = None if best_is_v0 else compare(fixed, at_v0, at_candidate)
    checks = audit(fixed, at_best, at_candidate, name="best")
    checks_v0 = () if best_is_v0 else audit(fixed, at_v0, at_candidate, name="v0")
    flip = flip_check(fixed, at_best, at_candidate)
    aim = target_check(paired.gained, None if bucket_rows is None else frozenset(bucket_rows))
    basis = _basis(paired, (*checks, *checks_v0))
    kept = basis == "improved"
    significance = _significance(fixed, paired, min_delta, flip)
    label: Label | None = None
    if kept:
        label = "significant" if all(significance.values()) else "within_noise"
    off_target = None if aim is None or not kept else not aim.passed
    failed = [c for c in (*checks, *checks_v0) if not c.passed]
    reasoning = _reasoning(fixed, paired, min_delta, basis, label, failed, significance, aim if off_target else None)
    labels_only = (flip,) if aim is None else (flip, aim)
    outcome: dict[str, Any] = {
        "paired": paired.to_json(),
        "paired_v0": None if paired_v0 is None else paired_v0.to_json(),
        "audit": {c.name: c.to_json() for c in checks} | {f"v0:{c.name}": c.to_json() for c in checks_v0},
        "labels_only": {c.name: c.to_json() for c in labels_only},
        "significance": dict(significance),
        "decision": "keep" if kept else "discard",
        "basis": basis,
        "label": label,
        "off_target": off_target,
        "reasoning": list(reasoning),
    }
    given = record_head(
        fixed,
        digests=digests,
        min_delta=min_delta,
        bucket_rows=bucket_rows,
        allow_outage=allow_outage,
    )
    return Decision(
        kept=kept,
        basis=basis,
        label=label,
        off_target=off_target,
        paired=paired,
        paired_v0=paired_v0,
        audit=checks,
        audit_v0=checks_v0,
        labels_only=labels_only,
        significance=significance,
        min_delta=min_delta,
        reasoning=reasoning,
        record=given | outcome,
    )


def digests_of(best: CardInput, candidate: CardInput, v0: CardInput) -> list[str]:
    """The digests of what a decision was made from, in this order."""
    found = [best.digest(), candidate.digest()]
    return [*found, found[0] if v0 is best else v0.digest()]


def record_head(
    fixed: Fixed,
    *,
    digests: Sequence[str],
    min_delta: MinDelta,
    bucket_rows: Collection[str] | None,
    allow_outage: bool = False,
) -> dict[str, Any]:
    """What a decision was made from: the part of its record that every kind of decision has (KE-5).

    Args:
        digests: :func:`digests_of` the three versions.
    """
    return {
        "schema_version": RECORD_VERSION,
        "fixed": fixed.to_json(),
        "policy": policy(fixed),
        "inputs": dict(zip(("best", "candidate", "v0"), digests, strict=True)),
        "best_is_v0": digests[0] == digests[2],
        "bucket_rows": None if bucket_rows is None else sorted(bucket_rows),
        "allow_outage": allow_outage,
        "min_delta": min_delta.to_json(),
    }


def redecide(
    record: Mapping[str, Any], *, best: CardInput, candidate: CardInput, v0: CardInput
) -> list[tuple[str, Any, Any]]:
    """Recomputes a decision from its record and the retained passes (KE-5).

    Returns:
        (dotted key, recorded, recomputed) for every difference, in key order; empty when the record stands.
    """
    again = decide(
        Fixed.from_json(record["fixed"]),
        best=best,
        candidate=candidate,
        v0=v0,
        min_delta=MinDelta.from_json(record["min_delta"]),
        bucket_rows=record["bucket_rows"],
        allow_outage=bool(record["allow_outage"]),
    )
    return differences(record, again.record)


def differences(recorded: Any, computed: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves that differ between two JSON values, compared by their canonical text."""
    if isinstance(recorded, Mapping) and isinstance(computed, Mapping):
        out: list[tuple[str, Any, Any]] = []
        for name in sorted(set(recorded) | set(computed)):
            out += differences(recorded.get(name), computed.get(name), f"{key}.{name}" if key else name)
        return out
    return [] if canonical(recorded) == canonical(computed) else [(key, recorded, computed)]


def _refuse_outage(tables: list[Table]) -> None:
    short = sorted({t.rows[i] for t in tables for i, reason in enumerate(t.reasons) if reason == "unavailable"})
    if short:
        raise RunError(
            f"{len(short)} rows are left short by an outage, the first is {short[0]}: they are no input to a decision",
            hint="resume the run when the model answers again",
        )


def _basis(paired: Paired, checks: tuple[Check, ...]) -> Basis:
    if paired.delta.value is None:
        return "not_measurable"
    if not paired.improved:
        return "not_improved"
    return "improved" if all(c.passed for c in checks) else "audit_failed"


def _significance(fixed: Fixed, paired: Paired, min_delta: MinDelta, flip: Check) -> dict[str, bool]:
    """The conditions of ``significant``; the bootstrap's one where the metric is not accuracy or rows are grouped."""
    delta = paired.delta.value
    out = {
        "exact_p_below_0.05": paired.p < ALPHA,
        "delta_at_least_min_delta": delta is not None and abs(delta) >= min_delta.value - EPSILON,
        "flip_rate_not_up": flip.passed,
    }
    if fixed.metric.name != "accuracy" or paired.grouped:
        out["interval_excludes_0"] = paired.interval.excludes(0.0)
    return out


_SHORTFALL = {
    "exact_p_below_0.05": "the exact p is not below 0.05",
    "delta_at_least_min_delta": "the gain is smaller than min_delta",
    "flip_rate_not_up": "the flip rate went up",
    "interval_excludes_0": "the interval of the gain includes 0",
}
_NO_INTERVAL = "the gain has no interval"


def _reasoning(
    fixed: Fixed,
    paired: Paired,
    min_delta: MinDelta,
    basis: Basis,
    label: Label | None,
    failed: list[Check],
    significance: Mapping[str, bool],
    off_target: Check | None,
) -> tuple[str, ...]:
    """Why, in plain language; the first sentence holds the figures."""
    name = fixed.metric.text
    if paired.delta.value is None:
        return (f"not measurable: {paired.delta.why}",)
    out = [
        f"{name} goes from {paired.best.value:.4f} to {paired.candidate.value:.4f} on {paired.rows} paired rows: "
        f"{len(paired.gained)} gained, {len(paired.lost)} lost, exact p {paired.p:.4f} ({paired.test}); "
        f"rows without a vote are {'counted as wrong' if fixed.failures == 'wrong' else 'excluded'}"
    ]
    if basis == "not_improved":
        out.append("discarded: the headline does not move in its direction")
    elif basis == "audit_failed":
        out.append("discarded: the headline improves, but the audit fails")
        out += [f"{c.name}: {c.says}" for c in failed]
    elif label == "significant":
        out.append(f"kept: the gain is significant and at least min_delta ({min_delta.value:.4f}, {min_delta.winner})")
    else:
        short = {k: _SHORTFALL[k] for k, holds in significance.items() if not holds}
        if "interval_excludes_0" in short and paired.interval.low is None:
            short["interval_excludes_0"] = _NO_INTERVAL
        out.append("kept, but the gain could be noise: " + "; ".join(short.values()))
    if off_target is not None:
        out.append(f"off target, so perhaps luck: {off_target.says}")
    return tuple(out)
