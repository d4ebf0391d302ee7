"""Random depth against theory: exponents, sign change, chances, orders, many tokens.

    python benchmarks/random_depth.py --fast
    python benchmarks/random_depth.py --out benchmarks/results/random_depth.json

Full, it takes a few minutes on a GPU. Prints one line a number: measured ± error, predicted, and
the difference in standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import metastable as ms
from metastable.observe.random_depth import how_tokens_end, pair_exponent, step_common
from metastable.theory.random_depth import PairDiffusion, antipodal_beta

DIMS, BETAS = (3, 4, 8, 16, 64), (0.5, 1.0, 2.0, 3.0)
CHANCES = ((3, 1.0), (3, 2.0), (4, 1.0), (4, 2.0), (8, 2.0), (8, 3.0))
STEP = 0.02  # times (d − 1): what one step does


def exponents(precision: float, most: float) -> list[dict[str, Any]]:
    """Both exponents by layers and by the SDE, to a relative standard error of `precision`."""
    rows = []
    for dim in DIMS:
        for beta in BETAS:
            pair = PairDiffusion(beta, dim)
            for opposite in (False, True):
                exact = pair.antipodal_exponent if opposite else pair.consensus_exponent
                spread = pair.volatility if opposite else 2.0
                # Five times the variance by extrapolation, a twentieth of it by W and −W.
                worth = min(0.25 * (spread / (precision * abs(exact))) ** 2, most)
                for layers in (False, True):
                    rows.append(exponent(dim, beta, opposite, layers, worth, exact))
    return rows


def exponent(
    dim: int, beta: float, opposite: bool, layers: bool, worth: float, exact: float
) -> dict[str, Any]:
    step = STEP / (dim - 1)
    horizon = 200 * step if worth < 1e4 else 1000 * step
    samples = 2 ** math.ceil(math.log2(min(max(worth / horizon, 64), 2**21)))
    found = pair_exponent(
        ms.RandomValue(beta),
        dim,
        opposite,
        samples=samples,
        horizon=horizon,
        step=step,
        layers=layers,
        seed=int(100 * beta) + dim,
    )
    row = {"dim": dim, "beta": beta, "end": "antipode" if opposite else "consensus"}
    row |= {"by": "layers" if layers else "SDE", "rate": found.rate, "error": found.error}
    return say(row | {"exact": exact, "z": (found.rate - exact) / found.error})


def bracket(worth: float) -> list[dict[str, Any]]:
    """The antipodal exponent 2 % below and above β_c: positive, then negative."""
    rows = []
    for dim in (4, 8, 16, 64):
        for factor in (0.98, 1.02):
            beta = factor * antipodal_beta(dim)
            exact = PairDiffusion(beta, dim).antipodal_exponent
            need = 0.25 * (2.8 / (0.2 * exact)) ** 2  # five standard errors from zero
            row = exponent(dim, beta, True, True, min(need, worth), exact)
            rows.append(row | {"factor": factor, "from_zero": row["rate"] / row["error"]})
    return rows


def chances(samples: int) -> list[dict[str, Any]]:
    """Two orthogonal tokens: how often they end opposite to each other."""
    rows = []
    for dim, beta in CHANCES:
        how: dict[str, Any] = {"step": 0.02 / (dim - 1), "orthogonal": True, "progress": False}
        ends = how_tokens_end(ms.RandomValue(beta), 2, dim, samples=samples, horizon=400.0, **how)
        exact = PairDiffusion(beta, dim).antipodal_chance()
        row = {"dim": dim, "beta": beta, "chance": ends.opposite.value, "exact": exact}
        row |= {"off": ends.opposite.value - exact, "undecided": ends.undecided.value}
        rows.append(say(row | {"error": math.sqrt(exact * (1 - exact) / samples)}))
    return rows


def many(samples: int, dim: int = 4, beta: float = 2.0) -> list[dict[str, Any]]:
    """How 2 to 64 uniform tokens end."""
    rows = []
    for tokens in (2, 3, 4, 5, 6, 8, 16, 32, 64):
        ends = how_tokens_end(
            ms.RandomValue(beta),
            tokens,
            dim,
            samples=samples,
            horizon=150.0,
            step=0.05 / (dim - 1),
            progress=False,
        )
        row: dict[str, Any] = {"tokens": tokens, "dim": dim, "beta": beta}
        for name in ("together", "opposite", "undecided"):
            share = getattr(ends, name)
            row |= {name: share.value, f"{name}_interval": share.interval}
        rows.append(say(row))
    return rows


def weak_order(samples: int, dim: int = 4, beta: float = 1.0, horizon: float = 0.4) -> dict:
    """E ρ(T) from ρ = 0 against the backward equation: the bias halves with the step."""
    exact, rows = mean_cosine(dim, beta, horizon), []
    for steps in (4, 8, 16, 32):
        for layers in (False, True):
            seen = np.asarray(_cosines(beta, dim, samples, steps, horizon / steps, layers))
            bias = float(seen.mean()) - exact
            error = float(seen.std()) / math.sqrt(samples)
            row = {"steps": steps, "by": "layers" if layers else "SDE", "bias": bias}
            rows.append(say(row | {"error": error}))
    return {"exact": exact, "rows": rows}


def mean_cosine(dim: int, beta: float, horizon: float, nodes: int = 4001) -> float:
    """E ρ(T) of the diffusion in y = artanh ρ, by implicit steps of the backward equation."""
    from scipy.linalg import solve_banded

    y = np.linspace(-9, 9, nodes)
    pair, gap = PairDiffusion(beta, dim), y[1] - y[0]
    drift = np.array([pair.drift_of_y(v) for v in y])
    half = np.array([pair.variance_of_y(v) for v in y]) / 2
    lower, upper = half / gap**2 - drift / (2 * gap), half / gap**2 + drift / (2 * gap)
    lower[[0, -1]] = upper[[0, -1]] = 0.0  # ρ = ±1 stays
    u, count = np.tanh(y), 4000
    dt = horizon / count
    bands = np.zeros((3, nodes))
    bands[0, 1:], bands[2, :-1] = -dt / 2 * upper[:-1], -dt / 2 * lower[1:]
    bands[1] = 1 + dt / 2 * (lower + upper)
    for _ in range(count):  # Crank and Nicolson
        moved = -(lower + upper) * u
        moved[:-1] += upper[:-1] * u[1:]
        moved[1:] += lower[1:] * u[:-1]
        u = solve_banded((1, 1), bands, u + dt / 2 * moved)
    return float(u[nodes // 2])


def _cosines(beta: float, dim: int, samples: int, steps: int, h: float, layers: bool) -> Any:
    field = ms.RandomValue(beta)

    def one(key: Any) -> Any:
        move = lambda k, x: step_common(x, field, jax.random.fold_in(key, k), h, layers)
        x = jax.lax.fori_loop(0, steps, move, jnp.eye(dim)[:2])
        return x[0] @ x[1]

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(steps), samples))


def say(row: dict[str, Any]) -> dict[str, Any]:
    shown = (f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print("  ".join(shown), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="a minute on two cores")
    parser.add_argument("--only", nargs="*", help="parts: exponents, many, ...")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    fast, began = given.fast, time.perf_counter()
    if fast:
        globals()["DIMS"], globals()["BETAS"] = (3, 8), (1.0, 2.0)
        globals()["CHANCES"] = ((3, 2.0),)
    parts = {
        "weak_order": lambda: weak_order(20_000 if fast else 4_000_000),
        "chances": lambda: chances(1000 if fast else 40_000),
        "exponents": lambda: exponents(0.05 if fast else 0.0067, 3e3 if fast else 4e6),
        "bracket": lambda: [] if fast else bracket(4e6),
        "many": lambda: [] if fast else many(2000),
    }
    found: dict[str, Any] = {"device": str(jax.devices()[0])}
    for name in given.only or parts:
        found[name] = parts[name]()
        found["seconds"] = time.perf_counter() - began
        if given.out:  # after every part: what was stopped is not lost
            given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
