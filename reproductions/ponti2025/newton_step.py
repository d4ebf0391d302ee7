"""Why Newton's method needs one step."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.learn.gaussian.experiments import PUBLISHED
from metastable.learn.gaussian.scalar import scalar_loss
from metastable.learn.gaussian.teacher import ExactLayer, random_covariances, random_matrices, teach
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Why Newton's method needs one step",
    places=["section 3.3.1, Newton's method", "equation 3.3.2"],
    claim=(
        "Newton's method needs exactly one step because the gradient in β is a quadratic "
        "function; inverting the Hessian makes it dear."
    ),
    method=(
        "The gradient at eleven values of β, for the map of the listing and for the printed "
        "equation; its degree, and the steps Newton's method takes."
    ),
    known="disagree",
    correction=(
        "The gradient is linear in β (the loss is a parabola) and the Hessian a single "
        "number. Equation 3.3.2 is another map than the listing's: its loss is quartic, and "
        "one step is not enough."
    ),
    subject="Gaussian",
    basis="text",
    limits="One draw at d = 164 with 60 covariances; degrees are fitted on eleven values of β.",
    planted="teach.beta * 1.1",
    settings={"dim": 164, "key_dim": 66, "samples": 60},
    fast={"dim": 40, "key_dim": 16, "samples": 20},
)


def newton_step(*, dim: int, key_dim: int, samples: int) -> Finding:
    """The degree of the gradient in β, for the map of the listing and for the printed equation."""
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
    figure = plot_lines(
        curves, "β", "slope of the loss, scaled", f"Gradient in β over {samples} covariances, "
        f"d = {dim}, d_k = {key_dim}: straight for the truncated map only.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"slopes": figure})
