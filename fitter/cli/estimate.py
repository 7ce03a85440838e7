"""``fitter estimate``: a bias-corrected pass rate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitter.cli import options
from fitter.cli.common import out


def command(
    labels: Annotated[Path | None, typer.Option(metavar="LABELS.jsonl", help="Human labels: id, label.")] = None,
    passes: Annotated[
        Path | None, typer.Option(metavar="PASSES.jsonl", help="The judge's passes on the labelled rows.")
    ] = None,
    unlabelled: Annotated[
        Path | None, typer.Option(metavar="TRAFFIC.jsonl", help="The judge's passes on unlabelled rows.")
    ] = None,
    pass_class: Annotated[str | None, typer.Option(metavar="CLASS", help="The class that is a pass.")] = None,
    runs: Annotated[int, typer.Option(help="Passes per row on both sides: 1, 3, 5 or 7.")] = 1,
    sensitivity: Annotated[str | None, typer.Option(metavar="45/50", help="In place of files: counts.")] = None,
    specificity: Annotated[str | None, typer.Option(metavar="38/40", help="In place of files: counts.")] = None,
    verdicts: Annotated[str | None, typer.Option(metavar="700/1000", help="In place of files: counts.")] = None,
    json_: options.Json = False,
) -> None:
    """Estimate the share of unlabelled traffic that humans would pass; exit 3 where the judge cannot tell."""
    from fitter.errors import EXIT_NO_EVALUATOR, SettingsError
    from fitter.evaluation.estimate import from_counts, from_files, show
    from fitter.jsonio import pretty

    if runs not in (1, 3, 5, 7):
        raise SettingsError(f"--runs is {runs}", hint="use an odd number of runs from 1 to 7")
    files, counts = (labels, passes, unlabelled, pass_class), (sensitivity, specificity, verdicts)
    if sensitivity and specificity and verdicts and not any(files):
        found = from_counts(sensitivity, specificity, verdicts)
    elif labels and passes and unlabelled and pass_class and not any(counts):
        found = from_files(labels, passes, unlabelled, pass_class=pass_class, runs=runs)
    else:
        raise SettingsError(
            "an estimate needs either three files and a class, or three counts",
            hint="--labels, --passes, --unlabelled and --pass-class; or --sensitivity, --specificity and --verdicts",
        )
    out(pretty(found).rstrip() if json_ else "\n".join(show(found)))
    if not found["identifiable"]:
        raise typer.Exit(EXIT_NO_EVALUATOR)  # finished, without what was asked for
