"""Settings of a fit that touches Datadog: what must be asked, what is hashed, what fits what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fitter import fitting
from fitter.errors import SettingsError
from fitter.platforms import open_publisher
from fitter.publishing.datadog import DatadogPublisher
from fitter.queues.datadog_mcp import FAIR_USE, fair_use
from fitter.queues.files import FlatColumns
from fitter.queues.registry import SourceOptions, open_source
from fitter.settings import FitSettings, config_hash, make, read_toml
from fitter.workspace import Workspace
from tests.servers.datadog import StandIn


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"queue": "practice", "publish_to": "local"}, False),
        ({"queue": "practice", "publish_to": "datadog"}, True),
        ({"queue": "datadog:x", "publish_to": "local"}, True),
        ({"queue": "datadog:x", "publish_to": "datadog", "backend": "rest"}, False),
    ],
)
def test_lo1_the_backend_must_be_asked_where_datadog_is_used_and_only_there(given: dict[str, Any], asked: bool) -> None:
    assert ("backend" in make(**given).missing()) is asked


def test_lo1_the_backend_is_asked_once_the_answer_was_datadog(tmp_path: Path, stand_in: StandIn) -> None:
    answers = {"publish_to": "datadog", "backend": "mcp", "judge": "openai:m"}
    asked: list[list[str]] = []

    def ask(question: Mapping[str, Any]) -> dict[str, Any]:
        names = [field["name"] for field in question["fields"]]
        asked.append(names)
        return {name: answers[name] for name in names if name in answers}

    given = make(
        queue="practice", goal="g", costly="same", label="policy_verdict", framing="grader",
        metric="balanced_accuracy", name="n", app="a", scope="trace", proposer="lexicon",
    )  # fmt: skip
    with pytest.raises(SettingsError, match="DD_API_KEY"):
        fitting.Fitting(tmp_path / "ws").start(given, ask=ask)
    assert [[n for n in names if n != "notes"] for names in asked] == [["judge", "publish_to"], ["backend"]]
    assert stand_in.requests == []


def _hash(**more: Any) -> str:
    return config_hash(make(queue="datadog:x", **more), {})


def test_the_config_hash_covers_what_shapes_measurement_or_evaluator_and_nothing_else() -> None:
    assert _hash(backend="rest") == _hash(backend="mcp")
    assert _hash(since="30d") != _hash(since="90d")
    for table in ({"sampling_percentage": 20}, {"filter": "env:prod"}, {"root_spans_only": True}, {"temperature": 0.5},
                  {"max_tokens": 9}, {"pass_labels": ["good"]}):  # fmt: skip
        assert _hash(datadog=table) != _hash(), table


def test_the_table_of_fit_toml_is_strict(tmp_path: Path) -> None:
    file = tmp_path / "fit.toml"
    file.write_text('backend = "rest"\n[datadog]\npass_labels = [true, 3]\nsampling_percentage = 12.5\n')
    read = make(queue="datadog:x", **read_toml(file))
    assert read.datadog is not None
    assert read.datadog.pass_labels == ("true", "3")
    assert FitSettings.model_validate(read.model_dump(mode="json")) == read
    for wrong in ({"sampling_percentage": 0}, {"sampling_percentage": 101}, {"max_tokens": 0}, {"samplng": 1}):
        with pytest.raises(SettingsError, match="datadog"):
            make(queue="datadog:x", datadog=wrong)


def test_sources_refuse_options_that_do_not_fit(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> None:
    for name, value in stand_in.env().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match="your choice") as caught:
        open_source("datadog:x")
    assert "--backend rest or --backend mcp" in (caught.value.hint or "")
    with pytest.raises(SettingsError, match="column options"):
        open_source("datadog:x", SourceOptions(backend="rest", columns=FlatColumns(input="q")))
    with pytest.raises(SettingsError, match="--since is for queues of a platform"):
        open_source("practice", SourceOptions(since="90d"))
    with pytest.raises(SettingsError, match="is no time"):
        open_source("datadog:x", SourceOptions(backend="rest", since="soon"))
    assert stand_in.requests == []


def test_the_deployed_temperature_is_the_measured_one(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandIn, tmp_path: Path
) -> None:
    for name, value in stand_in.env().items():
        monkeypatch.setenv(name, value)

    def deployed(**more: Any) -> Any:
        settings = make(queue="practice", publish_to="datadog", backend="rest", **more)
        publisher = open_publisher(settings, Workspace(tmp_path))
        assert isinstance(publisher, DatadogPublisher)
        publisher.close()
        return publisher._options.temperature

    assert deployed() is None
    assert deployed(judge_options={"temperature": 0.3}) == 0.3
    assert deployed(judge_options={"temperature": 0.3}, datadog={"temperature": 0}) == 0
    with pytest.raises(SettingsError, match="your choice"):
        open_publisher(make(queue="practice", publish_to="datadog"), Workspace(tmp_path))
    with pytest.raises(SettingsError, match="known: local, datadog"):
        open_publisher(make(queue="practice", publish_to="elsewhere"), Workspace(tmp_path))


def test_fair_use_is_the_platforms_unless_the_user_says_otherwise() -> None:
    assert fair_use({}) == FAIR_USE
    assert fair_use({"DD_LLMOBS_MCP_CALLS": "5"}) == (5, 10.0)
    assert fair_use({"DD_LLMOBS_MCP_CALLS": "0"}) is None
    with pytest.raises(SettingsError, match="no number of calls"):
        fair_use({"DD_LLMOBS_MCP_CALLS": "many"})
