"""The embedded default: a small, transparent judge that reads the prompt, with its drafter, describer and proposer."""

from __future__ import annotations

from fitter.lexicon.checker import LexiconChecker
from fitter.lexicon.describer import LexiconDescriber
from fitter.lexicon.drafter import LexiconDrafter
from fitter.lexicon.judge import LexiconClient, check_label, unmapped_bullets
from fitter.lexicon.proposer import LexiconProposer

__all__ = [
    "LexiconChecker",
    "LexiconClient",
    "LexiconDescriber",
    "LexiconDrafter",
    "LexiconProposer",
    "check_label",
    "unmapped_bullets",
]
