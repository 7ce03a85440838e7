"""A workspace: every path, safe names, locks and atomic writes.

Only this module builds paths below a workspace. Writes are whole-file atomic replaces (write, fsync, rename) or
write-once; private folders are 0700 and their files 0600.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fitter.errors import Tampered, UserError
from fitter.textsafe import one_line, safe_name

FOLDERS = ("evidence_maps", "prompts", "runs", "holdouts", "publish")
_ELSEWHERE = "choose another folder with --workspace DIR, before the command"
_RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True)
class Workspace:
    """Paths of one workspace; creates what is missing on first write."""

    root: Path

    @property
    def command(self) -> str:
        """What to type for a command on this workspace: ``fitter``, or ``fitter --workspace DIR``."""
        root = str(self.root)
        return "fitter" if root == "." else f"fitter --workspace {shlex.quote(root)}"

    @property
    def journal(self) -> Path:
        """The call journal: one SQLite file a workspace."""
        return self.root / "runs" / "calls.sqlite"

    def run(self, run_id: str) -> Path:
        """Folder of one fit.

        Raises:
            UserError: the id is not a run id (it may not leave the folder).
        """
        if not _RUN_ID.fullmatch(run_id) or ".." in run_id or run_id.startswith(self.journal.name):
            raise UserError(f"{one_line(repr(run_id), 80)} is not a run id", hint="`fitter runs` lists them")
        return self.root / "runs" / run_id

    def private(self, run_id: str) -> Path:
        """The run's private folder: customer text, never in git."""
        return self.run(run_id) / "private"

    def seal(self, seal_id: str) -> Path:
        """Folder of one seal."""
        return self.root / "holdouts" / safe_name(seal_id)

    def prompts(self, criterion: str) -> Path:
        """Accepted prompt versions of one criterion."""
        return self.root / "prompts" / safe_name(criterion)

    def evidence_map(self, criterion: str) -> Path:
        """The reviewed evidence map of one criterion."""
        return self.root / "evidence_maps" / f"{safe_name(criterion)}.json"

    def publish(self, *parts: str) -> Path:
        """A path under publish/."""
        return self.root.joinpath("publish", *(safe_name(p) for p in parts))

    def run_ids(self) -> list[str]:
        """Run ids, sorted; empty when there are none."""
        folder = self.root / "runs"
        if not folder.is_dir():
            return []
        return sorted(p.name for p in folder.iterdir() if p.name[0] != "." and (p / "config.json").is_file())


def check_root(root: Path) -> None:
    """Refuses a path that is, or lies below, something that is no folder; writes nothing.

    Raises:
        UserError: names what stands in the way.
    """
    for place in (root, *root.parents):
        try:
            if place.is_dir():
                return
            blocked = place.exists()
        except OSError as fault:
            raise UserError(f"cannot use the workspace {root}: {fault.strerror}", hint=_ELSEWHERE) from None
        if blocked:
            raise UserError(f"the workspace {root} cannot be a folder: {place} is a file", hint=_ELSEWHERE)


def init(root: Path) -> Workspace:
    """Creates the five data folders (idempotent) and keeps private things out of git.

    Raises:
        UserError: the folder cannot be written.
    """
    try:
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
        ignore = root / "runs" / ".gitignore"
        if not ignore.exists():
            write_atomic(ignore, "private/\ncalls.sqlite*\nstate.sqlite*\n*.lock\n")
        ignore = root / "holdouts" / ".gitignore"
        if not ignore.exists():
            write_atomic(ignore, "private/\n*.lock\n")
    except OSError as fault:
        raise UserError(f"cannot write the workspace {root}: {fault.strerror}", hint=_ELSEWHERE) from None
    return Workspace(root)


def _fsync_dir(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def ensure_private(folder: Path) -> Path:
    """Creates a private folder (0700)."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder


def write_atomic(path: Path, data: str | bytes, *, private: bool = False) -> None:
    """Replaces a whole file durably; a reader sees the old or the new bytes, never a mixture.

    Raises:
        OSError: disk full, read-only, ...; nothing of the new content is left behind.
    """
    raw = data.encode("utf-8") if isinstance(data, str) else data
    if private:
        ensure_private(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    fd, tmp = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(tmp, 0o600 if private else 0o644)
        os.replace(tmp, path)
        _fsync_dir(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(tmp)
        raise


def write_once(path: Path, data: str | bytes, *, private: bool = False) -> None:
    """Writes a file that must never change: same bytes again is fine, other bytes are an error.

    Raises:
        Tampered: the file exists with other content.
    """
    raw = data.encode("utf-8") if isinstance(data, str) else data
    if path.exists():
        if path.read_bytes() != raw:
            raise Tampered(
                f"{path} already exists with other content",
                hint="the file was changed after it was written, or two fits share one run folder; start a new fit",
            )
        return
    write_atomic(path, raw, private=private)


@contextlib.contextmanager
def lock(path: Path, *, holder: str) -> Iterator[None]:
    """Holds an exclusive, crash-safe lock (released by the kernel when the process dies).

    Args:
        path: the lock file.
        holder: who takes it, shown to the one who is refused.

    Raises:
        UserError: somebody else holds it (says who), or the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as fault:
        raise UserError(
            f"cannot write the lock file {path}: {fault.strerror}",
            hint="make the workspace writable, or choose another",
        ) from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            if fault.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            who = one_line(os.read(fd, 400).decode("utf-8", "replace")) or "a process that has not said its name"
            raise UserError(
                f"another fitter is at work here: {path} is held by {who}",
                hint="wait for it to end, or end it; nothing has to be deleted, since the lock goes with its process",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{holder} (pid {os.getpid()})".encode("utf-8", "replace"), 0)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)  # so that nobody is told of a holder who left
    finally:
        os.close(fd)
