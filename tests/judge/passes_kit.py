"""What the runner's tests and its benchmark share: a prompt, rows, and clients that answer by script."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fitter.clients.base import ModelRequest, Reply, Usage
from fitter.evidence.map import EvidenceField
from fitter.evidence.targets.base import Compiled
from fitter.judge.passes import Item
from fitter.judge.prompt import JudgePrompt, build_prompt
from fitter.labels import LabelSchema
from fitter.records import Criterion, Draft, VerdictContract

GOOD = '{"reasoning":"it names an action","label":"good","confidence":80}'
BAD = '{"reasoning":"it names no action","label":"bad","confidence":60}'


def a_contract() -> VerdictContract:
    label = LabelSchema(id="q", name="quality", kind="categorical", classes=("bad", "good"))
    schema = {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "label": {"type": "string", "enum": ["bad", "good"]},
            "confidence": {"type": "integer"},
        },
        "required": ["reasoning", "label", "confidence"],
        "additionalProperties": False,
    }
    return VerdictContract(
        label_field="label", reasoning_field="reasoning", confidence_field="confidence", schema=schema, label=label
    )


def a_prompt(task: str = "Grade the support assistant's reply.") -> JudgePrompt:
    draft = Draft(
        task=task,
        criteria=(
            Criterion(id="c1", label="bad", text="The reply hedges instead of answering."),
            Criterion(id="c2", label="good", text="The reply names a concrete action."),
        ),
        otherwise="good",
    )
    fields = Compiled(
        placeholders=(
            (EvidenceField(name="input", path="meta.input.value"), "{{span_input}}"),
            (EvidenceField(name="output", path="meta.output.value"), "{{span_output}}"),
        ),
        gaps=(),
    )
    return build_prompt(draft, a_contract(), fields)


def items_for(prompt: JudgePrompt, rows: int, said: Callable[[int], str] = "Reply {}".format) -> list[Item]:
    return [
        Item(
            row=f"row-{n:06d}",
            user_text=prompt.user_template.replace("{{span_input}}", f"Question {n}").replace(
                "{{span_output}}", said(n)
            ),
        )
        for n in range(rows)
    ]


def said_in(request: ModelRequest) -> str:
    """The reply under judgement: the line after the output part's heading."""
    user = next(m.text for m in request.messages if m.role == "user")
    return user.split(" output]\n", 1)[1].rsplit("\n", 1)[0]


def attempt_of(request: ModelRequest, prompt: JudgePrompt | None = None) -> int:
    """1 for a first call, 2 for a retry (continued conversation, or a raised cap)."""
    return 2 if len(request.messages) > 2 or request.settings.max_output_tokens is not None else 1


class Scripted:
    """Answers through a function of (what is judged, run, attempt); remembers every request.

    Args:
        script: gives a Reply, or an exception to raise.
        wait: seconds that a call takes; None answers without ever giving the event loop a turn.
    """

    def __init__(
        self,
        script: Callable[[str, int, int], Reply | BaseException] | None = None,
        *,
        wait: float | None = None,
        spec: str = "test:model-x",
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        self.script = script or (lambda said, run, attempt: ok(BAD))
        self.wait = wait
        self.spec = spec
        self.identity: Mapping[str, Any] = identity or {"model": "model-x"}
        self.requests: list[tuple[str, int, int]] = []
        self.full: list[ModelRequest] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.closed = 0

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        call = (said_in(request), run, attempt_of(request))
        self.requests.append(call)
        self.full.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.wait is not None:
                await asyncio.sleep(self.wait)
            reply = self.script(*call)
        finally:
            self.in_flight -= 1
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def aclose(self) -> None:
        self.closed += 1


def ok(text: str, model: str | None = "model-x") -> Reply:
    return Reply(outcome="ok", text=text, model=model, usage=Usage(input=100, output=20), raw=text.encode())


def by_hash(said: str, run: int, attempt: int) -> Reply:
    """A judge that errs in every way there is, always the same for the same call."""
    roll = hashlib.sha256(f"{said}|{run}|{attempt}".encode()).digest()[0] % 10
    replies: Sequence[Reply] = (
        ok("```json\n" + GOOD + "\n```"),
        ok(""),
        Reply(outcome="length", text='{"reasoning":"it', model="model-x"),
        Reply(outcome="refusal", text="no", model="model-x"),
        ok(GOOD, model="another-model"),
        ok(GOOD),
        ok(GOOD),
        ok(BAD),
        ok(BAD),
        ok(GOOD.replace("80", '"high"')),
    )
    return replies[roll]
