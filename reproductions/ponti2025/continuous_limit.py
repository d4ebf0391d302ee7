"""Small steps and continuous time."""

from __future__ import annotations

import numpy as np

from metastable.comparison.random_matrices.draws import draw_layer
from metastable.core.verdict import judge
from metastable.flows import Layers, flow
from metastable.measures import Gaussian
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.gaussian import blow_up_time, covariance_at

ENTRY = Entry(
    title="Small steps and continuous time",
    places=["section 3.2.2, the step ε"],
    claim=(
        "A small step ε simulates continuous time, in which the covariance stays positive definite."
    ),
    method=(
        "Exact layers of shrinking step over one time span, against the closed form Σ(t) = "
        "(Σ⁻¹ − t(A + Aᵀ))⁻¹ of the flow with V = I, and past its blow-up."
    ),
    subject="Gaussian",
    basis="text",
    limits=(
        "One calm layer in d = 12 with V = I up to depth 800, at six tenths of the blow-up time."
    ),
    planted="covariance_at * 1.1",
    settings={"dim": 12, "depths": [25, 50, 100, 200, 400, 800], "share": 0.6, "seed": 0},
    fast={"depths": [25, 50, 100, 200]},
)


def continuous_limit(*, dim: int, depths: list[int], share: float, seed: int) -> Finding:
    """Shorter and shorter steps over the same time tend to the flow, whose covariance is known."""
    random = np.random.default_rng(seed)
    layer = draw_layer(dim, dim, seed=seed)
    symmetric = random.normal(size=(dim, dim)) / dim
    calm = layer._replace(output=np.eye(dim), bilinear=symmetric + symmetric.T)
    cov = np.asarray(calm.measure.cov)
    pole = blow_up_time(cov, calm.bilinear)
    horizon = share * pole
    wanted = covariance_at(horizon, cov, calm.bilinear)
    errors, least = [], []
    for depth in depths:
        stepper = Layers(horizon / depth)
        run = flow(calm.measure, calm.field, horizon, stepper=stepper, frames=2, progress=False)
        last = run.frames[-1]
        assert isinstance(last, Gaussian)
        errors.append(float(np.linalg.norm(np.asarray(last.cov) - wanted) / np.linalg.norm(wanted)))
        least.append(float(last.eigenvalues[0]))
    stepper = Layers(2 * pole / depths[-1])
    beyond = flow(calm.measure, calm.field, 4 * pole, stepper=stepper, frames=2, progress=False)
    steps = horizon / np.array(depths)
    rows = [
        judge("exponent of the step in the distance from continuous time", "section 3.2.2; Euler",
              1.0, float(np.polyfit(np.log(steps[-3:]), np.log(errors[-3:]), 1)[0]), absolute=0.1),
        holds("in continuous time the covariance stays positive definite", "section 3.2.2",
              min(least) > 0 and np.linalg.eigvalsh(wanted)[0] > 0, "all eigenvalues above 0",
              min(least)),
        holds("but not for ever: it is infinite at a finite time t*", "derived, V = I",
              beyond.outcome.name == "blow_up" and 0.9 < beyond.times[-1] / pole < 1.5,
              "layers end soon after t*", f"{beyond.times[-1] / pole:.3f} t*"),
    ]  # fmt: skip
    figure = plot_lines(
        {"exact layers": (steps, errors)}, "step ε", "relative distance",
        f"Covariance after layers of step ε up to {share:g} of the blow-up time, against the "
        f"closed form of the flow, d = {dim}, V = I.",
        theory={"∝ ε": (steps, errors[-1] * steps / steps[-1])}, log="xy",
    )  # fmt: skip
    return Finding(rows, {"errors": figure})
