"""Whether the choice is the fastest: every sum over a grid of n, d and β, and the chosen one."""

from __future__ import annotations

import metastable as ms
from benchmarks import draw as figures
from benchmarks import timing
from benchmarks.lowdim import velocity
from metastable.fields.sums import CircleSum, Dense, HarmonicSum, SphereSum, choose_sum

COUNTS = [64, 256, 1024, 4096, 16384]


def measure(quick: bool = False) -> dict:
    rows = []
    for dim in (2, 3):
        for beta in (1.0, 9.0, 50.0):
            for count in COUNTS[:-1] if quick else COUNTS:
                rows.append(_one(dim, beta, count, 10 if quick else 30))
    worst = max(rows, key=lambda row: row["ratio"])
    summary = [
        f"the chosen sum takes at most {worst['ratio']:.2f} times the best one "
        f"(d = {worst['d']}, beta = {worst['beta']:g}, n = {worst['n']}: {worst['chosen']})"
    ]
    return {"rows": rows, "summary": summary}


def _one(dim: int, beta: float, count: int, rounds: int) -> dict:
    measure = ms.uniform(tokens=count, dim=dim, seed=0)
    chosen = choose_sum(measure, ms.SelfAttention(beta), 1e-10)
    tolerance = getattr(chosen, "tolerance", 1e-11)
    sums = {
        "NUFFT": (CircleSum if dim == 2 else SphereSum).reaching(beta, tolerance),
        "harmonic": HarmonicSum.reaching(beta, dim, tolerance),
    }
    if count <= 16384:
        sums["dense"] = Dense()
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
    for dim in (2, 3):
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
