"""The fit as a graph: nodes and edges, nothing else (docs/loop.md has the picture).

ask → intake → snapshot → seal → map → isolation → probe → draft → score → degenerate → baseline
seal → report where GT-7 failed; map → report where no scope reaches the evidence
degenerate → draft, once, where the first draft is
baseline → [census → propose → guard → score_candidate → decide]* → holdout → injection → report → publish → verify
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fitter.loop.state import State

if TYPE_CHECKING:
    from fitter.loop.deps import Deps

Node = Callable[[State], dict[str, Any]]

NODES = (
    "ask", "intake", "snapshot", "seal", "map", "isolation", "probe", "draft", "score", "degenerate", "baseline",
    "census", "propose", "guard", "score_candidate", "decide", "holdout", "injection", "report", "publish",
    "verify",
)  # fmt: skip


def build(deps: Deps, checkpointer: Any) -> Any:
    """Compiles the graph.

    Args:
        deps: what nodes may reach.
        checkpointer: a LangGraph saver.
    """
    from langchain_core.runnables import RunnableLambda
    from langgraph.graph import END, START, StateGraph

    from fitter.loop.steps import deciding, drafting, finish, iterate, prepare

    nodes: dict[str, Callable[[Deps, State], dict[str, Any]]] = {
        "ask": prepare.ask,
        "intake": prepare.intake,
        "snapshot": prepare.snapshot,
        "seal": prepare.seal,
        "map": drafting.evidence_map,
        "isolation": drafting.isolation,
        "probe": drafting.probe,
        "draft": drafting.draft,
        "score": iterate.score,
        "degenerate": iterate.degenerate,
        "baseline": iterate.baseline,
        "census": iterate.census,
        "propose": iterate.propose,
        "guard": iterate.guard,
        "score_candidate": deciding.score_candidate,
        "decide": deciding.decide,
        "holdout": finish.holdout,
        "injection": finish.injection,
        "report": finish.report,
        "publish": finish.publish,
        "verify": finish.verify,
    }
    assert tuple(nodes) == NODES
    graph = StateGraph(State)
    for name, step in nodes.items():
        graph.add_node(name, RunnableLambda(_bind(step, deps)), input_schema=State)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda s: "ask" if s.get("question") else "intake", ["ask", "intake"])
    graph.add_conditional_edges("intake", lambda s: "ask" if s.get("question") else "snapshot", ["ask", "snapshot"])
    graph.add_edge("snapshot", "seal")
    graph.add_conditional_edges("seal", lambda s: "report" if s.get("gate") else "map", ["report", "map"])
    graph.add_conditional_edges("map", lambda s: "report" if s.get("ending") else "isolation", ["report", "isolation"])
    graph.add_edge("isolation", "probe")
    graph.add_edge("probe", "draft")
    graph.add_edge("draft", "score")
    graph.add_edge("score", "degenerate")
    graph.add_conditional_edges(
        "degenerate", lambda s: "draft" if s["version"] != s["draft_version"] and s.get("v0") is None else "baseline",
        ["draft", "baseline"],
    )  # fmt: skip
    graph.add_edge("baseline", "census")
    graph.add_conditional_edges("census", _after_census, ["holdout", "propose", "decide"])
    graph.add_conditional_edges("propose", _measurable("guard"), ["guard", "decide"])
    graph.add_conditional_edges("guard", _measurable("score_candidate"), ["score_candidate", "decide"])
    graph.add_edge("score_candidate", "decide")
    graph.add_edge("decide", "census")
    graph.add_edge("holdout", "injection")
    graph.add_edge("injection", "report")
    graph.add_conditional_edges("report", lambda s: END if s.get("ending") else "publish", [END, "publish"])
    graph.add_edge("publish", "verify")
    graph.add_edge("verify", END)
    return graph.compile(checkpointer=checkpointer)


def _after_census(state: State) -> str:
    if state.get("stop"):
        return "holdout"
    return "decide" if state.get("no_change") else "propose"


def _measurable(then: str) -> Callable[[State], str]:
    """An iteration that cannot be measured goes straight to ``decide``, where it is recorded as ``no_change``."""
    return lambda state: "decide" if state.get("no_change") else then


def _bind(step: Callable[[Deps, State], dict[str, Any]], deps: Deps) -> Node:
    def node(state: State) -> dict[str, Any]:
        return step(deps, state)

    return node
