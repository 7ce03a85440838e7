"""What the calls of a fit used and cost (SC-1, SC-2): pure functions over journal records.

Unknown stays unknown: a call whose provider named no tokens, or that ended in a timeout, is counted as unknown and
never as free. Ledger rows hold no clock and no latency; those are for events only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fitter.calls.record import CallRecord, Role
from fitter.errors import SettingsError

SCHEMA_VERSION: Final = 1
FREE: Final = ("lexicon", "replay", "local")  # these models run on this machine or not at all
TOKEN_KINDS: Final = ("input", "cached", "output", "reasoning")
_ROLES: Final[tuple[Role, ...]] = ("judge", "drafter", "describer", "proposer")


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What the user says a million tokens cost, in one currency; None where they did not say.

    Attributes:
        input: fresh input tokens.
        cached: input tokens read from a cache; None bills them as input, which makes the cost an upper bound.
        output: output tokens.
        reasoning: reasoning tokens, which providers count among the output; None bills them as output.
    """

    input: float | None = None
    cached: float | None = None
    output: float | None = None
    reasoning: float | None = None

    def __post_init__(self) -> None:
        for kind in TOKEN_KINDS:
            price = getattr(self, kind)
            if price is not None and not (math.isfinite(price) and price >= 0):
                raise SettingsError(f"the price of {kind} tokens must be a number, zero or more, per million tokens")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one call.

    Attributes:
        amount: in the currency of the prices; None when unknown.
        upper_bound: some tokens were billed at a higher price for want of a better one.
    """

    amount: float | None
    upper_bound: bool = False


def cost_of(record: CallRecord, prices: Prices | None) -> Cost:
    """What one call cost.

    ``cached`` tokens are part of ``input`` and ``reasoning`` tokens part of ``output``, as providers count them.
    Unknown (``amount`` None) without input and output prices, or where the provider named no tokens. A model on this
    machine costs nothing, unless the user says what its tokens cost.
    """
    if prices is None and record.spec.partition(":")[0] in FREE:
        return Cost(amount=0.0)
    if prices is None or prices.input is None or prices.output is None:
        return Cost(amount=None)
    if record.input_tokens is None or record.output_tokens is None:
        return Cost(amount=None)
    cached = min(record.cached_tokens or 0, record.input_tokens)
    reasoning = min(record.reasoning_tokens or 0, record.output_tokens)
    parts = [
        (record.input_tokens - cached) * prices.input,
        cached * (prices.input if prices.cached is None else prices.cached),
        (record.output_tokens - reasoning) * prices.output,
        reasoning * (prices.output if prices.reasoning is None else prices.reasoning),
    ]
    return Cost(amount=math.fsum(parts) / 1e6, upper_bound=cached > 0 and prices.cached is None)


@dataclass
class _Sum:
    calls: int = 0
    retries: int = 0
    passes: set[tuple[str, int]] = field(default_factory=set)
    unusable: Counter[str] = field(default_factory=Counter)
    specs: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    amounts: list[float] = field(default_factory=list)
    cost_unknown: int = 0
    upper_bound: bool = False

    def add(self, record: CallRecord, prices: Prices | None) -> None:
        self.calls += 1
        self.retries += record.attempt > 1
        self.passes.add((record.row, record.run))
        reason = record.fault or (record.outcome if record.outcome != "ok" else None)
        if reason is not None:
            self.unusable[reason] += 1
        self.specs[record.spec] += 1
        self.models["(not named)" if record.model is None else record.model] += 1
        for kind in TOKEN_KINDS:
            tokens = getattr(record, f"{kind}_tokens")
            if tokens is None:
                self.unknown[kind] += 1
            else:
                self.known[kind] += tokens
        cost = cost_of(record, prices)
        if cost.amount is None:
            self.cost_unknown += 1
        else:
            self.amounts.append(cost.amount)
            self.upper_bound |= cost.upper_bound

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "passes": len(self.passes),
            "retries": self.retries,
            "unusable": dict(sorted(self.unusable.items())),
            "specs": dict(sorted(self.specs.items())),
            "models": dict(sorted(self.models.items())),
            "tokens": {kind: {"known": self.known[kind], "calls_unknown": self.unknown[kind]} for kind in TOKEN_KINDS},
            # fsum: the same total in whatever order the calls came back
            "cost": {
                "known": round(math.fsum(self.amounts), 9) if self.amounts else None,
                "calls_unknown": self.cost_unknown,
                "upper_bound": self.upper_bound,
            },
        }


def ledger_rows(
    records: Iterable[CallRecord], *, prices: Mapping[Role, Prices] | None = None, by_phase: bool = True
) -> list[dict[str, Any]]:
    """The ledger: one row a phase and role, the same whatever order the calls were made in.

    Args:
        records: calls of one fit (``Journal.calls``).
        prices: per role, where the user gave them.
        by_phase: False gives one row a role (SC-2), without ``phase``.

    Returns:
        Rows sorted by (phase, role). ``cost.known`` sums the calls whose cost is known, None when there is none;
        ``cost.calls_unknown`` counts the others.
    """
    sums: dict[tuple[str, int], _Sum] = {}
    for record in records:
        at = (record.phase if by_phase else "", _ROLES.index(record.role))
        sums.setdefault(at, _Sum()).add(record, (prices or {}).get(record.role))
    rows = []
    for phase, role in sorted(sums):
        head = {"schema_version": SCHEMA_VERSION, "role": _ROLES[role], **({"phase": phase} if by_phase else {})}
        rows.append({**head, **sums[phase, role].to_json()})
    return rows


def latencies(records: Iterable[CallRecord]) -> dict[str, float | int | None]:
    """Latency figures of calls, in seconds, for events.jsonl only: ``calls``, ``p50``, ``p90``, ``p99``, ``max``.

    Quantiles are nearest-rank: each is a latency that was measured.
    """
    seconds = sorted(record.latency_s for record in records)
    if not seconds:
        return {"calls": 0, "p50": None, "p90": None, "p99": None, "max": None}
    return {
        "calls": len(seconds),
        "p50": _rank(seconds, 0.50),
        "p90": _rank(seconds, 0.90),
        "p99": _rank(seconds, 0.99),
        "max": seconds[-1],
    }


def _rank(ordered: Sequence[float], q: float) -> float:
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]
