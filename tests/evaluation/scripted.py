"""A judge and strategies that read the prompt and the payload by simple rules: numeric and multi-select fits in tests.

The judge is honest in the sense that matters here: what it answers depends on the request's text and run index only.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fitter.clients.base import ModelRequest, ModelSettings, Reply, Usage
from fitter.judge.frame import parse_frame
from fitter.judge.prompt import parse_parts
from fitter.loop.deps import Team
from fitter.records import Bucket, Change, Criterion, Draft, DraftBrief, ErrorRow, ProposalBrief

NUMBER = "the reply is worth more the more helpful it is, by every point"
COARSE = "the reply is helpful at all"
TAGS = ("billing", "speed", "tone")


def about(tag: str) -> str:
    return f"the reply is about {tag} in so many words"


def _chance(request: ModelRequest, run: int) -> int:
    return hashlib.sha256(request.to_bytes() + bytes([run])).digest()[0]


class ScriptedJudge:
    """Numeric: reads "helpful N"; multi-select: the tags it was told about."""

    spec = "local:scripted"
    identity: Mapping[str, Any] = {"provider": "scripted", "model": "scripted", "version": 1}

    def __init__(self, *, unusable_every: int = 0) -> None:
        self.unusable_every = unusable_every

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        frame = parse_frame(request.messages[0].text)
        said = dict(parse_parts(request.messages[1].text, frame.nonce))["output"]
        bullets = {c.text for c in frame.criteria}
        chance = _chance(request, run)
        answer: Any
        if found := re.search(r"helpful (\d+)", said):
            points = int(found.group(1))
            answer = min(10, max(0, points + chance % 3 - 1)) if NUMBER in bullets else 10 if points >= 6 else 3
            if self.unusable_every and chance % self.unusable_every == 0:
                answer = 11  # out of range: unusable, never clamped
        else:
            answer = [tag for tag in TAGS if about(tag) in bullets and tag in said] or json.loads(frame.otherwise)
            if chance % 16 == 0:
                answer = [TAGS[0]]
            answer = answer[::-1] if run % 2 else answer  # the order of a set says nothing
        verdict = {"reasoning": "read it", "label": answer, "confidence": 50 + chance % 50}
        return Reply(outcome="ok", text=json.dumps(verdict), model="scripted", usage=Usage(input=10, output=5))

    async def aclose(self) -> None:
        """Nothing to close."""


class Strategies:
    """Drafts something coarse, proposes the one change that mends it, and then has nothing else."""

    identity: Mapping[str, Any] = {"provider": "scripted", "part": "strategies"}

    def draft(self, brief: DraftBrief) -> Draft:
        if brief.label.kind == "numeric":
            criteria = (Criterion(id="c1", label="higher", text=COARSE),)
            return Draft(task="Score the reply.", criteria=criteria, otherwise="5")
        known = [t for t in TAGS if t != "tone"]
        criteria = tuple(Criterion(id=f"c{k}", label=tag, text=about(tag)) for k, tag in enumerate(known))
        return Draft(task="Tag the reply.", criteria=criteria, otherwise='["billing"]')

    def describe(self, errors: Sequence[ErrorRow], *, again: int = 0) -> list[Bucket]:
        rows = tuple(sorted(e.row for e in errors))
        return [Bucket(name="all of them", direction="any", description="every error", rows=rows)]

    def propose(self, brief: ProposalBrief) -> Change | None:
        bucket = brief.target.name
        if brief.label.kind == "numeric":
            made = Criterion(id="x", label="higher", text=NUMBER)
        else:
            made = Criterion(id="x", label="tone", text=about("tone"))
        if any(c.text == made.text for c in brief.draft.criteria):
            return None
        return Change(action="add", bucket=bucket, why="it is missing", criterion=made)

    def contradicts(self, label: str, reason: str, *, labels: Sequence[str], call: int) -> bool:
        return False


def team(judge: ScriptedJudge) -> Team:
    strategies = Strategies()
    return Team(
        judge=judge,
        drafter=strategies,
        describer=strategies,
        proposer=strategies,
        checker=strategies,
        model_settings=ModelSettings(),
    )
