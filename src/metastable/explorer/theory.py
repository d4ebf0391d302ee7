"""The prediction beside the motion, in the page's words."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

from metastable.comparison.prediction import Prediction, predict
from metastable.flows.build import build_start
from metastable.measures import Points
from metastable.spec.experiment import Experiment
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
    said = []
    if found.dominant_mode is not None and found.max_rate is not None:
        said.append(
            f"Harmonic {found.dominant_mode} grows fastest, at rate {found.max_rate:.3g} per unit "
            f"of {found.clock} time."
        )
    elif found.rates is not None:
        said.append("No harmonic grows: the uniform measure is stable.")
    if found.expected_clusters is not None:
        said.append(f"About {found.expected_clusters:.1f} clusters form first.")
    if found.exit_time is not None:
        said.append(f"Tokens leave uniformity near t = {found.exit_time:.3g}.")
    if found.plateau_lifetime is not None:
        said.append(
            f"A ring of {found.dominant_mode} clusters holds for {found.plateau_lifetime:.3g}."
        )
    if found.critical_noise is not None and found.noise is not None:
        stable = "stable" if found.noise < found.critical_noise else "unstable"
        said.append(
            f"With κ = {found.noise:.3g} (critical {found.critical_noise:.3g}) uniform is {stable}."
        )
    if found.single_cluster_theorem is not None:
        said.append(f"In the end one cluster. {found.single_cluster_theorem}")
    if said and not uniform:
        said.append("All of this from a uniform start; this one is not.")
    return said or ["No theorem speaks of this field: watch."]


def view_of(measure: Points) -> str:
    """How the page draws it."""
    if measure.on_sphere:
        return "circle" if measure.dim == 2 else "sphere"
    return "plane" if measure.dim == 2 else "space"
