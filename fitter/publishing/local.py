"""The local registry: evaluator documents in files, with a platform's verbs and semantics. A rehearsal (PU-1).

One JSON file an evaluator under ``publish/local/registry/``. As on a platform, ``put`` replaces the whole document, the
registry owns some fields itself (``revision``), and the listing is another road than ``get``: it scans the folder and
reads each file on its own. Only the owner can enable an evaluator, by editing its file; nothing here writes anything
but ``"enabled": false``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fitter.errors import BadInput, PublishError, SettingsError
from fitter.jsonio import JSONFault, pretty, strict_loads
from fitter.publishing.fidelity import DeployedEvaluator
from fitter.publishing.publisher import EvaluatorSpec
from fitter.records import Row
from fitter.textsafe import is_blank, one_line, safe_name
from fitter.workspace import Workspace, write_atomic

SCHEMA_VERSION: Final = 1
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,100}")
_SERVER_OWNED = frozenset({"revision"})
# Receipts lie in publish/local/NAME/RUN: an evaluator of this name would share the registry's own folder.
_RESERVED = frozenset({"registry"})
_MEND: Final = "mend or remove that file (it is the registry's document), then run this again"


def _refuse_unless_disabled(document: Mapping[str, Any], name: str) -> None:
    """PU-3: whatever is not exactly ``false`` counts as enabled, a missing or misspelt value too."""
    if document.get("enabled") is not False:
        raise SettingsError(
            f"the evaluator {name!r} is enabled in the local registry; it is somebody's running evaluator",
            hint="choose another --name, or disable it yourself first",
        )


def _refuse_other_app(document: Mapping[str, Any], name: str, app: str) -> None:
    owner = document.get("app")
    if owner != app:
        raise SettingsError(
            f"the evaluator {name!r} belongs to the app {one_line(str(owner))!r}, not to {one_line(app)!r}",
            hint="choose another --name, or the --app it belongs to",
        )


class LocalPublisher:
    """The file-backed registry of one workspace (implements Publisher)."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = workspace.publish("local", "registry")

    @property
    def name(self) -> str:
        """``local``."""
        return "local"

    @property
    def rehearsal(self) -> bool:
        """True: nothing runs what is published here."""
        return True

    @property
    def page(self) -> str:
        """The registry's folder, as seen from the workspace (no absolute path: receipts are shared)."""
        return "publish/local/registry/ in the workspace"

    def check(self, name: str, app: str, judge: str) -> None:
        """See :meth:`Publisher.check`. The local registry can hold any judge.

        Raises:
            SettingsError: bad name or app, an enabled evaluator, or another app's evaluator under this name (PU-3).
            BadInput: the registry's document of this name cannot be read.
        """
        self._path(name)
        if is_blank(app) or one_line(app) != app:
            raise SettingsError(
                f"{one_line(app)!r} is not an app name: it is blank, too long or holds control characters",
                hint="name the application with --app",
            )
        if is_blank(judge):
            raise SettingsError("no judge is named", hint="name one with --judge, e.g. --judge lexicon")
        existing = self.get(name)
        if existing is not None:
            _refuse_unless_disabled(existing, name)
            _refuse_other_app(existing, name, app)

    def config(self, spec: EvaluatorSpec, existing: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The full document to write: the existing one with only our fields replaced (PU-3), ``enabled: false``.

        Raises:
            SettingsError: the existing evaluator is enabled or another app's.
        """
        kept: dict[str, Any] = {}
        if existing is not None:
            _refuse_unless_disabled(existing, spec.name)
            _refuse_other_app(existing, spec.name, spec.app)
            kept = {key: value for key, value in existing.items() if key not in _SERVER_OWNED}
        contract = spec.contract
        return {
            **kept,
            "schema_version": SCHEMA_VERSION,
            "name": spec.name,
            "app": spec.app,
            "enabled": False,
            "scope": spec.scope,
            "judge": spec.judge,
            "prompt": {**_mapping(kept.get("prompt")), "system": spec.system, "user_template": spec.user_template},
            "output_schema": dict(contract.schema),
            "verdict_fields": {
                **_mapping(kept.get("verdict_fields")),
                "label": contract.label_field,
                "reasoning": contract.reasoning_field,
                "confidence": contract.confidence_field,
            },
            "pass_labels": list(spec.pass_labels),
            "metadata": {**_mapping(kept.get("metadata")), **spec.metadata},
        }

    def get(self, name: str) -> Mapping[str, Any] | None:
        """Reads one evaluator by its name, or None.

        Raises:
            SettingsError: not an evaluator name.
            BadInput: the file is not the document of an evaluator of this name.
        """
        path = self._path(name)
        try:
            document = strict_loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as fault:
            raise BadInput(f"cannot be read: {fault}", file=str(path), hint=_MEND) from None
        except JSONFault as fault:
            raise BadInput(f"not strict JSON: {fault}", file=str(path), line=fault.line, hint=_MEND) from None
        # On a file system that ignores case, Quality and quality are one file.
        if not isinstance(document, dict) or document.get("name") != name:
            raise BadInput(f"is not the document of the evaluator {name!r}", file=str(path), hint=_MEND)
        return document

    def deployed(
        self,
        spec: EvaluatorSpec,
        config: Mapping[str, Any],  # noqa: ARG002 - nothing runs here, whatever the document says
        rows: Sequence[Row],  # noqa: ARG002
    ) -> DeployedEvaluator:
        """A rehearsal: what was published, and nothing else to say."""
        return DeployedEvaluator(publisher=self.name, scope=spec.scope, rehearsal=True, judge=spec.judge, hidden_rows=0)

    def put(self, name: str, config: Mapping[str, Any]) -> None:
        """Replaces the whole document; what the config leaves out is gone.

        Raises:
            SettingsError: not an evaluator name, or the stored evaluator is enabled.
            PublishError: the config is not exactly disabled, is under another name, or cannot be written.
        """
        path = self._path(name)
        if config.get("enabled") is not False:
            raise PublishError(
                "the platform refused the write: the local registry takes only `enabled: false` (PU-1)",
            )
        if config.get("name") != name:
            raise PublishError(f"the platform refused the write: the config's name is not {name!r}")
        stored = self.get(name)
        if stored is not None:
            # The owner may have enabled it since it was checked.
            _refuse_unless_disabled(stored, name)
        revision = 0 if stored is None else stored.get("revision", 0)
        revision = revision if isinstance(revision, int) else 0
        try:
            write_atomic(path, pretty({**config, "revision": revision + 1}))
        except (OSError, ValueError, TypeError) as fault:
            raise PublishError(f"the platform refused the write: {fault}") from None

    def listing(self, app: str) -> Sequence[Mapping[str, Any]]:
        """The app's evaluators by a scan of the folder: ``name, app, enabled, scope, judge, revision`` of each.

        A file that is no evaluator document is not listed.
        """
        if not self._folder.is_dir():
            return []
        entries = (_entry(path) for path in sorted(self._folder.iterdir()) if path.suffix == ".json")
        return [entry for entry in entries if entry is not None and entry["app"] == app]

    def comparable(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Everything but what the registry itself owns."""
        return {key: value for key, value in config.items() if key not in _SERVER_OWNED}

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{one_line(name)!r} is not an evaluator name",
                hint="use 1 to 100 of the characters a-z, A-Z, 0-9, _ and -",
            )
        if name.lower() in _RESERVED:
            raise SettingsError(f"{name!r} is the registry's own folder", hint="choose another --name")
        return self._folder / f"{safe_name(name)}.json"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entry(path: Path) -> dict[str, Any] | None:
    """One line of the listing, read from the bytes on disk."""
    try:
        raw = path.read_bytes()
        document = strict_loads(raw.decode("utf-8"))
    except (OSError, UnicodeDecodeError, JSONFault):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return None
    return {key: document.get(key) for key in ("name", "app", "enabled", "scope", "judge", "revision")}
