"""Real models, control and approximation: tokens of an ALBERT, steered tokens, many heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.comparison.verdict import judge, not_applicable
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import similarity
from metastable.observe.similarity import pairwise_similarity
from metastable.reproduce.finding import Finding, holds
from metastable.theory.equiangular import equiangular_cosine

__all__ = ["equivariant_heads", "layer_similarities", "neural_control"]


def layer_similarities(
    *, model: str, prompt: str, depth: int, shown: list[int], beta: float, times: list[float]
) -> Finding:
    """Inner products of all pairs through tied layers, in a trained ALBERT and in our flow."""
    surrogate, figures = _surrogate(beta, times)
    try:
        from metastable.models.capture import capture
        from metastable.models.folder import load

        network = load(model)
    except (ImportError, ValueError) as error:
        reason = f"needs transformers and the weights of {model}: {str(error).splitlines()[0]}"
        absent = not_applicable("cosines of an ALBERT gather at 1", "Figure 15", reason)
        return Finding([absent, *surrogate], figures, [reason])
    run = capture(network, prompt, depth=depth, progress=False)
    still = capture(network.untrained(0), prompt, depth=depth, progress=False)
    near = np.array([similarity(run.frames[k], delta=0.01).near for k in shown])
    trained = int(run.statistics["layers"])
    lost = np.diff(near).min()
    cosines = pairwise_similarity(run.frames[shown[-1]])[0]
    control = similarity(still.frames[shown[-1]], delta=0.01).near
    rows = [
        holds(f"share of pairs with cosine above 0.99 grows from layer {shown[0]} to {shown[-1]}",
              "Figure 15", lost >= 0 and near[-1] > near[0] + 0.002, "grows, a peak at 1",
              ", ".join(f"{100 * share:.2g} %" for share in near)),
        holds(f"in between, pairs stay apart at layer {shown[-1]}: share below 0.9",
              "text at Figure 15: a long metastable phase, few clusters",
              np.mean(cosines < 0.9) > 0.5, "most pairs", float(np.mean(cosines < 0.9))),
        holds("the same network before training is one point there: share of pairs above 0.99",
              "control", control > 0.99, "all pairs", round(float(control), 6)),
        *surrogate,
    ]  # fmt: skip
    figures = {"layers": _panels(run, shown, "layer"), **figures}
    note = (
        f"The document shows ALBERT XLARGE v2 on a paragraph of Wikipedia. Its weights are not in "
        f"a package; {model} is an ALBERT too, one layer applied {trained} times, here run on to "
        f"{depth}, on a chemical reaction."
    )
    return Finding(rows, figures, [note])


def _surrogate(beta: float, times: list[float]) -> tuple[list[Any], dict[str, Any]]:
    """Our flow from random tokens in high dimension, where all cosines follow one curve."""
    tokens, dim = 64, 512
    run = flow(uniform(tokens, dim, seed=0), SelfAttention(beta), times[-1], frames=times)
    exact = equiangular_cosine(times, beta, tokens)
    middle = [float(np.median(pairwise_similarity(x)[0])) for x in run.frames]
    # Independent directions have cosines of size d^(−1/2) = 0.04; their median far smaller ones.
    off = np.abs(np.array(middle) - exact).max()
    last = similarity(run.frames[-1], delta=0.01).near
    rows = [
        judge(f"surrogate, β = {beta:g}, {tokens} tokens: median cosine against γ_β, worst time",
              "Theorem 8 (SA clock)", 0.0, float(off), absolute=0.03),
        holds("surrogate: at the end all pairs above 0.99", "Theorem 5",
              last > 0.999, "all", last),
    ]  # fmt: skip
    return rows, {"surrogate": _panels(run, range(len(times)), "t =")}


def _panels(run: Any, shown: Any, word: str) -> Any:
    """Histograms of the inner products at some frames, side by side."""
    from metastable.report.style import CATEGORIES, INK, new_figure

    shown = list(shown)
    figure, axes = new_figure(1, len(shown), size=(1.75 * len(shown), 2.1))
    for ax, k in zip(np.ravel(axes), shown, strict=True):
        values = pairwise_similarity(run.frames[k])[0]
        low = min(-0.4, float(values.min()) - 0.05)
        ax.hist(values, np.linspace(low, 1.02, 60), density=True, color=CATEGORIES[0])
        ax.set_title(f"{word} {run.times[k]:g}")
        ax.set_xlabel("cosine")
        share = f"≥ 0.99:\n{100 * np.mean(values >= 0.99):.3g} %"
        ax.text(0.05, 0.95, share, transform=ax.transAxes, va="top", fontsize=7.5, color=INK)
    np.ravel(axes)[0].set_ylabel("density")
    clock = "tied layers" if run.clock == "none" or word == "layer" else f"{run.clock} clock"
    figure.set_label(
        f"Cosines of all pairs of {run.frames[0].count} different tokens ({clock}); heights differ "
        "from panel to panel."
    )
    return figure


def neural_control(
    *, tokens: list[int], dim: int, neurons: int, substeps: int, steps: int, starved: bool
) -> Finding:
    """A neural ODE, w tanh(ax + b) with switched weights, steers tokens to targets at will."""
    from metastable.learn.steering import Plant, steer_tokens
    from metastable.learn.steering_lesson import random_tokens
    from metastable.report.plots import draw_lines
    from metastable.report.steering import draw_paths

    errors, switches, figures = [], [], {}
    for count in tokens:
        x, y = (random_tokens(count, dim, seed, False) for seed in (1, 2))
        plant = Plant(dim, attention=False, neurons=neurons, pieces=max(2, count // 2),
                      on_sphere=False, substeps=substeps)  # fmt: skip
        found = steer_tokens(x, y, plant, steps=steps, progress=False)
        errors.append(float(found.errors.max()))
        switches.append(plant.switches)
        figures = {"paths": draw_paths(found, x, y)}
    rows = [
        holds(f"largest distance from the target, {', '.join(map(str, tokens))} tokens",
              "equation 6, neural ODE; arXiv:2104.05278", max(errors) < 1e-3, "below 0.001",
              max(errors)),
        holds("switches of the control", "O(n) switches suffice",
              all(s <= n for s, n in zip(switches, tokens, strict=True)), "at most one a token",
              ", ".join(map(str, switches))),
    ]  # fmt: skip
    if starved:
        lone = Plant(dim, attention=False, neurons=1, pieces=1, on_sphere=False, substeps=substeps)
        stuck = float(steer_tokens(x, y, lone, steps=steps, progress=False).errors.max())
        rows.append(
            holds("one neuron without a switch has too few numbers: largest distance",
                  "fewer parameters than coordinates", stuck > 1e-2, "stays away", stuck)
        )  # fmt: skip
    if len(tokens) > 1:
        figures["errors"] = draw_lines(
            {"worst token": (tokens, np.maximum(errors, 1e-16))}, "tokens n",
            "distance from the target", f"Tokens of R^{dim}, {steps} steps of training.", log="y",
        )  # fmt: skip
    return Finding(rows, figures)


def equivariant_heads(
    *, heads: list[int], tokens: int, dim: int, samples: int, seeds: int
) -> Finding:
    """One layer of H heads with the best values for random scores, against equivariant maps."""
    from metastable.learn.equivariant import (
        TARGETS,
        attend,
        best_values,
        even_share,
        head_means,
    )
    from metastable.learn.equivariant import Heads as Layer
    from metastable.numerics import jax, jnp
    from metastable.report.plots import draw_lines
    from metastable.sphere import uniform_points

    names = ("cube", "nearest", "mirror")

    def configurations(seed: int) -> Any:
        half = uniform_points(jax.random.key(seed), samples * tokens // 2, dim)
        half = half.reshape(samples // 2, tokens, dim)
        return jnp.concatenate([half, -half])  # a law symmetric under X → −X, exactly

    missed = np.zeros((len(heads), len(names), seeds))
    odd = 0.0
    for seed in range(seeds):
        x, test = configurations(seed), configurations(1000 + seed)
        goals, wanted = (jnp.stack([TARGETS[name](z) for name in names]) for z in (x, test))
        for k, count in enumerate(heads):
            one, two = jax.random.split(jax.random.fold_in(jax.random.key(seed), count))
            size = jnp.exp(jax.random.uniform(two, (count, 1, 1), minval=-1.0, maxval=3.0))
            score = size * jax.random.normal(one, (count, dim, dim))
            values = best_values(score, x, goals)
            answers = jnp.einsum("bihe,thde->tbid", head_means(score, test), values)
            gap = jnp.sum((answers - wanted) ** 2, axis=(1, 2, 3))
            missed[k, :, seed] = np.sqrt(gap / jnp.sum(wanted**2, axis=(1, 2, 3)))
        layer = Layer(score, values[0])
        odd = max(odd, float(jnp.abs(attend(layer, -test) + attend(layer, test)).max()))
    mean, wide = missed.mean(axis=2), missed.std(axis=2)
    even = [even_share(TARGETS[name], x) for name in names]
    rows = [
        holds(f"every equivariant map is approached as H grows: error of an even one, H = "
              f"{heads[-1]}", "Open Question 1", mean[-1, 2] < 0.5 * mean[0, 2],
              "falls towards 0", float(mean[-1, 2])),
        holds("an even map stays at least at the distance of its even part",
              "scores are even, values odd; derived", mean[-1, 2] >= even[2] - 1e-6,
              f"at least {even[2]:.4g}", float(mean[-1, 2])),
        judge("every layer is odd, f(−X) = −f(X): largest error", "derived", 0.0, odd,
              absolute=1e-9 * float(jnp.abs(values[0]).sum())),
        holds(f"odd maps come nearer with H: errors at H = {heads[0]} and {heads[-1]}",
              "Open Question 1, odd maps in L²",
              bool((mean[-1, :2] < 0.8 * mean[0, :2]).all()), "fall by a fifth or more",
              ", ".join(f"{n}: {a:.3f} to {b:.3f}" for n, a, b in
                        zip(names, mean[0], mean[-1], strict=True) if n != "mirror")),
    ]  # fmt: skip
    figure = draw_lines(
        {name: (heads, mean[:, k], wide[:, k]) for k, name in enumerate(names)},
        "heads H", "relative L² error", log="xy", lines=True,
        caption=f"Random scores, best values; {tokens} tokens on S^{dim - 1}, bars over {seeds} "
        "seeds. The answer 0 has error 1.",
    )  # fmt: skip
    figure.axes[0].set_xticks(heads, [str(count) for count in heads])
    figure.axes[0].set_xticks([], minor=True)
    return Finding(rows, {"errors": figure})
