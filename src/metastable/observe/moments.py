"""Mean and second moment of any measure, and what follows from them."""

from __future__ import annotations

import numpy as np

from metastable.measures import Density, Gaussian, Measure, Points
from metastable.observe.pairs import carrying
from metastable.observe.sort import only


def mean_of(measure: Measure) -> np.ndarray:
    """∫ x dμ, (d,)."""
    only("mean_of", measure, Points, Density, Gaussian)
    if isinstance(measure, Points):
        x, w, _ = carrying(measure)
        return w @ x
    if isinstance(measure, Gaussian):
        return np.asarray(measure.mean)
    assert isinstance(measure, Density)
    if measure.axis is not None:
        axis = np.asarray(measure.axis)
        return float(measure.integrate(lambda x: x @ axis)) * axis
    return np.array([float(measure.integrate(lambda x, i=i: x[:, i])) for i in range(measure.dim)])


def second_moment(measure: Measure) -> np.ndarray:
    """∫ xxᵀ dμ, (d, d); of a density exact, since it is a polynomial of degree 2.

    Around an axis a it is m aaᵀ + (1 − m)/(d − 1) (I − aaᵀ), m = ∫⟨x,a⟩² dμ.
    """
    only("second_moment", measure, Points, Density, Gaussian)
    if isinstance(measure, Points):
        x, w, _ = carrying(measure)
        return (w[:, None] * x).T @ x
    if isinstance(measure, Gaussian):
        mean, factor = np.asarray(measure.mean), np.asarray(measure.factor)
        return np.outer(mean, mean) + factor @ factor.T
    assert isinstance(measure, Density)
    d = measure.dim
    if measure.axis is not None:
        axis = np.asarray(measure.axis)
        along = float(measure.integrate(lambda x: (x @ axis) ** 2))
        line = np.outer(axis, axis)
        return along * line + (1 - along) / (d - 1) * (np.eye(d) - line)
    moment = np.zeros((d, d))
    for i in range(d):
        for j in range(i + 1):
            entry = measure.integrate(lambda x, i=i, j=j: x[:, i] * x[:, j])
            moment[i, j] = moment[j, i] = float(entry)
    return moment


def mean_direction(measure: Gaussian) -> np.ndarray:
    """E[x/‖x‖] of a Gaussian, (d,).

    With 1/‖x‖ = (2/√π)∫_0^∞ e^{−u²‖x‖²} du it is, along the i-th principal axis with mean m_i and
    variance s_i, (2/√π)∫_0^∞ m_i/(1 + 2u²s_i) Π_j (1 + 2u²s_j)^{−1/2} e^{−u²m_j²/(1 + 2u²s_j)} du.
    """
    from scipy.integrate import quad

    factor = np.asarray(measure.factor)
    variances, axes = np.linalg.eigh(factor @ factor.T)
    variances = np.maximum(variances, 0.0)
    means = axes.T @ np.asarray(measure.mean)
    scale = float(np.sqrt(variances.sum() + means @ means))
    if scale == 0:
        return np.zeros_like(means)

    def integrand(v: float, i: int) -> float:
        u = v / ((1 - v) * scale)  # from [0, 1) to [0, ∞), in units of the typical length
        spread = 1 + 2 * u**2 * variances
        decay = np.exp(-np.sum(u**2 * means**2 / spread) - 0.5 * np.log(spread).sum())
        return float(means[i] / spread[i] * decay / ((1 - v) ** 2 * scale))

    along = [quad(integrand, 0.0, 1.0, (i,), epsabs=1e-12)[0] for i in range(len(means))]
    return axes @ (2 / np.sqrt(np.pi) * np.array(along))
