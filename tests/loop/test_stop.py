"""LO-5: when the loop stops, and what neither advances nor resets patience."""

from __future__ import annotations

import pytest

from fitter.loop.stop import SENTENCES, stop_reason

GOING = {
    "iteration": 2,
    "max_iterations": 10,
    "discarded_in_row": 0,
    "patience": 3,
    "no_change_in_row": 0,
    "errors": 5,
    "without_vote": 0,
    "label_ceiling": False,
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"iteration": 10}, "max_iterations"),
        ({"iteration": 9}, None),
        ({"discarded_in_row": 3}, "patience"),
        ({"discarded_in_row": 2}, None),
        ({"no_change_in_row": 3}, "no_change"),
        ({"no_change_in_row": 2, "discarded_in_row": 2}, None),
        ({"errors": 0}, "ceiling"),
        ({"errors": 0, "without_vote": 1}, None),  # a row without a vote is no agreement
        ({"label_ceiling": True}, "label_ceiling"),
        ({"label_ceiling": True, "without_vote": 1}, "label_ceiling"),  # a row without a vote is no error
        ({"label_ceiling": True, "errors": 0}, "ceiling"),
        ({"iteration": 0, "max_iterations": 0}, "max_iterations"),
    ],
)
def test_lo5_stop(changes: dict[str, object], reason: str | None) -> None:
    assert stop_reason(**{**GOING, **changes}) == reason  # type: ignore[arg-type]
    assert reason is None or SENTENCES[reason]
