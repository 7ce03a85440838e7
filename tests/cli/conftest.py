"""A queue that most tests here can use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.cli_kit import interactions, write_jsonl


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace that does not exist yet."""
    return tmp_path / "ws"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A small queue without a fault."""
    os.chmod(tmp_path, 0o755)
    return write_jsonl(tmp_path / "good.jsonl", interactions(24))
