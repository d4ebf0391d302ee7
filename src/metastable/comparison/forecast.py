"""What theory says of a field before anything is run."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from metastable.comparison.linear import UNKNOWN, Growth, linear_growth, scales
from metastable.comparison.prediction import BEYOND, LABELS, OTHERS, Prediction
from metastable.comparison.pulls import cluster_theorem
from metastable.core import checks
from metastable.fields import Field, LinearAttention, Noise, SelfAttention, StateSpace
from metastable.fields.noise import diffusion
from metastable.fields.random import CommonNoise, RandomValue
from metastable.measures import Gaussian, Measure
from metastable.observe.summary import attention_of
from metastable.theory import counts, gaussian, noise, random_depth, regimes, ring, spectrum

MOST_TOKENS, HIGHEST_DIM, LEAST_KAPPA = 10**18, 10**6, 1e-300
# Random starts behind the distribution of first clusters, half a second of work at most.
SAMPLES = {2: 1000, 3: 500}
PLAIN = "known for one unmasked attention head with Q = K = V = I"
STABLE = "no mode grows: the uniform measure is stable"
NO_COUNT = "needs the number of tokens"
NOISELESS = "known without noise"


def predict(
    field: Field,
    dim: int | Measure,
    tokens: int | None = None,
    *,
    samples: int | None = None,
    seed: int = 0,
) -> Prediction:
    """What theory says of `field` on S^{dim−1}, from the uniform measure on.

    A start in place of `dim` gives its dimension and number of tokens; of a Gaussian in R^d theory
    knows the time of its blow-up.

    Linear stability holds for isotropic fields (multiples of the identity, multi-head sums of
    them, any potential of the inner product) with or without noise; the count distribution for a
    single attracting head on the circle or S²; theorems for any matrices. Sources, and the errors
    of the asymptotic forms used at large β, are in the functions of `metastable.theory`.

    `dim` to 10^6, `tokens` to 10^18, β to 1e300, κ from 1e−300. `samples` random starts make the
    distribution of first clusters where it is sampled (1000 on the circle and 500 on S² if not
    given). Costs a second at most for one attention head.

    >>> import metastable as ms
    >>> ms.predict(ms.SelfAttention(beta=5.0), dim=2).dominant_mode
    3
    """
    if isinstance(dim, Gaussian):
        return _of_gaussian(field, dim)
    if isinstance(dim, Measure):
        dim, tokens = dim.dim, getattr(dim, "count", tokens)
    _require("dim", dim, 2, HIGHEST_DIM)
    if tokens is not None:
        _require("tokens", tokens, 1, MOST_TOKENS)
    if isinstance(field, CommonNoise):
        return _of_random_depth(field, dim, tokens)
    kappa = _inverse_noise(field)
    head = attention_of(field)
    known: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    growth = linear_growth(field, dim, kappa)
    mode, fastest, log_fastest = None, None, None
    if growth is None:
        reasons |= dict.fromkeys(("dominant_mode", "max_rate", "exit_time"), UNKNOWN)
    else:
        fastest, log_fastest = growth.fastest, growth.log_fastest
        mode = growth.growing
        known["rates_near_dominant"] = growth.near and {
            k: _finite(rate) for k, rate in growth.near.items()
        }
        if mode is None:
            reasons["dominant_mode"] = STABLE
        known |= _exit(tokens, growth, reasons)
    if head is None or not _plain(head):
        needed = ("critical_noise", "transition", "plateau_lifetime")
        reasons |= dict.fromkeys((*needed, "expected_clusters", "cluster_distribution"), PLAIN)
        known |= _critical(field, dim)
    else:
        known |= _of_plain_head(head, dim, mode, kappa, reasons)
        samples = SAMPLES.get(dim) if samples is None else samples
        known |= _counts(head, dim, tokens, kappa, samples or 2, seed, reasons)
    theorem = _theorem(field, head, tokens, dim, reasons)
    known |= _limit_set(field, head, dim, reasons)
    result = Prediction(
        dim=dim,
        beta=None if head is None else float(head.beta),
        clock=field.clock or "none",
        tokens=tokens,
        noise=None if math.isinf(kappa) else kappa,
        rates=None if growth is None else [_finite(r) for r in growth.rates],
        dominant_mode=mode,
        max_rate=None if fastest is None else _representable(fastest),
        log_max_rate=log_fastest,
        single_cluster_theorem=theorem,
        **known,
    )
    return dataclasses.replace(result, reasons=_reasons_of(result, reasons))


def _of_gaussian(field: Field, start: Gaussian) -> Prediction:
    """The blow-up time of one softmax head with V = vI; everything else is about the sphere."""
    head, time, why = attention_of(field), None, "known for one softmax head with V = vI"
    alone = head is not None and field is head and head.normalized and not head.position
    if alone and head is not None and (head.value is None or head.value.ndim == 0):
        value = 1.0 if head.value is None else float(head.value)
        full = {name: m for name, m in matrices_of(head, start.dim).items() if name != "value"}
        query, key = (np.eye(start.dim) if m is None else m for m in full.values())
        form = math.copysign(float(head.beta), value) * key.T @ query
        time = gaussian.blow_up_time(np.asarray(start.cov), form) / abs(value) if value else None
        if time is None or math.isinf(time):
            time, why = None, "there is none: the covariance stays bounded"
    result = Prediction(
        dim=start.dim,
        beta=None if head is None else float(head.beta),
        clock=field.clock or "none",
        blow_up_time=time,
        about="gaussian",
    )
    space = "known of tokens on the sphere; this is a Gaussian in R^d"
    reasons = dict.fromkeys(("rates", *LABELS), space)
    return dataclasses.replace(result, reasons=reasons | ({} if time else {"blow_up_time": why}))


def _of_random_depth(field: CommonNoise, dim: int, tokens: int | None) -> Prediction:
    """Two tokens under common noise; time runs σ² times as fast as in `theory.random_depth`."""
    head = field.head if isinstance(field, RandomValue) else None
    beta = math.inf if head is None else float(head.beta)
    pair, speed = random_depth.PairDiffusion(beta, dim), float(field.strength)
    causal = head is not None and head.causal
    # Without attention log(1−ρ) has the drift −2 and variance 8: its mean grows.
    mean = speed * (2.0 if math.isinf(beta) else random_depth.moment_exponent(1.0, dim))
    known: dict[str, Any] = {}
    if isinstance(field, RandomValue) and not causal:
        known = {
            "consensus_exponent": speed * pair.consensus_exponent,
            "mean_exponent": mean,
            "antipodal_exponent": speed * pair.antipodal_exponent,
            "antipodal_beta": random_depth.antipodal_beta(dim),
            "antipodal_chance": pair.antipodal_chance() if dim > 2 else None,
        }
    elif not causal:
        several = speed * random_depth.moment_exponent(1.0, dim)
        known = {"consensus_exponent": speed * -(dim - 1.0), "mean_exponent": several}
    result = Prediction(
        dim=dim,
        beta=None if head is None else beta,
        clock=field.clock,
        tokens=tokens,
        about="random depth",
        **known,
    )
    plain = "known for one head with Q = K = I, without a mask"
    missing = [key for key in OTHERS["random depth"] if getattr(result, key) is None]
    steady = "known of a force that does not change"
    return dataclasses.replace(
        result, reasons=dict.fromkeys(("rates", *LABELS), steady) | dict.fromkeys(missing, plain)
    )


def _require(name: str, value: Any, least: int, most: int) -> None:
    if checks.integer(name, value, least) > most:
        power = len(str(most)) - 1
        raise ValueError(f"{name} must be an integer from {least} to 10^{power}; got a larger one.")


def _inverse_noise(field: Field) -> float:
    """κ of a field, ∞ without noise."""
    parts = getattr(field, "parts", (field,))
    least = min((float(p.kappa) for p in parts if isinstance(p, Noise)), default=math.inf)
    if least < LEAST_KAPPA:
        raise ValueError(
            f"kappa must be at least {LEAST_KAPPA:g} for a prediction; got {least:g}: under such "
            "noise alone every start becomes uniform."
        )
    rate = float(diffusion(field))
    return math.inf if rate == 0 else 1 / rate


def _exit(tokens: int | None, growth: Growth, reasons: dict[str, str]) -> dict[str, Any]:
    mode, fastest, log_fastest = growth.growing, growth.fastest, growth.log_fastest
    if mode is None or tokens is None or tokens < 2:
        few = NO_COUNT if tokens is None else "a single token is one cluster from the start"
        reasons["exit_time"] = STABLE if mode is None else few
        return {}
    if log_fastest is not None:
        log = spectrum.log_exit_time(tokens, log_fastest)
        value = spectrum.exit_time(tokens, fastest) if 1e-300 < fastest < 1e300 else _exp(log)
        return {"exit_time": value, "log_exit_time": log}
    return {"exit_time": _representable(spectrum.exit_time(tokens, fastest))}


def _of_plain_head(
    head: SelfAttention, dim: int, mode: int | None, kappa: float, reasons: dict[str, str]
) -> dict[str, Any]:
    """What is known for Q = K = V = I only; `mode` is the one that forms the first ring."""
    beta, normalized = float(head.beta), head.normalized
    log_life = None
    if dim != 2:
        reasons["plateau_lifetime"] = "known for rings on the circle (d = 2)"
    elif mode is None or not math.isinf(kappa):
        reasons["plateau_lifetime"] = STABLE if mode is None else NOISELESS
    elif mode == 1:
        reasons["plateau_lifetime"] = "mode 1 dominates: no ring forms before the end"
    else:
        log_life = _finite(ring.log_plateau_lifetime(beta, mode, normalized=normalized))
        reasons["plateau_lifetime"] = "the ring is stable"
    order = noise.transition_order(beta, dim, normalized=normalized)
    if order is None:
        reasons["transition"] = "an open question for softmax attention"
    log_critical = float(noise.log_critical_kappa(beta, dim, normalized=normalized))
    critical = float(noise.critical_kappa(beta, dim, normalized=normalized))
    return {
        "critical_noise": _representable(critical),
        "log_critical_noise": log_critical,
        "transition": order,
        "plateau_lifetime": None if log_life is None else _exp(log_life),
        "log_plateau_lifetime": log_life,
    }


def _critical(field: Field, dim: int) -> dict[str, Any]:
    """κ_# = min_ℓ ℓ(ℓ+d−2)/λ_ℓ over the growing degrees of a sum of isotropic forces."""
    growth = linear_growth(field, dim, math.inf)
    if growth is None or not np.isfinite(growth.rates).all():
        return {}
    degrees = np.arange(1.0, len(growth.rates) + 1)
    with np.errstate(divide="ignore", over="ignore"):
        bounds = degrees * (degrees + dim - 2) / np.where(growth.rates > 0, growth.rates, 0.0)
    least = float(bounds.min())
    return {"critical_noise": least} if math.isfinite(least) else {}


def _limit_set(
    field: Field, head: SelfAttention | None, dim: int, reasons: dict[str, str]
) -> dict[str, Any]:
    """ċ = P_cVc has the solution e^{tV}c/‖·‖: the eigenvalues of largest real part lead."""
    if head is None or field is not head or head.value is None or head.value.ndim == 0:
        reasons["limit_set"] = "known for one head with a matrix V; under V = vI a cluster stays"
        return {}
    roots: Any = np.linalg.eigvals(np.asarray(head.value))
    top = float(roots.real.max())
    leading = roots[roots.real > top - 1e-9 * max(1.0, float(np.abs(roots).max()))]
    turning = np.abs(leading.imag).max()
    if turning > 0:
        period = 2 * math.pi / turning
        text = f"it turns for ever, once in {period:.4g} units, in the plane of {top:.4g} ± "
        return {"limit_set": text + f"{turning:.4g}i"}
    if len(leading) == 1:
        return {"limit_set": f"to ±φ_1, the eigenvector of V of λ_1 = {top:.4g}"}
    return {"limit_set": f"to the eigenspace of V of λ_1 = {top:.4g}, dimension {len(leading)}"}


def _counts(
    head: SelfAttention,
    dim: int,
    tokens: int | None,
    kappa: float,
    samples: int,
    seed: int,
    reasons: dict[str, str],
) -> dict[str, Any]:
    beta, both = float(head.beta), ("expected_clusters", "cluster_distribution")
    if dim not in (2, 3):
        reasons |= dict.fromkeys(both, "known on the circle and on S² (d = 2 and 3)")
        return {}
    if not math.isinf(kappa) or beta == 0:
        why = "at β = 0 all tokens go to one point" if math.isinf(kappa) else NOISELESS
        reasons |= dict.fromkeys(both, why)
        return {}
    if tokens is None:
        reasons["cluster_distribution"] = NO_COUNT
        return {"expected_clusters": counts.expected_count(beta, dim)}
    if (why := counts.too_few(beta, dim, tokens)) is not None:
        reasons |= dict.fromkeys(both, why)
        return {}
    law = counts.count_distribution(beta, dim, tokens, samples=samples, seed=seed)
    reasons["cluster_distribution"] = (
        "too many counts are likely to list them: see expected_clusters and cluster_deviation"
    )
    return {
        "expected_clusters": law.mean,
        "cluster_distribution": dict(law.counts) or None,
        "cluster_deviation": law.deviation,
    }


def _plain(head: SelfAttention) -> bool:
    """Q = K = V = I, no mask: the field of the linear theory."""
    plain = head.isotropic and head.query is None and head.key is None and head.value is None
    return plain and scales(head) is not None


def _theorem(
    field: Field, head: SelfAttention | None, tokens: int | None, dim: int, reasons: dict[str, str]
) -> str | None:
    if (proved := cluster_theorem(field, dim, tokens, None)) is not None:
        return f"{proved.name}: {proved.statement} [{proved.source}]"
    if isinstance(field, LinearAttention) and field.plain:
        reasons["single_cluster_theorem"] = (
            "x and −x act alike: tokens end at both ends of one line (see theory.image_flow)"
        )
        return None
    if isinstance(field, StateSpace):
        reasons["single_cluster_theorem"] = (
            "tokens end at ±x_1, the first of them (C = B, V = I; see theory.follower_angle)"
        )
        return None
    if head is None or field is not head or len(head.position) > int(head.causal):
        reasons["single_cluster_theorem"] = (
            "theorems speak of one head alone: no noise, no other force, no positional scheme"
        )
        return None
    facts: dict[str, Any] = {"query": head.query, "key": head.key, "value": head.value}
    facts |= {"causal": head.causal, "normalized": head.normalized, "tokens": tokens or 10**12}
    result = regimes.single_cluster_theorem(float(head.beta), dim, **facts)
    if result is None:
        reasons["single_cluster_theorem"] = "no theorem covers these matrices"
        return None
    return f"{result.name}: {result.statement} [{result.source}]"


def _reasons_of(result: Prediction, reasons: dict[str, str]) -> dict[str, str]:
    """Why each of the shown quantities is None, for those that are."""
    missing = [key for key in ("rates", *LABELS) if getattr(result, key) is None]
    kept = {}
    for key in missing:
        if getattr(result, f"log_{key}", None) is not None:
            kept[key] = f"{BEYOND}: see log_{key}"
        else:
            kept[key] = reasons.get(key, UNKNOWN if key == "rates" else BEYOND)
    return kept


def matrices_of(head: SelfAttention, dim: int) -> dict[str, Any]:
    """Query, key and value as NumPy matrices, None for the identity."""

    def full(operator: Any) -> np.ndarray | None:
        if operator is None:
            return None
        array = np.asarray(operator)
        return array * np.eye(dim) if array.ndim == 0 else array

    return {name: full(getattr(head, name)) for name in ("query", "key", "value")}


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _representable(value: float) -> float | None:
    """The number, or None where it over- or underflowed."""
    return value if math.isfinite(value) and abs(value) > 1e-307 else None


def _exp(log: float) -> float | None:
    return math.exp(log) if abs(log) < 707 else None
