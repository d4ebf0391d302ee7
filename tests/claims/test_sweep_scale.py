"""What the engine costs: overhead per cell, large stores, and the published resolution."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from metastable.sweep import execute
from metastable.sweep.spec import Sweep
from metastable.sweep.status import open_sweep
from tests.sweep.driver import numbers

pytestmark = pytest.mark.claim
ROOT = Path(__file__).parents[2]


def grid(first, second, observables=("last_clusters",)):
    return Sweep.model_validate(
        {
            "observables": observables,
            "axes": {
                "field.beta": {"from": 0.0, "to": 9.0, "count": first},
                "flow.horizon": {"from": 1.0, "to": 9.0, "count": second},
            },
            "base": {"measure": {"tokens": 8}},
        }
    )


@pytest.fixture
def empty(monkeypatch):
    from metastable.core.outcome import Outcome
    from metastable.sweep.cells import Computed

    nothing = lambda recipe, cells: [
        Computed(cell.index, Outcome.done(), numbers(recipe, cell)) for cell in cells
    ]
    monkeypatch.setattr(execute, "compute", nothing)


def test_overhead_of_ten_thousand_empty_cells(tmp_path, empty):
    began = time.perf_counter()
    assert execute.run_sweep(grid(100, 100), tmp_path / "s").done == 10_000
    each = (time.perf_counter() - began) / 10_000
    print(f"{1e3 * each:.3f} ms a cell")
    assert each <= 5e-3


def test_a_store_of_a_hundred_thousand_cells_opens_at_once(tmp_path, empty):
    execute.run_sweep(grid(400, 250), tmp_path / "s")
    began = time.perf_counter()
    data = xarray.open_zarr(tmp_path / "s" / "data.zarr")
    assert bool(data["done"].all())
    opened = time.perf_counter() - began
    began = time.perf_counter()
    again = execute.run_sweep(grid(400, 250), tmp_path / "s")
    checked = time.perf_counter() - began
    print(f"opened in {opened:.3f} s; every cell checked in {checked:.2f} s")
    assert opened < 2.0 and again.skipped == 100_000


def test_the_published_diagram_runs_in_one_command_and_little_memory(tmp_path):
    """n = 32, d = 2, 90 β, 2048 samples, 200 times after the start."""
    spec = ROOT / "experiments" / "phase_circle.toml"
    command = [sys.executable, "-m", "metastable.cli", "sweep", spec, "--out", tmp_path / "s"]
    # A child begins with the peak of its parent, so that a small process stands between: this one
    # may have grown large in other tests.
    between = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", between, *map(str, command)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seconds = time.perf_counter() - began
    peak = int(done.stdout) / 1024
    print(f"{seconds:.0f} s, at most {peak:.0f} MiB")
    data = open_sweep(tmp_path / "s")["pair_probability"].isel(repetition=0).values
    assert data.shape == (90, 201) and np.isfinite(data).all() and peak < 2000
    # Independent uniform pairs start at P(cos φ ≥ 0.999) = arccos(0.999)/π.
    assert data[:, 0].mean() == pytest.approx(np.arccos(0.999) / np.pi, abs=3e-3)
    assert data[0, -1] > 0.95 and data[-1, -1] < 0.5
