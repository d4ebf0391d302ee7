"""Which sum to use: the cheapest that reaches the tolerance, by measured cost."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.circle import CircleSum
from metastable.fields.sums.costs import (
    causal_cost,
    dense_cost,
    gaussian_cost,
    harmonic_cost,
    nufft_cost,
)
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.gaussian import GaussianSum
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Kernel, Sum
from metastable.fields.sums.probe import kernels_of, kernels_of_basis, own_places
from metastable.fields.sums.sphere import SphereSum
from metastable.fields.sums.zonal import MAX_DEGREE, degree_for
from metastable.measures import Points

_EXACTNESS = 1.3  # how much cheaper a sum must be than the dense one, which is exact to rounding
_MOST_LOST = 40.0  # e^{−40} is below every tolerance a Gaussian sum can reach


def choose_sum(measure: Points, field: Any, tolerance: float = 1e-10) -> Sum:
    """The cheapest way to evaluate the field's means at a relative error near `tolerance`.

    Fast sums serve e^{β⟨x,y⟩} on the circle and S², causal or not (any value matrix, weights,
    several heads, added noise) and, on the sphere, query and key matrices with at most three axes
    as long as the norms they give do not cost too many digits (see `GaussianSum`). β must be known
    and constant in time. All else is summed densely. Without jax-finufft, and on a GPU, the
    harmonic sum takes the place of the non-uniform FFTs.

    >>> import metastable as ms
    >>> choose_sum(ms.uniform(tokens=64, dim=2), ms.SelfAttention(beta=9.0)).name
    'dense'
    >>> choose_sum(ms.uniform(tokens=5000, dim=2), ms.SelfAttention(beta=9.0)).name
    'harmonic, degree 23, tolerance 1e-11'
    """
    checks.positive("tolerance", tolerance)
    kernels, timed = kernels_of(measure, field)
    if not kernels or any(is_traced(kernel.beta) for kernel in kernels):
        return Dense()
    beta = max(float(kernel.beta) for kernel in kernels)
    if all(kernel.zonal for kernel in kernels) and measure.dim in (2, 3):
        return _zonal_choice(measure, beta, tolerance)
    if measure.on_sphere and not timed and not is_traced(measure, field):
        kernels = kernels_of_basis(measure, field)
        if kernels and all(map(_masked, kernels)) and measure.dim in (2, 3):
            return _causal_choice(measure, beta, tolerance)
        if len(kernels) == 1:
            return _gaussian_choice(measure, kernels[0], tolerance)
    return Dense()


def check_sum(sum: Sum, measure: Points, field: Any, sample: int = 64, seed: int = 0) -> float:
    """Relative error of the field with this sum, against the dense sum at a sample of tokens.

    max‖a_i − a_i^dense‖ / max‖a_i^dense‖ over `sample` tokens drawn without replacement, with a the
    field before projection to the sphere: velocities themselves vanish when tokens have clustered.
    """
    checks.integer("sample", sample, 1)
    rows = jnp.asarray(np.random.default_rng(seed).permutation(measure.count)[:sample])
    got = _drift(field, measure, sum)[rows]
    expected = _drift(field, measure, _DenseAt(sum, rows))[rows]
    largest = jnp.max(jnp.linalg.norm(expected, axis=1))
    return float(jnp.max(jnp.linalg.norm(got - expected, axis=1)) / largest)


@eqx.filter_jit
def _drift(field: Any, measure: Points, sum: Sum) -> Array:
    return field.drift(measure, own_places(measure), 0.0, sum)


def _zonal_choice(measure: Points, beta: float, tolerance: float) -> Sum:
    count, dim = measure.points.shape
    target = _attainable(tolerance * _share(beta, dim), measure)
    degree = _degree(beta, dim, target)
    costs: dict[Any, float] = {Dense: dense_cost(count, dim) / _EXACTNESS}
    if degree is not None:
        costs[HarmonicSum] = harmonic_cost(count, dim, degree)
        if _has_nufft():
            fast = CircleSum if dim == 2 else SphereSum
            costs[fast] = nufft_cost(count, dim, degree, target)
    best = min(costs, key=lambda kind: costs[kind])
    if best is Dense or degree is None:
        return Dense()
    return HarmonicSum(dim, degree, target) if best is HarmonicSum else best(degree, target)


def _causal_choice(measure: Points, beta: float, tolerance: float) -> Sum:
    count, dim = measure.points.shape
    target = _attainable(tolerance * _share(beta, dim), measure)
    degree = _degree(beta, dim, target)
    if degree is None:
        return Dense()
    chosen = CausalSum.reaching(beta, dim, target)
    crowd = 1 if measure.times is None else np.unique(measure.times, return_counts=True)[1].max()
    if crowd > chosen.block:
        return Dense()
    dense = dense_cost(count, dim, zonal=False) / _EXACTNESS
    return chosen if causal_cost(count, dim, degree) < dense else Dense()


def _degree(beta: float, dim: int, tolerance: float) -> int | None:
    """The degree of the series, None where it is more than a fast sum can hold."""
    # The coefficients spread over √β degrees: fewer would drop a third of the mass.
    if math.sqrt(beta) > MAX_DEGREE[dim]:
        return None
    degree = degree_for(beta, dim, tolerance)
    return degree if degree <= MAX_DEGREE[dim] else None


def _gaussian_choice(measure: Points, kernel: Kernel, tolerance: float) -> Sum:
    """A Gaussian sum, if it is cheaper and query and key leave it enough digits."""
    plain = not kernel.biases and kernel.row is None and not np.any(kernel.column)
    if not plain or kernel.left.shape[1] > 3 or not _has_nufft():
        return Dense()
    # On the sphere queries and keys are images of unit vectors: their matrices bound the norms.
    query, key = np.asarray(kernel.left), np.asarray(kernel.right)
    if not max(np.abs(query).max(), np.abs(key).max()) < 1e150:
        return Dense()  # squares of the norms below would overflow
    beta, axes = float(kernel.beta), key.shape[1]
    long = float(np.linalg.norm(key, 2))
    short = float(np.linalg.norm(key, -2)) if measure.dim <= axes else 0.0
    apart = float(np.linalg.norm(query - key, 2))
    lost = beta / 2 * (long**2 - short**2 + apart**2)
    radius = math.sqrt(beta) * max(float(np.linalg.norm(query, 2)), long)
    if lost > _MOST_LOST or radius == 0:
        return Dense()
    target = tolerance * _share(beta * long**2, measure.dim) * math.exp(-lost)
    if target < _attainable(target, measure):
        return Dense()
    chosen = GaussianSum(radius * (1 + 1e-9), target)
    dense = dense_cost(measure.count, axes, zonal=False) / _EXACTNESS
    cheaper = gaussian_cost(measure.count, axes, chosen.modes, target) < dense
    return chosen if cheaper else Dense()


def _share(beta: float, dim: int) -> float:
    """The part of e^β that a token sees among tokens spread evenly, roughly.

    A sum's tolerance is relative to the mass at distance zero.
    """
    return (1 + 2 * math.pi * beta) ** (-(dim - 1) / 2)


def _attainable(tolerance: float, measure: Points) -> float:
    return max(tolerance, 1e-13 if measure.points.dtype == jnp.float64 else 1e-6)


def _has_nufft() -> bool:
    found = importlib.util.find_spec("jax_finufft") is not None
    return found and jax.default_backend() == "cpu"


class _DenseAt(Sum):
    """Another sum, with some rows replaced by the dense sum."""

    sum: Sum
    rows: Array

    @property
    def name(self) -> str:
        return "dense at a sample"

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        at = lambda array: None if array is None else array[self.rows]
        sampled = Kernel(
            kernel.beta,
            kernel.left[self.rows],
            kernel.right,
            kernel.column,
            at(kernel.row),
            kernel.biases,
            at(kernel.row_times),
            kernel.column_times,
        )
        approximate, exact = self.sum.attend(kernel, values), Dense().attend(sampled, values)
        return jax.tree.map(lambda a, b: a.at[self.rows].set(b), approximate, exact)


def _masked(kernel: Kernel) -> bool:
    """Whether this is the zonal kernel under the causal mask and nothing else."""
    from metastable.fields.position import Causal

    mask = len(kernel.biases) == 1 and isinstance(kernel.biases[0], Causal)
    identity = np.eye(kernel.left.shape[0])
    same = np.array_equal(kernel.left, identity) and np.array_equal(kernel.right, identity)
    return mask and same and kernel.row is None and not np.any(kernel.column)
