"""RUN, NAME and ROW are three different things: who gives one where another is wanted is told which it is.

Looks only at what is wrong already: a right RUN or NAME costs one look at a folder. What is none of the three is left
to the command, which says what it looked for.
"""

from __future__ import annotations

import shlex

from fitter.errors import FitterError, UserError
from fitter.runstore import RunStore
from fitter.textsafe import one_line, safe_name
from fitter.workspace import Workspace

_MOST = 5


def check_run(workspace: Workspace, given: str) -> None:
    """Refuses an evaluator's name or a row's id where a run's id is wanted.

    Raises:
        UserError: says which it is, and what takes it.
    """
    runs = workspace.run_ids()
    if given in runs:
        return
    own = [run for run in runs if evaluator_of(workspace, run) == given]
    if own:
        raise UserError(
            f"{_quoted(given)} is an evaluator's name, where a run is wanted",
            hint=f"runs that fitted it: {', '.join(own[-_MOST:])}",
        )
    holding = [run for run in runs if given in _train_rows(workspace, run)]
    if holding:
        raise UserError(
            f"{_quoted(given)} is a row of run {holding[-1]}, where a run is wanted",
            hint=f"`{workspace.command} evidence {_word(given)} --run {holding[-1]}` shows the row",
        )


def check_name(workspace: Workspace, given: str, command: str) -> None:
    """Refuses a run's id or a row's id where an evaluator's name is wanted.

    Args:
        workspace: the workspace.
        given: what stands in NAME's place.
        command: the command, for its own hint.

    Raises:
        UserError: says which it is, and what to give instead.
    """
    published = workspace.publish()
    if published.is_dir() and any((at / safe_name(given)).is_dir() for at in published.iterdir()):
        return
    runs = workspace.run_ids()
    if given in runs:
        name = evaluator_of(workspace, given)
        raise UserError(
            f"{_quoted(given)} is a run, where an evaluator's name is wanted",
            hint="`fitter runs` lists evaluators"
            if name is None
            else f"that run fitted {one_line(name, 80)}: `{workspace.command} {command} {_word(name)} --run {given}`",
        )
    holding = [run for run in runs if given in _train_rows(workspace, run)]
    if holding:
        raise UserError(
            f"{_quoted(given)} is a row of run {holding[-1]}, where an evaluator's name is wanted",
            hint=f"`{workspace.command} evidence {_word(given)} --run {holding[-1]}` shows the row",
        )


def check_row(workspace: Workspace, given: str, run: str | None) -> None:
    """Refuses a run's id or an evaluator's name where a row's id is wanted, and such a name or row after ``--run``.

    Raises:
        UserError: says which it is, and what to give instead.
    """
    if run is not None:
        check_run(workspace, run)
    runs = workspace.run_ids()
    if any(given in _train_rows(workspace, one) for one in ([run] if run in runs else runs)):
        return
    if given in runs:
        what, named = "a run", given
    else:
        own = [one for one in runs if evaluator_of(workspace, one) == given]
        if not own:
            return
        what, named = "an evaluator's name", own[-1]
    raise UserError(
        f"{_quoted(given)} is {what}, where a row is wanted",
        hint=f"`{workspace.command} evidence ROW --run {named}`; its rows are in runs/{named}/labels/train.jsonl",
    )


def evaluator_of(workspace: Workspace, run: str) -> str | None:
    """The name of the evaluator that a run fits; None where its config cannot be read."""
    try:
        return str(RunStore(workspace, run).read("config.json")["settings"]["name"])
    except (FitterError, OSError, ValueError, KeyError, TypeError):
        return None


def _train_rows(workspace: Workspace, run: str) -> frozenset[str]:
    """Ids of a run's train rows; never those of the holdout (SP-7)."""
    try:
        return frozenset(str(record["id"]) for record in RunStore(workspace, run).read_rows("labels/train.jsonl"))
    except (FitterError, OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _quoted(given: str) -> str:
    return repr(one_line(given, 80))


def _word(given: str) -> str:
    return shlex.quote(one_line(given, 80))
