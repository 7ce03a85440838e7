"""A queue with everything in it, and how the tests read it."""

from __future__ import annotations

from typing import Any

from fitter.queues.datadog import QueueOptions, open_queue
from fitter.queues.datadog_http import Retry
from fitter.queues.source import RawInteraction, RawQueue
from tests.servers.datadog import StandIn

BOOL = {
    "id": "q7f3",
    "name": "reply_ok",
    "type": "boolean",
    "has_reasoning": True,
    "description": "Is the reply usable?",
}
CAT = {"id": "c1aa", "name": "tone", "type": "categorical", "values": ["warm", "cold"]}
SCORE = {"id": "s9bb", "name": "stars", "type": "score", "min": 1, "max": 5, "is_integer": True}
TEXT = {"id": "t0cc", "name": "remark", "type": "text"}
SCHEMAS = [BOOL, CAT, SCORE, TEXT]

FAST = Retry(base_s=0.0, sleep=lambda _: None)


def note(by: str, ok: bool | None, why: str = "because", **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {} if ok is None else {"q7f3": (ok, why)}
    return {"by": by, "values": {**values, **more}}


def talk(server: StandIn, trace: str, *, session: str | None = None, text: str = "hello", **more: Any) -> None:
    """A root workflow span, an llm span below it, and a tool call below that."""
    world = server.world
    tags = ["env:prod"] + ([f"session_id:{session}"] if session else [])
    world.span(trace, f"{trace}-1", name="turn", kind="workflow", tags=tags, input={"value": text},
               output={"value": f"answer to {text}"}, metadata={"channel": "mail"}, **more)  # fmt: skip
    call = {"name": "lookup", "arguments": {"id": 7}, "tool_id": "t1", "type": "function"}
    world.span(trace, f"{trace}-2", parent=f"{trace}-1", name="draft", kind="llm", tags=tags, offset_ms=1,
               input={"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]},
               output={"messages": [{"role": "assistant", "content": f"answer to {text}", "tool_calls": [call]}]},
               metrics={"input_tokens": 11}, **more)  # fmt: skip
    world.span(trace, f"{trace}-3", parent=f"{trace}-2", name="lookup", kind="tool", tags=tags, offset_ms=2,
               input={"value": '{"id": 7}'}, output={"value": "found"}, **more)  # fmt: skip


def nightly(server: StandIn) -> str:
    """Rows of every kind in a queue called "Nightly review"; returns its id."""
    world = server.world
    queue = world.queue("Nightly review", SCHEMAS)
    for n in range(4):
        talk(server, f"aa{n}", text=f"question {n}")
        world.interaction(queue, f"aa{n}", [note("ann", n % 2 == 0, c1aa=(["warm"], None), s9bb=(4, None))])
    talk(server, "bb1", session="sess-1", text="one")
    talk(server, "bb2", session="sess-1", text="two", age=2 * 86_400)
    world.interaction(queue, "sess-1", [note("ann", True)], kind="session")
    world.interaction(queue, "aa0-2", [note("bob", False)], kind="span")
    world.interaction(queue, "aa3", [note("ann", True), note("bob", False)], key=None)  # contested
    talk(server, "pend", text="pending")
    world.interaction(queue, "pend", [])
    talk(server, "empty", text="empty")
    world.interaction(queue, "empty", [note("ann", None, c1aa=([], None), t0cc=("", None))])
    world.interaction(queue, "", [], kind="display_block", display_block=[{"type": "markdown", "content": "read me"}])
    return queue


def read(server: StandIn, queue: str = "Nightly review", **options: Any) -> RawQueue:
    chosen = {"retry": FAST, "mcp_rate": None, **options}
    return open_queue(f"datadog:{queue}", server.env(), QueueOptions(**chosen)).read()


def row(queue: RawQueue, content_id: str) -> RawInteraction:
    """The first row of a content id."""
    return next(r for r in queue.interactions if r.content_id == content_id)
