"""Steering beyond labelled tokens: measures to measures, perturbed prompts, and what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optax
from scipy.optimize import linear_sum_assignment

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.geometry.sphere import project, retract
from metastable.learn.control.steering import Controls, Plant, Steered, carry
from metastable.learn.training import Gradient, Training, train

SOFT = 1e-3  # a distance below which tokens count as one, so that |x − y| has a derivative


def energy_distance(x: Any, y: Any) -> Any:
    """2E|X − Y| − E|X − X′| − E|Y − Y′| of two clouds (n, d) and (m, d) of equal masses.

    Zero only for equal measures: −|x − y| is conditionally positive definite (Székely and Rizzo,
    2013), and so is −√(|x − y|² + s²), used here with s = 1e−3. A squared kernel distance; the
    clouds need not be of one size.
    """

    def mean(a, b):
        return jnp.mean(jnp.sqrt(jnp.sum((a[:, None] - b[None]) ** 2, axis=-1) + SOFT**2))

    return 2 * mean(x, y) - mean(x, x) - mean(y, y)


def cloud_distance(x: Any, y: Any) -> float:
    """W₂ of two clouds (n, d) of equally many tokens, exactly, by the best assignment."""
    x, y = np.asarray(x), np.asarray(y)
    costs = np.sum((x[:, None] - y[None]) ** 2, axis=-1)
    return float(np.sqrt(costs[linear_sum_assignment(costs)].mean()))


def measure_loss(plant: Plant, controls: Controls, clouds: tuple[Any, Any]) -> Any:
    """Energy distance between where the first cloud is carried and the second cloud."""
    start, goal = clouds
    return energy_distance(carry(plant, controls, start[None])[0], goal)


def steer_measure(
    start: Any,
    goal: Any,
    plant: Plant,
    *,
    steps: int = 150,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> Training:
    """Find a control that carries one cloud to another, no matter which token goes where.

    Minimises the energy distance by L-BFGS; judge the result by `cloud_distance`. The control
    acts on measures, so it can be used on fresh samples, and on more of them.
    """
    method = Gradient(
        lambda controls, clouds: measure_loss(plant, controls, clouds), optax.lbfgs(memory_size=20)
    )
    return train(
        plant.first(seed),
        method,
        (jnp.asarray(start, float), jnp.asarray(goal, float)),
        steps=steps,
        every=max(1, steps // 15),
        patience=4,
        checkpoint=checkpoint,
        progress=progress,
        title="steering a measure",
    )


def perturbed_errors(
    found: Steered, prompt: Any, target: Any, sizes: Sequence[float], draws: int = 16, seed: int = 0
) -> np.ndarray:
    """Root-mean-square error of the same control on prompts moved by noise: (sizes,).

    Each coordinate of each token is moved by a Gaussian of standard deviation δ, tangent on the
    sphere; `draws` prompts for each δ.
    """
    x, y = jnp.asarray(prompt, float), jnp.asarray(target, float)
    noise = jax.random.normal(jax.random.key(checks.seed(seed)), (draws, *x.shape))
    if found.plant.on_sphere:
        noise = project(x, noise)
    place = retract if found.plant.on_sphere else lambda z: z
    errors = []
    run = jax.jit(lambda prompts: carry(found.plant, found.controls, prompts))
    for size in sizes:
        ends = run(place(x + size * noise))
        errors.append(float(jnp.sqrt(jnp.mean(jnp.sum((ends - y) ** 2, axis=-1)))))
    return np.array(errors)


def amplification(found: Steered, prompt: Any) -> float:
    """How much a control enlarges small independent errors of a prompt: √(‖J‖²_F/n).

    J is the derivative of the ends in the tangent directions of the starts, so that the error of
    `perturbed_errors` is √(e² + δ²‖J‖²_F/n) for small δ, with e the error at δ = 0.
    """
    x = jnp.asarray(prompt, float)
    d = x.shape[1]
    J = jax.jacfwd(lambda z: carry(found.plant, found.controls, z[None])[0])(x)  # (n, d, n, d)
    if found.plant.on_sphere:
        tangent = jnp.eye(d) - x[:, :, None] * x[:, None, :]
        J = jnp.einsum("iajb,jbc->iajc", J, tangent)
    return float(jnp.sqrt(jnp.sum(J**2) / x.shape[0]))


def meeting_bound(targets: Any, on_sphere: bool = True) -> float:
    """The least mean of |z − y_g|² over targets y (g, n, d) of tokens that must end at one place z.

    On the sphere 2(1 − |mean_g y_g|), in R^d the variance; mean over the n tokens. Two uses:

    - A neural ODE moves every token by itself. Tokens at one place in g prompts end at one place:
      no control beats this bound, while attention, which sees the context, can.
    - Attention alone is odd: if X ends at Z then −X ends at −Z. For prompts X, −X and targets Y, Y′
      no control beats the bound of (Y, −Y′), while neurons with a bias can.

    Derived here.
    """
    y = np.asarray(targets, float)
    centre = np.mean(y, axis=0)
    if on_sphere:
        return float(np.mean(2 - 2 * np.linalg.norm(centre, axis=-1)))
    return float(np.mean(np.sum((y - centre) ** 2, axis=-1)))
