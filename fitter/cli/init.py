"""``fitter init DIR``: the five data folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitter.cli.common import out


def command(folder: Annotated[Path, typer.Argument(help="Where to make the workspace.")] = Path()) -> None:
    """Make a workspace: the folders that hold maps, prompts, runs, holdouts and what was published."""
    from fitter.workspace import FOLDERS, init

    init(folder)
    out(f"{folder}: {', '.join(FOLDERS)}")
