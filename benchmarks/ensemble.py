"""Many small systems: the phase diagram P(⟨x_1,x_2⟩ ≥ 0.999) over time and β, against PyTorch.

n = 32 tokens, 2048 samples, 90 values of β, t ≤ 30, as in the phase diagrams of arXiv:2312.10794.
The peer is the usual script: eager PyTorch, batched, Euler steps of 0.1. Used here:

- the statistics of pairs need inner products only, and these obey a closed equation: with A the
  softmax rows of βG and M = AG, Ġ = N + Nᵀ, N_ij = M_ij − M_ii G_ij; it is small when d > n;
- on the circle angles are enough, and with the samples along the fastest axis the sum over pairs
  is one loop whose terms stay in registers;
- the flow is smooth: third-order Adams–Bashforth steps of 1/4 for angles, and of 1/8 for inner
  products (which decay twice as fast), are more accurate than Euler steps of 1/10. Single precision
  is far below their error.
"""

from __future__ import annotations

import numpy as np

from benchmarks import draw as figures
from benchmarks import timing
from metastable.numerics import jax, jnp

TOKENS, SAMPLES, HORIZON, EVERY = 32, 2048, 30.0, 0.5
BETAS = np.linspace(0.1, 9.0, 90)
STEP = {2: 0.25, 128: 0.125}
TIMES = np.arange(1, round(HORIZON / EVERY) + 1) * EVERY


def start(dim: int, samples: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng([dim, seed]).normal(size=(samples, TOKENS, dim))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def state(x: np.ndarray, dtype) -> jax.Array:
    """Angles (n, samples) on the circle, inner products (samples, n, n) above."""
    if x.shape[-1] == 2:
        return jnp.asarray(np.arctan2(x[..., 1], x[..., 0]).T, dtype)
    return jnp.asarray(x @ x.transpose(0, 2, 1), dtype)


def drift(y: jax.Array, beta: jax.Array) -> jax.Array:
    return _angles_drift(y, beta) if y.ndim == 2 else _gram_drift(y, beta)


def pair(y: jax.Array) -> jax.Array:
    return jnp.cos(y[0] - y[1]) if y.ndim == 2 else y[:, 0, 1]


def _angles_drift(theta: jax.Array, beta: jax.Array) -> jax.Array:
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    mass = along = across = jnp.zeros_like(theta)
    for j in range(TOKENS):
        k = jnp.exp(beta * (cos * cos[j] + sin * sin[j] - 1))
        mass, along, across = mass + k, along + k * cos[j], across + k * sin[j]
    return (cos * across - sin * along) / mass


def _gram_drift(g: jax.Array, beta: jax.Array) -> jax.Array:
    k = jnp.exp(beta * (g - 1))
    m = (k / k.sum(-1, keepdims=True)) @ g
    n = m - jnp.diagonal(m, axis1=1, axis2=2)[..., None] * g
    return n + n.swapaxes(1, 2)


def probabilities(y: jax.Array, betas: jax.Array, step: float) -> jax.Array:
    """P(⟨x_1,x_2⟩ ≥ 0.999) at TIMES, shape (betas, times), by third-order Adams–Bashforth."""
    inner = round(EVERY / step)

    def one(beta):
        f = lambda y: drift(y, beta)
        # Two steps back in time by Runge–Kutta give the history that the first step needs.
        before = _runge_kutta(f, y, -step)
        history = f(before), f(_runge_kutta(f, before, -step))

        def frame(carry, _):
            for _ in range(inner):
                y, (f1, f2) = carry
                f0 = f(y)
                carry = y + step / 12 * (23 * f0 - 16 * f1 + 5 * f2), (f0, f1)
            return carry, jnp.mean(pair(carry[0]) >= 0.999)

        return jax.lax.scan(frame, (y, history), length=TIMES.size)[1]

    return jax.lax.map(one, betas)


def _runge_kutta(f, y, h):
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3))


def reference(y: jax.Array, betas: jax.Array, step: float = 0.125) -> jax.Array:
    """The same by classical Runge–Kutta in small steps."""

    def one(beta):
        def frame(y, _):
            for _ in range(round(EVERY / step)):
                y = _runge_kutta(lambda y: drift(y, beta), y, step)
            return y, jnp.mean(pair(y) >= 0.999)

        return jax.lax.scan(frame, y, length=TIMES.size)[1]

    return jax.lax.map(one, betas)


def euler_step(x, beta: float, step: float = 0.1):
    """The peer: one step of the usual script, in eager PyTorch."""
    import torch

    v = torch.softmax(beta * x @ x.transpose(1, 2), dim=-1) @ x
    v = v - (v * x).sum(-1, keepdim=True) * x
    x = x + step * v
    return x / x.norm(dim=-1, keepdim=True)


def euler_probabilities(x: np.ndarray, betas: np.ndarray, step: float = 0.1) -> np.ndarray:
    import torch

    rows = []
    for beta in betas:
        y, row = torch.tensor(x, dtype=torch.float32), []
        for _ in TIMES:
            for _ in range(round(EVERY / step)):
                y = euler_step(y, float(beta), step)
            row.append(float(((y[:, 0] * y[:, 1]).sum(-1) >= 0.999).double().mean()))
        rows.append(row)
    return np.array(rows)


def measure(quick: bool = False) -> dict:
    import torch

    samples = 256 if quick else SAMPLES
    compute, exact = jax.jit(probabilities, static_argnums=2), jax.jit(reference)
    rows, summary = [], []
    for dim in (2, 128):
        x = start(dim, samples)
        timed = jnp.asarray(BETAS[::30], jnp.float32)
        y, tokens = state(x, jnp.float32), torch.tensor(x, dtype=torch.float32)
        seconds = timing.race(
            {
                "ours": lambda y=y, b=timed, h=STEP[dim]: compute(y, b, h),
                "one step": lambda t=tokens: euler_step(t, 3.0),
            },
            rounds=3,
            budget=10.0,
        )
        # Every Euler step costs the same, so that one stands for 300 of each of 90 β.
        peer = seconds["one step"] * HORIZON / 0.1 * BETAS.size
        ours = seconds["ours"] * BETAS.size / timed.size
        some, checked = x[: 64 if quick else 256], np.array([0.5, 4.0])
        tight = np.asarray(exact(state(some, jnp.float64), jnp.asarray(checked)))
        few = jnp.asarray(checked, jnp.float32)
        mine = np.asarray(compute(state(some, jnp.float32), few, STEP[dim]))
        errors = {
            name: float(np.sqrt(np.mean((p - tight) ** 2)))
            for name, p in {"ours": mine, "peer": euler_probabilities(some, checked)}.items()
        }
        rows.append(
            {"d": dim, "samples": samples, "seconds": ours, "peer_seconds": peer,
             "error": errors["ours"], "peer_error": errors["peer"]}
        )  # fmt: skip
        summary.append(
            f"d = {dim}: {ours:.0f} s against {peer:.0f} s, {peer / ours:.0f} times as fast; "
            f"rms error of P {errors['ours']:.1e} against {errors['peer']:.1e}"
        )
    return {"rows": rows, "summary": summary}


def draw(result: dict, path) -> None:
    panels = {
        "phase diagram": [
            {"method": name, "x": r["d"], "y": r[key]}
            for r in result["rows"]
            for name, key in (
                ("inner products or angles", "seconds"),
                ("PyTorch, Euler", "peer_seconds"),
            )
        ]
    }
    title = "32 tokens, 2048 samples, 90 β, t ≤ 30"
    figures.lines(panels, path, title, "dimension d", "seconds", result["machine"])
