"""Self-check: is this machine's arithmetic the one the rest of the package counts on?"""

from __future__ import annotations

import importlib.util
import math
import platform
import shutil
from typing import Any

import numpy as np

from metastable.core import compiled
from metastable.core.numerics import jax, jnp
from metastable.core.provenance import versions
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import orthogonal, uniform

# What may be installed beside: the modules that show it is there, what it is for, and how.
EXTRAS = {
    "models": ("torch transformers sklearn", "read pretrained transformers, audit models"),
    "explorer": ("fastapi uvicorn websockets", "the live page, `metastable explore`"),
    "cluster": ("distributed dask_jobqueue", "sweeps on dask clusters and Slurm"),
    "transport": ("ot", "Wasserstein distances between unequal masses"),
    "nufft": ("jax_finufft", "faster sums on the circle and S² at large β"),
}


def list_extras() -> dict[str, dict[str, Any]]:
    """Each extra: whether it is there, what it enables, and the command that installs it."""
    found = {
        name: {
            "installed": all(importlib.util.find_spec(module) for module in modules.split()),
            "enables": purpose,
            "install": f"pip install 'metastable[{name}]'",
        }
        for name, (modules, purpose) in EXTRAS.items()
    }
    found["GPU"] = {
        "installed": jax.default_backend() == "gpu",
        "enables": "flows, sums and ensembles on an NVIDIA card",
        "install": "pip install 'jax[cuda13]'",
    }
    found["chromium"] = {
        "installed": shutil.which("chromium") is not None,
        "enables": "audit pages as PDF",
        "install": "apt install chromium",
    }
    return found


def check_machine() -> dict[str, Any]:
    """Versions, devices, compiled code and checks; `healthy` when every check passed."""
    cache = compiled.describe()
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
        "compiled": cache | {"sentence": say_compiled(cache)},
        "extras": list_extras(),
        "checks": {name: bool(passed) for name, passed in checks.items()},
        "healthy": all(checks.values()),
    }


def say_compiled(cache: dict[str, Any]) -> str:
    """One line: where compiled code is kept, how much, and how to be rid of it."""
    if cache["folder"] is None:
        return "not kept (METASTABLE_CACHE=off, or no folder that can be written)"
    if cache["chosen_by"] == "user":
        return f"{cache['folder']} (JAX_COMPILATION_CACHE_DIR; left to JAX)"
    size = f"{cache['bytes'] / 2**20:.1f} of {cache['limit'] / 2**20:.0f} MiB"
    return (
        f"{cache['folder']}: {cache['entries']} entries, {size}; `metastable doctor --clear-cache` "
        "removes them"
    )


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
