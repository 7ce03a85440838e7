"""The ``fitter`` command: mounts one file a command, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fitter import __version__, errors
from fitter.cli import (
    compare,
    cost,
    estimate,
    evidence,
    fidelity,
    fit,
    init,
    plan,
    publish,
    replay,
    resume,
    runs,
    score,
    show,
    verify,
)
from fitter.textsafe import visible

EPILOG = (
    "Exit codes: 0 done; 1 the run failed or is unfinished; 2 a mistake in settings or input; "
    "3 finished, no evaluator (estimate: no estimate); 4 stopped, resumable (budget, outage); "
    "130 interrupted, resumable."
)

app = typer.Typer(
    name="fitter",
    help="Fit an LLM judge to human labels by measurement, and publish it as a disabled evaluator.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    workspace: Annotated[
        Path,
        typer.Option("--workspace", "-w", metavar="DIR", help="Folder with runs/, holdouts/, ...; created if missing."),
    ] = Path(),
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Holds what every command shares."""
    ctx.obj = workspace


app.command("fit")(fit.command)
app.command("resume")(resume.command)
app.command("runs")(runs.command)
app.command("show")(show.command)
app.command("cost")(cost.command)
app.command("evidence")(evidence.command)
app.command("publish")(publish.command)
app.command("verify")(verify.command)
app.command("fidelity")(fidelity.command)
app.command("score")(score.command)
app.command("replay")(replay.command)
app.command("compare")(compare.command)
app.command("plan")(plan.command)
app.command("estimate")(estimate.command)
app.command("init")(init.command)


def _say(fault: errors.FitterError) -> None:
    typer.echo(f"error: {visible(str(fault))}", err=True)


def plain_listing(words: list[str]) -> Path | None:
    """The workspace of a bare ``fitter [-w DIR] runs``, which needs no option parser; None for anything else.

    The parser's first use imports a validation library, and that takes longer than listing the runs.
    """
    match words:
        case ["runs"]:
            return Path()
        case ["-w" | "--workspace", folder, "runs"] if folder:
            return Path(folder)
        case _:
            return None


def main(argv: list[str] | None = None) -> Any:
    """Runs the command line; never shows a traceback for a deliberate error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        folder = plain_listing(sys.argv[1:] if argv is None else argv)
        if folder is None:
            app(argv)
        else:
            runs.list_in(folder)
    except errors.FitterError as fault:
        _say(fault)
        sys.exit(fault.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone (`fitter show RUN | head`): not a failure of the command.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(errors.EXIT_OK)
    except OSError as fault:
        where = "" if fault.filename is None else f": {fault.filename}"
        _say(errors.FitterError(f"{fault.strerror or type(fault).__name__}{where}"))
        sys.exit(errors.EXIT_FAILED)


if __name__ == "__main__":
    main()
