"""Recorded label values become typed label values, or a reason why not. Pure (GT-8)."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fitter.errors import SettingsError, UserError
from fitter.labels import LabelKind, LabelSchema, LabelValue, text
from fitter.queues.source import UnlistedSchema
from fitter.textsafe import one_line

FREE_TEXT_VALUES = 10  # more different values, in more than half of the annotations, are no list of classes
FREE_TEXT_CHARS = 200
UNLABELLED = "(no label)"  # stands for the class list of a queue in which no row is usable; the gate then fails
_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$", re.ASCII)
_EDGE = " \t\r\n\f\v\u00a0\ufeff\u3000"


def parse_label_map(entries: Sequence[str]) -> dict[str, bool | str]:
    """Reads ``yes=true`` entries; the words true and false on the right are booleans, anything else is a class.

    Raises:
        SettingsError: an entry without ``=``, an empty side, or one word mapped twice.
    """
    out: dict[str, bool | str] = {}
    for entry in entries:
        left, mark, right = (part.strip() for part in entry.partition("="))
        if not mark or not left or not right:
            raise SettingsError(f"{one_line(entry, 60)!r} is not a label mapping", hint="write it as yes=true")
        if left in out:
            raise SettingsError(f"{one_line(left, 60)!r} is mapped twice")
        out[left] = right == "true" if right in ("true", "false") else right
    return out


def tidy(value: Any, counts: Counter[str]) -> Any:
    """Strips white space around strings (counted as ``stripped``) and drops empty list items."""
    if isinstance(value, str):
        bare = value.strip(_EDGE)
        counts["stripped"] += bare != value
        return bare
    if isinstance(value, list):
        items = [tidy(item, counts) for item in value]
        return [item for item in items if item not in ("", None)]
    return value


def is_empty(value: Any) -> bool:
    """True for a tidied value in which nothing was chosen."""
    return value is None or (isinstance(value, str | list) and not value)


def _mapped(value: Any, label_map: Mapping[str, bool | str | float]) -> Any:
    if isinstance(value, str):
        return label_map.get(value, value)
    if isinstance(value, list):
        return [_mapped(item, label_map) for item in value]
    return value


def _several(value: Any) -> bool:
    return isinstance(value, list) and len({str(item) for item in value}) > 1


def _type(value: Any) -> str:
    if isinstance(value, list):
        return "list of strings" if all(isinstance(v, str) for v in value) else "list of something else"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "object"


def _variant(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _refuse_variants(names: Iterable[str], label: str) -> None:
    """Values that differ only in case or inner spacing are one class or two: only a person knows (GT-8)."""
    seen: dict[str, set[str]] = defaultdict(set)
    for name in names:
        seen[_variant(name)].add(name)
    clash = sorted(sorted(group) for group in seen.values() if len(group) > 1)
    if clash:
        shown = "; ".join(" / ".join(repr(one_line(n, 60)) for n in group) for group in clash)
        keep, other = clash[0][-1], clash[0][0]
        raise UserError(
            f"label {one_line(label, 60)!r} has values that differ only in case or spacing: {shown}",
            hint=f"say which are one class with --label-map, e.g. --label-map {one_line(f'{other}={keep}', 80)!r}",
        )


def infer_kind(values: Sequence[Any], label: str) -> LabelKind:
    """Kind of a label whose source does not say it, from its tidied and mapped values.

    Raises:
        UserError: values of several types, or of a type no label has.
    """
    types = Counter(_type(value) for value in values)
    if set(types) <= {"string", "list of strings"}:
        _refuse_free_text(values, label)
        return "multiselect" if any(_several(value) for value in values) else "categorical"
    if set(types) == {"boolean"}:
        return "boolean"
    if set(types) == {"number"}:
        return "numeric"
    shown = ", ".join(f"{n} {name}" for name, n in sorted(types.items()))
    raise UserError(
        f"label {one_line(label, 60)!r} holds values of several types: {shown}",
        hint="give --label-kind, and --label-map for every word that means true or false (yes=true)",
    )


def _refuse_free_text(values: Sequence[Any], label: str) -> None:
    """GT-8: an unlisted label whose values are texts rather than classes is refused."""
    texts = [value for value in values if isinstance(value, str)]
    kinds = len(set(texts))
    if (kinds > FREE_TEXT_VALUES and 2 * kinds > len(texts)) or any(len(value) > FREE_TEXT_CHARS for value in texts):
        raise UserError(
            f"label {one_line(label, 60)!r} looks like free text ({kinds} different values in {len(texts)}), which has "
            "no right answer to measure against",
            hint="name another column with --label-col, or say with --label-kind that these are categorical or numeric",
        )


class ValueReader:
    """Reads tidied values of one label.

    Args:
        schema: what the source says about the label.
        values: every non-empty tidied value recorded for it, in any order.
        label_map: value as recorded → value meant.
        kind: the user's word on what an unlisted label is.

    Raises:
        UserError: the values do not say what the label is, or differ only in case or spacing.
        SettingsError: a kind for a label whose schema already states another.

    Attributes:
        kind: what a value is.
        unused: words of ``label_map`` that no label holds.
    """

    def __init__(
        self,
        schema: LabelSchema | UnlistedSchema,
        values: Sequence[Any],
        *,
        label_map: Mapping[str, bool | str | float],
        kind: LabelKind | None,
    ) -> None:
        flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
        words = {item for item in flat if isinstance(item, str)}
        self.unused = tuple(sorted(set(label_map) - words))
        self._map = label_map
        self._schema = schema
        self._explicit = kind is not None and isinstance(schema, UnlistedSchema)
        mapped = [_mapped(value, label_map) for value in values]
        if isinstance(schema, UnlistedSchema):
            self.kind: LabelKind = kind or infer_kind(mapped, schema.name)
        else:
            self.kind = schema.kind
            if self.kind == "categorical" and any(_several(value) for value in mapped):
                self.kind = "multiselect"
            if kind is not None and kind != self.kind:
                raise SettingsError(f"label {one_line(schema.name, 60)!r} is {self.kind}, not {kind}",
                                    hint="leave out --label-kind: the queue's schema decides")  # fmt: skip
        if self.kind in ("categorical", "multiselect"):
            listed = schema.classes if isinstance(schema, LabelSchema) else ()
            items = (item for value in mapped for item in (value if isinstance(value, list) else [value]))
            _refuse_variants({n for n in (*items, *listed) if isinstance(n, str)}, schema.name)
        self._listed = schema.model_copy(update={"kind": self.kind}) if isinstance(schema, LabelSchema) else None
        self.all_numerals = (
            self.kind == "categorical" and not self._explicit and bool(words)
            and isinstance(schema, UnlistedSchema) and all(_NUMBER.match(word) for word in words)
        )  # fmt: skip

    def schema(self, usable: Iterable[LabelValue]) -> LabelSchema:
        """The label's schema as fixed at intake; an unlisted label's classes are those of the usable rows."""
        if self._listed is not None:
            return self._listed
        found: set[str] = set()
        for value in usable:
            found |= value if isinstance(value, frozenset) else {text(value)}
        classes: tuple[bool | str, ...] = ()
        if self.kind == "boolean":
            classes = (False, True)
        elif self.kind != "numeric":
            classes = tuple(sorted(found)) or (UNLABELLED,)
        return LabelSchema(id=self._schema.id, name=self._schema.name, kind=self.kind, classes=classes,
                           description=self._schema.description)  # fmt: skip

    def read(self, value: Any) -> LabelValue | None:
        """The typed value, or None when the schema does not list it (``off_schema``)."""
        found = self._typed(_mapped(value, self._map))
        if found is None or self._listed is None:
            return found
        return found if self._listed.admits(found) else None

    def _typed(self, value: Any) -> LabelValue | None:
        if self.kind == "boolean":
            return value if isinstance(value, bool) else None
        if self.kind == "numeric":
            return self._number(value)
        items = value if isinstance(value, list) else [value]
        names = [self._name(item) for item in items]
        if not names or any(name is None for name in names):
            return None
        chosen = frozenset(name for name in names if name is not None)
        if self.kind == "multiselect":
            return chosen
        return next(iter(chosen)) if len(chosen) == 1 else None

    def _name(self, item: Any) -> str | None:
        if isinstance(item, str):
            return item or None
        # "--label-kind categorical" on a column of numbers or booleans: the user said that they are names.
        return text(item) if self._explicit and isinstance(item, bool | int | float) else None

    def _number(self, value: Any) -> float | None:
        if self._explicit and isinstance(value, str) and _NUMBER.match(value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
