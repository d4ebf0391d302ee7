"""What a cell of a sweep costs beside its own work: in this process, and by a dask scheduler.

    python benchmarks/scheduler.py [--out FILE.json]

The cells are empty: they hold two numbers drawn from their seed. What is timed is planning,
sending, receiving and writing; one cell a task, as for cells that are not small.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
CELLS = 2000


def empty(recipe, cells):
    import numpy as np

    from metastable.core.outcome import Outcome
    from metastable.sweep.cells import Computed

    drawn = [np.random.default_rng(cell.seed).normal(size=len(recipe.names)) for cell in cells]
    values = [dict(zip(recipe.names, row, strict=True)) for row in drawn]
    return [
        Computed(cell.index, Outcome.done(), {name: np.asarray(v) for name, v in row.items()})
        for cell, row in zip(cells, values, strict=True)
    ]


def measure(cells: int = CELLS) -> dict:
    from distributed import LocalCluster

    from benchmarks import timing
    from metastable.sweep import execute

    execute.compute = empty
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows["in process"] = execute.run_sweep(_sweep(cells), folder / "own").cells_per_second
        began = time.perf_counter()
        execute.run_sweep(_sweep(cells), folder / "own")
        reopened = time.perf_counter() - began
        files = sum(path.is_file() for path in (folder / "own").rglob("*"))
        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
            address = cluster.scheduler_address
            execute.run_sweep(_sweep(20), folder / "warm", scheduler=address)
            done = execute.run_sweep(_sweep(cells), folder / "dask", scheduler=address)
        rows["dask, one worker"] = done.cells_per_second
    about = {"machine": timing.machine(), "load": os.getloadavg()[0], "cells": cells}
    return about | {"cells_per_second": rows, "reopened_seconds": reopened, "files": files}


def _sweep(cells: int):
    from metastable.sweep.spec import Sweep

    return Sweep.model_validate(
        {
            "observables": ["last_clusters", "late_order"],
            "axes": {"field.beta": {"from": 0.5, "to": 5.0, "count": cells}},
            "base": {"measure": {"tokens": 200}, "flow": {"horizon": 2.0, "frames": 3}},
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = json.dumps(measure(), indent=1)
    given.out.write_text(text + "\n") if given.out else print(text)
