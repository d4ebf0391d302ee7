"""Self-check: is this machine's arithmetic the one the rest of the package counts on?"""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.provenance import versions
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import orthogonal, uniform


def check_machine() -> dict[str, Any]:
    """Versions, devices and checks; `healthy` when every check passed."""
    checks = {
        "float64 is on": jnp.zeros(1).dtype == jnp.float64,
        "the compiler agrees with NumPy above 16384 rows": compiler_is_sound(),
        "attention agrees with a direct sum": _attention_error() < 1e-12,
        "the flow of orthogonal tokens agrees with its closed form": _flow_error() < 1e-8,
    }
    return {
        "versions": versions(),
        "platform": platform.platform(),
        "devices": [str(device) for device in jax.devices()],
        "checks": {name: bool(passed) for name, passed in checks.items()},
        "healthy": all(checks.values()),
    }


def compiler_is_sound(rows: int = 20_000) -> bool:
    """Whether jit computes vmapped small matrix–vector products as NumPy does.

    jax 0.10.2 returned wrong sums above 16 384 rows on CPUs (jax-ml/jax issue 39103).
    """
    vectors = np.ones((rows, 128))
    matrix = np.ones((128, 128))
    compiled = jax.jit(lambda v, m: jnp.sum(jax.vmap(lambda row: m @ row)(v)))
    return bool(compiled(vectors, matrix) == np.sum(vectors @ matrix.T))


def _attention_error() -> float:
    tokens, beta = uniform(tokens=50, dim=3, seed=0), 5.0
    x = np.asarray(tokens.points)
    kernel = np.exp(beta * x @ x.T)
    mean = kernel @ x / kernel.sum(1, keepdims=True)
    expected = mean - (mean * x).sum(1, keepdims=True) * x
    return float(np.abs(np.asarray(SelfAttention(beta).velocity(tokens)) - expected).max())


def _flow_error() -> float:
    # Two orthogonal tokens at beta = 0: γ̇ = (1−γ)(1+γ), so γ = tanh t.
    run = flow(orthogonal(tokens=2, dim=2), SelfAttention(beta=0.0), horizon=2.0, frames=3)
    x = np.asarray(run.frames[-1].points)
    return abs(float(x[0] @ x[1]) - math.tanh(2.0))
