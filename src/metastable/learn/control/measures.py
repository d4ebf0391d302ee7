"""Steering beyond labelled tokens: measures to measures, perturbed prompts, and what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
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
    return energy_distance(carry(plant, controls, clouds[0][None])[0], clouds[1])


def steer_measure(
    start: Any, goal: Any, plant: Plant, *, steps: int = 150, seed: int = 0, **options: Any
) -> Training:
    """Find a control that carries one cloud to another, no matter which token goes where.

    Minimises the energy distance by L-BFGS; judge the result by `cloud_distance`. The control
    acts on measures, so it can be used on fresh samples, and on more of them. `options` are
    `checkpoint` and `progress`, as for `train`.
    """
    loss = lambda controls, clouds: measure_loss(plant, controls, clouds)
    method = Gradient(loss, optax.lbfgs(memory_size=20))
    clouds = jnp.asarray(start, float), jnp.asarray(goal, float)
    options |= {"steps": steps, "every": max(1, steps // 15), "patience": 4}
    return train(plant.first(seed), method, clouds, title="steering a measure", **options)


def perturbed_errors(
    control: Steered,
    prompt: Any,
    target: Any,
    sizes: Sequence[float],
    draws: int = 16,
    seed: int = 0,
) -> np.ndarray:
    """Root-mean-square error of the same control on prompts moved by noise: (sizes,).

    Each coordinate of each token is moved by a Gaussian of standard deviation δ, tangent on the
    sphere; `draws` prompts for each δ.
    """
    x, y = jnp.asarray(prompt, float), jnp.asarray(target, float)
    noise = jax.random.normal(jax.random.key(checks.seed(seed)), (draws, *x.shape))
    place = lambda z: z
    if control.plant.on_sphere:
        place, noise = retract, project(x, noise)
    run = jax.jit(lambda prompts: carry(control.plant, control.controls, prompts))
    miss = lambda ends: float(jnp.sqrt(jnp.mean(jnp.sum((ends - y) ** 2, axis=-1))))
    return np.array([miss(run(place(x + size * noise))) for size in sizes])


def amplification(control: Steered, prompt: Any) -> float:
    """How much a control enlarges small independent errors of a prompt: √(‖J‖²_F/n).

    J is the derivative of the ends in the tangent directions of the starts, so that the error of
    `perturbed_errors` is √(e² + δ²‖J‖²_F/n) for small δ, with e the error at δ = 0.
    """
    x = jnp.asarray(prompt, float)
    ends = lambda z: carry(control.plant, control.controls, z[None])[0]
    J = jax.jacfwd(ends)(x)  # (n, d, n, d)
    if control.plant.on_sphere:
        tangent = jnp.eye(x.shape[1]) - x[:, :, None] * x[:, None, :]
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
