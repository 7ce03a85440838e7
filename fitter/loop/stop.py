"""When the loop stops (LO-5). Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

StopReason: TypeAlias = Literal[
    "max_iterations", "patience", "ceiling", "label_ceiling", "no_change", "budget", "not_better_than_constant"
]

NO_CHANGE_LIMIT = 3

SENTENCES: dict[str, str] = {
    "max_iterations": "the agreed number of iterations was reached",
    "patience": "the agreed number of consecutive measured iterations brought no kept change",
    "ceiling": "every train row has a standing vote that agrees with the human",
    "label_ceiling": "every remaining error carries reviewer reasoning that contradicts its own label",
    "no_change": "three consecutive iterations had no change that could be measured",
    "budget": "the budget was reached",
}


def stop_reason(
    *,
    iteration: int,
    max_iterations: int,
    discarded_in_row: int,
    patience: int,
    no_change_in_row: int,
    errors: int,
    without_vote: int,
    label_ceiling: bool,
) -> StopReason | None:
    """Why the loop ends before the next iteration, or None.

    Args:
        iteration: iterations done.
        max_iterations: agreed limit.
        discarded_in_row: measured iterations not kept, in a row; ``no_change`` neither advances nor resets it.
        patience: limit of that.
        no_change_in_row: iterations that could not be measured, in a row.
        errors: train rows whose standing vote differs from the label, under best.
        without_vote: train rows without a standing vote, under best.
        label_ceiling: every remaining error's reasoning contradicts its own label.
    """
    if errors == 0 and without_vote == 0:
        return "ceiling"
    if label_ceiling and errors > 0:
        return "label_ceiling"
    if iteration >= max_iterations:
        return "max_iterations"
    if discarded_in_row >= patience:
        return "patience"
    if no_change_in_row >= NO_CHANGE_LIMIT:
        return "no_change"
    return None
