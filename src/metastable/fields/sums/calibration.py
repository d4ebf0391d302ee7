"""How fast this device is at each kind of sum: known for some, measured once on others."""

from __future__ import annotations

import json
import math
import time
from functools import lru_cache
from typing import Any

from metastable.core.compiled import cache_folder
from metastable.core.folder import write_whole
from metastable.core.numerics import jax, jnp
from metastable.fields.sums import costs
from metastable.fields.sums.costs import Device, Pairs
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.gpu import FusedSum
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Kernel, Sum
from metastable.fields.sums.zonal import ZonalSum

ROUNDS = 5
KNOWN = {
    "cpu": costs.CPU,
    "NVIDIA H200": Device(
        100.0, Pairs(4.6e-6, 4.2e-8), Pairs(1.0e-5, 6e-8), Pairs(4.2e-7, 3.9e-8), 0.03, 0.035
    ),
}


def sum_cost(sum: Sum, tokens: int, axes: int, zonal: bool = True, on: Any = None) -> float:
    """Microseconds of one evaluation by a sum over all pairs or by harmonics, on a JAX device."""
    device = costs_of(jax.devices()[0] if on is None else on)
    if isinstance(sum, FusedSum):
        return costs.fused_cost(tokens, axes, device)
    if isinstance(sum, HarmonicSum):
        factor = device.harmonic if sum.dim <= 3 else device.moments
        more = device.start if device is not costs.CPU else 0.0
        return more + factor * costs.harmonic_cost(tokens, sum.dim, sum.degree)
    if isinstance(sum, ZonalSum):
        return costs.nufft_cost(tokens, sum.dim, sum.degree, sum.tolerance)
    return costs.dense_cost(tokens, axes, zonal, device)


def costs_of(device: Any) -> Device:
    """What is known of a device; a GPU seen for the first time is measured, in seconds.

    The measurement is kept beside the compiled code.
    """
    if device.platform == "cpu":
        return costs.CPU
    return KNOWN.get(device.device_kind) or _kept(device.device_kind)


@lru_cache(maxsize=8)
def _kept(kind: str) -> Device:
    folder = cache_folder()
    name = "".join(c if c.isalnum() else "-" for c in f"{kind}-{jax.__version__}")
    path = None if folder is None else folder / f"costs-{name}.json"
    if path is not None:
        try:
            start, dense, general, fused, *factors = json.loads(path.read_text(encoding="utf-8"))
            return Device(float(start), Pairs(*dense), Pairs(*general), Pairs(*fused), *factors)
        except (OSError, ValueError, TypeError):
            pass  # none yet, or damaged: measured again
    found = measure_device()
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(found).encode())
        except OSError:
            pass  # measured again next time
    return found


def measure_device(tokens: int = 16_384) -> Device:
    """Time each kind of sum at many tokens and the smallest at few; half a minute on a GPU.

    >>> measure_device(tokens=256).dense.pair > 0
    True
    """
    start = _cost(Dense(), 64, 3)

    def beyond(sum: Sum, count: int, dim: int, zonal: bool = True) -> float:
        return max(_cost(sum, count, dim, zonal) - start, 1.0)

    def pairs(sum: Sum, zonal: bool = True) -> Pairs:
        few, many = (beyond(sum, tokens, axes, zonal) / tokens**2 for axes in (16, 64))
        axis = max(many - few, 0.0) / 48
        return Pairs(max(few - 16 * axis, few / 10), axis)

    fused = None if jax.default_backend() == "cpu" else pairs(FusedSum())
    circle, space = HarmonicSum(2, 20), HarmonicSum(4, 12)
    harmonic = beyond(circle, 8 * tokens, 2) / costs.harmonic_cost(8 * tokens, 2, 20)
    moments = beyond(space, tokens, 4) / costs.harmonic_cost(tokens, 4, 12)
    return Device(start, pairs(Dense()), pairs(Dense(), False), fused, harmonic, moments)


def _cost(sum: Sum, count: int, dim: int, zonal: bool = True) -> float:
    """The least microseconds of a call, after one that compiles."""
    x = jax.random.normal(jax.random.key(0), (count, dim))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    mass = jnp.full(count, -math.log(count))
    kernel = Kernel(jnp.asarray(4.0), x, x, mass, zonal=zonal, own=zonal)
    run: Any = jax.jit(lambda kernel, values: sum.attend(kernel, values))
    jax.block_until_ready(run(kernel, x))
    least = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        jax.block_until_ready(run(kernel, x))
        least = min(least, time.perf_counter() - began)
    return 1e6 * least
