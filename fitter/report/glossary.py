"""What the words of a report's decisions mean, said where they are first shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

# The terms of min_delta (KE-2), by their names in baseline.json.
TERMS: Final[Mapping[str, str]] = {
    "floor": "the floor (0.02; for MAE 0.02 of the label scale)",
    "half_run_stdev": "half the standard deviation of v0's score from call to call (half_run_stdev)",
    "user": "the user's own",
}
DECIDES: Final[Mapping[str, str]] = {
    "floor": "the larger decides, here the floor",
    "half_run_stdev": "the larger decides, here half_run_stdev",
    "user": "the user's own decides",
}

# Only words that a table shows are explained below it.
WORDS: Final[Mapping[str, str]] = {
    "aimed at": "a bucket of the census of best's errors, named `human → judge: what these errors share` by the "
    "describer; `other` holds those that share nothing it could name, and `single` is one error alone",
    "within_noise": "kept, and the gain could be luck: a condition of significance is not met, and the iteration's "
    "line says which",
    "significant": "kept, and the gain is at least min_delta and its tests exclude luck at 5%",
    "off_target": "kept, but no more than half of the rows it gained lie in the bucket it was aimed at: it works "
    "otherwise than it was meant to, so the gain may be luck",
    "improved": "the headline rose on the paired rows and the audit passed",
    "not_improved": "the headline did not rise on the paired rows",
    "audit_failed": "the headline rose, but in a way that the audit forbids; the iteration's line says which",
    "cannot_gain": "whatever the rows not asked would say, it loses at least as many rows as it gains",
    "not_measurable": "no headline could be computed for the candidate",
    "no_change": "nothing was measured, for the cause given; it counts neither for nor against patience",
}


def words(rows: Sequence[Sequence[str]]) -> list[str]:
    """Explanations of the words that the rows of the table of decisions hold, in its column "outcome".

    The other columns hold names from outside, which may be called anything.
    """
    shown = {word for row in rows for word in re.findall(r"[a-z_]+", row[3].partition(":")[0])}
    return [f"- {word}: {what}." for word, what in WORDS.items() if word == "aimed at" or word in shown]
