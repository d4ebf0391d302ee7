"""What a plateau of the training is."""

from __future__ import annotations

from metastable.learn.gaussian.experiments import PUBLISHED, learn_matrices
from metastable.learn.gaussian.landscape import stand
from metastable.learn.gaussian.matrices import matrix_loss
from metastable.learn.gaussian.teacher import random_covariances, random_matrices, teach
from metastable.learn.spec import GaussianMatrices
from metastable.report.figures.learning import plot_curves
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="What a plateau of the training is",
    places=["section 3.3.3, plateaus"],
    claim=("Where the loss stays flat for some epochs, descent may be trapped in a local minimum."),
    method=(
        "Gradient and Hessian spectrum at the flattest part of the curve and at its end; the "
        "same at the teacher, which shows that the test can tell a minimum."
    ),
    known="disagree",
    correction=(
        "The Hessian has directions of descent far beyond the gauge freedom: a saddle (or a "
        "slope), not a minimum."
    ),
    subject="Gaussian",
    basis="text",
    limits="One training at d = 64 (8 under --fast); the flattest stretch and the end only.",
    planted="teach * 1.3",
    settings={"dim": 64, "key_dim": 36, "samples": 300, "epochs": 500, "rate": 0.1},
    fast={"dim": 8, "key_dim": 4, "samples": 60, "epochs": 300, "rate": 0.5},
)


def plateaus(*, dim: int, key_dim: int, samples: int, epochs: int, rate: float) -> Finding:
    """The Hessian where plain descent is slow, and at the teacher."""
    made = learn_matrices(
        GaussianMatrices(
            dim=dim, key_dim=key_dim, samples=samples, rate=rate, epochs=epochs, landscape=True
        )
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
    bars = plot_bars(
        [name.removeprefix("landscape at ") for name in places],
        {f"{end} eigenvalue": [told[f"{end} eigenvalue"] for told in places.values()]
         for end in ("lowest", "highest")},
        "place", "curvature of the loss",
        f"Ends of the Hessian's spectrum at the flattest part of the descent and at its end, "
        f"d = {dim}, d_k = {key_dim}.",
    )  # fmt: skip
    return Finding(rows, {"descent": plot_curves(made.figures["loss"]), "curvature": bars})
