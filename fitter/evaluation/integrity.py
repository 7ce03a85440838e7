"""Is every byte of a run's folder the one that was written: the manifest and what the manifest leaves out.

The manifest covers every artefact, tracked and private. What it cannot cover is held to in other ways: itself (its
bytes are canonical, and every entry names a file), ``given.json`` (its answers stand in the frozen config) and
``events.jsonl`` (each line carries a sum over the line before). The checkpoint (``state.sqlite``) and ``run.lock``
are no artefacts: nothing that is shown or published is read from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fitter.errors import FitterError
from fitter.jsonio import JSONFault, canonical, pretty, sha256, strict_loads
from fitter.runstore import MANIFEST, SCHEMA_VERSION, RunStore, event_sum

NO_ARTEFACTS = ("state.sqlite", "run.lock")


@dataclass(kw_only=True)
class Findings:
    """What a replay found.

    Attributes:
        differences: (artefact, what is wrong), in the order found.
        verified: what holds, one sentence each.
        unverified: what could not be looked at here, and why.
    """

    differences: list[tuple[str, str]] = field(default_factory=list)
    verified: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    def differs(self, artefact: str, what: str) -> None:
        """Records a difference."""
        self.differences.append((artefact, what))

    @property
    def intact(self) -> bool:
        """Nothing differs."""
        return not self.differences


def check_bytes(store: RunStore, found: Findings) -> None:
    """Compares every file of the run's folder with the manifest, and checks what the manifest leaves out."""
    manifest = _manifest(store, found)
    if manifest is not None:
        _compare(store, manifest, found, "tracked")
        private = (store.folder / "private").is_dir()
        if private:
            _compare(store, manifest, found, "private")
        elif manifest["private"]:
            found.unverified.append(
                f"{len(manifest['private'])} private artefacts are not here (private/ is in no git): that the passes "
                "answer these rows' text, and the reviewers' and the judge's words, cannot be checked"
            )
    _check_events(store, found)
    _check_given(store, found)


def _manifest(store: RunStore, found: Findings) -> dict[str, Any] | None:
    try:
        manifest = store.read(MANIFEST)
        if pretty(manifest).encode("utf-8") != store.path(MANIFEST).read_bytes():
            found.differs(MANIFEST, "its bytes are not those that were written")
        for half in ("tracked", "private"):
            if not all(isinstance(v, str) for v in manifest[half].values()):
                raise TypeError(half)
    except FitterError as fault:
        found.differs(MANIFEST, fault.message)
        return None
    except (KeyError, TypeError, AttributeError, ValueError, OSError):
        found.differs(MANIFEST, "it does not list tracked and private artefacts with their hashes")
        return None
    extra = sorted(set(manifest) - {"schema_version", "tracked", "private"})
    if extra:
        found.differs(MANIFEST, f"it holds {extra[0]!r}, which no manifest does")
    return manifest


def _compare(store: RunStore, manifest: Mapping[str, Any], found: Findings, half: str) -> None:
    prefix = "" if half == "tracked" else "private/"
    recorded: Mapping[str, str] = manifest[half]
    if half == "tracked":
        here = set(store.tracked_files())
    else:
        root = store.folder / "private"
        here = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() and p.name[0] != "."}
    bad = 0
    for name in sorted(set(recorded) | here):
        if name not in here:
            found.differs(prefix + name, "the manifest lists it, and it is not here")
        elif name not in recorded:
            found.differs(prefix + name, "it is here, and the manifest does not list it")
        elif sha256((store.folder / prefix / name).read_bytes()) != recorded[name]:
            found.differs(prefix + name, "its bytes are not those that manifest.json records at the end of the run")
        else:
            continue
        bad += 1
    if not bad:
        found.verified.append(f"all {len(recorded)} {half} artefacts have the hash that the manifest records")


def _check_events(store: RunStore, found: Findings) -> None:
    path = store.path("events.jsonl")
    if not path.is_file():
        found.unverified.append("events.jsonl (clocks) is not here")
        return
    raw = path.read_bytes()
    before = ""
    for number, line in enumerate(raw.decode("utf-8", "replace").split("\n")[:-1], 1):
        try:
            event = strict_loads(line)
            recorded = event.pop("sum")
            same = canonical({**event, "sum": recorded}) == line and event_sum(before, event) == recorded
        except (JSONFault, AttributeError, KeyError, TypeError):
            same = False
        if not same:
            found.differs("events.jsonl", f"line {number} does not match its own sum")
            return
        before = line
    if not raw.endswith(b"\n") or raw != raw.decode("utf-8", "replace").encode("utf-8"):
        found.differs("events.jsonl", "its last line is torn or not text")
        return
    found.verified.append("events.jsonl: every line matches its own sum")


def _check_given(store: RunStore, found: Findings) -> None:
    path = store.path("given.json")
    if not path.is_file():
        found.unverified.append("given.json (the settings as given) is not here")
        return
    try:
        raw = path.read_bytes()
        given = strict_loads(raw.decode("utf-8"))
        config = store.read("config.json")["settings"]
        if pretty(given).encode("utf-8") != raw or set(given) != {"schema_version", "settings"}:
            raise ValueError("its bytes are not those that were written")
        if given["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"it is not of schema version {SCHEMA_VERSION}")
        settings = given["settings"]
        for name in sorted(set(settings) | set(config)):
            if name not in settings or name not in config:
                raise ValueError(f"it and the config do not have the same settings ({name})")
            asked_later = settings[name] in (None, "") and name != "runs"
            if not asked_later and canonical(settings[name]) != canonical(config[name]):
                raise ValueError(f"{name} is not what the run was configured with")
    except FitterError as fault:
        found.differs("given.json", fault.message)
    except (JSONFault, UnicodeDecodeError, AttributeError, KeyError, TypeError, ValueError) as fault:
        found.differs("given.json", str(fault) or "it is not what was written")
    else:
        found.verified.append("given.json: every answer given stands in the frozen config")
