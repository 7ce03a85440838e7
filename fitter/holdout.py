"""The seal on disk: who is held out, and the one opening (SP-4 to SP-7).

    holdouts/<seal>/
        seal.json         salted digests of held-out and train members, and one entry a snapshot; never an id
        openings.jsonl    the opening: written durably before a row is read
        exposures.jsonl   later looks, each asked for with --exposed-holdout
        private/          0700, never in git: the held-out rows of each snapshot, 0600

`open_holdout` is the only function that reads a held-out row back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitter.errors import RunError, Tampered, UserError
from fitter.grouping import Grouping, full_content, group_rows, input_text
from fitter.jsonio import JSONFault, digest, jsonl, pretty, sha256, strict_loads
from fitter.labels import LabelSchema
from fitter.queues.snapshot import dump_rows, load_rows, snapshot_hash
from fitter.records import Row
from fitter.splitting import Side, Split, draw_split, member_keys, salt_for
from fitter.textsafe import one_line
from fitter.workspace import Workspace, init, lock, write_atomic, write_once

SCHEMA_VERSION = 1
_SIDES: tuple[Side, Side] = ("holdout", "train")


@dataclass(frozen=True, kw_only=True)
class SealedSplit:
    """What a fit may know of its split before the holdout is opened: no held-out id, no held-out row.

    Attributes:
        seal: seal id.
        snapshot: hash of all usable rows.
        train: the train rows, sorted by id.
        holdout_rows: how many are held out.
        scored: there is a holdout to open in the end.
        reason: why there is none; empty when there is.
        strata: class (numeric: third of the range) → (rows, rows held out).
        joined: number of groups that came to join both sides and went to train.
        capped: groups left in train because they would have pushed a class past 40%.
        new: rows that had no side before this snapshot.
        dropped_inputs: (rows, share) of boilerplate input texts that join nothing.
        groups: number of groups.
        opened_by: (run, date) of an opening that already happened, else None: this fit needs --exposed-holdout.
        elsewhere: rows held out here whose content was a train row, or was opened, under another seal of the workspace,
            as (how many, the first such seal); they are not unseen either.
    """

    seal: str
    snapshot: str
    train: tuple[Row, ...]
    holdout_rows: int
    scored: bool
    reason: str
    strata: Mapping[str, tuple[int, int]]
    joined: int
    capped: int
    new: int
    dropped_inputs: tuple[tuple[int, float], ...]
    groups: int
    opened_by: tuple[str, str] | None
    elsewhere: tuple[int, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Counts only; safe in tracked artefacts."""
        return {
            "schema_version": SCHEMA_VERSION,
            "seal": self.seal,
            "snapshot": self.snapshot,
            "train_rows": len(self.train),
            "holdout_rows": self.holdout_rows,
            "groups": self.groups,
            **_notes(self),
            "opened_by": None if self.opened_by is None else list(self.opened_by),
            "elsewhere": None if self.elsewhere is None else list(self.elsewhere),
        }


@dataclass(frozen=True, kw_only=True)
class OpenedHoldout:
    """The held-out rows, opened.

    Attributes:
        rows: sorted by id.
        exposure: "" for the one opening; else what every figure on these rows must be called (SP-5).
    """

    rows: tuple[Row, ...]
    exposure: str


def seal_id(queue: str, label_id: str) -> str:
    """Name of the seal of a queue and label; distinct pairs have distinct names."""
    return f"{queue}--{label_id}-{salt_for(queue, label_id)[:8]}"


@contextlib.contextmanager
def hold_seal(workspace: Workspace, seal: str, *, holder: str) -> Iterator[None]:
    """Held by a fit from its first look at the queue to its end: a second fit on the seal is told who holds it.

    Raises:
        UserError: another fit holds it.
    """
    with lock(workspace.seal(seal) / "fit.lock", holder=holder):
        yield


def seal_rows(
    workspace: Workspace,
    rows: Sequence[Row],
    *,
    queue: str,
    label: LabelSchema,
    positional: bool = False,
    content_of: Callable[[Row], str] = full_content,
    input_of: Callable[[Row], str] = input_text,
) -> SealedSplit:
    """Splits the usable rows, seals the holdout on disk and returns the train side (SP-2).

    Called right after intake. The same rows again give the same answer, also after a kill at any point.

    Args:
        workspace: where the seal lies.
        rows: all usable rows.
        queue: the queue's identity.
        label: the label's schema.
        positional: row ids are only row numbers.
        content_of, input_of: see :func:`fitter.grouping.group_rows`.

    Raises:
        UserError: the seal of this name belongs to other rows, or somebody is writing it.
        Tampered: the seal on disk is not what was written.
    """
    init(workspace.root)  # also writes the .gitignore that keeps private/ out of git
    seal, snapshot = seal_id(queue, label.id), snapshot_hash(rows)
    folder = workspace.seal(seal)
    grouping = group_rows(rows, positional=positional, content_of=content_of, input_of=input_of)
    with _writing(folder):
        record = _load(folder)
        known = _sides(record)
        salt = salt_for(queue, label.id)
        if record is not None:
            _same_queue(record, grouping, known, salt, positional, queue)
        split = draw_split(rows, grouping, label=label, salt=salt, known=known, positional=positional)
        held = set(split.holdout)
        private = dump_rows(row for row in rows if row.id in held)
        entry = None if record is None else record["snapshots"].get(snapshot)
        if entry is None or entry["holdout_sha256"] != sha256(private):
            entry = {
                "holdout_rows": len(split.holdout),
                "train_rows": len(split.train),
                "holdout_sha256": sha256(private),
                **_notes(split),
            }
            sealed = {
                "schema_version": SCHEMA_VERSION,
                "seal": seal,
                "queue": queue,
                "label": label.id,
                "salt": salt,
                "members": _members(record, grouping, held, salt, positional),
                "snapshots": {**({} if record is None else record["snapshots"]), snapshot: entry},
            }
            # The rows first: a kill in between leaves a file that nothing refers to.
            _keep_rows(folder, entry, private)
            write_atomic(folder / "seal.json", pretty({**sealed, "sha256": digest(sealed)}))
        _keep_rows(folder, entry, private)  # a clone has the seal without its private folder
        opened = _openings(folder)
    elsewhere = seen_elsewhere(workspace, seal, queue, grouping, held)
    train = set(split.train)
    return SealedSplit(
        seal=seal,
        snapshot=snapshot,
        train=tuple(sorted((row for row in rows if row.id in train), key=lambda row: row.id)),
        holdout_rows=len(split.holdout),
        scored=entry["scored"],
        reason=entry["reason"],
        strata={name: (pair[0], pair[1]) for name, pair in entry["strata"].items()},
        joined=entry["joined"],
        capped=entry["capped"],
        new=entry["new"],
        dropped_inputs=tuple((pair[0], pair[1]) for pair in entry["dropped_inputs"]),
        groups=len(grouping.groups),
        opened_by=(opened[0]["run"], opened[0]["on"]) if opened else None,
        elsewhere=elsewhere if split.scored else None,
    )


def seen_elsewhere(
    workspace: Workspace, seal: str, queue: str, grouping: Grouping, held: Collection[str]
) -> tuple[int, str] | None:
    """Held-out rows that another seal of the workspace has shown already: a queue saved under another name.

    A row counts when its full content was a train row there, or was held out there and that holdout has been opened.
    Another label of the same queue is another question, and does not count.

    Args:
        workspace: where the seals lie.
        seal: this seal's id.
        queue: this queue's identity.
        grouping: this queue's rows with their keys.
        held: ids of the rows to be held out here.

    Returns:
        (how many of them, the folder of the first seal that has seen one), or None.
    """
    folder = workspace.root / "holdouts"
    names = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    members = [m for group in grouping.groups for m in group.members if m.row in held]
    seen: set[str] = set()
    first = ""
    for name in names:
        other = folder / name
        record = _load(other) if other != workspace.seal(seal) else None
        if record is None or record["queue"] == queue:
            continue
        shown = {own["row"][-1] for own in record["members"]["train"]}
        if _openings(other):
            shown |= {own["row"][-1] for own in record["members"]["holdout"]}
        # The last own key is the content's digest in both modes; it is salted by the seal it stands in.
        hits = {m.row for m in members if member_keys(m, record["salt"], positional=True)[0][-1] in shown}
        if hits and not first:
            first = name
        seen |= hits
    return (len(seen), first) if seen else None


def preview(
    workspace: Workspace, rows: Sequence[Row], *, queue: str, label: LabelSchema, positional: bool = False
) -> tuple[Split, tuple[str, str] | None]:
    """The split that :func:`seal_rows` would draw, and who opened its holdout already; writes nothing.

    Returns:
        The split; (run, date) of the opening that a fit on these rows would have to call exposed, else None.

    Raises:
        UserError: the seal of this name belongs to other rows.
        Tampered: the seal on disk is not what was written.
    """
    folder = workspace.seal(seal_id(queue, label.id))
    grouping = group_rows(rows, positional=positional)
    record, salt = _load(folder), salt_for(queue, label.id)
    known = _sides(record)
    if record is not None:
        _same_queue(record, grouping, known, salt, positional, queue)
    split = draw_split(rows, grouping, label=label, salt=salt, known=known, positional=positional)
    opened = _openings(folder)
    return split, (opened[0]["run"], opened[0]["on"]) if opened and split.scored else None


def open_holdout(
    workspace: Workspace,
    seal: str,
    *,
    snapshot: str,
    run: str,
    config_hash: str,
    winner_hash: str,
    on: str,
    exposed: bool = False,
) -> OpenedHoldout:
    """Opens the holdout: once. The opening is on disk before a row is read (SP-5).

    Args:
        workspace: where the seal lies.
        seal: seal id.
        snapshot: the snapshot whose held-out rows are read.
        run, config_hash, winner_hash: who opens it, for what; the same triple may finish after a crash.
        on: today's date, ISO.
        exposed: the user asked for ``--exposed-holdout``: rows that were opened before may be read again, and every
            figure on them carries the returned ``exposure``.

    Raises:
        UserError: it was opened before, by another run, config or winner; or there is no holdout to open.
        Tampered: the seal, or the rows, are not what was written.
    """
    folder = workspace.seal(seal)
    me = {"run": run, "config": config_hash, "winner": winner_hash, "snapshot": snapshot}
    with _writing(folder):
        record = _load(folder)
        entry = None if record is None else record["snapshots"].get(snapshot)
        if entry is None or not entry["scored"]:
            why = "no split of this snapshot was sealed" if entry is None else entry["reason"]
            raise UserError(f"there is no holdout to open: {why}")
        exposure = ""
        opened = _openings(folder)
        if not opened:
            _append(folder / "openings.jsonl", [], {**me, "on": on})
        elif _triple(opened[0]) != _triple(me):
            first = opened[0]
            by = f"opened by {first['run']} on {first['on']}"
            if not exposed:
                raise UserError(
                    f"the holdout of {one_line(seal, 80)} was {by}; it is opened once",
                    hint="label new rows, or ask for --exposed-holdout: then every figure on it is named "
                    f"'exposed holdout, {by}'",
                )
            exposure = f"exposed holdout, {by}"
            looks = _read_log(folder / "exposures.jsonl")
            if all(_triple(look) != _triple(me) for look in looks):
                _append(folder / "exposures.jsonl", looks, {**me, "on": on, "first_opened_by": first["run"]})
        elif opened[0]["snapshot"] != snapshot:
            raise Tampered("the run that opened this holdout opened another snapshot of it")
        return OpenedHoldout(rows=_read_rows(folder, entry), exposure=exposure)


def openings(workspace: Workspace, seal: str) -> list[dict[str, Any]]:
    """The opening (at most one) and then every exposure, oldest first."""
    folder = workspace.seal(seal)
    return _openings(folder) + _read_log(folder / "exposures.jsonl")


# -- below: the folder ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    with lock(folder / "seal.lock", holder="a fit that is writing the seal"):
        yield


def _rows_path(folder: Path, entry: Mapping[str, Any]) -> Path:
    return folder / "private" / f"{entry['holdout_sha256'][:32]}.jsonl"


def _keep_rows(folder: Path, entry: Mapping[str, Any], rows: str) -> None:
    if entry["holdout_rows"]:
        write_once(_rows_path(folder, entry), rows, private=True)


def _read_rows(folder: Path, entry: Mapping[str, Any]) -> tuple[Row, ...]:
    path = _rows_path(folder, entry)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RunError(f"the held-out rows are gone: {path}", hint="private/ folders are not in git; "
                       "open the holdout where the fit was run") from None  # fmt: skip
    if sha256(text) != entry["holdout_sha256"]:
        raise Tampered(f"the held-out rows changed after they were sealed: {path}")
    return load_rows(text)


def _load(folder: Path) -> dict[str, Any] | None:
    path = folder / "seal.json"
    if not path.exists():
        return None
    try:
        record = strict_loads(path.read_text(encoding="utf-8"))
        if record["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version {record['schema_version']!r}")
        if digest({key: value for key, value in record.items() if key != "sha256"}) != record["sha256"]:
            raise ValueError("it does not match its own hash")
    except (JSONFault, UnicodeDecodeError, KeyError, TypeError, ValueError) as fault:
        raise Tampered(f"{path} is not a seal this version wrote: {fault}", hint="restore it from git") from None
    loaded: dict[str, Any] = record
    return loaded


def _sides(record: Mapping[str, Any] | None) -> dict[str, Side]:
    """Salted digest → side, of rows and of the keys that join rows."""
    known: dict[str, Side] = {}
    for side in _SIDES:  # holdout first: a key found on both sides belongs to train
        for member in () if record is None else record["members"][side]:
            known.update(dict.fromkeys((*member["row"], *member["keys"]), side))
    return known


def _same_queue(
    record: Mapping[str, Any], grouping: Grouping, known: Mapping[str, Side], salt: str, positional: bool, queue: str
) -> None:
    members = [member for group in grouping.groups for member in group.members]
    had_any = any(record["members"][side] for side in _SIDES)
    met = any(key in known for m in members for key in member_keys(m, salt, positional=positional)[0])
    if members and had_any and not met:
        raise UserError(
            f"the queue {one_line(queue, 80)!r} was sealed before, with no row in common with this one",
            hint="two queues of one name would share a seal; give this one another name with --queue-name",
        )


def _notes(split: Split | SealedSplit) -> dict[str, Any]:
    return {
        "scored": split.scored,
        "reason": split.reason,
        "strata": {name: list(pair) for name, pair in split.strata.items()},
        "joined": split.joined if isinstance(split, SealedSplit) else len(split.joined),
        "capped": split.capped,
        "new": split.new,
        "dropped_inputs": [[n, round(share, 6)] for n, share in split.dropped_inputs],
    }


def _members(
    record: Mapping[str, Any] | None, grouping: Grouping, held: set[str], salt: str, positional: bool
) -> dict[str, list[dict[str, list[str]]]]:
    """Every row ever seen, on its side; rows of this snapshot replace their earlier entries."""
    out: dict[str, list[dict[str, list[str]]]] = {"holdout": [], "train": []}
    mine: set[str] = set()
    for group in grouping.groups:
        for member in group.members:
            own, joining = member_keys(member, salt, positional=positional)
            mine.update(own)
            out["holdout" if member.row in held else "train"].append({"row": list(own), "keys": sorted(joining)})
    for side in _SIDES:
        for old in () if record is None else record["members"][side]:
            # [id, content] or, of a positional row, [content]; the last also finds rows that had no id before.
            same_mode = len(old["row"]) == (1 if positional else 2)
            if old["row"][0 if same_mode else -1] not in mine:
                out[side].append(old)
        out[side].sort(key=lambda member: (member["row"], member["keys"]))
    return out


def _triple(entry: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return entry["run"], entry["config"], entry["winner"]


def _openings(folder: Path) -> list[dict[str, Any]]:
    return _read_log(folder / "openings.jsonl")


def _read_log(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        entries = [strict_loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for entry in entries:
            if not all(isinstance(entry[key], str) for key in ("run", "config", "winner", "snapshot", "on")):
                raise ValueError("an entry is incomplete")
    except (JSONFault, UnicodeDecodeError, KeyError, TypeError, ValueError) as fault:
        # Unreadable is not "never opened": that would let a damaged file open the holdout twice.
        raise Tampered(f"{path} is not the log that was written: {fault}", hint="restore it from git") from None
    return entries


def _append(path: Path, entries: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]) -> None:
    """Adds an entry by replacing the whole file: durable on return, and never torn."""
    write_atomic(path, jsonl([*entries, {"schema_version": SCHEMA_VERSION, **entry}]))
