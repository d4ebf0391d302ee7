"""Provenance of a run: what was run, on what, by which versions, and what came out."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from metastable import __version__

__all__ = ["file_hashes", "git_state", "versions", "write_manifest"]

_PACKAGES = "jax jaxlib diffrax equinox numpy scipy xarray zarr pydantic matplotlib finufft".split()


def write_manifest(
    folder: Path, spec: dict[str, Any], digest: str, started: datetime, outcome: Any, extra: Any
) -> Path:
    """Write `manifest.json` beside a result, after everything else in the folder."""
    import jax

    content = {
        "spec": spec,
        "spec_sha256": digest,
        "versions": versions(),
        "device": [str(device) for device in jax.devices()],
        "platform": platform.platform(),
        "command": sys.argv[1:],
        "git": git_state(),
        "started": started.isoformat(),
        "duration_seconds": (datetime.now(UTC) - started).total_seconds(),
        "outcome": {"name": outcome.name, "message": outcome.message},
        "result": extra,
        "files_sha256": file_hashes(folder),
    }
    path = folder / "manifest.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2))
    part.replace(path)
    return path


def versions() -> dict[str, str]:
    """Versions of Python, this package and the packages its numbers depend on."""
    found = {"python": platform.python_version(), "metastable": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_state() -> dict[str, Any] | None:
    """Commit and dirtiness of the working directory, or None outside a repository."""

    def ask(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = ask("rev-parse", "HEAD")
    return (
        None if commit is None else {"commit": commit, "dirty": bool(ask("status", "--porcelain"))}
    )


def file_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file; a Zarr store counts as one, over its sorted paths and contents."""
    hashes = {}
    for path in sorted(folder.iterdir()):
        if path.name in ("manifest.json", "manifest.part"):
            continue
        digest = hashlib.sha256()
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file.relative_to(folder).as_posix().encode())
                digest.update(file.read_bytes())
        hashes[path.name] = digest.hexdigest()
    return hashes
