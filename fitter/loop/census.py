"""The census of best's errors (LO-3): direction, description, emergent buckets, ranked; and whose turn it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fitter.errors import RunError
from fitter.labels import LabelValue, same, text
from fitter.records import Attempt, Bucket, ErrorRow, Pass, Row


def error_rows(
    rows: Sequence[Row], votes: Mapping[str, LabelValue], passes: Sequence[Pass], evidence: Mapping[str, str]
) -> list[ErrorRow]:
    """Train rows whose standing vote differs from the label, sorted by id.

    Args:
        rows: train rows.
        votes: row id → standing vote; rows without one are no errors.
        passes: best's passes, for the reasoning behind a vote.
        evidence: row id → the rendered user text.
    """
    reasoning: dict[str, str] = {}
    for made in sorted(passes, key=lambda p: (p.row, p.run)):
        vote = votes.get(made.row)
        if made.label is not None and vote is not None and same(made.label, vote):
            reasoning.setdefault(made.row, made.reasoning)
    found = []
    for row in sorted(rows, key=lambda r: r.id):
        vote = votes.get(row.id)
        if vote is None or same(vote, row.label):
            continue
        found.append(
            ErrorRow(
                row=row.id,
                human=text(row.label),
                judge=text(vote),
                human_reasons=row.reasons,
                judge_reasoning=reasoning.get(row.id, ""),
                evidence=evidence[row.id],
            )
        )
    return found


def check_buckets(buckets: Sequence[Bucket], errors: Sequence[ErrorRow]) -> list[Bucket]:
    """Buckets ranked by size, then name.

    Raises:
        RunError: an error row is in no bucket or in two, or two buckets share a name.
    """
    placed = [row for bucket in buckets for row in bucket.rows]
    if sorted(placed) != sorted(e.row for e in errors):
        raise RunError("the census did not place every error row in exactly one bucket")
    if len({b.name for b in buckets}) != len(buckets):
        raise RunError("the census named two buckets alike")
    return sorted(buckets, key=lambda b: (-len(b.rows), b.name))


def target_bucket(buckets: Sequence[Bucket], attempts: Sequence[Attempt]) -> Bucket:
    """The bucket to aim at: the one with the fewest attempts since the last keep, then the largest.

    A bucket that has resisted makes room for the next one; after a keep the errors are others, and all start anew.
    """
    since: dict[str, int] = {}
    for attempt in attempts:
        if attempt.outcome == "kept":
            since.clear()
        else:
            since[attempt.bucket] = since.get(attempt.bucket, 0) + 1
    return min(buckets, key=lambda b: (since.get(b.name, 0), -len(b.rows), b.name))
