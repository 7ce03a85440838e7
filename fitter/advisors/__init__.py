"""Drafter, describer, proposer and label checker as model calls, through any client (docs/advisors.md)."""

from __future__ import annotations

from fitter.advisors.checker import ModelChecker
from fitter.advisors.describer import ModelDescriber
from fitter.advisors.desk import Desk
from fitter.advisors.drafter import ModelDrafter
from fitter.advisors.proposer import ModelProposer

__all__ = ["Desk", "ModelChecker", "ModelDescriber", "ModelDrafter", "ModelProposer"]
