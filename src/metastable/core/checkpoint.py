"""Resumable runs: the state between two segments, in one file without pickles."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.folder import written_whole
from metastable.core.numerics import jax


class Checkpoint:
    """State of a run at `path` (an .npz file), bound to the run that wrote it by a fingerprint."""

    def __init__(self, path: str | Path | None, identity: Any):
        self.path = None if path is None else Path(path)
        if self.path is not None and not self.path.parent.is_dir():
            raise ValueError(f"checkpoint must lie in a folder that exists; got {path}.")
        self.fingerprint = "" if path is None else _fingerprint(identity)

    def load(self, fresh: dict[str, Any]) -> dict[str, Any]:
        """The saved state, or `fresh` when there is none yet."""
        if self.path is None or not self.path.exists():
            return fresh
        count = len(jax.tree.leaves(fresh))
        try:
            # A member that is read to its end is compared with its CRC32.
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                fingerprint = str(stored["fingerprint"])
                own = fingerprint == self.fingerprint
                leaves = [stored[f"leaf{k}"] for k in range(count)] if own else []
        except (MemoryError, PermissionError):
            raise
        except Exception as error:  # whatever zipfile, zlib and numpy make of a damaged file
            raise ValueError(
                f"checkpoint {self.path} is damaged ({type(error).__name__}): remove it to start "
                "over."
            ) from None
        if not own:
            raise ValueError(
                f"checkpoint {self.path} belongs to another run (other tokens, field, horizon, "
                "frames or stepper): choose another file or remove it."
            )
        return jax.tree.unflatten(jax.tree.structure(fresh), leaves)

    def save(self, state: dict[str, Any]) -> None:
        if self.path is None:
            return
        leaves = {f"leaf{k}": leaf for k, leaf in enumerate(jax.tree.leaves(state))}
        with written_whole(self.path) as file:  # a crash leaves the old state or the new one
            np.savez(file, allow_pickle=False, fingerprint=self.fingerprint, **leaves)


def _fingerprint(identity: Any) -> str:
    leaves, structure = jax.tree.flatten(identity)
    # Addresses of functions differ from process to process.
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", str(structure)).encode())
    for leaf in leaves:
        if callable(leaf):
            digest.update(_signature(leaf).encode())
        else:
            array = np.asarray(leaf)
            digest.update(str((array.shape, array.dtype)).encode() + array.tobytes())
    return digest.hexdigest()


def _signature(function: Any) -> str:
    """A function by its name, its code, and what it closes over."""
    code = getattr(function, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    body = "" if code is None else f"{code.co_code.hex()} {code.co_consts} {code.co_names}"
    named = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    return re.sub(r" at 0x[0-9a-f]+", "", f"{named} {body} {cells}")
