"""How order sets in with less noise."""

from __future__ import annotations

from metastable.report.figures.noise import plot_branches
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import branch_in_kappa, transition
from metastable.theory.noise import tricritical_beta

ENTRY = Entry(
    title="How order sets in with less noise",
    places=["summary: noise, the transition"],
    claim=(
        "Beyond a critical β order appears by a jump for unnormalised attention; for softmax "
        "it does not near the threshold."
    ),
    method="Continuation of the ordered branch on both sides of β_*.",
    subject="noise",
    basis="text",
    limits=(
        "Stationary states by continuation in d = 2, 3 and 8, close to the threshold (5 % about"
        " β_*); no run with noise."
    ),
    planted="transition.beta * 0.8",
    settings={"around": 0.05, "dims": [2, 3, 8]},
    fast={"dims": [2]},
)


def bending_branches(*, around: float, dims: list[int]) -> Finding:
    """USA's ordered branch bends back exactly above β_*; SA's never does."""
    rows, shown = [], []
    for dim in dims:
        turning = tricritical_beta(dim)
        for factor, bends in ((1 - around, False), (1 + around, True)):
            found = transition(factor * turning, dim, normalized=False)
            back = found.kappa_ordered < found.kappa_uniform * (1 - 1e-9)
            rows.append(
                holds(f"d = {dim}, USA, β = {factor:g} β_*: the branch bends back",
                      "transition continuous iff β ≤ β_*", back == bends,
                      "yes" if bends else "no", "yes" if back else "no")
            )  # fmt: skip
        smooth = transition((1 + around) * turning, dim, normalized=True)
        rows.append(
            holds(f"d = {dim}, SA at the same β: it bends back", "derived",
                  smooth.kappa_ordered >= smooth.kappa_uniform * (1 - 1e-9), "no",
                  f"κ at the fold over κ_#: {smooth.kappa_ordered / smooth.kappa_uniform:.6f}")
        )  # fmt: skip
    turning = tricritical_beta(dims[0])
    shown = [
        branch_in_kappa(factor * turning, dims[0], normalized=False)
        for factor in (1 - around, 1 + around)
    ]
    return Finding(rows, {"branches": plot_branches(shown)})
