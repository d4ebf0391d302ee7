"""Are limits of Gaussians of low rank for random matrices?"""

from __future__ import annotations

import numpy as np

from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import Gaussian
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Are limits of Gaussians of low rank for random matrices?",
    places=["arXiv:2501.18322, histograms of ranks", "asked here for matrices without structure"],
    claim=(
        "Numerically yes in dimensions 2 and 3: for Q, K, V with independent normal entries, "
        "covariances that converge under softmax attention have a limit of rank at most ⌈d/2⌉."
    ),
    method=(
        "Random matrices and starts, run to a late time; of the runs that neither blow up nor run "
        "out of steps, count variances that last: those that keep three quarters of their size "
        "while time doubles (1/t would halve them) and "
        "are not below 1e-6 of the start. A run of which such a variance still changes by 5 % is "
        "undecided. Wilson's interval for the share of low ranks among the decided ones."
    ),
    subject="Gaussian",
    basis="code",
    limits=(
        "The scripts of the source count such ranks, and print exceptions, for K = −Q and V = I or "
        "GᵀG only; V = I has a proof. Not every V: with V a rotation by a right angle of the plane "
        "and QᵀK = −I the covariance I is at rest. Slow runs may be missed; dimensions above 3 "
        "converge too rarely. Ranks were first counted relative to the largest variance, which "
        "took two runs that shrink to 0 for limits of rank 2; the floor was added after that, and "
        "the rule for undecided runs after two that were neither at rest nor at 0: one blows up "
        "at t of about 10 000, the other shrinks."
    ),
    implies=("limit_ranks",),
    planted="flow.horizon * 0.0003",
    settings={"dims": [2, 3], "draws": 300, "horizon": 1000.0, "steps": 3000},
    fast={"dims": [2], "draws": 60, "steps": 1500},
)


def low_rank_limits(*, dims: list[int], draws: int, horizon: float, steps: int) -> Finding:
    """Ranks of limits over random Q, K and V."""
    rows, bars, notes = [], {}, []
    for dim in dims:
        ranks, ended = [], {}
        for seed in range(draws):
            Q, K, V, root = np.random.default_rng([dim, seed]).standard_normal((4, dim, dim))
            head = SelfAttention(dim**-0.5, query=Q, key=K, value=V)
            start = Gaussian(np.zeros(dim), root @ root.T)
            how = Adaptive(rtol=1e-8, atol=1e-8, max_steps=steps)
            run = flow(start, head, horizon, frames=3, stepper=how)
            ended[run.outcome.name] = ended.get(run.outcome.name, 0) + 1
            if run.outcome.name == "done":
                half_way, last = run.frames[1].eigenvalues, run.frames[2].eigenvalues
                tiny = 1e-6 * np.linalg.norm(root) ** 2
                lasts = (last > 0.75 * half_way) & (last > tiny)
                if np.all(np.abs(last - half_way)[lasts] < 0.05 * half_way[lasts]):
                    ranks.append(int(np.sum(lasts)))
                else:  # it still moves
                    ended["done"] -= 1
                    ended["undecided"] = ended.get("undecided", 0) + 1
        half, found = -(-dim // 2), len(ranks)
        low = sum(rank <= half for rank in ranks)
        left, right = _wilson(low, found)
        rows.append(
            holds(f"d = {dim}: limits of rank at most {half}", "asked here; scripts",
                  found > 0 and low == found, f"all of {found}",
                  f"{low} of {found}, 95 % interval {left:.2f} to {right:.2f}")
        )  # fmt: skip
        bars[f"d = {dim}"] = [ranks.count(k) / max(found, 1) for k in range(max(dims) + 1)]
        notes.append(f"d = {dim}: " + ", ".join(f"{k} {v}" for k, v in sorted(ended.items())) + ".")
    figure = plot_bars(
        range(max(dims) + 1), bars, "rank of the limit", "share of converged runs",
        f"Variances that last from t = {horizon / 2:g} to {horizon:g} (SA clock).",
    )  # fmt: skip
    return Finding(rows, {"ranks": figure}, notes)


def _wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for a share."""
    if total == 0:
        return 0.0, 1.0
    share, square = hits / total, z * z / total
    centre = (share + square / 2) / (1 + square)
    half = z * np.sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    return max(centre - half, 0.0), min(centre + half, 1.0)
