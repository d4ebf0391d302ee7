"""States that were computed elsewhere: arrays in memory or in a file, checked before use."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.numerics import jnp

NAME = "states"  # of the array, in a file that holds several
# By safetensors' names. NumPy knows bfloat16 only through JAX.
_KINDS = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "BF16": jnp.bfloat16}


def read_states(source: Any) -> np.ndarray:
    """States (T, n, d) in float64: an array, a list of T arrays (n, d), a .npz or a .safetensors.

    A file holds one array, or one called "states". What is no real number, or not finite, or of
    another shape, is a ValueError of one line. No pickle is read.
    """
    held = _from_file(Path(source)) if isinstance(source, str | Path) else _stacked(source)
    # bfloat16 is of no kind that NumPy knows.
    if held.dtype.kind != "f" and held.dtype != jnp.bfloat16:
        raise ValueError(
            f"states must hold floating-point numbers; got {held.dtype}: give the vectors of the "
            "tokens, such as a model's hidden states."
        )
    if held.ndim != 3:
        raise ValueError(
            "states must be an array (states, tokens, axes); got shape "
            f"{held.shape}: take one text of a batch, as x[:, 0]."
        )
    if 0 in held.shape:
        raise ValueError(f"states must hold tokens and axes; got shape {held.shape}.")
    if len(held) < 2:
        raise ValueError(f"states must be at least two; got {len(held)}: give those before too.")
    states = held.astype(np.float64)
    odd = ~np.isfinite(states).all(axis=(1, 2))
    if odd.any():
        raise ValueError(
            f"states must be finite; got NaN or infinity first in state {int(odd.argmax())}: cut "
            "them before it."
        )
    return states


def directions(states: np.ndarray) -> np.ndarray:
    """x/‖x‖ of every token; one without a direction is refused."""
    if states.shape[2] < 2:
        raise ValueError(
            "states on a sphere need at least two axes; got shape "
            f"{states.shape}: use sphere=False."
        )
    largest = np.abs(states).max(axis=2, keepdims=True)
    if not largest.all():
        state, token, _ = np.argwhere(largest == 0)[0]
        raise ValueError(
            f"sphere=True needs tokens with a direction; token {token} of state {state} is zero: "
            "keep lengths with sphere=False."
        )
    states = states / largest  # whose squares cannot overflow
    return states / np.linalg.norm(states, axis=2, keepdims=True)


def _stacked(source: Any) -> np.ndarray:
    if isinstance(source, list | tuple):
        parts = [_plain(part) for part in source]
        shapes = {part.shape for part in parts}
        if len(shapes) > 1:
            first, second, *_ = sorted(shapes)
            raise ValueError(
                f"states must all have one shape (tokens, axes); got {first} and {second}."
            )
        return np.array(parts)
    return _plain(source)


def _plain(source: Any) -> np.ndarray:
    """An array; a tensor of PyTorch is one too, wherever it is and whatever hangs on it."""
    if hasattr(source, "detach"):
        source = source.detach().cpu()
        # NumPy cannot read its bfloat16; numbers of another kind are refused as what they are.
        source = source.double() if source.is_floating_point() else source
    try:
        return np.asarray(source)
    except ValueError:
        raise ValueError("states must have rows of one length; got ragged ones.") from None


def _from_file(path: Path) -> np.ndarray:
    readers = {".npz": _npz, ".safetensors": _safetensors}
    if path.suffix not in readers:
        raise ValueError(
            f"states must be an array, a .npz or a .safetensors file; got {path}: save them with "
            "numpy.savez(file, states=...)."
        )
    if not path.is_file():
        raise ValueError(f"states must be in a file that exists; nothing at {path}.")
    return readers[path.suffix](path)


def _choose(path: Path, names: list[str]) -> str:
    """Which array of a file is meant."""
    if NAME not in names and len(names) != 1:
        listed = ", ".join(sorted(names)[:5]) or "none"
        raise ValueError(f"{path} must hold one array, or one called {NAME!r}; got {listed}.")
    return NAME if NAME in names else names[0]


def _npz(path: Path) -> np.ndarray:
    broken = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error)
    with path.open("rb") as opened:
        try:
            file = np.load(opened, allow_pickle=False)
            names = list(file.files)
        except (*broken, AttributeError):  # the last for a plain array, which holds no others
            raise ValueError(
                f"{path} must be a whole .npz file; it is not: save it again with numpy.savez."
            ) from None
        meant = _choose(path, names)
        try:
            return file[meant]
        except broken:
            raise ValueError(
                f"{meant} in {path} must hold numbers alone, whole and without pickled objects; "
                "it does not: save it again."
            ) from None


def _safetensors(path: Path) -> np.ndarray:
    try:
        from safetensors import SafetensorError, deserialize
    except ModuleNotFoundError:
        raise ValueError(
            "a .safetensors file needs the package safetensors: pip install safetensors."
        ) from None
    try:
        held = dict(deserialize(path.read_bytes()))
    except SafetensorError:
        raise ValueError(
            f"{path} must be a whole .safetensors file; it is not: save it again."
        ) from None
    tensor = held[_choose(path, list(held))]
    if tensor["dtype"] not in _KINDS:
        raise ValueError(f"states must hold floating-point numbers; got {tensor['dtype']}.")
    return np.frombuffer(tensor["data"], _KINDS[tensor["dtype"]]).reshape(tensor["shape"])
