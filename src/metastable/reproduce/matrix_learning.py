"""Teacher and student on covariances: all four matrices, plateaus, and a gradient by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.comparison.verdict import judge
from metastable.learn.landscape import stand
from metastable.learn.lessons import PUBLISHED, learn_matrices
from metastable.learn.matrices import matrix_loss, residuals
from metastable.learn.teacher import (
    Dataset,
    Layer,
    Matrices,
    random_covariances,
    random_matrices,
    teach,
)
from metastable.numerics import jax, jnp
from metastable.reproduce.finding import Finding, holds

__all__ = ["listing_gradient", "matrix_training", "plateaus", "single_pair_training"]


def matrix_training(
    *, dim: int, key_dim: int, samples: int, epochs: int, rates: list[float]
) -> Finding:
    """W, V, Q, K by stochastic descent in batches of 32, at both printed rates."""
    from metastable.report.learning import draw_curves
    from metastable.report.plots import draw_lines

    made = [
        learn_matrices(PUBLISHED, dim, key_dim, samples, rate=rate, epochs=epochs) for rate in rates
    ]
    slow, fast = [np.asarray(one.curves["loss"].lines["training"][1]) for one in made]
    blocks = fast[: 10 * (epochs // 10)].reshape(10, -1).mean(axis=1)
    held, last = made[1].facts["validation loss"], float(fast[-1])
    rows = [
        holds("the loss falls steadily: means of ten blocks of epochs", "section 3.3.3",
              bool(np.all(np.diff(blocks) < 0)) and fast[-1] < 0.5 * fast[0],
              "each below the one before, at least halved in all", f"fell by {fast[0] / last:.3g}"),
        holds(f"at rate {rates[0]:g} it falls too slowly", "section 3.3.3",
              np.log(slow[0] / slow[-1]) < 0.25 * np.log(fast[0] / last),
              "less than a quarter of the decay", f"fell by {slow[0] / slow[-1]:.4g}"),
        judge("loss on pairs never seen, against training", "section 3.3, validation", last,
              float(held), relative=0.5),
        holds("what was found is not yet the teacher: error of WV and of KᵀQ", "derived",
              min(made[1].facts["error of WV, of KᵀQ, of both"].values()) > 0.05, "above 0.05",
              f"{min(made[1].facts['error of WV, of KᵀQ, of both'].values()):.3g}"),
    ]  # fmt: skip
    at = np.arange(1, epochs + 1)
    both = draw_lines(
        {f"rate {rate:g}": (at, y) for rate, y in zip(rates, (slow, fast), strict=True)},
        "epoch", "mean squared error (train)",
        f"All four matrices, d = {dim}, d_k = {key_dim}, batches of 32.", log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"rates": both, "loss": draw_curves(made[1].curves["loss"])})


def single_pair_training(*, dim: int, key_dim: int, samples: int, epochs: int) -> Finding:
    """One pair at a time against batches of 32: by epochs, and by steps."""
    from metastable.report.plots import draw_lines

    losses = {
        size: np.asarray(
            learn_matrices(PUBLISHED, dim, key_dim, samples, batch=size, epochs=epochs)
            .curves["loss"]
            .lines["training"][1]
        )
        for size in (32, 1)
    }
    many, one = losses[32], losses[1]
    pairs = round(0.75 * samples)
    steps = {32: -(-pairs // 32), 1: pairs}
    at = {size: steps[size] * np.arange(1, epochs + 1) for size in losses}
    # The mean loss of an epoch belongs to its middle.
    middle = {size: at[size] - steps[size] / 2 for size in losses}
    same = float(np.exp(np.interp(middle[32][-1], middle[1], np.log(one))))
    rows = [
        judge(f"loss after {epochs} epochs, B = 1 against B = 32", "section 3.3.3: the same value",
              float(many[-1]), float(one[-1]), relative=0.2),
        holds("it is lower: an epoch of single pairs is more steps", "derived",
              one[-1] < 0.8 * many[-1], f"below {many[-1]:.3g}", float(one[-1])),
        judge(f"after as many steps ({at[32][-1]}) the two are alike", "same rate, same flow",
              float(many[-1]), same, relative=0.2),
    ]  # fmt: skip
    figures = {
        name: draw_lines(
            {f"B = {size}": (x[size], losses[size]) for size in losses}, label,
            "mean squared error (train)", caption, log=log, lines=True,
        )
        for name, x, label, caption, log in (
            ("epochs", dict.fromkeys(losses, np.arange(1, epochs + 1)), "epoch",
             f"Batches of 32 and single pairs at the same rate, d = {dim}, d_k = {key_dim}.", "y"),
            ("steps", middle, "gradient steps", "The same against the steps taken.", "xy"),
        )
    }  # fmt: skip
    return Finding(rows, figures)


def plateaus(*, dim: int, key_dim: int, samples: int, epochs: int, rate: float) -> Finding:
    """The Hessian where plain descent is slow, and at the teacher."""
    from metastable.report.learning import draw_curves
    from metastable.report.plots import draw_bars

    made = learn_matrices(
        PUBLISHED, dim, key_dim, samples, rate=rate, epochs=epochs, landscape=True
    )
    places = {name: told for name, told in made.facts.items() if name.startswith("landscape")}
    flat = next(iter(places.values()))
    teacher = random_matrices(8, 4, 1)
    end = stand(
        matrix_loss(PUBLISHED), teacher, teach(PUBLISHED, teacher, random_covariances(24, 8, 3))
    )
    rows = [
        holds("where the loss lies flat the training sits in a local minimum", "section 3.3.3",
              flat["verdict"] == "minimum", "minimum", flat["verdict"],
              f"at the {', '.join(name.removeprefix('landscape at ') for name in places)}"),
        holds("it is a saddle, or a slope that gradient steps descend", "Hessian",
              {told["verdict"] for told in places.values()} <= {"saddle", "slope"},
              "saddle or slope", ", ".join(told["verdict"] for told in places.values())),
        holds("lowest and highest eigenvalue of the Hessian there", "Hessian",
              flat["lowest eigenvalue"] < -2 * flat["gauge bend"] or flat["verdict"] == "slope",
              "curves down beyond the gauge, or not at rest",
              f"{flat['lowest eigenvalue']:.2e}, {flat['highest eigenvalue']:.2e}"),
        holds("the same test at the teacher's own matrices (d = 8)", "the loss is 0 there",
              end.verdict == "minimum", "minimum", end.verdict),
    ]  # fmt: skip
    bars = draw_bars(
        [name.removeprefix("landscape at ") for name in places],
        {f"{end} eigenvalue": [told[f"{end} eigenvalue"] for told in places.values()]
         for end in ("lowest", "highest")},
        "place", "curvature of the loss",
        f"Ends of the Hessian's spectrum at the flattest part of the descent and at its end, "
        f"d = {dim}, d_k = {key_dim}.",
    )  # fmt: skip
    bars.axes[0].margins(y=0.3)  # room for the legend
    return Finding(rows, {"descent": draw_curves(made.curves["loss"]), "curvature": bars})


def listing_gradient(*, dim: int, key_dim: int, samples: int, epochs: int) -> Finding:
    """The hand-written gradients of Listing 6 against automatic differentiation."""
    from metastable.report.plots import draw_bars, draw_lines

    teacher, student = (random_matrices(dim, key_dim, seed) for seed in (1, 2))
    data = teach(PUBLISHED, teacher, random_covariances(samples, dim, 3))
    errors = residuals(PUBLISHED)
    loss = lambda m: jnp.sum(errors(m, data) ** 2)
    right = jax.jit(jax.grad(loss))(student)
    off = {
        name: [
            float(np.linalg.norm(a - b) / np.linalg.norm(b))
            for a, b in zip(_listed(PUBLISHED, student, data, repaired), right, strict=True)
        ]
        for name, repaired in (("as printed, Y′", False), ("with Y", True))
    }
    printed, repaired = off.values()
    cosine = _cosine(_listed(PUBLISHED, student, data, False)[:2], right[:2])
    loss = jax.jit(loss)
    losses = {name: [] for name in off}
    for name, path in losses.items():
        now = Matrices(*map(np.asarray, student))
        for _ in range(epochs):
            gradient = _listed(PUBLISHED, now, data, name == "with Y")
            path.append(float(loss(now)))
            now = Matrices(*(m - 0.5 * g for m, g in zip(now, gradient, strict=True)))
    rows = [
        judge("gradients of W and V as printed: larger relative error", "Listing 6, line 55", 0.0,
              max(printed[:2]), absolute=1e-9),
        judge("the same with Y instead of Y′", "derived", 0.0, max(repaired[:2]), absolute=1e-9),
        judge("gradients of Q and K as printed: larger relative error",
              "Listing 6, lines 58 to 62", 0.0, max(printed[2:]), absolute=1e-9),
        holds("the printed one still points downhill, which hides the slip: cosine with the right",
              "Listing 6", 0 < cosine < 0.99, "between 0 and 0.99", cosine),
    ]  # fmt: skip
    bars = draw_bars(
        list(Matrices._fields),
        {name: np.maximum(each, 1e-17).tolist() for name, each in off.items()},
        "matrix", "relative error of the gradient",
        f"Hand-written gradients against automatic differentiation, d = {dim}, d_k = {key_dim}.",
    )  # fmt: skip
    bars.axes[0].set_yscale("log")
    curves = draw_lines(
        {name: (np.arange(epochs), path) for name, path in losses.items()}, "step",
        "mean squared error", "Gradient descent with either gradient from one start.", log="y",
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"gradients": bars, "descent": curves})


def _listed(layer: Layer, matrices: Matrices, data: Dataset, repaired: bool) -> list[np.ndarray]:
    """Mean gradients over all pairs in the listing's formulas; `repaired` puts Y in place of Y′."""
    w, v, q, k = map(np.asarray, matrices)
    alpha, dim = layer.gain(matrices, 1.0), len(w)
    a, total = w @ v, [np.zeros_like(m) for m in (w, v, q, k)]
    for s, target in zip(np.asarray(data.inputs), np.asarray(data.targets), strict=True):
        x, y = s @ k.T @ q @ s, s @ q.T @ k @ s
        g = 2 / dim**2 * (s + alpha * (a @ x + y @ a.T) - target)
        grad_a = alpha * (g @ x.T + g @ (y if repaired else y.T))
        grad_q = alpha * (k @ s @ a.T @ g @ s + (s @ g @ a @ s @ k.T).T)
        grad_k = 2 * alpha * (s @ a.T @ g @ s @ q.T).T
        parts = (grad_a @ v.T, w.T @ grad_a, grad_q, grad_k)
        total = [old + new for old, new in zip(total, parts, strict=True)]
    return [part / len(data.inputs) for part in total]


def _cosine(one: Any, two: Any) -> float:
    """Cosine between two lists of matrices, each taken as one vector."""
    a, b = (np.concatenate([np.ravel(m) for m in each]) for each in (one, two))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
