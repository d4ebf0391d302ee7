"""The energy in terms of distances."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="The energy in terms of distances",
    places=["equations 50 and 51"],
    claim="The energy equals e^(2β)/(2β) times the double integral of e^(−β‖x−y‖).",
    method="Evaluate both forms on one measure.",
    known="disagree",
    correction="With ‖x−y‖² = 2 − 2⟨x,y⟩ the energy is e^β/(2β) ∬ e^(−(β/2)‖x−y‖²).",
    subject="existence",
    basis="text",
    limits=(
        "One measure of 40 tokens in d = 3, β from 0.25 to 8; an identity, not tested for "
        "continuous measures."
    ),
    planted="energy.beta * 1.01",
    settings={"tokens": 40, "dim": 3, "betas": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]},
)


def distance_form(*, tokens: int, dim: int, betas: list[float]) -> Finding:
    """The energy written with distances: as printed, and as it is."""
    x = np.asarray(uniform(tokens, dim, seed=8).points)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    exact = np.array([float(energy(Points(x), beta)) for beta in betas])
    b = np.array(betas)[:, None, None]
    printed = (np.exp(2 * b) / (2 * b) * np.exp(-b * apart)).mean(axis=(1, 2))
    right = (np.exp(b) / (2 * b) * np.exp(-b / 2 * apart**2)).mean(axis=(1, 2))
    worst = lambda values: float(np.abs(values / exact - 1).max())
    rows = [
        judge("as printed: e^(2β)/2β ∬e^(−β‖x−y‖), largest relative error", "equation 50", 0.0,
              worst(printed), absolute=1e-12),
        judge("e^β/2β ∬e^(−(β/2)‖x−y‖²), largest relative error", "‖x−y‖² = 2 − 2⟨x,y⟩", 0.0,
              worst(right), absolute=1e-12),
    ]  # fmt: skip
    figure = plot_lines(
        {"energy E_β": (betas, exact)},
        "β",
        "energy",
        f"One measure of {tokens} tokens, d = {dim}.",
        theory={"with squared distances": (betas, right), "as printed": (betas, printed)},
        log="y",
    )
    return Finding(rows, {"forms": figure})
