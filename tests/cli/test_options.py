"""Options that several commands take are declared once: plan reads a queue with the flags that fit reads it with."""

from __future__ import annotations

import typer

from fitter.cli.main import app
from fitter.settings import COLUMNS

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def flags(command: str) -> dict[str, str | None]:
    """Name → what help says of it."""
    return {p.name: getattr(p, "help", None) for p in COMMANDS[command].params}


def test_fit_and_plan_read_a_queue_with_the_same_flags() -> None:
    fit, plan = flags("fit"), flags("plan")
    of_queue = ("queue", "label", "metric", "beta", "label_map", "label_kind", "tolerance", "queue_name", "backend",
                "since")  # fmt: skip
    shared = {*of_queue, *(f"{role}_col" for role in COLUMNS)}
    assert shared <= set(fit) & set(plan)
    assert {name: fit[name] for name in shared} == {name: plan[name] for name in shared}
    assert all(fit[name] for name in shared - {"queue"})


def test_every_option_says_what_it_is() -> None:
    silent = [(name, p.name) for name, command in COMMANDS.items() for p in command.params
              if not getattr(p, "help", None) and p.name != "help"]  # fmt: skip
    assert silent == []
