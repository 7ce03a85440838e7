"""How the published evaluator will differ from the judge that was measured (PU-5). Pure.

The score of a fit is the score of a vote over several retried calls, on rows that a queue held, through one provider.
What runs on a platform is one call without a retry, on whatever traffic there is. Each difference is named, with its
figure where there is one, so that nobody reads the fit's score as a promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from fitter.evidence.targets.base import Compiled
from fitter.publishing.publisher import EvaluatorSpec
from fitter.records import Row, Scope, VerdictContract
from fitter.textsafe import one_line

GapCode: TypeAlias = Literal[
    "rehearsal", "dropped_evidence", "renderer", "truncated_fields", "single_call", "no_retry", "confidence_field",
    "refused_output_field", "model", "parameters", "static_system", "filter_hides_rows", "filter_unknown", "sampling",
    "no_traffic", "traffic_unknown",
]  # fmt: skip


class FidelityGap(NamedTuple):
    """One difference: a code for machines, a sentence for people."""

    code: GapCode
    sentence: str


@dataclass(frozen=True, kw_only=True)
class MeasuredJudge:
    """How the judge was measured.

    Attributes:
        compiled: the evidence map as the target's template carries it.
        contract: the verdict contract it was measured with.
        judge: the judge's spec.
        runs: passes per row behind a vote.
        passes: usable and unusable passes behind the winner's headline.
        rescued: passes whose first attempt was unusable and whose retry was not (ME-4).
        truncated_rows: rows in which the target's per-field cap cut a field.
        dropped_parameters: parameters the model refused during the fit, e.g. ``temperature``.
        temperature, max_tokens: what was asked of the model; None: nothing was sent.
    """

    compiled: Compiled
    contract: VerdictContract
    judge: str
    runs: int
    passes: int
    rescued: int
    truncated_rows: int = 0
    dropped_parameters: Sequence[str] = ()
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class DeployedEvaluator:
    """What the platform will do with it; None always means unknown, and unknown is said.

    Attributes:
        publisher: ``local``, ``datadog``, ``mlflow``.
        scope: where it runs.
        rehearsal: nothing runs what is published there.
        judge: the judge the platform will call, in the words of the judge spec.
        retries: the platform retries an unusable answer itself.
        renderer_differences: one sentence each: where its renderer cannot be proved equal to the fit's.
        refused_output_fields: fields of the measured contract that the platform's output schema refuses.
        filter: the evaluator's filter, as text; empty for none.
        hidden_rows: labelled rows that scope, app and filter would have hidden.
        traffic: whether the app was seen to emit what the evaluator runs on.
        hidden, unknown: ids of the labelled rows on which it would not run, and of which that cannot be told.
        sampling: percent of what the filter lets through that is scored.
        parameters: what the platform sends the model, by name (``temperature``, ``max_tokens``); None: not known.
        static_system: the system message is fixed text there.
    """

    publisher: str
    scope: Scope
    rehearsal: bool
    judge: str
    retries: bool = False
    renderer_differences: Sequence[str] = ()
    refused_output_fields: Sequence[str] = ()
    filter: str = ""
    hidden_rows: int | None = None
    traffic: bool | None = None
    hidden: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    sampling: float | None = None
    parameters: Mapping[str, float | None] | None = None
    static_system: bool = False


@runtime_checkable
class Describing(Protocol):
    """A publisher that knows what its platform will do with what was published (PU-5)."""

    def deployed(self, spec: EvaluatorSpec, config: Mapping[str, Any], rows: Sequence[Row]) -> DeployedEvaluator:
        """What the evaluator will be, from the document as it was read back.

        Args:
            spec: what was published.
            config: the document as read back.
            rows: the labelled rows that the judge was measured on.
        """
        ...


def fidelity_gaps(measured: MeasuredJudge, deployed: DeployedEvaluator) -> list[FidelityGap]:
    """Every difference between the measured judge and the published evaluator, in a fixed order.

    Args:
        measured: how the judge was measured.
        deployed: what the platform will do.

    Returns:
        Gaps; never empty unless one retried call was measured and the platform makes just that.
    """
    return [
        *_rehearsal(deployed),
        *_evidence(measured, deployed),
        *_calls(measured, deployed),
        *_output(measured, deployed),
        *_model(measured, deployed),
        *_traffic(deployed),
    ]


def _rehearsal(deployed: DeployedEvaluator) -> list[FidelityGap]:
    if not deployed.rehearsal:
        return []
    return [
        FidelityGap(
            "rehearsal",
            f"`{deployed.publisher}` is a rehearsal: nothing runs what is published there, so no deployed score "
            "exists to compare with.",
        )
    ]


def _evidence(measured: MeasuredJudge, deployed: DeployedEvaluator) -> list[FidelityGap]:
    gaps = [
        FidelityGap(
            "dropped_evidence",
            f"The evidence field `{one_line(gap.field)}` ({one_line(gap.path)}) is not in the published template, and "
            f"the judge was measured without it: {_sentence(gap.why)}",
        )
        for gap in measured.compiled.gaps
    ]
    gaps += [FidelityGap("renderer", _sentence(text)) for text in deployed.renderer_differences]
    if measured.truncated_rows:
        gaps.append(
            FidelityGap(
                "truncated_fields",
                f"In {_count(measured.truncated_rows, 'row')} a field was longer than the platform's cap; the judge "
                "saw it cut, as the evaluator will.",
            )
        )
    return gaps


def _calls(measured: MeasuredJudge, deployed: DeployedEvaluator) -> list[FidelityGap]:
    gaps = []
    if measured.runs > 1:
        gaps.append(
            FidelityGap(
                "single_call",
                f"The headline counts votes of {measured.runs} passes per row; the evaluator makes one call. The "
                "deployable score is the figure to expect.",
            )
        )
    if not deployed.retries:
        if measured.rescued:
            share = f"{measured.rescued} of {_count(measured.passes, 'pass', 'passes')}"
            detail = f"In the fit {share} had no verdict before the retry; deployed, they would have none at all."
        else:
            detail = f"In the fit none of the {_count(measured.passes, 'pass', 'passes')} needed its retry."
        gaps.append(FidelityGap("no_retry", f"The evaluator does not retry an unusable answer. {detail}"))
    return gaps


def _output(measured: MeasuredJudge, deployed: DeployedEvaluator) -> list[FidelityGap]:
    gaps = []
    if measured.contract.confidence_field is None:
        gaps.append(
            FidelityGap(
                "confidence_field",
                "The platform's answer has no confidence field: neither the fit nor the evaluator reports confidence.",
            )
        )
    for name in deployed.refused_output_fields:
        gaps.append(
            FidelityGap(
                "refused_output_field",
                f"The platform's output schema refuses `{one_line(name)}`, which the measured judge was asked for; the "
                "evaluator's prompt and answer are not quite those that were measured.",
            )
        )
    return gaps


def _model(measured: MeasuredJudge, deployed: DeployedEvaluator) -> list[FidelityGap]:
    gaps = []
    if measured.judge != deployed.judge:
        gaps.append(
            FidelityGap(
                "model",
                f"The judge was measured as `{one_line(measured.judge)}`; the evaluator calls "
                f"`{one_line(deployed.judge)}`. The fit's figures are not evidence about that model.",
            )
        )
    if measured.dropped_parameters:
        names = ", ".join(f"`{one_line(name)}`" for name in sorted(measured.dropped_parameters))
        gaps.append(
            FidelityGap(
                "parameters",
                f"The model refused {names} during the fit, so it was measured without; the platform may send its own.",
            )
        )
    asked = {"temperature": measured.temperature, "max_tokens": measured.max_tokens}
    for name, there in (deployed.parameters or {}).items():
        here = None if name in measured.dropped_parameters else asked[name]
        if here != there:
            gaps.append(
                FidelityGap(
                    "parameters",
                    f"The judge was measured with {_parameter(name, here, 'the provider')}; the evaluator runs with "
                    f"{_parameter(name, there, 'the platform')}.",
                )
            )
    if deployed.static_system:
        gaps.append(
            FidelityGap(
                "static_system",
                "The evaluator's system message is fixed text, the same for every row; so it was in the fit, nonce "
                "included.",
            )
        )
    return gaps


def _parameter(name: str, value: float | None, whose: str) -> str:
    return f"{whose}'s own {name}" if value is None else f"{name} {value:g}"


def _traffic(deployed: DeployedEvaluator) -> list[FidelityGap]:
    gaps = []
    shown = f"The filter `{one_line(deployed.filter)}`" if deployed.filter else "Scope and app alone"
    if deployed.hidden_rows:
        rows = _count(deployed.hidden_rows, "labelled row")
        gaps.append(FidelityGap("filter_hides_rows", f"{shown} hides {rows} that the judge was measured on."))
    elif deployed.hidden_rows is None and (deployed.filter or deployed.unknown):
        sure = f" (surely {_count(len(deployed.hidden), 'row')})" if deployed.hidden else ""
        sentence = f"{shown} decides what is scored; how many labelled rows that hides is unknown{sure}."
        gaps.append(FidelityGap("filter_unknown", sentence))
    if deployed.sampling is not None and deployed.sampling < 100:
        sentence = f"The evaluator scores {deployed.sampling:g}% of what it could see, drawn by the platform."
        gaps.append(FidelityGap("sampling", sentence))
    if deployed.rehearsal or deployed.traffic:
        return gaps
    unit = f"{deployed.scope}s"
    if deployed.traffic is None:
        sentence = f"Whether the app emits {unit} that the evaluator can run on was not checked."
        gaps.append(FidelityGap("traffic_unknown", sentence))
    else:
        sentence = f"The app was not seen to emit any {unit}: once enabled, the evaluator would score nothing."
        gaps.append(FidelityGap("no_traffic", sentence))
    return gaps


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _sentence(text: str) -> str:
    line = one_line(text, 400)
    return line if line.endswith((".", "!", "?")) else f"{line}."
