"""Publish, and prove that it is there: written, read back, compared field by field, seen in the listing (PU-4).

A write's status proves nothing, in either direction: a write that "succeeded" may have stored nothing, one that
"failed" may have stored everything. Only what is read afterwards counts. Every step may be repeated after a crash: an
evaluator that already equals what would be sent is not written again, only verified.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fitter.errors import FitterError, PublishError, Stopped, UserError
from fitter.jsonio import JSONFault, JSONValue, pretty, sha256, strict_loads
from fitter.publishing.diff import FieldDiff, diff_fields, enabled_at, equal
from fitter.publishing.publisher import EvaluatorSpec, Publisher
from fitter.textsafe import one_line
from fitter.workspace import Workspace, write_atomic

RECEIPT_SCHEMA_VERSION: Final = 1
DISABLED_LINE: Final = "disabled: it scores nothing until you enable it"
REHEARSAL_LINE: Final = (
    "This was a rehearsal: the local registry is a folder, and nothing runs what is published there."
)
_UNFINISHED = ("config.json", "how_to_publish.md")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for a platform that is consistent only after a while.

    Attributes:
        tries: most reads of the evaluator, and most reads of the listing.
        wait_s: seconds between two reads.
        sleep: waits; replaced in tests.
    """

    tries: int = 6
    wait_s: float = 2.0
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The proof that a disabled evaluator is there. It exists only when PU-4 holds.

    Attributes:
        publisher, name, app, scope, judge, page: what was published, where.
        run: the fit's run id.
        rehearsal: nothing runs what is published there (PU-1).
        compared: number of fields that were compared and found equal.
        sent_sha256, read_back_sha256, listing_sha256: of the files beside the receipt.
        metadata: hashes that tie the evaluator to its run.
        folder: where the receipt lies on this machine; not part of the receipt file.
    """

    publisher: str
    name: str
    app: str
    scope: str
    judge: str
    page: str
    run: str
    rehearsal: bool
    compared: int
    sent_sha256: str
    read_back_sha256: str
    listing_sha256: str
    metadata: Mapping[str, str]
    folder: Path

    def to_json(self) -> dict[str, JSONValue]:
        """The receipt file: no clock, no absolute path, no count of attempts, so that a resumed run writes the same."""
        return {
            "schema_version": RECEIPT_SCHEMA_VERSION,
            "publisher": self.publisher,
            "evaluator": self.name,
            "app": self.app,
            "scope": self.scope,
            "judge": self.judge,
            "page": self.page,
            "run": self.run,
            "enabled": False,
            "rehearsal": self.rehearsal,
            "statement": f"{REHEARSAL_LINE} {DISABLED_LINE}" if self.rehearsal else DISABLED_LINE,
            "fields_compared": self.compared,
            "fields_different": 0,
            "listed": True,
            "sha256": {
                "sent.json": self.sent_sha256,
                "read_back.json": self.read_back_sha256,
                "listing.json": self.listing_sha256,
            },
            "metadata": dict(self.metadata),
        }


def receipt_folder(workspace: Workspace, publisher: str, name: str, run_id: str) -> Path:
    """``publish/PUBLISHER/NAME/RUN``: one folder a publication."""
    return workspace.publish(publisher, name, run_id)


def publish_and_verify(
    publisher: Publisher,
    spec: EvaluatorSpec,
    *,
    receipt_dir: Path,
    run_id: str,
    patience: Patience | None = None,
) -> Receipt:
    """Publishes a disabled evaluator and returns only when it was read back equal and seen in the listing (PU-4).

    Idempotent: after a crash at any point the same call finishes the job and leaves the same files.

    Args:
        publisher: the platform.
        spec: the evaluator.
        receipt_dir: folder of this publication (:func:`receipt_folder`). Written there: ``sent.json`` before the write,
            then ``read_back.json``, ``diff.json``, ``listing.json`` and, last, ``receipt.json``.
        run_id: the fit's run id.
        patience: bounded waiting for eventually consistent platforms.

    Raises:
        SettingsError: an enabled or another app's evaluator bears this name (PU-3).
        PublishError: refused, stored differently, stored enabled, or not listed (PU-2: exit 1).
        Stopped: the platform cannot be reached; resumable.

        After any of them ``config.json``, ready to paste, and ``how_to_publish.md`` lie in ``receipt_dir``.
    """
    patience = patience or Patience()
    config = publisher.config(spec, None)
    try:
        publisher.check(spec.name, spec.app, spec.judge)
        existing = publisher.get(spec.name)
        merged = publisher.config(spec, existing)
        _refuse_enabled(merged, f"the config for {spec.name!r}")
        config = merged
        return _write_and_prove(publisher, spec, config, existing, receipt_dir, run_id, patience)
    except FitterError as fault:
        hint = _leave_config(receipt_dir, publisher, spec, config, fault.message)
        kind = type(fault) if isinstance(fault, UserError | Stopped) else PublishError
        raise kind(fault.message, hint=f"{fault.hint}; {hint}" if fault.hint else hint) from fault
    except OSError as fault:
        message = f"the receipt cannot be written in {receipt_dir}: {fault.strerror or fault}"
        hint = _leave_config(receipt_dir, publisher, spec, config, message)
        raise PublishError(message, hint=hint) from fault


def _write_and_prove(
    publisher: Publisher,
    spec: EvaluatorSpec,
    config: Mapping[str, Any],
    existing: Mapping[str, Any] | None,
    folder: Path,
    run_id: str,
    patience: Patience,
) -> Receipt:
    wanted = publisher.comparable(config)
    refusal: PublishError | None = None
    (folder / "receipt.json").unlink(missing_ok=True)
    sent_file = folder / "sent.json"
    if existing is None or not equal(wanted, publisher.comparable(existing)):
        write_atomic(sent_file, pretty(config))
        try:
            publisher.put(spec.name, config)
        except PublishError as fault:
            refusal = fault
    elif not _records(sent_file, publisher, wanted):
        # Already there, though not by an earlier attempt of this run (somebody pasted config.json, say).
        write_atomic(sent_file, pretty(config))

    stored = _read_until_equal(publisher, spec.name, wanted, patience if refusal is None else _ONCE)
    differences = diff_fields(wanted, {} if stored is None else publisher.comparable(stored))
    write_atomic(folder / "read_back.json", pretty(stored))
    write_atomic(folder / "diff.json", pretty(_diff_document(differences)))
    _refuse_differences(publisher, spec.name, stored, differences, refusal)

    entry = _find_in_listing(publisher, spec, patience)
    write_atomic(folder / "listing.json", pretty({"schema_version": RECEIPT_SCHEMA_VERSION, "entry": entry}))
    receipt = Receipt(
        publisher=publisher.name,
        name=spec.name,
        app=spec.app,
        scope=spec.scope,
        judge=spec.judge,
        page=publisher.page,
        run=run_id,
        rehearsal=publisher.rehearsal,
        compared=len(differences),
        sent_sha256=sha256(sent_file.read_bytes()),
        read_back_sha256=sha256((folder / "read_back.json").read_bytes()),
        listing_sha256=sha256((folder / "listing.json").read_bytes()),
        metadata=spec.metadata,
        folder=folder,
    )
    for leftover in _UNFINISHED:
        (folder / leftover).unlink(missing_ok=True)
    write_atomic(folder / "receipt.json", pretty(receipt.to_json()))
    return receipt


def closing_lines(receipt: Receipt) -> list[str]:
    """The last lines of a run (PU-6): the evaluator's name, the evaluations page, and that it is disabled."""
    lines = [REHEARSAL_LINE] if receipt.rehearsal else []
    return [
        *lines,
        f"evaluator: {one_line(receipt.name)} (app {one_line(receipt.app)})",
        f"evaluations page: {one_line(receipt.page)}",
        DISABLED_LINE,
    ]


_ONCE = Patience(tries=1, wait_s=0.0)


def _refuse_enabled(document: Mapping[str, Any], what: str) -> None:
    """The net below every publisher (PU-1): no document that could enable anything is ever sent."""
    where = enabled_at(document)
    if where is not None:
        raise PublishError(
            f"{what} is not disabled at {where}; nothing was written",
            hint="fitter only ever writes `enabled: false`; remove that field from the existing evaluator, or rename",
        )


def _records(sent_file: Path, publisher: Publisher, wanted: Mapping[str, Any]) -> bool:
    """True when an earlier attempt recorded sending just this; its record then stands, byte for byte."""
    try:
        sent = strict_loads(sent_file.read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, JSONFault):
        return False
    return isinstance(sent, dict) and equal(wanted, publisher.comparable(sent))


def _read_until_equal(
    publisher: Publisher, name: str, wanted: Mapping[str, Any], patience: Patience
) -> Mapping[str, Any] | None:
    """The evaluator as soon as it reads as sent; else as it last read."""
    stored: Mapping[str, Any] | None = None
    for turn in range(patience.tries):
        if turn:
            patience.sleep(patience.wait_s)
        stored = publisher.get(name)
        if stored is not None and equal(wanted, publisher.comparable(stored)):
            break
    return stored


def _refuse_differences(
    publisher: Publisher,
    name: str,
    stored: Mapping[str, Any] | None,
    differences: Sequence[FieldDiff],
    refusal: PublishError | None,
) -> None:
    wrong = [row for row in differences if row.state != "equal"]
    enabled = None if stored is None else enabled_at(stored)
    if enabled is not None:
        raise PublishError(
            f"{publisher.name} holds {name!r} ENABLED (at {enabled}) although it was sent disabled; "
            f"disable it now: {publisher.page}"
        )
    if not wrong:
        return
    if refusal is not None:
        raise refusal
    if stored is None:
        raise PublishError(f"{publisher.name} accepted {name!r} but does not have it when it is read back")
    fields = ", ".join(f"{row.field} ({row.state})" for row in wrong[:5])
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    raise PublishError(
        f"{publisher.name} stored {name!r} differently from what was sent: {fields}{more}; see diff.json"
    )


def _find_in_listing(publisher: Publisher, spec: EvaluatorSpec, patience: Patience) -> Mapping[str, Any]:
    for turn in range(patience.tries):
        if turn:
            patience.sleep(patience.wait_s)
        for entry in publisher.listing(spec.app):
            if entry.get("name") != spec.name:
                continue
            # None: this listing does not show it; the read-back has shown that it is disabled.
            if entry.get("enabled") is not None and enabled_at(entry) is not None:
                raise PublishError(f"{publisher.name} lists {spec.name!r} ENABLED; disable it now: {publisher.page}")
            return entry
    raise PublishError(
        f"{publisher.name} does not list {spec.name!r} for the app {one_line(spec.app)!r} "
        f"after {patience.tries} looks, though it reads back as sent"
    )


def _diff_document(differences: Sequence[FieldDiff]) -> dict[str, JSONValue]:
    return {
        "schema_version": RECEIPT_SCHEMA_VERSION,
        "different": sum(row.state != "equal" for row in differences),
        "fields": [row.to_json() for row in differences],
    }


def _leave_config(folder: Path, publisher: Publisher, spec: EvaluatorSpec, config: Mapping[str, Any], why: str) -> str:
    """Leaves the ready-to-paste config of an unfinished publication (PU-2); returns where, as a hint."""
    page = (
        f"# {one_line(spec.name)} was not published\n\n"
        f"Why: {one_line(why, 500)}\n\n"
        "`config.json` beside this page is the complete evaluator, disabled. To finish:\n\n"
        "1. Mend the cause, then `fitter resume RUN` or `fitter publish RUN --to PLATFORM`: both read first, and\n"
        "   write only if they must. Or\n"
        f"2. create the evaluator by hand ({one_line(publisher.page)}): name, app, scope, judge model, both prompt\n"
        "   messages to the byte, and the output schema from `config.json`. Leave it disabled.\n"
    )
    try:
        write_atomic(folder / _UNFINISHED[0], pretty(config))
        write_atomic(folder / _UNFINISHED[1], page)
    except OSError as fault:
        return f"the config could not be left in {folder} either: {fault.strerror or fault}"
    return f"the config is in {folder / _UNFINISHED[0]}, how to use it in {_UNFINISHED[1]} beside it"
