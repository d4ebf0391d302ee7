"""The start decides where tokens end."""

from __future__ import annotations

from collections import Counter

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import Share
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.altafini2025._states import line_rates

ENTRY = Entry(
    title="The start decides where tokens end",
    places=["arXiv:2511.11553, abstract"],
    claim=(
        "Consensus and bipartite consensus are stable together: with the same matrices some "
        "starts end in one group, others in two opposite ones."
    ),
    method=(
        "Random starts of one field; how many tokens end at each side of the principal "
        "eigenvector, against which splits the closed rates call stable; and below the edge "
        "λ_1 tanh β = λ_2, where only consensus is left."
    ),
    subject="clusters",
    basis="report",
    limits="Q = K = I, a diagonal V in the plane and in R³; shares depend on the draw of starts.",
    planted="SelfAttention.value = [[1.0, 0.0], [0.0, 1.0]]",
    settings={"values": [2.0, 1.0], "tokens": 6, "betas": [0.3, 1.5], "starts": 2000},
    fast={"starts": 200},
)


def several_attractors(
    *, values: list[float], tokens: int, betas: list[float], starts: int
) -> Finding:
    """Ends of random starts by how many tokens are on the lighter side."""
    lam = np.array(values)
    raw = np.random.default_rng(3).standard_normal((starts, tokens, len(lam)))
    x = raw / np.linalg.norm(raw, axis=2, keepdims=True)
    rows, heights, seen = [], {}, {}
    for beta in betas:
        field = SelfAttention(beta, value=np.diag(lam))

        def end(x, field=field):
            run = flow(Points(x), field, 120.0, frames=2, progress=False)
            return run.frames[-1].points

        ends = np.asarray(jax.jit(jax.vmap(end))(x))
        lined = (np.abs(ends[:, :, 0]) > 1 - 1e-6).all(axis=1)
        light = np.minimum((ends[:, :, 0] > 0).sum(axis=1), (ends[:, :, 0] < 0).sum(axis=1))
        seen[beta] = Counter(light[lined].tolist())
        stable = [m for m in range(tokens // 2 + 1)
                  if m == 0 or line_rates(lam, 0, tokens - m, m, beta)[-1] < 0]  # fmt: skip
        rows.append(holds(f"β = {beta:g}: splits that occur are those that are stable", "derived",
                          set(seen[beta]) <= set(stable), f"among {stable}",
                          f"{dict(sorted(seen[beta].items()))}"))  # fmt: skip
        if min(stable) == max(stable):
            rows.append(judge(f"β = {beta:g}: share of starts that end in consensus", "derived",
                              1.0, seen[beta][0] / starts, absolute=0.0))  # fmt: skip
        heights[f"β = {beta:g}"] = [seen[beta][m] / starts for m in range(tokens // 2 + 1)] + [
            1 - lined.mean()
        ]
    most = max(betas)
    both = Share(sum(count for m, count in seen[most].items() if m > 0), starts)
    claim = holds(f"β = {most:g}: some starts end in one group, some in two", "abstract",
                  0 < both.hits and seen[most][0] > 0, "both",
                  f"two groups: {both!r}; one: {seen[most][0]}")  # fmt: skip
    figure = plot_bars(
        [f"{tokens - m} and {m}" for m in range(tokens // 2 + 1)] + ["off the axis"], heights,
        "tokens on either side of the principal eigenvector", "share of starts",
        f"{starts} random starts, eigenvalues {', '.join(map(str, values))}.",
    )  # fmt: skip
    return Finding([claim, *rows], {"ends": figure})
