"""A queue that most tests here can use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
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
    return write_jsonl(tmp_path / "good.jsonl", interactions(24))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that a process without rights can reach (pytest's own lie below one that it cannot)."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
