"""What the circle and the sphere share: all sums and peers over n, with errors."""

from __future__ import annotations

import numpy as np

import metastable as ms
from benchmarks import peers, timing
from metastable.core.numerics import jax, jnp
from metastable.fields.sums.choice import choose_sum
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.nufft import CircleSum, GaussianSum, SphereSum

COUNTS = [256, 1024, 4096, 16384, 65536, 10**6, 10**7]


def measure(dim: int, betas: list[float], peer_limit: int, largest: int) -> dict:
    rows = []
    for beta in betas:
        for count in [n for n in COUNTS if n <= largest]:
            # Peers do not feel β: one is enough for their curve.
            with_peers = count <= peer_limit and beta == betas[0]
            rows += _one(dim, beta, count, with_peers)
    return {"dim": dim, "rows": rows, "summary": _summary(rows, betas)}


def _one(dim: int, beta: float, count: int, with_peers: bool) -> list[dict]:
    measure, field = ms.uniform(tokens=count, dim=dim, seed=0), ms.SelfAttention(beta)
    tolerance = 1e-13 if dim == 2 else 1e-11
    fast = CircleSum if dim == 2 else SphereSum
    sums = {
        "NUFFT": fast.reaching(beta, tolerance),
        "harmonic": HarmonicSum.reaching(beta, dim, tolerance),
        "chosen": choose_sum(measure, field),
    }
    if dim == 3:
        sums["Gaussian NUFFT"] = GaussianSum(np.sqrt(beta), tolerance)
    if count <= 65536 and with_peers:
        sums["dense"] = ms.Dense()
    if count > 10**6:
        sums = {"NUFFT": sums["NUFFT"]}
    candidates = {name: velocity(measure, beta, sum) for name, sum in sums.items()}
    if with_peers:
        candidates |= peers.peers(measure, beta)
    seconds = timing.race(candidates, rounds=3 if count >= 16384 else 10, budget=8.0)
    errors = {name: _error(candidates[name]()[:64], measure, beta) for name in sums}
    return [
        {"beta": beta, "n": count, "method": name, "seconds": s, "relative_error": errors.get(name)}
        for name, s in seconds.items()
    ]


def _error(velocity, measure: ms.Points, beta: float) -> float:
    """Against the whole sum in NumPy at the first tokens."""
    x = np.asarray(measure.points)
    k = np.exp(beta * (x[:64] @ x.T - 1))
    v = (k @ x) / k.sum(1)[:, None]
    v -= np.sum(v * x[:64], axis=1)[:, None] * x[:64]
    return float(np.max(np.abs(velocity - v)) / np.max(np.abs(v)))


def velocity(measure: ms.Points, beta: float, sum):
    f = jax.jit(lambda m, b: ms.SelfAttention(b).velocity(m, sum=sum))
    b = jnp.asarray(beta)
    return lambda: f(measure, b)


def _summary(rows: list[dict], betas: list[float]) -> list[str]:
    lines, ours = [], ("NUFFT", "harmonic", "Gaussian NUFFT", "chosen")
    peer_rows = [r for r in rows if r["method"] not in ours]
    largest = max(r["n"] for r in peer_rows)
    fastest = min((r for r in peer_rows if r["n"] == largest), key=lambda r: r["seconds"])
    for beta in betas:
        nufft = {r["n"]: r for r in rows if r["method"] == "NUFFT" and r["beta"] == beta}
        at = nufft[largest]
        lines.append(
            f"beta {beta:g}, n = {largest}: {fastest['seconds'] / at['seconds']:.0f} times as fast "
            f"as {fastest['method']}, relative error {at['relative_error']:.1e}"
        )
        counts = sorted(n for n in nufft if n >= 16384)
        slope = np.polyfit(np.log(counts), np.log([nufft[n]["seconds"] for n in counts]), 1)[0]
        top = nufft[counts[-1]]
        lines.append(
            f"beta {beta:g}: n = {top['n']} in {top['seconds']:.2f} s, growth exponent {slope:.2f}"
        )
    return lines
