"""A full fit of a Datadog queue, published to Datadog, as a user runs it: two roads, one result; faults end clearly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Ended, cli
from tests.datadog import fit_kit as kit
from tests.datadog.fit_kit import NAME, PAGE, RUN
from tests.servers.datadog import StandIn
from tests.servers.loopback import Server


@pytest.fixture(scope="module")
def model() -> Iterator[Server]:
    with kit.vendor() as server:
        yield server


def after(workspace: Path, stand_in: StandIn, *argv: object, **more: str) -> Ended:
    return cli("--workspace", workspace, *argv, env=kit.env(stand_in, **more))


# -- the whole job --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, model: Server) -> dict[str, dict[str, Any]]:
    """The same fit over both roads, each against an organisation of its own; made once for the tests below."""
    made: dict[str, dict[str, Any]] = {}
    with StandIn() as server:
        began = server.world.now
        for backend in ("rest", "mcp"):
            server.reset()
            server.world.now = began  # the spans of both worlds are recorded at the same time
            kit.nightly(server, other_app=3)
            server.world.evaluator("older", kit.APP)
            server.switches.echo_keys_in_errors = True
            workspace = tmp_path_factory.mktemp(backend) / "ws"
            ended = kit.fit(workspace, server, model, backend=backend, max_iterations="2")
            made[backend] = {
                "ended": ended,
                "workspace": workspace,
                "stored": json.loads(json.dumps(server.world.evaluators[NAME])) if ended.code == 0 else None,
                "violations": list(server.violations),
                "reads": [r.method for r in server.requests if "annot" in r.path],
                "tools": [tool for tool, _ in server.tool_calls],
                "verified": after(workspace, server, "verify", NAME),
                "replayed": after(workspace, server, "replay", RUN),
            }
    return made


@pytest.mark.parametrize("backend", ["rest", "mcp"])
def test_pu6_a_full_fit_ends_with_a_disabled_evaluator_and_the_three_lines(both: Any, backend: str) -> None:
    found = both[backend]
    assert found["ended"].code == 0, found["ended"].all
    assert found["violations"] == []
    assert found["ended"].out.rstrip().splitlines()[-3:] == [
        f"evaluator: {NAME} (app {kit.APP})",
        f"evaluations page: {PAGE}",
        "disabled: it scores nothing until you enable it",
    ]


@pytest.mark.parametrize("backend", ["rest", "mcp"])
def test_pu4_both_receipts_show_it_read_back_listed_and_disabled(both: Any, backend: str) -> None:
    workspace = both[backend]["workspace"]
    receipt = kit.receipt(workspace)
    assert (receipt["enabled"], receipt["listed"], receipt["fields_different"]) == (False, True, 0)
    assert receipt["fields_compared"] > 20
    assert receipt["page"] == PAGE
    assert receipt["rehearsal"] is False
    folder = workspace / "publish" / "datadog" / NAME / RUN
    back = json.loads((folder / "read_back.json").read_text())
    assert back["target"]["enabled"] is False
    assert json.loads((folder / "listing.json").read_text())["entry"]["name"] == NAME
    stored = both[backend]["stored"]
    version = kit.read(workspace, "runs", RUN, "prompts", f"{int(receipt['metadata']['version']):03d}.json")
    sent = [turn["content"] for turn in stored["llm_judge_config"]["prompt_template"]]
    assert sent == [version["prompt"]["system"], version["prompt"]["user_template"]]  # to the byte


def test_both_roads_come_to_the_same_decisions_byte_for_byte(both: Any) -> None:
    rest, mcp = kit.decided(both["rest"]["workspace"]), kit.decided(both["mcp"]["workspace"])
    assert any(name.startswith("decisions/") for name in rest)
    assert any(name.startswith("cards/holdout") for name in rest)
    assert rest == mcp
    hashes = {kit.read(both[b]["workspace"], "runs", RUN, "config.json")["config_hash"] for b in both}
    assert len(hashes) == 1, "the backend is no part of what is measured"


def test_gt1_each_road_was_really_taken_and_none_wrote_to_the_queue(both: Any) -> None:
    assert set(both["rest"]["reads"]) == {"GET"}
    assert both["rest"]["tools"] == []
    assert "get_llmobs_annotated_interactions" in both["mcp"]["tools"]
    assert both["mcp"]["reads"] == []


@pytest.mark.parametrize("backend", ["rest", "mcp"])
def test_the_published_evaluator_verifies_and_the_run_replays(both: Any, backend: str) -> None:
    verified, replayed = both[backend]["verified"], both[backend]["replayed"]
    assert verified.code == 0, verified.all
    assert "0 differ" in verified.out
    assert replayed.code == 0, replayed.all
    assert "nothing differs" in replayed.out


@pytest.mark.parametrize("backend", ["rest", "mcp"])
def test_pu5_the_report_names_every_gap_and_scores_the_rows_that_would_be_seen(both: Any, backend: str) -> None:
    report = (both[backend]["workspace"] / "runs" / RUN / "report.md").read_text()
    section = report.partition("## Fidelity gaps")[2].partition("\n## ")[0]
    for code in ("renderer", "confidence_field", "no_retry", "model", "static_system", "filter_hides_rows", "sampling",
                 "seen_rows", "platform", "variables"):  # fmt: skip
        assert f"- {code}" in section, code
    assert "hides 3 labelled rows" in section
    deployed = kit.read(both[backend]["workspace"], "runs", RUN, "deployed.json")
    seen = deployed["seen"]
    assert sum(side["labelled"] - side["seen"] for side in seen.values()) == 3
    for side in seen.values():
        if side["seen"] < side["labelled"]:
            assert side["score"]["deployable"]["coverage"] == 1.0
            assert f"see {side['seen']} of {side['labelled']} labelled rows; on those alone" in section
    assert deployed["deployed"]["parameters"]["temperature"] == 0
    assert "- parameters" not in section  # measured and deployed with the same temperature


def test_lo1_what_the_platform_uses_and_says_is_told_before_any_spend(both: Any) -> None:
    told = both["rest"]["ended"].err.partition("run reply_quality-001")[0]
    assert "existing evaluators use {{meta.metadata.topic}} (1), {{span_input}} (1)" in told
    assert "Datadog does not call that server" in told
    assert "did not list its openai accounts" not in told
    assert "did not list its openai accounts" in both["mcp"]["ended"].err.partition("run reply_quality-001")[0]


@pytest.mark.parametrize("backend", ["rest", "mcp"])
def test_sc3_no_key_of_platform_or_vendor_is_in_any_artefact(both: Any, backend: str) -> None:
    found = both[backend]
    secrets = [kit.VENDOR_KEY, *(v for k, v in StandIn().env().items() if k.endswith("KEY"))]
    assert len(secrets) == 3
    texts = {"out": found["ended"].out.encode(), "err": found["ended"].err.encode()}
    texts |= {str(p): p.read_bytes() for p in found["workspace"].rglob("*") if p.is_file()}
    assert any(name.endswith("calls.sqlite") for name in texts)
    for name, data in texts.items():
        for secret in secrets:
            assert secret.encode() not in data, name
            assert secret[8:24].encode() not in data, name


def test_sc4_the_tracked_half_holds_no_customer_text(both: Any) -> None:
    for found in both.values():
        tracked = [p for p in found["workspace"].rglob("*") if p.is_file() and "private" not in p.parts]
        tracked = [p for p in tracked if not p.name.startswith(("calls.sqlite", "state.sqlite"))]
        assert len(tracked) > 30
        for path in tracked:
            assert b"How do I reset box" not in path.read_bytes(), path


# -- before any spend -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "world", "words"),
    [
        ({"backend": None}, {}, "--backend"),
        ({"backend": "soap"}, {}, "backend"),
        ({"judge": "lexicon"}, {}, "cannot run the embedded judge lexicon"),
        ({"since": "yesterday"}, {}, "is no time"),
        ({"queue": 'datadog:"Nightly revue"'}, {}, "there is no Datadog queue"),
        ({}, {"no_account": True}, "no openai integration"),
        ({}, {"model": "gpt-other"}, "offers the model"),
        ({}, {"enabled": True}, "is enabled on Datadog"),
        ({}, {"app": "billing"}, "belongs to the app 'billing'"),
    ],
)
def test_lo1_what_cannot_work_is_refused_before_any_model_call(
    stand_in: StandIn, model: Server, tmp_path: Path, changes: dict[str, Any], world: dict[str, Any], words: str
) -> None:
    kit.nightly(stand_in, 24)
    if world.get("no_account"):
        stand_in.world.accounts.clear()
    if "model" in world:
        stand_in.world.accounts.clear()
        stand_in.world.account("openai", world["model"])
    if "enabled" in world or "app" in world:
        stand_in.world.evaluator(NAME, world.get("app", kit.APP), enabled=world.get("enabled", False))
    asked = len(model.asked)
    ended = kit.fit(tmp_path / "ws", stand_in, model, **changes)
    assert ended.code == 2, ended.all
    assert words in ended.err
    assert len(model.asked) == asked
    assert not (tmp_path / "ws" / "runs").exists()


@pytest.mark.parametrize("backend", ["rest", "mcp"])
def test_an_unauthenticated_road_is_one_clear_error_and_nothing_falls_back(
    stand_in: StandIn, model: Server, tmp_path: Path, backend: str
) -> None:
    kit.nightly(stand_in, 24)
    stand_in.switches.forbidden = True
    ended = kit.fit(tmp_path / "ws", stand_in, model, backend=backend)
    assert ended.code == 2, ended.all
    assert ended.err.count("error:") == 1
    roads = {"mcp" if "mcp" in request.path else "rest" for request in stand_in.requests}
    assert roads == {backend}


def test_keys_are_asked_for_by_name(stand_in: StandIn, model: Server, tmp_path: Path) -> None:
    ended = kit.fit(tmp_path / "ws", stand_in, model, env_={"FITTER_TEST_KEY": kit.VENDOR_KEY})
    assert ended.code == 2
    assert "DD_API_KEY" in ended.err
    assert stand_in.requests == []


def test_options_of_a_platform_that_is_not_used_are_refused(stand_in: StandIn, model: Server, tmp_path: Path) -> None:
    kit.nightly(stand_in, 24)
    ended = kit.fit(tmp_path / "a", stand_in, model, queue="practice", publish_to="local", label="policy_verdict")
    assert ended.code == 2
    assert "neither the queue nor --publish-to is Datadog" in ended.err
    ended = kit.fit(tmp_path / "b", stand_in, model, toml="[datadog]\nsampling_percentage = 20\n", publish_to="local")
    assert ended.code == 2
    assert "[datadog] is for --publish-to datadog" in ended.err
    ended = kit.fit(tmp_path / "c", stand_in, model, toml='[datadog]\npass_labels = ["great"]\n')
    assert ended.code == 2
    assert "pass_labels: great is no value of the label" in ended.err


def test_ev3_replicator_is_told_that_rows_carry_no_app_fields(stand_in: StandIn, model: Server, tmp_path: Path) -> None:
    kit.nightly(stand_in, 24)
    ended = kit.fit(tmp_path / "ws", stand_in, model, "--dry-run", framing="replicator")
    assert ended.code == 0, ended.all
    assert "does not say what the app's own verdict step wrote" in ended.err


def test_a_queue_is_read_once_and_not_at_all_before_every_flag_is_there(
    stand_in: StandIn, model: Server, tmp_path: Path
) -> None:
    kit.nightly(stand_in, 24)
    ended = kit.fit(tmp_path / "a", stand_in, model, goal=None)
    assert ended.code == 2
    assert "--goal" in ended.err
    assert stand_in.requests == []
    kit.fit(tmp_path / "b", stand_in, model, "--dry-run")
    assert len(stand_in.calls("GET", "annotated-interactions")) == 1


# -- the write ------------------------------------------------------------------------------------------------------


def small(stand_in: StandIn, model: Server, workspace: Path, **changes: Any) -> Ended:
    """As little of a fit as reaches the write."""
    kit.nightly(stand_in, 24)
    return kit.fit(workspace, stand_in, model, max_iterations="0", **changes)


patient = pytest.mark.slow  # six looks, two seconds apart
FAULTS = [
    ("rest", "versioned", True, "can only be edited from the LLM Observability UI; nothing landed"),
    ("mcp", "discard_draft", True, "the platform refused the write: an unpublished draft exists"),
    pytest.param("rest", "write_lost", True, "does not have it when it is read back", marks=patient),
    pytest.param(
        "rest",
        "lands_changed",
        {"target.sampling_percentage": 50},
        "/target.sampling_percentage (different)",
        marks=patient,
    ),
    pytest.param("mcp", "list_lag", -1, "does not list", marks=patient),
]


@pytest.mark.parametrize(("backend", "switch", "value", "words"), FAULTS)
def test_pu2_a_write_that_fails_leaves_an_unfinished_run_and_a_config_and_can_be_finished(
    stand_in: StandIn, model: Server, tmp_path: Path, backend: str, switch: str, value: Any, words: str
) -> None:
    workspace = tmp_path / "ws"
    setattr(stand_in.switches, switch, value)
    ended = small(stand_in, model, workspace, backend=backend)
    assert ended.code == 1, ended.all
    assert words in ended.err
    assert f"resume {RUN}` goes on" in ended.err
    assert "`fitter publish` can finish it" in ended.err
    folder = workspace / "publish" / "datadog" / NAME / RUN
    assert not (folder / "receipt.json").exists()
    pasted = json.loads((folder / "config.json").read_text())
    assert pasted["target"]["enabled"] is False
    assert pasted["llm_judge_config"]["prompt_template"][0]["role"] == "system"
    assert RUN in after(workspace, stand_in, "runs").out
    assert "unfinished" in after(workspace, stand_in, "runs").out
    asked = len(model.asked)

    vars(stand_in.switches)[switch] = type(value)()  # mended
    if switch == "lands_changed":
        stand_in.world.evaluators.clear()
    if switch == "list_lag":
        stand_in.registry.reset()
    if switch == "versioned":  # the other way to finish, over the other road
        finished = after(workspace, stand_in, "publish", RUN, "--to", "datadog", "--backend", "mcp")
    else:
        finished = after(workspace, stand_in, "resume", RUN)
    assert finished.code == 0, finished.all
    assert finished.out.rstrip().endswith("disabled: it scores nothing until you enable it")
    assert kit.receipt(workspace)["listed"] is True
    assert len(model.asked) == asked, "nothing is measured again"
    assert "published" in after(workspace, stand_in, "runs").out
    assert after(workspace, stand_in, "replay", RUN).code == 0
    assert after(workspace, stand_in, "resume", RUN).code == 0


@patient
def test_pu1_a_platform_that_enables_what_was_sent_disabled_is_an_alarm(
    stand_in: StandIn, model: Server, tmp_path: Path
) -> None:
    stand_in.switches.lands_changed = {"target.enabled": True}
    ended = small(stand_in, model, tmp_path / "ws")
    assert ended.code == 1, ended.all
    assert "ENABLED" in ended.err
    assert PAGE in ended.err
    assert stand_in.violations == []
    assert not (tmp_path / "ws" / "publish" / "datadog" / NAME / RUN / "receipt.json").exists()


# -- afterwards -----------------------------------------------------------------------------------------------------

TABLE = """
[datadog]
sampling_percentage = 25
filter = "env:prod"
root_spans_only = true
max_tokens = 900
pass_labels = ["good"]
"""


def test_publish_verify_and_fidelity(stand_in: StandIn, model: Server, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    ended = small(stand_in, model, workspace, toml=TABLE)
    assert ended.code == 0, ended.all
    stored = stand_in.world.evaluators[NAME]
    assert (
        stored["target"] | {"sampling_percentage": 25, "filter": "env:prod", "root_spans_only": True}
        == stored["target"]
    )
    assert stored["llm_judge_config"]["inference_params"] == {"temperature": 0, "max_tokens": 900}
    assert stored["llm_judge_config"]["assessment_criteria"] == {"pass_values": ["good"]}
    receipt = kit.receipt(workspace)

    # publish: only where the measured prompt is the prompt that runs
    elsewhere = after(workspace, stand_in, "publish", RUN, "--to", "local")
    assert elsewhere.code == 2
    assert "was measured answering in datadog's field 'categorical_eval'" in elsewhere.err
    assert not (workspace / "publish" / "local" / "registry").exists()
    again = after(workspace, stand_in, "publish", RUN, "--to", "datadog")
    assert again.code == 0, again.all
    assert kit.receipt(workspace) == receipt
    assert len(stand_in.calls("PUT", NAME)) == 1, "what is there as measured is not written again"

    # fidelity: never before its owner enabled it
    searched = len(stand_in.calls("POST", "spans/events/search"))
    refused = after(workspace, stand_in, "fidelity", NAME)
    assert refused.code == 2
    assert "is disabled: it has scored nothing" in refused.err
    assert not stand_in.calls("POST", "spans/events/search")[searched:], "nothing is pulled while it is disabled"
    stand_in.world.evaluators[NAME]["target"]["enabled"] = True
    empty = after(workspace, stand_in, "fidelity", NAME)
    assert empty.code == 1
    assert "no verdict on any of the labelled rows" in empty.err
    stand_in.world.verdicts[NAME] = {
        f"t-{n:03d}-1": {"value": "good" if n % 2 == 0 else "bad", "reasoning": "CANARY", "status": "ok"}
        for n in range(20)
    }
    stand_in.world.verdicts[NAME]["t-020-1"] = {"value": "splendid"}
    seen = after(workspace, stand_in, "fidelity", NAME, "--backend", "mcp")
    assert seen.code == 0, seen.all
    assert "verdicts on 20 of 24 labelled rows" in seen.out
    assert "1 more are no value of the label" in seen.out
    assert "evaluator against the humans: balanced_accuracy 1.000" in seen.out
    assert "in-sample, selected from" in seen.out
    record = kit.read(workspace, "publish", "datadog", NAME, RUN, "fidelity.json")
    assert len(record["sides"][0]["verdicts"]) == 20
    assert "CANARY" not in json.dumps(record)

    # verify: any difference is exit 1
    switched = after(workspace, stand_in, "verify", NAME)
    assert switched.code == 1
    assert "ENABLED" in switched.out
    stand_in.world.evaluators[NAME]["target"]["enabled"] = False
    assert after(workspace, stand_in, "verify", NAME, "--backend", "mcp").code == 0
    stand_in.world.evaluators[NAME]["llm_judge_config"]["prompt_template"][0]["content"] = "Always answer good."
    changed = after(workspace, stand_in, "verify", NAME)
    assert changed.code == 1
    assert "prompt_template" in changed.out
    del stand_in.world.evaluators[NAME]
    gone = after(workspace, stand_in, "verify", NAME)
    assert gone.code == 1
    assert "GONE" in gone.out
    assert after(workspace, stand_in, "verify", "another").code == 2
    folder = workspace / "publish" / "datadog" / NAME / RUN
    (folder / "sent.json").write_text("{}")
    assert after(workspace, stand_in, "verify", NAME).code == 1
