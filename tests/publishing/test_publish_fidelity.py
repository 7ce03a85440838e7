"""PU-5: each way in which the published evaluator differs from the measured judge has its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fitter.evidence.targets.base import Compiled, Gap
from fitter.publishing.fidelity import DeployedEvaluator, MeasuredJudge, fidelity_gaps
from tests.publishing.publishing_kit import CONTRACT

SAME_JUDGE = MeasuredJudge(
    compiled=Compiled(placeholders=(), gaps=()), contract=CONTRACT, judge="openai:m", runs=1, passes=40, rescued=0
)
SAME = DeployedEvaluator(
    publisher="datadog", scope="trace", rehearsal=False, judge="openai:m", retries=True, traffic=True
)


def test_pu5_nothing_is_claimed_where_nothing_differs() -> None:
    assert fidelity_gaps(SAME_JUDGE, SAME) == []


@pytest.mark.parametrize(
    ("measured", "deployed", "code", "words"),
    [
        ({}, {"rehearsal": True, "publisher": "local"}, "rehearsal", "`local` is a rehearsal"),
        (
            {"compiled": Compiled(placeholders=(), gaps=(Gap(field="docs", path="meta.docs", why="no such path"),))},
            {},
            "dropped_evidence",
            "`docs` (meta.docs) is not in the published template, and the judge was measured without it: no such path.",
        ),
        ({}, {"renderer_differences": ("Numbers may print otherwise",)}, "renderer", "Numbers may print otherwise."),
        ({"truncated_rows": 1}, {}, "truncated_fields", "In 1 row a field was longer"),
        ({"runs": 3}, {}, "single_call", "votes of 3 passes per row; the evaluator makes one call"),
        ({"rescued": 4}, {"retries": False}, "no_retry", "4 of 40 passes had no verdict before the retry"),
        ({}, {"retries": False}, "no_retry", "none of the 40 passes needed its retry"),
        ({"contract": replace(CONTRACT, confidence_field=None)}, {}, "confidence_field", "no confidence field"),
        ({}, {"refused_output_fields": ("confidence",)}, "refused_output_field", "refuses `confidence`"),
        ({"judge": "lexicon"}, {}, "model", "measured as `lexicon`; the evaluator calls `openai:m`"),
        ({"dropped_parameters": ("top_p", "temperature")}, {}, "parameters", "`temperature`, `top_p`"),
        ({}, {"filter": "@env:prod", "hidden_rows": 2}, "filter_hides_rows", "`@env:prod` hides 2 labelled rows"),
        ({}, {"filter": "@env:prod"}, "filter_unknown", "is unknown"),
        ({}, {"hidden_rows": 1}, "filter_hides_rows", "Scope and app alone hides 1 labelled row"),
        ({}, {"hidden_rows": None, "unknown": ("r",), "hidden": ("s",)}, "filter_unknown", "unknown (surely 1 row)"),
        ({}, {"sampling": 5.0}, "sampling", "scores 5% of what it could see"),
        ({}, {"static_system": True}, "static_system", "the same for every row"),
        ({}, {"parameters": {"temperature": 0}}, "parameters", "the evaluator runs with temperature 0."),
        ({"temperature": 0.5}, {"parameters": {"temperature": None}}, "parameters", "the platform's own temperature"),
        ({}, {"traffic": False}, "no_traffic", "not seen to emit any traces"),
        ({}, {"traffic": None}, "traffic_unknown", "was not checked"),
    ],
)
def test_pu5_each_difference_is_named(
    measured: dict[str, object], deployed: dict[str, object], code: str, words: str
) -> None:
    gaps = fidelity_gaps(replace(SAME_JUDGE, **measured), replace(SAME, **deployed))  # type: ignore[arg-type]
    assert [gap.code for gap in gaps] == [code]
    assert words in gaps[0].sentence
    assert gaps[0].sentence.endswith((".", "!"))


def test_a_filter_that_hides_nothing_is_no_gap() -> None:
    assert fidelity_gaps(SAME_JUDGE, replace(SAME, filter="@a:b", hidden_rows=0)) == []


def test_a_rehearsal_does_not_also_complain_about_traffic() -> None:
    gaps = fidelity_gaps(replace(SAME_JUDGE, runs=3), replace(SAME, rehearsal=True, retries=False, traffic=None))
    assert [gap.code for gap in gaps] == ["rehearsal", "single_call", "no_retry"]


def test_sc5_hostile_names_stay_on_one_line() -> None:
    gap = Gap(field="a\nb", path="x\u202ey", why="line\nbreak\x1b[31m")
    sentence = fidelity_gaps(replace(SAME_JUDGE, compiled=Compiled(placeholders=(), gaps=(gap,))), SAME)[0].sentence
    assert "\n" not in sentence
    assert "\x1b" not in sentence
    assert "\u202e" not in sentence
