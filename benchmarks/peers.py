"""How others evaluate the same velocity: the whole matrix in NumPy, PyTorch, plain XLA, KeOps."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import numpy as np

import metastable as ms
from metastable.core.numerics import jax, jnp

__all__ = ["peers", "sdpa"]


def peers(measure: ms.Points, beta: float) -> dict[str, Callable]:
    """Callables that return the velocity of SA for equal masses, by name; absent ones are left out.

    Beyond 20 000 tokens only the fastest of them is kept: whole matrices do not fit.
    """
    x = np.asarray(measure.points)
    found = {"PyTorch SDPA": _torch(x, beta)}
    if x.shape[0] <= 20_000:
        found["NumPy"] = lambda: _numpy(x, beta)
        whole = jax.jit(_xla)
        points, b = jnp.asarray(x), jnp.asarray(beta, x.dtype)
        found["XLA, whole matrix"] = lambda: whole(points, b)
        keops = _keops(x, beta)
        if keops is not None:
            found["KeOps"] = keops
    return found


def _numpy(x: np.ndarray, beta: float) -> np.ndarray:
    a = np.exp(beta * (x @ x.T))
    a = a / a.sum(axis=1, keepdims=True)
    v = a @ x
    return v - np.sum(v * x, axis=1, keepdims=True) * x


def _xla(x: jax.Array, beta: jax.Array) -> jax.Array:
    v = jax.nn.softmax(beta * (x @ x.T), axis=1) @ x
    return v - jnp.sum(v * x, axis=1, keepdims=True) * x


def sdpa(x: np.ndarray, beta: float) -> Callable:
    import torch

    q = torch.tensor(x)[None, None]
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=beta)


def _torch(x: np.ndarray, beta: float) -> Callable:
    attend, points = sdpa(x, beta), None

    def run():
        nonlocal points
        import torch

        points = torch.tensor(x) if points is None else points
        v = attend()[0, 0]
        return v - (v * points).sum(1, keepdim=True) * points

    return run


def _keops(x: np.ndarray, beta: float) -> Callable | None:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout may be carrying JSON
            import pykeops
            from pykeops.torch import LazyTensor
        pykeops.set_verbose(False)
    except Exception:  # not installed, or no compiler to build itself with
        return None
    import torch

    points = torch.tensor(x)
    i, j = LazyTensor(points[:, None, :]), LazyTensor(points[None, :, :])

    def run():
        v = (beta * (i | j)).sumsoftmaxweight(j, dim=1)
        return v - (v * points).sum(1, keepdim=True) * points

    return run
