"""Teacher and student against the published loops, transliterated to NumPy, side by side.

β learning: N = 300, d = 164, d_k = 66, 80 iterations. All matrices: d = 64, d_k = 36, batches of 32
and of 1, seconds per epoch over 225 pairs. And all optimisers for the time that SGD takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optax
from tests.learn import listing
from threadpoolctl import threadpool_limits

from benchmarks import timing
from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.experiments import optimizer_method
from metastable.learn.gaussian.matrices import Epochs, gauge_error, matrix_loss
from metastable.learn.gaussian.scalar import descend, gradient_descent, scalar_loss
from metastable.learn.gaussian.teacher import (
    Dataset,
    TruncatedLayer,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.learn.training import Gradient, train

LAYER = TruncatedLayer(step=0.1)
PRECISIONS = ("double", "single")


def measure(quick: bool = False) -> dict:
    beta = _beta(*((40, 48, 20, 20) if quick else (300, 164, 66, 80)))
    lesson = (64, 32, 18) if quick else (300, 64, 36)
    epoch = {f"batches of {size}": _epoch(*lesson, size) for size in (32, 1)}
    race = _race(*((64, 32, 18, 40) if quick else (300, 64, 36, 500)))
    return {"beta": beta, "epoch": epoch, "race": race, "summary": _summary(beta, epoch, race)}


def _beta(samples: int, dim: int, key_dim: int, steps: int) -> dict:
    """The same iterates from one pass over the data, from the loops, and from hoisted loops."""
    teacher = random_matrices(dim, key_dim, 1)
    data, _ = split(teach(LAYER, teacher, random_covariances(samples, dim, 2)), seed=1)
    w, v, q, k = map(np.asarray, teacher)
    alpha, rate = LAYER.step / np.sqrt(key_dim), 0.11
    printed = (w @ v, q, k, data.inputs, data.targets, alpha, rate, steps)
    update = gradient_descent(rate)
    ours = {"one pass": lambda: descend(scalar_loss(LAYER, teacher, data), update, steps).betas}
    before = timing.race(ours, rounds=4)
    (published, _), slow = _clock(lambda: listing.beta_batch(*printed))
    hoisted, faster = _clock(lambda: listing.beta_batch_hoisted(*printed))
    after = timing.race(
        ours, rounds=4
    )  # on both sides of the long loops: other work may come or go
    fast = min(before["one pass"], after["one pass"])
    found = ours["one pass"]()
    return {
        "seconds": {"one pass": fast, "NumPy, F hoisted": faster, "NumPy, as published": slow},
        "beta": float(published[-1]),
        "largest_difference": float(np.abs(found - published).max()),
        "hoisted_difference": float(np.abs(hoisted - published).max()),
        "ratio": slow / fast,
        "ratio_hoisted": faster / fast,
    }


def _clock(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return run(), time.perf_counter() - began


def _epoch(samples: int, dim: int, key_dim: int, size: int) -> dict:
    """One epoch of SGD over all four matrices: NumPy with its best number of threads, and ours.

    The published loop multiplies matrices too small for OpenBLAS to split: it keeps one core busy,
    ours all of them, and other work on the machine slows the two differently. CPU seconds, summed
    over cores, hardly depend on that. `cores_had` is CPU over wall seconds: the ratio by the clock
    holds where it is near 1 for NumPy and near the number of cores for ours.
    """
    _, student, data, _ = _lesson(samples, dim, key_dim)
    method, epochs = Epochs(Gradient(matrix_loss(LAYER), optax.sgd(0.1)), size), 8

    @jax.jit
    def ours(parameters, data):
        state = method.init(parameters, data)
        step = lambda _, carry: method.step(carry[0], carry[1], data)[:2]
        return jax.lax.fori_loop(0, epochs, step, (parameters, state))[0]

    printed = (student, data.inputs, data.targets, LAYER.step / np.sqrt(key_dim), 0.1, size)

    def published(threads):
        with threadpool_limits(threads, "blas"):
            listing.matrix_epochs(*printed, 1)

    single = jax.tree.map(lambda x: np.asarray(x, np.float32), data)
    fed = dict(zip(PRECISIONS, (data, single), strict=True))
    runs = {name: lambda one=one: ours(student, one) for name, one in fed.items()}
    peers = {f"NumPy on {n} thread{'s' * (n > 1)}": lambda n=n: published(n) for n in (1, 2)}
    squares = {name: jnp.ones((1024, 1024), one.inputs.dtype) for name, one in fed.items()}
    product = jax.jit(lambda x: x @ x)
    peaks = {f"product, {name}": lambda x=x: product(x) for name, x in squares.items()}
    clocks = _clocks(runs | peers | peaks)
    seconds = {name: s / (epochs if name in runs else 1) for name, s in clocks["wall"].items()}
    busy = {name: s / (epochs if name in runs else 1) for name, s in clocks["cpu"].items()}
    best = min(peers, key=lambda name: seconds[name])
    expected, _ = listing.matrix_epochs(*printed, epochs, repaired=True)
    work = _operations(len(data.inputs), dim, key_dim, size)
    cores = len(os.sched_getaffinity(0))
    told = {"peer": best, "operations": work, "seconds": seconds, "cpu_seconds": busy}
    told["cores_had"] = {name: busy[name] / seconds[name] for name in seconds}
    for name, run in runs.items():
        peak = cores * 2 * 1024**3 / busy[f"product, {name}"]
        told[name] = {
            "ratio": seconds[best] / seconds[name],
            "ratio_cpu": busy[best] / busy[name],
            "peak": peak,
            "bound": busy[best] * peak / work,
            "share_of_peak": work / seconds[name] / peak,
            "difference": max(
                float(np.abs(np.asarray(a) - b).max()) for a, b in zip(run(), expected, strict=True)
            ),
        }
    return told


def _operations(pairs: int, dim: int, key_dim: int, size: int) -> float:
    """Additions and multiplications of an epoch in the cheaper order of products, d_v = d."""
    full, rest = divmod(pairs, size)
    square = dim**2 * key_dim
    cheaper = lambda n: min(26 * n * square, 20 * n * square + 6 * dim**3)
    return float(full * cheaper(size) + cheaper(rest))


def _clocks(runs: dict[str, Callable[[], Any]], rounds: int = 40, budget: float = 25.0) -> dict:
    """Best wall and CPU seconds of each over interleaved rounds.

    The runs should last about equally long: the minimum over a busy machine favours short ones.
    """
    for run in runs.values():
        jax.block_until_ready(run())
    best = {clock: dict.fromkeys(runs, float("inf")) for clock in ("wall", "cpu")}
    began = time.perf_counter()
    for _ in range(rounds):
        for name, run in runs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            jax.block_until_ready(run())
            spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            for clock, value in spent.items():
                best[clock][name] = min(best[clock][name], value)
        if time.perf_counter() - began > budget:
            break
    return best


def _race(samples: int, dim: int, key_dim: int, epochs: int) -> dict:
    """SGD for all its epochs, then each other optimiser for as long."""
    teacher, student, data, held = _lesson(samples, dim, key_dim)
    count = len(data.inputs)
    results, limit = {}, None
    for name in ("sgd", "adam", "levenberg"):
        # Adam's rate fades out over the epochs that fit: it has fewer, its steps being dearer.
        planned = epochs if name != "adam" else int(0.7 * epochs)
        run = train(
            student,
            optimizer_method(name, LAYER, planned, 32, count),
            data,
            steps=planned,
            validation=held,
            every=1 if name == "levenberg" else 5,
            seconds=limit,
        )
        limit = limit or float(run.seconds[-1])
        met = run.losses
        results[name] = {
            "seconds": run.seconds.tolist(),
            "validation": run.validation.tolist(),
            "epochs": int(met.size),
            "fell_by": float(met[0] / met[-1]),
            "outcome": run.outcome.name,
            "gauge_error": gauge_error(run.parameters, teacher)._asdict(),
        }
    return results


def _lesson(samples: int, dim: int, key_dim: int) -> tuple:
    teacher, student = (random_matrices(dim, key_dim, seed) for seed in (1, 2))
    data, held = split(teach(LAYER, teacher, random_covariances(samples, dim, 3)), seed=1)
    return teacher, student, Dataset(*data), held


def _summary(beta: dict, epoch: dict, race: dict) -> list[str]:
    last = {name: one["validation"][-1] for name, one in race.items()}
    best = min(last, key=lambda name: last[name])
    return [
        f"learning β: {beta['ratio']:.0f} times as fast as the published loop, "
        f"{beta['ratio_hoisted']:.1f} times as fast as with F hoisted; largest difference of an "
        f"iterate {beta['largest_difference']:.1e}; β = {beta['beta']:.3f}",
        *[_told(batches, name, one) for batches, one in epoch.items() for name in PRECISIONS],
        f"SGD, {race['sgd']['epochs']} epochs: the loss fell by {race['sgd']['fell_by']:.1f}",
        f"in the time of SGD: {best} ends {last['sgd'] / last[best]:.0f} times lower; "
        + ", ".join(f"{name} {loss:.2e}" for name, loss in last.items()),
        f"error of WV and KᵀQ up to gauge with {best}: "
        f"{race[best]['gauge_error']['value']:.1e}, {race[best]['gauge_error']['score']:.1e}",
    ]


def _told(batches: str, name: str, epoch: dict) -> str:
    ours, had = epoch[name], epoch["cores_had"]
    clock = f"{ours['ratio']:.1f} by the clock"
    if had[epoch["peer"]] < 0.85:  # its core was not free
        clock = f"by the clock unknown, since NumPy had {had[epoch['peer']]:.2f} of a core"
    return (
        f"an epoch over all matrices in {batches}, gradients in {name} precision: "
        f"{ours['ratio_cpu']:.1f} times as fast as {epoch['peer']} in CPU time, {clock} (cores had "
        f"{had[name]:.1f}); large products on free cores would take it to {ours['bound']:.1f}; the "
        f"matrices differ by {ours['difference']:.1e} after 8 epochs"
    )


def draw(result: dict, path: Path) -> None:
    from metastable import report

    race = {name: (run["seconds"], run["validation"]) for name, run in result["race"].items()}
    axes = "seconds in steps", "validation loss"
    figure = report.plot_lines(race, *axes, result["machine"], log="y", lines=True, size=(5.2, 3.4))
    report.draw(figure).savefig(path, dpi=160, facecolor="white")
