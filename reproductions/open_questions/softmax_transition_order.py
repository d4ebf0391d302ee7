"""Is the onset of order continuous for softmax attention at every β and d?"""

from __future__ import annotations

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import first_bend, unique_kappa
from metastable.theory.interaction import attention_interaction
from metastable.theory.noise import critical_kappa
from metastable.theory.stationary import stationary_density

ENTRY = Entry(
    title="Is the onset of order continuous for softmax attention at every β and d?",
    places=["arXiv:2606.05140 settles unnormalised attention; softmax is outside its free energy"],
    claim=(
        "Numerically yes, for β from 0.5 to 40 and d from 2 to 16: no axial ordered state was "
        "found below 0.999 κ_#, and just above it the alignment is that of a continuous branch."
    ),
    method=(
        "Fixed-point sweeps from narrow and wide starts at several κ between β coth β, below which "
        "uniform is alone, and κ_#; alignment just past κ_#; one run of the density equation."
    ),
    subject="noise",
    basis="derived",
    limits=(
        "Interval of the answer: a jump could hide within 0.1 % of κ_#, in states without an axis, "
        "in axial states that neither start reaches, or outside the range of β and d."
    ),
    planted="Noise.kappa * 1.2",
    settings={"betas": [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0], "dims": [2, 3, 4, 8, 16],
              "shares": [0.3, 0.7, 0.95, 0.99]},
    fast={"betas": [1.0, 5.0, 20.0], "dims": [2, 3, 8], "shares": [0.5, 0.95]},
)  # fmt: skip


def softmax_transition_order(
    *, betas: list[float], dims: list[int], shares: list[float]
) -> Finding:
    """Ordered states of softmax attention below and just above κ_#."""
    rows, series = [], []
    for k, dim in enumerate(dims):
        largest, ratio = 0.0, []
        for beta in betas:
            drawn = attention_interaction(beta, dim)
            threshold = float(critical_kappa(beta, dim))
            low = float(unique_kappa(beta))
            levels = [low + share * (threshold - low) for share in shares] + [0.999 * threshold]
            for kappa in levels:
                for concentration in (50.0, 3.0):
                    found = stationary_density(drawn, kappa=kappa, concentration=concentration)
                    largest = max(largest, abs(found.alignment))
            step = 1e-3
            above = stationary_density(drawn, kappa=threshold * (1 + step), concentration=50.0)
            ratio.append(above.alignment**2 / step * float(first_bend(beta, dim)))
        # Sweeps end by Newton's method at 1e−13; uniform is 0.
        rows.append(holds(f"d = {dim}: largest alignment of any end below κ_#", "open",
                          largest < 1e-6, "uniform, < 1e−6", f"{largest:.2g}"))  # fmt: skip
        rows.append(judge(f"d = {dim}: squared alignment at 1.001 κ_# over that of a continuous "
                          "branch, farthest from one", "open", 1.0,
                          float(max(ratio, key=lambda r: abs(r - 1))), relative=0.1))  # fmt: skip
        series.append(Series(f"d = {dim}", betas, ratio, style="both", group=k))
    beta, dim = 5.0, 2
    kappa = 0.95 * float(critical_kappa(beta, dim))
    start = Density.von_mises_fisher([1.0, 0.0], 20.0)
    run = flow(start, SelfAttention(beta) + Noise(kappa), 60 * kappa, frames=2)
    # The slowest decay is e^{−0.05·60}.
    rows.append(judge("β = 5, d = 2, 0.95 κ_#: alignment of a run from a narrow start", "open", 0.0,
                      abs(complex(run.frames[-1].coefficients[1])), absolute=0.06))  # fmt: skip
    axes = Axis("β", scale="log"), Axis("m² at 1.001 κ_# over (κ/κ_# − 1)/c")
    caption = "One where order sets in continuously; a jump would be far above."
    return Finding(rows, {"onset": Lines(*axes, series, caption=caption)})
