"""``fitter score``: the figures of anybody's predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitter.cli.common import out


def _schema(wanted: bool) -> None:
    if wanted:
        from fitter.evaluation.score import schema
        from fitter.jsonio import pretty

        out(pretty(schema()).rstrip())
        raise typer.Exit


def command(
    labels: Annotated[Path, typer.Option("--labels", metavar="LABELS.jsonl", help="Human labels: id, label, ...")],
    passes: Annotated[Path, typer.Option("--passes", metavar="PASSES.jsonl", help="Answers: id, run, label.")],
    metric: Annotated[str, typer.Option(help="Headline metric, e.g. balanced_accuracy, f1:CLASS, mae.")],
    runs: Annotated[int, typer.Option(help="Passes per row: 1, 3, 5 or 7.")],
    against: Annotated[
        Path | None, typer.Option(metavar="OTHER.jsonl", help="Best's passes; PASSES is the candidate.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="a,b", help="The closed class list; without it any string is a class.")
    ] = None,
    failures: Annotated[
        str, typer.Option(metavar="exclude|wrong", help="What a row without a standing vote counts as.")
    ] = "exclude",
    beta: Annotated[float | None, typer.Option(help="Beta of an fbeta metric.")] = None,
    match: Annotated[
        str | None, typer.Option(metavar="exact|jaccard|similarity_group", help="How mean_credit credits.")
    ] = None,
    groups: Annotated[Path | None, typer.Option(metavar="G.json", help="Taxonomy of similarity_group.")] = None,
    precision_floor: Annotated[
        str | None, typer.Option(metavar="CLASS=0.8", help="Least precision of a class.")
    ] = None,
    slice_: Annotated[
        list[str] | None, typer.Option("--slice", metavar="FIELD", help="A card per value of this field; repeat.")
    ] = None,
    min_delta: Annotated[float | None, typer.Option(help="The smallest interesting gain.")] = None,
    minimum: Annotated[float | None, typer.Option(help="Least possible numeric label.")] = None,
    maximum: Annotated[float | None, typer.Option(help="Greatest possible numeric label.")] = None,
    config_hash: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Draw the resamples of this fit (default: of the fit that LABELS lies in)."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON (its schema: --schema).")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", callback=_schema, is_eager=True, help="Print the JSON Schema of --json.")
    ] = False,
) -> None:
    """Score a judge's passes against human labels, alone or against another judge's."""
    from fitter.errors import SettingsError
    from fitter.evaluation.reading import no_collection, read_labels, read_passes, read_taxonomy
    from fitter.evaluation.score import ScoreOptions, check_config_hash, class_list, fit_of, frame_of, score
    from fitter.evaluation.tables import show_score
    from fitter.jsonio import pretty

    if failures not in ("exclude", "wrong"):
        raise SettingsError(f"--failures {failures!r} is no policy", hint="exclude or wrong")
    if runs not in (1, 3, 5, 7):
        raise SettingsError(f"--runs is {runs}", hint="use an odd number of runs from 1 to 7")
    options = ScoreOptions(
        metric=metric,
        runs=runs,
        classes=None if classes is None else tuple(c.strip() for c in classes.split(",")),
        failures=failures,  # type: ignore[arg-type]
        beta=beta,
        match=match,
        taxonomy=None if groups is None else read_taxonomy(groups),
        floor=precision_floor,
        slices=tuple(slice_ or ()),
        min_delta=min_delta,
        minimum=minimum,
        maximum=maximum,
        config_hash=fit_of(labels) if config_hash is None else check_config_hash(config_hash),
    )
    with no_collection():
        human = read_labels(labels, slices=options.slices)
        fixed = frame_of(human, options)
        listed = class_list(human, options.classes)
        given = read_passes(passes, labels=human, runs=runs, classes=listed)
        other = None if against is None else read_passes(against, labels=human, runs=runs, classes=listed)
        result = score(fixed, human, given, against=other, slices=options.slices, config_hash=options.config_hash)
    out(pretty(result).rstrip() if json_ else "\n".join(show_score(result)))
