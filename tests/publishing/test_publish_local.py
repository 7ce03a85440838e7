"""The local registry holds PU-1 and PU-3 by itself, whoever calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import BadInput, PublishError, SettingsError
from fitter.publishing.local import LocalPublisher
from fitter.publishing.publisher import Publisher
from fitter.workspace import Workspace
from tests.publishing.publishing_kit import CONTRACT, make_spec


@pytest.fixture
def registry(tmp_path: Path) -> LocalPublisher:
    return LocalPublisher(Workspace(tmp_path))


def _file(tmp_path: Path, name: str = "reply_quality") -> Path:
    return tmp_path / "publish" / "local" / "registry" / f"{name}.json"


def _owner_edits(tmp_path: Path, **changes: Any) -> None:
    """What only the owner can do: edit the evaluator's file."""
    path = _file(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _publish(registry: LocalPublisher, **changes: Any) -> None:
    spec = make_spec(**changes)
    registry.put(spec.name, registry.config(spec, registry.get(spec.name)))


def test_it_is_a_publisher(registry: LocalPublisher) -> None:
    publisher: Publisher = registry
    assert (publisher.name, publisher.rehearsal) == ("local", True)


def test_pu1_the_document_holds_the_measured_prompt_to_the_byte_and_is_disabled(
    registry: LocalPublisher, tmp_path: Path
) -> None:
    hostile = "line\r\nend\t\u202e{{span_output}} \ud7ff ``` é"
    _publish(registry, user_template=hostile)
    stored = json.loads(_file(tmp_path).read_bytes().decode("utf-8"))
    assert stored == {
        "schema_version": 1,
        "name": "reply_quality",
        "app": "support",
        "enabled": False,
        "scope": "span",
        "judge": "lexicon",
        "prompt": {"system": make_spec().system, "user_template": hostile},
        "output_schema": CONTRACT.schema,
        "verdict_fields": {"label": "label", "reasoning": "reasoning", "confidence": "confidence"},
        "pass_labels": ["good"],
        "metadata": {"run": "run-1", "prompt_hash": "ab"},
        "revision": 1,
    }


@pytest.mark.parametrize("enabled", [True, 1, "false", None, "absent", 0])
def test_pu1_put_refuses_whatever_is_not_exactly_disabled(
    registry: LocalPublisher, tmp_path: Path, enabled: object
) -> None:
    config = {**registry.config(make_spec(), None), "enabled": enabled}
    if enabled == "absent":
        del config["enabled"]
    with pytest.raises(PublishError, match=r"the platform refused the write: .*PU-1"):
        registry.put("reply_quality", config)
    assert not _file(tmp_path).exists()


@pytest.mark.parametrize("enabled", [True, 1, "false", None, 0])
def test_pu3_an_enabled_evaluator_is_refused_everywhere(
    registry: LocalPublisher, tmp_path: Path, enabled: object
) -> None:
    _publish(registry)
    config = registry.config(make_spec(), registry.get("reply_quality"))
    _owner_edits(tmp_path, enabled=enabled)
    before = _file(tmp_path).read_bytes()
    with pytest.raises(SettingsError, match="is enabled"):
        registry.check("reply_quality", "support", "lexicon")
    with pytest.raises(SettingsError, match="is enabled"):
        registry.config(make_spec(), registry.get("reply_quality"))
    # Enabled between the check and the write: put looks again.
    with pytest.raises(SettingsError, match="is enabled"):
        registry.put("reply_quality", config)
    assert _file(tmp_path).read_bytes() == before


def test_pu3_an_evaluator_without_an_enabled_field_counts_as_enabled(registry: LocalPublisher, tmp_path: Path) -> None:
    _publish(registry)
    document = json.loads(_file(tmp_path).read_text())
    del document["enabled"]
    _file(tmp_path).write_text(json.dumps(document))
    with pytest.raises(SettingsError, match="is enabled"):
        registry.check("reply_quality", "support", "lexicon")


def test_pu3_another_apps_evaluator_is_refused(registry: LocalPublisher) -> None:
    _publish(registry)
    with pytest.raises(SettingsError, match="belongs to the app 'support', not to 'billing'"):
        registry.check("reply_quality", "billing", "lexicon")
    with pytest.raises(SettingsError, match="belongs to the app"):
        registry.config(make_spec(app="billing"), registry.get("reply_quality"))
    registry.check("reply_quality", "support", "lexicon")


def test_pu3_every_field_that_is_not_ours_is_kept(registry: LocalPublisher, tmp_path: Path) -> None:
    _publish(registry)
    document = json.loads(_file(tmp_path).read_text())
    document |= {"sampling_percentage": 5, "notes": {"owner": "Ann"}}
    document["prompt"]["library_template"] = "t1"
    document["metadata"]["ticket"] = "Q-7"
    _file(tmp_path).write_text(json.dumps(document))
    _publish(registry, system="New.", metadata={"run": "run-2"})
    stored = registry.get("reply_quality")
    assert stored is not None
    assert (stored["sampling_percentage"], stored["notes"]) == (5, {"owner": "Ann"})
    assert stored["prompt"] == {
        "system": "New.",
        "user_template": make_spec().user_template,
        "library_template": "t1",
    }
    assert stored["metadata"] == {"run": "run-2", "prompt_hash": "ab", "ticket": "Q-7"}
    assert stored["revision"] == 2


def test_put_is_a_full_replace(registry: LocalPublisher, tmp_path: Path) -> None:
    _publish(registry)
    _owner_edits(tmp_path, sampling_percentage=5)
    registry.put("reply_quality", registry.config(make_spec(), None))
    stored = registry.get("reply_quality")
    assert stored is not None
    assert "sampling_percentage" not in stored


def test_listing_is_by_app_and_does_not_go_through_get(
    registry: LocalPublisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(registry)
    _publish(registry, name="tone")
    _publish(registry, name="billing_tone", app="billing")
    (tmp_path / "publish/local/registry/broken.json").write_text('{"name": "broken", "app": "support"')
    (tmp_path / "publish/local/registry/list.json").write_text("[1]")
    monkeypatch.setattr(LocalPublisher, "get", lambda *_: pytest.fail("the listing read through get"))
    assert [entry["name"] for entry in registry.listing("support")] == ["reply_quality", "tone"]
    assert registry.listing("nobody") == []
    assert registry.listing("support")[0] == {
        "name": "reply_quality",
        "app": "support",
        "enabled": False,
        "scope": "span",
        "judge": "lexicon",
        "revision": 1,
    }


def test_listing_of_a_fresh_workspace_is_empty(registry: LocalPublisher) -> None:
    assert registry.listing("support") == []
    assert registry.get("reply_quality") is None


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "", ".", "a.json", "é", "a b", "x\n", "a\u202eb", "x" * 101, "registry", "Registry"]
)
def test_sc5_names_that_try_to_leave_are_refused(registry: LocalPublisher, tmp_path: Path, name: str) -> None:
    config = {**registry.config(make_spec(), None), "name": name}
    for attempt in (
        lambda: registry.check(name, "support", "lexicon"),
        lambda: registry.get(name),
        lambda: registry.put(name, config),
    ):
        with pytest.raises(SettingsError):
            attempt()
    assert list(tmp_path.rglob("*")) == []


@given(name=st.text(max_size=120))
def test_sc5_no_name_reaches_a_file_outside_the_registry(name: str) -> None:
    registry = LocalPublisher(Workspace(Path("/nonexistent/workspace")))
    try:
        path = registry._path(name)
    except SettingsError:
        return
    assert path.parent == Path("/nonexistent/workspace/publish/local/registry")
    assert path.suffix == ".json"


def test_names_that_differ_have_files_that_differ(registry: LocalPublisher) -> None:
    long = ["x" * 61, "x" * 62, "-x", "x"]
    assert len({registry._path(name) for name in long}) == len(long)


@pytest.mark.parametrize("app", ["", " ", "a\nb", "a\x1b[31m", "\u200b"])
def test_bad_app_names_are_refused(registry: LocalPublisher, app: str) -> None:
    with pytest.raises(SettingsError, match="not an app name"):
        registry.check("reply_quality", app, "lexicon")


def test_a_blank_judge_is_refused(registry: LocalPublisher) -> None:
    with pytest.raises(SettingsError, match="no judge"):
        registry.check("reply_quality", "support", " ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"name": "reply_quality",\n "enabled": nope}', "line 2: not strict JSON"),
        (b'{"enabled": true, "enabled": false, "name": "reply_quality"}', "appears twice"),
        (b'{"name": "other", "enabled": false}', "not the document of the evaluator"),
        (b"[]", "not the document of the evaluator"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_broken_registry_file_is_a_clear_error(
    registry: LocalPublisher, tmp_path: Path, content: bytes, message: str
) -> None:
    _file(tmp_path).parent.mkdir(parents=True)
    _file(tmp_path).write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        registry.check("reply_quality", "support", "lexicon")
    assert "reply_quality.json" in caught.value.message
    assert caught.value.hint is not None
    assert _file(tmp_path).read_bytes() == content


def test_put_under_another_name_is_refused(registry: LocalPublisher, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="name is not 'other'"):
        registry.put("other", registry.config(make_spec(), None))
    assert not _file(tmp_path, "other").exists()


def test_a_disk_that_cannot_be_written_is_a_refused_write(
    registry: LocalPublisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fitter.publishing.local.write_atomic", full)
    with pytest.raises(PublishError, match=r"refused the write: .*No space left"):
        _publish(registry)
    assert not _file(tmp_path).exists()
