"""Softmax attention is not a gradient flow."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points, uniform
from metastable.observe.linearization import linearize
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Softmax attention is not a gradient flow",
    places=[
        "eq. (34), section on the Wasserstein gradient flow",
        "Proposition 4.2",
        "eqs. (38) to (40), the weighted metric",
    ],
    claim=(
        "The softmax velocity is no Wasserstein gradient; the unnormalised one is, and "
        "softmax attention with V = QᵀK symmetric is a gradient flow in a metric weighted by "
        "Z_i."
    ),
    method=(
        "Measure the antisymmetric part of the derivative of the velocity at random places, "
        "for SA and USA and several matrices, and compare Z_i times the velocity with a "
        "finite-difference gradient of the energy."
    ),
    subject="existence",
    basis="text",
    limits=(
        "Eight tokens in d = 3, ten random places for each of six β; a curl is seen, a gradient"
        " excluded only at those places."
    ),
    planted="SelfAttention.normalized = True",
    settings={"tokens": 8, "dim": 3, "betas": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0], "draws": 10},
    fast={"betas": [0.5, 1.0, 2.0, 4.0], "draws": 3},
)


def sa_curl(*, tokens: int, dim: int, betas: list[float], draws: int) -> Finding:
    """Antisymmetric part of the derivative: zero for gradients, and only for them."""
    random = np.random.default_rng(2)
    form = random.normal(size=(dim, dim))
    form = (form + form.T) / 2
    fields = {
        "SA, V = QᵀK = I": lambda beta: SelfAttention(beta),
        "USA, V = QᵀK = I": lambda beta: SelfAttention(beta, normalized=False),
        "USA, V = QᵀK symmetric": lambda beta: SelfAttention(beta, form, None, form, False),
        "USA, V ≠ QᵀK": lambda beta: SelfAttention(beta, form, None, None, False),
    }
    curls = {
        name: np.array(
            [
                [curl(uniform(tokens, dim, seed), make(beta)) for seed in range(draws)]
                for beta in betas
            ]
        )
        for name, make in fields.items()
    }
    start = uniform(tokens, dim, seed=0)
    gradient = energy_gradient_error(start, betas[-1], form)
    rows = [
        holds(
            "SA is no gradient flow: curl ‖J − Jᵀ‖/‖J + Jᵀ‖ of its velocity",
            "section on the Wasserstein gradient flow, eq. (34)",
            curls["SA, V = QᵀK = I"][-1].min() > 1e-3,
            "> 0",
            f"{curls['SA, V = QᵀK = I'][-1].min():.3f} or more at β = {betas[-1]:g}",
        ),
        holds(
            "USA is one, also for V = QᵀK symmetric, and not for V ≠ QᵀK",
            "Proposition 4.2; eqs. (36) and (39)",
            max(curls["USA, V = QᵀK = I"].max(), curls["USA, V = QᵀK symmetric"].max()) < 1e-10
            and curls["USA, V ≠ QᵀK"].min() > 1e-3,
            "curl 0, 0 and > 0",
            f"{curls['USA, V = QᵀK = I'].max():.0e}, {curls['USA, V = QᵀK symmetric'].max():.0e}, "
            f"{curls['USA, V ≠ QᵀK'].min():.2f}",
        ),
        judge(
            "SA is a gradient flow in the metric weighted by Z_i: largest difference of Z_i ẋ_i "
            "from ∂_iE (central differences), V = QᵀK symmetric",
            "eqs. (38) to (40)",
            0.0,
            gradient,
            absolute=1e-6,
        ),
    ]
    figure = plot_lines(
        {name: (betas, np.maximum(values.mean(axis=1), 1e-17)) for name, values in curls.items()},
        "β",
        "curl, relative",
        f"Antisymmetric over symmetric part of the derivative at {draws} random places of {tokens} "
        f"tokens on S^{dim - 1}.",
        log="y",
        lines=True,
    )
    return Finding(rows, {"curl": figure})


def curl(measure: Points, field: SelfAttention) -> float:
    none = np.zeros((0, measure.dim, measure.dim))
    J = linearize(measure, field, none).jacobian
    return float(np.linalg.norm(J - J.T) / np.linalg.norm(J + J.T))


def energy_gradient_error(measure: Points, beta: float, form: np.ndarray) -> float:
    """Largest |Z_i ẋ_i − ∂_iE| with E = (1/2β) Σ e^{β⟨Vx_i,x_j⟩}, in tangent directions."""
    x = np.asarray(measure.points)
    energy = lambda x: np.exp(beta * x @ form @ x.T).sum() / (2 * beta)
    slopes, step = np.zeros_like(x), 1e-5
    for index in np.ndindex(*x.shape):
        move = np.zeros_like(x)
        move[index] = step
        slopes[index] = (energy(x + move) - energy(x - move)) / (2 * step)
    slopes -= np.sum(slopes * x, axis=1, keepdims=True) * x
    Z = np.exp(beta * x @ form @ x.T).sum(axis=1, keepdims=True)
    weighted = Z * np.asarray(SelfAttention(beta, form, None, form).velocity(measure))
    return float(np.abs(weighted - slopes).max() / np.abs(slopes).max())
