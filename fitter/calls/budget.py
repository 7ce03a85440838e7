"""The budget of a fit: calls, tokens and money, with the worst case set aside before a call is made (SC-1).

Money is counted in whole billionths of the user's currency, rounded up, so that sums are exact in any order.

The worst case of a call. Input: no tokenizer we know makes more tokens than the text has UTF-8 bytes, so messages and
schema count with their bytes, plus an allowance for what the provider wraps around them. Output: the cap that was
asked for, else :data:`ASSUMED_OUTPUT`. The one retry quotes the first answer and may have twice the cap. A call whose
provider named no tokens (a timeout, a server that reports none) is charged with an assumed size: unknown is not free.
What a provider bills beyond all this is an overrun: it is booked, said, and nothing more is admitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fitter.calls.journal import Journal
from fitter.calls.ledger import FREE, TOKEN_KINDS, Prices, cost_of
from fitter.calls.record import CallRecord, Role
from fitter.clients.base import ModelRequest
from fitter.errors import BudgetReached, SettingsError
from fitter.jsonio import canonical
from fitter.settings import FitSettings

ASSUMED_OUTPUT: Final = 16_384  # tokens of an answer for which no cap was asked
ASSUMED_INPUT: Final = 4_096  # of a call that named no tokens
_WRAPPED: Final = 1_000  # tokens a provider may add around a conversation
_QUOTED: Final = 34_000  # bytes of a retry beyond the first request: 8,000 characters quoted, what was wrong
_NANO: Final = 1e9

_PRICED: Final[tuple[Role, ...]] = ("judge", "drafter", "describer", "proposer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount:
    """Calls, tokens (input and output together) and money (billionths)."""

    calls: int = 0
    tokens: int = 0
    nano: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(calls=self.calls + other.calls, tokens=self.tokens + other.tokens, nano=self.nano + other.nano)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(calls=self.calls - other.calls, tokens=self.tokens - other.tokens, nano=self.nano - other.nano)


NOTHING: Final = Amount()


def total(amounts: Iterable[Amount]) -> Amount:
    """Their sum."""
    return sum(amounts, NOTHING)


class Budget:
    """What a fit may still spend, as seen by one role. Used from one thread.

    On resume ``spent`` is what the journal already holds, whoever spent it.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        spent: Amount | int = NOTHING,
        prices: Prices | None = None,
    ) -> None:
        """Starts a budget.

        Args:
            calls, tokens, usd: limits of the whole fit; None for no limit.
            spent: what the fit has spent already; a number is a number of calls.
            prices: of this role's tokens; needed with ``usd``, where the role's calls cost money.

        Raises:
            SettingsError: a negative limit.
        """
        for name, limit in (("calls", calls), ("tokens", tokens), ("usd", usd)):
            if limit is not None and not (limit >= 0 and math.isfinite(limit)):
                raise SettingsError(f"the budget of {name} must be zero or more")
        self.limits: dict[str, int | None] = {
            "calls": calls,
            "tokens": tokens,
            "nano": None if usd is None else int(usd * _NANO),
        }
        self.prices = prices
        self.spent = _amount(spent)
        self.reserved = NOTHING

    def worst(self, request: ModelRequest, *, first: int = 1, last: int = 2) -> Amount:
        """Worst case of a request's attempts ``first`` to ``last`` (1 is the request itself, 2 its retry)."""
        attempts = range(first, last + 1)
        if self.limits["tokens"] is None and self.limits["nano"] is None:
            return Amount(calls=len(attempts))
        size = sum(len(m.text.encode("utf-8", "replace")) for m in request.messages)
        size += len(canonical(request.schema)) + _WRAPPED
        cap = request.settings.max_output_tokens or ASSUMED_OUTPUT
        # A retry in hand (a continued conversation, a raised cap) is no larger than what is reckoned for attempt 2.
        into = sum(size + (_QUOTED if at > 1 else 0) for at in attempts)
        out = sum(cap * at for at in attempts)
        return Amount(calls=len(attempts), tokens=into + out, nano=_money(into, out, self.prices))

    def used(self, record: CallRecord) -> Amount:
        """What one call is charged with."""
        return charge(record, self.prices)

    def fits(self, need: Amount | int) -> bool:
        """True when this much more fits, beside all that is spent and reserved."""
        need = _amount(need)
        if need == NOTHING:
            return True
        after = self.spent + self.reserved + need
        return all(limit is None or getattr(after, name) <= limit for name, limit in self.limits.items())

    def reserve(self, need: Amount | int) -> None:
        """Sets the worst case aside.

        Raises:
            BudgetReached: it does not fit.
        """
        need = _amount(need)
        if not self.fits(need):
            raise self.reached(need)
        self.reserved += need

    def settle(self, *, reserved: Amount | int, made: Amount | int) -> None:
        """Books what was really used and frees the rest of its reservation. Tokens and money may exceed it: an overrun.

        Raises:
            ValueError: more is settled than was reserved, or more calls were made than were set aside.
        """
        reserved, made = _amount(reserved), _amount(made)
        short = self.reserved - reserved
        if min(short.calls, short.tokens, short.nano) < 0 or made.calls > reserved.calls:
            raise ValueError(f"cannot settle {made} of {reserved} reserved ({self.reserved} outstanding)")
        self.reserved = short
        self.spent += made

    @property
    def overrun(self) -> tuple[str, ...]:
        """Which limits are exceeded by what was really spent."""
        return tuple(n for n, limit in self.limits.items() if limit is not None and getattr(self.spent, n) > limit)

    def reached(self, need: Amount | int) -> BudgetReached:
        """The error that says so, for the first limit that is in the way."""
        need = _amount(need)
        after = self.spent + self.reserved + need
        name = next((n for n, limit in self.limits.items() if limit is not None and getattr(after, n) > limit), "calls")
        limit, spent, wanted = self.limits[name], getattr(self.spent, name), getattr(need, name)
        flag = "--budget-usd" if name == "nano" else f"--budget-{name}"
        said = [_said(name, x) for x in (limit or 0, spent, wanted)]
        unit = "" if name == "nano" else f" {name}"
        over = ", more than was set aside for it (an overrun)" if name in self.overrun else ""
        return BudgetReached(
            f"the budget of {said[0]}{unit} is reached: {said[1]} {'made' if name == 'calls' else 'spent'}{over}, and "
            f"the next step may need {said[2]}",
            hint=f"everything measured so far is kept; resume with a larger {flag}",
        )


def _said(name: str, value: int) -> str:
    return f"{value / _NANO:.4f} USD" if name == "nano" else str(value)


def _amount(value: Amount | int) -> Amount:
    return Amount(calls=value) if isinstance(value, int) else value


def _money(into: int, out: int, prices: Prices | None) -> int:
    """Upper bound in billionths: every token at the dearer of the two prices it may have."""
    if prices is None:
        return 0
    dear_in = max(prices.input or 0.0, prices.cached or 0.0)
    dear_out = max(prices.output or 0.0, prices.reasoning or 0.0)
    return math.ceil((into * dear_in + out * dear_out) * 1e3)  # a price is per million tokens


def charge(record: CallRecord, prices: Prices | None) -> Amount:
    """What one recorded call counts against a budget; unknown tokens are assumed, never taken as none."""
    free = record.spec.partition(":")[0] in FREE
    into, out = record.input_tokens, record.output_tokens
    if into is None or out is None:
        into, out = (0, 0) if free else (ASSUMED_INPUT, ASSUMED_OUTPUT)
        return Amount(calls=1, tokens=into + out, nano=0 if free else _money(into, out, prices))
    cost = cost_of(record, prices).amount
    nano = math.ceil(round(cost * _NANO, 3)) if cost is not None else 0 if free else _money(into, out, prices)
    return Amount(calls=1, tokens=into + out, nano=nano)


def prices_by_role(settings: FitSettings) -> dict[Role, Prices]:
    """The user's prices, per role: named for the role, or for the spec it runs on.

    ``[prices.judge]`` and ``[prices.proposer]`` (drafter and describer too), or ``[prices."openai:MODEL"]``.

    Raises:
        SettingsError: prices for a model that the fit does not use.
    """
    judge, proposer = settings.judge or "", settings.proposer or settings.judge or ""
    unknown = sorted(set(settings.prices) - {"judge", "proposer", judge, proposer})
    if unknown:
        raise SettingsError(
            f"prices are given for {', '.join(unknown)}, which this fit does not use",
            hint="name them for a role (judge, proposer) or for the spec exactly as given",
        )

    def of(role: str, spec: str) -> Prices | None:
        given = settings.prices.get(role) or settings.prices.get(spec)
        return None if given is None else Prices(**{kind: given.get(kind) for kind in TOKEN_KINDS})

    at_judge = of("judge", judge)
    others = of("proposer", proposer) or (at_judge if proposer == judge else None)
    found: dict[Role, Prices | None] = {role: at_judge if role == "judge" else others for role in _PRICED}
    return {role: prices for role, prices in found.items() if prices is not None}


def check_budget(settings: FitSettings) -> None:
    """Refuses a budget in money that cannot be kept.

    Raises:
        SettingsError: a model that costs money has no input or output price; prices that fit nothing.
    """
    prices = prices_by_role(settings)
    if settings.budget_usd is None:
        return
    for role, spec in (("judge", settings.judge), ("proposer", settings.proposer or settings.judge)):
        known: Prices | None = prices.get("judge" if role == "judge" else "proposer")
        paid = (spec or "lexicon").partition(":")[0] not in FREE
        if paid and (known is None or known.input is None or known.output is None):
            raise SettingsError(
                f"--budget-usd needs the prices of the {role}'s model ({spec})",
                hint=f"give input and output per million tokens under [prices.{role}] in fit.toml, or a --budget-calls",
            )


def open_budget(settings: FitSettings, journal: Journal, run_id: str, role: Role) -> Budget | None:
    """The fit's budget as one role sees it, with all that the journal holds already spent; None without any limit."""
    if settings.budget_calls is None and settings.budget_tokens is None and settings.budget_usd is None:
        return None
    prices: Mapping[Role, Prices] = prices_by_role(settings)
    if settings.budget_tokens is None and settings.budget_usd is None:
        spent = Amount(calls=journal.count(run_id))
    else:
        spent = total(charge(record, prices.get(record.role)) for record in journal.calls(run_id))
    return Budget(
        calls=settings.budget_calls,
        tokens=settings.budget_tokens,
        usd=settings.budget_usd,
        spent=spent,
        prices=prices.get(role),
    )
