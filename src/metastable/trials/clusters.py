"""Clusters on demand beside the linear theory: what is trained, and what theory would choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from metastable.flows.trajectory import Outcome
from metastable.learn.clusters_on_demand import Demand, count_clusters, success, train_clusters
from metastable.learn.lesson import Curves, Lesson
from metastable.theory.counts import count_distribution
from metastable.theory.perturbation import balanced_strength, pinning_strength
from metastable.theory.spectrum import switch_points

__all__ = ["chosen_beta", "learn_clusters"]


def chosen_beta(clusters: int, tokens: int, samples: int = 200) -> tuple[float, float]:
    """The β that linear theory takes for k clusters on the circle, and P(k) there.

    The maximum over β of P(k) = `count_distribution(β).counts[k]` where mode k dominates, and
    somewhat beyond. Below the first switch, 1.0445, one mode alone grows.

    >>> beta, chance = chosen_beta(3, 1000)
    >>> 4 < beta < 6.5, 0.7 < chance < 0.95
    (True, True)
    """
    edges = np.r_[0.3, switch_points(2, clusters + 1)]
    low, high = edges[clusters - 1], edges[clusters]
    reach = 0.5 * (high - low)

    def chance(beta: float) -> float:
        found = count_distribution(float(beta), 2, tokens, samples=samples, seed=3)
        return found.counts.get(clusters, 0.0)

    best: Any = minimize_scalar(
        lambda beta: -chance(beta),
        bounds=(max(0.2, low - reach), high + reach),
        method="bounded",
        options={"xatol": 0.05, "maxiter": 9},
    )
    return float(best.x), -float(best.fun)


def learn_clusters(spec: Any, folder: Path | None = None) -> Lesson:
    """Carry out a `spec.learning.OnDemand`: for every k and every set of free parameters."""
    ks = np.array(spec.clusters)
    shares: dict[str, list[tuple[float, float, float]]] = {"theory's β, V = I": []}
    facts: dict[str, Any] = {
        "tokens": spec.tokens,
        "asked depth": spec.horizon,
        "fresh starts": spec.tests,
        "counted": f"maxima of the kernel density at β = {spec.width:g}",
    }
    curves: dict[str, Curves] = {}
    outcome = Outcome("done", "Every field was trained.")
    for k in spec.clusters:
        beta, chance = chosen_beta(k, spec.tokens)
        facts[f"k = {k}: linear theory's β and P(k) at exit"] = {"β": beta, "P": chance}
        alone = _demand(spec, k, "beta")
        counts = count_clusters(alone, alone.first(beta), spec.tests, spec.seed + 1)
        shares["theory's β, V = I"].append(success(counts, k))
        for free in spec.free:
            demand = _demand(spec, k, free)
            training = train_clusters(
                demand,
                steps=spec.steps,
                rate=spec.rate,
                seed=spec.seed,
                checkpoint=None if folder is None else folder / f"{free}_{k}.npz",
            )
            if training.outcome.name != "done":
                outcome = training.outcome
            found = training.parameters
            counts = count_clusters(demand, found, spec.tests, spec.seed + 1)
            shares.setdefault(f"trained: {free}", []).append(success(counts, k))
            betas = np.exp(np.asarray(found.log_beta))
            told = {"β": betas.round(3).tolist(), "share": success(counts, k)[0]}
            if free in ("value", "heads", "layer"):
                told["v"] = np.asarray(found.value).round(3).tolist()
            if free == "layer":
                strength = float(np.exp(found.log_strength))
                told["ε"] = strength
                told["ε/ε_c"] = strength / balanced_strength(betas[0], k)
                told["ε/pinning"] = strength / pinning_strength(betas[0], k, spec.tokens)
            facts[f"k = {k}, trained: {free}"] = told
            lines = curves.get(f"loss_{free}")
            line = {f"k = {k}": (training.checks, training.validation)}
            caption = f"Loss 1 − |μ̂_k|² + Σ|μ̂_j|² on fixed starts, free: {free}."
            curves[f"loss_{free}"] = Curves(
                "step", "loss", {**(lines.lines if lines else {}), **line}, caption=caption
            )
    table = {name: np.array(found) for name, found in shares.items()}
    shown = Curves(
        "clusters asked for, k",
        "share of fresh starts with k clusters",
        {name: (ks, found[:, 0]) for name, found in table.items()},
        {"asked": 0.8},
        "Clusters on demand: share of fresh starts, with Wilson's 95 % intervals.",
        bars={name: (found[:, 2] - found[:, 1]) / 2 for name, found in table.items()},
    )
    facts["shares"] = {name: found[:, 0].tolist() for name, found in table.items()}
    return Lesson("clusters on demand", facts, {"shares": shown, **curves}, outcome)


def _demand(spec: Any, clusters: int, free: str) -> Demand:
    return Demand(clusters, spec.tokens, spec.horizon, free, width=spec.width)
