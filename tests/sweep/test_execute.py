"""The engine: the same bits by every way, failures as data, kills and interrupts without loss."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

from metastable.cli import main
from metastable.flows.build import run_experiment
from metastable.observe import clusters, similarity
from metastable.sweep import cells, execute
from metastable.sweep.plan import plan_sweep
from metastable.sweep.spec import Sweep, experiment_with
from metastable.sweep.status import open_sweep, status
from metastable.sweep.store import Store
from metastable.sweep.watch import ascii_map
from tests.sweep.driver import pretend
from tests.sweep.stores import SMALL, contents, small

DRIVER = Path(__file__).with_name("driver.py")


def begin(spec, store, record, *more):
    return subprocess.Popen(
        [sys.executable, DRIVER, spec, store, record, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A small sweep, computed in this process."""
    folder = tmp_path_factory.mktemp("sweep") / "serial"
    return folder, execute.run_sweep(small(), folder)


def test_cells_hold_what_single_runs_give(computed):
    folder, summary = computed
    assert (summary.cells, summary.done, summary.failed, summary.left) == (20, 20, 0, 0)
    data = open_sweep(folder)
    cell = plan_sweep(small()).cell((3, 1, 1))
    own = {"measure.seed": cell.seed, "flow.seed": cell.seed}
    run = run_experiment(experiment_with(small().base, own | cell.overrides))
    here = data.isel(beta=3, tokens=1, repetition=1)
    alone = [similarity(frame).mean for frame in run.frames]
    # The batch takes its own adaptive steps, to the same tolerance of 1e−9.
    np.testing.assert_allclose(here["similarity"], alone, rtol=0, atol=1e-7)
    beta = float(data["beta"][3])
    assert float(here["last_clusters"]) == clusters(run.frames[-1], beta).count


def test_two_processes_give_the_same_bytes(tmp_path):
    # Two tasks, one for each process.
    sweep = small(axes={"field.beta": {"from": 0.5, "to": 5.0, "count": 9}})
    execute.run_sweep(sweep, tmp_path / "serial")
    assert execute.run_sweep(sweep, tmp_path / "pool", workers=2).done == 18
    assert contents(tmp_path / "pool") == contents(tmp_path / "serial")


def test_a_batch_has_the_same_bits_whatever_stands_beside():
    plan = plan_sweep(small())
    some = [plan.cell((k, 0, 0)) for k in range(5)]
    together = cells.compute(plan.recipe, some)
    alone = cells.compute(plan.recipe, some[2:3])[0]
    for name, values in alone.values.items():
        np.testing.assert_array_equal(values, together[2].values[name])


def test_every_cell_has_random_numbers_of_its_own():
    """Also where a case replaces the start; a seed that the spec sets is kept."""
    cases = {
        "uniform": {},
        "replaced": {"measure": {"kind": "uniform", "tokens": 4}},
        "fixed": {"measure": {"kind": "uniform", "tokens": 4, "seed": 7}},
    }
    plan = plan_sweep(small(axes={"start": cases, "measure.dim": [2, 3]}))
    seeds = {}
    for index in plan.indices():
        experiment = cells.experiment_of(plan.recipe, plan.cell(index))
        assert experiment.measure.dim == (2, 3)[index[1]]
        seeds.setdefault(index[0], set()).add(experiment.measure.seed)
    assert [len(seeds[k]) for k in range(3)] == [4, 4, 1] and seeds[2] == {7}


FAILING = {
    "observables": ["order"],
    "axes": {"field.value": [1.0, 30.0]},
    "base": {
        "measure": {"kind": "gaussian_points", "tokens": 3, "dim": 2},
        "flow": {"horizon": 100.0, "frames": 3},
    },
}


def test_failures_are_recorded_and_retried(tmp_path, monkeypatch):
    sweep = small(**FAILING, repetitions=1)
    summary = execute.run_sweep(sweep, tmp_path / "s")
    assert summary.failed >= 1 and summary.done + summary.failed == 2
    state = status(tmp_path / "s")
    why = state["failures"]["value=30.0, repetition=0"]
    assert why["outcome"] == "blow_up" and "Rescaled" in why["message"]
    again = execute.run_sweep(sweep, tmp_path / "s")
    assert (again.done, again.failed, again.skipped) == (0, 0, 2)
    monkeypatch.setattr(execute, "compute", pretend)
    retried = execute.run_sweep(sweep, tmp_path / "s", retry_failed=True)
    assert (retried.done, retried.failed) == (summary.failed, 0)
    assert status(tmp_path / "s")["failures"] == {}


def test_killed_at_any_instant_nothing_is_lost(tmp_path, monkeypatch):
    spec = tmp_path / "spec.toml"
    spec.write_text(SMALL.format(count=25, repetitions=4))  # 200 cells
    whole, store = tmp_path / "whole", tmp_path / "s"
    with monkeypatch.context() as patch:
        patch.setattr(execute, "compute", pretend)
        assert execute.run_sweep(Sweep.load(spec), whole).done == 200
    kept = set()
    for attempt in range(2):
        record = tmp_path / f"r{attempt + 1}"
        process = begin(spec, store, record)
        wanted = 40 * (attempt + 1)
        while process.poll() is None and len(_lines(record)) < wanted:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert not kept & _lines(record), "a cell was computed again after its done bit"
        kept |= _marked(store)
    last = begin(spec, store, tmp_path / "last")
    told = last.communicate()[0]
    assert last.returncode == 0, told
    assert not kept & _lines(tmp_path / "last")
    assert contents(store) == contents(whole)


def _lines(record):
    return set(record.read_text().splitlines()) if record.exists() else set()


def _marked(store):
    try:
        done = xarray.open_zarr(store / "data.zarr", chunks=None)["done"].values
    except (FileNotFoundError, KeyError):
        return set()
    return {str(tuple(index)) for index in np.argwhere(done).tolist()}


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    spec, record = tmp_path / "spec.toml", tmp_path / "record"
    spec.write_text(SMALL.format(count=100, repetitions=10))
    process = begin(spec, tmp_path / "s", record)
    while process.poll() is None and len(_lines(record)) < 100:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    told = process.communicate()[0]
    assert process.returncode == 0 and "'interrupted': True" in told, told
    done = len(_marked(tmp_path / "s"))
    assert 50 <= done < 2000 and f"'done': {done}," in told


def test_a_spent_budget_leaves_the_rest_for_later(tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "compute", pretend)
    short = small(count=50, budget={"seconds": 0.2})
    first = execute.run_sweep(short, tmp_path / "s")
    assert 0 < first.done < 200 and first.left == 200 - first.done
    second = execute.run_sweep(small(count=50), tmp_path / "s")
    assert second.done == first.left
    with pytest.raises(ValueError, match=r"budget.bytes must hold the store"):
        execute.run_sweep(small(budget={"bytes": 1000}), tmp_path / "small")


def test_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "spec.toml").write_text(SMALL.format(count=2, repetitions=1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execute, "compute", pretend)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metastable", "sweep", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    code, out, told = run("spec.toml", "--out", "s", "--json")
    assert code == 0, told
    summary = json.loads(out)
    promised = {"cells", "done", "failed", "skipped", "seconds", "cells_per_second", "store"}
    assert promised <= set(summary) and summary["done"] == summary["cells"] == 4
    assert "4 cells of 2 compiled shapes: about" in told
    state = json.loads(run("status", "s", "--json")[1])
    assert (state["done"], state["left"], state["failed"]) == (4, 0, 0)
    for words, complaint in (
        (["spec.toml"], "--out STORE"),
        (["status", "nowhere"], "STORE must be a sweep"),
        (["spec.toml", "--out", "s", "--workers", "2", "--scheduler", "x"], "choose one"),
        (["spec.toml", "--out", "s", "--workers", "-1"], "workers must be >= 0"),
    ):
        code, _, told = run(*words)
        assert code == 2 and complaint in told and told.count("\n") == 1, told


def test_the_map_so_far_is_drawn_in_letters(computed):
    folder, _ = computed
    with Store(folder, small()) as store:
        drawn = ascii_map(store)
    assert drawn.splitlines()[0].startswith("similarity from")
    assert "█" in drawn and "?" not in drawn


def test_samples_of_a_noisy_cell_are_the_mean_of_runs_with_their_own_seeds(tmp_path):
    sweep = Sweep.model_validate(
        {
            "observables": ["similarity"],
            "samples": 3,
            "axes": {"field.0.beta": [2.0]},
            "base": {
                "measure": {"tokens": 6, "dim": 3},
                "field": [{"kind": "self_attention"}, {"kind": "noise", "kappa": 5.0}],
                "flow": {
                    "horizon": 0.5,
                    "frames": 3,
                    "stepper": {"kind": "geodesic", "step": 0.05},
                },
            },
        }
    )
    execute.run_sweep(sweep, tmp_path / "s")
    kept = open_sweep(tmp_path / "s")["similarity"].isel(beta=0, repetition=0).values
    cell = plan_sweep(sweep).cell((0, 0))
    runs = []
    for sample in range(3):
        # Sample s draws from the seed of its cell plus s golden-ratio strides, modulo 2^63.
        seed = (cell.seed + sample * 0x9E3779B97F4A7C15) % 2**63
        own = {"measure.seed": seed, "flow.seed": seed} | cell.overrides
        run = run_experiment(experiment_with(sweep.base, own))
        runs.append([similarity(frame).mean for frame in run.frames])
    np.testing.assert_allclose(kept, np.mean(runs, axis=0), rtol=0, atol=1e-12)
    assert np.ptp(runs, axis=0).min() > 1e-3  # three starts and three noises, not one


def test_samples_of_an_ensemble_are_averaged(tmp_path):
    """From theory alone: uniform tokens at first, one cluster at last, as means over 64 samples.

    Two uniform tokens of S^{d−1} have a cosine of mean 0 and variance 1/d, pairs are uncorrelated,
    and E‖x̄‖² = 1/n; in the end every cosine, every probability and every order is 1.
    """
    tokens, dim, samples = 4, 16, 64
    sweep = Sweep.model_validate(
        {
            "observables": ["similarity", "pair_probability", "order"],
            "samples": samples,
            "axes": {"field.beta": [0.5]},
            "base": {
                "measure": {"tokens": tokens, "dim": dim},
                "flow": {"horizon": 40.0, "frames": 3},
            },
        }
    )
    execute.run_sweep(sweep, tmp_path / "s")
    kept = open_sweep(tmp_path / "s").isel(beta=0, repetition=0)
    deviation = (dim * samples * tokens * (tokens - 1) / 2) ** -0.5
    assert abs(float(kept["similarity"][0])) < 5 * deviation
    assert float(kept["pair_probability"][0]) == 0.0
    # The mean of ‖x̄‖ lies 0.006 below √E‖x̄‖² = 0.5, and 64 samples err by 0.01.
    assert float(kept["order"][0]) == pytest.approx(tokens**-0.5, abs=0.05)
    for name in ("similarity", "pair_probability", "order"):
        assert float(kept[name][-1]) == pytest.approx(1.0, abs=1e-5)
