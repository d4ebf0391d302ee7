"""Many systems of tokens under random weights, and means of a diffusion on a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_banded

from metastable.fields.field import Places
from metastable.fields.sums import Dense
from metastable.geometry.sphere import exponential, project
from metastable.measures import Points
from metastable.observe.random_depth import step_common


def many_runs(
    field: Any,
    start: Any,
    times: Any,
    *,
    samples: int,
    step: float,
    layers: bool = False,
    seed: int = 0,
    force: Any = None,
) -> np.ndarray:
    """Tokens of `samples` systems from one start (n, d) at some times: (times, samples, n, d).

    `force` is a field without noise that acts beside the common noise of `field`.
    """
    x = jnp.broadcast_to(jnp.asarray(start, float), (samples, *np.shape(start)[-2:]))
    keys = jax.random.split(jax.random.key(seed), samples)
    found, done, h = [], 0, jnp.asarray(float(step))
    for time in np.asarray(times, float):
        until = round(time / step)
        x = _moved(field, x, keys, jnp.asarray(done), jnp.asarray(until), h, layers, force)
        done = until
        found.append(np.asarray(x))
    return np.stack(found)


@eqx.filter_jit
def _moved(
    field: Any, x: Any, keys: Any, first: Any, last: Any, h: Any, layers: bool, force: Any
) -> Any:
    def one(x: Any, key: Any) -> Any:
        def move(k: Any, x: Any) -> Any:
            key_k = jax.random.fold_in(key, k)
            if force is None:
                return step_common(x, field, key_k, h, layers)
            kick = jnp.sqrt(h) * field.kick(Points(x), key_k, 0.0, Dense())
            here = Places(x, None, own=True)
            drift = force.drift(Points(x), here, 0.0, Dense())
            return exponential(x, project(x, kick + h * drift))

        return jax.lax.fori_loop(first, last, move, x)

    return jax.vmap(one)(x, keys)


def pair_at(rho: float, dim: int) -> np.ndarray:
    """Two unit tokens of that cosine."""
    x = np.zeros((2, dim))
    x[0, 0], x[1, 0], x[1, 1] = 1.0, rho, np.sqrt(1 - rho**2)
    return x


def cosines(x: np.ndarray) -> np.ndarray:
    """Cosine of the first two tokens of every system."""
    return np.sum(x[..., 0, :] * x[..., 1, :], axis=-1)


def mean_with_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of independent samples and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def expected_later(
    drift: Callable[[float], float],
    variance: Callable[[float], float],
    function: Callable[[np.ndarray], np.ndarray],
    start: float,
    times: Any,
    *,
    low: float = -16.0,
    high: float = 16.0,
    cells: int = 1600,
    steps: int = 400,
) -> np.ndarray:
    """E f(y_t) for dy = drift dt + √variance dB from y_0, at increasing times.

    Kolmogorov's backward equation by central differences and Crank and Nicolson's rule on
    (low, high), with no curvature at the ends.
    """
    y = np.linspace(low, high, cells + 1)
    h = y[1] - y[0]
    a = np.array([variance(v) for v in y]) / 2 / h**2
    b = np.array([drift(v) for v in y]) / 2 / h
    under, mid, over = a - b, -2 * a, a + b
    # At the ends the outer neighbour is extrapolated linearly.
    over[0], mid[0] = 2 * b[0], -2 * b[0]
    under[-1], mid[-1] = -2 * b[-1], 2 * b[-1]
    u, now, found = np.asarray(function(y), float), 0.0, []
    for time in np.atleast_1d(times):
        dt = (time - now) / steps
        bands = np.zeros((3, cells + 1))
        bands[0, 1:], bands[1], bands[2, :-1] = -over[:-1], 2 / dt - mid, -under[1:]
        for _ in range(steps if dt else 0):
            right = (2 / dt + mid) * u
            right[:-1] += over[:-1] * u[1:]
            right[1:] += under[1:] * u[:-1]
            u = solve_banded((1, 1), bands, right)
        now = time
        found.append(float(np.interp(start, y, u)))
    return np.array(found)
