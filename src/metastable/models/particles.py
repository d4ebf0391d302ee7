"""Particle models fitted to a real transformer, on some prompts, and judged on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.core.result import Answer
from metastable.learn.curves import Curves, make_answer
from metastable.learn.fit import particles
from metastable.learn.fit.particles import Family, States, fit_linear, squared_errors
from metastable.learn.spec import ParticleFit
from metastable.learn.training import Interrupted, file_in
from metastable.models.capture import capture
from metastable.models.folder import load

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # of the linear map, one of which the training prompts choose
FAMILIES = {
    "mean of the tokens, V scalar": Family("scalar", beta=0.0),
    "attention, V = I": Family("identity"),
    "attention, V scalar": Family("scalar"),
    "attention, V low rank": Family("low rank"),
    "no attention, low rank": Family("none", own=True),
    "both, low rank": Family("low rank", own=True),
}


@dataclass(frozen=True)
class Explained:
    """Share of the held-out motion that a model explains, 1 − Σ|x̂ − x|²/Σ|x_before − x|²."""

    share: float
    low: float  # of the 95 % interval, from prompts drawn again with replacement
    high: float

    def to_dict(self) -> dict[str, float]:
        return {"share": self.share, "from": self.low, "to": self.high}


def capture_states(source: Any, prompts: Sequence[str], progress: bool | None = None) -> States:
    """Directions of all tokens of all prompts through the layers, as the fit takes them."""
    network, runs = load(source), []
    with Bar("prompts", progress) as bar:
        for k, prompt in enumerate(prompts):
            runs.append(capture(network, prompt, progress=False))
            bar.update((k + 1) / len(prompts))
    return particles.stack_states(runs)


def best_linear(training: States) -> tuple[np.ndarray, np.ndarray]:
    """`fit_linear` with the ridge that serves the last third of the training prompts best."""
    cut = max(1, 2 * len(training.tokens) // 3)
    first, rest = (States(*(x[part] for x in training)) for part in (slice(cut), slice(cut, None)))
    if len(rest.tokens) == 0:
        return fit_linear(training, RIDGES[1])

    def miss(ridge: float) -> float:
        return float(
            np.mean(squared_errors(particles.predict_linear(*fit_linear(first, ridge), rest), rest))
        )

    return fit_linear(training, min(RIDGES, key=miss))


def explained(
    errors: Any, baseline: Any, other: Any = None, draws: int = 4000, seed: int = 0
) -> Explained:
    """What errors (prompts, layers) explain of a baseline's; against `other` errors, how much more.

    Bootstrap over prompts, which are independent; tokens and layers of one prompt are not.
    """
    errors, baseline = np.mean(errors, axis=1), np.mean(baseline, axis=1)
    gain = (baseline if other is None else np.mean(other, axis=1)) - errors
    some = np.random.default_rng(seed).integers(0, len(errors), (draws, len(errors)))
    shares = gain[some].sum(axis=1) / baseline[some].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return Explained(float(gain.sum() / baseline.sum()), float(low), float(high))


def learn_particles(
    spec: ParticleFit, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `ParticleFit`: every family, its baselines, and the intervals."""
    training = capture_states(spec.model, spec.prompts[: spec.training], progress)
    held = capture_states(spec.model, spec.prompts[spec.training :], progress)
    stay = np.asarray(squared_errors(held.tokens[:, :-1], held))
    M, clock = best_linear(training)
    linear = particles.predict_linear(M, clock, held)
    errors = {"linear map, full rank": np.asarray(squared_errors(linear, held))}
    far = {
        "persistence": _far(np.repeat(np.asarray(held.tokens)[:, :1], len(clock), axis=1), held),
        "linear map, full rank": _far(particles.predict_linear(M, clock, held, rollout=True), held),
    }
    facts: dict[str, Any] = {
        "model": spec.model,
        "prompts, fitted and held out": [spec.training, len(spec.prompts) - spec.training],
        "layers": len(clock),
        "held-out error of persistence": float(stay.mean()),
    }
    outcome = Outcome("done", "Every family was fitted.")
    try:
        for name, family in FAMILIES.items():
            fitted = _fit(spec, name, family, training, checkpoint, progress)
            predicted = particles.predict_layers(family, fitted, held)
            errors[name] = np.asarray(squared_errors(predicted, held))
            far[name] = _far(particles.predict_layers(family, fitted, held, rollout=True), held)
            model = family.restrict(fitted)
            facts[f"fitted: {name}"] = {
                "β": float(np.exp(model.log_beta)),
                "v": float(model.value.scale),
                "clock, first layer": float(model.clock[0]),
                "clock, last layer": float(model.clock[-1]),
                "κ of what is left": float(np.median(particles.noise(predicted, held))),
            }
    except Interrupted as interrupted:
        outcome = interrupted.outcome
    for name, error in errors.items():
        facts[f"explained: {name}"] = explained(error, stay).to_dict()
    if "both, low rank" in errors:
        added = explained(errors["both, low rank"], stay, errors["no attention, low rank"])
        facts["attention adds to the map of low rank"] = added.to_dict()
    layers = np.arange(1, len(clock) + 1)
    shares = {name: (layers, 1 - e.mean(axis=0) / stay.mean(axis=0)) for name, e in errors.items()}
    ahead = "One layer ahead on held-out prompts, from the true state before it."
    alone = "From the embeddings alone, layer after layer, on held-out prompts."
    rolled = {name: (layers, e) for name, e in far.items()}
    figures = {
        "explained": Curves("layer", "explained share of the motion", shares, caption=ahead),
        "rollout": Curves("layer", "mean |x̂ − x|²", rolled, caption=alone),
    }
    best = max(errors, key=lambda name: facts[f"explained: {name}"]["share"])
    sentence = (
        f"{facts[f'explained: {best}']['share']:.0%} of the held-out motion of {spec.model} is "
        f"explained by the best model: {best}."
    )
    return make_answer(sentence, facts, figures, outcome)


def _fit(
    spec: ParticleFit,
    name: str,
    family: Family,
    training: States,
    checkpoint: Path | None,
    progress: bool | None,
) -> particles.Particles:
    """The best of the fits from several starts in β, by the training loss."""
    several = family.beta is None and family.value in ("identity", "scalar")
    settings = {"steps": spec.steps, "rate": spec.rate, "batch": spec.batch, "seed": spec.seed}
    fits = []
    for start in (0.5, 8.0) if several else (4.0,):
        settings |= {"start": start, "checkpoint": file_in(checkpoint, f"{name}_{start:g}")}
        fit = particles.fit_particles(training, family, progress=progress, **settings)
        fits.append(fit.finished())
    return min(fits, key=lambda fit: fit.validation[-1]).parameters


def _far(predicted: Any, held: States) -> np.ndarray:
    return np.asarray(squared_errors(predicted, held)).mean(axis=0)
