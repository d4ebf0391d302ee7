"""The prediction beside the motion, in the page's words."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

from metastable.comparison import Prediction, predict
from metastable.flows.build import build_start
from metastable.flows.spec import Experiment
from metastable.measures import Points
from metastable.theory.spectrum import exit_time

DEGREES = 16  # harmonics whose amplitudes are drawn, at most
# Samples behind the distribution of first clusters: quick, and fine. One costs 0.2 ms on the
# circle; on S² 2 ms, and more like the cube of the dominant degree, above `MODES` too much.
QUICK, FINE, SOME, MODES = {2: 200, 3: 24}, 1000, 5, 10


def predict_experiment(experiment: Experiment, fine: bool = False) -> dict[str, Any]:
    """What theory says before play; `fine` spends seconds on the distribution of counts."""
    # The name aside, equal text means equal experiments.
    return _predict(experiment.model_copy(update={"name": ""}).model_dump_json(), fine)


@lru_cache(maxsize=256)
def _predict(text: str, fine: bool) -> dict[str, Any]:
    measure, field = build_start(Experiment.model_validate_json(text))
    assert isinstance(measure, Points)
    known: dict[str, Any] = {"clock": field.clock, "sentences": []}
    if not measure.on_sphere or measure.dim < 2:
        return known | {"sentences": ["Tokens move in R^d: the theory of the sphere is silent."]}
    found = predict(field, measure.dim)
    mode = found.dominant_mode or 0
    if measure.dim != 3 or mode <= MODES:
        samples = (FINE if mode <= SOME else FINE // 5) if fine else QUICK.get(measure.dim, FINE)
        found = predict(field, measure.dim, measure.count, samples=samples)
    elif found.max_rate:
        exit = exit_time(measure.count, found.max_rate)
        found = dataclasses.replace(found, tokens=measure.count, exit_time=exit)
    uniform = '"uniform"' in text.partition('"field"')[0]
    rates = None if found.rates is None else found.rates[:DEGREES]
    return known | {
        "clock": found.clock,
        "dominant": found.dominant_mode,
        "dominant_rate": found.max_rate,
        "rates": rates,
        "slopes": rates,
        "counts": found.cluster_distribution,
        "expected_clusters": found.expected_clusters,
        "exit_time": found.exit_time,
        "plateau_lifetime": found.plateau_lifetime,
        "critical_noise": found.critical_noise,
        "single_cluster": found.single_cluster_theorem,
        "fine": fine or measure.dim not in QUICK or found.cluster_distribution is None,
        "sentences": _sentences(found, uniform),
    }


def _sentences(found: Prediction, uniform: bool) -> list[str]:
    mode, rate, life = found.dominant_mode, found.max_rate, found.plateau_lifetime
    noise, critical, theorem = found.noise, found.critical_noise, found.single_cluster_theorem
    if found.about == "random depth":
        return _of_random_depth(found)
    lines = []
    if mode is not None and rate is not None:
        unit = f"per unit of {found.clock} time"
        lines.append(f"Harmonic {mode} grows fastest, at rate {rate:.3g} {unit}.")
    elif found.rates is not None:
        lines.append("No harmonic grows: the uniform measure is stable.")
    if found.expected_clusters is not None:
        lines.append(f"About {found.expected_clusters:.1f} clusters form first.")
    if found.exit_time is not None:
        lines.append(f"Tokens leave uniformity near t = {found.exit_time:.3g}.")
    if life is not None:
        lines.append(f"A ring of {mode} clusters holds for {life:.3g}.")
    if critical is not None and noise is not None:
        stable = "stable" if noise < critical else "unstable"
        lines.append(f"With κ = {noise:.3g} (critical {critical:.3g}) uniform is {stable}.")
    if theorem is not None:
        lines.append(f"In the end one cluster. {theorem}")
    if lines and not uniform:
        lines.append("All of this from a uniform start; this one is not.")
    return lines or ["No theorem speaks of this field: watch."]


def _of_random_depth(found: Prediction) -> list[str]:
    close, opposite, chance = (
        found.consensus_exponent,
        found.antipodal_exponent,
        found.antipodal_chance,
    )
    lines = [] if close is None else [f"Close tokens attract: log(1−ρ) falls at {-close:.3g}."]
    if opposite is not None:
        pull = "attract" if opposite < 0 else "repel"
        lines.append(f"Opposite halves {pull}: log(1+ρ) changes at {opposite:.3g}.")
    if chance:
        lines.append(f"Two orthogonal tokens end opposite with probability {chance:.3f}.")
    return lines or ["No theorem speaks of this field: watch."]


def explorer_view(measure: Points) -> str:
    """How the page draws it."""
    if measure.on_sphere:
        return "circle" if measure.dim == 2 else "sphere"
    return "plane" if measure.dim == 2 else "space"
