"""Result folders: claimed by one process, sealed by a manifest, verified when they are opened.

A folder holds a spec, what was computed from it, and, written last, `manifest.json` with the
SHA-256 of every file and of itself. Pages that are made from the rest (`report.html`, `figures/`),
files that end in `.part` and hidden files are not among them. Nothing here knows what was computed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any

from metastable.core.spec import Spec

SPEC, MANIFEST, UNFINISHED, LOCK = "spec.toml", "manifest.json", "unfinished", ".lock"
FORMAT = "metastable result 3"
DERIVED = ("report.html", "figures", "*.part", ".*", UNFINISHED, MANIFEST)  # have no checksums
BLANK = 64 * "0"  # stands for the manifest's own checksum while it is made
FULL = (errno.ENOSPC, errno.EDQUOT)
REMEDY = "restore it from a copy, or remove the folder and run it again"


class DiskFull(OSError):
    """A result could not be written for lack of room; the command line ends with code 1."""


@contextmanager
def claimed(folder: Path, spec: Spec, what: str = "run") -> Iterator[Path]:
    """Hold `folder` for one piece of work (`what`: "run", "audit"); gives a place for checkpoints.

    A new or empty folder gets `spec.toml`. One that has the same spec is gone on with, unless it is
    finished; anything else is refused, as is a folder that another process holds. When the block
    fails before anything was computed, what was made here is removed again; a full disk becomes
    `DiskFull`, which says what is kept.
    """
    if not ((folder / LOCK).exists() and (folder / SPEC).exists()):
        _refuse_foreign(folder, spec, what)  # before a single file is written there
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = Lock(folder, what)
    fresh = not (folder / SPEC).exists()
    try:
        _refuse_foreign(folder, spec, what)
        if fresh:
            write_whole(folder / SPEC, spec.to_toml().encode())
        (folder / UNFINISHED).mkdir(exist_ok=True)
        yield folder / UNFINISHED
    except BaseException as error:
        empty = fresh and not _computed(folder)
        if empty:
            _clear(folder)
        # Also where a library words the system's error itself.
        if getattr(error, "errno", None) in FULL or "os error 28" in str(error):
            file = getattr(error, "filename", None) or folder
            kept = "nothing is kept" if empty else "what was computed before is kept"
            raise DiskFull(
                f"{file} cannot be written (no space left on the disk); {kept}: make room and run "
                "the same command again."
            ) from error
        raise
    finally:
        lock.release()
        with suppress(OSError):  # not empty: the usual case
            for path in made:
                path.rmdir()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the disk inside the block name this file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def seal(folder: Path, content: dict[str, Any], skip: Sequence[str] = ()) -> Path:
    """Write the manifest: `content`, checksums of all files but `skip` (patterns), its own last."""
    content = {"format": FORMAT, **content, "files_sha256": _checksums(folder, skip)}
    text = json.dumps({**content, "manifest_sha256": BLANK}, indent=2)
    path = folder / MANIFEST
    write_whole(path, _own_checksum(text).join(text.rsplit(BLANK, 1)).encode())
    return path


def open_folder(folder: Path, missing: str) -> dict[str, Any]:
    """The manifest of a folder, after every file was compared with it.

    A ValueError names the file that is damaged, or says `missing` where there is no manifest. The
    manifest of an older version has no checksums to compare with: then `unchecked` in the result
    says so.
    """
    if not (folder / MANIFEST).is_file():
        raise ValueError(missing)
    manifest = _read(folder)
    if "unchecked" not in manifest:
        for name, expected in manifest["files_sha256"].items():
            _verify(folder / name, expected)
    return manifest


def unchecked(folder: Path) -> str | None:
    """A sentence where files of results in a folder cannot be checked, else None; hashes none."""
    inside = sorted(path.parent for path in folder.rglob(MANIFEST))
    if not inside:
        return f"{folder} has no {MANIFEST}: its files were not checked."
    return next((note for path in inside if (note := _read(path).get("unchecked"))), None)


def _refuse_foreign(folder: Path, spec: Spec, what: str) -> None:
    """Refuse a folder that holds other things, damaged ones, or this work finished."""
    if not folder.exists():
        return
    if folder.is_dir() and not set(os.listdir(folder)) - {LOCK, f"{SPEC}.part"}:
        return
    finished = False
    if (folder / MANIFEST).is_file() and ((folder / SPEC).is_file() or _is_sealed(folder)):
        finished = open_folder(folder, "")["outcome"]["name"] != "interrupted"
    if not _is_of(folder / SPEC, spec):
        beside = f" (another {SPEC}, or a damaged one)" if (folder / SPEC).is_file() else ""
        raise ValueError(
            f"--out must be a new or empty folder; {folder} holds something else{beside}: choose "
            "another, or remove it yourself."
        )
    if finished:
        raise ValueError(
            f"--out {folder} already holds this {what}, finished: choose another folder, or "
            "remove it to run again."
        )


def _is_of(file: Path, spec: Spec) -> bool:
    """Whether a file holds this spec, its name aside."""
    try:
        return file.is_file() and type(spec).load(file).digest == spec.digest
    except ValueError:
        return False


def _read(folder: Path) -> dict[str, Any]:
    """The manifest, itself verified."""
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged (not JSON): {REMEDY}.") from None
    if not _is_ours(manifest):
        raise ValueError(f"{path} is damaged (not a manifest of a result): {REMEDY}.")
    own = manifest.pop("manifest_sha256", None)
    if own is None and "format" not in manifest:
        manifest["unchecked"] = (
            f"{folder} was made by an older version: its files were not checked."
        )
    elif own != _own_checksum(BLANK.join(text.rsplit(str(own), 1))):
        raise ValueError(f"{path} is damaged (its own checksum differs): {REMEDY}.")
    return manifest


def _is_sealed(folder: Path) -> bool:
    """Whether the manifest is a whole one of ours; other programs have files of that name too."""
    try:
        return bool(_read(folder))
    except ValueError:
        return False


def _is_ours(manifest: Any) -> bool:
    """Whether a manifest has what every reader of one relies on."""
    kinds = {"spec": dict, "outcome": dict, "result": dict, "started": str, "files_sha256": dict}
    return (
        isinstance(manifest, dict)
        and all(isinstance(manifest.get(name), kind) for name, kind in kinds.items())
        and isinstance(manifest["outcome"].get("name"), str)
        and not any({"..", "/"} & set(PurePosixPath(n).parts) for n in manifest["files_sha256"])
    )


def _own_checksum(text: str) -> str:
    """Of the manifest as it is written, with zeros in the place of this checksum."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksums(folder: Path, skip: Sequence[str]) -> dict[str, Any]:
    """SHA-256 of each file by name; of a folder, those of the files in it by path."""
    names = [name for name in sorted(os.listdir(folder)) if not _matches(name, (*DERIVED, *skip))]
    return {
        name: {inner: _checksum(folder / name / inner) for inner in _files(folder / name)}
        if (folder / name).is_dir()
        else _checksum(folder / name)
        for name in names
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _files(folder: Path) -> list[str]:
    """Paths of all files below a folder, hidden ones aside."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder) for path in paths)
    return sorted(n.as_posix() for n in names if not any(p.startswith(".") for p in n.parts))


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(path: Path, expected: Any) -> None:
    """Compare a file, or all files of a folder, with their checksums."""
    if isinstance(expected, dict):
        for name, checksum in expected.items():
            _verify(path / name, checksum)
        more = [name for name in _files(path) if name not in expected] if path.is_dir() else []
        if more:
            raise ValueError(f"{path / more[0]} does not belong to this result: remove it.")
    elif not path.is_file():
        raise ValueError(f"{path} is missing: {REMEDY}.")
    elif _checksum(path) != expected:
        raise ValueError(f"{path} is damaged (its checksum is not that in {MANIFEST}): {REMEDY}.")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    with written_whole(path) as file:
        file.write(data)


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that is written beside its place, and renamed when the block ends without an error."""
    part = path.with_name(path.name + ".part")
    try:
        with naming(path), part.open("wb") as file:
            yield file
    except OSError:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, path)


def _computed(folder: Path) -> bool:
    """Whether files lie in the folder beside its spec and its lock."""
    names = {p.name for p in folder.rglob("*") if not p.is_dir()}
    return bool(names - {SPEC, LOCK, f"{SPEC}.part"})


def _clear(folder: Path) -> None:
    """Take away the spec, and folders with nothing in them."""
    (folder / SPEC).unlink(missing_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()


class Lock:
    """Exclusive use of `folder`, which is made if need be, until `release`.

    The lock is the system's (flock) and ends with the process, however it ends: a file `.lock`
    that a killed process left behind blocks nobody. The file says who holds the lock. `what`
    names the work in the refusal that a second process gets.
    """

    def __init__(self, folder: Path, what: str):
        self.path = folder / LOCK
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            self.file = open(self.path, "a+b", buffering=0)
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(self.path)
                self.file.close()
                raise ValueError(
                    f"--out {folder} is being written by another {what}{holder}: wait for it, or "
                    "stop it."
                ) from None
            except OSError as error:
                self.file.close()
                raise OSError(
                    f"--out {folder} cannot be locked ({error.strerror}): choose a folder on a "
                    "disk that knows locks."
                ) from None
            if self._is_current():
                break
            self.file.close()  # its last holder removed it before the lock was ours
        now = datetime.now(UTC).isoformat(timespec="seconds")
        about = {"pid": os.getpid(), "host": platform.node(), "since": now}
        with suppress(OSError):  # a full disk: the lock holds without it
            self.file.truncate(0)
            self.file.write(json.dumps(about).encode())

    def release(self) -> None:
        """Remove the file while the lock still holds, then let go; a second call does nothing."""
        if not self.file.closed:
            if self._is_current():
                self.path.unlink()
            self.file.close()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_current(self) -> bool:
        """Whether the locked file is still the one at `path`."""
        try:
            return os.path.samestat(os.fstat(self.file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False


def _holder(path: Path) -> str:
    """Who holds the lock, in brackets; nothing where the file does not say."""
    try:
        about = json.loads(path.read_bytes())
        return f" (process {about['pid']} on {about['host']}, since {about['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
