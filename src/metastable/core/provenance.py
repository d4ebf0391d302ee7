"""Provenance of a run: what was run, on what, by which versions, and what came out."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from metastable import __version__
from metastable.core.folder import seal
from metastable.core.registry import PLUGINS

_PACKAGES = "jax jaxlib diffrax equinox numpy scipy xarray zarr pydantic matplotlib finufft".split()
LONGEST = 200  # entries of a list in a manifest


def write_manifest(
    folder: Path,
    spec: dict[str, Any],
    digest: str,
    started: datetime,
    outcome: Any,
    result: dict[str, Any],
    about: dict[str, Any],
    skip: Sequence[str] = (),
) -> Path:
    """Write `manifest.json` beside a result, after everything else in the folder.

    `about`: entries that come first. `skip`: patterns of files without a checksum. Long lists in
    `result` are thinned; `thinned` in the manifest says how long they were.
    """
    import jax

    content = {
        **about,
        "spec": spec,
        "spec_sha256": digest,
        "versions": versions(),
        **({"plugins": dict(PLUGINS)} if PLUGINS else {}),
        "device": [str(device) for device in jax.devices()],
        "platform": platform.platform(),
        "command": sys.argv[1:],
        "git": git_state(),
        "started": started.isoformat(),
        "duration_seconds": (datetime.now(UTC) - started).total_seconds(),
        "outcome": {"name": outcome.name, "message": outcome.message},
        "result": {name: _thinned(value) for name, value in result.items()},
    }
    long = {name: len(value) for name, value in result.items() if _is_long(value)}
    return seal(folder, content | ({"thinned": long} if long else {}), skip)


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and len(value) > LONGEST


def _thinned(value: Any) -> Any:
    """Of a long list every k-th entry and the last; lists of one length stay side by side."""
    if not _is_long(value):
        return value
    every = -(-(len(value) - 1) // (LONGEST - 1))
    return [*value[:-1:every], value[-1]]


def versions() -> dict[str, str]:
    """Versions of Python, this package and the packages its numbers depend on."""
    known = {"python": platform.python_version(), "metastable": __version__}
    for name in _PACKAGES:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known


def git_state() -> dict[str, Any] | None:
    """Commit and dirtiness of the working directory, or None outside a repository."""
    if (commit := _ask_git("rev-parse", "HEAD")) is None:
        return None
    return {"commit": commit, "dirty": bool(_ask_git("status", "--porcelain"))}


def source_commit() -> str | None:
    """The commit that this code runs from, or None where it was installed from a wheel."""
    root = Path(__file__).resolve().parents[3]
    return _ask_git("-C", str(root), "rev-parse", "HEAD") if (root / ".git").exists() else None


def _ask_git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
