"""The published teacher–student experiments, from data to curves.

The defaults are those of the published teacher–student experiments (E. Ponti's thesis, Pisa 2025,
section 3.3). It prints neither ε nor the rate nor the number of samples everywhere: for β only
rate·ε² can be read from its figures, about 1.1e−3, and ε = 0.1 with the rate 0.11 stands for it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.learn.gaussian.depth import loss_and_slope
from metastable.learn.gaussian.landscape import flattest, stand
from metastable.learn.gaussian.matrices import Epochs, gauge_error, matrix_loss, residuals
from metastable.learn.gaussian.scalar import (
    descend,
    gauss_newton,
    gradient_descent,
    newton,
    scalar_loss,
    stochastic_descent,
)
from metastable.learn.gaussian.teacher import (
    Layer,
    TruncatedLayer,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.learn.lesson import Curves, Lesson, at
from metastable.learn.training import Gradient, LeastSquares, Training, train

__all__ = [
    "OPTIMISERS",
    "PUBLISHED",
    "learn_beta",
    "learn_depth",
    "learn_matrices",
    "optimiser_method",
]

OPTIMISERS = ("sgd", "adam", "levenberg")
PUBLISHED = TruncatedLayer(step=0.1)


def learn_beta(
    layer: Layer = PUBLISHED,
    dim: int = 164,
    key_dim: int = 66,
    samples: int = 300,
    rate: float = 0.11,
    steps: int = 80,
    seed: int = 1,
) -> Lesson:
    """One layer, one unknown β* = 1: batch and stochastic gradient descent, Newton, Gauss–Newton.

    With the defaults β is 0.750 after 80 steps and 0.987 after 250.
    """
    began = time.perf_counter()
    teacher = random_matrices(dim, key_dim, seed)
    data, held = split(teach(layer, teacher, random_covariances(samples, dim, seed + 1)), seed=seed)
    loss, validation = (scalar_loss(layer, teacher, part) for part in (data, held))
    ways = {
        "batch gradient": gradient_descent(rate),
        "stochastic gradient": stochastic_descent(rate, seed),
        "Newton": newton(),
        "Gauss–Newton": gauss_newton(),
    }
    paths = {name: descend(loss, way, steps) for name, way in ways.items()}
    counted = np.arange(1, steps + 1)
    facts = _setting(layer, dim, key_dim, samples, seed) | {
        "rate": rate,
        "rate·ε²": rate * layer.step**2,
        "steps": steps,
        "β": {name: float(path.betas[-1]) for name, path in paths.items()},
        "steps to 1e-12": {name: _steps_to(path.betas, 1e-12) for name, path in paths.items()},
        "validation loss": {n: float(validation(p.betas[-1])) for n, p in paths.items()},
        "seconds": time.perf_counter() - began,
    }
    curves = {
        "loss": Curves(
            "iteration",
            "mean squared error (train)",
            {name: (counted, path.losses) for name, path in paths.items()},
            caption="Training loss of four ways to find β; the stochastic one shows the loss of "
            "the sample it drew.",
        ),
        "beta": Curves(
            "iteration",
            "|β − 1|",
            {n: (np.arange(steps + 1), np.abs(p.betas - 1)) for n, p in paths.items()},
            caption="Distance of β from the teacher's.",
        ),
    }
    return Lesson("β of one layer", facts, curves, _done(steps))


def learn_depth(
    layer: Layer = PUBLISHED,
    depth: int = 5,
    dim: int = 44,
    key_dim: int = 16,
    samples: int = 100,
    rate: float | None = None,
    steps: int = 3000,
    seed: int = 1,
) -> Lesson:
    """`depth` equal layers, one unknown β* = 1, batch gradient descent.

    The loss is steep, and differs by orders of magnitude between settings: without a `rate`, a
    fifth of 2/L″(1) is taken and told.
    """
    began = time.perf_counter()
    teacher = random_matrices(dim, key_dim, seed)
    covariances = random_covariances(samples, dim, seed + 1)
    data, held = split(teach(layer, teacher, covariances, depth=depth), seed=seed)
    loss = scalar_loss(layer, teacher, data, depth)
    curvature = float(jax.hessian(loss)(jnp.asarray(1.0)))
    rate = 0.2 * 2.0 / curvature if rate is None else rate
    path = descend(loss, gradient_descent(rate), steps)
    facts = _setting(layer, dim, key_dim, samples, seed) | {
        "layers": depth,
        "rate": rate,
        "L″(1)": curvature,
        "steps": steps,
        "β": float(path.betas[-1]),
        "polynomials": int(loss.total.shape[0]),
        "first loss": float(path.losses[0]),
        "last loss": float(path.losses[-1]),
        "validation loss": float(loss_and_slope(layer, teacher, held, depth, path.betas[-1])[0]),
        "seconds": time.perf_counter() - began,
    }
    lines = {f"{depth} layers, ε = {layer.step:g}": (np.arange(1, steps + 1), path.losses)}
    caption = f"Batch gradient descent through {depth} layers."
    curves = {"loss": Curves("iteration", "mean squared error (train)", lines, caption=caption)}
    return Lesson("β of several layers", facts, curves, _done(steps))


def learn_matrices(
    layer: Layer = PUBLISHED,
    dim: int = 64,
    key_dim: int = 36,
    samples: int = 300,
    optimiser: str = "sgd",
    rate: float | None = None,
    batch: int = 32,
    epochs: int = 500,
    seed: int = 1,
    single: bool = False,
    landscape: bool = False,
    patience: int | None = None,
    checkpoint: str | Path | None = None,
) -> Lesson:
    """All of W, V, Q, K from pairs of covariances, student and teacher drawn independently.

    - `optimiser`: "sgd" (rate 0.1), "adam" (rate 0.01, fading out) or "levenberg"
      (Levenberg–Marquardt on all pairs at once, where an epoch is one step).
    - `single`: gradients in single precision, matrices in double; about twice as fast.
    - `patience`: stop early after this many looks (a hundredth of the epochs each) without gain.
    - `landscape`: add gradient and Hessian spectrum at the flattest part of the curve and its end.
    """
    if optimiser not in OPTIMISERS:
        raise ValueError(
            f"optimiser must be one of {', '.join(OPTIMISERS)}; got {optimiser!r}: choose one."
        )
    teacher, student = (random_matrices(dim, key_dim, s) for s in (seed, seed + 1))
    covariances = random_covariances(samples, dim, seed + 2)
    data, held = split(teach(layer, teacher, covariances), seed=seed)
    fed = jax.tree.map(lambda x: np.asarray(x, np.float32), data) if single else data
    count = len(data.inputs)
    size = count if optimiser == "levenberg" else min(batch, count)
    method = optimiser_method(optimiser, layer, epochs, size, count, rate)

    every = max(1, epochs // 100)

    def run(epochs: int, file: Any = None) -> Training:
        return train(
            student,
            method,
            fed,
            steps=epochs,
            validation=held,
            every=every,
            patience=patience,
            checkpoint=file,
            title=f"{optimiser}, {epochs} epochs",
        )

    training = run(epochs, checkpoint)
    met = training.losses
    error = gauge_error(training.parameters, teacher)
    facts = _setting(layer, dim, key_dim, samples, seed) | {
        "optimiser": optimiser,
        "batch": size,
        "gradients": f"{'single' if single else 'double'} precision",
        "epochs": int(met.size),
        "first epoch's loss": at(met, 0),
        "last epoch's loss": at(met, -1),
        "fell by": at(met[:1] / met[-1:], 0),
        "validation loss": at(training.validation, -1),
        "error of WV, of KᵀQ, of both": error._asdict(),
        "seconds in steps": at(training.seconds, -1),
    }
    if landscape and training.outcome.name in ("done", "early_stop"):
        window = max(1, met.size // 25)
        plateau = flattest(met, window) if met.size > window else met.size
        here = {f"epoch {plateau}": run(plateau).parameters} if plateau < met.size else {}
        for name, parameters in (here | {f"epoch {met.size}": training.parameters}).items():
            facts[f"landscape at {name}"] = _standing(layer, parameters, data)
    curves = {
        "loss": Curves(
            "epoch",
            "mean squared error",
            {
                "training": (np.arange(1, met.size + 1), met),
                "validation": (training.checks, training.validation),
            },
            dict(zip(["last validation"], training.validation[-1:].tolist(), strict=False)),
            f"Learning W, V, Q and K with {optimiser}, batches of {size}.",
        )
    }
    return Lesson("all four matrices", facts, curves, training.outcome)


def optimiser_method(
    optimiser: str, layer: Layer, epochs: int, size: int, count: int, rate: float | None = None
) -> Any:
    """A named optimiser of the loss of `matrices.py`: its steps are epochs over `count` pairs.

    Batches have `size` pairs, but "levenberg" always takes all of them.
    """
    if optimiser == "levenberg":
        import lineax
        import optimistix

        # Matrix-free, since the Jacobian would fill gigabytes; a loose inner solve is enough while
        # the damping is strong, and twenty inner steps bound its cost when it is not.
        inner = lineax.Normal(lineax.CG(rtol=1e-2, atol=1e-16, max_steps=20))
        solver = optimistix.LevenbergMarquardt(rtol=1e-10, atol=1e-12, linear_solver=inner)
        return LeastSquares(residuals(layer), solver)
    import optax

    if optimiser == "sgd":
        rule = optax.sgd(0.1 if rate is None else rate)
    else:
        steps = epochs * -(-count // size)
        rule = optax.adam(optax.cosine_decay_schedule(1e-2 if rate is None else rate, steps))
    return Epochs(Gradient(matrix_loss(layer), rule), size)


def _setting(layer: Layer, dim: int, key_dim: int, samples: int, seed: int) -> dict[str, Any]:
    kind = "truncated" if isinstance(layer, TruncatedLayer) else "exact"
    return {
        "layer": f"{kind}, ε = {layer.step:g}",
        "dimension d": dim,
        "d_k": key_dim,
        "samples": f"{samples} (75 % training), Σ = GGᵀ/√d",
        "seed": seed,
    }


def _standing(layer: Layer, parameters: Any, data: Any) -> dict[str, Any]:
    found = stand(matrix_loss(layer), parameters, data)
    return {
        "verdict": found.verdict,
        "gradient": found.gradient,
        "gain": found.gain,
        "gauge bend": found.bend,
        "lowest eigenvalue": float(found.eigenvalues[0]),
        "highest eigenvalue": float(found.eigenvalues[-1]),
    }


def _steps_to(betas: np.ndarray, tolerance: float) -> int | None:
    near = np.abs(betas - 1) <= tolerance
    return int(np.argmax(near)) if near.any() else None


def _done(steps: int) -> Outcome:
    return Outcome("done", f"All {steps} steps were taken.")
