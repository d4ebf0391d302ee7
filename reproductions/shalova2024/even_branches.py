"""Branches of degree two cross the uniform state at an angle."""

from __future__ import annotations

import numpy as np
from scipy.special import eval_gegenbauer, roots_gegenbauer

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import flow
from metastable.measures import Density
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import branch_in_kappa

ENTRY = Entry(
    title="Branches of degree two cross the uniform state at an angle",
    places=["arXiv:2412.14813: description of bifurcation branches on the sphere"],
    claim=(
        "For d ≥ 3 the axially symmetric branch of degree 2 is transcritical: with a the "
        "coefficient of the normalised harmonic, κ/κ_2 = 1 − a⟨φ_2³⟩/2 to first order, so states "
        "of order along the axis begin at smaller κ and states around the equator at larger."
    ),
    method=(
        "Slopes of both halves of the branch against ⟨φ_2³⟩ by quadrature; a run of the density "
        "equation from an equatorial start just past κ_2."
    ),
    subject="noise",
    basis="report",
    limits=(
        "Degree 2 of unnormalised attention. The slope is ours. The runs stay in the class of even "
        "zonal densities while rounding lets them, as mode 1 is unstable: for d ≤ 4 only."
    ),
    planted="Noise.kappa * 1.02",
    implies=("bifurcation_points",),
    settings={"beta": 3.0, "dims": [3, 4, 6], "past": 0.1},
    fast={"dims": [3]},
)


def even_branches(*, beta: float, dims: list[int], past: float) -> Finding:
    """Slopes of the branch of degree two, and the end of a run beside it."""
    rows, series = [], []
    for k, dim in enumerate(dims):
        cube = _cube(dim)
        for sign in (1, -1):
            branch = branch_in_kappa(beta, dim, normalized=False, mode=2, sign=sign, until=1.3)
            a = np.array([state.coefficients[2] for state in branch.states])
            shift = branch.kappas / branch.kappas[0] - 1
            near = (np.abs(a) > 1e-3) & (np.abs(a) < 0.25)
            # Quadratic through the origin: its linear term, which cubic ones change by a².
            slope = np.linalg.lstsq(np.column_stack([a[near], a[near] ** 2]), shift[near])[0][0]
            rows.append(judge(f"d = {dim}, {'axis' if sign > 0 else 'equator'}: slope dκ/da over "
                              "κ_2", "transcritical", -cube / 2, float(slope),
                              relative=0.03))  # fmt: skip
            side = "smaller" if sign > 0 else "larger"
            toward = float(shift[near][0])
            rows.append(holds(f"d = {dim}, sign {sign:+d}: the branch begins towards {side} κ",
                              "transcritical", toward * sign < 0, f"{side} κ",
                              f"{toward:+.2e} of κ_2"))  # fmt: skip
            part = np.abs(a) < 1.5
            series.append(Series(f"d = {dim}, sign {sign:+d}", a[part], shift[part], group=k))
        if dim > 4:
            continue  # rounding in mode 1 grows past the run before it ends
        kappa = float(branch.kappas[0]) * (1 + past)
        order = np.argsort(shift)
        expected = float(np.interp(past, shift[order], a[order]))
        field = SelfAttention(beta, normalized=False) + Noise(kappa)
        start = Density.mode(dim, 2, 0.7 * expected, zonal=True)
        run = flow(start, field, 5 * kappa / past / (2 * dim), frames=2)
        end = float(np.asarray(run.frames[-1].coefficients)[2])
        # Five relaxation times leave 0.3 e^{−5} = 2e−3; interpolation adds less than 1e−3.
        rows.append(judge(f"d = {dim}: a at the end of an equatorial run, κ = {1 + past:g} κ_2",
                          "transcritical", expected, end, relative=0.01))  # fmt: skip
    axes = Axis("a, coefficient of degree 2"), Axis("κ/κ_2 − 1")
    caption = f"Both halves of the branch of degree 2, unnormalised attention, β = {beta:g}."
    return Finding(rows, {"branches": Lines(*axes, series, caption=caption)})


def _cube(dim: int) -> float:
    """∫φ_2³ for the orthonormal zonal harmonic of degree 2."""
    alpha = dim / 2 - 1
    s, w = roots_gegenbauer(12, alpha)
    phi = eval_gegenbauer(2, alpha, s)
    w = w / w.sum()
    return float(w @ (phi / np.sqrt(w @ phi**2)) ** 3)
