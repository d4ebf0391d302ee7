"""A sweep in a process of its own, to be killed: records each cell before it is computed.

Run as `python driver.py SPEC.toml STORE RECORD [real]`. Without "real" a cell costs five
milliseconds and holds numbers that only its seed decides.
"""

import os
import signal
import sys
import time

import numpy as np

from metastable.core.outcome import Outcome
from metastable.sweep import execute
from metastable.sweep.cells import Computed, compute
from metastable.sweep.observables import ERROR
from metastable.sweep.spec import Sweep


def numbers(recipe, cell):
    frames = 1 if recipe.times is None else len(recipe.times)
    drawn = np.random.default_rng(cell.seed).normal(size=(len(recipe.names), frames))
    of_time = {one.name: one.per_time for one in recipe.observables}
    values = {
        name: row if of_time[name] else row[0]
        for name, row in zip(recipe.names, drawn, strict=True)
    }
    errors = {name + ERROR: abs(row) for name, row in values.items()}
    return values | errors if recipe.samples > 1 else values


def pretend(recipe, cells):
    time.sleep(0.005 * len(cells))
    return [Computed(cell.index, Outcome.done(), numbers(recipe, cell)) for cell in cells]


if __name__ == "__main__":
    # A suite started in the background hands on that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spec, store, record = sys.argv[1:4]
    inner = compute if "real" in sys.argv else pretend
    pages = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def recorded(recipe, cells):
        os.write(pages, "".join(f"{cell.index}\n" for cell in cells).encode())
        if inner is compute:
            time.sleep(0.1)  # long enough to be killed in the middle of
        return inner(recipe, cells)

    execute.compute = recorded
    execute.FLUSH = 0.02
    execute.BATCH = 4  # shorter tasks; the compiled batch, and so the bits, stay as they are
    print(execute.run_sweep(Sweep.load(spec), store).to_dict())
