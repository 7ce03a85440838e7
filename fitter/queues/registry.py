"""From what the user typed to a label source. A new platform is its own file and one entry here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fitter.errors import BadInput, SettingsError
from fitter.queues.files import FlatColumns, FlatFile
from fitter.queues.source import LabelSource

PRACTICE = "practice"
DATADOG = "datadog:"


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a source.

    Attributes:
        columns: columns of a flat file.
        queue_name: overrides the queue's identity, which together with the label names the seal.
        backend: how a platform's queue is read; the user's choice, without a default.
        since: how far back a platform's spans are looked for; None for its default.
    """

    columns: FlatColumns = field(default_factory=FlatColumns)
    queue_name: str | None = None
    backend: Literal["rest", "mcp"] | None = None
    since: str | None = None


def open_source(spec: str, options: SourceOptions | None = None) -> LabelSource:
    """The source behind a queue spec.

    Args:
        spec: path of a ``.csv``, ``.jsonl`` or ``.json`` file or of a bundle's folder, the word ``practice``,
            ``datadog:QUEUE_ID`` or ``datadog:"queue name"``.
        options: see :class:`SourceOptions`.

    Raises:
        BadInput: nothing there, or a kind of file that is no queue.
        SettingsError: an option that does not fit the queue (columns for a bundle, ``since`` for a file), or a
            platform's queue without a backend or keys.
    """
    from fitter.queues.bundle import BundleSource, is_bundle  # jsonschema is not needed for flat files

    options = options or SourceOptions()
    if spec.startswith(DATADOG):
        return _datadog(spec, options)
    if options.since is not None:
        raise SettingsError("--since is for queues of a platform; a file is read whole", hint="leave --since out")
    if spec == PRACTICE:
        from importlib import resources

        _no_columns(options)
        return BundleSource(Path(str(resources.files("fitter.practice") / "queue.json")), options.queue_name)
    path = Path(spec)
    if not path.exists():
        raise BadInput("there is no such file or folder", file=spec, hint="give a path, or the word practice")
    if path.is_dir() or path.suffix.lower() == ".json" or (path.suffix.lower() == ".jsonl" and is_bundle(path)):
        _no_columns(options)
        return BundleSource(path, options.queue_name)
    if path.suffix.lower() in (".csv", ".jsonl"):
        return FlatFile(path, options.columns, options.queue_name)
    raise BadInput(
        "is no queue this program reads", file=spec, hint="use .csv, .jsonl, .json, a bundle's folder, or datadog:QUEUE"
    )


def _datadog(spec: str, options: SourceOptions) -> LabelSource:
    from fitter.queues.datadog import QueueOptions, open_queue
    from fitter.queues.datadog_mcp import fair_use

    _no_columns(options)
    if options.backend is None:
        raise SettingsError(
            "a Datadog queue is read over REST or over MCP, and which one is your choice",
            hint="add --backend rest or --backend mcp (docs/datadog.md says how they differ)",
        )
    chosen = QueueOptions(backend=options.backend, queue_name=options.queue_name, mcp_rate=fair_use(os.environ))
    if options.since is not None:
        chosen = replace(chosen, since=options.since)
    return open_queue(spec, os.environ, chosen)


def _no_columns(options: SourceOptions) -> None:
    if options.columns != FlatColumns():
        raise SettingsError("column options are for flat files; this queue says itself what is what",
                            hint="leave the --...-col options out")  # fmt: skip
