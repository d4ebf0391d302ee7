"""Which sum to use: the cheapest that reaches the tolerance, by measured cost."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.sums import costs
from metastable.fields.sums.calibration import sum_cost
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.fused import WIDEST
from metastable.fields.sums.gpu import FusedSum
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Attended, Kernel, Sum
from metastable.fields.sums.nufft import CircleSum, GaussianSum, SphereSum
from metastable.fields.sums.sharded import sharded_choice
from metastable.fields.sums.zonal import MAX_DEGREE, degree_for
from metastable.measures import Points

_EXACTNESS = 1.3  # how much cheaper a sum must be than the dense one, which is exact to rounding
_LENIENCE = 10.0  # by how much the error that rounding leaves may exceed what was asked for, d ≥ 4
_MOST_LOST = 40.0  # e^{−40} is below every tolerance a Gaussian sum can reach


def choose_sum(measure: Points, field: Any, tolerance: float = 1e-10) -> Sum:
    """The cheapest way to evaluate the field's means at a relative error near `tolerance`.

    Fast sums serve e^{β⟨x,y⟩} on S^{d−1} for d = 2, …, 8, causal or not (any value matrix, weights,
    several heads, added noise) and, on the sphere, query and key matrices with at most three axes
    as long as the norms they give do not cost too many digits (see `GaussianSum`). β must be known
    and constant in time. All else is summed densely, and so is, from d = 4 on, what no fast sum
    reaches to ten times the tolerance. Without jax-finufft, and on a GPU, the harmonic sum takes
    the place of the non-uniform FFTs.

    >>> import metastable as ms
    >>> choose_sum(ms.uniform(tokens=64, dim=2), ms.SelfAttention(beta=9.0)).name
    'dense'
    >>> choose_sum(ms.uniform(tokens=5000, dim=2), ms.SelfAttention(beta=9.0)).name
    'harmonic, degree 23, tolerance 1e-11'
    >>> choose_sum(ms.uniform(tokens=20000, dim=4), ms.SelfAttention(beta=9.0), 1e-6).name
    'harmonic, degree 20, tolerance 2e-09'
    """
    checks.positive("tolerance", tolerance)
    kernels, timed = _kernels_of(measure, field)
    if not kernels or any(is_traced(kernel.beta) for kernel in kernels):
        return Dense()
    zonal = all(kernel.zonal for kernel in kernels)
    axes = max(kernel.left.shape[1] for kernel in kernels)
    able: list[Sum] = [Dense()]
    beta = max(float(kernel.beta) for kernel in kernels)
    if zonal:
        able += _single_precision(measure, beta, tolerance)
        able += _zonal_sums(measure, beta, tolerance)
    elif measure.on_sphere and not timed and not is_traced(measure, field):
        kernels = _kernels_of_basis(measure, field)
        able += _single_precision(measure, _largest_logit(kernels), tolerance)
        if kernels and all(map(_masked, kernels)):
            able += _causal_sums(measure, beta, tolerance)
        elif len(kernels) == 1:
            able += _gaussian_sums(measure, kernels[0], tolerance)
    chosen = min(able, key=lambda sum: _cost(sum, measure, axes, zonal))
    if len(jax.devices()) == 1 or is_traced(measure, field):
        return chosen
    size = measure.points.dtype.itemsize
    return sharded_choice(chosen, measure.count, axes, zonal=zonal, itemsize=size)


def _cost(sum: Sum, measure: Points, axes: int, zonal: bool) -> float:
    """Microseconds, a little less for the dense sum: it is exact to rounding."""
    count = measure.count
    if isinstance(sum, CausalSum):
        return costs.causal_cost(count, sum.dim, sum.degree)
    if isinstance(sum, GaussianSum):
        return costs.gaussian_cost(count, axes, sum.modes, sum.tolerance)
    return sum_cost(sum, count, axes, zonal) / (_EXACTNESS if isinstance(sum, Dense) else 1)


def _single_precision(measure: Points, logit: float, tolerance: float) -> list[Sum]:
    """The fused kernel, on a GPU, where its error is small enough.

    A stepper weighs errors in root mean square over coordinates, of which a vector has d.
    """
    if jax.default_backend() != "gpu" or measure.dim > WIDEST:
        return []
    return [FusedSum()] if FusedSum.error(logit) <= tolerance * math.sqrt(measure.dim) else []


def _largest_logit(kernels: list[Kernel]) -> float:
    """β‖Q‖‖K‖ over all heads, from their matrices; infinite where these are not known."""
    if not kernels:
        return math.inf
    norm = lambda matrix: float(np.linalg.norm(np.asarray(matrix), 2))
    return max(float(k.beta) * norm(k.left) * norm(k.right) for k in kernels)


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


def _zonal_sums(measure: Points, beta: float, tolerance: float) -> list[Sum]:
    series = _series(measure, beta, tolerance)
    if series is None:
        return []
    degree, target = series
    able: list[Sum] = [HarmonicSum(measure.dim, degree, target)]
    if measure.dim <= 3 and _has_nufft():
        able.append((CircleSum if measure.dim == 2 else SphereSum)(degree, target))
    return able


def _causal_sums(measure: Points, beta: float, tolerance: float) -> list[Sum]:
    series = _series(measure, beta, tolerance)
    if series is None:
        return []
    able = CausalSum.reaching(beta, measure.dim, series[1])
    crowd = 1 if measure.times is None else np.unique(measure.times, return_counts=True)[1].max()
    return [] if crowd > able.block else [able]


def _series(measure: Points, beta: float, tolerance: float) -> tuple[int, float] | None:
    """Degree and tolerance of the series; None where it is more than a fast sum can hold."""
    dim = measure.dim
    if dim not in MAX_DEGREE:
        return None
    wanted = tolerance * _share(beta, dim)
    target = _attainable(wanted, measure)
    # The coefficients spread over √β degrees: fewer would drop a third of the mass.
    if math.sqrt(beta) > MAX_DEGREE[dim] or (dim > 3 and target > _LENIENCE * wanted):
        return None
    degree = degree_for(beta, dim, target)
    return (degree, target) if degree <= MAX_DEGREE[dim] else None


def _gaussian_sums(measure: Points, kernel: Kernel, tolerance: float) -> list[Sum]:
    """A Gaussian sum, if query and key leave it enough digits."""
    plain = not kernel.biases and kernel.row is None and not np.any(kernel.column)
    if not plain or kernel.left.shape[1] > 3 or not _has_nufft():
        return []
    # On the sphere queries and keys are images of unit vectors: their matrices bound the norms.
    query, key = np.asarray(kernel.left), np.asarray(kernel.right)
    if not max(np.abs(query).max(), np.abs(key).max()) < 1e150:
        return []  # squares of the norms below would overflow
    beta = float(kernel.beta)
    long = float(np.linalg.norm(key, 2))
    short = float(np.linalg.norm(key, -2)) if measure.dim <= key.shape[1] else 0.0
    apart = float(np.linalg.norm(query - key, 2))
    lost = beta / 2 * (long**2 - short**2 + apart**2)
    radius = math.sqrt(beta) * max(float(np.linalg.norm(query, 2)), long)
    if lost > _MOST_LOST or radius == 0:
        return []
    target = tolerance * _share(beta * long**2, measure.dim) * math.exp(-lost)
    if target < _attainable(target, measure):
        return []
    return [GaussianSum(radius * (1 + 1e-9), target)]


def _share(beta: float, dim: int) -> float:
    """The part of e^β that a token sees among tokens spread evenly, roughly.

    A sum's tolerance is relative to the mass at distance zero.
    """
    return (1 + 2 * math.pi * beta) ** (-(dim - 1) / 2)


def _attainable(tolerance: float, measure: Points) -> float:
    if measure.points.dtype != jnp.float64:
        return max(tolerance, 1e-6)
    # Matrix products round less than a transform: 1e−14 measured for d = 4, …, 8.
    return max(tolerance, 1e-13 if measure.dim <= 3 else 2e-14)


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
