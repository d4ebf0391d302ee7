"""Clusters on demand beside the linear theory: what is trained, and what theory would choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from metastable.core.outcome import Outcome
from metastable.learn.control.clusters_on_demand import (
    Demand,
    Heads,
    count_clusters,
    success,
    train_clusters,
)
from metastable.learn.cut import Cut, unless_cut
from metastable.learn.lesson import Curves, Lesson
from metastable.learn.training import Training
from metastable.theory.counts import count_distribution, fewest_tokens
from metastable.theory.perturbation import balanced_strength, pinning_strength
from metastable.theory.spectrum import switch_points

__all__ = ["chosen_beta", "learn_clusters"]


def chosen_beta(clusters: int, tokens: int, samples: int = 200) -> tuple[float, float]:
    """The β that linear theory takes for k clusters on the circle, and P(k) there.

    The maximum over β of P(k) = `count_distribution(β).counts[k]` where mode k dominates, and
    somewhat beyond. Below the first switch, 1.0445, one mode alone grows.
    """
    edges = np.r_[0.3, switch_points(2, clusters + 1)]
    low, high = edges[clusters - 1], edges[clusters]
    reach = 0.5 * (high - low)

    def chance(beta: float) -> float:
        # Below this many tokens there is no law; a few tokens have its β for a guide all the same.
        least = fewest_tokens(float(beta), 2)
        found = count_distribution(float(beta), 2, max(tokens, least), samples=samples, seed=3)
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
    facts: dict[str, Any] = {
        "tokens": spec.tokens,
        "asked depth": spec.horizon,
        "fresh starts": spec.tests,
        "counted": f"maxima of the kernel density at β = {spec.width:g}",
    }
    shares: dict[str, dict[int, tuple[float, float, float]]] = {}
    losses: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    outcome = Outcome("done", "Every field was trained.")
    try:
        for k in spec.clusters:
            beta, chance = chosen_beta(k, spec.tokens)
            facts[f"k = {k}: linear theory's β and P(k) at exit"] = {"β": beta, "P": chance}
            alone = _demand(spec, k, "beta")
            counts = count_clusters(alone, alone.first(beta), spec.tests, spec.seed + 1)
            shares.setdefault("theory's β, V = I", {})[k] = success(counts, k)
            for free in spec.free:
                training = _train(spec, _demand(spec, k, free), folder)
                found = training.parameters
                counts = count_clusters(_demand(spec, k, free), found, spec.tests, spec.seed + 1)
                shares.setdefault(f"trained: {free}", {})[k] = success(counts, k)
                facts[f"k = {k}, trained: {free}"] = _told(spec, k, free, found)
                line = training.checks, training.validation
                losses.setdefault(free, {})[f"k = {k}"] = line
    except Cut as cut:
        outcome = cut.outcome
    facts["shares"] = {n: {str(k): s[0] for k, s in each.items()} for n, each in shares.items()}
    table = {n: np.array([s for s in each.values()]) for n, each in shares.items()}
    curves = {
        "shares": Curves(
            "clusters asked for, k",
            "share of fresh starts with k clusters",
            {name: (np.array(list(shares[name])), seen[:, 0]) for name, seen in table.items()},
            {"asked": 0.8},
            "Clusters on demand: share of fresh starts, with Wilson's 95 % intervals.",
            bars={name: (seen[:, 2] - seen[:, 1]) / 2 for name, seen in table.items()},
        )
    }
    for free, lines in losses.items():
        caption = f"Loss 1 − |μ̂_k|² + Σ|μ̂_j|² on fixed starts, free: {free}."
        curves[f"loss_{free}"] = Curves("step", "loss", lines, caption=caption)
    return Lesson("clusters on demand", facts, curves, outcome)


def _train(spec: Any, demand: Demand, folder: Path | None) -> Training:
    name = f"{demand.free}_{demand.clusters}.npz"
    return unless_cut(
        train_clusters(
            demand,
            steps=spec.steps,
            rate=spec.rate,
            seed=spec.seed,
            checkpoint=None if folder is None else folder / name,
        )
    )


def _told(spec: Any, k: int, free: str, found: Heads) -> dict[str, Any]:
    betas = np.exp(np.asarray(found.log_beta))
    told: dict[str, Any] = {"β": betas.round(3).tolist()}
    if free != "beta":
        told["v"] = np.asarray(found.value).round(3).tolist()
    if free == "layer":
        strength = abs(float(found.strength))
        told["ε"] = strength
        told["ε/ε_c"] = strength / balanced_strength(betas[0], k)
        told["ε/pinning"] = strength / pinning_strength(betas[0], k, spec.tokens)
    return told


def _demand(spec: Any, clusters: int, free: str) -> Demand:
    return Demand(clusters, spec.tokens, spec.horizon, free, width=spec.width)
