"""From a queue to a sealed split, a map that is proved isolated, and a first draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter import __version__
from fitter.errors import RunError, SettingsError
from fitter.evidence.isolation import prove_isolation
from fitter.evidence.map import EvidenceMap
from fitter.evidence.propose_map import propose_map
from fitter.evidence.render import field_names
from fitter.holdout import seal_id, take_seal
from fitter.jsonio import digest, pretty, strict_loads
from fitter.judge.prompt import JudgePrompt, build_prompt, collides
from fitter.judge.verdict import PARSER_VERSION
from fitter.labels import LabelSchema, text
from fitter.loop.census import target_bucket as _unused  # noqa: F401
from fitter.loop.deps import Deps
from fitter.loop.guard import Violation, check_draft
from fitter.loop.state import State
from fitter.loop.steps.context import Fit, Version, number
from fitter.records import Criterion, Draft, DraftBrief, LabelledReason, Row
from fitter.settings import MUST_ASK, FitSettings, config_hash, disagreement
