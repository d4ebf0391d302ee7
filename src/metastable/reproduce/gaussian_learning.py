"""Teacher and student on covariances: one unknown number, in one layer and in several."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.learn.depth import loss_and_slope
from metastable.learn.lessons import PUBLISHED, learn_beta, learn_depth
from metastable.learn.scalar import scalar_loss
from metastable.learn.teacher import (
    ExactLayer,
    TruncatedLayer,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.numerics import jax
from metastable.reproduce.finding import Finding, holds

__all__ = ["deep_training", "deeper_training", "newton_step", "scalar_training"]


def scalar_training(*, dim: int, key_dim: int, samples: int, steps: int, rate: float) -> Finding:
    """One unknown β by batch and stochastic descent and by Newton's method."""
    from metastable.report.learning import draw_curves

    found = learn_beta(PUBLISHED, dim, key_dim, samples, rate, steps)
    beta = {name: 1 - far for name, (_, far) in found.curves["beta"].lines.items()}
    batch, single = beta["batch gradient"], beta["stochastic gradient"]
    rows = [
        judge("β after 80 steps of batch descent", "section 3.3.1, 0.750", 0.750, batch[80],
              absolute=0.015, reason="rate·ε² is not printed and was read off this number"),
        judge(f"β after {steps} steps of batch descent", "section 3.3.1, 0.987", 0.987,
              batch[steps], absolute=0.005),
        judge("β after 80 steps of stochastic descent", "section 3.3.1, 0.750", 0.750, single[80],
              absolute=0.03),
        judge(f"β after {steps} steps of stochastic descent", "section 3.3.1, 0.987", 0.987,
              single[steps], absolute=0.01),
        judge("β after one step of Newton's method", "section 3.3.1", 1.0, beta["Newton"][1],
              absolute=1e-9),
        judge("the two printed numbers belong together: (1 − β_80)^(250/80)",
              "a quadratic loss decays geometrically", 1 - batch[steps],
              float((1 - batch[80]) ** (steps / 80)), relative=1e-6),
    ]  # fmt: skip
    figures = {name: draw_curves(curves) for name, curves in found.curves.items()}
    note = (
        "Printed times (30.7 s, 0.18 s, 35.8 s) belong to one machine and one loop. The loss is a "
        "polynomial in β: one pass over the data gives it, after which no step costs anything."
    )
    return Finding(rows, figures, [note])


def newton_step(*, dim: int, key_dim: int, samples: int) -> Finding:
    """The degree of the gradient in β, for the map of the listing and for the printed equation."""
    from metastable.report.plots import draw_lines

    teacher = random_matrices(dim, key_dim, 1)
    inputs = random_covariances(samples, dim, 2)
    at = np.linspace(-0.5, 2.0, 11)
    degrees, shapes, steps, curves, ends = {}, [], {}, {}, {}
    for name, layer in {
        "listing, truncated": PUBLISHED,
        "equation 3.3.2, exact": ExactLayer(PUBLISHED.step),
    }.items():
        data = teach(layer, teacher, inputs)
        ends[name] = np.asarray(data.targets)
        loss = scalar_loss(layer, teacher, data)
        slope, bend = jax.jit(jax.grad(loss)), jax.jit(jax.hessian(loss))
        slopes = np.array([float(slope(b)) for b in at])
        terms = np.polynomial.chebyshev.chebfit((at - 0.75) / 1.25, slopes, 6)
        degrees[name] = int(np.flatnonzero(np.abs(terms) > 1e-7 * np.abs(terms).max())[-1])
        shapes.append(np.shape(bend(0.5)))
        beta, path = 0.0, [0.0]
        for _ in range(12):
            beta -= float(slope(beta)) / float(bend(beta))
            path.append(beta)
        near = np.abs(np.array(path) - 1) < 1e-9
        steps[name] = int(np.argmax(near)) if near.any() else 99
        curves[name] = (at, slopes / np.abs(slopes).max())
    first, second = degrees
    gap = np.linalg.norm(ends[first] - ends[second]) / np.linalg.norm(ends[second])
    rows = [
        judge("degree in β of the gradient", "section 3.3.1: quadratic", 2, degrees[first],
              absolute=0),
        judge("it is linear: the loss of the listing's map is a parabola", "derived", 1,
              degrees[first], absolute=0),
        judge("Newton steps to β* for the listing's map", "section 3.3.1", 1, steps[first],
              absolute=0),
        holds("the Hessian is a number, and nothing has to be inverted", "one parameter",
              set(shapes) == {()}, "a number", "a number" if not shapes[0] else shapes[0]),
        judge("degree of the gradient for the map of equation 3.3.2", "derived: a quartic loss", 3,
              degrees[second], absolute=0),
        holds("Newton steps to β* for that map", "derived", steps[second] > 1, "more than one",
              steps[second]),
        holds("the listing does not train equation 3.3.2: relative difference of their outputs",
              "the term ε²BΣBᵀ", gap > 1e-3, "not zero", float(gap)),
    ]  # fmt: skip
    figure = draw_lines(
        curves, "β", "slope of the loss, scaled", f"Gradient in β over {samples} covariances, "
        f"d = {dim}, d_k = {key_dim}: straight for the truncated map only.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"slopes": figure})


def deep_training(*, dim: int, key_dim: int, samples: int, steps: int) -> Finding:
    """β through 5 layers of step 0.1; the rate is not printed and is taken from the curvature."""
    from metastable.report.learning import draw_curves

    found = learn_depth(TruncatedLayer(0.1), 5, dim, key_dim, samples, None, steps)
    rows = [
        judge(f"β after {steps} steps, 5 layers of step 0.1", "section 3.3.2", 1.0,
              found.facts["β"], absolute=1e-6),
        holds("loss on covariances never seen", "section 3.3",
              found.facts["validation loss"] < 1e-9 * found.facts["first loss"],
              "far below the first loss", found.facts["validation loss"]),
    ]  # fmt: skip
    return Finding(rows, {"loss": draw_curves(found.curves["loss"])})


def deeper_training(*, dim: int, key_dim: int, samples: int, steps: int, rate: float) -> Finding:
    """β through 10 layers of step 0.001 at the printed rate; and the listing's derivative."""
    from metastable.report.learning import draw_curves

    layer = TruncatedLayer(1e-3)
    found = learn_depth(layer, 10, dim, key_dim, samples, rate, steps)
    teacher, inputs = random_matrices(dim, key_dim, 1), random_covariances(samples, dim, 2)
    data, _ = split(teach(layer, teacher, inputs, depth=10), seed=1)
    at = [loss_and_slope(layer, teacher, data, 10, np.float64(b)) for b in (0.499, 0.5, 0.501)]
    off = abs((float(at[2][0]) - float(at[0][0])) / 0.002 / float(at[1][1]) - 1)
    fell = found.facts["last loss"] / found.facts["first loss"]
    rows = [
        holds(f"loss after {steps} steps, 10 layers of step 0.001, rate {rate:g}",
              "section 3.3.2: the student follows the teacher", fell < 0.05,
              "below 5 % of the first", f"{100 * fell:.2g} %"),
        holds("β by then", "the printed number of steps", 0.9 < found.facts["β"] <= 1.0,
              "between 0.9 and 1", found.facts["β"]),
        judge("slope by the listing's recursion for dΣ/dβ, against differences: relative error",
              "Listing 5, lines 40 to 45", 0.0, off, absolute=1e-4),
    ]  # fmt: skip
    return Finding(rows, {"loss": draw_curves(found.curves["loss"])})
