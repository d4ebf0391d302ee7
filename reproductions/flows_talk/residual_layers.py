"""A residual network as Euler's method."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.learn.neural.ode import (
    Continuous,
    ResidualLayers,
    average_and_spread,
    initial_classifier,
    resampled_layers,
    split_neurons,
    trace,
)
from metastable.learn.spec import FlowNet
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.discretization import euler_error_bound

from ._depths import layer_axis, power_of_depth

ENTRY = Entry(
    title="A residual network as Euler's method",
    places=["section on residual networks: the deep limit"],
    claim=(
        "Residual layers with step 1/L follow the solution of ẋ = f(x): the largest distance "
        "over all layers goes to zero with 1/L; with weights drawn anew for each layer only "
        "their average is seen."
    ),
    method=(
        "Networks of more and more layers with the same random weights beside the flow and "
        "beside the linearised equation of their error; then with one of two groups of "
        "neurons drawn for each layer."
    ),
    subject="networks",
    basis="text",
    limits=(
        "Random tanh networks of 16 neurons in R³ up to 1024 layers, one horizon; no trained "
        "weights."
    ),
    planted="resampled_layers * 1.1",
    settings={
        "depths": [32, 64, 128, 256, 512, 1024],
        "points": 50,
        "dim": 3,
        "neurons": 16,
        "horizon": 1.0,
        "draws": 256,
    },
    fast={"depths": [64, 512], "points": 20, "draws": 128},
)


def residual_layers(
    *, depths: list[int], points: int, dim: int, neurons: int, horizon: float, draws: int
) -> Finding:
    """A residual network of L layers against its differential equation, and with random weights."""
    network = FlowNet(widths=(dim,), neurons=neurons, horizon=horizon)
    parameters = initial_classifier(network, 2, 0)
    weights = parameters.stages[0]
    weights = weights._replace(b=0.5 * jax.random.normal(jax.random.key(1), weights.b.shape))
    parameters = parameters._replace(stages=(weights,))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(points, dim)))
    most = max(depths)
    flow = np.asarray(trace(parameters, x, network, Continuous(1e-11, frames=most)))
    a, b, c = (np.asarray(leaf[0]) for leaf in weights)
    end, leading = _error_by_hand(a, b, c, np.asarray(x), horizon)
    far = lambda one, other: np.linalg.norm(one - other, axis=-1).max()
    worst, last = [], []
    for depth in depths:
        states = np.asarray(trace(parameters, x, network, ResidualLayers(depth)))
        worst.append(far(states, flow[:: most // depth]))
        last.append(states[-1] - flow[-1])
    slope = power_of_depth(depths, worst)
    miss = far(last[-1] * depths[-1], leading) / np.linalg.norm(leading, axis=1).max()
    lipschitz = float(np.linalg.norm(c, 2) * np.linalg.norm(a, 2))
    speed = float(np.linalg.norm(np.abs(c).sum(axis=1)))  # |tanh| ≤ 1
    bound = [euler_error_bound(horizon / L, horizon, lipschitz, speed) for L in depths]
    pool = split_neurons(weights, 2)
    _, spread = average_and_spread(pool, x, horizon)
    sigma = float(jnp.sqrt(horizon * jnp.mean(jnp.trace(spread, axis1=1, axis2=2))))
    keys = jax.random.split(jax.random.key(2), draws)
    noisy = []
    for depth in depths:
        one = lambda key: resampled_layers(pool, x, horizon, depth, key)  # noqa: B023
        drawn = np.asarray(jax.vmap(one)(keys))
        noisy.append(float(np.sqrt(np.mean(np.sum((drawn - flow[-1]) ** 2, axis=2)))))
    order = np.array(depths)
    rows = [
        judge("power of the depth L in sup over layers of |x_ℓ − x(ℓ/L)|", "convergence theorem",
              -1.0, slope, absolute=0.05),
        judge("the flow against SciPy: largest error", "independent solver", 0.0,
              float(far(flow[-1], end)), absolute=1e-7),
        judge(f"L times the last layer's error at L = {depths[-1]}, off the linearised equation",
              "first term of the error; derived", 0.0, float(miss), absolute=8 / depths[-1]),
        holds("below the textbook bound at every depth", "Euler's method",
              bool(np.all(np.array(worst) < bound)), "below",
              f"at most {np.max(np.array(worst) / bound):.1e} of it"),
        judge("weights drawn anew for each layer: power of L in the error",
              "noise that goes to zero, answer to a question", -0.5, power_of_depth(depths, noisy),
              absolute=0.15),
        judge(f"its size at L = {depths[-1]}, over the predicted one", "linear noise; derived",
              1.0, noisy[-1] * depths[-1] ** 0.5 / sigma, absolute=0.25),
    ]  # fmt: skip
    figure = plot_lines(
        {"same weights in all layers": (order, worst), "weights drawn for each": (order, noisy)},
        layer_axis(depths), "distance from the flow", log="xy",
        caption=f"{points} points in R^{dim}; random weights, horizon {horizon:g}.",
        theory={
            "1/L": (order, worst[-1] * order[-1] / order),
            "predicted, L^(−1/2)": (order, sigma / np.sqrt(order)),
        },
    )  # fmt: skip
    return Finding(rows, {"errors": figure})


def _error_by_hand(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, x: np.ndarray, horizon: float
) -> tuple[np.ndarray, np.ndarray]:
    """The flow's end, and L times the error of L Euler steps there: T e, ė = Je − ½Jf."""

    def motion(_: float, y: np.ndarray) -> np.ndarray:
        x, e = y.reshape(2, -1, a.shape[1])
        hidden = np.tanh(x @ a.T + b)
        f = hidden @ c.T
        along = lambda v: ((1 - hidden**2) * (v @ a.T)) @ c.T
        return np.stack([f, along(e) - 0.5 * along(f)]).ravel()

    start = np.stack([x, np.zeros_like(x)]).ravel()
    end = solve_ivp(motion, (0, horizon), start, rtol=1e-10, atol=1e-11).y[:, -1]
    place, error = end.reshape(2, *x.shape)
    return place, horizon * error
