"""Low-rank attention against all pairs: the same runs from the moment clusters form, and whole.

    python benchmarks/low_rank.py --fast
    python benchmarks/low_rank.py --out benchmarks/results/low_rank.json

"The moment" is the first time, in steps of a half, at which n/10 pivots give the field to 1e−6 at
every token. Both runs of a tail start from the tokens at that moment, with the clock there. Both
are compiled before they are timed, and the faster of two tries counts up to 2000 tokens. Pairs are
exponentials: n(n + 1)/2 for a dense evaluation, which uses each twice, r n for one through r pivots
(2 r n + r² where they are too many to keep); those spent to choose and check pivots count. Seconds
are of the clock, CPU seconds of the process: other work on the machine changes these less.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import metastable as ms
from benchmarks.timing import machine
from metastable.fields.sums import Dense, check_sum
from metastable.fields.sums.low_rank import LowRankSum
from metastable.fields.sums.pivots import find_pivots
from metastable.flows.solvers.merging import MergingFlow, padded
from metastable.flows.solvers.solver import Choices

BETA = 9.0
FIELD = ms.SelfAttention(BETA)
# tokens, dimension, tolerance of the stepper
# 5e-7 is the loosest that mergers allow; ends then differ by less than 1e-6.
TAILS = [(2000, 8, 1e-9), (2000, 8, 5e-7), (2000, 64, 1e-9), (2000, 64, 5e-7)]
TAILS += [(n, d, 5e-7) for n in (8000, 20_000) for d in (8, 64)]
WHOLE = [(2000, 8, 1e-9), (2000, 64, 1e-9)]
PLAIN = [(2000, 8, 1e-9), (2000, 8, 1e-6)]
PLAIN_TAILS = [(20_000, 8, 1e-9), (20_000, 8, 1e-6)]
RANGES = {8: (6.0, 9.5), 64: (8.0, 12.5)}  # of times among which the moment is looked for


def prepared(tokens: int, dim: int, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Times and tokens of a run to about where clusters form, from uniform tokens."""
    first, last = RANGES[dim]
    path = None if folder is None else folder / f"start_{tokens}_{dim}.npz"
    if path is not None and path.exists():
        with np.load(path) as kept:
            return kept["times"], kept["points"]
    start, times = ms.uniform(tokens, dim, seed=0), np.arange(first, last + 0.1, 0.5)
    how: dict[str, Any] = {"stepper": ms.Adaptive(1e-5, 1e-5), "sum": Dense(), "frames": times}
    run = ms.flow(start, FIELD, last, **how)
    points = np.stack([np.asarray(frame.points) for frame in run.frames])
    if path is not None:
        np.savez(path, times=run.times, points=points)
    return run.times, points


def the_moment(times: np.ndarray, points: np.ndarray) -> tuple[float, np.ndarray, int]:
    """When n/10 pivots give 1e−6, the tokens then, and how many of the pivots are enough."""
    count = points.shape[1]
    weights = np.full(count, 1 / count)
    enough = lambda x, pivots: check_sum(LowRankSum(pivots), ms.Points(x), FIELD, 256) <= 1e-6
    for t, x in zip(times[1:], points[1:], strict=True):
        pivots = find_pivots(x, BETA, weights, count // 10, hopeless=1e-1).indices
        if len(pivots) == count // 10 and enough(x, pivots):
            return float(t), x, len(pivots)
    return float(times[-1]), points[-1], -1


class Tail:
    """A merging run from tokens at time t, its seconds and pairs while there are many tokens."""

    def __init__(self, t: float, x: np.ndarray, atol: float, sum: Any, frames: np.ndarray):
        stepper = ms.Merging(stepper=ms.Adaptive(atol, atol))
        how = Choices(stepper, sum, frames)
        self.solver: Any = MergingFlow(ms.Points(x), FIELD, math.inf, how)
        self.solver.start()
        self.solver.log_epoch = math.log(t)
        self.seconds, self.tokens = 0.0, len(x)
        self.looks: list[tuple[Any, ...]] = []

    def warm(self) -> None:
        self.solver.advance()

    def run(self) -> Tail:
        solver = self.solver
        while solver.outcome is None:
            before = solver.log_time, solver.evaluations, self.pairs
            began = time.perf_counter(), time.process_time()
            solver.advance()
            took = time.perf_counter() - began[0], time.process_time() - began[1]
            self.seconds += took[0]
            if not solver.exact:
                spent = solver.evaluations - before[1], self.pairs - before[2]
                if solver.ranks is None:
                    spent = spent[0], spent[0] * triangle(padded(len(solver.x), self.tokens))
                low = solver.ranks is not None and solver.ranks.counts["rank"] > 0
                self.looks.append((math.exp(before[0]), *took, *spent, low))
        return self

    @property
    def pairs(self) -> int:
        return 0 if self.solver.ranks is None else self.solver.ranks.counts["pairs"]

    @property
    def switch(self) -> float:
        """When the first look through pivots began."""
        return next((look[0] for look in self.looks if look[-1]), math.inf)

    def spent(self, since: float = 0.0) -> np.ndarray:
        """Seconds, CPU seconds, evaluations and pairs since then, while there are many tokens."""
        return np.sum([look[1:5] for look in self.looks if look[0] >= since], axis=0)


def tail(tokens: int, dim: int, atol: float, folder: Path | None) -> dict[str, Any]:
    t, x, rank = the_moment(*prepared(tokens, dim, folder))
    frames = t + np.array([1.0, 2.0, 4.0, 8.0])
    make = lambda sum: Tail(t, x, atol, sum, frames)
    make(None).run()  # compiles
    make(Dense()).warm()
    tries = 2 if tokens <= 2000 else 1
    runs = [(make(None).run(), make(Dense()).run()) for _ in range(tries)]
    low, dense = (min(each, key=lambda run: run.seconds) for each in zip(*runs, strict=True))
    ends: list[Any] = [run.solver.trajectory(0.0) for run in (low, dense)]
    a, b = (run.mergers for run in ends)
    row: dict[str, Any] = {"case": "merging, from the moment"}
    row |= {"n": tokens, "d": dim, "atol": atol, "moment": t, "rank at 1e-6": rank}
    row |= {"sum": low.solver.statistics()["sum"]}
    for name, since in (("", 0.0), (" since the switch", low.switch)):
        ours, theirs = low.spent(since), dense.spent(since)
        row |= {f"seconds{name}": ours[0], f"dense seconds{name}": theirs[0]}
        row |= {f"time ratio{name}": theirs[0] / ours[0]}
        row |= {f"CPU seconds{name}": ours[1], f"dense CPU seconds{name}": theirs[1]}
        row |= {f"CPU ratio{name}": theirs[1] / ours[1]}
        row |= {f"evaluations{name}": int(ours[2]), f"dense evaluations{name}": int(theirs[2])}
        row |= {f"pairs ratio{name}": (theirs[3] / theirs[2]) / (ours[3] / ours[2])}
    row |= {"switch": low.switch, "time ratio to the last cluster": dense.seconds / low.seconds}
    row |= {key: low.solver.ranks.counts[key] for key in ("refreshes", "repeats")}
    row |= {"error of the sum, gathered": low.solver.ranks.error}
    met = zip(ends[0].frames[1:5], ends[1].frames[1:5], strict=True)
    row |= {"frames apart": [apart(*pair) for pair in met]}
    row |= {"last cluster apart": apart(ends[0].frames[-1], ends[1].frames[-1])}
    few = min(len(a), 4)  # of clusters: which of two collapsed tokens came first is chance
    masses = (np.sort(m.masses[-few:], axis=1) for m in (a, b))
    row |= {"last mergers equal": bool(np.allclose(*masses, atol=1e-12))}
    late = float(np.max(np.abs(a.log_times[-few:] - b.log_times[-few:])))
    return say(row | {"last mergers apart in log t": late})


def triangle(tokens: int) -> int:
    """Exponentials of a dense evaluation."""
    return tokens * (tokens + 1) // 2


def apart(a: ms.Points, b: ms.Points) -> float:
    """The farthest that a token of one lies from all of the other."""
    x, y = np.asarray(a.points), np.asarray(b.points)
    return float(max(KDTree(x).query(y)[0].max(), KDTree(y).query(x)[0].max()))


def whole(tokens: int, dim: int, atol: float, folder: Path | None) -> dict[str, Any]:
    """From uniform tokens to the last cluster."""
    start, t = ms.uniform(tokens, dim, seed=0), the_moment(*prepared(tokens, dim, folder))[0]
    stepper = ms.Merging(stepper=ms.Adaptive(atol, atol))
    go = lambda sum: ms.flow(start, FIELD, math.inf, stepper=stepper, sum=sum)
    go(None)
    fastest = lambda runs: min(runs, key=lambda run: run.statistics["seconds"])
    tries = [(go(None), go(Dense())) for _ in range(2)]
    low, dense = (fastest(each) for each in zip(*tries, strict=True))
    assert low.mergers is not None and dense.mergers is not None
    row: dict[str, Any] = {"case": "merging, whole"}
    row |= {"n": tokens, "d": dim, "atol": atol, "moment": t}
    row |= {"sum": low.statistics["sum"], "seconds": low.statistics["seconds"]}
    row |= {"dense seconds": dense.statistics["seconds"]}
    row |= {"time ratio": dense.statistics["seconds"] / low.statistics["seconds"]}
    # The way to the moment is the same in both runs: how many pairs it takes is told by one that
    # ends there.
    first = ms.flow(start, FIELD, t, stepper=stepper, sum=Dense(), frames=2)
    before = first.statistics["evaluations"] * triangle(padded(tokens, tokens))
    row |= {"pairs": low.statistics["pairs"], "share before": before / low.statistics["pairs"]}
    row |= {"last cluster apart": apart(low.frames[-1], dense.frames[-1])}
    return say(row | {"mergers": len(low.mergers), "dense mergers": len(dense.mergers)})


def plain(
    tokens: int, dim: int, atol: float, folder: Path | None, late: bool = False
) -> dict[str, Any]:
    """Without mergers: to t = 20 from uniform tokens, or for 12 units of time from the moment."""
    start, t, horizon = ms.uniform(tokens, dim, seed=0), 0.0, 20.0
    if late:
        t, x, _ = the_moment(*prepared(tokens, dim, folder))
        start, horizon = ms.Points(x), 12.0
    how: dict[str, Any] = {"stepper": ms.Adaptive(atol, atol), "frames": 25}
    ms.flow(start, FIELD, horizon, **how)
    if not late:
        ms.flow(start, FIELD, 0.1, sum=Dense(), **how)
    go = lambda sum: ms.flow(start, FIELD, horizon, sum=sum, **how)
    tries = [(go(None), go(Dense())) for _ in range(1 if late else 2)]
    fastest = lambda runs: min(runs, key=lambda run: run.statistics["seconds"])
    low, dense = (fastest(each) for each in zip(*tries, strict=True))
    case = "flow, from the moment" if late else "flow, whole"
    row: dict[str, Any] = {"case": case}
    row |= {"n": tokens, "d": dim, "atol": atol, "from": t, "for": horizon}
    row |= {key: low.statistics[key] for key in ("sum", "evaluations", "seconds", "pairs")}
    row |= {"dense seconds": dense.statistics["seconds"]}
    row |= {"time ratio": dense.statistics["seconds"] / low.statistics["seconds"]}
    pairs = dense.statistics["evaluations"] * triangle(tokens)
    row |= {"pairs ratio": pairs / low.statistics["pairs"]}
    row |= {key: low.statistics[f"low_rank_{key}"] for key in ("refreshes", "repeats", "error")}
    frames = zip(low.frames, dense.frames, strict=True)
    off = max(float(np.abs(np.asarray(a.points) - np.asarray(b.points)).max()) for a, b in frames)
    return say(row | {"frames apart": off})


def say(row: dict[str, Any]) -> dict[str, Any]:
    shown = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print("  ".join(shown), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="2000 tokens in d = 8 only")
    parser.add_argument("--only", nargs="*", help="parts: tails, whole, plain, plain_tails")
    parser.add_argument("--states", type=Path, help="folder that keeps tokens at the moment")
    parser.add_argument("--tokens", type=int, nargs="*", help="only these cases; others are kept")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    jobs = {
        "tails": (tail, TAILS),
        "whole": (whole, WHOLE),
        "plain": (plain, PLAIN),
        "plain_tails": (lambda *case: plain(*case, late=True), PLAIN_TAILS),
    }
    result: dict[str, Any] = {}
    if given.out is not None and given.out.exists():
        result = json.loads(given.out.read_text())
    for name in given.only or jobs:
        measure, cases = jobs[name]
        if given.tokens:
            cases = [case for case in cases if case[0] in given.tokens]
        for case in cases[:1] if given.fast else cases:
            row = measure(*case, given.states) | {"load": os.getloadavg()[1]}
            same = lambda old, case=case: (old["n"], old["d"], old["atol"]) == case
            rows = [old for old in result.get(name, []) if not same(old)]
            result[name] = sorted([*rows, row], key=lambda r: (r["n"], r["d"], r["atol"]))
            result["machine"] = machine()
            if given.out is not None:  # after every case: what was stopped is not lost
                given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
