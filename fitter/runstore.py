"""The artefacts of one fit: where each lies and how it is read and written.

Tracked files hold ids, digests, labels, reason codes, figures and hashes (SC-4); private/ holds text. Every file is
written once: the same bytes again are fine (a node that restarts), other bytes are an error. ``report.md`` and
``events.jsonl`` are the two exceptions: the report is replaced as a whole, events are appended and are the only place
for clocks.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitter.errors import Tampered, UserError
from fitter.jsonio import JSONFault, canonical, jsonl, pretty, sha256, strict_loads
from fitter.workspace import Workspace, write_atomic, write_once

if TYPE_CHECKING:  # pydantic is not needed to list runs, and takes longer than listing them
    from fitter.labels import LabelKind
    from fitter.records import Pass

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
BUDGET = "budget.json"  # the budget that a resume gave; replaced by the next one
HASHES = "hashes.jsonl"  # hash of every write-once artefact, on disk before the artefact itself
# Not part of the manifest: clocks, the manifest itself, the checkpoint and locks.
_LOOSE = frozenset(
    {"events.jsonl", MANIFEST, "given.json", "state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "run.lock"}
)


class RunStore:
    """Reads and writes one run's folder."""

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        self.workspace = workspace
        self.run_id = run_id
        self.folder = workspace.run(run_id)
        self._hashes: dict[str, str] | None = None

    # -- whole JSON documents ------------------------------------------------------------------------------------

    def path(self, name: str, *, private: bool = False) -> Path:
        """Path of an artefact, e.g. ``cards/000.json``."""
        return (self.folder / "private" / name) if private else (self.folder / name)

    def has(self, name: str, *, private: bool = False) -> bool:
        """True when the artefact exists."""
        return self.path(name, private=private).is_file()

    def write(self, name: str, value: Mapping[str, Any], *, private: bool = False) -> None:
        """Writes a JSON document once, with the schema version."""
        self.write_text(name, pretty({"schema_version": SCHEMA_VERSION, **value}), private=private)

    def write_text(self, name: str, data: str, *, private: bool = False) -> None:
        """Writes a file once and records its hash."""
        path = self.path(name, private=private)
        self._note(path.relative_to(self.folder).as_posix(), sha256(data))
        write_once(path, data, private=private)

    def replace(self, name: str, value: Mapping[str, Any]) -> None:
        """Replaces a JSON document that may change between two processes of one run."""
        write_atomic(self.path(name), pretty({"schema_version": SCHEMA_VERSION, **value}))

    # -- hashes of what was written ------------------------------------------------------------------------------

    def _note(self, name: str, digest: str) -> None:
        """Records a hash before its file is written: a kill in between leaves a hash without a file, never the reverse.

        Raises:
            Tampered: other content was recorded under this name.
        """
        noted = self._noted()
        if name in noted:
            return  # the file itself is compared by write_once
        noted[name] = digest
        self.folder.mkdir(parents=True, exist_ok=True)
        _append(
            self.folder / HASHES, canonical({"schema_version": SCHEMA_VERSION, "file": name, "sha256": digest}) + "\n"
        )

    def _noted(self) -> dict[str, str]:
        if self._hashes is None:
            self._hashes = {}
            path = self.folder / HASHES
            text = _read_text(path) if path.is_file() else ""
            whole = text[: text.rfind("\n") + 1]
            if whole != text:  # a full disk tore the last line; its file was not written
                write_atomic(path, whole)
            for line in whole.splitlines():
                record = _loads(path, line)
                if not isinstance(record, dict) or not all(isinstance(record.get(k), str) for k in ("file", "sha256")):
                    raise Tampered(f"{path} is not the list of hashes that was written")
                self._hashes[record["file"]] = record["sha256"]
        return self._hashes

    def verify_hashes(self) -> None:
        """Compares every artefact with the hash that was recorded when it was written.

        Raises:
            Tampered: a file was changed, or is gone though later ones are there; names it.
        """
        noted = list(self._noted().items())
        for n, (name, digest) in enumerate(noted, 1):
            path = self.folder / name
            try:
                now = sha256(path.read_bytes())
            except FileNotFoundError:
                if n == len(noted):
                    continue  # killed after its hash was recorded and before it was written
                raise Tampered(f"{path} is gone", hint="restore it, or start a new fit") from None
            except OSError as fault:
                raise Tampered(f"{path} cannot be read: {fault.strerror}") from None
            if now != digest:
                raise Tampered(
                    f"{path} was changed after it was written (its hash differs from {HASHES})",
                    hint="restore it, or start a new fit: a run goes on only from what it wrote itself",
                )

    def read(self, name: str, *, private: bool = False) -> dict[str, Any]:
        """Reads a JSON document.

        Raises:
            UserError: it is not there.
            Tampered: it is not JSON any more, or of another schema version.
        """
        path = self.path(name, private=private)
        value = _loads(path, _read_text(path))
        if not isinstance(value, dict) or value.get("schema_version") != SCHEMA_VERSION:
            raise Tampered(f"{path} is not a document of schema version {SCHEMA_VERSION}")
        return value

    # -- rows ----------------------------------------------------------------------------------------------------

    def write_rows(self, name: str, rows: Iterable[Mapping[str, Any]], *, private: bool = False) -> None:
        """Writes a JSONL file once; the first line names the schema version."""
        self.write_text(name, jsonl([{"schema_version": SCHEMA_VERSION}, *rows]), private=private)

    def read_rows(self, name: str, *, private: bool = False) -> list[dict[str, Any]]:
        """Reads a JSONL file written by :meth:`write_rows`."""
        path = self.path(name, private=private)
        lines = [_loads(path, line) for line in _read_text(path).splitlines() if line]
        if not lines or lines[0] != {"schema_version": SCHEMA_VERSION}:
            raise Tampered(f"{path} does not start with its schema version")
        return lines[1:]

    # -- passes --------------------------------------------------------------------------------------------------

    def write_passes(self, name: str, passes: Sequence[Pass]) -> None:
        """Retains passes: labels and reason codes tracked, the judge's words in private/."""
        from fitter.labels import to_json

        tracked, words = [], []
        for made in sorted(passes, key=lambda p: (p.row, p.run)):
            record = asdict(made)
            reasoning = record.pop("reasoning")
            record["label"] = None if made.label is None else to_json(made.label)
            record["reasoning_sha256"] = sha256(reasoning) if reasoning else None
            tracked.append({k: v for k, v in record.items() if v is not None})
            words.append({"row": made.row, "run": made.run, "reasoning": reasoning})
        self.write_rows(f"reasoning/{name}.jsonl", words, private=True)
        self.write_rows(f"passes/{name}.jsonl", tracked)

    def read_passes(self, name: str, kind: LabelKind) -> list[Pass]:
        """Reads retained passes; the judge's words are joined where private/ is present."""
        from fitter.labels import from_json
        from fitter.records import Pass

        words: dict[tuple[str, int], str] = {}
        if self.has(f"reasoning/{name}.jsonl", private=True):
            for record in self.read_rows(f"reasoning/{name}.jsonl", private=True):
                words[record["row"], record["run"]] = record["reasoning"]
        passes = []
        for record in self.read_rows(f"passes/{name}.jsonl"):
            label = record.pop("label", None)
            digest = record.pop("reasoning_sha256", None)
            reasoning = words.get((record["row"], record["run"]), "")
            if digest is not None and words and sha256(reasoning) != digest:
                raise Tampered(f"{self.folder}: the retained reasoning of row {record['row']} differs from its digest")
            value = None if label is None else from_json(label, kind)
            passes.append(Pass(**record, label=value, reasoning=reasoning))
        return passes

    # -- the rest ------------------------------------------------------------------------------------------------

    def write_report(self, text: str, *, name: str = "report.md", private: bool = False) -> None:
        """Replaces a report as a whole."""
        write_atomic(self.path(name, private=private), text, private=private)

    def event(self, kind: str, **fields: Any) -> None:
        """Appends one line to events.jsonl: the only artefact with a clock, and no part of any decision.

        The manifest leaves it out, so each line carries a sum over itself and the sum before (:func:`event_sum`).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "events.jsonl"
        before = path.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2] if path.exists() else b""
        event = {"schema_version": SCHEMA_VERSION, "at": round(time.time(), 3), "event": kind, **fields}
        _append(path, canonical({**event, "sum": event_sum(before.decode("utf-8", "replace"), event)}) + "\n")

    def names(self, folder: str) -> list[str]:
        """Stems of the artefacts in a folder, sorted: ``names("cards")`` → ``["000", "001"]``."""
        where = self.folder / folder
        return sorted(p.stem for p in where.iterdir() if p.is_file() and p.suffix != ".lock") if where.is_dir() else []

    def tracked_files(self) -> list[str]:
        """Relative paths of every tracked artefact, sorted."""
        found = []
        for path in sorted(self.folder.rglob("*")):
            relative = path.relative_to(self.folder)
            if path.is_file() and relative.parts[0] != "private" and path.name not in _LOOSE and path.name[0] != ".":
                found.append(relative.as_posix())
        return found

    def write_manifest(self) -> None:
        """Hashes every artefact, tracked and private, so that a flipped byte is found."""
        private = self.folder / "private"
        hidden = [p for p in sorted(private.rglob("*")) if p.is_file() and p.name[0] != "."] if private.is_dir() else []
        value = {
            "schema_version": SCHEMA_VERSION,
            "tracked": {name: sha256((self.folder / name).read_bytes()) for name in self.tracked_files()},
            "private": {p.relative_to(private).as_posix(): sha256(p.read_bytes()) for p in hidden},
        }
        write_atomic(self.folder / MANIFEST, pretty(value))


def event_sum(before: str, event: Mapping[str, Any]) -> str:
    """The sum of an event: over the whole line before it (empty for the first) and its own members."""
    return sha256(before + canonical(event))[:16]


def _append(path: Path, line: str) -> None:
    raw = line.encode("utf-8")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if os.write(fd, raw) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(fd)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{path} is not there", hint="the run did not get that far, or its folder is incomplete"
        ) from None
    except UnicodeDecodeError:
        raise Tampered(f"{path} is not UTF-8 any more") from None


def _loads(path: Path, text: str) -> Any:
    try:
        return strict_loads(text)
    except JSONFault as fault:
        raise Tampered(f"{path} is not valid JSON any more: {fault}") from None
