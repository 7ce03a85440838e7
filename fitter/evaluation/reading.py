"""LABELS and PASSES files: one JSON object a line, read strictly, every fault with its file and line.

    LABELS  {"id": "r1", "label": "bad", "group": "g7", ...}      other members are slice fields
    PASSES  {"id": "r1", "run": 0, "label": "good", "confidence": 90}
            {"id": "r1", "run": 1, "unusable": "length"}

A fit's own ``labels/train.jsonl`` and ``passes/003.jsonl`` are such files too: their first line names a schema version,
and a pass calls its row ``row``.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from fitter.errors import BadInput
from fitter.jsonio import JSONFault, canonical, flat_objects, sha256, strict_loads
from fitter.labels import LabelKind, LabelValue, from_json, text
from fitter.textsafe import is_blank, one_line

_BATCH = 4096
MISSING = "(missing)"
_KINDS: Mapping[type, LabelKind] = {
    bool: "boolean",
    str: "categorical",
    list: "multiselect",
    int: "numeric",
    float: "numeric",
}


@dataclass(frozen=True, kw_only=True)
class LabelFile:
    """Human labels, read.

    Attributes:
        path: as given.
        sha256: of the file's bytes.
        kind: what the labels are, by their JSON type.
        labels: row id → value, in file order.
        groups: row id → group; None when no row has one.
        slices: slice field → row id → value as text.
        collapsed: identical lines that were there again.
        trimmed: labels with white space around them, which is no part of the label.
    """

    path: str
    sha256: str
    kind: LabelKind
    labels: Mapping[str, LabelValue] = field(repr=False)
    groups: Mapping[str, str] | None = field(repr=False)
    slices: Mapping[str, Mapping[str, str]] = field(repr=False)
    collapsed: int
    trimmed: int


class PassRecord(NamedTuple):
    """What scoring reads of a :class:`fitter.records.Pass`, for files with very many of them."""

    row: str
    run: int
    label: LabelValue | None
    unusable: str | None
    confidence: int | None
    confidence_fault: Literal["missing", "invalid"] | None
    attempts: int


@dataclass(frozen=True, kw_only=True)
class PassFile:
    """A judge's passes, read.

    Attributes:
        path: as given.
        sha256: of the file's bytes.
        passes: in file order, at most one a row and run.
        collapsed: identical lines that were there again.
        unusable: reason → passes; data, never an error.
    """

    path: str
    sha256: str
    passes: Sequence[PassRecord] = field(repr=False)
    collapsed: int
    unusable: Mapping[str, int]


@contextmanager
def no_collection() -> Iterator[None]:
    """Holds the garbage collector off: walking hundreds of thousands of young objects again and again finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_labels(path: Path, *, slices: Sequence[str] = ()) -> LabelFile:
    """Reads a LABELS file.

    Args:
        path: the file.
        slices: members to keep as slice fields.

    Raises:
        BadInput: not readable, empty, a line that is no labelled row, mixed types of label, or one id twice with
            different content.
    """
    name, raw = str(path), _bytes(path)
    labels: dict[str, LabelValue] = {}
    groups: dict[str, str] = {}
    sliced: dict[str, dict[str, str]] = {f: {} for f in slices}
    kind: LabelKind | None = None
    kind_line = collapsed = trimmed = 0
    seen: dict[str, tuple[int, dict[str, Any]]] = {}
    read: dict[Any, tuple[LabelValue, bool]] = {}  # label as written, by type → (value, was trimmed)
    found_fields: set[str] = set()
    for line, item in _objects(name, raw):
        row = _row_id(name, line, item)
        if row in seen:
            if seen[row][1] != item or [type(v) for v in seen[row][1].values()] != [type(v) for v in item.values()]:
                _bad(name, line, f"this id is on line {seen[row][0]} with other content", "keep one line an id", row)
            collapsed += 1
            continue
        seen[row] = (line, item)
        value = item.get("label")
        key = (value.__class__, value if value.__class__ is not list else canonical(value))
        known = read.get(key) if value.__class__ is not dict else None
        if known is None:
            found = _label_kind(name, line, value, kind, kind_line, row)
            if kind is None:
                kind, kind_line = found, line
            known = read[key] = _label(name, line, value, kind, row)
        labels[row] = known[0]
        trimmed += known[1]
        if item.get("group") is not None:
            if not isinstance(item["group"], str):
                _bad(name, line, "group is not a string", "write groups as strings", row)
            groups[row] = item["group"]
        for wanted in slices:
            if wanted in item:
                found_fields.add(wanted)
            sliced[wanted][row] = _slice_text(item.get(wanted))
    if kind is None:
        raise BadInput("holds no labelled row", file=name, hint='one JSON object a line: {"id": ..., "label": ...}')
    for wanted in slices:
        if wanted not in found_fields:
            raise BadInput(f"no row has the slice field {wanted!r}", file=name, hint="name a member of the LABELS rows")
    _check_spellings(name, labels, {row: at for row, (at, _) in seen.items()})
    return LabelFile(
        path=name,
        sha256=sha256(raw),
        kind=kind,
        labels=labels,
        groups=groups or None,
        slices=sliced,
        collapsed=collapsed,
        trimmed=trimmed,
    )


def _refuse_unfinished(passes: Path) -> None:
    """Refuses the passes of a candidate that its fit decided early: what was never asked is no failure of the judge.

    Raises:
        BadInput: the file lies in a run's folder and a decision of that run says that passes were left out.
    """
    run = passes.parent.parent
    if passes.parent.name != "passes" or not (run / "decisions").is_dir():
        return
    for record in sorted((run / "decisions").glob("*.json")):
        try:
            found = strict_loads(record.read_text(encoding="utf-8"))
            made = found["decision"]["passes"] if f"{found['candidate']:03d}" == passes.stem else None
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no_change, a decision from all passes, or a record that replay names
        if made is not None:
            raise BadInput(
                f"its fit decided this candidate early: {made['made']} of {made['of']} passes were made, and the rows "
                "that were asked are no random part of the rows",
                file=str(passes),
                hint=f"{record.parent.name}/{record.name} of the run holds what is sure; fit with --exhaustive for all",
            )


def read_passes(
    path: Path, *, labels: LabelFile, runs: int, classes: Sequence[LabelValue] | None, known_rows: bool = True
) -> PassFile:
    """Reads a PASSES file against its labels.

    Args:
        path: the file.
        labels: the labelled rows.
        runs: passes a row.
        classes: the closed class list; an answer outside it is unusable (``label_not_in_schema``). None leaves the
            vocabulary open.
        known_rows: refuse passes of rows that LABELS does not hold; False for unlabelled traffic.

    Raises:
        BadInput: a line that is no pass, a pass for an unknown row, one (id, run) twice with different content, a run
            outside ``0..runs-1``, or an answer of another type than the labels.
    """
    _refuse_unfinished(path)
    name, raw = str(path), _bytes(path)
    kind = labels.kind
    listed = None if classes is None else frozenset(classes)
    index: dict[str, tuple[int, str]] = {row: (i, row) for i, row in enumerate(labels.labels)}
    place = [0] * (len(index) * runs)  # 1-based position in ``passes`` of each (row, run)
    passes: list[PassRecord] = []
    unusable: Counter[str] = Counter()
    read: dict[Any, tuple[LabelValue | None, str | None]] = {}  # answer as written, by type → (value, reason)
    collapsed = lines = 0
    new = tuple.__new__  # half the cost of PassRecord(...), and this loop is what a large file costs
    for line, item in _objects(name, raw):
        lines += 1
        row = item.get("id") or item.get("row")
        at = index.get(row) if row.__class__ is str else None
        if at is None or row is None:
            row = _row_id(name, line, item)
            if known_rows:
                _bad(name, line, "a pass for a row that LABELS does not hold", f"label it in {labels.path}, or leave "
                     "its passes out", row)  # fmt: skip
            at = index[row] = (len(index), row)
            place.extend([0] * runs)
        run = item.get("run")
        if run.__class__ is not int or not 0 <= run < runs:
            run = _run(name, line, item, runs, row)
        value, reason = item.get("label"), item.get("unusable")
        if value is None:
            if not isinstance(reason, str) or is_blank(reason):
                _bad(name, line, "neither an answer nor a reason why there is none",
                     'write "label": ANSWER, or "unusable": REASON', row)  # fmt: skip
        elif reason is not None:
            _bad(name, line, "both an answer and a reason why there is none", "keep one of them", row)
        else:
            key = (value.__class__, value if value.__class__ is not list else canonical(value))
            answer = read.get(key) if value.__class__ is not dict else None
            if answer is None:
                answer = read[key] = _answer(name, line, value, kind, listed, row)
            value, reason = answer
        confidence, fault = item.get("confidence"), None
        if confidence.__class__ is not int or not 0 <= confidence <= 100:
            confidence, fault = _confidence(confidence)
        attempts = item.get("attempts", 1)
        if attempts.__class__ is not int or attempts not in (1, 2):
            _bad(name, line, f"attempts is {one_line(repr(attempts), 40)}", "1, or 2 when the pass was retried", row)
        made = new(PassRecord, (at[1], run, value, reason, confidence, None if value is None else fault, attempts))
        cell = at[0] * runs + run
        if place[cell]:
            if passes[place[cell] - 1] != made:
                _bad(name, line, f"run {run} of this row is there twice with different answers",
                     "keep one pass per row and run", row)  # fmt: skip
            collapsed += 1
            continue
        if reason is not None:
            unusable[reason] += 1
        passes.append(made)
        place[cell] = len(passes)
    if not lines:
        raise BadInput("holds no pass", file=name, hint='one JSON object a line: {"id": ..., "run": 0, "label": ...}')
    counts = {reason: unusable[reason] for reason in sorted(unusable)}
    return PassFile(path=name, sha256=sha256(raw), passes=passes, collapsed=collapsed, unusable=counts)


def read_taxonomy(path: Path) -> dict[str, list[str]]:
    """Reads ``--groups``: ``{"group": ["value", ...], ...}``.

    Raises:
        BadInput: not readable, not JSON, or not of that shape.
    """
    try:
        found = strict_loads(_text(str(path), _bytes(path)))
    except JSONFault as fault:
        raise BadInput(f"is not JSON: {fault}", file=str(path), line=fault.line, hint="mend the file") from None
    if not isinstance(found, dict) or not all(
        isinstance(values, list) and all(isinstance(v, str) for v in values) for values in found.values()
    ):
        raise BadInput("is no taxonomy", file=str(path), hint='write {"group": ["value", ...], ...}')
    return found


# -- below: lines ------------------------------------------------------------------------------------------------------


def _bad(name: str, line: int, what: str, hint: str, row: str | None = None) -> NoReturn:
    raise BadInput(what, file=name, line=line, row=None if row is None else one_line(row, 80), hint=hint)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise BadInput(f"cannot be read: {fault.strerror}", file=str(path), hint="check the path") from None


def _text(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise BadInput("is not UTF-8", file=name, line=line, hint="save the file as UTF-8") from None


def _objects(name: str, raw: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """(1-based line, object) of every line that is not blank; a batch at a time where the lines are flat."""
    lines = _text(name, raw).split("\n")
    if lines[-1] == "":
        lines.pop()
    for start in range(0, len(lines), _BATCH):
        chunk = lines[start : start + _BATCH]
        batch = flat_objects(chunk)
        numbered: Iterable[tuple[int, dict[str, Any]]]
        if batch is not None:
            numbered = enumerate(batch, start + 1)
        else:  # blank lines, white space around objects, something nested, or something wrong
            bare = ((start + k, line.strip(" \t\r")) for k, line in enumerate(chunk, 1))
            numbered = ((number, _one(name, number, line)) for number, line in bare if line)
        for number, item in numbered:
            if number == 1 and set(item) == {"schema_version"}:
                continue
            yield number, item


def _one(name: str, number: int, line: str) -> dict[str, Any]:
    try:
        item = strict_loads(line)
    except JSONFault as fault:
        hint = "NaN and Infinity are no answers" if fault.code == "non_finite" else "one JSON object a line"
        raise BadInput(f"is not a JSON object: {fault}", file=name, line=number, hint=hint) from None
    if not isinstance(item, dict):
        raise BadInput("is not a JSON object", file=name, line=number, hint="one JSON object a line")
    return item


def _row_id(name: str, line: int, item: Mapping[str, Any]) -> str:
    row = item.get("id", item.get("row"))
    if not isinstance(row, str) or not row:
        _bad(name, line, "the row has no id", 'write "id" as a string that is not empty')
    return row


def _run(name: str, line: int, item: Mapping[str, Any], runs: int, row: str) -> int:
    run = item.get("run")
    if run is None and runs == 1:
        return 0
    if run is None:
        _bad(name, line, "the pass has no run", f'write "run", counted from 0 to {runs - 1}', row)
    _bad(name, line, f"run {one_line(repr(run), 40)} is outside 0..{runs - 1}",
         "runs are whole numbers counted from 0; --runs says how many there are", row)  # fmt: skip


def _label_kind(name: str, line: int, value: Any, kind: LabelKind | None, kind_line: int, row: str) -> LabelKind:
    """The kind of a label as written; the same as every line before."""
    found = _KINDS.get(type(value))
    if found is None or value in ("", []) or (isinstance(value, str) and is_blank(value)):
        _bad(name, line, "the row has no label", "leave out the rows that nobody has labelled", row)
    if kind is not None and found != kind:
        what = f"a {found} label, where line {kind_line} has a {kind} one"
        _bad(name, line, f"mixed label types: {what}", "write all labels as one JSON type", row)
    return found


def _label(name: str, line: int, value: Any, kind: LabelKind, row: str) -> tuple[LabelValue, bool]:
    """(value, white space around it was stripped)."""
    tidied = _tidy(value)
    try:
        read = from_json(tidied, kind)
    except ValueError:
        read = None
    if read is None or (isinstance(read, frozenset) and (len(read) != len(value) or any(map(is_blank, read)))):
        what = "a multi-select label is a list of different strings" if kind == "multiselect" else f"not {kind}"
        _bad(name, line, f"{one_line(repr(value), 60)} is no label: {what}", "mend the label", row)
    return read, tidied != value


def _tidy(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    return [v.strip() if isinstance(v, str) else v for v in value] if isinstance(value, list) else value


def _answer(
    name: str, line: int, value: Any, kind: LabelKind, listed: frozenset[LabelValue] | None, row: str
) -> tuple[LabelValue | None, str | None]:
    """(value, None), or (None, reason) for an answer that the class list does not hold."""
    found = _KINDS.get(type(value))
    if found != kind:
        shown = one_line(repr(value), 60)
        hint = 'write the answer as the labels are written, or as "unusable": "wrong_type"'
        _bad(name, line, f"mixed label types: the answer {shown} is not a {kind} value as the labels are", hint, row)
    if value in ("", []):
        return None, "label_not_in_schema"
    try:
        read = from_json(_tidy(value), kind)
    except ValueError:
        _bad(name, line, f"the answer {one_line(repr(value), 60)} is not a {kind} value",
             'write it as the labels are written, or as "unusable": "wrong_type"', row)  # fmt: skip
    if listed is not None and kind != "numeric":
        inside = read <= listed if isinstance(read, frozenset) else read in listed
        if not inside:
            return None, "label_not_in_schema"
    return read, None


def _confidence(value: Any) -> tuple[int | None, Literal["missing", "invalid"] | None]:
    """Integer-valued and 0 to 100, else a fault (OUT-5): 95.0 is 95, 95.5 is not."""
    if value is None:
        return None, "missing"
    if isinstance(value, float) and value.is_integer() and 0 <= value <= 100:
        return int(value), None
    return None, "invalid"


def _slice_text(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, str):
        return value
    return text(value) if isinstance(value, bool | int | float) else str(value)


def _check_spellings(name: str, labels: Mapping[str, LabelValue], lines: Mapping[str, int]) -> None:
    """Values that differ only in case or inner spacing are one class written twice (GT-8)."""
    first: dict[str, str] = {}
    for row, value in labels.items():
        for one in value if isinstance(value, frozenset) else (value,):
            if isinstance(one, str) and first.setdefault(" ".join(one.split()).casefold(), one) != one:
                other = first[" ".join(one.split()).casefold()]
                _bad(name, lines[row], f"label {one_line(one, 40)!r} is {one_line(other, 40)!r} in another spelling",
                     "write one class in one way", row)  # fmt: skip
