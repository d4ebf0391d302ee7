"""Whether the choice is the fastest: every sum over a grid of n, d and β, and the chosen one."""

from __future__ import annotations

import metastable as ms
from benchmarks import draw as figures
from benchmarks import timing
from benchmarks.lowdim import velocity
from metastable.fields.sums import CircleSum, Dense, HarmonicSum, SphereSum, choose_sum

COUNTS = [64, 256, 1024, 4096, 16384]
BETAS = {2: (1.0, 9.0, 50.0), 3: (1.0, 9.0, 50.0)}
MORE_AXES = (4, 5, 6, 7, 8)  # at a tolerance that also leaves a choice in d = 8


def measure(quick: bool = False) -> dict:
    rows = []
    for dim in (2, 3, *MORE_AXES):
        for beta in BETAS.get(dim, (1.0, 4.0, 9.0)):
            counts = COUNTS if dim <= 3 else COUNTS[1:]
            for count in counts[:-1] if quick else counts:
                rows.append(_one(dim, beta, count, 10 if quick else 30))
    worst = max(rows, key=lambda row: row["ratio"])
    summary = [
        f"the chosen sum takes at most {worst['ratio']:.2f} times the best one "
        f"(d = {worst['d']}, beta = {worst['beta']:g}, n = {worst['n']}: {worst['chosen']})"
    ]
    return {"rows": rows, "summary": summary}


def _one(dim: int, beta: float, count: int, rounds: int) -> dict:
    measure = ms.uniform(tokens=count, dim=dim, seed=0)
    asked = 1e-10 if dim <= 3 else 1e-6
    chosen = choose_sum(measure, ms.SelfAttention(beta), asked)
    crowd = choose_sum(ms.uniform(tokens=10**6, dim=dim), ms.SelfAttention(beta), asked)
    tolerance = getattr(chosen, "tolerance", getattr(crowd, "tolerance", 1e-11))
    sums: dict = {"dense": Dense()}
    if dim <= 3:
        sums["NUFFT"] = (CircleSum if dim == 2 else SphereSum).reaching(beta, tolerance)
    if type(crowd) is not Dense:
        sums["harmonic"] = HarmonicSum.reaching(beta, dim, tolerance)
    kinds = {CircleSum: "NUFFT", SphereSum: "NUFFT", HarmonicSum: "harmonic", Dense: "dense"}
    seconds = timing.race(
        {name: velocity(measure, beta, sum) for name, sum in sums.items()},
        rounds=rounds,
        budget=2.0,
    )
    name = kinds[type(chosen)]
    ratio = seconds[name] / min(seconds.values())
    return {"d": dim, "beta": beta, "n": count, "chosen": name, "ratio": ratio, "seconds": seconds}


def draw(result: dict, path) -> None:
    panels = {}
    for dim in (2, 3, 4):
        rows = [r for r in result["rows"] if r["d"] == dim and r["beta"] == 9.0]
        panels[f"d = {dim}, β = 9"] = [
            {"method": method, "x": r["n"], "y": s}
            for r in rows
            for method, s in [*r["seconds"].items(), ("chosen", r["seconds"][r["chosen"]])]
        ]
    title = "Which sum is the fastest, and which is chosen"
    figures.lines(
        panels, path, title, "tokens n", "seconds per field evaluation", result["machine"]
    )
