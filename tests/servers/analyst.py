"""The model behind the wire in whole fits: an honest, deterministic stand-in for an LLM.

It reads the body of a real request (Responses, Chat Completions, Messages), works out from the answer's schema what it
is asked to be, and answers by simple rules on what the request says and nothing else: it knows no labels but those that
the fit sends. As a judge it is the lexicon read over the wire.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from fitter.advisors.desk import FORM_RULE
from fitter.clients.base import Message, ModelRequest
from fitter.labels import LabelSchema
from fitter.lexicon import LexiconDrafter
from fitter.lexicon.concepts import load
from fitter.lexicon.judge import LexiconClient
from fitter.records import DraftBrief, LabelledReason

LEXICON = load()
PROBE = "This is a check of the connection"


class Heard:
    """A request as the model hears it, whatever the wire."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        turns = [*body.get("input", ()), *body.get("messages", ())]
        self.system = body.get("system") or "\n\n".join(t["content"] for t in turns if t["role"] == "system")
        self.turns = [t for t in turns if t["role"] != "system"]
        form = (body.get("text") or {}).get("format") or (body.get("output_config") or {}).get("format")
        form = form or (body.get("response_format") or {}).get("json_schema") or {}
        self.schema: Mapping[str, Any] = form.get("schema") or _in_words(self.system)
        self.run = int(body.get("seed") or 1) - 1

    @property
    def user(self) -> str:
        """The first user turn."""
        text: str = self.turns[0]["content"]
        return text

    @property
    def keys(self) -> set[str]:
        """What the answer must hold."""
        return set(self.schema.get("properties") or {})

    @property
    def parts(self) -> dict[str, str]:
        """Heading → text of the fenced material."""
        nonce = self.user.partition("\n")[0].removeprefix("<<<")
        inside = self.user.removeprefix(f"<<<{nonce}\n[{nonce} ").removesuffix(f"\n{nonce}>>>")
        split = (part.partition("]\n") for part in inside.split(f"\n\n[{nonce} "))
        return {name: text for name, _, text in split}


def _in_words(system: str) -> Mapping[str, Any]:
    """The answer's form where the wire carries no schema: what the system text says."""
    _, found, form = system.rpartition(FORM_RULE)
    if not found:
        assert "JSON" in system
        verdict = {"reasoning": {"type": "string"}, "label": {"type": "string", "enum": ["bad", "good"]}}
        return {"properties": {**verdict, "confidence": {"type": "integer"}}}
    read: Mapping[str, Any] = json.loads(form)
    return read


def says(body: Mapping[str, Any]) -> str:
    """The answer's text."""
    heard = Heard(body)
    return json.dumps(answer_to(heard), ensure_ascii=False)


def role_of(body: Mapping[str, Any]) -> str:
    """Which part the fit asks this model to play."""
    heard = Heard(body)
    return "probe" if heard.system.startswith(PROBE) else _ROLES.get(next(iter(heard.keys & set(_ROLES)), ""), "judge")


_ROLES = {
    "criteria": "drafter",
    "errors": "describer",
    "groups": "grouper",
    "action": "proposer",
    "argues_for_another_label": "checker",
}


def answer_to(heard: Heard) -> Any:
    """The answer as JSON."""
    by_key: dict[str, Callable[[Heard], Any]] = {
        "criteria": _draft,
        "errors": _describe,
        "groups": _group,
        "action": _propose,
        "argues_for_another_label": _check,
    }
    for key, make in by_key.items():
        if key in heard.keys:
            return make(heard)
    if heard.system.startswith(PROBE):
        label = heard.schema["properties"]["label"]
        return {"reasoning": "It greets.", "label": label.get("enum", [True])[0], "confidence": 50}
    return _judge(heard)


def _judge(heard: Heard) -> Any:
    request = ModelRequest(
        messages=(Message(role="system", text=heard.system), Message(role="user", text=heard.user)),
        schema=heard.schema,
        schema_name="verdict",
    )
    work = LexiconClient().complete(request, run=heard.run)
    try:
        work.send(None)
    except StopIteration as done:
        return json.loads(done.value.text)
    raise AssertionError("the lexicon waits for nothing")


def _draft(heard: Heard) -> Any:
    names = heard.schema["properties"]["criteria"]["items"]["properties"]["label"]["enum"]
    kind: Any = "boolean" if set(names) == {"true", "false"} else "categorical"
    classes: Any = (True, False) if kind == "boolean" else tuple(names)
    lines = next(text for name, text in heard.parts.items() if name.startswith("reviewers' reasoning")).splitlines()
    said = [line[3:].partition("] ") for line in lines if line.startswith("- [")]
    reasons = tuple(LabelledReason(row=f"r{n}", label=label, reason=why) for n, (label, _, why) in enumerate(said))
    brief = DraftBrief(
        label=LabelSchema(id="q", name="q", kind=kind, classes=classes),
        goal="-", costly="same", framing="grader", notes=heard.parts["domain notes"],
        reasons=reasons,
    )  # fmt: skip
    made = LexiconDrafter().draft(brief)
    criteria = [{"label": c.label, "text": c.text} for c in made.criteria]
    return {"task": "Grade the reply as an expert reviewer would.", "criteria": criteria, "otherwise": made.otherwise}


def _shown(text: str) -> list[str]:
    """Ids of the concepts that the recorded output of one error holds."""
    recorded = text.rsplit("\nReviewer's reasoning:", 1)[0].rsplit("[output]\n", 1)[-1]
    return sorted(LEXICON.holding(recorded))


def _describe(heard: Heard) -> Any:
    errors = []
    interactions = [(n, t) for n, t in heard.parts.items() if n.startswith("interaction ") and ":" not in n]
    for name, text in interactions:
        held = _shown(text)
        quality = LEXICON.concepts[held[0]].name.lower() if held else "none of the known qualities"
        errors.append({"n": int(name.split()[1]), "description": f"The judge gave too little weight to {quality}."})
    return {"errors": errors}


def _group(heard: Heard) -> Any:
    groups: dict[str, list[int]] = {}
    for line in heard.parts["descriptions"].splitlines():
        n, _, said = line.partition(". ")
        groups.setdefault(said, []).append(int(n))
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    made = [
        {"name": said.removesuffix(".").split("weight to ")[-1], "description": said, "members": n}
        for said, n in ranked[:5]
    ]
    rest = [n for _, members in ranked[5:] for n in members]
    if rest:
        made.append({"name": "other", "description": "Everything else.", "members": rest})
    return {"groups": made}


NOTHING = dict.fromkeys(("target_id", "label", "text", "otherwise", "field_name", "field_path"))


def _propose(heard: Heard) -> Any:
    parts = heard.parts
    known = parts["criteria in use"] + parts["tried before"]
    errors = {name: text for name, text in parts.items() if name.startswith("error ")}
    human = next(iter(errors)).split("reviewer ", 1)[1].rsplit(", judge", 1)[0]
    seen = Counter(concept for text in errors.values() for concept in _shown(text))
    for concept, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        sentence = LEXICON.concepts[concept].criterion
        if sentence not in known and sentence not in heard.system:
            why = "Most of these errors show it."
            return {**NOTHING, "why": why, "action": "add", "label": human, "text": sentence}
    return {**NOTHING, "why": "Nothing is left.", "action": "none"}


def _check(heard: Heard) -> Any:
    return {"reason": "The reasoning fits its label.", "argues_for_another_label": False}
