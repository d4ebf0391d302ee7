"""Towards more or less noise: the shape of each bifurcation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import iv

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import branch_in_kappa

from ._circle import solve, weights

ENTRY = Entry(
    title="Towards more or less noise: the shape of each bifurcation",
    places=["arXiv:2510.20094, abstract: form and shape of bifurcations"],
    claim=(
        "At κ_k = β/I_k(β) a k-periodic state leaves the uniform one, "
        "κ/κ_k = 1 + (1 − 2r)a_k²/(2(1 − r)) with r = I_{2k}/I_k: supercritical while r < 1/2, "
        "subcritical beyond, so at large β every low mode turns subcritical."
    ),
    method=(
        "Branches by continuation on both sides of the β where r = 1/2; k-periodic runs of the "
        "density equation just past κ_k against the formula's amplitude."
    ),
    subject="noise",
    basis="report",
    limits=(
        "The formula is ours, from the system's modes k and 2k. Subcritical branches are unstable "
        "where they leave, and were followed by continuation only."
    ),
    planted="Noise.kappa * 1.02",
    implies=("quadratic_system",),
    settings={"modes": [1, 2, 3, 4], "distance": 0.02, "runs": [1, 2, 3]},
    fast={"modes": [1, 2], "runs": [2]},
)


def bifurcation_shapes(*, modes: list[int], distance: float, runs: list[int]) -> Finding:
    """Signs and curvatures of the branches at κ_k."""
    rows, series = [], []
    for k in modes:
        ratio = lambda b, k=k: iv(2 * k, b) / iv(k, b) - 0.5
        star: Any = brentq(ratio, 0.5, 40.0)
        for factor, side in ((0.93, 1), (1.07, -1)):
            beta = factor * star
            branch = branch_in_kappa(beta, 2, normalized=False, mode=k, until=1.05)
            a = np.array([state.coefficients[k] for state in branch.states]) / np.sqrt(2)
            shift = branch.kappas / branch.kappas[0] - 1
            near = (np.abs(a) > 0.01) & (np.abs(a) < 0.1)
            seen = float(np.sign(np.mean(shift[near])))
            rows.append(holds(f"k = {k}, β = {factor:g} β_k: the branch leaves towards",
                              "r against 1/2", seen == side, "larger κ" if side > 0 else
                              "smaller κ", "larger κ" if seen > 0 else "smaller κ"))  # fmt: skip
            series.append(Series(f"k = {k}, β = {beta:.3g}", a[np.abs(a) < 0.5],
                                 shift[np.abs(a) < 0.5], group=k))  # fmt: skip
    for k in runs:
        star: Any = brentq(lambda b, k=k: iv(2 * k, b) / iv(k, b) - 0.5, 0.5, 40.0)
        beta = 0.6 * star
        r, kappa = iv(2 * k, beta) / iv(k, beta), beta / iv(k, beta) * (1 + distance)
        a = np.sqrt(2 * (1 - r) * distance / (1 - 2 * r))
        field = SelfAttention(beta, normalized=False) + Noise(kappa)
        span = 6 * kappa / (2 * distance * k * k)
        run = flow(Density.mode(2, k, 0.8 * float(a)), field, span, frames=2)
        end = float(np.abs(np.array(run.frames[-1].coefficients)[k]))
        # Six relaxation times leave 1e−3; the next order of the formula is a² = 4 % of a.
        rows.append(judge(f"k = {k}, β = {beta:.3g}: |a_k| at κ = {1 + distance:g} κ_k",
                          "amplitude", a, end, relative=2 * a**2))  # fmt: skip
        w = weights(beta, 8 * k)
        guess = np.zeros(8 * k + 1)
        guess[[0, k]] = 1.0, a
        rows.append(judge(f"k = {k}: the same by the root of the quadratic system", "amplitude",
                          float(abs(solve(guess, w, kappa)[k])), end, relative=4e-3))  # fmt: skip
    axes = Axis("a_k"), Axis("κ/κ_k − 1")
    caption = "Branches leave at κ_k to the right below β_k, to the left above it."
    return Finding(rows, {"shapes": Lines(*axes, series, caption=caption)})
