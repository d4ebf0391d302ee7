"""A polygon of tokens lasts for a time exponential in β."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad

from metastable.core.figure import Axis
from metastable.core.numerics import jnp
from metastable.core.verdict import judge
from metastable.fields import FeedForward, SelfAttention
from metastable.flows import flow
from metastable.measures import Points, polygon
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="A polygon of tokens lasts for a time exponential in β",
    places=["arXiv:2508.09628, abstract"],
    claim=(
        "At finite β tokens inside come near the vertices in a time that does not depend on β, and "
        "stay there for a time that grows exponentially in β, before they collapse."
    ),
    method=(
        "ẋ = A(x) − x among the k vertices of a regular polygon and light tokens inside: time at "
        "which the radius has fallen to one half, against the quadrature of its own equation "
        "ṙ = −r(1 − R(βr²)) and its asymptote e^{cβ}/(4c²β), c = 1 − cos(2π/k); time at which the "
        "light tokens are near vertices."
    ),
    subject="metastability",
    basis="abstract",
    limits=(
        "Continuous time and means, not the paper's Markov chain; regular polygons only, where the "
        "end is the origin by symmetry. Equation of the radius and asymptote are derived here."
    ),
    planted="SelfAttention.beta * 1.05",
    settings={"corners": [3, 4, 5], "betas": [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]},
    fast={"corners": [4], "betas": [4.0, 6.0, 8.0]},
)


def _same(x: jnp.ndarray) -> jnp.ndarray:
    return x


def metastable_polygon(*, corners: list[int], betas: list[float]) -> Finding:
    """Lifetimes of polygons against quadrature."""
    off, asymptote, near, curves, theory = [], [], {}, {}, {}
    for k in corners:
        cosines = np.cos(2 * np.pi * np.arange(k) / k)
        c = 1 - cosines[1]
        vertices = np.asarray(polygon(k).points)
        # Light tokens on the rays to the vertices, where nothing is undecided.
        inner = vertices * np.linspace(0.4, 0.8, k)[:, None]
        light = np.concatenate([np.full(k, 1.0), np.full(k, 1e-12)])
        seen, exact = [], []
        for beta in betas:
            life = quad(lambda r, b=beta, q=cosines: 1 / (r * _loss(b * r * r, q)), 0.5, 1.0)[0]
            field = SelfAttention(beta) + FeedForward(inner=-1.0, activation=_same)
            times = np.concatenate([[0.0], np.linspace(1.0, 12.0, 45), life * np.linspace(
                0.5, 1.2, 60)])  # fmt: skip
            times = np.unique(times)
            start = Points(np.concatenate([vertices, inner]), light, on_sphere=False)
            run = flow(start, field, times[-1], frames=times)
            radius = np.linalg.norm(run.points[:, 0], axis=1)
            seen.append(float(np.interp(-0.5, -radius, run.times)))
            exact.append(life)
            apart = np.linalg.norm(run.points[:, k:] - run.points[:, :k], axis=2).max(axis=1)
            near[k, beta] = float(run.times[np.flatnonzero(apart < 0.1)[0]])
        off.append(np.max(np.abs(np.array(seen) / exact - 1)))
        asymptote.append(np.log(seen[-1]) - (c * betas[-1] - np.log(4 * c * c * betas[-1])))
        curves[f"k = {k}"] = (betas, seen)
        theory[f"quadrature, k = {k}"] = (betas, exact)
    cold = [near[k, beta] for k in corners for beta in betas if beta >= np.median(betas)]
    rows = [
        judge("time to half the radius over the quadrature − 1, worst", "abstract; derived", 0.0,
              float(max(off)), absolute=0.005),
        holds(f"log of the time at β = {betas[-1]:g} against cβ − log(4c²β): difference",
              "derived", max(np.abs(asymptote)) < 0.4, "within 0.4",
              f"{max(asymptote, key=abs):.3f}"),
        holds("light tokens are within 0.1 of a vertex: latest time", "abstract",
              max(cold) < 6 and np.ptp(cold) < 3, "below 6, whatever β", f"{max(cold):.2f}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "β", Axis("time to half the radius", clock="SA", scale="log"),
        "Regular polygons of k tokens under softmax steps towards the mean; dashed: quadrature.",
        theory=theory,
    )  # fmt: skip
    return Finding(rows, {"lifetimes": figure})


def _loss(size: float, cosines: np.ndarray) -> float:
    """1 − R, the relative speed at which the radius falls; no cancellation at large β."""
    weights = np.exp(size * (cosines - 1))
    return float(weights @ (1 - cosines) / weights.sum())
