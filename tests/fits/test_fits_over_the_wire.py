"""Whole fits through the vendors' own SDKs: judge, drafter, describer, proposer over loopback (SC-1 to SC-3, OUT-3)."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fitter.errors import RunError, Stopped
from tests.servers import fits, openai_api
from tests.servers.analyst import role_of, says
from tests.servers.loopback import Asked, Play, Server, spoil

ADVISORS = {"drafter", "describer", "grouper", "proposer"}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FITTER_TEST_KEY", fits.CANARY)


def roles(server: Server) -> Counter[str]:
    return Counter(role_of(asked.json) for asked in server.asked)


def check(workspace: Path, run: str = fits.RUN) -> str:
    """What must hold of every finished fit over a wire; its report."""
    fits.no_key_in(workspace)
    folder = workspace / "runs" / run
    report = (folder / "report.md").read_text()
    assert "Deployable score" in report
    receipt = json.loads((folder / "receipt.json").read_text())["receipt"]
    assert receipt["fields_different"] == 0
    ledger = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()][1:]
    assert {row["role"] for row in ledger} == {"judge", "drafter", "describer", "proposer"}
    assert sum(row["calls"] for row in ledger) == len(fits.calls(workspace))
    assert all(row["tokens"]["input"]["known"] > 0 for row in ledger)
    return report


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["openai", "chat", "anthropic"])
def test_the_practice_queue_is_fitted_through_a_vendors_sdk(tmp_path: Path, vendor: fits.Vendor) -> None:
    with Server(fits.script(vendor)) as server:
        outcome = fits.finish(tmp_path, fits.given(fits.model(vendor, server), runs=1, concurrency=16))
        assert outcome.exit_code == 0
        made = roles(server)
        assert len(server.asked) == len(fits.calls(tmp_path))  # nothing was asked that is not on record, and vice versa
    assert made["probe"] == 1
    assert {role for role in ADVISORS if made[role]} == ADVISORS
    check(tmp_path)


@pytest.mark.slow
def test_judge_and_advisors_may_stand_on_two_vendors(tmp_path: Path) -> None:
    stack, (one, two) = fits.serving(fits.script("openai"), fits.script("anthropic"))
    with stack:
        judge, advisors = fits.model("openai", one), fits.model("anthropic", two)
        advisors["options"]["temperature"] = 0.7
        judge["options"]["temperature"] = 0.0
        fits.finish(tmp_path, fits.given(judge, advisors, runs=1, concurrency=16))
        assert set(roles(one)) == {"probe", "judge"}
        assert roles(two)["probe"] == 1
        assert roles(two)["judge"] == 0
        assert {asked.json.get("temperature") for asked in one.asked} == {0.0}
        assert {asked.json.get("temperature") for asked in two.asked} == {0.7}  # each model has its own settings
    report = check(tmp_path)
    assert "are different models" in report
    instrument = json.loads((tmp_path / "runs" / fits.RUN / "instrument.json").read_text())
    assert set(instrument["clients"]) == {"judge", "advisors"}


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_the_code_review_queue_is_fitted_through_a_vendors_sdk(
    tmp_path: Path, vendor: fits.Vendor, shared_data: Path
) -> None:
    text = "Generated review"
    columns = {"input": text, "output": text, "label": "Expert label", "reason": "Expert comment"}
    with Server(fits.script(vendor)) as server:
        given = fits.given(
            fits.model(vendor, server), queue=str(shared_data / "code_review" / "code_review.csv"), columns=columns,
            goal="Tell useful reviews from useless ones", label=None, name="code_review_quality", app="code-review",
            scope=None, runs=3, concurrency=16,
        )  # fmt: skip
        outcome = fits.finish(tmp_path, given, "code_review_quality-001")
        assert outcome.exit_code in (0, 3)
    folder = tmp_path / "runs" / "code_review_quality-001"
    assert json.loads((folder / "holdout.json").read_text())["opened"] is True
    assert (folder / "decisions" / "001.json").is_file()
    fits.no_key_in(tmp_path)


def test_a_refused_schema_and_temperature_are_settled_once_before_v0(tmp_path: Path) -> None:
    from tests.advisors.test_advisors_in_the_loop import RUN, small

    refuses = {"json_schema": "response_format json_schema is not supported", "temperature": "Unsupported: temperature"}

    with Server(openai_api.api(openai_api.Model(says=says, refuses=refuses))) as server:
        settings = small(tmp_path, server, max_iterations=1)
        options = {**settings.judge_options, "temperature": 0.0}
        fits.finish(tmp_path / "ws", settings.with_answers({"judge_options": options}), RUN)
        forms = [asked.json.get("response_format", {}).get("type") for asked in server.asked]
        assert (
            sum(
                "temperature" in asked.json or form == "json_schema"
                for asked, form in zip(server.asked, forms, strict=True)
            )
            == 2
        )  # met in the probe, never in a measured pass
        assert set(forms[2:]) == {"json_object"}
    record = json.loads((tmp_path / "ws" / "runs" / RUN / "instrument.json").read_text())["clients"]["judge"]
    assert record["instrument"]["temperature"] == "refused"
    assert record["instrument"]["schema_mode"] == "json_object"
    assert sorted(feature for feature, _ in record["refused"]) == ["schema", "temperature"]


def flaky(script: Any, seed: int, share: float) -> Any:
    """A script whose every request fails with a probability, in one of the ways that networks and providers fail."""
    chance = random.Random(seed)

    def spoilt(asked: Asked) -> Play:
        play = script(asked)
        if chance.random() >= share:
            return play
        return chance.choice(
            [
                lambda: spoil(play, status=503, body=b"busy"),
                lambda: spoil(play, status=500, body=b"\xff\xfe\x00"),
                lambda: spoil(play, status=429, body=b"{}", headers={"retry-after": "0"}),
                lambda: spoil(play, status=408, body=b""),
                lambda: spoil(play, ending="reset", no_answer=True),
                lambda: spoil(play, ending="close", stop_after=20),
                lambda: spoil(play, ending="close", no_answer=True),
                lambda: spoil(play, body=b"<html>502 Bad Gateway</html>", status=502),
            ]
        )()

    return spoilt


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["chat", "anthropic"])
def test_out3_a_fit_on_a_network_that_fails_30_percent_decides_the_same(tmp_path: Path, vendor: fits.Vendor) -> None:
    port = 0

    def fit(name: str, script: Any) -> tuple[int, Counter[bytes]]:
        nonlocal port
        stops = 0
        with Server(script, port=port) as server:
            port = server.port  # the model's URL is part of the config, and so of every seed
            model = fits.model(vendor, server)
            model["options"]["attempts"] = 3
            given = fits.given(model, runs=1, concurrency=16, max_iterations=1)
            while True:
                try:
                    fits.finish(tmp_path / name, given)
                    break
                except Stopped:
                    stops += 1
                    if stops == 30:
                        raise
            return stops, Counter(asked.body for asked in server.asked)

    _, plain = fit("plain", fits.script(vendor))
    stops, asked = fit("flaky", flaky(fits.script(vendor), zlib.crc32(vendor.encode()), 0.3))
    assert stops >= 1  # three attempts fail together now and then: the run stops, and is resumed
    assert set(asked) == set(plain)
    assert sum(asked.values()) > 1.3 * sum(plain.values())
    assert fits.decisions(tmp_path / "flaky") == fits.decisions(tmp_path / "plain")
    fits.no_key_in(tmp_path / "flaky")


@pytest.mark.slow
def test_spoilt_replies_all_through_a_fit_end_as_reason_codes_never_as_a_crash(tmp_path: Path) -> None:
    chance = random.Random(7)

    def spoilt(body: Any) -> str:
        text = says(body)
        ways = [
            f"```json\n{text}\n```", text + text, text[: len(text) // 2], text.replace("{", '{"label":"bad",', 1),
            f"Here: {text}", "", "null", text.replace("}", ', "more": NaN}'), "\ufffd", text.upper(), "[" * 200,
        ]  # fmt: skip
        return chance.choice(ways) if role_of(body) != "drafter" and chance.random() < 0.3 else text

    with Server(fits.script("chat", answers=spoilt)) as server:
        outcome = fits.finish(
            tmp_path, fits.given(fits.model("chat", server), runs=1, concurrency=16, max_iterations=2)
        )
    assert outcome.exit_code in (0, 3)
    passes = (tmp_path / "runs" / fits.RUN / "passes" / "000.jsonl").read_text()
    reasons = {json.loads(line).get("unusable") for line in passes.splitlines()[1:]}
    first = {json.loads(line).get("first_fault") for line in passes.splitlines()[1:]}
    assert reasons - {None}
    assert len(first) >= 5
    fits.no_key_in(tmp_path)


def test_sc3_the_environment_that_holds_the_key_is_the_tests_own() -> None:
    assert os.environ["FITTER_TEST_KEY"] == fits.CANARY


def test_out2_the_report_says_how_the_models_were_called(tmp_path: Path) -> None:
    from tests.advisors.test_advisors_in_the_loop import RUN, small

    refuses = {"temperature": "Unsupported parameter: temperature"}
    with Server(openai_api.api(openai_api.Model(says=says, refuses=refuses, name="gpt-5.4-mini-2026-03-01"))) as server:
        settings = small(tmp_path, server, max_iterations=0)
        options = {**settings.judge_options, "temperature": 0.0}
        fits.finish(tmp_path / "ws", settings.with_answers({"judge_options": options}), RUN)
        url = server.url
    report = (tmp_path / "ws" / "runs" / RUN / "report.md").read_text()
    section = report.split("## Instrument", 1)[1].split("\n## ", 1)[0]
    assert f"Judge: `openai:gpt-5.4-mini@{url}/v1`, answered by `gpt-5.4-mini-2026-03-01`." in section
    assert "Schema mode: JSON Schema; output cap parameter: `max_tokens`; temperature: refused." in section
    assert "Not temperature-pinned: the provider refuses the parameter." in section
    assert "Refused by the provider in the probe, and never sent again: temperature." in section
    assert "every figure here was measured with this one instrument" in section
    assert "share a model" in report


def test_out2_another_model_in_the_middle_of_a_fit_stops_the_run(tmp_path: Path) -> None:
    from tests.advisors.test_advisors_in_the_loop import ROWS, small

    model = openai_api.Model(says=says)
    steady = openai_api.api(model)

    def script(asked: Asked) -> Play:
        if asked.number == len(ROWS) + 1:  # after the probe and v0's passes
            model.name = "something-else"
        return steady(asked)

    with Server(script) as server:
        settings = small(tmp_path, server, max_iterations=1, proposer="lexicon")
        with pytest.raises(RunError, match="another model answered 12 of 12 passes during candidate"):
            fits.finish(tmp_path / "ws", settings, "small-001")
