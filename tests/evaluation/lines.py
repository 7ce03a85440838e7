"""LABELS and PASSES files for tests, and the command line called in this process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fitter.cli.main import main


def write(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> Path:
    """One line a row; strings are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows),
        encoding="utf-8",
    )
    return path


def labels(path: Path, values: Mapping[str, Any]) -> Path:
    return write(path, [{"id": row, "label": value} for row, value in values.items()])


def passes(path: Path, answers: Mapping[str, list[Any]]) -> Path:
    """Row id → one answer a run; None is unusable."""
    return write(
        path,
        [
            {"id": row, "run": run, **({"unusable": "not_json"} if value is None else {"label": value})}
            for row, values in answers.items()
            for run, value in enumerate(values)
        ],
    )


class Command:
    """Runs `fitter ...` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: object) -> tuple[int, str, str]:
        """(exit code, standard output, standard error)."""
        code = 0
        try:
            main([str(a) for a in argv])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, *argv: object) -> dict[str, Any]:
        """What `--json` prints."""
        code, out, err = self(*argv, "--json")
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found
