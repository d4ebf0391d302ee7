"""Growth rates of a field around the uniform measure, as far as linear theory knows them."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from scipy.special import expit

from metastable.fields import (
    Field,
    Kuramoto,
    KuramotoNetwork,
    L2Attention,
    SelfAttention,
    SigmoidAttention,
)
from metastable.fields.heads import MultiHead
from metastable.fields.sink import SinkAttention
from metastable.fields.zonal import potential_of
from metastable.theory import spectrum
from metastable.theory.bessel import log_reduced_bessel

LARGEST_BETA = 1e300
MOST_RATES = 4096
SHARPEST = 300.0  # β of a sigmoid whose rates are known
UNKNOWN = (
    "linear theory needs isotropic forces: heads with Q, K, V multiples of I (softmax, sigmoid "
    "of β ≤ 300, plain linear), potentials, Kuramoto without frequencies or graph, or sums of these"
)


@dataclasses.dataclass(frozen=True)
class Growth:
    """Rates λ_1..λ_m of the first degrees, and the fastest of all degrees.

    `near` holds rates around the fastest degree where it lies beyond `rates`, by degree.
    `log_fastest` is the logarithm of the largest rate, for attraction without noise.
    """

    rates: np.ndarray
    mode: int
    fastest: float
    log_fastest: float | None = None
    near: dict[int, float] | None = None

    @property
    def growing(self) -> int | None:
        """The fastest degree, None where no degree grows."""
        return self.mode if self.fastest > 0 or self.log_fastest is not None else None


def linear_growth(field: Field, dim: int, kappa: float) -> Growth | None:
    """Growth of the harmonics of the uniform measure on S^{dim−1} under `field` and noise κ.

    None where no linear theory is known. At most 4096 rates are listed. The fastest degree of one
    attracting head is exact as in `dominant_mode`; of several heads past degree 4096 it is the best
    of 512 degrees in geometric progression and of each head's own.
    """
    heads: list[_Head] = []
    potentials: list[Any] = []
    for mover in getattr(field, "parts", (field,)):
        if (potential := potential_of(mover)) is not None:
            if isinstance(mover, SigmoidAttention) and not _resolved(mover):
                return None
            potentials.append(potential)
        elif mover.clock is not None:
            found = _heads_of(mover, dim)
            if found is None:
                return None
            heads += found
    if not potentials:
        return _of_heads(heads, dim, kappa) if heads else None
    degrees = np.arange(1, 33)
    rates = _rates_at(heads, dim, kappa, degrees)
    for potential in potentials:
        rates = rates + spectrum.potential_rates(functools.partial(_values, potential), dim, 32)
    best = int(np.argmax(rates))
    return Growth(rates, best + 1, float(rates[best]))


def _resolved(head: SigmoidAttention) -> bool:
    """Whether the sigmoid is wide enough for the quadrature behind the rates, 2048 nodes."""
    numbers = [1.0 if o is None else float(o) for o in (head.query, head.key)]
    return abs(float(head.beta) * numbers[0] * numbers[1]) <= SHARPEST


def _values(potential: Any, s: np.ndarray) -> np.ndarray:
    return np.asarray(potential(s))


def scales(head: Any) -> tuple[float, float] | None:
    """Effective β and scalar V of an isotropic head; None when it is not isotropic."""
    if not isinstance(head, SelfAttention) or not head.isotropic:
        return None
    number = lambda operator: 1.0 if operator is None else float(operator)
    beta = float(head.beta) * number(head.query) * number(head.key)
    if not abs(beta) <= LARGEST_BETA:
        raise ValueError(
            f"beta must be at most {LARGEST_BETA:g} for a prediction, with query and key; got "
            f"{beta:g}: lower it."
        )
    return beta, number(head.value)


@dataclasses.dataclass(frozen=True)
class _Head:
    """Effective β, scalar weight, and whether it is a softmax."""

    beta: float
    weight: float
    normalized: bool


def _heads_of(field: Field, dim: int) -> list[_Head] | None:
    """The isotropic heads that a field is; Kuramoto is one with β = 0."""
    mover: Field = field
    if isinstance(mover, SinkAttention) and mover.isotropic:
        # Around uniform every token has Z = c_0: it moves c_0/(c_0 + e^s) times as fast as in SA.
        plain = SelfAttention(mover.beta, mover.query, mover.key, mover.value)
        known = scales(plain)
        assert known is not None
        share = float(
            expit(float(log_reduced_bessel(dim / 2 - 1, 0, abs(known[0]))) - float(mover.sink))
        )
        return [_Head(known[0], share * known[1], True)]
    if isinstance(mover, KuramotoNetwork) and mover.edges == "complete":
        mover = Kuramoto(mover.coupling, mover.frequencies)
    if isinstance(mover, Kuramoto):
        free = mover.frequencies is None
        return [_Head(0.0, float(mover.coupling), False)] if free else None
    if isinstance(mover, L2Attention) and not mover.causal:
        # On the sphere ‖Qx − Ky‖² differs from −2⟨Qx,Ky⟩ by what the softmax divides out.
        mover = SelfAttention(mover.beta, mover.query, mover.key, mover.value)
    if isinstance(mover, SelfAttention):
        known = scales(mover)
        return None if known is None else [_Head(*known, mover.normalized)]
    if not isinstance(mover, MultiHead):
        return None
    heads = []
    for head, output in zip(mover.heads, mover.outputs, strict=True):
        inner = _heads_of(head, dim)
        if inner is None or (output is not None and output.ndim > 0):
            return None
        factor = 1.0 if output is None else float(output)
        heads += [dataclasses.replace(one, weight=factor * one.weight) for one in inner]
    return heads


def _of_heads(heads: list[_Head], dim: int, kappa: float) -> Growth:
    leading = [spectrum.dominant_mode(abs(head.beta), dim) for head in heads]
    least = 32 if min(head.beta for head in heads) < 0 else 8
    listed = np.arange(1, min(max(least, 2 * max(leading) + 2), MOST_RATES) + 1)
    rates = _rates_at(heads, dim, kappa, listed)
    log_fastest, (beta, weight, normalized) = None, dataclasses.astuple(heads[0])
    if len(heads) == 1 and beta >= 0 and weight > 0:
        relative = max(kappa * weight, 5e-324)  # λ − L/(κV) has its maximum where Vλ − L/κ has
        mode = spectrum.dominant_mode(beta, dim, normalized=normalized, kappa=relative)
        if math.isinf(kappa):
            log = spectrum.log_rates_at(beta, dim, [mode], normalized=normalized)
            log_fastest = float(log[0]) + math.log(weight)
    else:
        mode = _fastest_of_many(heads, dim, kappa, leading, rates)
    if mode <= listed.size:
        return Growth(rates, mode, _settled(heads, dim, kappa, mode, rates[mode - 1]), log_fastest)
    around = sorted({mode // 2, mode - 1, mode, mode + 1, 2 * mode})
    values = _rates_at(heads, dim, kappa, np.array(around, object))
    near = dict(zip(around, values.tolist(), strict=True))
    fastest = _settled(heads, dim, kappa, mode, near[mode])
    return Growth(rates, mode, fastest, log_fastest, near)


def _settled(heads: list[_Head], dim: int, kappa: float, mode: int, rate: float) -> float:
    """The rate, or the sign of its infinity where drift and noise are both beyond doubles."""
    if not math.isnan(rate):
        return float(rate)
    beta = max(abs(head.beta) for head in heads)
    drift = float(spectrum.log_rates_at(beta, dim, np.array([mode], object), normalized=False)[0])
    spread = math.log(mode) + math.log(mode + dim - 2) - math.log(kappa)
    return math.inf if drift > spread else -math.inf


def _fastest_of_many(
    heads: list[_Head], dim: int, kappa: float, leading: list[int], rates: np.ndarray
) -> int:
    if not np.isfinite(rates).all():
        # USA rates beyond the range of doubles: the largest β outgrows the others by far.
        return leading[int(np.argmax([abs(head.beta) for head in heads]))]
    best = int(np.argmax(rates))
    if max(leading) <= rates.size:
        return best + 1
    spread = np.geomspace(float(rates.size), 2.0 * max(leading), 512)
    degrees = {int(ell) for ell in spread} | {ell + j for ell in leading for j in (-1, 0, 1)}
    further = sorted(ell for ell in degrees if ell > rates.size)
    values = _rates_at(heads, dim, kappa, np.array(further, object))
    beyond = int(np.argmax(np.nan_to_num(values, nan=-math.inf)))
    return further[beyond] if values[beyond] > rates[best] else best + 1


def _rates_at(heads: list[_Head], dim: int, kappa: float, degrees: np.ndarray) -> np.ndarray:
    """Σ_h w_h λ_ℓ(β_h) − L/κ; ±∞ beyond doubles, NaN where infinities cancel."""
    ell = degrees.astype(float)
    even = (degrees % 2 == 0).astype(bool)
    with np.errstate(all="ignore"):
        total = -ell * ((ell + dim - 2) / kappa)
        for beta, weight, normalized in map(dataclasses.astuple, heads):
            logs = spectrum.log_rates_at(abs(beta), dim, degrees, normalized=normalized)
            # I_{ℓ+ν}/x^ν has the parity of ℓ, and the 1/β in front turns it around.
            sign = np.where(even, -1.0, 1.0) if beta < 0 else 1.0
            total = total + weight * sign * np.exp(logs)
    return total
