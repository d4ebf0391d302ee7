"""Does doubly stochastic attention end in one cluster?"""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SinkhornAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Points
from metastable.observe.equilibria import Share
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates

ENTRY = Entry(
    title="Does doubly stochastic attention end in one cluster?",
    places=["arXiv:2312.10794, Remark 3.5, leaves clustering of Sinkformers open"],
    claim=(
        "Numerically yes, for Q = K = V = I: all random starts on the circle and on spheres end "
        "together at small β, and no ring of equal groups is stable at any β tried."
    ),
    method=(
        "Random starts; rates of rings by differences of the velocity against the closed form "
        "μ_p − βS_p²/(1 + Â_p), which softmax rates exceed by the part of the scalings; its sign "
        "over many sizes and β."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "β up to 1 for random starts, since large β waits exponentially long; rings of equal "
        "groups only; a share of starts is no proof."
    ),
    planted="SinkhornAttention.beta * 1.1",
    settings={"sizes": [[4, 2], [8, 2], [8, 3], [8, 5]], "beta": 1.0, "starts": 200,
              "rings": [2, 3, 4, 5, 6], "ring_betas": [0.5, 2.0, 8.0]},
    fast={"sizes": [[5, 2]], "starts": 24, "rings": [3], "ring_betas": [2.0]},
)  # fmt: skip


def sinkhorn_one_cluster(
    *, sizes: list, beta: float, starts: int, rings: list[int], ring_betas: list[float]
) -> Finding:
    """Shares of random starts that meet, and rates of rings."""
    rows, notes = [], []
    field = SinkhornAttention(beta, iterations=200, tolerance=1e-11)
    for tokens, dim in sizes:

        def end(x):
            run = flow(Points(x), field, 80.0, stepper=Adaptive(1e-7, 1e-9), frames=2,
                       progress=False)  # fmt: skip
            return run.frames[-1].points

        raw = np.random.default_rng([tokens, dim]).standard_normal((starts, tokens, dim))
        ends = np.asarray(jax.jit(jax.vmap(end))(raw / np.linalg.norm(raw, axis=2)[..., None]))
        met = np.linalg.norm(ends.mean(axis=1), axis=1) > 1 - 1e-5
        share = Share(int(met.sum()), starts)
        rows.append(judge(f"share of starts that meet, n = {tokens}, d = {dim}, β = {beta:g}",
                          "open", 1.0, share.value, absolute=0.0))  # fmt: skip
        notes.append(f"n = {tokens}, d = {dim}: {share!r} meet.")
    for k in rings:
        for b in ring_betas:
            sharp = SinkhornAttention(b, iterations=1000)
            # Central differences: error h² and 10⁻¹³/h.
            rows.append(judge(f"ring of {k}, β = {b:g}: largest rate", "derived",
                              float(scaled_rates(b, k).max()), fastest(sharp, k),
                              relative=1e-5))  # fmt: skip
    betas = np.linspace(0.1, 10.0, 100)
    least = min(scaled_rates(b, k).max() for b in betas for k in range(2, 25))
    rows.append(holds("no ring of 2 to 24 groups is stable for β up to 10", "open", least > 0,
                      "rates above 0", f"{least:.3g}"))  # fmt: skip
    figure = plot_lines(
        {f"ring of {k}": (betas, [scaled_rates(b, k).max() for b in betas]) for k in (2, 3, 5)},
        "β", "largest growth rate (Sinkhorn clock, SA clock)",
        "Rings of equal groups under doubly stochastic attention; dashed: softmax.",
        theory={f"softmax, ring of {k}": (betas, [ring_rates(b, k).max() for b in betas])
                for k in (2, 3, 5)},
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"rates": figure}, notes)


def fastest(field: SinkhornAttention, groups: int, h: float = 1e-4) -> float:
    """The largest rate of a ring, by central differences of the velocity."""
    angles = 2 * np.pi * np.arange(groups) / groups

    def turning(angles: np.ndarray) -> np.ndarray:
        x = np.column_stack([np.cos(angles), np.sin(angles)])
        v = np.asarray(field.velocity(Points(x)))
        return x[:, 0] * v[:, 1] - x[:, 1] * v[:, 0]

    steps = h * np.eye(groups)
    jacobian = np.array([turning(angles + e) - turning(angles - e) for e in steps]).T / (2 * h)
    return float(np.linalg.eigvals(jacobian).real.max())


def scaled_rates(beta: float, groups: int) -> np.ndarray:
    """Rates of a ring when rows and columns of the weights sum to one.

    With a_q the weights of the ring, Â_p = Σa_q cos pθ_q and S_p = Σa_q sin θ_q sin pθ_q, a mode
    δ_i = e^{ipθ_i} changes the logarithms of the scalings by iβS_p δ_i/(1 + Â_p).
    """
    angles = 2 * np.pi * np.arange(groups) / groups
    share = np.exp(beta * (np.cos(angles) - 1))
    share /= share.sum()
    modes = np.outer(np.arange(1, groups), angles)
    bend, wave = np.sin(modes) @ (share * np.sin(angles)), np.cos(modes) @ share
    return ring_rates(beta, groups) - beta * bend**2 / (1 + wave)
