"""Composition root and library API: wires sources, clients, targets and publishers into the loop.

from fitter import fitting, settings
outcome = fitting.Fitting(Path("ws")).start(settings.make(queue="practice", ...))
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitter.errors import (
    EXIT_NO_EVALUATOR,
    EXIT_OK,
    Interrupted,
    PublishError,
    RunError,
    Stopped,
    Tampered,
    UserError,
)
from fitter.evidence.targets import open_target
from fitter.jsonio import pretty, strict_loads
from fitter.loop.deps import Deps, Progress, Quiet, Team
from fitter.platforms import open_publisher
from fitter.queues.source import LabelSource, RawQueue
from fitter.records import VerdictContract
from fitter.runstore import BUDGET, MANIFEST, SCHEMA_VERSION, RunStore
from fitter.settings import FitSettings, make, missing_error
from fitter.textsafe import one_line, safe_name
from fitter.wiring import add_hint, adopt, check_label, lone, no_tracing, open_team, readable
from fitter.workspace import Workspace, check_root, init, lock, write_atomic

GIVEN = "given.json"  # the settings as given, written with the run's folder

if TYPE_CHECKING:
    from fitter.loop.steps.context import Fit

Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        run: run id.
        exit_code: 0 with an evaluator, 3 without (PU-2).
        summary: the report's first figures, for the terminal.
        closing: PU-6's lines, or why no evaluator was created.
    """

    run: str
    exit_code: int
    summary: str
    closing: tuple[str, ...]


class _Once:
    """A source that is read once in a process: the snapshot and every check see the same bytes."""

    def __init__(self, source: LabelSource) -> None:
        self._source = source
        self._raw: RawQueue | None = None

    def read(self) -> RawQueue:
        if self._raw is None:
            self._raw = self._source.read()
        return self._raw


class Fitting:
    """Fits in one workspace.

    Args:
        root: the workspace's folder.
        progress: told about phases and passes.
    """

    def __init__(self, root: Path, *, progress: Progress | None = None) -> None:
        self.workspace = Workspace(root)
        self.progress: Progress = progress or Quiet()
        self._locks = contextlib.ExitStack()
        self._held: set[str] = set()
        self._sources: dict[str, LabelSource] = {}
        self._teams: dict[str, Team] = {}
        self._told: set[str] = set()

    # -- before a run --------------------------------------------------------------------------------------------

    def complete(self, settings: FitSettings) -> FitSettings:
        """Fills in what leaves no choice: the only label of a queue, the only scope its rows have.

        Nothing with an alternative is chosen (LO-1). A platform's queue is read only once everything else is
        answered: a missing flag should not cost minutes of reading.
        """
        answers: dict[str, Any] = {}
        if settings.proposer is None and settings.judge is not None:
            answers["proposer"] = settings.judge
        if settings.reads_datadog and not set(settings.missing()) <= {"label", "scope"}:
            return settings.with_answers(answers) if answers else settings
        raw = self._open_source(settings).read()
        if settings.label is None and len(raw.schemas) == 1:
            answers["label"] = raw.schemas[0].id
        kinds = {i.content["kind"] for i in raw.interactions if i.content is not None}
        if settings.scope is None and kinds == {"span"} and all(lone(i.content) for i in raw.interactions):
            answers["scope"] = "span"
        return settings.with_answers(answers) if answers else settings

    def dry_run(self, settings: FitSettings) -> str:
        """The resolved config, the split and the number of calls; writes nothing."""
        from fitter.overview import plan_text

        return plan_text(self._deps(), settings)

    # -- a run ---------------------------------------------------------------------------------------------------

    def start(self, settings: FitSettings, *, ask: Ask | None = None, with_text: bool = False) -> Outcome:
        """Runs a fit to its end.

        Args:
            settings: as given; what is missing is asked for through ``ask``.
            ask: asks for everything that one question names; None when nobody can be asked.
            with_text: also write a report with customer text, into private/.

        Raises:
            SettingsError: answers are missing and nobody can be asked, or they cannot work.
            BadInput: the queue cannot be read.
            Stopped: resumable.
        """
        missing = settings.missing()
        if missing and ask is None:
            raise missing_error(missing)
        check_root(self.workspace.root)
        # Everything that is wrong with settings or queue is said before anything is written.
        if not missing:
            from fitter.loop.steps.prepare import check_all

            check_all(self._deps(interactive=ask is not None), settings)
        init(self.workspace.root)
        with readable(f"a run cannot be begun in {self.workspace.root}"):
            run_id = self._new_run(settings)
        with self._holding(run_id):
            return self._guarded(run_id, ask, with_text)

    def resume(
        self,
        run_id: str,
        *,
        ask: Ask | None = None,
        with_text: bool = False,
        budget_calls: int | None = None,
        budget_tokens: int | None = None,
        budget_usd: float | None = None,
    ) -> Outcome:
        """Goes on with a run that was stopped, interrupted or killed (LO-7).

        Args:
            run_id: as ``fitter runs`` lists it.
            ask: see :meth:`start`.
            with_text: see :meth:`start`.
            budget_calls, budget_tokens, budget_usd: a new budget for the whole run, with all that was spent already
                included; None keeps the one it has.

        Raises:
            UserError: no such run, or another process is at it.
            Tampered: an artefact was changed since it was written; names the file.
        """
        given = self.workspace.run(run_id) / GIVEN
        if not given.is_file():
            hint = "`fitter runs` lists them; a run is resumed where it was made (its checkpoint is not in git)"
            raise UserError(f"there is no run {run_id!r} here that can be resumed", hint=hint)
        with self._holding(run_id):
            store = RunStore(self.workspace, run_id)
            self._checkpoint_here(store)
            store.verify_hashes()
            if store.has("staged.json"):
                self._hold_seal(store.read("staged.json")["seal"], f"run {run_id}")
            given_now = {"budget_calls": budget_calls, "budget_tokens": budget_tokens, "budget_usd": budget_usd}
            if any(v is not None for v in given_now.values()) and not store.has(MANIFEST):
                self._rebudget(store, given_now)
            self._same_code(store)
            return self._guarded(run_id, ask, with_text)

    def _same_code(self, store: RunStore) -> None:
        """Refuses to measure on with another program or other models than the run was begun with."""
        from fitter.loop.steps.context import Fit
        from fitter.loop.steps.resuming import refuse_other_code

        # A team that this process opened is the one it was; once everything is measured, nothing can mix any more.
        if not self._teams and store.has("config.json") and not store.has("result.json"):
            refuse_other_code(Fit(self._deps(), store.run_id))

    def _rebudget(self, store: RunStore, given: Mapping[str, float | None]) -> None:
        """Notes a new budget beside the run; what is not given stays as it was."""
        from fitter.calls.budget import check_budget
        from fitter.loop.steps.context import Fit

        earlier = store.read(BUDGET) if store.has(BUDGET) else {}
        budget = {name: earlier.get(name) if value is None else value for name, value in given.items()}
        if store.has("config.json"):
            check_budget(Fit(self._deps(), store.run_id).settings.model_copy(update=budget))
        with readable(f"the budget of run {store.run_id} cannot be written"):
            store.replace(BUDGET, budget)

    @contextlib.contextmanager
    def measured(self, run_id: str) -> Iterator[Fit]:
        """A run that was measured to its end, locked and unchanged, for what is done with it afterwards.

        Raises:
            UserError: no such run, not measured to its end, or another process is at it.
            Tampered: an artefact was changed since it was written.
        """
        from fitter.loop.steps.context import Fit

        store = RunStore(self.workspace, run_id)
        if not store.has("config.json"):
            raise UserError(f"there is no run {one_line(run_id, 60)!r} here", hint="`fitter runs` lists them")
        if not store.has("result.json"):
            raise UserError(
                f"run {run_id} is not measured to its end", hint=f"`{self.workspace.command} resume {run_id}` goes on"
            )
        with self._holding(run_id):
            store.verify_hashes()
            yield Fit(self._deps(), run_id)

    def _guarded(self, run_id: str, ask: Ask | None, with_text: bool) -> Outcome:
        """Drives a run; whatever ends it early says how to go on, or leaves no run behind."""
        going_on = f"`{self.workspace.command} resume {run_id}` goes on"
        try:
            with readable(f"run {run_id} had to stop", hint=f"make room, or the workspace writable; then {going_on}"):
                return self._drive(run_id, ask, with_text)
        except KeyboardInterrupt:
            if self._forget_if_empty(run_id):
                raise Interrupted("interrupted before the run began: it left no run behind") from None
            raise Interrupted(
                f"run {run_id} was interrupted; nothing paid for is lost", hint=f"{going_on} where it was"
            ) from None
        except UserError as fault:
            if not self._forget_if_empty(run_id):
                add_hint(fault, f"then {going_on}")
            raise
        except PublishError as fault:
            add_hint(
                fault, f"{going_on}, and `fitter publish` can finish it: both read first, and write only if they must"
            )
            raise
        except Stopped as fault:
            add_hint(fault, going_on)
            raise

    def _drive(self, run_id: str, ask: Ask | None, with_text: bool) -> Outcome:
        no_tracing()
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langsmith import tracing_context

        from fitter.loop.graph import build

        self.progress.phase(f"run {run_id}")
        path = self.workspace.run(run_id) / "state.sqlite"
        connection = sqlite3.connect(path, check_same_thread=False)
        os.chmod(path, 0o600)
        deps = self._deps(with_text=with_text, interactive=ask is not None)
        config = {"configurable": {"thread_id": run_id}, "recursion_limit": 100_000}
        try:
            with tracing_context(enabled=False):
                graph = build(deps, SqliteSaver(connection))
                at = _state_of(graph, config, path)
                if at.interrupts:
                    going: Any = self._answers(at.interrupts, ask)
                else:
                    going = None if at.values else self._given(run_id)
                state = graph.invoke(going, config, durability="sync")
                while "__interrupt__" in state:
                    answers = self._answers(state["__interrupt__"], ask)
                    state = graph.invoke(answers, config, durability="sync")
        finally:
            connection.close()
        return self.outcome(run_id)

    @staticmethod
    def _checkpoint_here(store: RunStore) -> None:
        begun = store.has("config.json") or store.has("staged.json")
        if begun and not (store.folder / "state.sqlite").is_file():
            raise RunError(
                f"the checkpoint of run {store.run_id} is not here, only its records",
                hint=f"a run is resumed where it was made; `fitter show {store.run_id}` shows what is here",
            )

    def _given(self, run_id: str) -> dict[str, Any]:
        """The graph's first state: the settings as given."""
        path = self.workspace.run(run_id) / GIVEN
        try:
            settings = make(**strict_loads(path.read_text(encoding="utf-8"))["settings"])
        except (ValueError, TypeError, KeyError, UserError) as fault:
            raise Tampered(f"{path} is not what was written: {one_line(str(fault))}", hint="start a new fit") from None
        return {"run": run_id, "settings": settings.model_dump(mode="json")}

    @staticmethod
    def _answers(interrupts: Any, ask: Ask | None) -> Any:
        from langgraph.types import Command

        question = interrupts[0].value
        if ask is None:
            raise missing_error([f["name"] for f in question["fields"] if not f.get("optional")])
        return Command(resume=dict(ask(question)))

    def outcome(self, run_id: str) -> Outcome:
        """How a finished run ended, from its artefacts."""
        from fitter.report.facts import gather
        from fitter.report.markdown import closing, summary

        facts = gather(RunStore(self.workspace, run_id))
        published = facts["receipt"] is not None
        return Outcome(
            run=run_id,
            exit_code=EXIT_OK if published else EXIT_NO_EVALUATOR,
            summary=summary(facts),
            closing=tuple(closing(facts)),
        )

    # -- folders and locks ---------------------------------------------------------------------------------------

    def _new_run(self, settings: FitSettings) -> str:
        """A fresh run folder, named after the evaluator and counted: ``code_review_quality-001``.

        It appears whole, with the settings as given in it, so that a run killed at once can still be resumed.
        """
        stem = safe_name(settings.name or settings.queue_name or Path(settings.queue).stem or "fit", limit=60)
        runs = self.workspace.run(f"{stem}-001").parent
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=runs))
        os.chmod(fresh, 0o755)
        try:
            write_atomic(
                fresh / GIVEN, pretty({"schema_version": SCHEMA_VERSION, "settings": settings.model_dump(mode="json")})
            )
            for n in range(1, 10_000):
                run_id = f"{stem}-{n:03d}"
                try:
                    os.rename(fresh, self.workspace.run(run_id))
                except OSError as fault:
                    if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        raise
                else:
                    return run_id
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        raise UserError(f"there are 9,999 runs named {stem}", hint="choose another --name or another workspace")

    @contextlib.contextmanager
    def _holding(self, run_id: str) -> Iterator[None]:
        with lock(self.workspace.run(run_id) / "run.lock", holder=f"run {run_id}"), self._locks:
            yield
        self._held.clear()

    def _hold_seal(self, seal: str, holder: str) -> None:
        from fitter.holdout import hold_seal

        if seal not in self._held:
            self._locks.enter_context(hold_seal(self.workspace, seal, holder=holder))
            self._held.add(seal)

    def _forget_if_empty(self, run_id: str) -> bool:
        """A run refused before its queue was staged leaves nothing behind; True when it is gone."""
        folder = self.workspace.run(run_id)
        if (folder / "config.json").exists() or (folder / "staged.json").exists():
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True

    # -- wiring --------------------------------------------------------------------------------------------------

    def _deps(self, *, with_text: bool = False, interactive: bool = False) -> Deps:
        return Deps(
            workspace=self.workspace,
            open_source=self._open_source,
            open_team=self._open_team,
            settle=self._settle,
            adopt=adopt,
            open_target=open_target,
            open_publisher=open_publisher,
            check_label=check_label,
            progress=self.progress,
            with_text=with_text,
            interactive=interactive,
            hold=self._hold_seal,
            note=self._note,
        )

    def _open_source(self, settings: FitSettings) -> LabelSource:
        from fitter.queues.files import FlatColumns
        from fitter.queues.registry import SourceOptions, open_source

        road = (settings.backend, settings.since)
        key = f"{settings.queue}|{sorted(settings.columns.items())}|{settings.queue_name}|{road}"
        if key not in self._sources:
            options = SourceOptions(
                columns=FlatColumns(**settings.columns),
                queue_name=settings.queue_name,
                backend=settings.backend,
                since=settings.since,
            )
            self._sources[key] = _Once(open_source(settings.queue, options))
        return self._sources[key]

    def _note(self, text: str) -> None:
        """Tells a person once what a check found."""
        if text not in self._told:
            self._told.add(text)
            self.progress.phase(f"note: {text}")

    def _settle(self, team: Team, contract: VerdictContract, run_id: str) -> Mapping[str, Any]:
        from fitter.teams import settle_team

        return settle_team(team, contract, self.workspace.journal, run_id)

    def _open_team(self, settings: FitSettings, run_id: str) -> Team:
        limits = f"{settings.budget_calls}|{settings.budget_tokens}|{settings.budget_usd}"
        key = f"{run_id}|{settings.judge}|{settings.proposer}|{limits}"
        if key not in self._teams:
            self._teams[key] = open_team(settings, self.workspace, run_id)
        return self._teams[key]


def _state_of(graph: Any, config: Any, path: Path) -> Any:
    """Where a run was. A damaged checkpoint can fail in any way, inside libraries."""
    try:
        return graph.get_state(config)
    except (sqlite3.OperationalError, OSError):
        raise  # the disk, not the content
    except Exception as fault:
        raise Tampered(
            f"the checkpoint {path} cannot be read any more ({type(fault).__name__}: {one_line(str(fault))})",
            hint="start a new fit: without its checkpoint a run cannot go on",
        ) from None
