"""Repelling tokens (V = −I) find the universally optimal configurations, by the flow alone.

Source: Cohn and Kumar, J. AMS 20 (2007), Theorem 1.2: sharp configurations minimise E_β for every
β. The exact energies come from inner products and multiplicities, not from a run.
"""

from __future__ import annotations

import diffrax
import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax
from metastable.observe import energy
from metastable.theory.configurations import scaled_energy, sharp_configuration

BETA = 4.0


def relative_excess(dim: int, tokens: int, starts: int, horizon: float) -> np.ndarray:
    """E/E* − 1 at the end of the flow from each random start, sorted."""
    field = ms.SelfAttention(BETA, value=-1.0)
    stepper = ms.Adaptive(solver=diffrax.Tsit5())

    def end(points):
        run = ms.flow(ms.Points(points), field, horizon, frames=2, stepper=stepper)
        return run.frames[-1].points

    first = np.stack([ms.uniform(tokens, dim, seed=seed).points for seed in range(starts)])
    last = jax.jit(jax.vmap(end))(first)
    reached = np.array([energy(ms.Points(points), BETA, scaled=True) for points in last])
    exact = scaled_energy(sharp_configuration(dim, tokens), BETA)
    excess = np.sort(reached / exact - 1)
    print(f"d={dim} N={tokens}: best {excess[0]:.1e}, median {np.median(excess):.1e}")
    return excess


@pytest.mark.parametrize("dim, tokens", [(2, 5), (3, 12), (4, 8)])
def test_repulsion_reaches_the_exact_energy(dim, tokens):
    excess = relative_excess(dim, tokens, starts=5, horizon=200.0)
    assert -1e-13 < excess[0] < 1e-10
