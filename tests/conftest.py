"""What every test shares: a clean environment, deterministic hypothesis, and the optional suites (tests/suites.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.suites import SUITES, missing_suites, required_suites, shared_data_path

# `pytest --hypothesis-profile=explore` searches with fresh randomness; what it finds becomes a named regression test.
settings.register_profile("fitter", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, database=None, max_examples=2000)
settings.load_profile("fitter")

# A developer's proxies, tracing switches and keys must reach no test: a result may not depend on them, and no test may
# spend money or send anything away. HOME stays as it is.
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"})
_PREFIXES = ("LANGSMITH_", "LANGCHAIN_", "OPENAI_", "ANTHROPIC_", "AZURE_", "DD_", "MLFLOW_")

_left_out: dict[str, str] = {}
_required: frozenset[str] = frozenset()


def unwanted_variables(names: list[str]) -> list[str]:
    """Those environment variables that no test may see."""
    return [name for name in names if name.lower() in _PROXIES or name.upper().startswith(_PREFIXES)]


def pytest_configure(config: pytest.Config) -> None:
    global _required
    for name in unwanted_variables(list(os.environ)):
        del os.environ[name]
    try:
        _required = required_suites()
    except ValueError as fault:
        raise pytest.UsageError(str(fault)) from None
    _left_out.clear()
    _left_out.update(missing_suites())


def suites_of(item: pytest.Item) -> set[str]:
    """Names of the optional suites a test belongs to."""
    names = {str(mark.args[0]) for mark in item.iter_markers("suite")}
    if item.get_closest_marker("shared") is not None:
        names.add("shared")
    return names


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = suites_of(item)
        unknown = names - set(SUITES)
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: unknown suite {', '.join(sorted(unknown))}; see tests/suites.py")
        for name in sorted(names & set(_left_out)):
            item.add_marker(pytest.mark.skip(reason=f"suite {name} left out: {_left_out[name]}"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Under xdist the workers end their own sessions; only the controlling process decides.
    if not hasattr(session.config, "workerinput") and _required & set(_left_out):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _left_out:
        return
    terminalreporter.section("suites left out")
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for name, why in _left_out.items():
        tests = sum(f"suite {name} left out:" in text for text in skipped)
        word = "FAILED, required by FITTER_REQUIRE" if name in _required else "left out"
        terminalreporter.write_line(f"{word}: {name} ({SUITES[name].needs}; {tests} tests): {why}")
        terminalreporter.write_line(f"    to have it run: {SUITES[name].get}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real labelled data; skips where it is absent (mark the test ``shared``)."""
    if "shared" in _left_out:
        pytest.skip(f"suite shared left out: {_left_out['shared']}")
    return shared_data_path()
