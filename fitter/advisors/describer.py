"""The describer: error rows in, buckets that emerge from their descriptions out (LO-3).

Two steps, so that no list of buckets can steer what is seen: first every error is described on its own, then the
descriptions of one direction are grouped and the groups named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitter.advisors.desk import Desk, Unfit, cut, exactly, obj, plain, prompt_text, words
from fitter.records import Bucket, ErrorRow

BATCH = 12
MOST_BUCKETS = 6
MOST_NAME = 60  # characters

_DESCRIBE = prompt_text("describer_one_by_one")

_GROUP = prompt_text("describer_groups")


@dataclass(frozen=True)
class ModelDescriber:
    """A Describer on a desk."""

    desk: Desk

    @property
    def identity(self) -> Mapping[str, Any]:
        """What identifies it."""
        return self.desk.identity

    def describe(self, errors: Sequence[ErrorRow], *, again: int = 0) -> list[Bucket]:
        """Every error row in exactly one bucket, ranked by size, then name.

        Args:
            errors: what best gets wrong.
            again: how many times in a row this was asked without a usable answer; each time the model is asked anew.

        Raises:
            NoAdvice: no usable answer.
        """
        ordered = sorted(errors, key=lambda e: e.row)
        said: dict[str, str] = {}
        for at in range(0, len(ordered), BATCH):
            said.update(self._descriptions(ordered[at : at + BATCH], again))
        buckets: list[Bucket] = []
        for human, judge in sorted({(e.human, e.judge) for e in ordered}):
            rows = [e.row for e in ordered if (e.human, e.judge) == (human, judge)]
            buckets += self._groups(human, judge, rows, said, again)
        return sorted(buckets, key=lambda b: (-len(b.rows), b.name))

    def _descriptions(self, batch: Sequence[ErrorRow], again: int) -> dict[str, str]:
        parts = []
        for n, error in enumerate(batch, 1):
            reasons = " / ".join(error.human_reasons) or "(none given)"
            parts += [
                (f"interaction {n}", cut(inside(error.evidence))),
                (
                    f"interaction {n}: reviewer {error.human}, judge {error.judge}",
                    f"Reviewer's reasoning: {cut(reasons, 1500)}\nJudge's reasoning: "
                    f"{cut(error.judge_reasoning, 1500)}",
                ),
            ]
        item = obj({"n": {"type": "integer"}, "description": words()})
        numbers = list(range(1, len(batch) + 1))

        def read(value: Mapping[str, Any]) -> dict[str, str]:
            exactly(value, ("errors",))
            found: dict[int, str] = {}
            for entry in _objects(value["errors"], "errors", ("n", "description")):
                if type(entry["n"]) is not int or entry["n"] in found:
                    raise Unfit("an n is no number, or stands there twice")
                found[entry["n"]] = plain(entry["description"], f"description {entry['n']}")
            if sorted(found) != numbers:
                raise Unfit(f"exactly the numbers {numbers[0]} to {numbers[-1]} are needed")
            return {batch[n - 1].row: found[n] for n in numbers}

        return self.desk.ask(
            role="describer",
            phase="describe",
            task=_DESCRIBE,
            parts=parts,
            schema=obj({"errors": {"type": "array", "items": item, "maxItems": len(batch)}}),
            read=read,
            call=again,
        )

    def _groups(self, human: str, judge: str, rows: Sequence[str], said: Mapping[str, str], again: int) -> list[Bucket]:
        direction = f"{human} → {judge}"
        if len(rows) == 1:
            name = f"{direction}: single"
            return [Bucket(name=name, direction=direction, description=said[rows[0]], rows=tuple(rows))]
        group = obj(
            {
                "name": words(MOST_NAME),
                "description": words(),
                "members": {"type": "array", "items": {"type": "integer"}},
            }
        )

        def read(value: Mapping[str, Any]) -> list[Bucket]:
            exactly(value, ("groups",))
            made, placed = [], []
            for entry in _objects(value["groups"], "groups", ("name", "description", "members")):
                members = entry["members"]
                if not isinstance(members, list) or not members or any(type(m) is not int for m in members):
                    raise Unfit("members is not a list of numbers")
                placed += members
                if not all(1 <= m <= len(rows) for m in members):
                    raise Unfit(f"members are numbers from 1 to {len(rows)}")
                made.append(
                    Bucket(
                        name=f"{direction}: {plain(entry['name'], 'name', MOST_NAME)}",
                        direction=direction,
                        description=plain(entry["description"], "description"),
                        rows=tuple(sorted(rows[m - 1] for m in members)),
                    )
                )
            if sorted(placed) != list(range(1, len(rows) + 1)):
                raise Unfit("every number must be in exactly one group")
            if not 1 <= len(made) <= MOST_BUCKETS or len({b.name for b in made}) != len(made):
                raise Unfit(f"1 to {MOST_BUCKETS} groups with different names are needed")
            return made

        return self.desk.ask(
            role="describer",
            phase="describe",
            task=_GROUP.format(human=human, judge=judge, most=MOST_BUCKETS),
            parts=[("descriptions", "\n".join(f"{n}. {said[row]}" for n, row in enumerate(rows, 1)))],
            schema=obj({"groups": {"type": "array", "items": group, "maxItems": MOST_BUCKETS}}),
            read=read,
            call=again,
        )


def inside(evidence: str) -> str:
    """The judged text without the judge's fence: the advisor has its own, and no use for the judge's nonce."""
    first, _, rest = evidence.partition("\n")
    nonce = first.removeprefix("<<<")
    if nonce == first or not rest.endswith(f"\n{nonce}>>>"):
        return evidence
    return rest.removesuffix(f"\n{nonce}>>>").replace(f"[{nonce} ", "[")


def _objects(value: Any, what: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Unfit(f"{what} is not a list of objects")
    for entry in value:
        exactly(entry, keys)
    return value
