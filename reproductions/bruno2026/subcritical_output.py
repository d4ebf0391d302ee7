"""Below the scale the output is a local mean, a step backward in the heat equation."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ive

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points, von_mises_fisher
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._slopes import fitted_slope

ENTRY = Entry(
    title="Below the scale: bias, fluctuations, backward heat",
    places=["arXiv:2605.08505, abstract: subcritical regime"],
    claim=(
        "Far below the critical β the output of a query among n random keys is a local mean with "
        "an explicit bias and Gaussian fluctuations of order n^(−1/2); for V = I it moves by "
        "∇log ρ/β, ρ the density of keys: a step of the backward heat equation."
    ),
    method=(
        "Keys from a von Mises–Fisher law, whose tilt by e^(β⟨q,y⟩) is again one: exact mean, "
        "bias 1 − (d−1)/2β along the query, slope of log ρ across it; the variance by the delta "
        "method, and skewness and kurtosis of the fluctuations."
    ),
    subject="long context",
    basis="report",
    limits=(
        "S² and one concentration; the constants of the paper were not seen, exact ones are "
        "derived here. Fluctuations at one β and n."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"betas": [8.0, 16.0, 32.0], "keys": 20000, "draws": 800, "kappa": 1.5},
    fast={"betas": [8.0, 32.0], "keys": 4000, "draws": 300},
)


def subcritical_output(*, betas: list[float], keys: int, draws: int, kappa: float) -> Finding:
    """Outputs of one query for many draws of the keys."""
    query, axis = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    rows, moves, errors, biases = [], [], [], []
    for beta in betas:
        field = SelfAttention(beta)
        outputs = []
        for seed in range(draws):
            cloud = von_mises_fisher(keys, axis, kappa, seed=seed)
            # As tokens of R³, which are not projected: the output itself.
            place = Points(query[None], on_sphere=False, times=None)
            outputs.append(np.asarray(field.velocity(cloud.euclidean(), at=place.points))[0])
        outputs = np.array(outputs)
        mean, error = outputs.mean(axis=0), outputs.std(axis=0, ddof=1) / math.sqrt(draws)
        tilt = beta * query + kappa * axis
        exact = _mean_length(float(np.linalg.norm(tilt))) * tilt / np.linalg.norm(tilt)
        # The ratio of two means has a bias of order one over the number of keys that count.
        ratio = float(2 * np.linalg.norm(exact) * beta / keys)
        for k, name in ((0, "along the query"), (2, "across it, up the density")):
            claim = f"mean output {name}, β = {beta:g}"
            rows.append(judge(claim, "derived", float(exact[k]), float(mean[k]),
                              absolute=4 * float(error[k]) + ratio))  # fmt: skip
        moves.append(float(mean[2]) * beta / kappa)
        errors.append(4 * float(error[2]) * beta / kappa)
        biases.append((1 - float(mean[0])) * beta)
        spread = _spread(beta, kappa, keys)
        observed = float(outputs[:, 1].std(ddof=1))
        rows.append(judge(f"standard deviation across, β = {beta:g}", "derived", spread, observed,
                          relative=4 / math.sqrt(2 * draws) + 0.02))  # fmt: skip
    last = (outputs[:, 1] - mean[1]) / outputs[:, 1].std()
    skew, flat = float((last**3).mean()), float((last**4).mean() - 3)
    rows += [
        holds("fluctuations are Gaussian: skewness and excess kurtosis", "bruno2026scaling",
              abs(skew) < 4 * math.sqrt(6 / draws) and abs(flat) < 4 * math.sqrt(24 / draws),
              "0 and 0 within 4 errors", f"{skew:.3f}, {flat:.3f}"),
        judge("move across over ∇log ρ/β, at the largest β", "bruno2026scaling", 1.0, moves[-1],
              absolute=2 / betas[-1] + errors[-1]),
        judge("bias along over (d−1)/2β, at the largest β", "derived", 1.0, biases[-1],
              absolute=2 * (1 + kappa**2) / betas[-1]),
    ]  # fmt: skip
    rows.insert(0, rows.pop(-2))
    if len(betas) > 2:
        rows.append(judge("exponent of the bias in β", "derived", -1.0,
                          fitted_slope(np.log(betas), np.log(np.array(biases) / betas)),
                          absolute=0.1))  # fmt: skip
    figure = plot_lines(
        {"move across": (betas, moves, [e / 4 for e in errors]), "bias along": (betas, biases)},
        "β", "output over its first order",
        f"{keys} keys on S², concentration {kappa:g}.",
        theory={"first order": (betas, [1.0] * len(betas))}, log="x",
    )  # fmt: skip
    return Finding(rows, {"output": figure})


def _mean_length(x: float) -> float:
    """Length of the mean of a von Mises–Fisher law on S²."""
    return float(ive(1.5, x) / ive(0.5, x))


def _spread(beta: float, kappa: float, keys: int) -> float:
    """Delta method for the coordinate across both directions: √(E ζ²y²/n)/E ζ, ζ = e^(β⟨q,x⟩)."""
    norm = lambda x: math.sinh(x) / x
    one, two = math.hypot(beta, kappa), math.hypot(2 * beta, kappa)
    # Of the law tilted by ζ² the squared coordinate has the mean A(x)/x.
    second = norm(two) * _mean_length(two) / two * norm(kappa) / norm(one) ** 2
    return math.sqrt(second / keys)
