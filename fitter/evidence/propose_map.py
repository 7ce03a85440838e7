"""The default evidence map: proposed from train rows only, deterministic, written for review (EV-1, LO-1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.evidence.targets.base import Target
from fitter.records import Framing, Row, Scope

# A proposal looks at this many train rows at most, in id order; the reviewer sees every row's state anyway.
_SAMPLE: Final = 400
_THIN_CHARS: Final = 200
_THIN_SHARE: Final = 0.25


class NoEvidence(SettingsError):
    """No scope of the target reaches any evidence: the run ends without an evaluator (PU-2)."""


@dataclass(frozen=True)
class _Choice:
    """Alternatives for one field, best first: (path, why)."""

    name: str
    paths: tuple[tuple[str, str], ...]
    core: bool = False


_LLM: Final = "[meta.span.kind:llm]"
_TOOL: Final = "[meta.span.kind:tool]"
_RETRIEVAL: Final = "[meta.span.kind:retrieval]"

_SPAN: Final = (
    _Choice("input", (("span_input", "what the labelled step was given"),
                      ("meta.input.value", "what the labelled step was given")), core=True),
    _Choice("documents", (("meta.output.documents.text", "the documents this retrieval step returned"),
                          ("meta.input.documents.text", "the documents this step was given"))),
    _Choice("tool_calls", (("meta.output.messages.tool_calls", "tool calls the model made, with their ids"),)),
    _Choice("tool_results", (("meta.input.messages.tool_results", "results the model was given, with tool ids"),)),
    _Choice("output", (("span_output", "what the labelled step answered"),
                       ("meta.output.value", "what the labelled step answered")), core=True),
)  # fmt: skip


def _tree(spans: str) -> tuple[_Choice, ...]:
    root = f"{spans}[0]"
    return (
        _Choice("input", (
            (f"{root}.meta.input.value", "what the root step was given"),
            (f"{root}.meta.input.messages.content", "the messages the root step was given"),
            (f"{spans}{_LLM}.meta.input.messages.content", "the root holds only a summary: messages of the llm steps"),
            (f"{spans}{_LLM}.meta.input.value", "the root holds only a summary: what the llm steps were given"),
        ), core=True),
        _Choice("documents", (
            (f"{spans}{_RETRIEVAL}.meta.output.documents.text", "the documents that were retrieved"),
            (f"{spans}{_RETRIEVAL}.meta.output.value", "what was retrieved"),
        )),
        _Choice("tool_names", ((f"{spans}{_TOOL}.name", "which tools ran, in order"),)),
        _Choice("tool_calls", (
            (f"{spans}{_LLM}.meta.output.messages.tool_calls", "tool calls the model made, with their ids"),
            (f"{spans}{_TOOL}.meta.input", "what each tool was given, in the order of tool_names"),
        )),
        _Choice("tool_results", (
            (f"{spans}{_LLM}.meta.input.messages.tool_results", "results the model was given, with tool ids"),
            (f"{spans}{_TOOL}.meta.output", "what each tool returned, in the order of tool_names"),
        )),
        _Choice("output", (
            (f"{root}.meta.output.value", "what the root step answered"),
            (f"{root}.meta.output.messages.content", "the messages the root step answered with"),
            (f"{spans}{_LLM}.meta.output.messages.content", "the root holds only a summary: answers of the llm steps"),
            (f"{spans}{_LLM}.meta.output.value", "the root holds only a summary: what the llm steps answered"),
        ), core=True),
    )  # fmt: skip


_CHOICES: Final[Mapping[Scope, tuple[_Choice, ...]]] = {
    "span": _SPAN,
    "trace": _tree("spans"),
    "session": _tree("traces[*].spans"),
}


def propose_map(rows: Sequence[Row], scope: Scope | None, target: Target, framing: Framing) -> EvidenceMap:
    """Proposes the map that a careful reviewer would start from.

    Input and output first; retrieved documents and tool calls where the rows have them; metadata never, except a flat
    file's context column (EV-4). What a framing hides from the payload cannot be proposed.

    Args:
        rows: train rows only.
        scope: the evaluator's scope; None takes the scope at which most rows were labelled, else any that reaches
            evidence.
        target: whose grammar the paths must be carried by.
        framing: EV-3.

    Raises:
        NoEvidence: no scope reaches an input or output in any row.
        SettingsError: the target has no evaluators at the asked scope.
    """
    if scope is not None and scope not in target.scopes:
        raise SettingsError(
            f"target {target.name} has no evaluators at scope {scope}", hint="its scopes: " + ", ".join(target.scopes)
        )
    sample = sorted(rows, key=lambda row: row.id)[:_SAMPLE]
    for candidate in (scope,) if scope is not None else _natural_scopes(sample, target):
        fields = _fields(sample, candidate, target, framing)
        if fields:
            return EvidenceMap(scope=candidate, fields=tuple(fields), origin="proposed from train rows")
    tried = scope or ", ".join(target.scopes)
    raise NoEvidence(
        f"no eval scope reaches the evidence: at {tried} no train row has an input or output that target "
        f"{target.name} can carry",
        hint="name a map that does with --map, or a scope with --scope" if sample else "there are no train rows",
    )


def _natural_scopes(rows: Sequence[Row], target: Target) -> list[Scope]:
    """The target's scopes, the one at which most rows were labelled first."""
    seen = Counter(str(row.content.get("kind")) for row in rows)
    order: list[Scope] = ["span", "trace", "session"]
    return sorted(target.scopes, key=lambda scope: (-seen[scope], order.index(scope)))


def _fields(rows: Sequence[Row], scope: Scope, target: Target, framing: Framing) -> list[EvidenceField]:
    payloads = [p for row in rows if (p := target.payload(row, scope, framing)) is not None]
    if not payloads:
        return []
    fields: dict[str, EvidenceField] = {}
    texts: dict[str, list[str]] = {}
    for choice in _CHOICES[scope]:
        read = {path: _read(path, scope, payloads, target) for path, _ in choice.paths}
        best = _best(choice, read)
        if best is None:
            continue
        path, why = best
        texts[choice.name] = read[path]
        # A row without the labelled output has nothing to grade: it is excluded and counted, not judged blind.
        required = choice.name == "output"
        fields[choice.name] = EvidenceField(name=choice.name, path=path, required=required, why=why)
    if not {"input", "output"} & set(fields):
        return []
    if "output" in texts and texts.get("input") == texts["output"]:
        # One column given as both: showing a text twice tells a judge nothing and doubles its price.
        del fields["input"]
        why = "the labelled text (the input repeats it in every train row)"
        fields["output"] = fields["output"].model_copy(update={"why": why})
    if "tool_names" in fields and not any(
        _TOOL in fields[n].path for n in ("tool_calls", "tool_results") if n in fields
    ):
        del fields["tool_names"]
    if scope == "span" and all(_is_flat(row) for row in rows):
        context = _read("meta.metadata.context", scope, payloads, target)
        if any(context):
            item = EvidenceField(name="context", path="meta.metadata.context", why="the file's context column")
            fields = _before_output(fields, item)
    return list(fields.values())


def _best(choice: _Choice, read: Mapping[str, list[str]]) -> tuple[str, str] | None:
    """The first alternative that most rows have; for input and output none that is a thin summary of a later one."""
    counts = {path: sum(1 for text in texts if text) for path, texts in read.items()}
    top = max(counts.values(), default=0)
    if not top:
        return None
    good = [(path, why) for path, why in choice.paths if counts[path] * 2 > top]
    if not choice.core:
        return good[0]
    for at, (path, why) in enumerate(good):
        if not any(_thin(read[path], read[later]) for later, _ in good[at + 1 :]):
            return path, why
    return good[-1]


def _thin(summary: Sequence[str], full: Sequence[str]) -> bool:
    """In more than half of the rows that have both, the one is short and a small part of the other."""
    pairs = [(s, f) for s, f in zip(summary, full, strict=True) if f]
    thin = [1 for s, f in pairs if len(s) <= _THIN_CHARS and len(s) < _THIN_SHARE * len(f)]
    return 2 * len(thin) > len(pairs)


def _read(path: str, scope: Scope, payloads: Sequence[Mapping[str, Any]], target: Target) -> list[str]:
    """A path's text in every payload; all empty where the target cannot carry it."""
    probe = EvidenceMap(scope=scope, fields=(EvidenceField(name="probe", path=path),))
    compiled = target.compile(probe)
    if not compiled.placeholders:
        return [""] * len(payloads)
    template = compiled.placeholders[0][1]
    out = []
    for payload in payloads:
        resolved = target.resolve(template, payload)
        out.append(resolved.text if "resolved" in resolved.states.values() else "")
    return out


def _is_flat(row: Row) -> bool:
    """A flat file's row: one span of kind llm named ``row`` (docs/evidence.md)."""
    spans = [span for trace in row.content.get("traces", ()) for span in trace.get("spans", ())]
    return len(spans) == 1 and spans[0].get("name") == "row"


def _before_output(fields: Mapping[str, EvidenceField], item: EvidenceField) -> dict[str, EvidenceField]:
    out: dict[str, EvidenceField] = {}
    for name, known in fields.items():
        if name == "output":
            out[item.name] = item
        out[name] = known
    out.setdefault(item.name, item)
    return out
