"""``replay:PATH``: recorded answers, looked up by an explicit row + run key, or by the digest of the request.

One JSON object a line:

    {"row": ID, "run": N, "text": "<the reply, verbatim>"}
    {"row": ID, "run": N, "label": VALUE, "confidence": 0-100?, "reasoning": "..."?}
    {"row": ID, "run": N, "unusable": REASON}
    {"request": "<sha256 of the request bytes>", "run": N, ...}          instead of row

``id`` may stand for ``row``. ``attempt`` (1 or 2; without it the record answers both) and ``model`` (who answered; kept
as a remark) are optional. Labels are JSON values: a bool, a string, a list of strings, a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard, get_args

from fitter.clients.base import ModelRequest, Reply
from fitter.errors import BadInput, SettingsError
from fitter.jsonio import JSONFault, canonical, sha256, strict_loads
from fitter.records import UnusableReason
from fitter.textsafe import one_line

_KEYS = frozenset(
    {"row", "id", "request", "run", "attempt", "text", "label", "confidence", "reasoning", "unusable", "model"}
)
_IGNORED = frozenset({"confidence_fault", "attempts", "first_fault", "schema_version"})  # a run's own passes carry them
_REASONS = frozenset(get_args(UnusableReason))
_WHOLE = 0  # the attempt slot of a record that answers every attempt

Key = tuple[str, str, int, int]  # ("row" | "request", id, run, attempt)


class ReplayClient:
    """Recorded answers; implements ``ModelClient``. It is no model: a changed prompt gets the old answers by row."""

    def __init__(self, spec: str, path: Path) -> None:
        self._spec = spec
        self._path = str(path)
        raw = _read(path)
        self._digest = sha256(raw)
        self._records = _parse(raw, str(path))

    @property
    def spec(self) -> str:
        """The user's spec."""
        return self._spec

    @property
    def identity(self) -> Mapping[str, Any]:
        """The file's content, not its path: a moved file is the same instrument."""
        return {"api": "replay", "records": self._digest}

    @property
    def runs(self) -> int:
        """One more than the largest recorded run index."""
        return max((key[2] for key in self._records), default=-1) + 1

    async def complete(self, request: ModelRequest, *, run: int) -> Reply:
        """The recorded answer.

        Raises:
            SettingsError: nothing is recorded for this row and run.
        """
        attempt = max(1, sum(m.role == "user" for m in request.messages))  # a follow-up adds one
        names = [("request", sha256(request.to_bytes()))]
        if request.row is not None:
            names.insert(0, ("row", request.row))
        for kind, name in names:
            for slot in (attempt, _WHOLE):
                record = self._records.get((kind, name, run, slot))
                if record is not None:
                    return _reply(record, request.schema)
        what = f"row {one_line(request.row, 80)}" if request.row is not None else f"request {names[0][1][:12]}…"
        raise SettingsError(
            f"{self._path} has no recorded answer for {what}, run {run}",
            hint=f"it holds runs 0 to {self.runs - 1}; give --runs {self.runs} or fewer, or record the missing rows",
        )

    async def aclose(self) -> None:
        """Nothing to release."""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise BadInput(f"cannot be read: {fault.strerror}", file=str(path)) from None


def _parse(raw: bytes, file: str) -> dict[Key, Mapping[str, Any]]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8", file=file) from None
    out: dict[Key, Mapping[str, Any]] = {}
    # Only \n ends a line: a reply's text may hold any other separator.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = strict_loads(line)
        except JSONFault as fault:
            raise BadInput(f"is not one JSON object: {fault}", file=file, line=number) from None
        key = _key(record, file, number)
        known = out.setdefault(key, record)
        if canonical(known) != canonical(record):
            raise BadInput(
                f"{key[0]} {one_line(key[1], 80)}, run {key[2]} is recorded twice with different answers",
                file=file,
                line=number,
            )
    if not out:
        raise BadInput("holds no recorded answers", file=file)
    return out


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _key(record: Any, file: str, line: int) -> Key:
    def bad(why: str, hint: str | None = None) -> BadInput:
        return BadInput(why, file=file, line=line, hint=hint)

    if not isinstance(record, dict):
        raise bad("is not a JSON object")
    unknown = sorted(set(record) - _KEYS - _IGNORED)
    if unknown:
        raise bad(f"unknown key(s) {one_line(', '.join(unknown))}", f"known: {', '.join(sorted(_KEYS))}")
    named = [name for name in ("row", "id", "request") if name in record]
    if len(named) != 1 or not isinstance(record[named[0]], str) or not record[named[0]]:
        raise bad("exactly one of row, id and request names the call, as a string")
    run, attempt = record.get("run"), record.get("attempt", _WHOLE)
    if not _whole(run) or not 0 <= run < 1000:
        raise bad("run is the pass's index, 0 for the first")
    if not _whole(attempt) or ("attempt" in record and attempt not in (1, 2)):
        raise bad("attempt is 1 or 2")
    given = [name for name in ("text", "label", "unusable") if record.get(name) is not None]
    if len(given) != 1:
        raise bad("exactly one of text, label and unusable is given")
    if "text" in given and not isinstance(record["text"], str):
        raise bad("text is a string")
    if "unusable" in given and record["unusable"] not in _REASONS:
        raise bad(
            f"{one_line(str(record['unusable']), 60)!r} is not a reason", f"reasons: {', '.join(sorted(_REASONS))}"
        )
    if not isinstance(record.get("reasoning", ""), str):
        raise bad("reasoning is a string")
    return ("request" if named[0] == "request" else "row", record[named[0]], run, attempt)


def _reply(record: Mapping[str, Any], schema: Mapping[str, Any]) -> Reply:
    model = record.get("model")
    # No model name is claimed: nothing was asked of a model, so none can be the wrong one.
    detail = f"as recorded from {one_line(model, 80)}" if isinstance(model, str) else "as recorded"
    if record.get("unusable") is not None:
        return Reply(outcome=record["unusable"], detail=detail)
    text = record["text"] if record.get("text") is not None else verdict_text(record, schema)
    return Reply(outcome="ok", text=text, raw=text.encode("utf-8", "replace"), detail=detail)


def verdict_text(record: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A recorded label as the text a judge would have written for this schema.

    By the contract's form the first property is the reasoning, ``confidence`` the confidence, the other the label.
    """
    names = list(schema.get("properties", {}))
    out: dict[str, Any] = {}
    for place, name in enumerate(names):
        if place == 0:
            out[name] = record.get("reasoning") or "as recorded"
        elif name == "confidence":
            if record.get("confidence") is not None:
                out[name] = record["confidence"]
        else:
            out[name] = record["label"]
    return canonical(out)
