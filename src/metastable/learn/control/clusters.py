"""Clusters on demand: train β and V so that tokens of the circle form k clusters at a set depth."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from scipy.optimize import minimize_scalar

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.result import Answer
from metastable.fields import Field, MultiHead, SelfAttention
from metastable.geometry.sphere import retract, uniform_points
from metastable.learn.control.feedforward import well_layer
from metastable.learn.curves import Curves, make_answer
from metastable.learn.spec import ClustersOnDemand, Free
from metastable.learn.training import Interrupted, Training, adam, options_in, train
from metastable.measures import Points
from metastable.observe import kernel_modes
from metastable.theory.counts import count_distribution, fewest_tokens
from metastable.theory.perturbation import balanced_strength, pinning_strength
from metastable.theory.spectrum import switch_points

WEAK = 0.01  # strength of the layer before training


class ClusterHeads(NamedTuple):
    """What is trained: `log_beta` and `value` (H,) of the heads, `strength` of the layer.

    A strength below zero turns the wells by half their distance.
    """

    log_beta: Any
    value: Any
    strength: Any


@dataclasses.dataclass(frozen=True)
class Demand:
    """`clusters` k wanted of `tokens` independent uniform tokens at depth `horizon` (SA clock).

    - `free`: what is trained, "beta" (V = I), "value" (β and V = vI, whose v is the clock), "heads"
      (all β_h and V_h = v_h I of three heads) or "layer" (β, v and the strength ε of a
      feed-forward layer with k wells, `well_layer`).
    - `steps`: midpoint steps of a training run; `starts`: fresh random starts in each batch.
    - `width`: β of the kernel whose maxima are counted. It resolves √(2·width) clusters, and is the
      same for every field, so that a field cannot win by blurring.
    """

    clusters: int
    tokens: int = 96
    horizon: float = 10.0
    free: str = "heads"
    steps: int = 32
    starts: int = 8
    width: float = 24.0

    def __post_init__(self) -> None:
        for name, least in (("clusters", 1), ("tokens", 2), ("steps", 1), ("starts", 1)):
            checks.integer(name, getattr(self, name), least)
        checks.positive("horizon", self.horizon)
        checks.positive("width", self.width)
        if self.free not in get_args(Free):
            names = ", ".join(get_args(Free))
            raise ValueError(f"free must be one of {names}; got {self.free!r}.")

    def first(self, beta: float | None = None) -> ClusterHeads:
        """Where training starts: `beta`, by default k²/2, the linear theory's round figure."""
        beta = float(self.clusters**2 / 2 if beta is None else checks.positive("beta", beta))
        heads = [0.25, 1.0, 4.0], [-0.1, 1.0, -0.1]
        ratios, values = heads if self.free == "heads" else ([1.0], [1.0])
        return ClusterHeads(jnp.log(beta * jnp.array(ratios)), jnp.array(values), jnp.asarray(WEAK))

    def field(self, heads: ClusterHeads) -> Field:
        """The field; what is not free keeps its value, whatever an optimiser does to it."""
        betas = jnp.exp(heads.log_beta)
        if self.free == "beta":
            return SelfAttention(betas[0])
        if self.free == "heads":
            each = [SelfAttention(betas[h], value=v) for h, v in enumerate(heads.value)]
            return MultiHead(each)
        attention = SelfAttention(betas[0], value=heads.value[0])
        if self.free == "value":
            return attention
        return attention + well_layer(heads.strength, self.clusters)


def wanted_loss(angles: Any, clusters: int) -> Any:
    """1 − |μ̂_k|² + Σ_{0<j<k} |μ̂_j|², with μ̂_j = Σ e^{−ijθ}/n over the last axis.

    Zero exactly for k equal clusters in a regular polygon: |μ̂_k| = 1 puts tokens at the corners of
    a k-gon, and the lower coefficients vanish only when its corners are equally full. Derived here.

    >>> float(wanted_loss(2 * jnp.pi * jnp.arange(3) / 3, 3)) < 1e-15
    True
    """
    modes = jnp.arange(1, clusters + 1)[:, None]
    power = jnp.abs(jnp.mean(jnp.exp(-1j * modes * angles[..., None, :]), axis=-1)) ** 2
    return 1 - power[..., -1] + jnp.sum(power[..., :-1], axis=-1)


def miss(demand: Demand, heads: ClusterHeads, starts: Any) -> Any:
    """The training loss: mean of `wanted_loss` at the horizon over starts (s, n, 2)."""
    ends = _arrive(demand, heads, starts, demand.steps)
    return jnp.mean(wanted_loss(jnp.arctan2(ends[..., 1], ends[..., 0]), demand.clusters))


def train_clusters(
    demand: Demand,
    *,
    steps: int = 150,
    rate: float = 0.05,
    beta: float | None = None,
    seed: int = 0,
    **options: Any,
) -> Training:
    """Train the heads of a `Demand` by Adam, on fresh random starts in every step.

    The parameters are `ClusterHeads`; validation is on a fixed set of starts. `beta` is where it
    begins; `options` are `checkpoint` and `progress`, as for `train`.
    """
    method = adam(lambda heads, starts: miss(demand, heads, starts), rate, steps, final=0.05)
    fixed = _draw(demand, jax.random.key(10_000 + seed), 4 * demand.starts)
    draw = lambda data, key, step: _draw(demand, jax.random.fold_in(key, step), demand.starts)
    options |= {"every": max(1, steps // 30), "seed": seed, "title": f"{demand.clusters} clusters"}
    return train(demand.first(beta), method, fixed, steps=steps, draw=draw, **options)


def count_clusters(
    demand: Demand, heads: ClusterHeads, starts: int = 50, seed: int = 1, tokens: int | None = None
) -> np.ndarray:
    """How many clusters each of `starts` fresh starts has at the horizon: (starts,).

    Maxima of the kernel density at β = `width` (`observe.kernel_modes`), after steps four times
    shorter than those of training.
    """
    demand = demand if tokens is None else dataclasses.replace(demand, tokens=tokens)
    begin = _draw(demand, jax.random.key(20_000_000 + checks.seed(seed)), starts)
    arrive = jax.jit(lambda x: _arrive(demand, heads, x, 4 * demand.steps))
    return np.array([int(kernel_modes(Points(x), demand.width)) for x in np.asarray(arrive(begin))])


def success(counts: np.ndarray, clusters: int) -> tuple[float, float, float]:
    """The share of starts with k clusters, and Wilson's 95 % interval around it.

    >>> [round(x, 3) for x in success(np.array([3] * 45 + [4] * 5), 3)]
    [0.9, 0.786, 0.957]
    """
    n, p, z = len(counts), float(np.mean(counts == clusters)), 1.959964
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return p, middle - half, middle + half


def chosen_beta(clusters: int, tokens: int, samples: int = 200) -> tuple[float, float]:
    """The β that linear theory takes for k clusters on the circle, and P(k) there.

    The maximum over β of P(k) = `count_distribution(β).counts[k]` where mode k dominates, and
    somewhat beyond. Below the first switch, 1.0445, one mode alone grows.
    """
    edges = np.r_[0.3, switch_points(2, clusters + 1)]
    low, high = edges[clusters - 1], edges[clusters]
    reach = 0.5 * (high - low)

    def chance(beta: float) -> float:
        # Below this many tokens there is no law; a few tokens have its β for a guide all the same.
        least = fewest_tokens(float(beta), 2)
        law = count_distribution(float(beta), 2, max(tokens, least), samples=samples, seed=3)
        return law.counts.get(clusters, 0.0)

    bounds, how = (max(0.2, low - reach), high + reach), {"xatol": 0.05, "maxiter": 9}
    best: Any = minimize_scalar(lambda b: -chance(b), bounds=bounds, method="bounded", options=how)
    return float(best.x), -float(best.fun)


def learn_clusters(
    spec: ClustersOnDemand, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out an `ClustersOnDemand`: for every k and every set of free parameters."""
    facts: dict[str, Any] = {
        "tokens": spec.tokens,
        "asked depth": spec.horizon,
        "fresh starts": spec.tests,
        "counted": f"maxima of the kernel density at β = {spec.width:g}",
    }
    shares: dict[str, dict[int, tuple[float, float, float]]] = {}
    losses: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    outcome = Outcome("done", "Every field was trained.")
    asked = lambda k, free: Demand(k, spec.tokens, spec.horizon, free, width=spec.width)
    try:
        for k in spec.clusters:
            beta, chance = chosen_beta(k, spec.tokens)
            facts[f"k = {k}: linear theory's β and P(k) at exit"] = {"β": beta, "P": chance}
            alone = asked(k, "beta")
            counts = count_clusters(alone, alone.first(beta), spec.tests, spec.seed + 1)
            shares.setdefault("theory's β, V = I", {})[k] = success(counts, k)
            for free in spec.free:
                demand, options = asked(k, free), options_in(checkpoint, f"{free}_{k}", progress)
                options |= {"rate": spec.rate, "seed": spec.seed}
                training = train_clusters(demand, steps=spec.steps, **options)
                heads = training.finished().parameters
                counts = count_clusters(demand, heads, spec.tests, spec.seed + 1)
                shares.setdefault(f"trained: {free}", {})[k] = success(counts, k)
                facts[f"k = {k}, trained: {free}"] = _parameters(demand, heads)
                losses.setdefault(free, {})[f"k = {k}"] = (training.checks, training.validation)
    except Interrupted as interrupted:
        outcome = interrupted.outcome
    facts["shares"] = {n: {str(k): s[0] for k, s in each.items()} for n, each in shares.items()}
    table = {n: np.array([s for s in each.values()]) for n, each in shares.items()}
    figures = {
        "shares": Curves(
            "clusters asked for, k",
            "share of fresh starts with k clusters",
            {name: (np.array(list(shares[name])), rows[:, 0]) for name, rows in table.items()},
            {"asked": 0.8},
            "Clusters on demand: share of fresh starts, with Wilson's 95 % intervals.",
            bars={name: (rows[:, 2] - rows[:, 1]) / 2 for name, rows in table.items()},
        )
    }
    for free, lines in losses.items():
        caption = f"Loss 1 − |μ̂_k|² + Σ|μ̂_j|² on fixed starts, free: {free}."
        figures[f"loss_{free}"] = Curves("step", "loss", lines, caption=caption)
    counts = dict.fromkeys(k for each in shares.values() for k in each)
    best = {k: max(each[k][0] for each in shares.values() if k in each) for k in counts}
    listed = ", ".join(f"{share:.0%} of starts for {k}" for k, share in best.items())
    sentence = f"As many clusters as asked for, with the best field: {listed}."
    return make_answer(sentence, facts, figures, outcome)


def _parameters(demand: Demand, heads: ClusterHeads) -> dict[str, Any]:
    betas = np.exp(np.asarray(heads.log_beta))
    facts: dict[str, Any] = {"β": betas.round(3).tolist()}
    if demand.free != "beta":
        facts["v"] = np.asarray(heads.value).round(3).tolist()
    if demand.free == "layer":
        k, strength = demand.clusters, abs(float(heads.strength))
        facts["ε"] = strength
        facts["ε/ε_c"] = strength / balanced_strength(betas[0], k)
        facts["ε/pinning"] = strength / pinning_strength(betas[0], k, demand.tokens)
    return facts


def _draw(demand: Demand, key: Any, starts: int) -> Any:
    return uniform_points(key, starts * demand.tokens, 2).reshape(starts, demand.tokens, 2)


def _arrive(demand: Demand, heads: ClusterHeads, starts: Any, steps: int) -> Any:
    field, h = demand.field(heads), demand.horizon / steps
    velocity = jax.vmap(lambda x: field.velocity(Points(x)))

    @jax.checkpoint
    def step(x, _):
        return retract(x + h * velocity(retract(x + h / 2 * velocity(x)))), None

    return jax.lax.scan(step, starts, length=steps)[0]
