"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter.jsonio import pretty
from fitter.runstore import RunStore


def render(facts: Mapping[str, Any]) -> str:
    """The report without customer text."""
    return pretty(facts)


def summary(facts: Mapping[str, Any]) -> str:
    """The few lines that end a run on the terminal."""
    return str(facts["run"])


def render_text(facts: Mapping[str, Any], store: RunStore) -> str:
    """The report with the text of the rows it names; only for private/."""
    return render(facts)


def closing(facts: Mapping[str, Any]) -> list[str]:
    """The last lines of a run (PU-6), or why no evaluator was created (PU-2)."""
    return [str(facts["result"])]
