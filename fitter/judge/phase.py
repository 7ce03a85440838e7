"""The engine behind passes.py: the state of one phase of judge calls on one event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from fitter.calls.budget import NOTHING, Amount, Budget, total
from fitter.calls.journal import Journal
from fitter.calls.record import CallRecord, call_key
from fitter.clients.base import ModelClient, ModelRequest, ModelSettings, Reply
from fitter.errors import Outage
from fitter.jsonio import digest
from fitter.judge.prompt import JudgePrompt
from fitter.judge.prompt import request as build_request
from fitter.judge.retry import MAX_ATTEMPTS, next_request, read_reply, to_pass
from fitter.judge.verdict import PARSER_VERSION, Fault, Verdict
from fitter.records import Pass
from fitter.textsafe import one_line

# (passes finished, passes in all, unusable ones among those finished)
Progress: TypeAlias = Callable[[int, int, int], None]

_CHUNK_ROWS: Final = 100
_TURN_SECONDS: Final = 0.02
_PROGRESS_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A row as the judge sees it.

    Attributes:
        row: row id, unique in a phase.
        user_text: the rendered user message.
        only: run indices to make; None for all of them.
    """

    row: str
    user_text: str = field(repr=False)
    only: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PassResult:
    """A phase's passes.

    Attributes:
        passes: one for each row and run asked for, sorted by (row, run).
        made: calls made now, retries included.
        reused: calls read from the journal instead.
        instrument: digest of the client's identity when the phase began; part of every key.
        instrument_changed: the identity was another one at the end (OUT-2: comparability with earlier phases is void).
    """

    passes: tuple[Pass, ...] = field(repr=False)
    made: int
    reused: int
    instrument: str
    instrument_changed: bool


@dataclass(kw_only=True, slots=True, eq=False)
class _Task:
    """One pass to be made.

    Attributes:
        request, request_hash: of attempt 1, shared by the row's runs.
        key: of attempt 1.
        known: attempts already in the journal, in order; a pass is complete when its last one needs no retry.
        reserved: set aside in the budget.
        made: what the calls made are charged with.
    """

    row: str
    run: int
    request: ModelRequest
    request_hash: str
    key: str
    known: list[CallRecord] = field(default_factory=list)
    reserved: Amount = NOTHING
    made: Amount = NOTHING


@dataclass(kw_only=True)
class Phase:
    """What a phase is asked to do (:func:`fitter.judge.passes.run_passes`), and, below, how far it is."""

    client: ModelClient
    prompt: JudgePrompt
    items: Sequence[Item]
    runs: int
    settings: ModelSettings
    journal: Journal
    run_id: str
    phase: str
    concurrency: int
    budget: Budget | None
    accepted: tuple[str, ...]
    on_progress: Progress | None
    grace_s: float

    def __post_init__(self) -> None:
        self.total = sum(len(self._runs_of(item)) for item in self.items)
        most = getattr(self.client, "calls_at_once", self.concurrency)  # more would only wait, and delay a Ctrl-C
        self.workers = min(self.concurrency, most, max(1, self.total))
        self.asked = asked_model(self.client)
        self.spec = self.client.spec
        self.instrument = digest(self.client.identity)
        self.passes: list[Pass] = []
        self.made = 0
        self.reused = 0
        self.failures = 0
        self.silent = 0  # unavailable calls since the last answer
        self.last_silence = ""
        self.error: Exception | None = None  # raised once everything in flight is recorded
        self.halted = False  # nothing new is begun, not even a retry
        self.no_more_rows = False
        self.open = 0  # tasks with a reservation that is not settled
        self.settled = asyncio.Event()
        self.feeding = asyncio.Lock()
        self.queue: deque[_Task] = deque()
        self.rows = self._rows()
        self.turn_over = False
        self.turn_began = self.shown = time.monotonic()
        self.told: tuple[int, int, int] | None = None  # what on_progress heard last: a slow client's end comes twice

    async def go(self, *, made_before: int) -> PassResult:
        """Makes the passes; returns or raises when everything in flight is recorded.

        Args:
            made_before: calls this process already made for the phase before it had to read it again.
        """
        workers = [asyncio.create_task(self._work()) for _ in range(self.workers)]
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:
            self.halted = True
            await asyncio.wait(workers, timeout=self.grace_s)
            raise
        finally:
            self.halted = True
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for task in self.queue:
                self._settle(task)
            await self.journal.flush()
        self._progress(last=True)
        if self.error is not None:
            raise self.error
        self._raise_outage()
        self.passes.sort(key=lambda p: (p.row, p.run))
        made = self.made + made_before
        return PassResult(
            passes=tuple(self.passes),
            made=made,
            reused=self.reused if not made_before else max(0, sum(p.attempts for p in self.passes) - made),
            instrument=self.instrument,
            instrument_changed=digest(self.client.identity) != self.instrument,
        )

    # --- what to do next -----------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[list[_Task]]:
        """The tasks of each row in order, with what the journal already knows of them."""
        for at in range(0, len(self.items), _CHUNK_ROWS):
            rows = []
            for item in self.items[at : at + _CHUNK_ROWS]:
                request = replace(build_request(self.prompt, item.user_text, self.settings), row=item.row)
                request_hash = request.digest
                rows.append([self._task(item.row, run, request, request_hash) for run in self._runs_of(item)])
            self._recall([task for row in rows for task in row])
            yield from rows

    def _runs_of(self, item: Item) -> Sequence[int]:
        return range(self.runs) if item.only is None else item.only

    def _task(self, row: str, run: int, request: ModelRequest, request_hash: str) -> _Task:
        key = self._key(row, run, request_hash, 1)
        return _Task(row=row, run=run, request=request, request_hash=request_hash, key=key)

    def _recall(self, tasks: list[_Task]) -> None:
        """Fills in the attempts that the journal holds."""
        wanted = {task.key: task for task in tasks}
        for attempt in range(1, MAX_ATTEMPTS + 1):
            found = self.journal.get_many(wanted)
            following: dict[str, _Task] = {}
            for key, record in found.items():
                task = wanted[key]
                task.known.append(record)
                if (retry := self._retry(task, attempt, record)) is not None:
                    again = self._key(task.row, task.run, retry.digest, attempt + 1)
                    following[again] = task
            if not following:
                return
            wanted = following

    def _retry(self, task: _Task, attempt: int, record: CallRecord) -> ModelRequest | None:
        return next_request(task.request, attempt, self._read(record), record.text, self.prompt.contract)

    async def _take(self) -> _Task | None:
        """The next pass to make; None when there is none, or no more may be begun."""
        if self.queue and not self.halted:
            return self.queue.popleft()
        async with self.feeding:
            while not self.queue and not self.halted and not self.no_more_rows:
                row = next(self.rows, None)
                if row is None or not await self._admit(row):
                    self.no_more_rows = True
                else:
                    self.queue.extend(row)
            return self.queue.popleft() if self.queue and not self.halted else None

    async def _admit(self, row: list[_Task]) -> bool:
        """Reserves the worst case of a whole row, so that a budget ends between rows (SC-1)."""
        if self.budget is None:
            return True
        for task in row:
            task.reserved = self._worst_case(task)
        needed = total(task.reserved for task in row)
        while not self.budget.fits(needed):
            if not self.open or self.halted:
                for task in row:
                    task.reserved = NOTHING
                self.error = self.error or self.budget.reached(needed)
                return False
            self.settled.clear()  # rows in flight may turn out cheaper than reserved
            await self.settled.wait()
        self.budget.reserve(needed)
        self.open += len(row)
        return True

    def _worst_case(self, task: _Task) -> Amount:
        done = len(task.known)
        if self.budget is None or (done and self._retry(task, done, task.known[-1]) is None):
            return NOTHING
        return self.budget.worst(task.request, first=done + 1, last=MAX_ATTEMPTS)

    def _settle(self, task: _Task) -> None:
        if self.budget is not None:
            self.budget.settle(reserved=task.reserved, made=task.made)
            self.open -= 1
            self.settled.set()

    # --- one pass ------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                task = await self._take()
                if task is None:
                    return
                try:
                    await self._judge(task)
                finally:
                    self._settle(task)
                await self.journal.room()
            except Exception as fault:  # whatever the client or the journal raised ends the phase, after a clean stop
                self.error = self.error or fault
                self.halted = True
                self.settled.set()
                return
            if time.monotonic() - self.turn_began > _TURN_SECONDS:
                if not self.turn_over:
                    self.turn_over = True
                    self._progress()
                    asyncio.get_running_loop().call_soon(self._new_turn)
                await asyncio.sleep(0)

    def _new_turn(self) -> None:
        """A client that never waits must not starve the loop: all workers together get one turn of it at a time."""
        self.turn_over = False
        self.turn_began = time.monotonic()

    async def _judge(self, task: _Task) -> None:
        request, readings = task.request, list[Verdict | Fault]()
        while True:
            attempt = len(readings) + 1
            if attempt <= len(task.known):
                record = task.known[attempt - 1]
                reading = self._read(record)
                self.reused += 1
            else:
                record, reading = await self._call(task, request, attempt)
            readings.append(reading)
            retry = next_request(task.request, attempt, reading, record.text, self.prompt.contract)
            if retry is None:
                break
            if self.halted:
                return  # its first attempt is on record; the pass is finished when the run is resumed
            request = retry
        self.passes.append(to_pass(task.row, task.run, readings))
        self.failures += isinstance(readings[-1], Fault)

    async def _call(self, task: _Task, request: ModelRequest, attempt: int) -> tuple[CallRecord, Verdict | Fault]:
        reply = await self.client.complete(request, run=task.run)
        self.made += 1
        reading: Verdict | Fault | None = None
        try:
            reading = self._read(reply)
        finally:  # the answer is paid for: it is kept even if reading it fails
            record = self._record(task, attempt, request, reply, reading)
            if self.budget is not None:
                task.made += self.budget.used(record)
            self.journal.submit(record)
        self._watch(reply)
        return record, reading

    def _read(self, got: Reply | CallRecord) -> Verdict | Fault:
        return read_reply(
            outcome=got.outcome,
            text=got.text,
            model=got.model,
            detail=got.detail,
            asked=self.asked,
            accepted=self.accepted,
            contract=self.prompt.contract,
        )

    def _key(self, row: str, run: int, request_hash: str, attempt: int) -> str:
        return call_key(
            run_id=self.run_id,
            request_hash=request_hash,
            instrument=self.instrument,
            parser_version=PARSER_VERSION,
            row=row,
            run=run,
            attempt=attempt,
        )

    def _record(
        self, task: _Task, attempt: int, request: ModelRequest, reply: Reply, reading: Verdict | Fault | None
    ) -> CallRecord:
        if attempt == 1:
            key, request_hash = task.key, task.request_hash
        else:
            request_hash = request.digest
            key = self._key(task.row, task.run, request_hash, attempt)
        return CallRecord.of(
            reply,
            key=key,
            run_id=self.run_id,
            phase=self.phase,
            role="judge",
            row=task.row,
            run=task.run,
            attempt=attempt,
            spec=self.spec,
            instrument=self.instrument,
            request_hash=request_hash,
            fault=reading.reason if isinstance(reading, Fault) else None,
            at=time.time(),
        )

    # --- how it goes ---------------------------------------------------------------------------------------------

    def _watch(self, reply: Reply) -> None:
        """Stops asking a model that does not answer: a long outage must not walk through the whole queue."""
        if reply.outcome != "unavailable":
            self.silent = 0
            return
        self.silent += 1
        self.last_silence = one_line(reply.detail)
        if self.silent >= max(10, 2 * self.workers):
            self.halted = True

    def _raise_outage(self) -> None:
        lost = [p.row for p in self.passes if p.unusable == "unavailable"]
        short = set(lost)
        if not short and len(self.passes) == self.total:
            return
        why = f" (last: {self.last_silence})" if self.last_silence else ""
        raise Outage(
            f"{one_line(self.spec, 60)} gave no answer for {len(short)} of {len(self.items)} rows{why}; "
            f"{len(self.passes) - len(lost)} of {self.total} passes were answered",
            hint="everything that was answered is kept; `fitter resume` asks for the rest when the model is back",
        )

    def _progress(self, *, last: bool = False) -> None:
        now, state = time.monotonic(), (len(self.passes), self.total, self.failures)
        if self.on_progress is not None and state != self.told and (last or now - self.shown >= _PROGRESS_SECONDS):
            self.shown, self.told = now, state
            self.on_progress(*state)


def asked_model(client: ModelClient) -> str:
    """The model name that was asked for: ``identity["model"]``, else the spec behind its provider prefix."""
    named = client.identity.get("model")
    return named if isinstance(named, str) and named else client.spec.partition(":")[2] or client.spec
