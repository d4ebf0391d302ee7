"""Teacher and student against the published loops, transliterated to NumPy, side by side.

β learning: N = 300, d = 164, d_k = 66, 80 iterations. All matrices: d = 64, d_k = 36, mini-batches
of 32, seconds per epoch over 225 pairs. And all optimisers for the time that SGD takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optax
from tests.learn import listing

from benchmarks import timing
from metastable.learn.lessons import optimiser_method
from metastable.learn.matrices import epoch_losses, gauge_error, matrix_loss, minibatches
from metastable.learn.scalar import descend, gradient_descent, scalar_loss
from metastable.learn.teacher import (
    Dataset,
    TruncatedLayer,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.learn.training import Gradient, train
from metastable.numerics import jax

LAYER = TruncatedLayer(step=0.1)


def measure(quick: bool = False) -> dict:
    beta = _beta(*((40, 48, 20, 20) if quick else (300, 164, 66, 80)))
    epoch = _epoch(*((64, 32, 18) if quick else (300, 64, 36)))
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


def _epoch(samples: int, dim: int, key_dim: int) -> dict:
    """One epoch of SGD over all four matrices, in double and in single precision."""
    _, student, data, _ = _lesson(samples, dim, key_dim)
    count, size, epochs = len(data.inputs), 32, 4
    method = Gradient(matrix_loss(LAYER), optax.sgd(0.1))
    draw, blocks = minibatches(size), -(-count // size)

    @jax.jit
    def ours(parameters, data):
        state = method.init(parameters, data)

        def one(k, carry):
            return method.step(*carry, draw(data, None, k))[:2]

        return jax.lax.fori_loop(0, epochs * blocks, one, (parameters, state))[0]

    single = jax.tree.map(lambda x: np.asarray(x, np.float32), (student, data))
    alpha = LAYER.step / np.sqrt(key_dim)
    printed = (student, data.inputs, data.targets, alpha, 0.1, size)
    runs = {
        "double precision": lambda: ours(student, data),
        "single precision": lambda: ours(*single),
        "NumPy, as published": lambda: listing.matrix_epochs(*printed, epochs)[0],
    }
    seconds = {name: s / epochs for name, s in timing.race(runs, rounds=8, budget=60.0).items()}
    expected, _ = listing.matrix_epochs(*printed, epochs, repaired=True)
    found = {name: runs[name]() for name in ("double precision", "single precision")}
    largest = {
        name: max(
            float(np.abs(np.asarray(a) - b).max()) for a, b in zip(got, expected, strict=True)
        )
        for name, got in found.items()
    }
    slow = seconds["NumPy, as published"]
    ratios = {name: slow / seconds[name] for name in found}
    return {"seconds": seconds, "ratios": ratios, "difference_from_repaired": largest}


def _race(samples: int, dim: int, key_dim: int, epochs: int) -> dict:
    """SGD for all its epochs, then each other optimiser for as long."""
    teacher, student, data, held = _lesson(samples, dim, key_dim)
    count = len(data.inputs)
    results, limit = {}, None
    for name in ("sgd", "adam", "levenberg"):
        size = count if name == "levenberg" else 32
        blocks = -(-count // size)
        # Adam's rate fades out over the epochs that fit: it has fewer, its steps being dearer.
        planned = epochs if name != "adam" else int(0.7 * epochs)
        run = train(
            student,
            optimiser_method(name, LAYER, planned * blocks),
            data,
            steps=planned * blocks,
            draw=minibatches(size),
            validation=held,
            every=blocks if name == "levenberg" else 5 * blocks,
            seconds=limit,
        )
        limit = limit or float(run.seconds[-1])
        met = epoch_losses(run, count, size)
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
        "an epoch over all matrices: "
        + ", ".join(
            f"{ratio:.1f} times as fast in {name} (difference {d:.1e})"
            for (name, ratio), d in zip(
                epoch["ratios"].items(), epoch["difference_from_repaired"].values(), strict=True
            )
        ),
        f"SGD, {race['sgd']['epochs']} epochs: the loss fell by {race['sgd']['fell_by']:.1f}",
        f"in the time of SGD: {best} ends {last['sgd'] / last[best]:.0f} times lower; "
        + ", ".join(f"{name} {loss:.2e}" for name, loss in last.items()),
        f"error of WV and KᵀQ up to gauge with {best}: "
        f"{race[best]['gauge_error']['value']:.1e}, {race[best]['gauge_error']['score']:.1e}",
    ]


def draw(result: dict, path: Path) -> None:
    from metastable.report.style import CATEGORIES, legend, new_figure

    figure, ax = new_figure(size=(5.2, 3.4))
    for (name, one), colour in zip(result["race"].items(), CATEGORIES, strict=False):
        ax.semilogy(one["seconds"], one["validation"], color=colour, lw=1.5, label=name)
    ax.set(xlabel="seconds in steps", ylabel="validation loss")
    ax.set_title(result["machine"], fontsize=7)
    legend(ax, loc="lower left")
    figure.savefig(path, dpi=160, facecolor="white")
