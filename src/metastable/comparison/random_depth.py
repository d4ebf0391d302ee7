"""Laws of tokens under common noise: weights drawn at every moment and shared by all of them.

Every interval is drawn again with other weights from its first frame. Run and simulation are two
draws of one law, so that the difference of any statistic of theirs is as likely positive as
negative, whatever the spacing of frames (see `motion.noise_strength`).
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array
from scipy.special import ndtr

from metastable.comparison.case import MANY, Case, continuous
from metastable.comparison.equation import MARGIN
from metastable.comparison.motion import FEWEST, symmetric
from metastable.comparison.simulation import Draws, simulated
from metastable.core.numerics import jax, jnp
from metastable.core.verdict import Verdict, judge, not_applicable, sampled
from metastable.fields import SelfAttention
from metastable.fields.random import RandomValue
from metastable.fields.sums import Dense
from metastable.flows import Geodesic, Layers
from metastable.measures import Points
from metastable.theory.random_depth import PairDiffusion

SOURCE = "common noise, derived; koubbi2026homogenized"
NEAR = 1e-2  # distance of tokens, times β, in which they are one cluster to first order
LEAST = 1e-7  # distance below which rounding is seen


def common_strength(case: Case) -> Verdict | None:
    """σ of the random weights, from the squared displacements of all tokens."""
    claim = "strength σ of the random weights"
    draws = _draws(case, claim)
    if not isinstance(draws, Draws):
        return draws
    observed, simulated = draws.squares()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(np.log(observed) - np.log(simulated), posinf=50.0, neginf=-50.0)
    sigma = math.sqrt(math.fsum(float(part.strength) for part in case.common))
    error = sigma * math.sqrt(float(np.sum(ratios**2))) / len(ratios) / 2
    seen = sigma * math.exp(float(np.mean(ratios)) / 2)
    return sampled(claim, SOURCE, sigma, seen, symmetric(ratios), error)


def one_matrix_moves_all(case: Case) -> Verdict | None:
    """Displacements are P_{x_i}Wm_i with one W: what no W explains, over the same of a simulation.

    W is fitted to all tokens by least squares; more than d + 1 tokens determine it. With a frame
    at every step or every second one this tells Itô's integral from Stratonovich's too.
    """
    claim = "tokens moved by no common W, over the expected share"
    field = case.common[0] if len(case.common) == 1 else None
    if not isinstance(field, RandomValue) or case.rate > 0:
        return None
    if case.tokens * (case.dim - 1) <= case.dim * min(case.tokens, case.dim):
        return not_applicable(claim, SOURCE, f"needs more than {case.dim + 1} tokens")
    if case.tokens * case.dim > 4096:
        return not_applicable(claim, SOURCE, "too many tokens to fit a matrix to each interval")
    draws = _draws(case, claim)
    if not isinstance(draws, Draws):
        return draws
    shares = _shares(case, draws, field)
    difference = shares[:, 0] - shares[:, 1]
    error = math.sqrt(float(np.sum(difference**2))) / len(difference)
    seen = math.exp(float(np.mean(difference)))
    return sampled(claim, SOURCE, 1.0, seen, symmetric(difference), error)


def beta_of_random_head(case: Case) -> Verdict | None:
    """Whether another β would explain the displacements better: log-shares at β ± 10 %.

    The difference of the two logarithms, of the run less that of the simulation, counts the more
    the farther apart the tokens are, where m_i depends on β at all.
    """
    claim = "β of the random head, as the slope of what it leaves unexplained"
    first = one_matrix_moves_all(case)
    field = case.common[0] if first is not None else None
    if first is None or not isinstance(field, RandomValue) or field.head is None:
        return None
    if first.reason:
        return not_applicable(claim, SOURCE, first.reason)
    draws, beta = _draws(case, claim), float(field.head.beta)
    heads = [SelfAttention(s * beta, causal=field.head.causal) for s in (1.1, 0.9)]
    either = [eqx.tree_at(lambda f: f.head, field, head) for head in heads]
    slopes = _shares(case, draws, either[0]) - _shares(case, draws, either[1])
    apart = 1 - np.sum(draws.starts.mean(axis=1) ** 2, axis=1)
    difference = apart**2 * (slopes[:, 0] - slopes[:, 1])
    error = math.sqrt(float(np.sum(difference**2))) / float(np.sum(apart**2))
    seen = float(difference.sum() / np.sum(apart**2))
    return sampled(claim, SOURCE, 0.0, seen, symmetric(difference), error)


def _shares(case: Case, draws: Draws, field: RandomValue) -> np.ndarray:
    """Logarithm of the share that no W explains, of the run and of the simulation, (k, 2)."""
    means, shares = np.asarray(_means(field, case.start, jnp.asarray(draws.starts))), []
    parts = zip(draws.starts, means, draws.calm, draws.ends, draws.again, strict=True)
    for x, mean, calm, *ends in parts:
        shares.append([_unexplained(x, end - calm, mean) for end in ends])
    return np.log(np.array(shares) + 1e-12)


@eqx.filter_jit
def _means(field: RandomValue, start: Points, states: Array) -> Array:
    return jax.vmap(lambda x: field.means(start.at(x), 0.0, Dense()))(states)


def _unexplained(x: np.ndarray, moved: np.ndarray, means: np.ndarray) -> float:
    """Share of the displacements that P_{x_i}Wm_i cannot give, whatever W."""
    n, d = x.shape
    tangent = np.eye(d) - x[:, :, None] * x[:, None, :]
    design = (tangent[:, :, :, None] * means[:, None, None, :]).reshape(n * d, d * d)
    target = np.einsum("nij,nj->ni", tangent, moved).ravel()
    fitted = design @ np.linalg.lstsq(design, target, rcond=1e-9)[0]
    return float(np.sum((target - fitted) ** 2) / max(np.sum(target**2), 1e-300))


def similarity_drift(case: Case) -> Verdict | None:
    """Mean of d⟨x_i,x_j⟩ = [⟨m_i,m_j⟩(d−2+ρ²) − (‖m_i‖²+‖m_j‖²)(d−1)ρ/2]dt, by simulation."""
    claim = "similarity gained on average, over the expected"
    draws = _draws(case, claim)
    if not isinstance(draws, Draws):
        return draws
    mean = lambda x: np.sum(np.sum(x, axis=1) ** 2, axis=1) / x.shape[1] ** 2
    gained = [mean(ends) - mean(draws.starts) for ends in (draws.ends, draws.again)]
    size = np.sqrt(np.maximum(gained[0] ** 2 + gained[1] ** 2, 1e-300))
    difference = (gained[0] - gained[1]) / size
    error = math.sqrt(float(np.sum(difference**2))) / len(difference)
    return sampled(claim, SOURCE, 0.0, float(difference.mean()), symmetric(difference), error)


@continuous
def common_contraction(case: Case) -> Verdict | None:
    """One narrow cluster: log of its squared width falls by (d−1)σ²t, variance 4σ²t, exactly.

    −2 and 8 without attention, where each token sees itself alone.
    """
    claim, source = "rate of the cluster's squared width under common noise", SOURCE
    late = _late(case, claim)
    if not isinstance(late, tuple):
        return late
    first, last, widths = late
    alone = isinstance(case.field, RandomValue) and case.field.head is None
    if alone and case.tokens > 2:
        return not_applicable(claim, source, "known for two tokens where there is no attention")
    strength = math.fsum(float(part.strength) for part in case.common)
    span = float(case.times[last] - case.times[first])
    expected, seen = _consensus(case), 2 * math.log(widths[last] / widths[first]) / span
    error = math.sqrt((8.0 if alone else 4.0) * strength / span)
    p = 2 * float(ndtr(-abs(seen - expected) / error))
    return sampled(claim, source, expected, seen, p, error)


def shape_freezes(case: Case) -> Verdict | None:
    """All differences inside a narrow cluster are multiplied by one factor: its shape stays.

    To first order in its width r; steps of length h scatter its inner products by √(2h) in a unit
    of time, six times which is allowed.
    """
    claim, source = "the shape of a narrow cluster stays, largest change", SOURCE
    field = case.field
    head = field.head if isinstance(field, RandomValue) else None
    if head is None or not isinstance(field, RandomValue):
        return None
    late = _late(case, claim)
    if not isinstance(late, tuple):
        return late
    first, last, widths = late
    shapes = [_shape(case.points[k]) for k in (first, last)]
    changed = float(np.abs(shapes[0] - shapes[1]).max())
    if case.discrete:
        return not_applicable(claim, source, "a statement about continuous depth")
    stepper: Any = case.run.stepper or Geodesic()
    step = stepper.resolve(case.start, case.field, Dense()) * float(field.strength)
    span = float(case.times[last] - case.times[first])
    scatter = 6 * math.sqrt(2 * span * step) + 1e-14 / widths[last]
    allowed = MARGIN * widths[first] * (1 + float(head.beta)) + scatter
    if allowed > 0.5:
        return not_applicable(claim, source, "the steps are too long to tell")
    return judge(claim, source, 0.0, changed, absolute=allowed)


def _shape(x: np.ndarray) -> np.ndarray:
    """Inner products of the displacements from the mean, over their mean square."""
    off = x - x.mean(axis=0)
    gram = off @ off.T
    return gram / np.trace(gram)


def _late(case: Case, claim: str) -> Any:
    """First and last frame in which all tokens are one narrow cluster, and widths of frames."""
    if not case.common or case.rate > 0 or not case.same_tokens or case.tokens < 2:
        return None
    if not case.on_sphere or not all(part is case.field for part in case.common):
        return None  # another force contracts too
    if getattr(getattr(case.field, "head", None), "causal", False):
        return None  # each token sees another mean
    off = case.points - case.points.mean(axis=1, keepdims=True)
    widths = np.sqrt(np.mean(np.sum(off**2, axis=2), axis=1))
    inside = np.flatnonzero(widths < NEAR / max(_sharpness(case), 1.0))
    if not inside.size:
        return not_applicable(claim, SOURCE, "tokens are not one narrow cluster yet")
    # How long is decided beforehand, not by how it goes: until the mean rate has led to LEAST.
    first, rate = int(inside[0]), abs(_consensus(case))
    end = case.times[first] + 2 * math.log(NEAR / LEAST) / rate
    last = min(int(np.searchsorted(case.times, end, side="right")), len(widths)) - 1
    if last - first < 3 or widths[last] < 1e-14:
        return not_applicable(claim, SOURCE, "fewer than three frames in one narrow cluster")
    return first, last, widths


def _sharpness(case: Case) -> float:
    heads = [getattr(part, "head", None) for part in case.common]
    return max((float(head.beta) for head in heads if head is not None), default=1.0)


def _consensus(case: Case) -> float:
    """Rate of log(1−ρ) of two tokens that are close."""
    alone = isinstance(case.field, RandomValue) and case.field.head is None
    strength = math.fsum(float(part.strength) for part in case.common)
    return strength * PairDiffusion(math.inf if alone else 1.0, case.dim).consensus_exponent


def _draws(case: Case, claim: str) -> Any:
    """Simulations of every interval, or why there are none."""
    if not case.common or not case.same_tokens or not case.on_sphere:
        return None
    if not isinstance(case.run.stepper, Geodesic | Layers | None):
        return not_applicable(claim, SOURCE, f"not for {type(case.run.stepper).__name__}")
    if case.tokens > MANY:
        return not_applicable(claim, SOURCE, f"more than {MANY} tokens: too long to simulate again")
    if len(case.times) <= FEWEST:
        return not_applicable(claim, SOURCE, f"needs more than {FEWEST} frames")
    if not hasattr(case, "draws"):
        draws = simulated(case.run)
        # Intervals in which nothing is left to move are rounding alone.
        apart = np.linalg.norm(draws.starts - draws.starts[:, :1], axis=2).max(axis=1)
        keep = apart > LEAST
        case.draws = Draws(*(part[keep] for part in draws))  # pyright: ignore
    draws = case.draws  # pyright: ignore[reportAttributeAccessIssue]
    if len(draws.starts) <= FEWEST:
        return not_applicable(claim, SOURCE, f"needs more than {FEWEST} frames of apart tokens")
    return draws
