"""What the tests of the evaluation room share: the command line, and one finished practice run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitter import fitting, settings
from tests.evaluation.lines import Command

RUN = "support_policy-001"
GIVEN = {
    "queue": "practice", "goal": "Find replies that break the policy", "costly": "same", "label": "policy_verdict",
    "framing": "grader", "metric": "balanced_accuracy", "judge": "lexicon", "proposer": "lexicon",
    "name": "support_policy", "app": "support-assistant", "scope": "trace", "publish_to": "local",
}  # fmt: skip


@pytest.fixture
def fitter(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="session")
def practice_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one finished run; tests that change it copy it first."""
    workspace = tmp_path_factory.mktemp("practice") / "ws"
    fitting.Fitting(workspace).start(settings.make(**GIVEN))
    return workspace
