"""The rate of a density depends on the dimension."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions.chen2025._axial import distance_to_pole, zonal_start

ENTRY = Entry(
    title="The rate of a density depends on the dimension",
    places=["arXiv:2504.14697, in its spirit"],
    claim=(
        "At β = 0 a smooth density on S^{d−1} tends to a point mass at the rate min(1, (d−1)/2) in "
        "W_2, with a factor √t at d = 3: the mass opposite the final point is e^{−(d−1)t}."
    ),
    method=(
        "Axial densities as weighted tokens, against one scalar equation in the coordinate "
        "log tan(θ/2), in which the flow is a shift; late rates."
    ),
    subject="rates",
    basis="derived",
    limits="β = 0 and axial starts. The paper states one rate for all dimensions.",
    implies=("density_rate",),
    planted="SelfAttention.beta + 0.2",
    settings={"dims": [2, 3, 4, 8], "tilt": 0.5, "horizon": 14.0},
    fast={"dims": [2, 3, 4]},
)


def rate_by_dimension(*, dims: list[int], tilt: float, horizon: float) -> Finding:
    """W_2 along the flow against the scalar equation, and its late rate."""
    rows, more, curves, law = [], [], {}, {}
    for dim in dims:
        start = zonal_start(dim, tilt)
        run = flow(start, SelfAttention(0.0), horizon, frames=57)
        far = np.array([distance_to_pole(frame) for frame in run.frames])
        exact = shifted(start, run.times)
        # The factor √t of d = 3 takes 1/(2t) off the rate, 5 % at t = 10.
        late = slice(40, 53)
        rate = -np.polyfit(run.times[late], np.log(far[late]), 1)[0]
        rows.append(judge(f"d = {dim}: late rate of W_2", "derived", min(1.0, (dim - 1) / 2), rate,
                          relative=0.07 if dim == 3 else 0.02))  # fmt: skip
        kept = far > 1e-5
        more.append(judge(f"d = {dim}: W_2 against the scalar equation, relative error", "derived",
                          0.0, np.abs(far / exact - 1)[kept].max(), absolute=1e-4))  # fmt: skip
        curves[f"d = {dim}"] = (run.times, far)
        law[f"scalar equation, d = {dim}"] = (run.times, exact)
    figure = plot_lines(
        curves, "time t (SA clock)", "W_2 to the final point",
        f"Densities ∝ 1 + {tilt:g} cos θ at β = 0; dashed: the scalar equation.",
        theory=law, log="y",
    )  # fmt: skip
    return Finding([*rows, *more], {"distance": figure})


def shifted(start, times: np.ndarray) -> np.ndarray:
    """W_2 when all s = log tan(θ/2) shift by M with Ṁ = −Σ w tanh(s − M)."""
    x = np.asarray(start.points)[: start.count // 2]
    w = 2 * np.asarray(start.weights)[: start.count // 2]
    s = np.arcsinh(-x[:, 0] / np.abs(x[:, 1]))
    speed = lambda _, m: [-w @ np.tanh(s - m[0])]
    run = solve_ivp(speed, (0, times[-1]), [0.0], "DOP853", times, rtol=1e-12, atol=1e-13)
    angle = 2 * np.arctan(np.exp(s[:, None] - run.y[0]))
    return np.sqrt(w @ angle**2)
