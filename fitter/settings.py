"""The settings of a fit: what must be asked, what has a default, and the hash of the resolved config.

Names are the same on the command line (``--max-iterations``), in ``fit.toml`` (``max_iterations``) and in the recorded
``config.json``. Nothing that must be asked (LO-1) has a default.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fitter.errors import BadInput, SettingsError
from fitter.jsonio import canonical, digest
from fitter.labels import LabelSchema
from fitter.records import Framing, Scope
from fitter.textsafe import one_line

DEFAULT_RUNS = 3
DEFAULT_MAX_ITERATIONS = 10
DEFAULT_PATIENCE = 3

_TABLES = ("columns", "label_map", "taxonomy", "judge_options", "proposer_options", "datadog")

_SURROGATE = re.compile("[\ud800-\udfff]")  # what bytes that are no UTF-8 become on a command line

# LO-1, in the order in which they are asked.
MUST_ASK: Mapping[str, str] = {
    "goal": "what the judge is for, in one sentence",
    "costly": "the class whose miss is the costlier error, or `same`",
    "label": "which label of the queue is to be predicted",
    "framing": "replicator, grader or corrector",
    "metric": "the headline metric, e.g. balanced_accuracy",
    "judge": "the judge model, e.g. lexicon or openai:MODEL",
    "name": "the evaluator's name",
    "app": "the application the evaluator belongs to",
    "scope": "what the evaluator sees: span, trace or session",
    "publish_to": "where the evaluator is written, disabled: local or datadog",
}
# Asked only where it is needed.
ALSO_ASK: Mapping[str, str] = {"backend": "how Datadog is reached: rest or mcp"}

DATADOG = "datadog"

COLUMNS = (
    "id", "input", "output", "context", "label", "reason", "group", "role", "annotator", "expected_output",
    "app_verdict",
)  # fmt: skip

# Recorded, but no part of what is measured: a rerun with another value is the same fit.
# The backend is a road to the same rows and the same evaluator, and so is a file's path; rows that differ differ in the
# snapshot's hash, and the queue's identity is hashed beside it. Exhaustive or not, the decisions are the same.
_NOT_HASHED = frozenset(
    {
        "queue",
        "concurrency",
        "exposed_holdout",
        "exhaustive",
        "budget_calls",
        "budget_tokens",
        "budget_usd",
        "prices",
        "backend",
    }
)

_TOKENS = ("input", "cached", "output", "reasoning")


class DatadogTable(BaseModel):
    """The table ``[datadog]`` of fit.toml: what is asked for beyond the judge when publishing there; docs/datadog.md.

    None keeps what a stored evaluator has, or the default of a new one.

    Attributes:
        sampling_percentage: share of what the filter lets through that is scored, above 0, at most 100.
        filter: span query that decides where it fires.
        root_spans_only: fire on root spans only.
        temperature: of the deployed judge; the measured one's where it is left out.
        max_tokens: cap on the deployed judge's answer.
        pass_labels: canonical texts of the labels (of a numeric label: lowest and highest) that count as a pass.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampling_percentage: float | None = Field(default=None, gt=0, le=100)
    filter: str | None = None
    root_spans_only: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    pass_labels: tuple[str, ...] = ()

    @field_validator("pass_labels", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        # TOML has booleans and numbers; a label's canonical text is text.
        return [v if isinstance(v, str) else canonical(v) for v in value] if isinstance(value, list | tuple) else value


class FitSettings(BaseModel):
    """Settings as given; every must-ask field may still be None.

    Attributes:
        queue: path of a file or folder, ``practice``, or a platform spec.
        columns: flat files: role → column name.
        label_map: raw text → value text, applied before anything else.
        label_kind: override of the inferred kind.
        tolerance: numeric labels closer than this agree (the median counts).
        queue_name: overrides the queue's identity.
        costly: class whose miss is the costlier error, canonical text, or ``same``.
        beta: for fbeta metrics.
        taxonomy: group name → values, for mean_credit:similarity_group.
        precision_floor: ``CLASS=0.8``.
        governs: the recorded answer where metric and goal disagree.
        runs: passes per row, odd, 1-7.
        notes: domain notes, verbatim.
        exposed_holdout: use a holdout that an earlier fit has opened, and say so on every figure.
        exhaustive: make every pass of every candidate, also those that cannot change its decision.
        concurrency: model calls in flight.
        budget_calls, budget_tokens, budget_usd: most model calls, tokens and money of the fit, None for no limit.
        prices: what a million tokens cost (``input``, ``cached``, ``output``, ``reasoning``), by role (``judge``,
            ``proposer``) or by spec; tables of fit.toml.
        judge_options, proposer_options: options of the models (docs/models.md), tables of fit.toml; the judge's hold
            for the proposer where both are one model.
        backend: how Datadog is reached, for its queues and for publishing there; nothing falls back.
        since: how far back a platform's spans are looked for: ``90d``, ``36h``, ``12w`` or a date.
        datadog: see :class:`DatadogTable`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    queue: str
    columns: Mapping[str, str] = {}
    label_map: Mapping[str, str] = {}
    label_kind: Literal["boolean", "categorical", "multiselect", "numeric"] | None = None
    tolerance: float | None = Field(default=None, ge=0)
    queue_name: str | None = None

    goal: str | None = None
    costly: str | None = None
    label: str | None = None
    framing: Framing | None = None
    metric: str | None = None
    beta: float | None = Field(default=None, gt=0)
    taxonomy: Mapping[str, tuple[str, ...]] = {}
    precision_floor: str | None = None
    governs: Literal["metric", "goal"] | None = None
    judge: str | None = None
    proposer: str | None = None
    name: str | None = None
    app: str | None = None
    scope: Scope | None = None
    publish_to: str | None = None

    runs: int = DEFAULT_RUNS
    max_iterations: int = Field(default=DEFAULT_MAX_ITERATIONS, ge=0, le=100)
    patience: int = Field(default=DEFAULT_PATIENCE, ge=1, le=100)
    notes: str = ""
    exposed_holdout: bool = False
    exhaustive: bool = False
    concurrency: int = Field(default=8, ge=1, le=256)
    budget_calls: int | None = Field(default=None, ge=1)
    budget_tokens: int | None = Field(default=None, ge=1)
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    prices: Mapping[str, Mapping[str, float]] = {}
    judge_options: Mapping[str, Any] = {}
    proposer_options: Mapping[str, Any] = {}
    backend: Literal["rest", "mcp"] | None = None
    since: str | None = None
    datadog: DatadogTable | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
            raise ValueError("is not UTF-8 text")
        return value

    @field_validator("runs")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value not in (1, 3, 5, 7):
            raise ValueError("runs must be odd, from 1 to 7: an even number of votes can tie")
        return value

    @field_validator("prices")
    @classmethod
    def _prices(cls, value: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        for name, table in value.items():
            unknown = sorted(set(table) - set(_TOKENS))
            if unknown:
                raise ValueError(f"unknown kind(s) of tokens {', '.join(unknown)}; known: {', '.join(_TOKENS)}")
            if not all(math.isfinite(price) and price >= 0 for price in table.values()):
                raise ValueError(f"the prices of {name} must be zero or more, per million tokens")
        return value

    @field_validator("columns")
    @classmethod
    def _columns(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        unknown = sorted(set(value) - set(COLUMNS))
        if unknown:
            raise ValueError(f"unknown column role(s) {', '.join(unknown)}; known: {', '.join(COLUMNS)}")
        return value

    @field_validator("goal", "costly", "label", "metric", "judge", "proposer", "name", "app", "publish_to")
    @classmethod
    def _not_blank(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.strip():
            raise ValueError("must not be blank")
        return value.strip()

    def missing(self) -> list[str]:
        """Must-ask fields without an answer, in asking order."""
        found = [name for name in MUST_ASK if getattr(self, name) is None]
        return [*found, "backend"] if self.uses_datadog and self.backend is None else found

    @property
    def reads_datadog(self) -> bool:
        """True for an annotation queue of Datadog."""
        return self.queue.startswith(f"{DATADOG}:")

    @property
    def uses_datadog(self) -> bool:
        """True where queue or evaluator is on Datadog."""
        return self.reads_datadog or self.publish_to == DATADOG

    def with_answers(self, answers: Mapping[str, Any]) -> FitSettings:
        """The same settings with answers filled in, validated.

        Raises:
            SettingsError: an answer is not valid.
        """
        return make(**{**self.model_dump(), **answers})

    def hashed(self) -> dict[str, Any]:
        """What the config hash covers."""
        return {k: v for k, v in self.model_dump(mode="json").items() if k not in _NOT_HASHED}


def make(**values: Any) -> FitSettings:
    """Builds settings; every fault in one error.

    Raises:
        SettingsError: lists each field and what is wrong with it.
    """
    try:
        return FitSettings(**values)
    except ValidationError as fault:
        lines = []
        for item in fault.errors():
            where = ".".join(str(part) for part in item["loc"]) or "settings"
            lines.append(f"  {where}: {item['msg'].removeprefix('Value error, ')}")
        raise SettingsError("these settings are not valid:\n" + "\n".join(lines)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a ``fit.toml``: the same names as the flags; ``[columns]`` and ``[label_map]`` are tables.

    Raises:
        BadInput: not readable, not TOML, or a key that no flag has.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise BadInput(f"cannot be read: {fault.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8", file=str(path)) from None
    except tomllib.TOMLDecodeError as fault:
        raise BadInput(f"is not TOML: {fault}", file=str(path)) from None
    known = set(FitSettings.model_fields)
    unknown = sorted(set(raw) - known)
    if unknown:
        raise BadInput(
            f"unknown setting(s) {', '.join(unknown)}", file=str(path), hint=f"known: {', '.join(sorted(known))}"
        )
    for name in _TABLES:
        if not isinstance(raw.get(name, {}), dict):
            raise BadInput(f"{name} is a table: [{name}]", file=str(path))
    if "label_map" in raw:  # TOML has booleans and numbers; a flag has only text
        raw["label_map"] = {k: v if isinstance(v, str) else canonical(v) for k, v in raw["label_map"].items()}
    return raw


def what_is(name: str) -> str:
    """What a must-ask field means, for people."""
    return {**MUST_ASK, **ALSO_ASK}[name]


def missing_error(names: Sequence[str]) -> SettingsError:
    """One complete error for everything that must be asked."""
    width = max(len(n) for n in names) + 2
    lines = [f"  --{n.replace('_', '-'):<{width}}{what_is(n)}" for n in names]
    return SettingsError(
        "these answers are needed, and none has a default:\n" + "\n".join(lines),
        hint="give them as flags or in fit.toml, or run in a terminal without --yes to be asked",
    )


# Metrics under which each kind of error weighs the same.
_SYMMETRIC = ("accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "cohens_kappa", "mean_credit")


def disagreement(settings: FitSettings, label: LabelSchema, minority: str | None) -> str | None:
    """Why metric and goal disagree (LO-1), or None.

    Args:
        settings: resolved settings; ``costly`` and ``metric`` are set.
        label: the label schema.
        minority: canonical text of the minority class.

    Returns:
        One sentence, or None when they agree or the label has no classes.
    """
    from fitter.labels import text

    if settings.costly in (None, "same") or settings.metric is None or label.kind == "numeric":
        return None
    costly = settings.costly
    base, _, argument = settings.metric.partition(":")
    serve = f"f1:{costly} or fbeta:{costly} serve it"
    if base in _SYMMETRIC:
        return f"missing {costly!r} is the costlier error, but {settings.metric} weighs every error the same; {serve}"
    aims_at = argument if base in ("f1", "fbeta") else minority
    if aims_at is not None and aims_at != costly and costly in [text(c) for c in label.classes]:
        return f"missing {costly!r} is the costlier error, but {settings.metric} measures {aims_at!r}; {serve}"
    if base.startswith("fbeta") and settings.beta is not None and settings.beta < 1:
        return (
            f"missing {costly!r} is the costlier error, but beta {settings.beta:g} weighs a false alarm more than a "
            "miss; --beta of 1 or more serves it"
        )
    return None


def check_platform_options(settings: FitSettings, label: LabelSchema) -> None:
    """Refuses options of a platform that the fit does not use, and pass labels that are no values of the label.

    Raises:
        SettingsError: see above.
    """
    from fitter.labels import text

    if settings.backend is not None and not settings.uses_datadog:
        raise SettingsError(
            "--backend says how Datadog is reached, and neither the queue nor --publish-to is Datadog",
            hint="leave --backend out",
        )
    if settings.datadog is None:
        return
    if settings.publish_to != DATADOG:
        raise SettingsError("the table [datadog] is for --publish-to datadog", hint="leave the table out")
    if label.kind == "numeric":
        bad = [t for t in settings.datadog.pass_labels if not _is_number(t)]
    else:
        classes = [text(c) for c in label.classes]
        bad = [t for t in settings.datadog.pass_labels if t not in classes]
    if bad:
        raise SettingsError(f"pass_labels: {', '.join(one_line(t, 60) for t in bad)} is no value of the label")


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def config_hash(settings: FitSettings, fixed: Mapping[str, Any]) -> str:
    """Hash of the resolved config: settings plus what intake fixed (label schema, snapshot, seal)."""
    return digest({"settings": settings.hashed(), "fixed": fixed})
