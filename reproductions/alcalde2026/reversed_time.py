"""V = −I runs the film backwards."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Gaussian, gaussian_points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.gaussian import covariance_at

ENTRY = Entry(
    title="V = −I runs the film backwards",
    places=["arXiv:2606.07600, as reported"],
    claim=(
        "Changing the sign of V changes the sign of time: what V = I does in a time T, V = −I "
        "undoes, and where one blows up the other decays."
    ),
    method=(
        "A Gaussian with a mean and tokens in R³ are run with V = I and from there with V = −I for "
        "the same time; the covariance under V = −I against the closed form at negative time."
    ),
    subject="Gaussian",
    basis="report",
    limits="Continuous depth only: layers of a finite step are not undone by layers of −V.",
    planted="SelfAttention.value + 0.01",
    settings={"dim": 3, "tokens": 24, "horizon": 0.6, "seeds": 4},
    fast={"seeds": 1},
)


def reversed_time(*, dim: int, tokens: int, horizon: float, seeds: int) -> Finding:
    """Forward and back again, for Gaussians and for tokens; and the sign of t in closed form."""
    gaussian, cloud, closed, curves, theory = [], [], [], {}, {}
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        form = random.standard_normal((dim, dim))
        root = random.standard_normal((dim, dim)) / np.sqrt(dim)
        cov = root @ root.T
        form *= 0.6 / (horizon * np.linalg.norm(form + form.T, 2) * np.linalg.norm(cov, 2))
        # A number that is not exactly 1 has the same compiled solver as its negative.
        ahead, back = (SelfAttention(1.0, query=form, value=sign) for sign in (1.0001, -1.0001))
        start = Gaussian(random.standard_normal(dim), cov)
        there = flow(start, ahead, horizon, frames=21)
        again = flow(there.frames[-1], back, horizon, frames=21)
        end = again.frames[-1]
        off = np.linalg.norm(end.cov - start.cov) / np.linalg.norm(cov)
        gaussian.append(max(off, np.linalg.norm(end.mean - start.mean)))
        alone = flow(start, back, horizon, frames=21)
        expected = [covariance_at(-1.0001 * t, cov, form) for t in alone.times]
        closed.append(max(np.linalg.norm(f.cov - e) for f, e in zip(alone.frames, expected,
                                                                    strict=True)))  # fmt: skip
        points = gaussian_points(tokens, dim, seed=seed)
        late = flow(points, ahead, horizon, frames=2).frames[-1]
        home = flow(late, back, horizon, frames=2).frames[-1]
        cloud.append(np.abs(np.asarray(home.points) - np.asarray(points.points)).max())
        if seed == 0:
            trace = lambda run: [np.trace(f.cov) for f in run.frames]
            curves["V = I"] = (there.times, trace(there))
            curves["then V = −I"] = (horizon - again.times, trace(again))
            curves["V = −I from the start"] = (-alone.times, trace(alone))
            times = np.linspace(-horizon, horizon, 61)
            theory["closed form"] = (
                times, [np.trace(covariance_at(1.0001 * t, cov, form)) for t in times],
            )  # fmt: skip
    rows = [
        judge("Gaussian: mean and covariance after there and back, largest error", "report", 0.0,
              float(max(gaussian)), absolute=1e-6),
        judge("tokens: the same", "report", 0.0, float(max(cloud)), absolute=1e-5),
        judge("V = −I at time t is V = I at −t: largest error of Σ", "derived", 0.0,
              float(max(closed)), absolute=1e-7),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("time t, backwards where V = −I", clock="SA"), "trace of Σ",
        "A Gaussian run forwards, back again, and on to negative times.", theory=theory,
    )  # fmt: skip
    return Finding(rows, {"film": figure})
