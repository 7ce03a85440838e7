"""The fit as a graph: nodes and edges, nothing else (docs/loop.md has the picture).

    ask → intake → snapshot → seal → map → isolation → draft → score → degenerate ─┬─(redraft)→ draft
                                 │                                                  └→ baseline → [census → propose → guard
                                 └─(GT-7)→ report                                       → score_candidate → decide]* → holdout
                                                                                        → report → publish → verify
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fitter.loop.state import State

if TYPE_CHECKING:
    from fitter.loop.deps import Deps

Node = Callable[[State], dict[str, Any]]

NODES = (
    "ask", "intake", "snapshot", "seal", "map", "isolation", "draft", "score", "degenerate", "baseline", "census",
    "propose", "guard", "score_candidate", "decide", "holdout", "report", "publish", "verify",
)  # fmt: skip


def build(deps: Deps, checkpointer: Any) -> Any:
    """Compiles the graph.

    Args:
        deps: what nodes may reach.
        checkpointer: a LangGraph saver.
    """
    from langgraph.graph import END, START, StateGraph

    from fitter.loop.steps import finish, iterate, prepare

    nodes: dict[str, Callable[[Deps, State], dict[str, Any]]] = {
        "ask": prepare.ask,
        "intake": prepare.intake,
        "snapshot": prepare.snapshot,
        "seal": prepare.seal,
        "map": prepare.evidence_map,
        "isolation": prepare.isolation,
        "draft": prepare.draft,
        "score": iterate.score,
        "degenerate": iterate.degenerate,
        "baseline": iterate.baseline,
        "census": iterate.census,
        "propose": iterate.propose,
        "guard": iterate.guard,
        "score_candidate": iterate.score_candidate,
        "decide": iterate.decide,
        "holdout": finish.holdout,
        "report": finish.report,
        "publish": finish.publish,
        "verify": finish.verify,
    }
    assert tuple(nodes) == NODES  # noqa: S101  (a mistake in this file, not of a user)
    graph = StateGraph(State)
    for name, step in nodes.items():
        graph.add_node(name, _bind(step, deps))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda s: "ask" if s.get("question") else "intake", ["ask", "intake"])
    graph.add_conditional_edges("intake", lambda s: "ask" if s.get("question") else "snapshot", ["ask", "snapshot"])
    graph.add_edge("snapshot", "seal")
    graph.add_conditional_edges("seal", lambda s: "report" if s.get("gate") else "map", ["report", "map"])
    graph.add_edge("map", "isolation")
    graph.add_edge("isolation", "draft")
    graph.add_edge("draft", "score")
    graph.add_edge("score", "degenerate")
    graph.add_conditional_edges(
        "degenerate", lambda s: "draft" if s["version"] != s["draft_version"] and s.get("v0") is None else "baseline",
        ["draft", "baseline"],
    )  # fmt: skip
    graph.add_edge("baseline", "census")
    graph.add_conditional_edges("census", lambda s: "holdout" if s.get("stop") else "propose", ["holdout", "propose"])
    graph.add_conditional_edges("propose", _measurable("guard"), ["guard", "decide"])
    graph.add_conditional_edges("guard", _measurable("score_candidate"), ["score_candidate", "decide"])
    graph.add_edge("score_candidate", "decide")
    graph.add_edge("decide", "census")
    graph.add_edge("holdout", "report")
    graph.add_conditional_edges("report", lambda s: END if s.get("ending") else "publish", [END, "publish"])
    graph.add_edge("publish", "verify")
    graph.add_edge("verify", END)
    return graph.compile(checkpointer=checkpointer)


def _measurable(then: str) -> Callable[[State], str]:
    """An iteration that cannot be measured goes straight to ``decide``, where it is recorded as ``no_change``."""
    return lambda state: "decide" if state.get("no_change") else then


def _bind(step: Callable[[Deps, State], dict[str, Any]], deps: Deps) -> Node:
    def node(state: State) -> dict[str, Any]:
        return step(deps, state)

    return node
