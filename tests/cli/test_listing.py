"""``fitter runs`` answers at once: it goes round the option parser, and says the same as through it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fitter.cli.main import app, main, plain_listing


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["runs"], "."),
        (["-w", "ws", "runs"], "ws"),
        (["--workspace", "ws", "runs"], "ws"),
        (["runs", "--help"], None),
        (["runs", "extra"], None),
        (["-w", "", "runs"], None),
        (["-w", "runs"], None),
        (["fit", "practice"], None),
        ([], None),
    ],
)
def test_only_a_bare_listing_goes_round_the_parser(words: list[str], folder: str | None) -> None:
    found = plain_listing(words)
    assert (None if found is None else str(found)) == folder


def test_both_ways_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["-w", str(tmp_path), "runs"])
    short = capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        app(["-w", str(tmp_path), "runs"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == short
    assert "no runs here yet" in short
