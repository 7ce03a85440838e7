"""The stand-in as a fixture: a queue write or an ``enabled: true`` fails the test that caused it (GT-1, PU-1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.datadog import StandIn


@pytest.fixture(scope="session")
def _running() -> Iterator[StandIn]:
    with StandIn() as server:
        yield server


@pytest.fixture
def stand_in(_running: StandIn) -> Iterator[StandIn]:
    _running.reset()
    yield _running
    assert _running.violations == []
