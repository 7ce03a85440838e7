"""The lexicon's label checker (LO-5): does a reviewer's reasoning name another class than the label?

It only sees what is said outright: a reason that names another class, and not its own, argues for that one. Anything
less explicit it leaves alone: calling a label mistaken is a finding that somebody has to look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitter.lexicon.concepts import load, negated, tokens
from fitter.lexicon.judge import identity


class LexiconChecker:
    """A LabelChecker that reads class names, and nothing between the lines."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Version and concepts hash."""
        return identity(load(), "checker")

    def contradicts(self, label: str, reason: str, *, labels: Sequence[str], call: int) -> bool:  # noqa: ARG002
        """True when the reason affirms another class name and not the label's own; the three calls are alike."""
        words = tokens(reason)
        return not _affirms(words, label) and any(_affirms(words, other) for other in labels if other != label)


def _affirms(words: list[str], name: str) -> bool:
    """The name stands in the text, whole and not negated; underscores and hyphens count as blanks."""
    parts = tokens(name.replace("_", " ").replace("-", " "))
    size = len(parts)
    return bool(parts) and any(
        words[at : at + size] == parts and not negated(words, at, at + size) for at in range(len(words) - size + 1)
    )
