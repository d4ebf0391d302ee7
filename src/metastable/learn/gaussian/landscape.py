"""Where a training stands: gradient and Hessian spectrum tell a saddle from a minimum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from metastable.core.numerics import jax, jnp

DENSE = 1500  # parameters up to which the whole spectrum is computed
FLAT = 1e-6  # an eigenvalue below this share of the largest is flat
STILL = 1e-6  # a gradient step that gains less than this share of the loss goes nowhere
ROUNDING = 1e-20  # a loss below this share of λ_max‖θ‖² is rounding, and so is its gradient


@dataclasses.dataclass(frozen=True)
class Standing:
    """What the loss looks like around some parameters.

    - `gradient`: norm of the gradient; `gain`: ‖g‖²/(2λ_max L), the share of the loss that the best
      safe gradient step removes (0 to rounding where the fit is perfect).
    - `eigenvalues`: of the Hessian, increasing: all of them, or both ends where there are many
      parameters (`complete` says which).
    - `bend`: ‖g‖/‖θ‖. Where parameters can be changed without changing the loss (a gauge), the
      Hessian has eigenvalues of either sign and about this size that mean nothing.
    - `verdict`: "saddle" where the loss curves down in some direction by more than twice that,
      "slope" where it does not but gradient steps still gain, "minimum" where neither holds.
    """

    loss: float
    gradient: float
    gain: float
    bend: float
    eigenvalues: np.ndarray
    complete: bool

    @property
    def flat(self) -> int:
        """How many of `eigenvalues` are 0 to 1e−6 of the largest: gauge directions are."""
        return int(np.sum(np.abs(self.eigenvalues) <= FLAT * self.eigenvalues[-1]))

    @property
    def descending(self) -> int:
        """How many of `eigenvalues` are negative beyond that, and beyond twice `bend`."""
        return int(np.sum(self.eigenvalues < -max(FLAT * self.eigenvalues[-1], 2 * self.bend)))

    @property
    def verdict(self) -> str:
        if self.descending:
            return "saddle"
        return "slope" if self.gain > STILL else "minimum"


def stand(loss: Callable[[Any, Any], Any], parameters: Any, data: Any, ends: int = 4) -> Standing:
    """Gradient norm and Hessian spectrum of `loss(parameters, data)`.

    Up to 1500 parameters the Hessian is formed; beyond, Lanczos finds its `ends` lowest and highest
    eigenvalues from Hessian-vector products, each about the cost of two gradients.
    """
    flat, restore = ravel_pytree(parameters)
    function = lambda x, data: loss(restore(x), data)
    value, gradient = jax.jit(jax.value_and_grad(function))(flat, data)
    product = jax.jit(
        lambda x, data, v: jax.jvp(lambda y: jax.grad(function)(y, data), (x,), (v,))[1]
    )
    if flat.size <= DENSE:
        columns = jax.jit(jax.vmap(product, (None, None, 0)))(flat, data, jnp.eye(flat.size))
        eigenvalues = np.linalg.eigvalsh((columns + columns.T) / 2)
    else:
        matvec = lambda v: np.asarray(product(flat, data, np.ravel(v)))
        shape = (flat.size, flat.size)
        operator = LinearOperator(shape, matvec, dtype=float)  # pyright: ignore[reportCallIssue]
        eigenvalues = np.concatenate([_end(operator, ends, "SA"), _end(operator, ends, "LA")])
    norm = float(jnp.linalg.norm(gradient))
    highest = max(float(eigenvalues[-1]), 1e-300)
    least = max(ROUNDING * highest * float(flat @ flat), 1e-300)
    gain = norm**2 / (2 * highest * max(float(value), least))
    bend = norm / max(float(jnp.linalg.norm(flat)), 1e-300) if norm else 0.0
    return Standing(float(value), norm, gain, bend, np.asarray(eigenvalues), flat.size <= DENSE)


def _end(operator: LinearOperator, count: int, which: str) -> np.ndarray:
    # The lowest eigenvalues crowd around the flat directions, where Lanczos cannot part them; their
    # values are wanted to a percent of the spectrum, not their vectors.
    start = np.random.default_rng(0).standard_normal(operator.shape[0])
    how: Any = {"tol": 1e-3, "maxiter": 60, "ncv": 40, "v0": start}
    try:
        values = eigsh(operator, count, which=which, return_eigenvectors=False, **how)
    except ArpackNoConvergence as partial:
        values = partial.eigenvalues
        if not values.size:
            raise ValueError(
                f"the {which} end of the Hessian's spectrum did not converge; got nothing after "
                "60 restarts: reduce the data or the number of parameters."
            ) from None
    return np.sort(values)


def flattest(losses: np.ndarray, window: int) -> int:
    """Where a loss curve is most like a plateau: the end of the `window` with the least fall.

    >>> flattest(np.array([8.0, 4.0, 3.9, 3.8, 1.0, 0.5]), 2)
    3
    """
    logs = np.log(losses)
    return window + int(np.argmin(logs[:-window] - logs[window:]))
