"""The split into train and holdout (SP-1 to SP-4). Pure: no files, no clock, no chance.

Groups stand in the order of a hash of (salt, group key), where the salt comes from queue and label alone. Walking in
that order:

1. groups with a row of known side keep it; one that joins both sides goes to train;
2. a group is taken where it fits every class's quota (30%, shared by largest remainder);
3. a group is taken where that brings the classes closer to their quotas and no class past 40%;
4. a class of two or more units that still has none held out gives its smallest one that pushes no other class past 40%.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fitter.grouping import Group, Grouping, Member
from fitter.jsonio import sha256
from fitter.labels import LabelSchema, text
from fitter.records import Row

Side: TypeAlias = Literal["train", "holdout"]

MIN_ROWS_FOR_SPLIT = 41  # "more than 40 usable rows" (SP-1)
SHARE = (3, 10)  # 30%, as a fraction so that quotas are exact
CLASS_CAP = (4, 10)
MIN_HOLDOUT_ROWS = 12
MIN_HOLDOUT_CLASSES = 2


@dataclass(frozen=True, kw_only=True)
class Split:
    """Who stands where.

    Attributes:
        train, holdout: row ids, sorted. Holdout rows are kept from train even where they are too few to score.
        scored: the holdout can be opened and scored.
        reason: why there is no holdout to score; empty when there is.
        joined: keys of the groups that joined both sides and went to train.
        capped: groups left in train because they would have pushed a class past 40%.
        new: rows that had no side before.
        strata: class (numeric: third of the range) → (rows, rows held out).
        dropped_inputs: (rows, share) of boilerplate input texts that join nothing.
    """

    train: tuple[str, ...]
    holdout: tuple[str, ...]
    scored: bool
    reason: str
    joined: tuple[str, ...]
    capped: int
    new: int
    strata: Mapping[str, tuple[int, int]]
    dropped_inputs: tuple[tuple[int, float], ...]


def salt_for(queue: str, label_id: str) -> str:
    """The salt of a queue and label: the same on every machine."""
    return sha256("\x00".join(("fitter seal 1", queue.replace("\x00", "\x00\x00"), label_id)))


def salted(salt: str, *parts: str) -> str:
    """Salted digest of a key; what a seal shows in place of an id."""
    return sha256("\x00".join((salt, *parts)))


def member_keys(member: Member, salt: str, *, positional: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(digests that identify the row, digests that only join it to a group), salted.

    A positional id says nothing about which row it is: only content identifies such a row.
    """
    content = salted(salt, "content", member.content)
    own = (content,) if positional else (salted(salt, "id", member.row), content)
    return own, tuple(salted(salt, "key", key) for key in member.keys)


def strata(rows: Sequence[Row], label: LabelSchema) -> dict[str, str]:
    """Row id → stratum: the class; the third of the label range (NU-1); or the rarest value held (MS-1)."""
    if label.kind == "numeric":
        values = [float(row.label) for row in rows if isinstance(row.label, int | float)]
        low, high = min(values, default=0.0), max(values, default=0.0)
        if label.minimum is not None and label.maximum is not None:
            low, high = label.minimum, label.maximum
        step = (high - low) / 3
        names = ("low third", "middle third", "high third")
        out = {}
        for row in rows:
            value = float(row.label) if isinstance(row.label, int | float) else low
            out[row.id] = names[min(2, max(0, int((value - low) / step)))] if step > 0 else names[0]
        return out
    if label.kind == "multiselect":
        held = Counter(name for row in rows if isinstance(row.label, frozenset) for name in row.label)
        return {
            row.id: min(row.label, key=lambda name: (held[name], name))
            for row in rows
            if isinstance(row.label, frozenset)
        }
    return {row.id: text(row.label) for row in rows}


def quotas(sizes: Mapping[str, int], units: Mapping[str, int]) -> dict[str, int]:
    """Rows to hold out of each class: 30% shared by largest remainder (ties: by name), within 40% of the class.

    Args:
        sizes: class → rows.
        units: class → groups that hold a row of it; a class of two or more gets at least one row whatever 40% says.
    """
    num, den = SHARE
    cap_num, cap_den = CLASS_CAP
    least = {name: 1 if units.get(name, 0) >= 2 else 0 for name in sizes}
    most = {name: max(least[name], cap_num * n // cap_den) for name, n in sizes.items()}
    out = {name: num * n // den for name, n in sizes.items()}
    left = (2 * num * sum(sizes.values()) + den) // (2 * den) - sum(out.values())  # rounded half up, in whole numbers
    order = sorted(sizes, key=lambda name: (-(num * sizes[name] % den), name))
    while left > 0 and any(out[name] < most[name] for name in order):
        for name in order:
            if left > 0 and out[name] < most[name]:
                out[name] += 1
                left -= 1
    return {name: max(n, least[name]) for name, n in out.items()}


def draw_split(
    rows: Sequence[Row],
    grouping: Grouping,
    *,
    label: LabelSchema,
    salt: str,
    known: Mapping[str, Side] | None = None,
    positional: bool = False,
) -> Split:
    """Draws the split, or extends an earlier one.

    Args:
        rows: usable rows, any order.
        grouping: the same rows in groups.
        label: the label's schema, for the strata.
        salt: :func:`salt_for` of queue and label.
        known: salted digest → side, from the seal's earlier draws; rows with a side keep it (SP-4).
        positional: row ids are only row numbers.

    Returns:
        The split; every row is in exactly one of train and holdout, and no group in both.
    """
    return _Draw(rows, grouping, label, salt, known or {}, positional).split()


class _Draw:
    def __init__(
        self,
        rows: Sequence[Row],
        grouping: Grouping,
        label: LabelSchema,
        salt: str,
        known: Mapping[str, Side],
        positional: bool,
    ) -> None:
        self.stratum = strata(rows, label)
        self.size = Counter(self.stratum.values())
        self.needs = {g.key: Counter(self.stratum[member.row] for member in g.members) for g in grouping.groups}
        units = Counter(name for group in grouping.groups for name in self._needs(group))
        self.quota = quotas(self.size, units)
        self.held: Counter[str] = Counter()
        self.salt, self.known, self.positional = salt, known, positional
        self.grouping = grouping
        self.side: dict[str, Side] = {}  # group key → side
        self.joined: list[str] = []
        self.capped: set[str] = set()
        self.new = 0
        self.order = sorted(grouping.groups, key=lambda group: salted(salt, "group", group.key))

    def split(self) -> Split:
        fresh = self._sticky()
        n = sum(self.size.values())
        reason = ""
        if n < MIN_ROWS_FOR_SPLIT:
            reason = f"there are {n} usable rows; a holdout needs more than {MIN_ROWS_FOR_SPLIT - 1}"
        else:
            self._fill(fresh)
        reason = reason or self._too_thin()
        if reason:
            for group in fresh:  # what was held out before stays out of train; nothing new is held out in vain
                if self.side.get(group.key) == "holdout":
                    self.held.subtract(self._needs(group))
                self.side[group.key] = "train"
        for group in fresh:
            self.side.setdefault(group.key, "train")
        ids: dict[Side, list[str]] = {"train": [], "holdout": []}
        for group in self.grouping.groups:
            ids[self.side[group.key]].extend(member.row for member in group.members)
        return Split(
            train=tuple(sorted(ids["train"])),
            holdout=tuple(sorted(ids["holdout"])),
            scored=not reason,
            reason=reason,
            joined=tuple(self.joined),
            capped=0 if reason else len(self.capped),
            new=self.new,
            strata={name: (self.size[name], self.held[name]) for name in sorted(self.size)},
            dropped_inputs=self.grouping.dropped_inputs,
        )

    def _sticky(self) -> list[Group]:
        """Gives known groups their side; returns the others in hash order."""
        fresh = []
        for group in self.order:
            sides: set[Side] = set()
            for member in group.members:
                own, joining = member_keys(member, self.salt, positional=self.positional)
                mine = next((self.known[key] for key in own if key in self.known), None)
                self.new += mine is None
                sides |= {mine} if mine else {self.known[key] for key in joining if key in self.known}
            if not sides:
                fresh.append(group)
                continue
            if len(sides) == 2:
                self.joined.append(salted(self.salt, "group", group.key))
            self._put(group, "holdout" if sides == {"holdout"} else "train")
        return fresh

    def _needs(self, group: Group) -> Mapping[str, int]:
        """Class → rows of it in the group."""
        return self.needs[group.key]

    def _put(self, group: Group, side: Side) -> None:
        self.side[group.key] = side
        if side == "holdout":
            self.held.update(self._needs(group))

    def _over_cap(self, needs: Mapping[str, int], *, but: str | None = None) -> bool:
        num, den = CLASS_CAP
        return any((self.held[c] + k) * den > num * self.size[c] for c, k in needs.items() if c != but)

    def _fill(self, fresh: Sequence[Group]) -> None:
        for group in fresh:
            needs = self._needs(group)
            if all(self.held[c] + k <= self.quota[c] for c, k in needs.items()):
                self._put(group, "holdout")
        for group in fresh:
            needs = self._needs(group)
            if group.key in self.side or not self._closer(needs):
                continue
            if self._over_cap(needs):
                self.capped.add(group.key)
            else:
                self._put(group, "holdout")
        for name in sorted(self.size, key=lambda c: (self.size[c], c)):
            self._at_least_one(name, fresh)

    def _closer(self, needs: Mapping[str, int]) -> bool:
        """Would holding these out bring the classes closer to their quotas?"""
        return (
            sum(abs(self.held[c] + k - self.quota[c]) - abs(self.held[c] - self.quota[c]) for c, k in needs.items()) < 0
        )

    def _at_least_one(self, name: str, fresh: Sequence[Group]) -> None:
        """One unit of every class that has two; its own 40% cap yields, since one of two units is half."""
        units = [group for group in self.order if name in self._needs(group)]
        if self.held[name] or len(units) < 2:
            return
        free = [group for group in fresh if group.key not in self.side and name in self._needs(group)]
        free = [group for group in free if not self._over_cap(self._needs(group), but=name)]
        if free:
            best = min(free, key=lambda group: self._needs(group)[name])  # ties: first in hash order
            self.capped.discard(best.key)
            self._put(best, "holdout")

    def _too_thin(self) -> str:
        rows = sum(self.held.values())
        classes = sum(1 for n in self.held.values() if n)
        if rows < MIN_HOLDOUT_ROWS:
            return f"the holdout would have {rows} rows; it needs {MIN_HOLDOUT_ROWS}"
        if classes < MIN_HOLDOUT_CLASSES:
            return f"the holdout would have rows of {classes} class; it needs {MIN_HOLDOUT_CLASSES}"
        return ""
