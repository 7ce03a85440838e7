"""After a fit: publish a winner again or elsewhere, and read back at any time what was published (PU-3, PU-4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fitter.errors import SettingsError, Tampered, UserError
from fitter.evidence.render import Rendered, render
from fitter.evidence.targets import TARGETS, open_target
from fitter.fitting import Fitting
from fitter.jsonio import JSONFault, canonical, sha256, strict_loads
from fitter.loop.steps.context import Fit, Version, number
from fitter.loop.steps.finish import publish_version, write_report
from fitter.loop.steps.platform import opened_publisher
from fitter.platforms import open_publisher
from fitter.publishing.diff import FieldDiff, diff_fields, enabled_at
from fitter.publishing.publisher import Publisher, Remote
from fitter.publishing.verify import Receipt
from fitter.report.facts import gather
from fitter.report.markdown import why_none
from fitter.runstore import MANIFEST, RunStore
from fitter.settings import FitSettings, make
from fitter.textsafe import one_line
from fitter.workspace import Workspace

Backend: TypeAlias = Literal["rest", "mcp"]


# -- publish --------------------------------------------------------------------------------------------------------


def publish_run(fitting: Fitting, run_id: str, *, to: str, backend: Backend | None = None) -> Receipt:
    """Publishes a measured run's winner, disabled, and proves that it is there.

    A run whose own publication was refused is thereby finished; it may go over another backend than the fit's.

    Args:
        fitting: the workspace.
        run_id: the run.
        to: platform.
        backend: how Datadog is reached; None for the fit's own.

    Raises:
        UserError: no such run, no winner, or the platform is not the one that the judge was fitted for.
        PublishError: refused, or not there afterwards.
    """
    with fitting.measured(run_id) as fit:
        none = why_none(gather(fit.store))
        if none is not None:
            raise UserError(f"run {run_id} has no evaluator to publish: {one_line(none, 300)}")
        winner: int = fit.store.read("result.json")["winner"]
        why = _misfit(fit, fit.version(winner), to)
        if why is not None:
            raise SettingsError(
                f"the winner of run {run_id} cannot be published to {one_line(to, 40)}: {why}",
                hint=f"a judge is published as it was measured: fit again with --publish-to {one_line(to, 40)}",
            )
        settings = fit.settings.model_copy(update={"publish_to": to, "backend": backend or fit.settings.backend})
        finished = fit.store.has(MANIFEST)
        with opened_publisher(fit.deps, settings) as publisher:
            receipt = publish_version(fit, winner, publisher)
            for note in publisher.notes if isinstance(publisher, Remote) else ():
                fit.deps.note(note)
        if not finished:
            write_report(fit)
            fit.store.write_manifest()
        return receipt


def _misfit(fit: Fit, version: Version, to: str) -> str | None:
    """Why the measured prompt would not be the prompt that runs at this platform, or None."""
    target = open_target(to)
    own = fit.target
    if target.name == own.name:
        return None
    if (why := target.hosts(fit.settings.judge or "")) is not None:
        return why
    if fit.scope not in target.scopes:
        return f"{target.name} runs no evaluators at {fit.scope} scope"
    contract = target.contract(fit.label)
    if canonical(contract.schema) != canonical(version.prompt.contract.schema):
        return (
            f"the judge was measured answering in {own.name}'s field {version.prompt.contract.label_field!r}, and "
            f"{target.name} has it answer in {contract.label_field!r} with another schema"
        )
    here, there = own.compile(version.evidence), target.compile(version.evidence)
    if [p for _, p in here.placeholders] != [p for _, p in there.placeholders]:
        return f"{target.name}'s template cannot carry the evidence that the judge was measured on"
    made = {}
    for row in fit.train:
        text = render(target, version.prompt, version.evidence, row, fit.framing)
        made[row.id] = sha256(text.text) if isinstance(text, Rendered) else None
    was = {r["row"]: r.get("sha256") for r in fit.store.read_rows(f"renders/{number(version.number)}.jsonl")}
    different = sorted(row for row, digest in was.items() if made.get(row) != digest)
    if different:
        shown = ", ".join(one_line(row, 60) for row in different[:5])
        return f"its template resolves to another text in {len(different)} train rows (e.g. {shown})"
    return None


# -- verify ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Published:
    """One publication, as its receipt tells it.

    Attributes:
        at: platform.
        run: the fit's run id.
        folder: where receipt, sent and read-back lie.
        receipt: the receipt.
        sent: the document as it was sent.
    """

    at: str
    run: str
    folder: Path
    receipt: Mapping[str, Any]
    sent: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReadAgain:
    """What is there now, beside the receipt.

    Attributes:
        published: the publication compared with.
        stored: the document as it reads now; None when it is gone.
        different: fields that are not as they were sent.
        compared: how many were compared.
        listed: seen in the platform's listing of the app.
        switched_on: where it is switched on, or None.
        page: the platform's evaluations page.
    """

    published: Published
    stored: Mapping[str, Any] | None
    different: tuple[FieldDiff, ...]
    compared: int
    listed: bool
    switched_on: str | None
    page: str

    @property
    def intact(self) -> bool:
        """True when it is there, listed, disabled, and as it was sent."""
        return self.stored is not None and self.listed and self.switched_on is None and not self.different

    def lines(self) -> list[str]:
        """For people."""
        said, where = self.published, self.published.at
        head = f"evaluator {one_line(str(said.receipt['evaluator']))} at {where}, published by run {said.run}"
        if self.stored is None:
            return [head, "  GONE: it does not read back any more"]
        lines = [head, f"  {self.compared} fields compared, {len(self.different)} differ"]
        for row in self.different:
            lines.append(
                f"  {row.field} ({row.state}): sent {one_line(canonical(row.sent), 120)}, now "
                f"{one_line(canonical(row.read_back), 120)}"
            )
        lines.append("  listed" if self.listed else f"  NOT LISTED for the app {one_line(str(said.receipt['app']))}")
        lines.append(
            "  disabled" if self.switched_on is None else f"  ENABLED, at {self.switched_on}: not by this program"
        )
        return [*lines, f"evaluations page: {one_line(self.page)}"]


def publications(workspace: Workspace, name: str, *, at: str | None = None, run: str | None = None) -> list[Published]:
    """Receipts of an evaluator at one platform, by run.

    Raises:
        UserError: there is none, or at several platforms and none was named.
        Tampered: a receipt's files are not those that it names.
    """
    if at is not None and at not in TARGETS:
        raise UserError(f"there is no platform {one_line(at, 40)!r}", hint=f"known: {', '.join(TARGETS)}")
    found: dict[str, list[Path]] = {}
    for place in TARGETS if at is None else (at,):
        folder = workspace.publish(place, name)
        if folder.is_dir():
            receipts = [p.parent for p in sorted(folder.glob("*/receipt.json")) if run in (None, p.parent.name)]
            if receipts:
                found[place] = receipts
    if not found:
        of = f" by run {one_line(run, 60)!r}" if run else ""
        raise UserError(
            f"no receipt of an evaluator {one_line(name, 60)!r}{of} is here",
            hint="receipts lie in publish/PLATFORM/NAME/RUN/ of the workspace; `fitter runs` lists evaluators",
        )
    if len(found) > 1:
        raise UserError(f"{one_line(name, 60)!r} was published to {' and '.join(found)}", hint="say which: --at")
    place, folders = next(iter(found.items()))
    return [_read(place, folder) for folder in folders]


def _read(at: str, folder: Path) -> Published:
    try:
        receipt = strict_loads((folder / "receipt.json").read_text(encoding="utf-8"))
        raw = (folder / "sent.json").read_bytes()
        sent = strict_loads(raw.decode("utf-8"))
        held = receipt["sha256"]["sent.json"]
        named = {key: str(receipt[key]) for key in ("evaluator", "app", "run")}
    except (OSError, UnicodeDecodeError, JSONFault, KeyError, TypeError) as fault:
        raise Tampered(f"{folder}: the receipt cannot be read: {one_line(str(fault))}") from None
    if sha256(raw) != held:
        raise Tampered(f"{folder / 'sent.json'} is not what the receipt says was sent")
    return Published(at=at, run=named["run"], folder=folder, receipt=receipt, sent=sent)


def settings_for(workspace: Workspace, said: Published, backend: Backend | None) -> FitSettings:
    """What a publisher needs: platform and backend, the fit's own where its record is here."""
    store = RunStore(workspace, said.run)
    if backend is None and store.has("config.json"):
        backend = FitSettings.model_validate(store.read("config.json")["settings"]).backend
    return make(queue="-", publish_to=said.at, backend=backend if said.at != "local" else None)


def verify_published(
    workspace: Workspace,
    name: str,
    *,
    at: str | None = None,
    run: str | None = None,
    backend: Backend | None = None,
) -> ReadAgain:
    """Reads an evaluator back and compares it with its receipt; writes nothing.

    Several runs may have published under one name: without ``run`` the comparison is with the one that it equals, else
    with the last by run id.

    Raises:
        UserError, Tampered: see :func:`publications`.
        SettingsError: the platform needs a backend or keys.
        Outage: the platform does not answer.
    """
    found = publications(workspace, name, at=at, run=run)
    publisher = open_publisher(settings_for(workspace, found[-1], backend), workspace)
    try:
        stored = publisher.get(name)
        again = [_compare(publisher, said, stored) for said in found]
    finally:
        if isinstance(publisher, Remote):
            publisher.close()
    return next((one for one in reversed(again) if one.intact), again[-1])


def _compare(publisher: Publisher, said: Published, stored: Mapping[str, Any] | None) -> ReadAgain:
    fields = diff_fields(publisher.comparable(said.sent), publisher.comparable(stored or {}))
    listing = publisher.listing(str(said.receipt["app"])) if stored is not None else ()
    entry = next((e for e in listing if e.get("name") == said.receipt["evaluator"]), None)
    listed_on = None if entry is None or entry.get("enabled") is None else enabled_at(entry)
    return ReadAgain(
        published=said,
        stored=stored,
        different=tuple(f for f in fields if f.state != "equal"),
        compared=len(fields),
        listed=entry is not None,
        switched_on=None if stored is None else enabled_at(stored) or listed_on,
        page=publisher.page,
    )
