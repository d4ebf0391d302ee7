"""The talk on deep networks as flows: residual layers as Euler steps, classes that flow apart."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import layers
from metastable.learn.neural_lessons import learn_classes
from metastable.learn.neural_ode import Continuous, Layers, initial_classifier, trace
from metastable.learn.resampling import average_and_spread, resampled_layers, split_neurons
from metastable.measures import orthogonal
from metastable.numerics import jax, jnp
from metastable.reproduce.finding import Finding, holds
from metastable.spec.learning import Classification, Descent, Network, Spirals
from metastable.theory.discretization import euler_error_bound
from metastable.theory.equiangular import equiangular_cosine

__all__ = ["attention_layers", "residual_layers", "two_classes"]


def residual_layers(
    *, depths: list[int], points: int, dim: int, neurons: int, horizon: float, draws: int
) -> Finding:
    """A residual network of L layers against its differential equation, and with random weights."""
    from metastable.report.plots import draw_lines

    network = Network(widths=(dim,), neurons=neurons, horizon=horizon)
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
        states = np.asarray(trace(parameters, x, network, Layers(depth)))
        worst.append(far(states, flow[:: most // depth]))
        last.append(states[-1] - flow[-1])
    slope = _slope(depths, worst)
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
              "noise that goes to zero, answer to a question", -0.5, _slope(depths, noisy),
              absolute=0.15),
        judge(f"its size at L = {depths[-1]}, over the predicted one", "linear noise; derived",
              1.0, noisy[-1] * depths[-1] ** 0.5 / sigma, absolute=0.25),
    ]  # fmt: skip
    figure = draw_lines(
        {"same weights in all layers": (order, worst), "weights drawn for each": (order, noisy)},
        "layers L", "distance from the flow", log="xy",
        caption=f"{points} points in R^{dim}; random weights, horizon {horizon:g}.",
        theory={
            "1/L": (order, worst[-1] * order[-1] / order),
            "predicted, L^(−1/2)": (order, sigma / np.sqrt(order)),
        },
    )  # fmt: skip
    _name_ticks(figure, depths)
    return Finding(rows, {"errors": figure})


def attention_layers(*, tokens: int, beta: float, horizon: float, depths: list[int]) -> Finding:
    """Layers of self-attention, normalised after each, against an exact solution of the flow."""
    from metastable.report.plots import draw_lines

    start, field = orthogonal(tokens, tokens, seed=0), SelfAttention(beta)
    apart = np.triu_indices(tokens, 1)
    errors, curves, long = [], {}, 0.0
    for depth in depths:
        run = layers(start, field, depth, step=horizon / depth)
        cosines = np.array([np.asarray(x.points @ x.points.T)[apart] for x in run.frames])
        exact = equiangular_cosine(run.times, beta, tokens)
        errors.append(float(np.abs(cosines - exact[:, None]).max()))
        long = max(long, float(run.statistics["max_norm_drift"]))
        if depth in (depths[0], depths[-1]):
            curves[f"L = {depth}"] = (run.times, cosines.mean(axis=1))
    rows = [
        judge("power of L in the largest error of a cosine, over all layers",
              "large-depth limit of the self-attention layer", -1.0, _slope(depths, errors),
              absolute=0.08),
        holds(f"error at L = {depths[-1]}", "the same", errors[-1] < 4 * horizon / depths[-1],
              f"below 4T/L = {4 * horizon / depths[-1]:.3g}", errors[-1]),
        judge("tokens stay on the sphere: largest error of a length", "N(y) = y/|y|", 0.0, long,
              absolute=1e-14),
    ]  # fmt: skip
    times = np.linspace(0, horizon, 101)
    figures = {
        "cosines": draw_lines(
            curves, "depth t (SA clock)", "cosine of every pair",
            f"{tokens} orthogonal tokens, β = {beta:g}: layers and the exact flow.",
            theory={"flow": (times, equiangular_cosine(times, beta, tokens))},
        ),
        "errors": draw_lines(
            {"layers": (depths, errors)}, "layers L", "largest error of a cosine", log="xy",
            caption="Against the exact solution, all layers.",
            theory={"1/L": (depths, errors[-1] * depths[-1] / np.array(depths))},
        ),
    }  # fmt: skip
    _name_ticks(figures["errors"], depths)
    return Finding(rows, figures)


def two_classes(
    *, points: int, turns: float, neurons: int, horizon: float, layers: int, steps: int,
    decay: float,
) -> Finding:  # fmt: skip
    """A neural ODE trained on two spirals: its flow parts the classes and collapses each.

    With `layers` its Euler steps are trained instead, which compiles faster; 0 is the flow itself.
    """
    from metastable.report.learning import draw_curves
    from metastable.report.lesson_pictures import animate_frames, draw_frames

    spec = Classification(
        kind="classification",
        data=Spirals(points=points, turns=turns),
        network=Network(
            widths=(3,), neurons=neurons, horizon=horizon, layers=layers or None, tolerance=1e-3
        ),
        training=Descent(steps=steps, rate=0.02, decay=decay),
    )
    lesson = learn_classes(spec)
    facts, seen = lesson.facts, lesson.curves["depth"].lines["NC1"][1]
    rows = [
        holds("held-out points of two classes told apart by one vector after the flow",
              "two classes flow to different regions", facts["held-out accuracy"] >= 0.97,
              "at least 0.97", facts["held-out accuracy"]),
        holds("each class shrinks to a point: variance inside over between, training",
              "neural collapse; arXiv:2008.08186", facts["NC1 fell by"] > 30,
              "falls by more than 30", facts["NC1 fell by"]),
        holds("the same through the depth of the trained flow", "flow separates and clusters",
              seen[-1] < seen[0] / 30, "last below a thirtieth of the first",
              f"{seen[0]:.3g} to {seen[-1]:.2g}"),
        judge("answers other than the nearest class mean", "neural collapse, NC4", 0.0,
              facts["NC4, answers that are not the nearest mean"], absolute=0.01),
    ]  # fmt: skip
    picture: Any = lesson.pictures["flow"]

    def movie(path: Any, frames: int) -> None:
        kept = np.unique(np.linspace(0, len(picture.times) - 1, frames).round().astype(int))
        some = dataclasses.replace(picture, times=picture.times[kept], places=picture.places[kept])
        animate_frames(some, path)

    figures = {
        "flow": draw_frames(picture),
        "collapse": draw_curves(lesson.curves["collapse"]),
        "depth": draw_curves(lesson.curves["depth"]),
    }
    return Finding(rows, figures, movies={"flow": movie})


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


def _name_ticks(figure: Any, depths: list[int]) -> None:
    """Ticks at the depths alone: those between would overlap."""
    figure.axes[0].set_xticks(depths, [str(depth) for depth in depths])
    figure.axes[0].set_xticks([], minor=True)


def _slope(depths: list[int], errors: list[float]) -> float:
    return float(np.polyfit(np.log(depths), np.log(errors), 1)[0])
