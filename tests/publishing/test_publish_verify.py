"""PU-4 against platforms that lie: a write's status proves nothing, only what is read afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fitter.errors import Outage, PublishError, SettingsError
from fitter.jsonio import sha256
from fitter.publishing.diff import diff_fields, enabled_at
from fitter.publishing.local import LocalPublisher
from fitter.publishing.publisher import Publisher
from fitter.publishing.verify import Patience, Receipt, closing_lines, publish_and_verify, receipt_folder
from fitter.workspace import Workspace
from tests.publishing.publishing_kit import REFUSED, FakePlatform, make_spec


class Naps:
    """A sleep that only counts."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def _publish(platform: Publisher, folder: Path, naps: Naps | None = None, **changes: Any) -> Receipt:
    patience = Patience(tries=4, wait_s=2.0, sleep=naps or Naps())
    return publish_and_verify(platform, make_spec(**changes), receipt_dir=folder, run_id="run-1", patience=patience)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_pu4_done_means_read_back_equal_and_listed(tmp_path: Path) -> None:
    platform = FakePlatform()
    receipt = _publish(platform, tmp_path)
    assert set(_files(tmp_path)) == {"sent.json", "read_back.json", "diff.json", "listing.json", "receipt.json"}
    assert _read(tmp_path, "sent.json") == platform.puts[0]
    assert _read(tmp_path, "read_back.json") == platform.store["reply_quality"]
    diff = _read(tmp_path, "diff.json")
    assert diff["different"] == 0
    assert {row["field"] for row in diff["fields"]} >= {"/target/enabled", "/prompt_template/1/content"}
    written = _read(tmp_path, "receipt.json")
    assert written == receipt.to_json()
    assert (written["enabled"], written["listed"], written["fields_compared"]) == (False, True, len(diff["fields"]))
    for name, digest in written["sha256"].items():
        assert digest == sha256((tmp_path / name).read_bytes())


def test_pu1_what_is_sent_is_disabled(tmp_path: Path) -> None:
    platform = FakePlatform()
    _publish(platform, tmp_path)
    assert [config["target"]["enabled"] for config in platform.puts] == [False]


def _stores(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda config: {**config, **changes}


def _enables(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "target": {**config["target"], "enabled": True}}


def _drops_prompt(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "prompt_template"}


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        pytest.param(FakePlatform(on_put=lambda _: None), "does not have it when it is read back", id="not stored"),
        pytest.param(
            FakePlatform(on_put=_stores(eval_name="Reply_Quality")), r"/eval_name \(different\)", id="other value"
        ),
        pytest.param(FakePlatform(on_put=_drops_prompt), r"/prompt_template/0/content \(missing\)", id="empty shell"),
        pytest.param(FakePlatform(on_put=_stores(model="gpt")), r"/model \(unexpected\)", id="field added"),
        pytest.param(FakePlatform(on_put=_enables), "ENABLED", id="stored enabled"),
        pytest.param(FakePlatform(listed_after=None), "does not list .* after 4 looks", id="never listed"),
        pytest.param(FakePlatform(listed_after=4), "does not list", id="listed too late"),
        pytest.param(FakePlatform(listing_change={"enabled": True}), "lists .* ENABLED", id="listed enabled"),
        pytest.param(FakePlatform(put_raises=REFUSED), "the platform refused the write: 403", id="put raises"),
    ],
)
def test_pu4_a_fault_is_never_a_receipt(tmp_path: Path, platform: FakePlatform, message: str) -> None:
    with pytest.raises(PublishError, match=message) as caught:
        _publish(platform, tmp_path)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "receipt.json").exists()
    # PU-2: what is left can be pasted as it stands, and it is disabled.
    config = _read(tmp_path, "config.json")
    assert config == platform.puts[0]
    assert config["target"]["enabled"] is False
    assert caught.value.hint is not None
    assert str(tmp_path / "config.json") in caught.value.hint
    assert "was not published" in (tmp_path / "how_to_publish.md").read_text()


def test_pu4_a_listing_that_does_not_show_the_switch_is_enough(tmp_path: Path) -> None:
    receipt = _publish(FakePlatform(listing_change={"enabled": None}), tmp_path)
    assert receipt.to_json()["listed"] is True


def test_pu4_a_difference_is_written_down_with_both_values(tmp_path: Path) -> None:
    with pytest.raises(PublishError):
        _publish(FakePlatform(on_put=_stores(eval_name="other")), tmp_path)
    wrong = [row for row in _read(tmp_path, "diff.json")["fields"] if row["state"] != "equal"]
    assert wrong == [{"field": "/eval_name", "state": "different", "sent": "reply_quality", "read_back": "other"}]


def test_pu4_waits_with_bounded_patience_for_read_back_and_listing(tmp_path: Path) -> None:
    naps = Naps()
    platform = FakePlatform(read_after=2, listed_after=3)
    _publish(platform, tmp_path, naps)
    assert len(platform.puts) == 1
    assert naps.taken == [2.0] * 5
    never = Naps()
    with pytest.raises(PublishError):
        _publish(FakePlatform(listed_after=None), tmp_path, never)
    assert never.taken == [2.0] * 3


def test_pu4_a_write_that_failed_but_happened_counts(tmp_path: Path) -> None:
    _publish(FakePlatform(put_raises=PublishError("gateway timeout"), stores_first=True), tmp_path)
    assert (tmp_path / "receipt.json").exists()


def test_outage_stays_resumable_and_leaves_the_config(tmp_path: Path) -> None:
    platform = FakePlatform(put_raises=Outage("no answer"))
    with pytest.raises(Outage, match="no answer") as caught:
        _publish(platform, tmp_path)
    assert caught.value.exit_code == 4
    assert (tmp_path / "config.json").exists()
    platform.put_raises = None
    _publish(platform, tmp_path)
    assert set(_files(tmp_path)) == {"sent.json", "read_back.json", "diff.json", "listing.json", "receipt.json"}


def test_pu1_a_config_that_could_enable_is_never_sent(tmp_path: Path) -> None:
    platform = FakePlatform()
    platform.store["reply_quality"] = {"alerts": {"enabled": True}, "target": {}}
    with pytest.raises(PublishError, match="not disabled at /alerts/enabled; nothing was written"):
        _publish(platform, tmp_path)
    assert platform.puts == []
    assert enabled_at(_read(tmp_path, "config.json")) is None


def test_pu3_unknown_fields_of_the_existing_evaluator_are_sent_again(tmp_path: Path) -> None:
    platform = FakePlatform()
    platform.store["reply_quality"] = {"eval_name": "reply_quality", "category": "Custom", "target": {"filter": "@a:b"}}
    _publish(platform, tmp_path)
    assert platform.puts[0]["category"] == "Custom"
    assert platform.puts[0]["target"]["filter"] == "@a:b"


@pytest.mark.parametrize("sends_back", [False, True])
def test_lo7_what_is_already_there_is_only_verified(tmp_path: Path, sends_back: bool) -> None:
    platform = FakePlatform(sends_back=sends_back)
    _publish(platform, tmp_path)
    before = _files(tmp_path)
    _publish(platform, tmp_path)
    assert len(platform.puts) == 1
    assert _files(tmp_path) == before


class Killed(BaseException):
    """Stands for SIGKILL: no handler runs."""


@pytest.mark.parametrize("step", range(7))
def test_lo7_killed_anywhere_the_same_call_finishes_with_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    whole = tmp_path / "whole"
    _publish(LocalPublisher(Workspace(whole)), whole / "receipt")

    import fitter.publishing.local as local
    import fitter.publishing.verify as verify

    writes = 0
    real = verify.write_atomic

    def dying(path: Path, data: str | bytes, **options: Any) -> None:
        nonlocal writes
        if writes == step:
            raise Killed
        writes += 1
        real(path, data, **options)

    cut = tmp_path / "cut"
    with monkeypatch.context() as patch:
        patch.setattr(verify, "write_atomic", dying)
        patch.setattr(local, "write_atomic", dying)
        if step < 6:
            with pytest.raises(Killed):
                _publish(LocalPublisher(Workspace(cut)), cut / "receipt")
        else:
            _publish(LocalPublisher(Workspace(cut)), cut / "receipt")
    assert writes == step
    _publish(LocalPublisher(Workspace(cut)), cut / "receipt")
    assert _files(cut / "receipt") == _files(whole / "receipt")
    assert _files(cut / "publish/local/registry") == _files(whole / "publish/local/registry")


def test_a_later_publication_replaces_the_failed_ones_leftovers(tmp_path: Path) -> None:
    platform = FakePlatform(put_raises=REFUSED)
    with pytest.raises(PublishError):
        _publish(platform, tmp_path)
    platform.store["reply_quality"] = _read(tmp_path, "config.json") | {"updated_at": 9}
    receipt = _publish(platform, tmp_path)
    assert len(platform.puts) == 1, "pasted by hand: it is verified, not written again"
    assert receipt.compared > 0
    assert "config.json" not in _files(tmp_path)


def test_sent_records_what_stands_when_a_hand_made_evaluator_is_adopted(tmp_path: Path) -> None:
    platform = FakePlatform(put_raises=REFUSED)
    with pytest.raises(PublishError):
        _publish(platform, tmp_path)
    platform.store["reply_quality"] = _read(tmp_path, "config.json") | {"category": "Custom"}
    _publish(platform, tmp_path)
    assert _read(tmp_path, "sent.json")["category"] == "Custom"


def test_pu3_enabled_since_intake_is_refused_and_the_config_is_kept(tmp_path: Path) -> None:
    registry = LocalPublisher(Workspace(tmp_path))
    folder = receipt_folder(Workspace(tmp_path), "local", "reply_quality", "run-1")
    _publish(registry, folder)
    path = tmp_path / "publish/local/registry/reply_quality.json"
    path.write_text(path.read_text().replace('"enabled": false', '"enabled": true'))
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="is enabled") as caught:
        _publish(registry, folder, system="New.")
    assert path.read_bytes() == before
    assert "config.json" in (caught.value.hint or "")
    assert _read(folder, "config.json")["enabled"] is False


def test_a_receipt_that_cannot_be_written_is_an_unfinished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fitter.publishing.verify as verify

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verify, "write_atomic", full)
    with pytest.raises(PublishError, match="No space left on device") as caught:
        _publish(FakePlatform(), tmp_path)
    assert "could not be left" in (caught.value.hint or "")


def test_receipts_hold_no_clock_and_no_absolute_path(tmp_path: Path) -> None:
    folder = receipt_folder(Workspace(tmp_path), "local", "reply_quality", "run-1")
    assert folder == tmp_path / "publish" / "local" / "reply_quality" / "run-1"
    _publish(LocalPublisher(Workspace(tmp_path)), folder)
    for name, content in _files(folder).items():
        assert str(tmp_path).encode() not in content, name


def test_pu6_last_lines_name_the_evaluator_its_page_and_that_it_is_disabled(tmp_path: Path) -> None:
    lines = closing_lines(_publish(FakePlatform(), tmp_path))
    assert lines == [
        "evaluator: reply_quality (app support)",
        "evaluations page: https://platform.invalid/evaluations",
        "disabled: it scores nothing until you enable it",
    ]


def test_pu1_the_local_receipt_says_that_it_is_a_rehearsal(tmp_path: Path) -> None:
    receipt = _publish(LocalPublisher(Workspace(tmp_path)), tmp_path / "receipt")
    assert "rehearsal" in closing_lines(receipt)[0]
    assert closing_lines(receipt)[-1] == "disabled: it scores nothing until you enable it"
    written = _read(tmp_path / "receipt", "receipt.json")
    assert written["rehearsal"] is True
    assert "rehearsal" in written["statement"]


def test_diff_is_type_strict_and_leaf_by_leaf() -> None:
    sent = {"a": {"b": [1, {"c": True}], "e": {}}, "gone": None, "x/y~": "s"}
    back = {"a": {"b": [1.0, {"c": 1}], "e": {}}, "new": [], "x/y~": "s"}
    assert [(row.field, row.state) for row in diff_fields(sent, back)] == [
        ("/a/b/0", "different"),
        ("/a/b/1/c", "different"),
        ("/a/e", "equal"),
        ("/gone", "missing"),
        ("/new", "unexpected"),
        ("/x~1y~0", "equal"),
    ]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"enabled": False, "target": {"enabled": False}}, None),
        ({"target": {"enabled": "false"}}, "/target/enabled"),
        ({"list": [{"enabled": None}]}, "/list/0/enabled"),
        ({"schema": {"properties": {"enabled": {"type": "boolean"}}}}, None),
        ({"schema": {"properties": {"enabled": {"enabled": True}}}}, "/schema/properties/enabled/enabled"),
    ],
)
def test_pu1_a_switch_that_is_not_off_is_found_at_any_depth(document: dict[str, Any], where: str | None) -> None:
    assert enabled_at(document) == where
