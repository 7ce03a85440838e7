"""Publishing to the stand-in, over both surfaces, against every way a write can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fitter.errors import FitterError, Outage, PublishError, SettingsError
from fitter.evidence.targets.datadog import DatadogTarget
from fitter.labels import LabelSchema
from fitter.publishing.datadog import DatadogPublisher, PublishOptions, open_publisher
from fitter.publishing.datadog_wire import comparable, document, flatten, ladder
from fitter.publishing.publisher import EvaluatorSpec
from fitter.publishing.verify import Patience, Receipt, closing_lines, publish_and_verify
from fitter.records import VerdictContract
from tests.datadog.worlds import FAST
from tests.servers.datadog import StandIn

BACKENDS = ["rest", "mcp"]
LABELS = {
    "boolean": LabelSchema(id="q7f3", name="reply_ok", kind="boolean", classes=(False, True)),
    "categorical": LabelSchema(id="c1", name="tone", kind="categorical", classes=("warm", "cold")),
    "numeric": LabelSchema(id="s1", name="stars", kind="numeric", minimum=1, maximum=5),
}
QUICK = Patience(tries=4, wait_s=0.0, sleep=lambda _: None)


def spec(kind: str = "boolean", **changes: Any) -> EvaluatorSpec:
    values: dict[str, Any] = {
        "name": "reply_judge",
        "app": "support",
        "scope": "span",
        "system": "You grade. {{not_a_variable}} stays.",
        "user_template": "<<<ab\n{{span_input}}\n\n{{span_output}}\nab>>>",
        "contract": DatadogTarget().contract(LABELS[kind]),
        "judge": "openai:gpt-5.4-mini",
        "pass_labels": {"boolean": ("true",), "categorical": ("warm",), "numeric": ("4", "5")}[kind],
        "metadata": {"prompt_sha256": "ab"},
    }
    return EvaluatorSpec(**{**values, **changes})


@pytest.fixture
def org(stand_in: StandIn) -> StandIn:
    """An organisation with two integrations and live traffic."""
    stand_in.world.account("openai", "gpt-5.4-mini", "gpt-5.4")
    stand_in.world.account("anthropic", "claude-x")
    stand_in.world.span("t1", "s1", ml_app="support")
    return stand_in


def opened(server: StandIn, backend: Any, **options: Any) -> DatadogPublisher:
    publisher = open_publisher(server.env(), backend, PublishOptions(retry=FAST, mcp_rate=None, **options))
    assert isinstance(publisher, DatadogPublisher)
    return publisher


def publish(
    server: StandIn, backend: str, folder: Path, what: EvaluatorSpec | None = None, **options: Any
) -> tuple[Receipt, DatadogPublisher]:
    publisher = opened(server, backend, **options)
    try:
        done = publish_and_verify(publisher, what or spec(), receipt_dir=folder, run_id="run-1", patience=QUICK)
    finally:
        publisher.close()
    return done, publisher


@pytest.mark.parametrize("backend", BACKENDS)
def test_pu4_a_new_evaluator_is_written_disabled_read_back_and_listed(
    org: StandIn, backend: str, tmp_path: Path
) -> None:
    receipt, publisher = publish(org, backend, tmp_path)
    stored = org.world.evaluators["reply_judge"]
    assert stored["target"] == {
        "application_name": "support",
        "enabled": False,
        "eval_scope": "span",
        "sampling_percentage": 10,
    }
    provider = stored["llm_provider"]
    assert (provider["integration_provider"], provider["model_name"]) == ("openai", "gpt-5.4-mini")
    judge = stored["llm_judge_config"]
    assert judge["prompt_template"][0] == {"role": "system", "content": spec().system}
    assert judge["prompt_template"][1] == {"role": "user", "content": spec().user_template}
    assert judge["output_schema"] == {"name": "boolean_eval", "strict": True, "schema": dict(spec().contract.schema)}
    assert judge["assessment_criteria"] == {"pass_when": True}
    assert judge["inference_params"] == {"temperature": 0}
    assert receipt.to_json()["enabled"] is False
    assert receipt.rehearsal is False
    assert closing_lines(receipt) == [
        "evaluator: reply_judge (app support)",
        "evaluations page: https://app.datadoghq.com/llm/evaluations",
        "disabled: it scores nothing until you enable it",
    ]
    assert json.loads((tmp_path / "listing.json").read_text())["entry"]["enabled"] is False
    if backend == "rest":
        assert provider["integration_account_id"] == "acc-openai"
        assert publisher.notes == []
    else:
        assert publisher.notes == [
            "the platform did not list its openai accounts; that it can call gpt-5.4-mini is unverified"
        ]


def test_rest_and_mcp_store_the_same_evaluator(org: StandIn, tmp_path: Path) -> None:
    seen = {}
    for backend in BACKENDS:
        org.world.evaluators.clear()
        publish(org, backend, tmp_path / backend, spec(scope="trace", user_template="{{spans[0].name}}"))
        seen[backend] = comparable(org.world.evaluators["reply_judge"], account=False)
    assert seen["rest"] == seen["mcp"]
    assert seen["rest"]["target.filter"] == "@parent_id:undefined"
    assert seen["rest"]["target.root_spans_only"] is True
    assert seen["rest"]["target.sampling_percentage"] == 5


@pytest.mark.parametrize(
    ("kind", "criteria"),
    [
        ("boolean", {"pass_when": True}),
        ("categorical", {"pass_values": ["warm"]}),
        ("numeric", {"min_threshold": 4, "max_threshold": 5}),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_kind_of_label_has_its_schema_and_criteria(
    org: StandIn, backend: str, kind: str, criteria: dict[str, Any], tmp_path: Path
) -> None:
    publish(org, backend, tmp_path, spec(kind))
    judge = org.world.evaluators["reply_judge"]["llm_judge_config"]
    assert judge["assessment_criteria"] == criteria
    assert judge["output_schema"]["schema"] == dict(spec(kind).contract.schema)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pu3_a_full_replace_keeps_every_field_it_does_not_change(org: StandIn, backend: str, tmp_path: Path) -> None:
    old = org.world.evaluator("reply_judge", "support", filter="@env:prod", root_spans_only=True)
    old["llm_judge_config"]["inference_params"]["top_p"] = 0.5
    old["llm_judge_config"]["last_used_library_prompt_template_name"] = "toxicity"
    if backend == "rest":
        old["target"]["experiment_project_ids"] = ["p1"]
        old["llm_judge_config"]["target_query"] = "@a:b"
    publish(org, backend, tmp_path)
    new = org.world.evaluators["reply_judge"]
    kept = {"filter": "@env:prod", "root_spans_only": True, "sampling_percentage": 25}
    assert {k: new["target"][k] for k in kept} == kept
    assert new["llm_judge_config"]["inference_params"] == {"temperature": 0, "max_tokens": 700, "top_p": 0.5}
    assert new["llm_provider"]["integration_account_id"] == "acc-openai"
    assert "last_used_library_prompt_template_name" not in new["llm_judge_config"]
    assert new["llm_judge_config"]["prompt_template"][1]["content"] == spec().user_template
    if backend == "rest":
        assert new["target"]["experiment_project_ids"] == ["p1"]
        assert new["llm_judge_config"]["target_query"] == "@a:b"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("app", "enabled", "words"),
    [("support", True, "is enabled on Datadog"), ("billing", False, "belongs to the app 'billing'")],
)
def test_pu3_an_enabled_or_foreign_evaluator_is_never_overwritten(
    org: StandIn, backend: str, app: str, enabled: bool, words: str, tmp_path: Path
) -> None:
    before = json.dumps(org.world.evaluator("reply_judge", app, enabled=enabled), sort_keys=True)
    publisher = opened(org, backend)
    with pytest.raises(SettingsError, match=words):
        publisher.check("reply_judge", "support", "openai:gpt-5.4-mini")
    with pytest.raises(SettingsError, match=words):
        publisher.config(spec(), publisher.get("reply_judge"))
    with pytest.raises(SettingsError, match=words):  # it changed hands after the check
        publisher.put("reply_judge", publisher.config(spec(), None))
    publisher.close()
    with pytest.raises(SettingsError, match=words):
        publish(org, backend, tmp_path)
    assert org.registry.writes == 0
    assert json.dumps(org.world.evaluators["reply_judge"], sort_keys=True) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_pu1_no_client_sends_anything_but_false(org: StandIn, backend: str) -> None:
    publisher = opened(org, backend)
    good = publisher.config(spec(), None)
    for switch in (True, None, "false", 0):
        bad = {**good, "target": {**good["target"], "enabled": switch}}
        with pytest.raises(PublishError, match="the platform refused the write: fitter sends only `enabled: false`"):
            publisher.put("reply_judge", bad)
    with pytest.raises(PublishError, match="only `enabled: false`"):
        publisher.put("reply_judge", {**good, "target": {"application_name": "support"}})
    publisher.close()
    assert org.registry.writes == 0


# what lands wrong, lags or is refused: switches, words of the error ("" for success)
OUTCOMES: list[tuple[dict[str, Any], str]] = [
    ({"put_status": 204}, ""),
    ({"readback_wrapper": "wrapped"}, ""),
    ({"readback_wrapper": "bare"}, ""),
    ({"readback_spelling": "underscore"}, ""),
    ({"readback_spelling": "hyphen"}, ""),
    ({"readback_extra": False}, ""),
    ({"readback_nulls": True}, ""),
    ({"get_shape": "evaluator"}, ""),
    ({"get_shape": "data"}, ""),
    ({"list_shape": "evaluators"}, ""),
    ({"list_shape": "data"}, ""),
    ({"list_shape": "bare", "list_name_key": "name"}, ""),
    ({"list_lag": 2}, ""),
    ({"read_lag": 2}, ""),
    ({"limit_every": 5}, ""),
    ({"lands_changed": {"target.sampling_percentage": 10.0}}, ""),
    ({"wrapper_rule": "any"}, ""),
    ({"list_lag": -1}, "does not list 'reply_judge'"),
    ({"read_lag": 99}, "does not have it when it is read back"),
    ({"write_lost": True}, "does not have it when it is read back"),
    ({"lands_changed": {"target.sampling_percentage": 50}}, "target.sampling_percentage (different)"),
    ({"lands_changed": {"llm_provider.model_name": "gpt-3"}}, "llm_provider.model_name (different)"),
    ({"lands_changed": {"target.filter": "@x:y"}}, "target.filter (unexpected)"),
    ({"lands_changed": {"llm_judge_config.prompt_template": []}}, "llm_judge_config.prompt_template"),
    ({"lands_changed": {"target.enabled": True}}, "ENABLED"),
    ({"versioned": True}, "the platform refused the write: custom evaluator"),
    ({"write_refused": "application not found"}, "the platform refused the write: application not found"),
    ({"write_refused": "no", "error_shape": "strings"}, "the platform refused the write: no"),
    ({"wrapper_rule": "reject", "allow_extra_properties": True}, ""),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("values", "words"), OUTCOMES, ids=[str(o[0])[:60] for o in OUTCOMES])
def test_pu4_every_way_a_write_can_end(
    org: StandIn, backend: str, values: dict[str, Any], words: str, tmp_path: Path
) -> None:
    for key, value in {**values, "echo_keys_in_errors": True}.items():
        assert hasattr(org.switches, key)
        setattr(org.switches, key, value)
    if not words:
        receipt, _ = publish(org, backend, tmp_path)
        assert receipt.name == "reply_judge"
        assert org.world.evaluators["reply_judge"]["target"]["enabled"] is False
        return
    with pytest.raises(PublishError) as caught:
        publish(org, backend, tmp_path)
    assert words in str(caught.value)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "receipt.json").exists()
    left = json.loads((tmp_path / "config.json").read_text())
    assert left["target"]["enabled"] is False
    assert left["llm_judge_config"]["prompt_template"][1]["content"] == spec().user_template
    for file in tmp_path.iterdir():  # SC-3
        assert org.switches.api_key[:12] not in file.read_text()  # the application key begins alike


@pytest.mark.parametrize("backend", BACKENDS)
def test_pu2_a_versioned_refusal_confirms_that_nothing_landed(org: StandIn, backend: str, tmp_path: Path) -> None:
    org.switches.versioned = True
    with pytest.raises(PublishError) as caught:
        publish(org, backend, tmp_path)
    assert "is versioned and can only be edited" in caught.value.message
    assert "nothing landed" in caught.value.message
    assert "create it there from the config" in str(caught.value)
    assert "config.json" in str(caught.value)
    assert "reply_judge" not in org.world.evaluators
    org.world.evaluator("reply_judge", "support")
    with pytest.raises(PublishError, match="the stored evaluator is unchanged"):
        publish(org, backend, tmp_path)


def test_an_unpublished_draft_is_never_discarded(org: StandIn, tmp_path: Path) -> None:
    org.switches.discard_draft = True
    with pytest.raises(PublishError, match="an unpublished draft exists") as caught:
        publish(org, "mcp", tmp_path)
    assert "publish or discard it in the web interface" in str(caught.value)
    assert all("discard_draft_id" not in args for _, args in org.tool_calls)


# the wrapper rule and the ladder
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("judge", "wrapped"), [("openai:gpt-5.4-mini", True), ("anthropic:claude-x", False)])
def test_the_wrapper_follows_the_provider(
    org: StandIn, backend: str, judge: str, wrapped: bool, tmp_path: Path
) -> None:
    _, publisher = publish(org, backend, tmp_path, spec(judge=judge))
    schema = org.world.evaluators["reply_judge"]["llm_judge_config"]["output_schema"]
    assert ("strict" in schema) is wrapped
    assert not [note for note in publisher.notes if "only" in note]
    assert org.registry.writes == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("rule", "judge", "form"), [("reject", "openai:gpt-5.4-mini", "bare"), ("require", "anthropic:claude-x", "wrapped")]
)
def test_the_other_wrapper_is_tried_once_and_reported(
    org: StandIn, backend: str, rule: Any, judge: str, form: str, tmp_path: Path
) -> None:
    org.switches.wrapper_rule = rule
    _, publisher = publish(org, backend, tmp_path, spec(judge=judge))
    assert f"the platform took the evaluator only with the {form} output schema" in publisher.notes


def test_pu5_a_property_the_platform_refuses_is_left_out_last_and_seen_in_the_comparison(
    org: StandIn, tmp_path: Path
) -> None:
    contract = spec().contract
    schema = {**contract.schema, "properties": {**contract.schema["properties"], "confidence": {"type": "integer"}}}
    more = VerdictContract(
        label_field="boolean_eval",
        reasoning_field="reasoning",
        confidence_field="confidence",
        schema=schema,
        label=contract.label,
    )
    steps = [step for step, _ in ladder(document(spec(contract=more), None, provider="openai", model="m"))]
    assert steps == [
        "as measured",
        "with the bare output schema",
        "without confidence, with the wrapped output schema",
        "without confidence, with the bare output schema",
    ]
    with pytest.raises(PublishError, match="output_schema/properties/confidence"):
        publish(org, "rest", tmp_path, spec(contract=more))
    assert org.registry.writes == 1
    assert org.world.evaluators["reply_judge"]["target"]["enabled"] is False


def test_both_forms_refused_is_an_unfinished_run(org: StandIn, tmp_path: Path) -> None:
    org.switches.write_refused = "llm_judge_config.output_schema: invalid BYOP output schema"
    with pytest.raises(PublishError, match="invalid BYOP output schema; nothing landed"):
        publish(org, "rest", tmp_path)
    assert len(org.calls("PUT", "/custom/reply_judge")) == 2


# the flat surface
def test_pu3_the_flat_surface_refuses_to_lose_a_field_before_any_spend(org: StandIn) -> None:
    old = org.world.evaluator("reply_judge", "support")
    old["llm_judge_config"]["target_query"] = "@a:b"
    publisher = opened(org, "mcp")
    with pytest.raises(SettingsError, match="target_query") as caught:
        publisher.check("reply_judge", "support", "openai:gpt-5.4-mini")
    publisher.close()
    assert "--backend rest" in str(caught.value)


def test_the_flat_document_has_no_nulls_and_no_nested_keys() -> None:
    nested = document(spec(), None, provider="azure_openai", model="m", account={"account_id": "a"})
    nested["llm_judge_config"]["context_query"] = None
    nested["llm_judge_config"]["inference_params"]["top_p"] = None
    flat = flatten(nested)
    assert None not in flat.values()
    assert not {"target", "llm_provider", "llm_judge_config"} & set(flat)
    assert flat["integration_provider"] == "azure_openai"
    assert nested["llm_provider"]["integration_provider"] == "azure-openai"
    assert flat["enabled"] is False


# what the organisation can call
@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ("openai:gpt-9", "offers the model 'gpt-9'"),
        ("azure:dep", "no azure_openai integration"),
        ("lexicon", "cannot run the embedded judge"),
        ("openai:@http://127.0.0.1:1", "no integration"),
    ],
)
def test_lo1_a_model_the_organisation_cannot_call_is_refused_before_any_spend(
    org: StandIn, judge: str, words: str
) -> None:
    publisher = opened(org, "rest")
    with pytest.raises(SettingsError, match=words) as caught:
        publisher.check("reply_judge", "support", judge)
    publisher.close()
    if "gpt-9" in judge:
        assert "gpt-5.4, gpt-5.4-mini" in str(caught.value)


@pytest.mark.parametrize(("key", "words"), [("json_schema", "structured output"), ("has_access", "no access")])
def test_a_model_that_cannot_do_the_job_is_refused(org: StandIn, key: str, words: str) -> None:
    org.world.models["acc-openai"][0][key] = False
    publisher = opened(org, "rest")
    with pytest.raises(SettingsError, match=words):
        publisher.check("reply_judge", "support", "openai:gpt-5.4-mini")
    publisher.close()


def test_an_account_that_already_runs_evaluators_is_preferred_and_broken_ones_are_reported(org: StandIn) -> None:
    org.world.account("openai", "gpt-5.4-mini", account_id="acc-two")
    org.world.evaluator("other", "billing", enabled=True)["llm_provider"]["integration_account_id"] = "acc-two"
    broken = org.world.evaluator("broken", "billing")
    broken["error"] = {"message": "Incorrect API key provided: HTTP 401"}
    publisher = opened(org, "rest")
    publisher.check("reply_judge", "support", "openai:gpt-5.4-mini")
    config = publisher.config(spec(), None)
    publisher.close()
    assert config["llm_provider"]["integration_account_id"] == "acc-two"
    assert publisher.notes == ["the existing evaluator broken reports: Incorrect API key provided: HTTP 401"]


def test_over_mcp_the_account_comes_from_the_apps_evaluators(org: StandIn) -> None:
    org.world.evaluator("other", "support", enabled=True)
    publisher = opened(org, "mcp")
    publisher.check("reply_judge", "support", "openai:gpt-5.4-mini")
    config = publisher.config(spec(), None)
    publisher.close()
    assert config["llm_provider"]["integration_account_id"] == "acc-openai"
    assert "unverified (an existing evaluator uses account acc-openai)" in publisher.notes[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_pu5_an_app_without_traffic_is_warned_about(org: StandIn, backend: str) -> None:
    publisher = opened(org, backend)
    assert publisher.traffic("support") is None
    warning = publisher.traffic('quiet "app"')
    publisher.close()
    assert warning is not None
    assert "emitted no spans in the last 30 days" in warning


@pytest.mark.parametrize("backend", BACKENDS)
def test_variables_of_existing_evaluators(org: StandIn, backend: str) -> None:
    for name in ("one", "two"):
        org.world.evaluator(name, "support", enabled=True)
    publisher = opened(org, backend)
    assert publisher.variables_in_use("support") == {"meta.metadata.topic": 2, "span_input": 2}
    publisher.close()


# once, and only once
@pytest.mark.parametrize("backend", BACKENDS)
def test_lo7_a_second_publication_writes_nothing_and_leaves_the_same_receipt(
    org: StandIn, backend: str, tmp_path: Path
) -> None:
    first, _ = publish(org, backend, tmp_path)
    files = {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    second, _ = publish(org, backend, tmp_path)
    assert org.registry.writes == 1
    assert first.to_json() == second.to_json()
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == files


@pytest.mark.parametrize("backend", BACKENDS)
def test_sc4_the_tracked_receipt_holds_no_person_and_no_clock(org: StandIn, backend: str, tmp_path: Path) -> None:
    publish(org, backend, tmp_path)
    for file in tmp_path.iterdir():
        text = file.read_text()
        assert "someone@example.test" not in text
        assert "created_at" not in text
        assert "updated_at" not in text


@pytest.mark.parametrize(
    ("values", "backend", "kind", "words"),
    [
        ({"api_key": "e" * 32}, "rest", SettingsError, "DD_API_KEY"),
        ({"forbidden": True}, "rest", SettingsError, "llm_observability_write"),
        ({"forbidden": True}, "mcp", SettingsError, "may not do this"),
        ({"fail_first": 999}, "rest", Outage, "answers 500"),
        ({"mcp_missing_tools": {"create_or_update_llmobs_evaluator"}}, "mcp", SettingsError, "does not offer"),
    ],
)
def test_faults_before_the_write_leave_a_config_to_paste(
    org: StandIn, values: dict[str, Any], backend: Any, kind: type[FitterError], words: str, tmp_path: Path
) -> None:
    publisher = opened(org, backend)
    for key, value in values.items():
        setattr(org.switches, key, value)
    with pytest.raises(kind) as caught:
        publish_and_verify(publisher, spec(), receipt_dir=tmp_path, run_id="run-1", patience=QUICK)
    publisher.close()
    assert words in str(caught.value)
    assert json.loads((tmp_path / "config.json").read_text())["target"]["enabled"] is False
    assert org.registry.writes == 0


@pytest.mark.parametrize("name", ["", "a b", "x/../y", "é", "a" * 101])
def test_names_that_are_none(org: StandIn, name: str) -> None:
    publisher = opened(org, "rest")
    with pytest.raises(SettingsError, match="not an evaluator name"):
        publisher.check(name, "support", "openai:gpt-5.4-mini")
    publisher.close()
    assert org.requests == []


@pytest.mark.parametrize("sampling", [0, -1, 100.5])
def test_sampling_out_of_range_is_a_user_error(sampling: float) -> None:
    with pytest.raises(SettingsError, match="sampling"):
        PublishOptions(sampling_percentage=sampling)


def test_what_the_user_asks_for_wins_over_what_is_stored(org: StandIn, tmp_path: Path) -> None:
    org.world.evaluator("reply_judge", "support", filter="@old:1")
    publish(org, "rest", tmp_path, sampling_percentage=50, filter="@env:prod", temperature=0.2, max_tokens=300)
    stored = org.world.evaluators["reply_judge"]
    assert stored["target"]["sampling_percentage"] == 50
    assert stored["target"]["filter"] == "@env:prod"
    assert stored["llm_judge_config"]["inference_params"] == {"temperature": 0.2, "max_tokens": 300}


@pytest.mark.parametrize("site", ["datadoghq.com", "us5.datadoghq.com", "datadoghq.eu"])
def test_pu6_the_page_is_the_sites(org: StandIn, site: str) -> None:
    publisher = open_publisher(org.env(DD_SITE=site), "rest")
    prefix = "app." if site in ("datadoghq.com", "datadoghq.eu") else ""
    assert publisher.page == f"https://{prefix}{site}/llm/evaluations"
