"""From what the user typed to a label source. A new platform is its own file and one entry here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fitter.errors import BadInput, SettingsError
from fitter.queues.files import FlatColumns, FlatFile
from fitter.queues.source import LabelSource

PRACTICE = "practice"


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a source.

    Attributes:
        columns: columns of a flat file.
        queue_name: overrides the queue's identity, which together with the label names the seal.
    """

    columns: FlatColumns = field(default_factory=FlatColumns)
    queue_name: str | None = None


def open_source(spec: str, options: SourceOptions | None = None) -> LabelSource:
    """The source behind a queue spec.

    Args:
        spec: path of a ``.csv``, ``.jsonl`` or ``.json`` file or of a bundle's folder, or the word ``practice``.
        options: see :class:`SourceOptions`.

    Raises:
        BadInput: nothing there, or a kind of file that is no queue.
        SettingsError: column options for a bundle, which has no columns.
    """
    from fitter.queues.bundle import BundleSource, is_bundle  # jsonschema is not needed for flat files

    options = options or SourceOptions()
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
    raise BadInput("is no queue this program reads", file=spec, hint="use .csv, .jsonl, .json or a bundle's folder")


def _no_columns(options: SourceOptions) -> None:
    if options.columns != FlatColumns():
        raise SettingsError("column options are for flat files; a bundle says itself what is what",
                            hint="leave the --...-col options out")  # fmt: skip
