"""The suite registry itself: a left-out suite is always named, and FITTER_REQUIRE makes it a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest, suites


@pytest.mark.shared
def test_needs_shared_data(shared_data: Path) -> None:
    """Stands for every test of the suite; the tests below run it without the data."""
    assert (shared_data / "code_review" / "rows.jsonl").is_file()


def _pytest(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", f"{__file__}::test_needs_shared_data", *arguments],
        cwd=suites.ROOT,
        env={**os.environ, "FITTER_REQUIRE": "", **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_missing_suite_is_named_and_passes_locally(tmp_path: Path) -> None:
    done = _pytest(FITTER_SHARED_DATA=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"left out: shared (the real labelled data sets; 1 tests): no labelled data at {tmp_path}" in done.stdout
    assert "1 skipped" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_required_suite_that_is_missing_fails(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = _pytest(*workers, FITTER_SHARED_DATA=str(tmp_path), FITTER_REQUIRE="all")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED, required by FITTER_REQUIRE: shared" in done.stdout
    assert "1 skipped" in done.stdout.splitlines()[-1]


def test_unknown_suite_in_require_is_a_usage_error() -> None:
    done = _pytest(FITTER_REQUIRE="sharde")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "unknown suites sharde" in done.stderr


def test_require_takes_all_or_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FITTER_REQUIRE", "all")
    assert suites.required_suites() == frozenset(suites.SUITES)
    monkeypatch.setenv("FITTER_REQUIRE", " shared ,")
    assert suites.required_suites() == {"shared"}
    monkeypatch.delenv("FITTER_REQUIRE")
    assert suites.required_suites() == frozenset()


def test_developers_environment_reaches_no_test() -> None:
    names = ["HTTPS_PROXY", "http_proxy", "LANGSMITH_TRACING", "OPENAI_API_KEY", "DD_API_KEY", "HOME", "PATH"]
    assert conftest.unwanted_variables(names) == names[:5]
    # A fit in this process switches tracing off in just these variables: "false" is ours, anything else is not.
    assert [name for name in conftest.unwanted_variables(list(os.environ)) if os.environ[name] != "false"] == []
