"""The isolation proof (EV-5): no private field reaches the judge, shown by changing each and watching the bytes.

It is run before the first model call of every fit, over every train row. It trusts neither the target nor the renderer:
it replaces private fields by canaries in the row itself and compares the whole request, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fitter.clients.base import ModelSettings
from fitter.errors import FitterError, RunError
from fitter.evidence.map import EvidenceMap
from fitter.evidence.private import PRIVATE_KEYS
from fitter.evidence.render import Rendered, render
from fitter.evidence.targets.base import Target
from fitter.jsonio import canonical, digest, sha256
from fitter.judge.prompt import JudgePrompt, request
from fitter.records import Framing, Row
from fitter.textsafe import one_line

_ROW_FIELDS: Final = (
    "label", "reasons", "annotators", "group", "content_id", "expected_output", "app_verdict", "adjudicated",
    "original_labels",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class IsolationProof:
    """What was shown.

    Attributes:
        rows: rows checked.
        fields: private fields replaced in each of them.
        passed: always True; a failure raises.
        digest: over prompt, map, framing and every row's request bytes; the run's record of what was checked.
    """

    rows: int
    fields: tuple[str, ...]
    passed: bool
    digest: str


def prove_isolation(
    target: Target,
    prompt: JudgePrompt,
    evidence: EvidenceMap,
    rows: Sequence[Row],
    framing: Framing,
    settings: ModelSettings | None = None,
) -> IsolationProof:
    """Replaces every private field of every row by a canary; the judge's request must not change by one byte.

    Args:
        target: the target whose payload builder is on trial.
        prompt: the prompt version.
        evidence: its map.
        rows: train rows.
        framing: under ``replicator`` what the app's verdict step wrote is private too; under ``corrector`` the app's
            own verdict on the row is not.
        settings: model settings of the run.

    Raises:
        RunError: a request changed; names the row and the field. Or the app's verdict fields lead nowhere.
    """
    fields = private_fields(framing)
    if framing == "replicator":
        _check_app_fields(rows)
    seen = []
    for row in rows:
        before = _bytes(target, prompt, evidence, row, framing, settings)
        # All at once first: one rendering a row. Only a failure is taken apart, to name its field.
        if _differs(before, target, prompt, evidence, _canaried(row, fields), framing, settings):
            culprits = [
                name
                for name in fields
                if _differs(before, target, prompt, evidence, _canaried(row, (name,)), framing, settings)
            ]
            raise RunError(
                f"isolation failed: the judge's request for row {one_line(row.id)} changes with the private field "
                f"{', '.join(culprits) or 'values taken together'}",
                hint="a judge that sees the answer measures nothing; mend the evidence map or the target, then rerun",
            )
        seen.append([row.id, sha256(before)])
    record = [prompt.hash, evidence.hash, framing, list(fields), seen]
    return IsolationProof(rows=len(seen), fields=fields, passed=True, digest=digest(record))


def private_fields(framing: Framing) -> tuple[str, ...]:
    """Names of what is replaced, as the proof reports them."""
    own = [name for name in _ROW_FIELDS if not (name == "app_verdict" and framing == "corrector")]
    written = ["app_fields"] if framing == "replicator" else []
    return (*own, *written, *(f"content.{key}" for key in sorted(PRIVATE_KEYS)))


def _bytes(
    target: Target,
    prompt: JudgePrompt,
    evidence: EvidenceMap,
    row: Row,
    framing: Framing,
    settings: ModelSettings | None,
) -> bytes:
    outcome = render(target, prompt, evidence, row, framing)
    if isinstance(outcome, Rendered):
        return request(prompt, outcome.text, settings).to_bytes()
    # Whether a row is excluded, and why, must not hang on a private field either.
    return canonical(["unrendered", outcome.reason, outcome.detail, dict(outcome.states)]).encode("utf-8")


def _differs(
    before: bytes,
    target: Target,
    prompt: JudgePrompt,
    evidence: EvidenceMap,
    row: Row,
    framing: Framing,
    settings: ModelSettings | None,
) -> bool:
    try:
        return _bytes(target, prompt, evidence, row, framing, settings) != before
    except FitterError:
        raise
    except Exception:  # a payload builder that trips over a canary has read it
        return True


def _canaried(row: Row, fields: Sequence[str]) -> Row:
    changes: dict[str, Any] = {}
    content: Mapping[str, Any] = row.content
    keys: dict[str, str] = {}
    for name in fields:
        # Each field has its own canary: one that equals another could hide a comparison between the two.
        canary = f"canary-{sha256(f'{row.id}/{name}')[:16]}"
        if name.startswith("content."):
            keys[name.removeprefix("content.")] = canary
        elif name == "app_fields":
            content = _with_app_fields(content, row, canary)
        elif name == "adjudicated":
            changes[name] = not row.adjudicated
        elif name in ("reasons", "annotators", "original_labels"):
            changes[name] = (canary,)
        else:
            changes[name] = canary
    # app_fields are written before, since their paths may lead through a private key that is replaced here.
    return replace(row, content=_with_keys(content, keys) if keys else content, **changes)


def _with_keys(value: Any, keys: Mapping[str, str]) -> Any:
    """A copy in which every object at every depth holds these keys with their canaries, replaced or added."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | Mapping):
        return {name: _with_keys(inner, keys) for name, inner in value.items() if name not in keys} | dict(keys)
    if isinstance(value, list | tuple):
        return [_with_keys(inner, keys) for inner in value]
    return value


def _with_app_fields(content: Mapping[str, Any], row: Row, canary: str) -> Mapping[str, Any]:
    """A copy in which every value that the app's verdict step wrote is the canary."""
    for span_id, path in row.app_fields:
        content = _written(content, span_id, path, canary)[0]
    return content


def _written(content: Mapping[str, Any], span_id: str, path: str, canary: str) -> tuple[Mapping[str, Any], int]:
    hits = 0
    traces = []
    for trace in content.get("traces", ()):
        spans = []
        for span in trace.get("spans", ()):
            if isinstance(span, Mapping) and span.get("span_id") == span_id:
                span, found = _put(span, path.split("."), canary)
                hits += found
            spans.append(span)
        traces.append({**trace, "spans": spans})
    return {**content, "traces": traces}, hits


def _check_app_fields(rows: Sequence[Row]) -> None:
    """A path that leads nowhere in every row with a verdict is misspelt: nothing would be hidden, nothing proven."""
    first: dict[str, Row] = {}
    hits: Counter[str] = Counter()
    for row in rows:
        for span_id, path in row.app_fields:
            if row.app_verdict is not None:
                first.setdefault(path, row)
            hits[path] += _written(row.content, span_id, path, "")[1]
    for path, row in first.items():
        if not hits[path]:
            raise RunError(
                f"isolation failed: the app's verdict field {one_line(path)}, named by row {one_line(row.id)}, leads "
                "nowhere in any row, so the app's verdict cannot be kept from the judge",
                hint="mend app_verdict.fields in the queue: dotted paths into the span, as docs/queues.md shows",
            )


def _put(node: Any, keys: Sequence[str], canary: str) -> tuple[Any, int]:
    """A copy with the canary at a dotted path, and how often it was put (lists as ``private`` enters them)."""
    if not keys:
        return canary, 1
    head, hits = keys[0], 0
    if isinstance(node, Mapping):
        copy = dict(node)
        if head in copy:
            copy[head], hits = _put(copy[head], keys[1:], canary)
        return copy, hits
    if isinstance(node, list | tuple):
        elements = []
        numbered = head.isascii() and head.isdigit()
        for at, element in enumerate(node):
            if not numbered or str(at) == head:
                element, found = _put(element, keys[1:] if numbered else keys, canary)
                hits += found
            elements.append(element)
        return elements, hits
    return node, 0
