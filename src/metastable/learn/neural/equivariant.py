"""One layer of attention with H heads as an approximator of permutation-equivariant maps.

f_i(x_1 … x_n) = Σ_h Σ_j softmax_j⟨x_i, A_h x_j⟩ V_h x_j, projected or not. Whether H → ∞ reaches
every equivariant map of tokens on the sphere is posed as an open problem by Geshkovski, Letrouit,
Polyanskiy and Rigollet, arXiv:2312.10794; this measures it for some maps.

Two things are out of reach for every H, derived here. Scores are even in X = (x_1 … x_n) and values
odd, so f(−X) = −f(X): in L² of any symmetric law f is at least as far from a map as the size of the
map's even part. And f(x, …, x) = Σ_h V_h x is linear, so uniform approximation fails for maps that
are not linear where all tokens agree. Open is the approximation of odd maps in L².
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.result import Answer
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.geometry.sphere import project, retract, uniform_points
from metastable.learn.curves import Curves, make_answer
from metastable.learn.spec import Equivariant
from metastable.learn.training import Training, adam, options_in, train
from metastable.measures import Points

TEST = 2048  # configurations for the error that is reported
WORDS = {
    "tangent": "projected to the tangent space of the token",
    "unit": "normalised to the sphere",
    "free": "without projection",
}


class Heads(NamedTuple):
    """H heads: scores A_h = βQ_hᵀK_h and values V_h, both (H, d, d)."""

    score: Array
    value: Array


def head_means(score: Float[Array, "H d d"], x: Float[Array, "b n d"]) -> Float[Array, "b n H d"]:
    """What each head sees from each token: Σ_j softmax_j⟨x_i, A_h x_j⟩ x_j."""
    scores = jnp.einsum("bid,hde,bje->bhij", x, score, x)
    return jnp.einsum("bhij,bje->bihe", jax.nn.softmax(scores, axis=-1), x)


def apply_heads(heads: Heads, x: Float[Array, "b n d"]) -> Float[Array, "b n d"]:
    """Σ_h V_h Σ_j softmax_j⟨x_i, A_h x_j⟩ x_j for each token of each configuration."""
    return jnp.einsum("bihe,hde->bid", head_means(heads.score, x), heads.value)


def best_values(
    score: Float[Array, "H d d"], x: Float[Array, "b n d"], goals: Float[Array, "t b n d"]
) -> Float[Array, "t H d d"]:
    """The values V_h that fit each target best, without projection, for given scores.

    Least squares, with a ridge of 1e−10 of the mean eigenvalue: many heads see nearly the same. It
    is convex, so that what it misses is missing in the scores, not in the training.
    """
    H, d, _ = score.shape
    means = head_means(score, x).reshape(-1, H * d)
    gram = means.T @ means
    gram = gram + 1e-10 * jnp.trace(gram) / len(gram) * jnp.eye(len(gram))
    wanted = jnp.moveaxis(goals, 0, -2).reshape(len(means), -1)  # one column a target and axis
    values = jax.scipy.linalg.solve(gram, means.T @ wanted, assume_a="pos")
    return jnp.transpose(values.reshape(H, d, -1, d), (2, 0, 3, 1))


def respond(y: Float[Array, "b n d"], x: Float[Array, "b n d"], output: str) -> Array:
    """What becomes of the sum over heads y at the token x: "tangent", "unit" or "free".

    P_x y = y − ⟨x,y⟩x is the projection of the dynamics; it cannot take values on the sphere, so
    that a target is projected too. y/‖y‖ is what takes values there.
    """
    if output == "tangent":
        return project(x, y)
    return retract(y) if output == "unit" else y


def _flowed(x: Array) -> Array:
    end = lambda x: flow(Points(x), SelfAttention(4.0), 1.0, frames=2).frames[-1].points
    return jax.jit(jax.vmap(end))(x)


def _nearest(x: Array) -> Array:
    products = jnp.einsum("bid,bjd->bij", x, x) - 3.0 * jnp.eye(x.shape[1])
    return jnp.take_along_axis(x, jnp.argmax(products, axis=-1)[..., None], axis=1)


# Permutation-equivariant maps of (S^{d−1})^n to itself.
# - flow: where self-attention takes the tokens in time 1, β = 4. Odd, smooth.
# - cube: each coordinate of each token to its third power, normalised. Odd; looks at one token.
# - nearest: the token nearest to each one, itself aside. Odd, with jumps.
# - mirror: the first axis reflected in the line of each token; on the circle, the doubled angle.
#   Even, hence at distance 1 (√2 for unit outputs) from every f.
TARGETS: dict[str, Callable[[Array], Array]] = {
    "flow": _flowed,
    "cube": lambda x: retract(x**3),
    "nearest": _nearest,
    "mirror": lambda x: 2 * x[..., :1] * x - jnp.eye(x.shape[-1])[0],
}


def even_share(target: Callable[[Array], Array], x: Float[Array, "b n d"]) -> float:
    """‖even part‖/‖target‖ in L² of a symmetric sample: a lower bound on the error of any H."""
    here, there = target(x), target(-x)
    return float(jnp.linalg.norm(here + there) / 2 / jnp.linalg.norm(here))


class Fits(NamedTuple):
    """Configurations x (s, b, n, d), one set a seed, and their targets (t, s, b, n, d)."""

    x: Array
    goals: Array

    def errors(self, parameters: Heads, outputs: tuple[str, ...]) -> Array:
        """Mean square errors over mean square targets, (t, o, s), of heads (t, o, s, H, d, d)."""
        y = jax.vmap(jax.vmap(jax.vmap(apply_heads), (0, None)), (0, None))(parameters, self.x)
        size = lambda z: jnp.sum(z**2, axis=(2, 3, 4))

        def error(k: int, output: str) -> Array:
            wanted = project(self.x, self.goals) if output == "tangent" else self.goals
            return size(respond(y[:, k], self.x, output) - wanted) / size(wanted)

        return jnp.stack([error(k, output) for k, output in enumerate(outputs)], axis=1)


def learn_equivariant(
    spec: Equivariant, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Fit all targets with every number of heads, and report the error on fresh configurations.

    All fits of one H are trained at once: they share the steps of Adam, which acts on each number
    by itself, and nothing else.
    """
    outcome = Outcome("done", "All fits were made.")
    errors: dict[tuple[int, int], np.ndarray] = {}
    shares: dict[str, float] = {}
    curves: dict[str, Curves] = {}
    for d in spec.dims:
        key = jax.random.fold_in(jax.random.key(spec.seed), d)
        data = _draw(spec, d, jax.random.fold_in(key, 0), spec.samples)
        test = _draw(spec, d, jax.random.fold_in(key, 1), TEST)
        for name in spec.targets:
            shares[f"{name}, d = {d}"] = even_share(TARGETS[name], test.x[0])
        for H in spec.heads:
            training = _fit(spec, data, H, key, checkpoint, progress)
            if training.outcome.name != "done":
                outcome = training.outcome
                break
            errors[d, H] = np.sqrt(test.errors(training.parameters, spec.outputs))
        if outcome.name != "done":
            break
        curves |= _random_heads(spec, data, test, jax.random.fold_in(key, 1))
    facts: dict[str, Any] = {
        "tokens": spec.tokens,
        "seeds": spec.seeds,
        "training": f"{spec.steps} steps of Adam, batches of {spec.batch} of {spec.samples}",
        "even share, out of reach": shares,
    }
    for d in spec.dims:
        done = [H for H in spec.heads if (d, H) in errors]
        for k, output in enumerate(spec.outputs if done else ()):
            missed = np.stack([errors[d, H][:, k] for H in done])  # (heads, targets, seeds)
            means = zip(spec.targets, missed[-1].mean(axis=1).tolist(), strict=True)
            facts[f"error at H = {done[-1]}, d = {d}, {output}"] = dict(means)
            words = f"Trained heads, d = {d}, {spec.tokens} tokens, the output {WORDS[output]}."
            curves[f"{output}_{d}"] = _curves(spec, done, missed, words)
    sentence = f"{len(spec.targets)} equivariant maps fitted by up to {max(spec.heads)} heads"
    if errors:
        best = list(errors.values())[-1].mean(axis=-1)
        sentence += f": relative errors of {best.min():.2g} to {best.max():.2g} with the most"
    sentence += "."
    return make_answer(sentence, facts, curves, outcome)


def _random_heads(spec: Equivariant, data: Fits, test: Fits, key: Any) -> dict[str, Curves]:
    """The same error, without projection, of heads with random scores and the best values."""

    @jax.jit
    def missed(score: Array, here: Fits, there: Fits) -> Array:
        values = best_values(score, here.x, here.goals)
        answers = jnp.einsum("bihe,thde->tbid", head_means(score, there.x), values)
        gap = jnp.sum((answers - there.goals) ** 2, axis=(1, 2, 3))
        return jnp.sqrt(gap / jnp.sum(there.goals**2, axis=(1, 2, 3)))

    d = data.x.shape[-1]
    found = np.empty((len(spec.random), len(spec.targets), spec.seeds))
    for k, H in enumerate(spec.random):
        for seed in range(spec.seeds):
            first, second = jax.random.split(jax.random.fold_in(key, H * spec.seeds + seed))
            # Scores of all sizes between nearly a mean and nearly a choice.
            size = jnp.exp(jax.random.uniform(second, (H, 1, 1), minval=-1.0, maxval=3.0))
            score = size * jax.random.normal(first, (H, d, d))
            here, there = (Fits(part.x[seed], part.goals[:, seed]) for part in (data, test))
            found[k, :, seed] = missed(score, here, there)
    words = f"Heads with random scores and the best values, d = {d}, without projection."
    return {f"random_{d}": _curves(spec, spec.random, found, words)} if spec.random else {}


def _curves(spec: Equivariant, heads: Any, found: np.ndarray, words: str) -> Curves:
    """A figure of errors (heads, targets, seeds)."""
    spread = found.std(axis=2, ddof=min(1, spec.seeds - 1))
    x, names = np.array(heads), list(enumerate(spec.targets))
    lines = {name: (x, found[:, k].mean(axis=1)) for k, name in names}
    bars = {name: spread[:, k] for k, name in names}
    caption = f"{words} Bars: one standard deviation over {spec.seeds} seeds."
    caption += " The answer 0 has error 1."
    return Curves("heads H", "relative L² error", lines, {}, caption, bars, powers=True)


def _draw(spec: Equivariant, d: int, key: Any, count: int) -> Fits:
    draw = lambda key: uniform_points(key, count * spec.tokens, d).reshape(count, spec.tokens, d)
    x = jax.vmap(draw)(jax.random.split(key, spec.seeds))
    flat = x.reshape(-1, spec.tokens, d)
    return Fits(x, jnp.stack([TARGETS[name](flat).reshape(x.shape) for name in spec.targets]))


def _fit(
    spec: Equivariant, data: Fits, H: int, key: Any, folder: Path | None, progress: bool | None
) -> Training:
    d = data.x.shape[-1]
    shape = (len(spec.targets), len(spec.outputs), spec.seeds, H, d, d)
    first, second = jax.random.split(jax.random.fold_in(key, 2 + H))
    # Scores of a few units tell tokens apart at the start; values so small that the sum of heads
    # does not grow with H.
    value = jax.random.normal(second, shape) / np.sqrt(H * d)
    heads = Heads(2.0 * jax.random.normal(first, shape), value)
    some = lambda data, places: Fits(data.x[:, places], data.goals[:, :, places])

    def draw(data: Fits, key: Any, step: Any) -> Fits:
        key = jax.random.fold_in(key, step)
        return some(data, jax.random.randint(key, (spec.batch,), 0, spec.samples))

    loss = lambda heads, batch: jnp.sum(batch.errors(heads, spec.outputs))
    method, first_batch = adam(loss, spec.rate, spec.steps), some(data, slice(spec.batch))
    options: dict[str, Any] = options_in(folder, f"d{d}_heads{H}", progress) | {
        "title": f"d = {d}, {H} heads"
    }
    options |= {"validation": first_batch, "seed": spec.seed}
    return train(heads, method, data, steps=spec.steps, draw=draw, **options)
