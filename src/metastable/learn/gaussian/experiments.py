"""The published teacher–student experiments: β of one layer, of several, and all four matrices.

The defaults of their specs are those of E. Ponti's thesis, Pisa 2025, section 3.3.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.result import Answer
from metastable.learn.curves import Curves, losses, make_answer
from metastable.learn.gaussian.landscape import flattest, stand
from metastable.learn.gaussian.matrices import Epochs, gauge_error, matrix_loss, matrix_residuals
from metastable.learn.gaussian.scalar import (
    descend,
    gauss_newton,
    gradient_descent,
    newton,
    scalar_loss,
    stochastic_descent,
)
from metastable.learn.gaussian.teacher import (
    Dataset,
    ExactLayer,
    GaussianLayer,
    Matrices,
    TruncatedLayer,
    loss_and_slope,
    random_covariances,
    random_matrices,
    split,
    teach,
)
from metastable.learn.spec import GaussianBeta, GaussianDepth, GaussianMatrices, TeacherStudent
from metastable.learn.training import Gradient, LeastSquares, Training, adam, file_in, last, train

PUBLISHED = TruncatedLayer(step=0.1)


def learn_beta(
    spec: GaussianBeta, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `GaussianBeta`. With the defaults β is 0.750 after 80 steps, 0.987 after 250."""
    began = time.perf_counter()
    steps = spec.steps
    layer, teacher, data, held = _problem(spec)
    loss, validation = (scalar_loss(layer, teacher, part) for part in (data, held))
    ways = {
        "batch gradient": gradient_descent(spec.rate),
        "stochastic gradient": stochastic_descent(spec.rate, spec.seed),
        "Newton": newton(),
        "Gauss–Newton": gauss_newton(),
    }
    paths = {name: descend(loss, way, steps) for name, way in ways.items()}
    betas = {name: float(path.betas[-1]) for name, path in paths.items()}
    facts = _setting(spec) | {
        "rate": spec.rate,
        "rate·ε²": spec.rate * layer.step**2,
        "steps": steps,
        "β": betas,
        "steps to 1e-12": {name: _steps_to(path.betas, 1e-12) for name, path in paths.items()},
        "validation loss": {name: float(validation(beta)) for name, beta in betas.items()},
        "seconds": time.perf_counter() - began,
    }
    counted = np.arange(steps + 1)
    met = {name: (counted[1:], path.losses) for name, path in paths.items()}
    away = {name: (counted, np.abs(path.betas - 1)) for name, path in paths.items()}
    caption = "Training loss of four ways to find β; the stochastic one shows the loss of the "
    caption += "sample it drew."
    figures = {
        "loss": Curves("iteration", "mean squared error (train)", met, caption=caption),
        "beta": Curves("iteration", "|β − 1|", away, caption="Distance of β from the teacher's."),
    }
    reached = ", ".join(f"{beta:.6g} by {name}" for name, beta in betas.items())
    sentence = f"β of one layer, 1 in truth, after {steps} steps: {reached}."
    return make_answer(sentence, facts, figures, _done(steps))


def learn_depth(
    spec: GaussianDepth, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `GaussianDepth`."""
    began = time.perf_counter()
    depth, steps = spec.depth, spec.steps
    layer, teacher, data, held = _problem(spec, depth)
    loss = scalar_loss(layer, teacher, data, depth)
    curvature = float(jax.hessian(loss)(jnp.asarray(1.0)))
    rate = 0.2 * 2.0 / curvature if spec.rate is None else spec.rate
    path = descend(loss, gradient_descent(rate), steps)
    beta = float(path.betas[-1])
    facts = _setting(spec) | {
        "layers": depth,
        "rate": rate,
        "L″(1)": curvature,
        "steps": steps,
        "β": beta,
        "polynomials": int(loss.total.shape[0]),
        "first loss": float(path.losses[0]),
        "last loss": float(path.losses[-1]),
        "validation loss": float(loss_and_slope(layer, teacher, held, depth, path.betas[-1])[0]),
        "seconds": time.perf_counter() - began,
    }
    lines = {f"{depth} layers, ε = {layer.step:g}": (np.arange(1, steps + 1), path.losses)}
    caption = f"Batch gradient descent through {depth} layers."
    figures = {"loss": Curves("iteration", "mean squared error (train)", lines, caption=caption)}
    sentence = f"β of {depth} layers, 1 in truth, after {steps} steps of descent: {beta:.6g}."
    return make_answer(sentence, facts, figures, _done(steps))


def learn_matrices(
    spec: GaussianMatrices, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `GaussianMatrices`."""
    optimizer, epochs = spec.optimizer, spec.epochs
    layer, teacher, data, held = _problem(spec, drawn=2)
    student = random_matrices(spec.dim, spec.key_dim, spec.seed + 1)
    fed = jax.tree.map(lambda x: np.asarray(x, np.float32), data) if spec.single else data
    count = len(data.inputs)
    size = count if optimizer == "levenberg" else min(spec.batch, count)
    method = optimizer_method(optimizer, layer, epochs, size, count, spec.rate)

    def run(steps: int, file: Path | None = None) -> Training:
        options: dict[str, Any] = {"every": max(1, epochs // 100), "patience": spec.patience}
        options |= {"checkpoint": file, "progress": progress, "validation": held}
        title = f"{optimizer}, {steps} epochs"
        return train(student, method, fed, steps=steps, title=title, **options)

    training = run(epochs, file_in(checkpoint, "training"))
    met = training.losses
    error = gauge_error(training.parameters, teacher)
    facts = _setting(spec) | {
        "optimizer": optimizer,
        "batch": size,
        "gradients": f"{'single' if spec.single else 'double'} precision",
        "epochs": int(met.size),
        "first epoch's loss": last(met, 0),
        "last epoch's loss": last(met),
        "fell by": last(met[:1] / met[-1:]),
        "validation loss": last(training.validation),
        "error of WV, of KᵀQ, of both": error._asdict(),
        "seconds in steps": last(training.seconds),
    }
    if spec.landscape and training.outcome.name in ("done", "early_stop"):
        window = max(1, met.size // 25)
        plateau = flattest(met, window) if met.size > window else met.size
        here = {f"epoch {plateau}": run(plateau).parameters} if plateau < met.size else {}
        for name, parameters in (here | {f"epoch {met.size}": training.parameters}).items():
            facts[f"landscape at {name}"] = _standing(layer, parameters, data)
    caption = f"Learning W, V, Q and K with {optimizer}, batches of {size}."
    figure = losses(training, caption, "mean squared error", "epoch")
    sentence = (
        f"W, V, Q and K after {met.size} epochs of {optimizer}: the student is {error.product:.3g} "
        "away from its teacher, relative to it."
    )
    return make_answer(sentence, facts, {"loss": figure}, training.outcome)


def optimizer_method(
    optimizer: str, layer: GaussianLayer, epochs: int, size: int, count: int, rate: Any = None
) -> Any:
    """A named optimizer of the loss of `matrices.py`: its steps are epochs over `count` pairs.

    Batches have `size` pairs, but "levenberg" always takes all of them.
    """
    if optimizer == "levenberg":
        import lineax
        import optimistix

        # Matrix-free, since the Jacobian would fill gigabytes; a loose inner solve is enough while
        # the damping is strong, and twenty inner steps bound its cost when it is not.
        inner = lineax.Normal(lineax.CG(rtol=1e-2, atol=1e-16, max_steps=20))
        solver = optimistix.LevenbergMarquardt(rtol=1e-10, atol=1e-12, linear_solver=inner)
        return LeastSquares(matrix_residuals(layer), solver)
    import optax

    loss = matrix_loss(layer)
    if optimizer == "sgd":
        return Epochs(Gradient(loss, optax.sgd(rate or 0.1)), size)
    return Epochs(adam(loss, rate or 1e-2, epochs * -(-count // size)), size)


def _problem(
    spec: TeacherStudent, depth: int = 1, drawn: int = 1
) -> tuple[GaussianLayer, Matrices, Dataset, Dataset]:
    """Layer, teacher, training and validation pairs; covariances from the seed plus `drawn`."""
    layer = (ExactLayer if spec.exact else TruncatedLayer)(spec.step)
    teacher = random_matrices(spec.dim, spec.key_dim, spec.seed)
    covariances = random_covariances(spec.samples, spec.dim, spec.seed + drawn)
    pairs = teach(layer, teacher, covariances, depth=depth)
    return layer, teacher, *split(pairs, seed=spec.seed)


def _setting(spec: TeacherStudent) -> dict[str, Any]:
    return {
        "layer": f"{'exact' if spec.exact else 'truncated'}, ε = {spec.step:g}",
        "dimension d": spec.dim,
        "d_k": spec.key_dim,
        "samples": f"{spec.samples} (75 % training), Σ = GGᵀ/√d",
        "seed": spec.seed,
    }


def _standing(layer: GaussianLayer, parameters: Any, data: Any) -> dict[str, Any]:
    place = stand(matrix_loss(layer), parameters, data)
    return {
        "verdict": place.verdict,
        "gradient": place.gradient,
        "gain": place.gain,
        "gauge bend": place.bend,
        "lowest eigenvalue": float(place.eigenvalues[0]),
        "highest eigenvalue": float(place.eigenvalues[-1]),
    }


def _steps_to(betas: np.ndarray, tolerance: float) -> int | None:
    near = np.abs(betas - 1) <= tolerance
    return int(np.argmax(near)) if near.any() else None


def _done(steps: int) -> Outcome:
    return Outcome("done", f"All {steps} steps were taken.")
