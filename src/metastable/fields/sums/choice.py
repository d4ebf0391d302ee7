"""Which sum to use: the cheapest that reaches the tolerance, by measured cost."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.sums import costs
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Attended, Kernel, Sum
from metastable.fields.sums.nufft import CircleSum, GaussianSum, SphereSum
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
    kernels, timed = _kernels_of(measure, field)
    if not kernels or any(is_traced(kernel.beta) for kernel in kernels):
        return Dense()
    beta = max(float(kernel.beta) for kernel in kernels)
    if all(kernel.zonal for kernel in kernels) and measure.dim in (2, 3):
        return _zonal_choice(measure, beta, tolerance)
    if measure.on_sphere and not timed and not is_traced(measure, field):
        kernels = _kernels_of_basis(measure, field)
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
    return field.drift(measure, _own_places(measure), 0.0, sum)


def _zonal_choice(measure: Points, beta: float, tolerance: float) -> Sum:
    count, dim = measure.points.shape
    target = _attainable(tolerance * _share(beta, dim), measure)
    degree = _degree(beta, dim, target)
    if degree is None:
        return Dense()
    choices: list[tuple[float, Callable[[], Sum]]] = [
        (costs.dense_cost(count, dim) / _EXACTNESS, Dense),
        (costs.harmonic_cost(count, dim, degree), lambda: HarmonicSum(dim, degree, target)),
    ]
    if _has_nufft():
        fast = CircleSum if dim == 2 else SphereSum
        cost = costs.nufft_cost(count, dim, degree, target)
        choices.append((cost, lambda: fast(degree, target)))
    return min(choices, key=lambda choice: choice[0])[1]()


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
    dense = costs.dense_cost(count, dim, zonal=False) / _EXACTNESS
    return chosen if costs.causal_cost(count, dim, degree) < dense else Dense()


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
    dense = costs.dense_cost(measure.count, axes, zonal=False) / _EXACTNESS
    cheaper = costs.gaussian_cost(measure.count, axes, chosen.modes, target) < dense
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

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        at = lambda array: None if array is None else array[self.rows]
        sampled = dataclasses.replace(
            kernel,
            left=at(kernel.left),
            row=at(kernel.row),
            row_times=at(kernel.row_times),
            zonal=False,
            own=False,
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


def _kernels_of(measure: Points, field: Any) -> tuple[list[Kernel], bool]:
    """The kernels a field asks for at its own tokens, and whether it depends on time.

    No kernels for a field that needs more of its sum than means of exponentials.
    """
    probe = _Probe([])
    try:
        traced = jax.make_jaxpr(lambda t: field.drift(measure, _own_places(measure), t, probe))(0.0)
    except ValueError:
        return [], False
    (t,) = traced.jaxpr.invars
    return probe.kernels, any(t is used for step in traced.eqns for used in step.invars)


def _kernels_of_basis(measure: Points, field: Any) -> list[Kernel]:
    """The kernels for tokens at the basis vectors: their rows are the matrices query and key.

    None for a field that exists at its own tokens only, or evaluates kernels inside a loop.
    """
    dim, dtype = measure.dim, measure.points.dtype
    basis = eqx.tree_at(
        lambda m: (m.points, m.weights, m.times),
        measure,
        (jnp.eye(dim, dtype=dtype), jnp.ones(dim, dtype), None),
        is_leaf=lambda leaf: leaf is None,
    )
    probe = _Probe([])
    try:
        field.drift(basis, _own_places(basis), 0.0, probe)
    except ValueError:
        return []
    return [] if is_traced(probe.kernels) else probe.kernels


def _own_places(measure: Points) -> Any:
    """The measure's own tokens, as places where a field is wanted."""
    from metastable.fields.field import Places  # fields are built from sums, not the reverse

    return Places(measure.points, measure.positions, own=True)


class _Probe(Sum):
    """Records the kernels a field asks for, and answers with zeros."""

    kernels: list[Kernel] = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "probe"

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        self.kernels.append(kernel)
        zeros = jnp.zeros((kernel.left.shape[0], values.shape[1]), values.dtype)
        return zeros[:, 0], zeros
