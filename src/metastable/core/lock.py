"""A lock on a folder: one process writes there at a time."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

LOCK = ".lock"


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
        about = {"pid": os.getpid(), "host": platform.node(), "since": _now()}
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _holder(path: Path) -> str:
    """Who holds the lock, in brackets; nothing where the file does not say."""
    try:
        about = json.loads(path.read_bytes())
        return f" (process {about['pid']} on {about['host']}, since {about['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
