"""The agreed metric: how it is written, which labels it fits, which way is better (ME-1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from fitter.errors import SettingsError
from fitter.labels import LabelKind, LabelValue, from_json, text, to_json
from fitter.records import Direction

MetricName: TypeAlias = Literal[
    "accuracy",
    "balanced_accuracy",
    "f1_minority",
    "fbeta_minority",
    "f1",
    "fbeta",
    "macro_f1",
    "weighted_f1",
    "cohens_kappa",
    "mean_credit",
    "mae",
    "spearman",
]
Match: TypeAlias = Literal["exact", "jaccard", "similarity_group"]

FORMS = (
    "accuracy, balanced_accuracy, f1_minority, fbeta_minority, f1:CLASS, fbeta:CLASS, macro_f1, weighted_f1, "
    "cohens_kappa, mean_credit:exact|jaccard|similarity_group, mae, spearman"
)
_NUMERIC = ("mae", "spearman")
# Metrics that hang on classes: a bootstrap resample lacking one of the classes does not measure them.
CLASS_METRICS = (
    "balanced_accuracy",
    "f1_minority",
    "fbeta_minority",
    "f1",
    "fbeta",
    "macro_f1",
    "weighted_f1",
    "cohens_kappa",
)


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A precision floor on a named class; no predictions of the class fail it."""

    target: LabelValue
    minimum: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"class": to_json(self.target), "minimum": self.minimum}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The metric of a fit, used verbatim everywhere.

    Attributes:
        name: which.
        target: the class of ``f1`` and ``fbeta``.
        beta: weight of recall over precision for the fbeta forms.
        match: how ``mean_credit`` credits an answer.
        groups: the user's taxonomy for ``similarity_group``: (value, group) pairs in value order.
        floor: optional precision floor, checked by the audit (KE-3).
    """

    name: MetricName
    target: LabelValue | None = None
    beta: float | None = None
    match: Match | None = None
    groups: tuple[tuple[str, str], ...] = ()
    floor: Floor | None = None

    @classmethod
    def parse(
        cls,
        written: str,
        *,
        kind: LabelKind,
        classes: Sequence[LabelValue] = (),
        beta: float | None = None,
        match: str | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        floor: str | None = None,
    ) -> Metric:
        """Reads a metric as the user writes it and checks that it fits the label.

        Args:
            written: one of the forms in :data:`FORMS`.
            kind: the label's kind.
            classes: the label's classes; a CLASS must be one of them.
            beta: for the fbeta forms, which have no silent default.
            match: for ``mean_credit``, when it is not in ``written``.
            groups: taxonomy for ``similarity_group``: group name → values.
            floor: ``CLASS=0.8``.

        Raises:
            SettingsError: unknown form, unknown class, a missing or superfluous option, or a metric that does not fit.
        """
        name, _, argument = written.strip().partition(":")
        if name not in get_args(MetricName) or (name in ("f1", "fbeta") and not argument):
            raise SettingsError(f"unknown metric {written!r}", hint=f"choose one of: {FORMS}")
        if argument and name not in ("f1", "fbeta", "mean_credit"):
            raise SettingsError(f"metric {name} takes nothing after a colon", hint=f"choose one of: {FORMS}")
        target = _class_named(argument, classes) if name in ("f1", "fbeta") else None
        metric = cls(
            name=name,  # type: ignore[arg-type]
            target=target,
            beta=_beta(name, beta),
            match=_match(name, argument, match),
            groups=_groups(name, argument or match or "", groups),
            floor=None if floor is None else _floor(floor, kind, classes),
        )
        reason = metric.refuses(kind, len(classes))
        if reason is not None:
            raise SettingsError(f"metric {written!r} does not fit: {reason}", hint=_what_fits(name, kind, len(classes)))
        return metric

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        return "lower" if self.name == "mae" else "higher"

    @property
    def sign(self) -> int:
        """+1 when higher is better, -1 when lower is."""
        return -1 if self.name == "mae" else 1

    @property
    def text(self) -> str:
        """The metric as printed beside its value, e.g. ``fbeta:bad (beta 2)``."""
        out: str = self.name
        if self.target is not None:
            out += f":{text(self.target)}"
        if self.match is not None:
            out += f":{self.match}"
        return out if self.beta is None else f"{out} (beta {self.beta:g})"

    @property
    def by_class(self) -> bool:
        """True when a resample that lacks a class does not measure it (ME-3)."""
        return self.name in CLASS_METRICS

    def refuses(self, kind: LabelKind, classes: int) -> str | None:
        """None when the metric fits a label of this kind with this many classes; else why not."""
        if kind == "numeric":
            return None if self.name in _NUMERIC else "a numeric label takes mae or spearman"
        if self.name in _NUMERIC:
            return f"{self.name} needs a numeric label"
        if self.name in ("f1_minority", "fbeta_minority") and (classes > 2 or kind == "multiselect"):
            return f"{self.name} is for two classes; name the class instead, as {self.name.split('_')[0]}:CLASS"
        if kind == "multiselect" and self.name in ("balanced_accuracy", "cohens_kappa"):
            return f"{self.name} is not defined for multi-select labels"
        return None

    def to_json(self) -> dict[str, Any]:
        """Everything that defines the metric."""
        return {
            "name": self.name,
            "class": None if self.target is None else to_json(self.target),
            "beta": self.beta,
            "match": self.match,
            "groups": [list(pair) for pair in self.groups],
            "precision_floor": None if self.floor is None else self.floor.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], kind: LabelKind) -> Metric:
        """Reads :meth:`to_json`'s form back; class names are single values of ``kind``."""
        one: LabelKind = "categorical" if kind == "multiselect" else kind
        floor = data["precision_floor"]
        return cls(
            name=data["name"],
            target=None if data["class"] is None else from_json(data["class"], one),
            beta=data["beta"],
            match=data["match"],
            groups=tuple((pair[0], pair[1]) for pair in data["groups"]),
            floor=None
            if floor is None
            else Floor(target=from_json(floor["class"], one), minimum=float(floor["minimum"])),
        )


def _what_fits(name: str, kind: LabelKind, classes: int) -> str:
    """What to choose instead of a metric that does not fit."""
    forms = [f for f in FORMS.split(", ") if Metric(name=_name_of(f)).refuses(kind, classes) is None]
    hint = f"a {kind} label takes one of: {', '.join(forms)}"
    if name in _NUMERIC:
        hint += "; where the labels are numbers, say so with --label-kind numeric"
    return hint


def _name_of(form: str) -> MetricName:
    name = form.partition(":")[0]
    assert name in get_args(MetricName)
    return name  # type: ignore[return-value]


def _class_named(name: str, classes: Sequence[LabelValue]) -> LabelValue:
    for value in classes:
        if text(value) == name:
            return value
    known = ", ".join(text(c) for c in classes) or "none"
    raise SettingsError(f"{name!r} is not a class of this label", hint=f"its classes are: {known}")


def _beta(name: str, beta: float | None) -> float | None:
    wanted = name in ("fbeta", "fbeta_minority")
    if wanted and beta is None:
        raise SettingsError(f"metric {name} needs --beta", hint="above 1 weighs recall more, below 1 precision")
    if not wanted and beta is not None:
        raise SettingsError(f"metric {name} takes no beta", hint="beta goes with fbeta_minority and fbeta:CLASS")
    if beta is not None and not (math.isfinite(beta) and beta > 0):
        raise SettingsError(f"beta is {beta}", hint="beta is a number above 0")
    return beta


def _match(name: str, argument: str, match: str | None) -> Match | None:
    if name != "mean_credit":
        if match is not None:
            raise SettingsError(f"metric {name} takes no match mode", hint="a match mode goes with mean_credit")
        return None
    if argument and match and argument != match:
        raise SettingsError(f"mean_credit:{argument} and match {match} contradict each other", hint="give one of them")
    chosen = argument or match
    if chosen not in get_args(Match):
        raise SettingsError(
            f"mean_credit needs a match mode, not {chosen!r}", hint="one of exact, jaccard, similarity_group"
        )
    return chosen  # type: ignore[return-value]


def _groups(name: str, match: str, groups: Mapping[str, Sequence[str]] | None) -> tuple[tuple[str, str], ...]:
    wanted = name == "mean_credit" and match == "similarity_group"
    if wanted and not groups:
        raise SettingsError("similarity_group needs a taxonomy", hint='a JSON object: {"group": ["value", ...], ...}')
    if not groups:
        return ()
    if not wanted:
        raise SettingsError("a taxonomy goes with mean_credit:similarity_group only", hint="leave it out")
    home: dict[str, str] = {}
    for group in sorted(groups):
        for value in groups[group]:
            if home.setdefault(value, group) != group:
                raise SettingsError(
                    f"the taxonomy puts {value!r} into {home[value]!r} and {group!r}",
                    hint="a value belongs to one group",
                )
    return tuple(sorted(home.items()))


def _floor(written: str, kind: LabelKind, classes: Sequence[LabelValue]) -> Floor:
    if kind == "numeric":
        raise SettingsError("a numeric label has no classes to put a precision floor on", hint="leave it out")
    name, eq, number = written.rpartition("=")
    try:
        minimum = float(number)
    except ValueError:
        minimum = math.nan
    if not eq or not 0 < minimum <= 1:
        raise SettingsError(f"{written!r} is not a precision floor", hint="write CLASS=0.8, above 0 and at most 1")
    return Floor(target=_class_named(name, classes), minimum=minimum)
