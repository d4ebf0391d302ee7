"""The table of limit geometries."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Trajectory, flow
from metastable.measures import Points, gaussian_points
from metastable.observe import hull
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.limits import limit_geometry, polytope_residual

from ._rescaled import rescaled_run

ENTRY = Entry(
    title="The table of limit geometries",
    places=["Figure 19"],
    claim=(
        "Rescaled tokens of pure attention tend to a polytope (V = I), to three parallel "
        "hyperplanes (simple leading eigenvalue), to a polytope times a subspace (paranormal "
        "V), and all tokens fall to the origin for V = −I."
    ),
    method="One run for each row, with the distance from its limit set.",
    subject="clusters",
    basis="text",
    limits=(
        "One run of 20 tokens a row, in the plane and in R³, up to t = 14; the fall for V = −I "
        "up to t = 10⁴."
    ),
    planted="rescaled_run.horizon * 0.3",
    settings={"tokens": 20, "horizon": 14.0},
    fast={"tokens": 14},
)


def limit_table(*, tokens: int, horizon: float) -> Finding:
    """One run for each row of the table of limit geometries."""
    simple = np.array([[1.0, 0.0], [0.3, 0.3]])
    product = np.diag([1.0, 1.0, 0.3])
    runs = {
        "V = I": rescaled_run(np.eye(2), tokens, horizon),
        "λ₁ simple": rescaled_run(simple, tokens, horizon),
        "V paranormal": rescaled_run(product, tokens, horizon),
    }
    last = {name: np.asarray(run.points[-1]) for name, run in runs.items()}
    polytope = _residual(runs["V = I"], np.eye(2), np.eye(2))
    levels = last["λ₁ simple"] @ limit_geometry(simple).functionals[0]  # pyright: ignore
    planes = np.array([0.0, min(levels.min(), 0.0), max(levels.max(), 0.0)])
    off = np.abs(levels[:, None] - planes).min(axis=1).max() / np.ptp(planes)
    functionals = limit_geometry(product).functionals
    mixed = _residual(runs["V paranormal"], functionals, np.eye(2))
    times = np.geomspace(10, 1e4, 21)
    falling = flow(
        gaussian_points(tokens, 3, seed=1), SelfAttention(1.0, value=-1.0), 1e4, frames=times
    )
    size = np.linalg.norm(falling.points, axis=2).max(axis=1)[-21:]
    power = np.polyfit(np.log(falling.times[-21:]), np.log(size), 1)[0]
    rows = [
        judge("V = I: distance from the boundary set of a polytope", "Theorem 3.1, row 1",
              0.0, polytope[-1], absolute=1e-4),
        judge("λ₁ simple: distance from three parallel hyperplanes", "Theorem 4.1, row 2",
              0.0, off, absolute=1e-3),
        judge("V paranormal: the same on F, with any part in G", "Theorem 5.1, row 3",
              0.0, mixed[-1], absolute=1e-4),
        judge("V = −I: power of time with which tokens fall to the origin", "Theorem C.5, row 4",
              -0.5, power, absolute=0.02),
    ]  # fmt: skip
    shapes = plot_lines(
        {name: (x[:, 0], x[:, 1]) for name, x in last.items()},
        "first coordinate of z", "second coordinate of z",
        f"Where {tokens} rescaled tokens are at t = {horizon:g}.", size=(5.0, 4.0),
    )  # fmt: skip
    approach = plot_lines(
        {
            "V = I": (runs["V = I"].times, polytope),
            "V paranormal": (runs["V paranormal"].times, mixed),
        },
        "time t", "distance from the limit set", log="y",
        caption="How fast rescaled tokens reach the set of Theorems 3.1 and 5.1.",
        theory={"e^(−t)": (runs["V = I"].times, np.exp(-runs["V = I"].times))},
    )  # fmt: skip
    fall = plot_lines(
        {"largest ‖x‖": (falling.times[-21:], size)}, "time t (SA clock)", "largest ‖x‖",
        "V = −I: all tokens fall to the origin.", log="xy",
        theory={"t^(−1/2)": (falling.times[-21:], size[0] * (falling.times[-21:] / 10) ** -0.5)},
    )  # fmt: skip
    return Finding(rows, {"shapes": shapes, "approach": approach, "fall": fall})


def _residual(run: Trajectory[Points], functionals, root: np.ndarray) -> np.ndarray:
    """Largest |‖z‖² − max_j⟨z,v_j⟩| of a token in each frame, v_j the corners of the last hull."""
    seen = run.points @ np.asarray(functionals).T
    corners = hull(Points(seen[-1], on_sphere=False)).points
    return np.array([polytope_residual(z, corners, root).max() for z in seen])
