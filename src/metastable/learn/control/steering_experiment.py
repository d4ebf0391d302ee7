"""The steering experiment: errors over N, cost over the horizon, other prompts, and measures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.fields import SelfAttention
from metastable.learn.control.measures import (
    amplification,
    cloud_distance,
    meeting_bound,
    perturbed_errors,
    steer_measure,
)
from metastable.learn.control.steering import Plant, Steered, push, steer_tokens
from metastable.learn.cut import Cut, unless_cut
from metastable.learn.lesson import Curves, Lesson

__all__ = ["learn_steering", "random_tokens"]

SIZES = np.geomspace(1e-4, 0.3, 9)


def random_tokens(count: int, dim: int, seed: int, on_sphere: bool) -> np.ndarray:
    """Independent standard Gaussians (n, d), normalised on the sphere."""
    x = np.random.default_rng(seed).standard_normal((count, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True) if on_sphere else x


def learn_steering(spec: Any, folder: Path | None = None) -> Lesson:
    """Carry out a `spec.learning.Steering`: every part is one training, kept in `folder`."""
    # Paths in space are longer, and steps must be finer for the adaptive solver to agree.
    substeps = 8 if spec.on_sphere else 16
    plant = Plant(spec.dim, spec.attention, spec.neurons, 1, 1.0, spec.on_sphere, substeps=substeps)
    facts: dict[str, Any] = {
        "space": f"S^{spec.dim - 1}" if spec.on_sphere else f"R^{spec.dim}",
        "controls": _controls(plant),
    }
    curves: dict[str, Curves] = {}
    outcome = Outcome("done", "Every control was trained.")
    try:
        found = {n: _steer_n(spec, plant, n, folder) for n in spec.tokens}
        curves["error"] = _reached(found, facts)
        curves["perturbed"] = _perturbed(spec, found[max(spec.tokens)], facts)
        if spec.horizons:
            curves["cost"] = _cost(spec, plant, min(spec.tokens), folder, facts)
        if spec.prompts:
            facts |= _contexts(spec, folder)
        if spec.cloud:
            facts |= _cloud(spec, plant, folder)
    except Cut as cut:
        outcome = cut.outcome
    return Lesson("steering tokens", facts, curves, outcome)


def _train(*args: Any, **how: Any) -> Steered:
    found = steer_tokens(*args, **how)
    unless_cut(found.training)
    return found


def _reached(found: dict[int, Steered], facts: dict[str, Any]) -> Curves:
    counts = np.array(list(found))
    worst = np.array([one.errors.max() for one in found.values()])
    mean = np.array([one.errors.mean() for one in found.values()])
    facts |= {
        "tokens N": counts.tolist(),
        "switches": [one.plant.switches for one in found.values()],
        "control parameters": [one.plant.parameters for one in found.values()],
        "worst error of a token": worst.tolist(),
    }
    return Curves(
        "tokens N",
        "error at the targets",
        {"worst token": (counts, worst), "mean": (counts, mean)},
        {"asked": 1e-3},
        "Tokens at random places steered to random targets, seen by the adaptive solver.",
    )


def _steer_n(spec: Any, plant: Plant, count: int, folder: Path | None) -> Steered:
    sized = dataclasses.replace(plant, pieces=max(2, -(-count // spec.tokens_per_piece)))
    return _train(
        random_tokens(count, spec.dim, spec.seed, spec.on_sphere),
        random_tokens(count, spec.dim, spec.seed + 1, spec.on_sphere),
        sized,
        steps=spec.steps,
        seed=spec.seed,
        checkpoint=_file(folder, f"tokens_{count}"),
    )


def _perturbed(spec: Any, found: Steered, facts: dict[str, Any]) -> Curves:
    count = found.errors.shape[1]
    x = random_tokens(count, spec.dim, spec.seed, spec.on_sphere)
    y = random_tokens(count, spec.dim, spec.seed + 1, spec.on_sphere)
    seen = perturbed_errors(found, x, y, [0.0, *SIZES])
    gain = amplification(found, x)
    facts["amplification of small errors"] = gain
    linear = np.sqrt(seen[0] ** 2 + (gain * SIZES) ** 2)
    return Curves(
        "size δ of the perturbation of tokens",
        "root-mean-square error",
        {"measured": (SIZES, seen[1:]), "linear, from the Jacobian": (SIZES, linear)},
        caption=f"The same control on perturbed prompts of {count} tokens.",
        powers=True,
    )


def _cost(
    spec: Any, plant: Plant, count: int, folder: Path | None, facts: dict[str, Any]
) -> Curves:
    """Action against horizon: free, where it is c/T exactly, and against a given attention."""
    x = random_tokens(count, spec.dim, spec.seed, spec.on_sphere)
    y = random_tokens(count, spec.dim, spec.seed + 1, spec.on_sphere)
    cosine = np.clip(np.sum(x * y, axis=1), -1, 1)
    square = np.arccos(cosine) ** 2 if spec.on_sphere else np.sum((x - y) ** 2, axis=1)
    horizons = np.array(spec.horizons)
    lines = {"geodesics, a lower bound": (horizons, np.mean(square) / horizons)}
    for name, drift in (("no drift", None), ("against V = I, β = 4", SelfAttention(4.0))):
        actions = []
        for T in spec.horizons:
            longer = dataclasses.replace(
                plant, horizon=T, pieces=2, drift=drift, neurons=min(plant.neurons, 6)
            )
            found = _train(
                x,
                y,
                longer,
                steps=spec.steps,
                effort=1e-3 * T,
                seed=spec.seed,
                checkpoint=_file(folder, f"cost_{drift is None}_{T:g}"),
            )
            actions.append(found.action)
        lines[name] = (horizons, np.array(actions))
        facts[f"action, {name}"] = [float(a) for a in actions]
    caption = f"What it costs to steer {count} tokens in the time T, and to hold off attention."
    return Curves("horizon T", "action ∫ mean |u|² dt", lines, caption=caption, powers=True)


def _contexts(spec: Any, folder: Path | None) -> dict[str, Any]:
    """One control, two prompts: what each kind of control can and cannot do."""
    n, d = 3, spec.dim
    draw = lambda seed: random_tokens(n, d, spec.seed + seed, True)
    x, other, y, z = draw(10), draw(11), draw(12), draw(13)
    facts = {}
    shared = np.stack([x, np.concatenate([x[:1], other[1:]])])  # the same first token
    mirrored = np.stack([x, -x])
    goals = np.stack([y, z])
    kinds = {"attention": (True, 0), "neural ODE": (False, 6), "both": (True, 3)}
    for name, (attention, neurons) in kinds.items():
        plant = Plant(d, attention, neurons, pieces=4)
        for what, prompts in (("shared token", shared), ("mirrored", mirrored)):
            found = _train(
                prompts,
                goals,
                plant,
                steps=spec.steps,
                seed=spec.seed,
                checkpoint=_file(folder, f"{what}_{name}".replace(" ", "_")),
            )
            misses = np.mean(found.errors**2, axis=0)
            facts[f"{what}, {name}: mean squared miss"] = float(
                misses[0] if what == "shared token" else misses.mean()
            )
    facts["shared token: no neural ODE is below"] = meeting_bound(goals[:, :1])
    facts["mirrored: no attention alone is below"] = meeting_bound(np.stack([y, -z]))
    return facts


def _cloud(spec: Any, plant: Plant, folder: Path | None) -> dict[str, Any]:
    """A cloud to two clouds, judged by W_2 on the samples it was trained on and on fresh ones."""
    ends = [blobs(spec.cloud, spec.dim, spec.on_sphere, spec.seed + k) for k in range(3)]
    sized = dataclasses.replace(plant, pieces=3)
    start, goal = ends[0]
    trained = unless_cut(
        steer_measure(
            start,
            goal,
            sized,
            steps=2 * spec.steps,
            seed=spec.seed,
            checkpoint=_file(folder, "cloud"),
        )
    )
    measure = np.asarray
    carry = lambda x: push(sized, trained.parameters, jnp.asarray(x)[None])[0]
    return {
        "measures: W₂ before": cloud_distance(measure(start), measure(goal)),
        "measures: W₂ after": cloud_distance(measure(carry(start)), measure(goal)),
        "measures: W₂ after, fresh samples": cloud_distance(
            measure(carry(ends[1][0])), measure(ends[1][1])
        ),
        "measures: W₂ of two samples of the goal": cloud_distance(
            measure(ends[1][1]), measure(ends[2][1])
        ),
    }


def blobs(count: int, dim: int, on_sphere: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One cloud around the first axis, and two around the second axis and its opposite."""
    random = np.random.default_rng(seed)
    axes = np.eye(dim)
    side = np.where(np.arange(count) % 2, 1.0, -1.0)[:, None]
    clouds = axes[0] + 0 * side, side * axes[1]
    clouds = [c + 0.2 * random.standard_normal((count, dim)) for c in clouds]
    if on_sphere:
        clouds = [c / np.linalg.norm(c, axis=1, keepdims=True) for c in clouds]
    return clouds[0], clouds[1]


def _controls(plant: Plant) -> str:
    named = ["Q, K, V"] * plant.attention + [f"w, a, b of {plant.neurons} neurons"] * bool(
        plant.neurons
    )
    return " and ".join(named)


def _file(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / f"{name}.npz"
