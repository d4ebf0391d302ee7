"""Compiled code kept on disk, so that the second start of a program need not compile again.

Place: `compiled/VERSIONS-MACHINE` in $METASTABLE_CACHE, or in `metastable` of the user's cache
folder. METASTABLE_CACHE=off keeps nothing; a folder chosen for JAX itself
(JAX_COMPILATION_CACHE_DIR) is left to JAX. Where nothing can be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jaxlib.version

from metastable import __version__

_config: Any = jax.config
LIMIT = 2**30  # bytes of all versions and machines together
SUFFIX, PART = ".compiled", "part-"  # entries, and what is being written
CHECKSUM = 32  # bytes of SHA-256 before each entry
DAY, HOUR = 86_400.0, 3_600.0
LOOK = 2**26  # bytes written by one process after which it looks at the limit again


class Entries:
    """A folder of compiled programs that many processes read and write at once, without a lock.

    JAX's own writes in place, keeps damaged entries for good and needs a lock to stay below a
    limit. Here an entry appears whole by a rename, carries its checksum, and is removed and made
    again where that fails: a damaged program must never be run. The oldest go when all entries
    under `root` pass `limit` bytes; an entry that is read is young again.
    """

    def __init__(self, folder: Path, root: Path, limit: int = LIMIT):
        self.folder, self.root, self.limit = folder, root, limit
        self._path = folder  # JAX names it in its messages
        self.due = 0  # bytes until the limit is looked at

    def get(self, key: str) -> bytes | None:
        """What was kept under a key; None where nothing was, or only damage."""
        path = self.folder / f"{key}{SUFFIX}"
        try:
            content = path.read_bytes()
            if time.time() - path.stat().st_mtime > DAY:
                with contextlib.suppress(OSError):  # others' entries may be read all the same
                    os.utime(path)
        except OSError:
            return None
        value = content[CHECKSUM:]
        if hashlib.sha256(value).digest() == content[:CHECKSUM]:
            return value
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep an entry if that is possible."""
        if len(value) > self.limit:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)  # it may have been cleared meanwhile
            handle, part = tempfile.mkstemp(prefix=PART, dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(value).digest() + value)
                os.replace(part, self.folder / f"{key}{SUFFIX}")
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise
        self.due -= len(value)
        if self.due <= 0:
            self.due = LOOK
            trim(self.root, self.limit)


def trim(root: Path, limit: int = LIMIT) -> None:
    """Remove the entries read longest ago until the rest is within `limit`.

    Writes that were never finished go too.
    """
    now, held = time.time(), []
    for path, size, changed in _files(root):
        if path.name.startswith(PART):
            if now - changed > HOUR:
                _remove(path)
        else:
            held.append((changed, size, path))
    total = sum(size for _, size, _ in held)
    for _, size, path in sorted(held, key=lambda entry: entry[0]):
        if total <= limit:
            break
        _remove(path)
        total -= size


def clear(root: Path | None = None) -> int:
    """Remove every entry that this library has kept, and nothing else; gives their number."""
    root = root or _root()
    if root is None:
        return 0
    files = list(_files(root))
    for path, _, _ in files:
        _remove(path)
    with contextlib.suppress(OSError):
        for folder in [*root.iterdir(), root]:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    return sum(path.name.endswith(SUFFIX) for path, _, _ in files)


def describe() -> dict[str, Any]:
    """Where compiled code is kept, and how much there is; `folder` is None without a cache."""
    chosen = _config.jax_compilation_cache_dir
    ours = chosen is not None and chosen == _OURS
    files = list(_files(root)) if ours and (root := _root()) is not None else []
    sizes = [size for path, size, _ in files if path.name.endswith(SUFFIX)]
    return {
        "folder": chosen,
        "chosen_by": "metastable" if ours else None if chosen is None else "user",
        "entries": len(sizes) if ours else None,
        "bytes": sum(sizes) if ours else None,
        "limit": LIMIT if ours else None,
    }


def keep_compiled_code() -> None:
    """Have JAX keep what it compiles; called once, by `core.numerics`."""
    global _OURS
    # XLA complains, twice for each program that it loads, that "prefer-no-gather" is no feature of
    # the processor: a wish of its own compiler, which the same machine had (openxla/xla 44565).
    # The level 1 is what JAX sets; whoever asks for another level gets it.
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":
        with contextlib.suppress(ImportError, AttributeError):
            import_module("jaxlib.utils").absl_set_min_log_level(3)
    root = _root()
    if root is None or _config.jax_compilation_cache_dir is not None:
        return
    folder = root / folder_name()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return
    if not os.access(folder, os.R_OK | os.X_OK) or not _serve(str(folder), Entries(folder, root)):
        return
    _OURS = str(folder)
    _config.update("jax_compilation_cache_dir", _OURS)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # Reading a program takes a millisecond, compiling the smallest ten or twenty.
        _config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # Nothing but our entries in this folder.
    _config.update("jax_persistent_cache_enable_xla_caches", "none")


_OURS: str | None = None  # the folder that was chosen here


def folder_name() -> str:
    """Versions and machine: code compiled by another, or for another processor, is not ours.

    A home folder may be shared by machines whose processors differ.
    """
    versions = f"jax{jax.__version__}-jaxlib{jaxlib.version.__version__}-{__version__}"
    return f"{versions}-{hashlib.sha256(_processor().encode()).hexdigest()[:16]}"


def _processor() -> str:
    """All about the processor that compiled code may depend on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about = [platform.machine(), str(cores)]
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
        words = ("model name", "flags", "Features", "CPU implementer", "CPU part")
        about += [line for line in first.splitlines() if line.startswith(words)]
    except OSError:
        about += [platform.processor(), platform.node()]
    return "\n".join(about)


def _root() -> Path | None:
    """The folder of all versions; None where none is wanted or the user has no home."""
    chosen = os.environ.get("METASTABLE_CACHE", "")
    if chosen.lower() == "off":
        return None
    try:
        if chosen:
            return Path(chosen).expanduser().absolute() / "compiled"
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(caches).absolute() / "metastable" / "compiled"
    except (OSError, RuntimeError):
        return None


def cache_folder() -> Path | None:
    """The folder of all that may be lost and made again; None where none is wanted."""
    root = _root()
    return None if root is None else root.parent


def _serve(folder: str, entries: Entries) -> bool:
    """Have JAX use `entries` for that folder and its own files for any other; whether it can."""
    try:
        from jax._src import compilation_cache

        usual: Callable[[str], Any] = compilation_cache.get_file_cache
    except (ImportError, AttributeError):  # a JAX that keeps compiled code in another way
        return False

    def choose(path: str) -> Any:
        return (entries, path) if path == folder else usual(path)

    compilation_cache.get_file_cache = choose
    return True


def _files(root: Path) -> Iterator[tuple[Path, int, float]]:
    """Our files under a root with their size and age; those that vanish meanwhile are left out."""
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            with contextlib.suppress(OSError), os.scandir(folder) as found:
                for file in found:
                    if file.name.endswith(SUFFIX) or file.name.startswith(PART):
                        with contextlib.suppress(OSError):
                            stat = file.stat(follow_symlinks=False)
                            yield Path(file.path), stat.st_size, stat.st_mtime


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
