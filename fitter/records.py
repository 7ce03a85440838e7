"""Value types that several rooms share. All are immutable; none knows files, network or clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fitter.labels import LabelSchema, LabelValue

Framing: TypeAlias = Literal["replicator", "grader", "corrector"]
Scope: TypeAlias = Literal["span", "trace", "session"]
Direction: TypeAlias = Literal["higher", "lower"]

# Why a pass holds no verdict (OUT-1, OUT-2, OUT-3). Data, not exceptions.
UnusableReason: TypeAlias = Literal[
    # the text is not the contract's object
    "not_json", "fenced", "truncated", "two_objects", "text_around_json", "duplicate_key", "unknown_key", "missing_key",
    "not_an_object", "blank_reasoning", "wrong_type", "label_not_in_schema", "out_of_range", "too_deep", "non_finite",
    "number_too_long", "empty_text",
    # the provider's envelope says there is no answer
    "incomplete", "length", "refusal", "content_filter", "tool_call", "wrong_model", "context_overflow", "bad_envelope",
    # the call never ended in an answer (OUT-3)
    "unavailable",
]  # fmt: skip

# Why a row has no standing vote, or was never judged.
RowReason: TypeAlias = Literal["no_quorum", "tie", "unavailable", "unrenderable", "oversized", "fence_collision"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One labelled interaction, after intake.

    Attributes:
        id: row key, unique in the queue.
        content: what was recorded, in the normal form of docs/evidence.md: ``{"kind", "session_id", "focus",
            "traces": [{"trace_id", "root_span_id", "spans": [...]}]}``. It still holds private fields (an earlier
            evaluator's verdict, expected output): only a Target's payload builder may read it for a judge.
        label: the human's value.
        reasons: reviewers' reasoning, private.
        annotators: reviewers' identities, private.
        group: explicit group or session key.
        content_id: the platform's content id.
        expected_output: the dataset's reference answer, private (GT-6).
        app_verdict: the app's own verdict on the row, private unless the framing is corrector.
        app_fields: where the app's verdict step wrote, as (span_id, dotted path) (EV-3).
        adjudicated: the label was settled by an adjudicator.
        original_labels: annotator labels before adjudication, as canonical text.
    """

    id: str
    content: Mapping[str, Any]
    label: LabelValue
    reasons: tuple[str, ...] = ()
    annotators: tuple[str, ...] = ()
    group: str | None = None
    content_id: str | None = None
    expected_output: Any = None
    app_verdict: LabelValue | None = None
    app_fields: tuple[tuple[str, str], ...] = ()
    adjudicated: bool = False
    original_labels: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One judge call on one row, after its retry.

    Exactly one of ``label`` and ``unusable`` is set.

    Attributes:
        row: row id.
        run: 0-based run index, below ``runs``.
        label: the verdict.
        unusable: why there is none.
        confidence: 0-100, or None.
        confidence_fault: ``missing`` or ``invalid`` when confidence was expected and is not usable (OUT-5).
        reasoning: the judge's text; lives in private/ only.
        attempts: calls made, 1 or 2.
        first_fault: what was wrong with the first attempt, when there were two.
    """

    row: str
    run: int
    label: LabelValue | None = None
    unusable: UnusableReason | None = None
    confidence: int | None = None
    confidence_fault: Literal["missing", "invalid"] | None = None
    reasoning: str = field(default="", repr=False)
    attempts: int = 1
    first_fault: UnusableReason | None = None

    def __post_init__(self) -> None:
        if (self.label is None) == (self.unusable is None):
            raise ValueError("a pass has a label or a reason why not, never both and never neither")


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """One bullet of the judge prompt: evidence for answering ``label``.

    Attributes:
        id: stable within a fit, e.g. ``c3``.
        label: the class this bullet speaks for, as canonical text.
        text: the sentence as the judge reads it.
    """

    id: str
    label: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A kind of error that emerged from a census (LO-3).

    Attributes:
        name: short, unique in the census.
        direction: ``human → judge`` as canonical texts, e.g. ``bad → good``.
        description: what the errors have in common.
        rows: train row ids, sorted.
    """

    name: str
    direction: str
    description: str
    rows: tuple[str, ...]


IMPROVED, NOT_KEPT = "improved", "not_kept"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One earlier iteration, as a proposer may see it: nothing that an early decision does not know.

    Attributes:
        basis: :data:`IMPROVED`, :data:`NOT_KEPT`, or the cause of a ``no_change``. Which part of the keep rule a
            discarded candidate failed is known only once all its votes are in.
    """

    iteration: int
    bucket: str
    change: str
    outcome: Literal["kept", "discarded", "no_change"]
    basis: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """ONE focused change (LO-3): to one criterion, to the otherwise-class, or to the evidence map.

    Attributes:
        action: what is done.
        criterion: the criterion added, or its new form; None when one is dropped or the map changes.
        target_id: id of the criterion replaced, moved or dropped.
        otherwise: new otherwise class for ``set_otherwise``.
        map_change: for ``change_map``, ``{"add": {"name","path","why"}}`` or ``{"drop": name}``.
        bucket: name of the bucket it aims at.
        why: one sentence.
    """

    action: Literal["add", "replace", "move", "drop", "set_otherwise", "change_map"]
    bucket: str
    why: str
    criterion: Criterion | None = None
    target_id: str | None = None
    otherwise: str | None = None
    map_change: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class VerdictContract:
    """What a judge must answer on one target: field names, JSON Schema, and what a label may be (OUT-1).

    Attributes:
        label_field: ``label`` on the local target, ``boolean_eval`` ... elsewhere.
        reasoning_field: the reasoning's field name.
        confidence_field: None where the target takes no confidence field.
        schema: JSON Schema of the answer object, reasoning first, ``additionalProperties: false``.
        label: the label schema the value must satisfy.
    """

    label_field: str
    reasoning_field: str
    confidence_field: str | None
    schema: Mapping[str, Any]
    label: LabelSchema


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A judge's criteria as data: what v0 and every candidate consist of, beside the fixed frame."""

    task: str
    criteria: tuple[Criterion, ...]
    otherwise: str


@dataclass(frozen=True, kw_only=True)
class LabelledReason:
    """One train row's reviewer reasoning beside its label (canonical text)."""

    row: str
    label: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class DraftBrief:
    """What a drafter may know (LO-2): definition, notes and train reasons; no payloads, no holdout.

    Attributes:
        label: the label schema (name, classes, description).
        goal: the user's one sentence.
        costly: the class whose miss is the costlier error, canonical text, or ``same``.
        framing: EV-3.
        notes: domain notes, verbatim.
        reasons: train rows' reasoning, sorted by row id.
        failure: None for the first draft; for the one redraft, what was wrong with the first.
    """

    label: LabelSchema
    goal: str
    costly: str
    framing: Framing
    notes: str
    reasons: tuple[LabelledReason, ...]
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """One train row that best gets wrong, as describer and proposer see it.

    Attributes:
        row: row id.
        human: label, canonical text.
        judge: the standing vote, canonical text.
        human_reasons: reviewers' reasoning.
        judge_reasoning: one pass's reasoning that agrees with the vote.
        evidence: the row exactly as the judge saw it (the rendered user text).
    """

    row: str
    human: str
    judge: str
    human_reasons: tuple[str, ...]
    judge_reasoning: str
    evidence: str


@dataclass(frozen=True, kw_only=True)
class ProposalBrief:
    """What a proposer may know (LO-3).

    Attributes:
        draft: best's criteria.
        label: the label schema.
        goal, costly, notes: as given at intake.
        buckets: all buckets of the census, ranked, largest first.
        target: the bucket to aim at.
        errors: the rows of the target bucket.
        attempts: one entry per earlier iteration.
        map_fields: name → path of the evidence map's fields.
        rejected: why this iteration's first proposal was refused, or None.
    """

    draft: Draft
    label: LabelSchema
    goal: str
    costly: str
    notes: str
    buckets: tuple[Bucket, ...]
    target: Bucket
    errors: tuple[ErrorRow, ...]
    attempts: tuple[Attempt, ...]
    map_fields: Mapping[str, str]
    rejected: str | None = None
