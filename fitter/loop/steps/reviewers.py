"""How far the reviewers agree, from the reviews that a run keeps: the ceiling that any judge can reach."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fitter.jsonio import sha256
from fitter.labels import LabelKind, LabelValue
from fitter.scoring.agreement import agreement

NOBODY = "(nobody named)"


def kept_reviews(
    reviews: Sequence[Mapping[str, Any]], *, train: Collection[str], usable: int, contested: Collection[str]
) -> list[dict[str, Any]]:
    """The reviews that a run keeps: of its train rows, and of as large a share of the contested rows.

    Contested rows have no label and are on neither side. Without them reviewers would seem to agree wherever they were
    asked twice, since a row on which they disagree is not usable; with all of them, beside only a part of the rows on
    which they agree, they would seem to disagree too much. Which ones hangs on a hash of their ids.

    Args:
        reviews: every readable review of the queue: row, annotator, label, role.
        train: ids of the train rows.
        usable: how many usable rows there are, train and holdout.
        contested: ids of the contested rows.
    """
    share = len(train) / usable if usable else 0.0
    taken = sorted(contested, key=lambda row: (sha256(row), row))[: math.floor(share * len(contested) + 0.5)]
    keep = {*train, *taken}
    return [dict(r) for r in reviews if r["row"] in keep]


def agreement_of(reviews: Sequence[Mapping[str, Any]], kind: LabelKind) -> dict[str, Any]:
    """Agreement among named reviewers, as a tracked artefact: reviewers are numbered, not named (SC-4).

    Adjudications are left out: whoever settles a row has seen the others' labels. A reviewer who labelled a row twice
    with different values is left out on that row.
    """
    given: dict[str, dict[str, LabelValue]] = {}
    unsure: set[tuple[str, str]] = set()
    for review in reviews:
        if review["role"] != "review" or review["annotator"] is None:
            continue
        value: LabelValue = float(review["label"]) if kind == "numeric" else review["label"]
        row, who = review["row"], review["annotator"]
        if given.setdefault(row, {}).setdefault(who, value) != value:
            unsure.add((row, who))
    for row, who in unsure:
        del given[row][who]
    names = sorted({who for row in given.values() for who in row})
    number = {who: f"reviewer {n}" for n, who in enumerate(names, 1)}
    # Labels are canonical texts here: equal texts are equal labels, whole sets included.
    found = agreement(
        {row: {number[who]: v for who, v in by.items()} for row, by in given.items()},
        "numeric" if kind == "numeric" else "categorical",
    )
    return {"reviewers": len(names), **found.to_json()}
