"""Peak memory of one field evaluation, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import draw as figures

SCRIPT = """
import json, resource, sys
import metastable as ms
from metastable.fields.sums import CircleSum, SphereSum
name, dim, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
measure, field = ms.uniform(tokens=count, dim=dim, seed=0), ms.SelfAttention(9.0)
if name == "PyTorch SDPA":
    import numpy as np
    from benchmarks.peers import sdpa
    run = sdpa(np.asarray(measure.points), 9.0)
    before = peak()
    run()
else:
    fast = CircleSum if dim == 2 else SphereSum
    sum = ms.Dense() if name == "dense" else fast.reaching(9.0, 1e-11)
    before = peak()
    field.velocity(measure, sum=sum).block_until_ready()
print(json.dumps({"peak": peak(), "before": before}))
"""


def measure(quick: bool = False) -> dict:
    rows = []
    cases = [("NUFFT", 2, n) for n in (10**5, 10**6, 10**7)]
    cases += [("NUFFT", 3, n) for n in (10**5, 10**6)]
    cases += [(name, 2, n) for name in ("dense", "PyTorch SDPA") for n in (10**4, 3 * 10**4)]
    for name, dim, count in cases:
        if quick and count > 10**6:
            continue
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, name, str(dim), str(count)],
            capture_output=True,
            text=True,
            check=True,
        )
        rows.append({"method": name, "d": dim, "n": count, **json.loads(done.stdout)})
    largest = max((r for r in rows if r["d"] == 2), key=lambda r: r["n"])
    summary = [f"circle, n = {largest['n']}: {largest['peak'] / 1e9:.2f} GB in all"]
    return {"rows": rows, "summary": summary}


def draw(result: dict, path) -> None:
    panels = {
        f"d = {dim}": [
            r | {"x": r["n"], "y": r["peak"] / 1e9} for r in result["rows"] if r["d"] == dim
        ]
        for dim in (2, 3)
    }
    figures.lines(
        panels, path, "Memory of a process that evaluates one field", "tokens n", "peak GB",
        result["machine"],
    )  # fmt: skip
