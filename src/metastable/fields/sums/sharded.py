"""Tokens spread over several devices: each keeps its rows, and what others need goes round."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields.sums.calibration import sum_cost
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.dense import Dense, blocks
from metastable.fields.sums.gpu import FusedSum
from metastable.fields.sums.harmonic import HarmonicSum, features, no_moments
from metastable.fields.sums.kernel import Attended, Kernel, Sum
from metastable.fields.sums.zonal import ZonalSum

RING = "ring"
# Arrays of all tokens that a flow keeps, counted and not measured: 14 stages of a step, the state
# before and after it, its error, a frame.
STATES = 18
_WORTH = 1.3  # how much cheaper several devices must be than one
# Microseconds of a step of the ring, and bytes in a microsecond. CPU: measured between 16 devices
# of one process (benchmarks/scaling.py); two have 23 µs and 5.9 GB/s, two processes by gloo on one
# host 47 µs and 1.7 GB/s. The other two are not measured but assumed: about half of what vendors
# state for NVLink and for a network of 200 Gbit/s.
_LINKS = {"cpu": (170.0, 1.5e3), "gpu": (15.0, 2e5), "network": (30.0, 1.2e4)}


class ShardedSum(Sum):
    """A sum over tokens that are spread over a ring of p devices, n/p tokens on each.

    What travels depends on `inner`:

    - a harmonic sum: each device sums the moments of its own tokens, and moments add. One
      reduction of O(K^{d−1}) numbers, whatever n is, and O(n/p) work on each device.
    - the dense sum of e^{β⟨x,y⟩} between tokens of the sphere and themselves: in p/2 steps columns
      pass by half of the devices; each pair is evaluated once, and what it adds to the column
      travels on with the column. n(n+1)/2p pairs on each device.
    - any other: in p steps all columns pass by every device, which adds their part to its rows by
      `inner` (masses add in log domain, means by mass). n²/p pairs on each device.

    In a ring no device holds more than 3n/p tokens, and columns travel while the part before is
    computed. On several hosts call `jax.distributed.initialize()` first: `jax.devices()` then
    lists the devices of all hosts, and the same sum runs over them; its result goes to every
    device, so that each host can run the same program on all tokens.

    >>> import metastable as ms
    >>> tokens, field = ms.uniform(tokens=7, dim=3), ms.SelfAttention(beta=2.0)
    >>> difference = field.velocity(tokens, sum=ShardedSum()) - field.velocity(tokens)
    >>> bool(abs(difference).max() < 1e-15)
    True
    """

    inner: Sum
    devices: tuple[Any, ...] = eqx.field(static=True)

    def __init__(self, inner: Sum | None = None, devices: Any = None):
        self.inner = Dense() if inner is None else inner
        self.devices = tuple(jax.devices() if devices is None else devices)
        if not self.devices:
            raise ValueError("devices must hold at least one device; got none: leave it unset.")

    @property
    def name(self) -> str:
        return f"{self.inner.name} on {len(self.devices)} devices"

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        count, size = kernel.left.shape[0], len(self.devices)
        mesh = jax.sharding.Mesh(np.array(self.devices), (RING,))
        pad = lambda array, fill=None: None if array is None else _pad(array, 2 * size, fill)
        left, row, row_times = pad(kernel.left), pad(kernel.row), pad(kernel.row_times)
        column, times = pad(kernel.column, -jnp.inf), pad(kernel.column_times)
        columns = pad(kernel.right), column, pad(values), times
        whole, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(RING)

        def part(shared: tuple, rows: tuple, columns: tuple) -> tuple[Array, Array]:
            (beta, biases, inner), (left, row, row_times) = shared, rows
            right, column, values, times = columns
            here = Kernel(
                beta, left, right, column, row, biases, row_times, times,
                zonal=kernel.zonal, own=kernel.own,
            )  # fmt: skip
            if isinstance(inner, HarmonicSum):
                return _by_moments(inner, here, values)
            if isinstance(inner, Dense) and kernel.zonal and kernel.own:
                return _by_pairs(inner, here, values, size)
            return _by_columns(inner, here, values, size)

        place, body = split, part
        if len({device.process_index for device in self.devices}) > 1:
            # Each host reads frames and steps by itself: it has all tokens before and after.
            place, body = whole, lambda shared, *arrays: _gathered(part, shared, arrays, size)
        # The loops of an inner sum start from constants, which the check takes for an error.
        spread = jax.shard_map(
            body, mesh=mesh, in_specs=(whole, place, place), out_specs=place, check_vma=False
        )
        shared = kernel.beta, kernel.biases, self.inner
        log_mass, mean = spread(shared, (left, row, row_times), columns)
        return log_mass[:count], mean[:count]


def sharded_choice(
    inner: Sum,
    tokens: int,
    axes: int,
    *,
    zonal: bool = True,
    itemsize: int = 8,
    devices: Sequence[Any] | None = None,
    memory: float | None = None,
    cores: int | None = None,
) -> Sum:
    """`inner` itself, or spread over the devices where one cannot hold the tokens or is slower.

    A flow keeps about `STATES` arrays of all tokens; they are spread with the sum when they take
    more than `memory` bytes, by default what JAX may use of a GPU. Otherwise the cost decides: that
    of one device against its part of the work and what travels (`travel_cost`). Devices of several
    hosts save time only: each host keeps all tokens. A non-uniform FFT is not spread; the harmonic
    sum of its degree is.

    >>> sharded_choice(Dense(), 10**6, 3).name
    'dense'
    """
    devices = jax.devices() if devices is None else devices
    if len(devices) == 1:
        return inner
    spread = inner
    if isinstance(inner, ZonalSum) and not isinstance(inner, HarmonicSum | CausalSum):
        spread = HarmonicSum(inner.dim, inner.degree, inner.tolerance)
    elif not isinstance(inner, Dense | FusedSum | HarmonicSum):
        return inner
    chosen = ShardedSum(spread, devices)
    hosts = len({device.process_index for device in devices})
    if memory is None:
        memory = (devices[0].memory_stats() or {}).get("bytes_limit", math.inf)
    if hosts == 1 and STATES * tokens * axes * itemsize > float(memory):  # type: ignore
        return chosen
    gpu, cores = devices[0].platform != "cpu", cores or len(os.sched_getaffinity(0))
    cost = lambda sum, count: sum_cost(sum, count, axes, zonal, devices[0])
    fixed = cost(spread, 0)  # what every device pays, however few its tokens are
    part = fixed + (cost(spread, tokens) - fixed) / _gain(spread, devices, cores)
    travels = travel_cost(spread, tokens, axes, len(devices), zonal, itemsize, gpu, hosts)
    alone = min(cost(inner, tokens), cost(spread, tokens))
    return chosen if _WORTH * (part + travels) < alone else inner


def travel_cost(
    inner: Sum,
    tokens: int,
    axes: int,
    size: int,
    zonal: bool = True,
    itemsize: int = 8,
    gpu: bool = False,
    hosts: int = 1,
) -> float:
    """Microseconds in which devices of a ring wait for each other, if nothing is overlapped."""
    latency, speed = _LINKS["network" if hosts > 1 else "gpu" if gpu else "cpu"]
    if isinstance(inner, HarmonicSum):
        numbers = 4 * (inner.degree + 2) ** (inner.dim - 1) * (1 + axes)
        return 2 * size * latency + 2 * itemsize * numbers / speed
    pairs = isinstance(inner, Dense) and zonal
    steps, numbers = (size // 2 + 1, 3 * axes + 2) if pairs else (size, 2 * axes + 1)
    gathered = itemsize * tokens * (1 + axes) / speed if hosts > 1 else 0.0
    return steps * (latency + itemsize * math.ceil(tokens / size) * numbers / speed) + gathered


def _gain(inner: Sum, devices: Sequence[Any], cores: int) -> float:
    """How many times the speed of one device all of them have, but for what travels.

    CPU devices of one process share caches and memory. Measured on 16 cores with 2, 4, 8, 16
    devices: moments 2.0, 4.0, 7.7, 10.9; pairs 1.8, 3.1, 3.9, 3.0 for d = 3 and 1.7, 2.0, 2.3, 1.9
    for d = 64, once each. Several hosts and several GPUs are taken to be independent.
    """
    if devices[0].platform != "cpu":
        return len(devices)
    hosts = len({device.process_index for device in devices})
    each = min(len(devices) // hosts, cores)
    if isinstance(inner, HarmonicSum):
        return hosts * max(1.0, 0.68 * each)
    return hosts * (1.9 if each >= 4 else 1.0)


def _gathered(part: Callable, shared: tuple, arrays: tuple, size: int) -> Attended:
    """`part` of arrays that every device has whole, and the parts of all devices together."""

    def own(array: Array) -> Array:
        rows = array.shape[0] // size
        return jax.lax.dynamic_slice_in_dim(array, jax.lax.axis_index(RING) * rows, rows)

    together = lambda array: jax.lax.all_gather(array, RING, tiled=True)
    return jax.tree.map(together, part(shared, *jax.tree.map(own, arrays)))


def _by_moments(inner: HarmonicSum, kernel: Kernel, values: Array) -> Attended:
    """The harmonic sum, with the moments of all devices added up before they become a series."""
    gather, smooth, scatter = features(inner.dim, inner.degree)
    size = min(inner.block or (2048 if inner.dim <= 3 else 256), values.shape[0])

    def convolve(charges: Array, c: Array) -> Array:
        parts = blocks(kernel.right, size, fill=None), blocks(charges, size)
        plus = lambda total, part: (jax.tree.map(jnp.add, total, gather(*part)), None)
        moments = jax.lax.scan(jax.checkpoint(plus), no_moments(gather, *parts), parts)[0]
        series = smooth(jax.lax.psum(moments, RING), c)
        back = jax.checkpoint(lambda x: scatter(x, series))
        total = jax.lax.map(back, blocks(kernel.left, size, fill=None))
        return total.reshape(-1, total.shape[-1])[: kernel.left.shape[0]]

    return inner.attend_by(convolve, kernel, values)


def _by_pairs(inner: Dense, kernel: Kernel, values: Array, size: int) -> Attended:
    """Every pair of tokens once: half a ring, and sums that travel with the tokens they are of."""
    x, beta = kernel.left, kernel.beta.astype(values.dtype)
    mass = jnp.exp(kernel.column)[:, None]
    weighted = jnp.concatenate([mass, mass * values], axis=1)
    pairs = _pair_sums(beta, inner.size)
    above, below = pairs(x, weighted, x, weighted, True)
    own = above + below
    if size == 1:
        return beta + jnp.log(own[:, 0]), own[:, 1:] / own[:, :1]
    onward = lambda tree: _shift(tree, 1, size)

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        passing, theirs, ours = carry
        # Both leave before the work begins, which needs neither of them.
        coming, theirs = onward(passing), onward(theirs)
        to_ours, to_theirs = pairs(x, weighted, *passing, False)
        return (coming, theirs + to_theirs, ours + to_ours), None

    steps = (size - 1) // 2
    start = onward((x, weighted)), jnp.zeros_like(weighted), own
    (passing, theirs, ours), _ = jax.lax.scan(step, start, length=steps)
    total = ours + _shift(theirs, -steps, size)
    if size % 2 == 0:
        to_ours, to_theirs = _opposite(pairs, (x, weighted), passing, size)
        total = total + to_ours + _shift(to_theirs, size // 2, size)
    return beta + jnp.log(total[:, 0]), total[:, 1:] / total[:, :1]


def _opposite(pairs: Callable, mine: tuple, passing: tuple, size: int) -> tuple[Array, Array]:
    """Pairs of two devices that face each other in the ring; each evaluates one half of them."""
    first = jax.lax.axis_index(RING) < size // 2
    choose = lambda a, b: jax.tree.map(lambda a, b: jnp.where(first, a, b), a, b)
    a, b = choose(mine, passing), choose(passing, mine)
    half = b[0].shape[0] // 2
    begin = jnp.where(first, 0, half)
    part = jax.tree.map(lambda array: jax.lax.dynamic_slice_in_dim(array, begin, half), b)
    to_a, to_part = pairs(*a, *part, False)
    to_b = jax.lax.dynamic_update_slice_in_dim(jnp.zeros_like(to_a), to_part, begin, 0)
    return choose((to_a, to_b), (to_b, to_a))


def _pair_sums(beta: Array, most: int) -> Callable:
    """Σ_j k_ij q_j at all x, and Σ_i k_ij p_i at all y, with k = e^{β(⟨x,y⟩−1)}."""
    # Beyond this β a token's own term would overflow or vanish by rounding, as in `Dense`.
    sharp = jnp.minimum(beta, 0.2 / jnp.finfo(beta.dtype).eps)

    def sums(x: Array, p: Array, y: Array, q: Array, own: bool) -> tuple[Array, Array]:
        even = lambda n: math.ceil(n / math.ceil(n / most))
        xb, pt = blocks(x, even(len(x))), blocks(p, even(len(x))).transpose(0, 2, 1)
        yt, qb = blocks(y, even(len(y))).transpose(0, 2, 1), blocks(q, even(len(y)))
        if own:
            first, second = np.triu_indices(xb.shape[0])
        else:
            first, second = (i.ravel() for i in np.indices((xb.shape[0], yt.shape[0])))

        @jax.checkpoint
        def step(totals, pair):
            at_x, at_y = totals
            i, j = pair
            k = jnp.exp(sharp * (xb[i] @ yt[j]) - sharp)
            mirrored = pt[i] @ k
            if own:  # the diagonal has no mirror
                mirrored = jnp.where(i == j, 0, mirrored)
            return (at_x.at[i].add(k @ qb[j]), at_y.at[j].add(mirrored)), None

        at_x = jnp.zeros((*xb.shape[:2], q.shape[1]), q.dtype)
        at_y = jnp.zeros((yt.shape[0], p.shape[1], yt.shape[2]), p.dtype)
        order = jnp.asarray(first), jnp.asarray(second)
        (at_x, at_y), _ = jax.lax.scan(step, (at_x, at_y), order)
        flat = lambda total, like: total.reshape(-1, total.shape[-1])[: len(like)]
        return flat(at_x, x), flat(at_y.transpose(0, 2, 1), y)

    return sums


def _by_columns(inner: Sum, kernel: Kernel, values: Array, size: int) -> Attended:
    """Any sum: all columns pass by, and `inner` adds them part by part."""

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        passing, known = carry
        coming = _shift(passing, 1, size)
        (right, column, values, times) = passing
        part = Kernel(
            kernel.beta, kernel.left, right, column, kernel.row, kernel.biases,
            kernel.row_times, times, zonal=kernel.zonal,
        )  # fmt: skip
        return (coming, _merge(known, inner.attend(part, values))), None

    rows, dtype = kernel.left.shape[0], values.dtype
    nothing = jnp.full(rows, -jnp.inf, dtype), jnp.zeros((rows, values.shape[1]), dtype)
    columns = kernel.right, kernel.column, values, kernel.column_times
    (_, known), _ = jax.lax.scan(step, (columns, nothing), length=size)
    return known


def _merge(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two partial sums as one: (log mass, mean) of the union."""
    log_mass = jnp.logaddexp(a[0], b[0])
    # Two empty parts stay empty: −∞ − (−∞) must not appear.
    safe = jnp.where(jnp.isfinite(log_mass), log_mass, 0.0)
    share = lambda part: jnp.exp(part[0] - safe)[:, None] * part[1]
    return log_mass, share(a) + share(b)


def _shift(tree: Any, by: int, size: int) -> Any:
    """Arrays of each device on the device `by` places further round the ring."""
    where = [(i, (i + by) % size) for i in range(size)]
    return jax.tree.map(lambda array: jax.lax.ppermute(array, RING, where), tree)


def _pad(array: Array, size: int, fill: float | None) -> Array:
    """Rows up to a multiple of `size`: `fill`, or the last row again, which lies where it may."""
    extra = [(0, -array.shape[0] % size)] + [(0, 0)] * (array.ndim - 1)
    how: Any = dict(mode="edge") if fill is None else dict(constant_values=fill)
    return jnp.pad(array, extra, **how)
