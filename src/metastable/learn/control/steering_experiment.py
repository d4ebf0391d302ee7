"""The steering experiment: errors over N, cost over the horizon, other prompts, and measures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.core.result import Answer
from metastable.fields import SelfAttention
from metastable.learn.control.measures import (
    amplification,
    cloud_distance,
    meeting_bound,
    perturbed_errors,
    steer_measure,
)
from metastable.learn.control.steering import Plant, Steered, carry, steer_tokens
from metastable.learn.curves import Curves, make_answer
from metastable.learn.spec import Steering
from metastable.learn.training import Interrupted, options_in

SIZES = np.geomspace(1e-4, 0.3, 9)


def random_tokens(count: int, dim: int, seed: int, on_sphere: bool) -> np.ndarray:
    """Independent standard Gaussians (n, d), normalized on the sphere."""
    return _placed(np.random.default_rng(seed).standard_normal((count, dim)), on_sphere)


def _placed(x: np.ndarray, on_sphere: bool) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True) if on_sphere else x


def learn_steering(
    spec: Steering, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `Steering`: every part is one training with a checkpoint of its own."""
    # Paths in space are longer, and steps must be finer for the adaptive solver to agree.
    substeps = 8 if spec.on_sphere else 16
    plant = Plant(spec.dim, spec.attention, spec.neurons, 1, 1.0, spec.on_sphere, substeps=substeps)

    def steered(name: str, starts: Any, goals: Any, plant: Plant, effort: float = 0.0) -> Steered:
        options = options_in(checkpoint, name, progress) | {"effort": effort, "seed": spec.seed}
        control = steer_tokens(starts, goals, plant, steps=spec.steps, **options)
        control.training.finished()
        return control

    controlled = ["Q, K, V"] * plant.attention
    controlled += [f"w, a, b of {plant.neurons} neurons"] * bool(plant.neurons)
    facts: dict[str, Any] = {
        "space": f"S^{spec.dim - 1}" if spec.on_sphere else f"R^{spec.dim}",
        "controls": " and ".join(controlled),
    }
    figures: dict[str, Curves] = {}
    outcome = Outcome("done", "Every control was trained.")
    try:
        controls = {}
        for count in spec.tokens:
            sized = dataclasses.replace(plant, pieces=max(2, -(-count // spec.tokens_per_piece)))
            controls[count] = steered(f"tokens_{count}", *_ends(spec, count), sized)
        figures["error"] = _reached(controls, facts)
        most = max(spec.tokens)
        figures["perturbed"] = _perturbed(controls[most], *_ends(spec, most), facts)
        if spec.horizons:
            figures["cost"] = _cost(spec, plant, steered, facts)
        if spec.prompts:
            facts |= _contexts(spec, steered)
        if spec.cloud:
            facts |= _cloud(spec, plant, options_in(checkpoint, "cloud", progress))
    except Interrupted as interrupted:
        outcome = interrupted.outcome
    worst = facts.get("worst error of a token", [])
    reached = f" reach their targets to {max(worst):.2g}" if worst else ": not reached"
    sentence = f"{', '.join(map(str, spec.tokens))} tokens, steered by one control,{reached}."
    return make_answer(sentence, facts, figures, outcome)


def _ends(spec: Steering, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where tokens start, and their targets."""
    start, goal = (random_tokens(count, spec.dim, spec.seed + k, spec.on_sphere) for k in (0, 1))
    return start, goal


def _reached(controls: dict[int, Steered], facts: dict[str, Any]) -> Curves:
    counts, each = np.array(list(controls)), controls.values()
    worst = np.array([control.errors.max() for control in each])
    mean = np.array([control.errors.mean() for control in each])
    facts |= {
        "tokens N": counts.tolist(),
        "switches": [control.plant.switches for control in each],
        "control parameters": [control.plant.parameters for control in each],
        "worst error of a token": worst.tolist(),
    }
    lines = {"worst token": (counts, worst), "mean": (counts, mean)}
    caption = "Tokens at random places steered to random targets, seen by the adaptive solver."
    return Curves("tokens N", "error at the targets", lines, {"asked": 1e-3}, caption)


def _perturbed(
    control: Steered, start: np.ndarray, goal: np.ndarray, facts: dict[str, Any]
) -> Curves:
    errors = perturbed_errors(control, start, goal, [0.0, *SIZES])
    gain = amplification(control, start)
    facts["amplification of small errors"] = gain
    linear = np.sqrt(errors[0] ** 2 + (gain * SIZES) ** 2)
    lines = {"measured": (SIZES, errors[1:]), "linear, from the Jacobian": (SIZES, linear)}
    caption = f"The same control on perturbed prompts of {len(start)} tokens."
    x = "size δ of the perturbation of tokens"
    return Curves(x, "root-mean-square error", lines, caption=caption, powers=True)


def _cost(spec: Steering, plant: Plant, steered: Any, facts: dict[str, Any]) -> Curves:
    """Action against horizon: free, where it is c/T exactly, and against a given attention."""
    count = min(spec.tokens)
    x, y = _ends(spec, count)
    cosine = np.clip(np.sum(x * y, axis=1), -1, 1)
    square = np.arccos(cosine) ** 2 if spec.on_sphere else np.sum((x - y) ** 2, axis=1)
    horizons = np.array(spec.horizons)
    lines = {"geodesics, a lower bound": (horizons, np.mean(square) / horizons)}
    few = dataclasses.replace(plant, pieces=2, neurons=min(plant.neurons, 6))
    for name, drift in (("no drift", None), ("against V = I, β = 4", SelfAttention(4.0))):
        actions = []
        for T in spec.horizons:
            longer = dataclasses.replace(few, horizon=T, drift=drift)
            file = f"cost_{drift is None}_{T:g}"
            actions.append(float(steered(file, x, y, longer, effort=1e-3 * T).action))
        lines[name] = (horizons, np.array(actions))
        facts[f"action, {name}"] = actions
    caption = f"What it costs to steer {count} tokens in the time T, and to hold off attention."
    return Curves("horizon T", "action ∫ mean |u|² dt", lines, caption=caption, powers=True)


def _contexts(spec: Steering, steered: Any) -> dict[str, Any]:
    """One control, two prompts: what each kind of control can and cannot do."""
    x, other, y, z = (random_tokens(3, spec.dim, spec.seed + k, True) for k in (10, 11, 12, 13))
    facts = {}
    shared = np.stack([x, np.concatenate([x[:1], other[1:]])])  # the same first token
    mirrored = np.stack([x, -x])
    goals = np.stack([y, z])
    kinds = {"attention": (True, 0), "neural ODE": (False, 6), "both": (True, 3)}
    for name, (attention, neurons) in kinds.items():
        plant = Plant(spec.dim, attention, neurons, pieces=4)
        for what, prompts in (("shared token", shared), ("mirrored", mirrored)):
            misses = np.mean(steered(f"{what}_{name}", prompts, goals, plant).errors ** 2, axis=0)
            miss = misses[0] if what == "shared token" else misses.mean()
            facts[f"{what}, {name}: mean squared miss"] = float(miss)
    facts["shared token: no neural ODE is below"] = meeting_bound(goals[:, :1])
    facts["mirrored: no attention alone is below"] = meeting_bound(np.stack([y, -z]))
    return facts


def _cloud(spec: Steering, plant: Plant, options: dict[str, Any]) -> dict[str, Any]:
    """A cloud to two clouds, judged by W_2 on the samples it was trained on and on fresh ones."""
    (start, goal), (fresh, fresh_goal), (_, other_goal) = (
        blobs(spec.cloud, spec.dim, spec.on_sphere, spec.seed + k) for k in range(3)
    )
    sized = dataclasses.replace(plant, pieces=3)
    training = steer_measure(start, goal, sized, steps=2 * spec.steps, seed=spec.seed, **options)
    controls = training.finished().parameters
    ends = lambda x: carry(sized, controls, jnp.asarray(x)[None])[0]
    return {
        "measures: W₂ before": cloud_distance(start, goal),
        "measures: W₂ after": cloud_distance(ends(start), goal),
        "measures: W₂ after, fresh samples": cloud_distance(ends(fresh), fresh_goal),
        "measures: W₂ of two samples of the goal": cloud_distance(fresh_goal, other_goal),
    }


def blobs(count: int, dim: int, on_sphere: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One cloud around the first axis, and two around the second axis and its opposite."""
    random = np.random.default_rng(seed)
    axes = np.eye(dim)
    side = np.where(np.arange(count) % 2, 1.0, -1.0)[:, None]
    spread = lambda cloud: cloud + 0.2 * random.standard_normal((count, dim))
    start, goals = spread(axes[0] + 0 * side), spread(side * axes[1])
    return _placed(start, on_sphere), _placed(goals, on_sphere)
