"""A feed-forward layer against attention: the map of runs with the lines of theory over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome
from metastable.learn.control.wells import map_feedforward, spread_of_cluster
from metastable.learn.lesson import Chart, Curves, Lesson
from metastable.theory.perturbation import (
    balanced_strength,
    perturbed_rates,
    pinning_strength,
    rate_shift,
    tearing_strength,
)

__all__ = ["learn_feedforward"]

NAME = "feed-forward against attention"


def learn_feedforward(spec: Any, folder: Path | None = None) -> Lesson:
    """Carry out a `spec.learning.FeedForwardMap`."""
    strengths = np.geomspace(spec.strengths[0], spec.strengths[1], spec.points)
    found = map_feedforward(
        spec.betas,
        strengths,
        spec.wells,
        tokens=spec.tokens,
        starts=spec.starts,
        horizon=spec.horizon,
        seed=spec.seed,
    )
    m = spec.wells
    balance = np.array([balanced_strength(b, m) for b in spec.betas])
    pinning = np.array([pinning_strength(b, m, spec.tokens) for b in spec.betas])
    lines = {
        "pinned above, 2ε_c/√n": (np.log10(pinning), found.betas),
        "ruled by the layer above, ε_c": (np.log10(balance), found.betas),
    }
    where = np.log10(strengths), found.betas
    axis = "log₁₀ of the strength ε"
    told = f"{m} well{'s' if m > 1 else ''}, {spec.tokens} tokens, t = {spec.horizon:g} (SA clock)."
    pictures = {
        "counts": Chart(
            axis,
            "inverse temperature β",
            "mean number of clusters",
            *where,
            found.counts,
            lines,
            f"How many clusters there are. {told}",
        ),
        "aligned": Chart(
            axis,
            "inverse temperature β",
            "alignment Re μ̂_m",
            *where,
            found.aligned,
            lines,
            f"Whether the wells say where clusters are: 0 is chance, 1 is the wells. {told}",
        ),
    }
    facts = {
        "wells m": m,
        "tokens": spec.tokens,
        "starts": spec.starts,
        "β": list(spec.betas),
        "ε_c = λ_m/m²": balance.tolist(),
        "pinning 2ε_c/√n": pinning.tolist(),
        "tearing 1/m²": tearing_strength(m),
    }
    if not found.done:
        cut = Outcome("interrupted", "Interrupted; the cells so far are kept. Run it again.")
        return Lesson(NAME, facts, {}, cut, pictures)
    facts |= {
        "clusters without the layer": found.alone.tolist(),
        "alignment at the pinning strength": _at(found.aligned, strengths, pinning),
        "alignment at ε_c": _at(found.aligned, strengths, balance),
        "clusters at ε_c": _at(found.counts, strengths, balance),
    }
    beta = float(found.betas[len(found.betas) // 2])
    curves = {"rates": _rates(beta, m), "tearing": _tearing(beta, m)}
    return Lesson(NAME, facts, curves, Outcome("done", "Every cell was run."), pictures)


def _rates(beta: float, m: int) -> Curves:
    shares = np.linspace(0, 1, 21)
    exact = np.array([perturbed_rates(beta, s, m, 6) for s in shares])
    rates = {f"rate {k + 1}": (shares, exact[:, k] / exact[0, 0]) for k in range(0, 6, 2)}
    top = int(np.argmax([rate_shift(beta, 0.0, m, k)[1] for k in range(1, 12)])) + 1
    leading = [rate_shift(beta, s, m, top)[1] / exact[0, 0] for s in shares[:9]]
    rates["rate 1, leading order"] = (shares[:9], np.array(leading))
    return Curves(
        "share s = ε/ε_c",
        "growth rate over λ_max (USA clock)",
        rates,
        caption=f"Growth rates around the balanced density, β = {beta:g}: the largest grows.",
    )


def _tearing(beta: float, m: int) -> Curves:
    strengths = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.0]) * tearing_strength(m)
    measured = np.array([spread_of_cluster(float(e), m, beta) for e in strengths])
    x = strengths * m**2
    return Curves(
        "strength εm²",
        "growth rate of a cluster's width",
        {"measured": (x, measured), "theory, εm² − 1": (x, x - 1)},
        caption="A tight cluster on a hilltop of the layer: torn apart above εm² = 1.",
    )


def _at(values: np.ndarray, strengths: np.ndarray, at: np.ndarray) -> list[float]:
    """Values of each row interpolated in log ε."""
    logs = np.log(strengths)
    return [float(np.interp(np.log(e), logs, row)) for e, row in zip(at, values, strict=True)]
