"""Arguments and options that several commands take, declared once: what they are called, and what help says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

_COLS = "Flat files: "

Run: TypeAlias = Annotated[str, typer.Argument(help="Run id, as `fitter runs` lists it.")]
Name: TypeAlias = Annotated[str, typer.Argument(help="The evaluator's name.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# -- a queue and what of it is fitted ------------------------------------------------------------------------------

Queue: TypeAlias = Annotated[
    str, typer.Argument(help='A .csv, .jsonl or bundle file or folder, `practice`, datadog:ID or datadog:"NAME".')
]
Label: TypeAlias = Annotated[str | None, typer.Option(help="The queue's label to predict (id or name).")]
Metric: TypeAlias = Annotated[str | None, typer.Option(help="Headline metric, e.g. balanced_accuracy, f1:CLASS, mae.")]
Beta: TypeAlias = Annotated[float | None, typer.Option(help="Beta of an fbeta metric (default 1).")]
IdCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "row id.")]
InputCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "what the app was asked.")]
OutputCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "what the app answered.")]
ContextCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "context the app had.")]
LabelCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "the human's label.")]
ReasonCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "the human's reasoning.")]
GroupCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "rows that belong together.")]
RoleCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "`adjudication` settles a contested row.")]
AnnotatorCol: TypeAlias = Annotated[
    str | None, typer.Option(help=_COLS + "who labelled; several rows of one id are several annotations.")
]
ExpectedOutputCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "a reference answer; no judge sees it.")]
AppVerdictCol: TypeAlias = Annotated[str | None, typer.Option(help=_COLS + "the app's own verdict.")]
LabelMap: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="TEXT=VALUE", help="Reads a label text as a value; repeat.")
]
LabelKind: TypeAlias = Annotated[
    str | None, typer.Option(metavar="boolean|categorical|multiselect|numeric", help=_COLS + "the label's kind.")
]
Tolerance: TypeAlias = Annotated[float | None, typer.Option(help="Numeric labels this close agree.")]
QueueName: TypeAlias = Annotated[str | None, typer.Option(help="The queue's name, where the file's name will not do.")]
Backend: TypeAlias = Annotated[
    str | None, typer.Option(metavar="rest|mcp", help="How Datadog is reached; your choice, nothing falls back.")
]
Since: TypeAlias = Annotated[
    str | None, typer.Option(help="How far back a platform's spans are looked for: 90d, 36h, 12w or a date.")
]

# -- an evaluator that was published -------------------------------------------------------------------------------

At: TypeAlias = Annotated[
    str | None, typer.Option("--at", help="The platform, where the name was published to several.")
]
BackendAgain: TypeAlias = Annotated[
    str | None, typer.Option(metavar="rest|mcp", help="How Datadog is reached (default: as in the fit).")
]


def columns_given(flags: Mapping[str, Any]) -> dict[str, str]:
    """Role → column, of the column flags that were given."""
    from fitter.settings import COLUMNS

    return {role: flags[f"{role}_col"] for role in COLUMNS if flags.get(f"{role}_col") is not None}


def label_map_given(items: Sequence[str]) -> dict[str, str]:
    """Text → value, as ``--label-map TEXT=VALUE`` says.

    Raises:
        SettingsError: one that is not written so.
    """
    from fitter.errors import SettingsError

    found: dict[str, str] = {}
    for item in items:
        text, mark, value = item.rpartition("=")
        if not mark or not text or not value:
            raise SettingsError(f"--label-map {item!r} is not TEXT=VALUE", hint="for example --label-map Yes=true")
        found[text] = value
    return found
