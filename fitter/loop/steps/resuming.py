"""Going on with a run: only with the code and the models it was begun with (LO-7, OUT-2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitter import __version__
from fitter.errors import RunError
from fitter.jsonio import canonical
from fitter.judge.verdict import PARSER_VERSION
from fitter.loop.deps import Team
from fitter.loop.steps.context import Fit


def refuse_other_code(fit: Fit) -> None:
    """Compares program, parser, judge and advisors with those of the frozen config.

    What a resumed run measures must be comparable with what it has measured, and its config hash names these. Asks
    nobody: the team is opened, not probed.

    Raises:
        RunError: one of them is another; names it.
    """
    fixed: Mapping[str, Any] = fit.config["fixed"]
    changed = []
    if fixed["fitter"] != __version__:
        changed.append(f"fitter {fixed['fitter']} (this is {__version__})")
    if fixed["parser"] != PARSER_VERSION:
        changed.append(f"verdict parser {fixed['parser']} (this is {PARSER_VERSION})")
    if fixed["judge"] is not None and not changed:
        team = fit.deps.open_team(fit.settings, fit.store.run_id)
        now = identities(team)
        then = {"judge": fixed["judge"], **fixed["strategies"]}
        changed += [f"another {name}" for name in now if canonical(now[name]) != canonical(then[name])]
    if changed:
        raise RunError(
            f"run {fit.store.run_id} was begun with {', '.join(changed)}: what it measures now could not be compared "
            "with what it has measured",
            hint="resume it with the version of fitter and the models it was begun with, or start a new fit",
        )


def identities(team: Team) -> dict[str, dict[str, Any]]:
    """What tells the judge and each advisor from any other; part of the config hash."""
    return {
        "judge": dict(team.judge.identity),
        "drafter": dict(team.drafter.identity),
        "describer": dict(team.describer.identity),
        "proposer": dict(team.proposer.identity),
        "checker": dict(team.checker.identity),
    }
