"""One cluster on the circle between −2/3 and −0.16?"""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import Share
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates

ENTRY = Entry(
    title="One cluster on the circle between −2/3 and −0.16?",
    places=["arXiv:2507.22857, abstract, leaves −2/3 ≤ β < −0.16 undecided"],
    claim=(
        "Numerically yes: between −2/3 and −0.16 no random start, with equal or with random "
        "masses, stays apart, and no regular polygon is stable."
    ),
    method=(
        "Random starts of few groups of unnormalised attention at negative β, half of them of "
        "random masses; rates of all regular polygons; below −2/3 the same search does find "
        "states that stay apart."
    ),
    subject="existence",
    basis="report",
    limits=(
        "A basin that holds less than about 3/starts of the starts would be missed; states other "
        "than regular polygons are searched by random starts only."
    ),
    planted="SelfAttention.beta * 2.5",
    settings={"sizes": [3, 4, 6, 9], "betas": [-0.3, -0.5, -0.6, -0.65], "starts": 600,
              "horizon": 1000.0, "control": -1.5},
    fast={"sizes": [3], "betas": [-0.6], "starts": 300, "horizon": 400.0},
)  # fmt: skip


def circle_between(
    *, sizes: list[int], betas: list[float], starts: int, horizon: float, control: float
) -> Finding:
    """Shares of starts that stay apart, by β, and the polygons."""
    rows, notes = [], []
    stuck: dict[float, int] = dict.fromkeys([*betas, control], 0)
    for tokens in sizes:
        random = np.random.default_rng([tokens, starts])
        angles = random.uniform(0, 2 * np.pi, (starts, tokens))
        masses = random.dirichlet(np.ones(tokens), starts)
        masses[::2] = 1 / tokens
        x = np.stack([np.cos(angles), np.sin(angles)], -1)
        for beta in [*betas, control]:
            field = SelfAttention(abs(beta), query=-1, normalized=False)

            def end(x, w, field=field):
                run = flow(Points(x, w), field, horizon, frames=2, progress=False)
                return w @ run.frames[-1].points

            size = np.linalg.norm(np.asarray(jax.jit(jax.vmap(end))(x, masses)), axis=1)
            stuck[beta] += int((size < 1 - 1e-6).sum())
    tried = starts * len(sizes)
    for beta in betas:
        share = Share(stuck[beta], tried)
        rows.append(judge(f"β = {beta:g}: starts that stay apart", "open", 0.0, share.hits,
                          absolute=0.0))  # fmt: skip
        notes.append(f"β = {beta:g}: {share!r} stay apart.")
    rows.append(holds(f"β = {control:g}: the search finds what stays apart", "control",
                      stuck[control] > 0, "some", f"{Share(stuck[control], tried)!r}"))  # fmt: skip
    wide = np.linspace(-0.66, -0.16, 26)
    least = {n: min(ring_rates(b, n, normalized=False).max() for b in wide) for n in range(2, 41)}
    worst = min(least, key=least.__getitem__)
    rows.append(holds("no regular polygon of 2 to 40 groups is stable in between", "derived",
                      least[worst] > 0, "rates above 0",
                      f"{least[worst]:.3g} for {worst} groups"))  # fmt: skip
    figure = plot_lines(
        {f"{n} groups": (wide, [ring_rates(b, n, normalized=False).max() for b in wide])
         for n in (2, 3, 4, 5, 8)},
        "β", "largest growth rate (USA clock)",
        "Regular polygons between −2/3 and −0.16: all unstable, the triangle least.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"rates": figure}, notes)
