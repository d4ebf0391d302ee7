"""Many small systems: the phase diagram P(⟨x_1,x_2⟩ ≥ 0.999) over time and β, against PyTorch.

n = 32 tokens, 2048 samples, 90 values of β, t ≤ 30, as in the phase diagrams of arXiv:2312.10794.
The peer is the usual script: eager PyTorch, batched, Euler steps of 0.1. Ours is
`metastable.flows.ensemble`, by which sweeps draw such diagrams: angles on the circle, a closed
equation of inner products above, exponential Adams–Bashforth steps of 0.3 of the fastest time
scale.
"""

from __future__ import annotations

import numpy as np

from benchmarks import draw as figures
from benchmarks import timing
from metastable.core.numerics import jax, jnp
from metastable.flows.ensemble import Angles, Form, Gram, flow_ensemble

TOKENS, SAMPLES, HORIZON, EVERY = 32, 2048, 30.0, 0.5
BETAS = np.linspace(0.1, 9.0, 90)
TIMES = np.arange(1, round(HORIZON / EVERY) + 1) * EVERY


def start(dim: int, samples: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng([dim, seed]).normal(size=(samples, TOKENS, dim))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def form_at(dim: int, beta: float) -> Form:
    return (Angles if dim == 2 else Gram)(jnp.asarray(beta))


def states(x: np.ndarray, dtype) -> list[jax.Array]:
    """Angles (n, samples) on the circle, inner products (samples, n, n) above, in chunks."""
    if x.shape[-1] == 2:
        return [jnp.asarray(np.arctan2(x[..., 1], x[..., 0]).T, dtype)]
    every = range(0, len(x), Gram.chunk)
    parts = [x[k : k + Gram.chunk] for k in every]
    return [jnp.asarray(part @ part.transpose(0, 2, 1), dtype) for part in parts]


def near(form: Form, y: jax.Array) -> jax.Array:
    return form.pair(y) >= 0.999


def probabilities(parts: list[jax.Array], dim: int, betas: np.ndarray) -> np.ndarray:
    """P(⟨x_1,x_2⟩ ≥ 0.999) at TIMES, shape (betas, times)."""
    frames, rows = TIMES.size + 1, []
    for beta in betas:
        seen = [flow_ensemble(form_at(dim, beta), y, HORIZON, frames, near) for y in parts]
        rows.append(np.concatenate(seen, axis=1).mean(1)[1:])
    return np.array(rows)


def reference(parts: list[jax.Array], dim: int, betas: np.ndarray, step: float = 0.125):
    """The same by classical Runge–Kutta in small steps."""

    @jax.jit
    def frame(form, y):
        for _ in range(round(EVERY / step)):
            k1 = form.drift(y)
            k2 = form.drift(y + step / 2 * k1)
            k3 = form.drift(y + step / 2 * k2)
            y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + form.drift(y + step * k3))
        return y, near(form, y)

    rows = []
    for beta in betas:
        seen = []
        for y in parts:
            row = []
            for _ in TIMES:
                y, close = frame(form_at(dim, beta), y)
                row.append(np.asarray(close))
            seen.append(row)
        rows.append(np.concatenate(seen, axis=1).mean(1))
    return np.array(rows)


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
    rows, summary = [], []
    for dim in (2, 128):
        x = start(dim, samples)
        timed = BETAS[::30]
        y, tokens = states(x, jnp.float32), torch.tensor(x, dtype=torch.float32)
        seconds = timing.race(
            {
                "ours": lambda y=y, d=dim, b=timed: probabilities(y, d, b),
                "one step": lambda t=tokens: euler_step(t, 3.0),
            },
            rounds=3,
            budget=10.0,
        )
        # Every Euler step costs the same, so that one stands for 300 of each of 90 β.
        peer = seconds["one step"] * HORIZON / 0.1 * BETAS.size
        ours = seconds["ours"] * BETAS.size / timed.size
        some, checked = x[: 64 if quick else 256], np.array([0.5, 4.0])
        tight = reference(states(some, jnp.float64), dim, checked)
        mine = probabilities(states(some, jnp.float32), dim, checked)
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
