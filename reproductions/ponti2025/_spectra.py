"""A spectrum beside its limit law: the distance of the two."""

from __future__ import annotations

from metastable.comparison.random_matrices.spectra import Spectrum
from metastable.core.verdict import Verdict, judge

__all__ = ["REACH", "near_law"]

# Distance of one spectrum from its law, times n: 2 to 3 for these matrices, and 1 value in n may
# stand outside.
REACH = 6.0


def near_law(claim: str, source: str, found: Spectrum) -> Verdict:
    """The distance of the largest spectrum from its law, which must be a few times 1/n."""
    n = found.sizes[-1]
    return judge(
        f"{claim}: Kolmogorov distance, n = {n}", source, 0.0, found.distances[-1],
        absolute=REACH / n,
    )  # fmt: skip
