"""Each placement's law against the integrated directions and radii of three tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.equiangular import equiangular_rate
from metastable.theory.normalization import SCHEMES, clustering_law

N, BETA, ALPHA, TAU = 3, 1.0, 0.6, 1.5


def gap(scheme, times):
    """1 − γ at the times, from vectors θ_j and radii r_j: no equiangular reduction."""

    def velocity(t, flat):
        theta, r = flat[: N * N].reshape(N, N), flat[N * N :]
        kernel = np.exp(BETA * theta @ theta.T)
        a = kernel @ theta / kernel.sum(1, keepdims=True)
        norm = np.linalg.norm(a, axis=1)
        along = np.sum(a * theta, 1)
        late = t > TAU
        s, growth = {
            "post": (np.ones(N), 0 * r),
            "pre": (r, along),
            "peri": (r * norm, along / norm),
            "ngpt": (norm / ALPHA, 0 * r),
            "sqrt": (np.full(N, math.sqrt(t + 1)), 0 * r),
            "mix": (r, along * late),
        }[scheme]
        move = (a - along[:, None] * theta) / s[:, None]
        return np.concatenate([move.ravel(), growth])

    start = np.concatenate([np.eye(N).ravel(), np.ones(N)])
    run = solve_ivp(
        velocity, (0, times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-13, max_step=50.0
    )
    theta = run.y[: N * N].T.reshape(-1, N, N)
    return 0.5 * np.sum((theta[:, 0] - theta[:, 1]) ** 2, axis=1)


CLOCK = {
    "exponential": ([8.0, 10.0], lambda t: t),
    "power": ([400.0, 800.0], math.log),
    "stretched": ([16.0, 25.0], lambda t: math.sqrt(t + 1)),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_late_exponent(scheme):
    law = clustering_law(scheme, BETA, N, alpha=ALPHA)
    times, clock = CLOCK[law.kind]
    g = gap(scheme, times)
    slope = math.log(g[0] / g[1]) / (clock(times[1]) - clock(times[0]))
    assert slope == pytest.approx(law.exponent, rel=0.01)  # the powers are corrected by 1/t


@pytest.mark.parametrize("scheme", SCHEMES)
def test_initial_speed(scheme):
    law = clustering_law(scheme, BETA, N, alpha=ALPHA)
    step = 1e-4
    g = gap(scheme, [step, 2 * step])
    speed = (2 * (1 - g[0]) - (1 - g[1]) / 2) / step  # second-order difference at 0
    assert law.initial_speed == pytest.approx(speed, rel=1e-5)


def test_published_initial_speeds():
    # n = 32, β = 1: 0.059 for post, pre and sqrt; 0.32 for peri and nGPT
    assert clustering_law("post", 1.0, 32).initial_speed == pytest.approx(
        float(equiangular_rate(0.0, 1.0, 32)), rel=1e-14
    )
    assert clustering_law("ngpt", 1.0, 32).initial_speed == pytest.approx(0.323, abs=1e-3)
    assert clustering_law("peri", 1000.0, 32).initial_speed == 0


def test_bad_arguments_are_named():
    for call in (
        lambda: clustering_law("middle", 1.0, 4),
        lambda: clustering_law("post", 1.0, 1),
        lambda: clustering_law("ngpt", 1.0, 4, alpha=0.0),
    ):
        with pytest.raises(ValueError, match="must"):
            call()
