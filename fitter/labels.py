"""Label schemas, label values and their identity.

A value is a ``bool`` (boolean), ``str`` (single choice), ``frozenset[str]`` (multi-select, compared as a set) or
``float`` (numeric). ``True`` is never 1 and ``"true"`` is never ``True``: identity is type-strict, so values are
compared through :func:`same` or through their :func:`text`, never with a bare ``==`` across kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from fitter.jsonio import canonical

LabelValue: TypeAlias = bool | str | frozenset[str] | float
LabelKind: TypeAlias = Literal["boolean", "categorical", "multiselect", "numeric"]


class LabelSchema(BaseModel):
    """One label of a queue, fixed at intake and used everywhere.

    Attributes:
        id: the schema's id on the platform; labels are addressed by it (GT-5).
        name: display name.
        kind: what a value is.
        classes: the class list in canonical order; empty for numeric.
        minimum, maximum: numeric bounds where the schema gives them.
        is_integer: numeric answers must be whole numbers.
        description: the label's definition as written for the reviewers.
        value_descriptions: what each class means, where the schema says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    kind: LabelKind
    classes: tuple[bool | str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    is_integer: bool = False
    description: str = ""
    value_descriptions: Mapping[str, str] = {}

    @field_validator("classes", mode="before")
    @classmethod
    def _classes(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check(self) -> LabelSchema:
        if self.kind == "boolean" and self.classes != (False, True):
            raise ValueError("a boolean label has the classes false and true")
        if self.kind in ("categorical", "multiselect"):
            if not all(isinstance(c, str) and c for c in self.classes):
                raise ValueError("class names are non-empty strings")
            if len(set(self.classes)) != len(self.classes) or not self.classes:
                raise ValueError("class names must be unique, and there must be at least one")
        if self.kind == "numeric" and self.classes:
            raise ValueError("a numeric label has no classes")
        if any(bound is not None and not math.isfinite(bound) for bound in (self.minimum, self.maximum)):
            raise ValueError("the bounds of a numeric label are finite numbers")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("the minimum of a numeric label is not above its maximum")
        return self

    def admits(self, value: LabelValue) -> bool:
        """True when the schema lists this value (never coerces)."""
        if self.kind == "boolean":
            return isinstance(value, bool)
        if self.kind == "categorical":
            return isinstance(value, str) and value in self.classes
        if self.kind == "multiselect":
            return isinstance(value, frozenset) and bool(value) and value <= set(self.classes)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            return False
        if self.is_integer and value != int(value):
            return False
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return low <= value <= high


def _is_finite(value: float) -> bool:
    """True for a number that a float can hold (JSON integers may be larger than any float)."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def text(value: LabelValue) -> str:
    """Canonical text of a value, for display, sorting and hashing: ``true``, ``bad``, ``["a","b"]``, ``3.5``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, frozenset):
        return canonical(sorted(value))
    return canonical(float(value) if not float(value).is_integer() else int(value))


def to_json(value: LabelValue) -> Any:
    """The JSON form: bool, string, sorted list of strings, or number."""
    return sorted(value) if isinstance(value, frozenset) else value


def from_json(value: Any, kind: LabelKind) -> LabelValue:
    """Reads :func:`to_json`'s form back.

    Raises:
        ValueError: the JSON value is not of this kind.
    """
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "categorical" and isinstance(value, str):
        return value
    if kind == "multiselect" and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return frozenset(value)
    if kind == "numeric" and isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
        return float(value)
    raise ValueError(f"{value!r} is not a {kind} label")


def same(a: LabelValue, b: LabelValue) -> bool:
    """Type-strict equality; multi-select as sets."""
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    return type(a) is type(b) and a == b


def ordered(values: Iterable[LabelValue]) -> list[LabelValue]:
    """Values in canonical text order."""
    return sorted(values, key=text)
