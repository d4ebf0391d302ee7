"""Layers of attention and their flow."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Layers, flow
from metastable.measures import orthogonal
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.equiangular import equiangular_cosine

from ._depths import layer_axis, power_of_depth

ENTRY = Entry(
    title="Layers of attention and their flow",
    places=["section on transformers: the deep limit on the sphere"],
    claim=(
        "A stack of self-attention layers, each followed by a normalisation, tends to a flow "
        "on the sphere as the number of layers grows and the step shrinks."
    ),
    method=(
        "Layers on orthogonal tokens, whose flow is known exactly, for more and more layers "
        "of a fixed total depth."
    ),
    subject="networks",
    basis="text",
    limits=(
        "Eight orthogonal tokens at β = 3 up to depth 512 and total time 4; no feed-forward part."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 8, "beta": 3.0, "horizon": 4.0, "depths": [16, 32, 64, 128, 256, 512]},
    fast={"depths": [32, 64, 128]},
)


def attention_layers(*, tokens: int, beta: float, horizon: float, depths: list[int]) -> Finding:
    """Layers of self-attention, normalised after each, against an exact solution of the flow."""
    start, field = orthogonal(tokens, tokens, seed=0), SelfAttention(beta)
    apart = np.triu_indices(tokens, 1)
    errors, curves, long = [], {}, 0.0
    for depth in depths:
        run = flow(start, field, horizon, stepper=Layers(horizon / depth), frames=depth + 1)
        cosines = np.array([np.asarray(x.points @ x.points.T)[apart] for x in run.frames])
        exact = equiangular_cosine(run.times, beta, tokens)
        errors.append(float(np.abs(cosines - exact[:, None]).max()))
        long = max(long, float(run.statistics["max_norm_drift"]))
        if depth in (depths[0], depths[-1]):
            curves[f"L = {depth}"] = (run.times, cosines.mean(axis=1))
    rows = [
        judge("power of L in the largest error of a cosine, over all layers",
              "large-depth limit of the self-attention layer", -1.0, power_of_depth(depths, errors),
              absolute=0.08),
        holds(f"error at L = {depths[-1]}", "the same", errors[-1] < 4 * horizon / depths[-1],
              f"below 4T/L = {4 * horizon / depths[-1]:.3g}", errors[-1]),
        judge("tokens stay on the sphere: largest error of a length", "N(y) = y/|y|", 0.0, long,
              absolute=1e-14),
    ]  # fmt: skip
    times = np.linspace(0, horizon, 101)
    figures = {
        "cosines": plot_lines(
            curves, "depth t (SA clock)", "cosine of every pair",
            f"{tokens} orthogonal tokens, β = {beta:g}: layers and the exact flow.",
            theory={"flow": (times, equiangular_cosine(times, beta, tokens))},
        ),
        "errors": plot_lines(
            {"layers": (depths, errors)}, layer_axis(depths), "largest error of a cosine", log="xy",
            caption="Against the exact solution, all layers.",
            theory={"1/L": (depths, errors[-1] * depths[-1] / np.array(depths))},
        ),
    }  # fmt: skip
    return Finding(rows, figures)
