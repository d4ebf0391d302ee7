"""Several heads, several stable clusters."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import MultiHead, SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.basins import find_equilibria
from metastable.observe.equilibria import Share
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Several heads, several stable clusters",
    places=["discussion: multi-head attention"],
    claim=(
        "With several heads there are, for some choices of their matrices, locally stable "
        "states of several clusters."
    ),
    method=(
        "Random starts followed to rest with a head that attracts and one that repels, and "
        "with the first alone; the states found are kicked and must come back."
    ),
    subject="clusters",
    basis="text",
    limits="Six tokens in d = 3, one pair of heads (β = 4 and 1, outputs 1 and −0.8), 200 starts.",
    planted="SelfAttention.beta * 0.1",
    settings={"tokens": 6, "dim": 3, "starts": 200, "betas": [4.0, 1.0], "outputs": [1.0, -0.8]},
    fast={"tokens": 5, "starts": 24},
)


def stable_heads(
    *, tokens: int, dim: int, starts: int, betas: list[float], outputs: list[float]
) -> Finding:
    """Several heads have stable states of several clusters; one head has none."""
    heads = [SelfAttention(beta) for beta in betas]
    several = MultiHead(heads, outputs=list(outputs))
    # One head is the sum with the others switched off: the same compiled search serves both.
    alone = MultiHead(heads, outputs=[outputs[0], *(0.0 for _ in outputs[1:])])
    found = {
        name: find_equilibria(field, tokens, dim, starts)
        for name, field in (("one head", alone), ("several heads", several))
    }
    counts = {
        name: np.bincount(
            [one.groups.count for one in states for _ in range(one.share.hits if one.share else 0)],
            minlength=tokens + 1,
        )
        for name, states in found.items()
    }
    share = Share(int(counts["several heads"][2:].sum()), starts)
    random, far = np.random.default_rng(0), math.inf
    for one in found["several heads"][:1]:
        x = np.asarray(one.measure.points)
        kicked = x + 0.02 * random.standard_normal(x.shape)
        kicked = Points(kicked / np.linalg.norm(kicked, axis=1, keepdims=True))
        back = np.asarray(flow(kicked, several, 25 / -one.rate, frames=2).frames[-1].points)
        far = float(np.abs(back @ back.T - x @ x.T).max())
    most = int(np.flatnonzero(counts["several heads"]).max(initial=1))
    rows = [
        holds("share of random starts that end in several clusters, several heads",
              "discussion after the talk", share.interval[0] > 0.5, "most of them", repr(share)),
        judge("share that end in one cluster, one head", "clustering theorem", 1.0,
              float(counts["one head"][1] / starts), absolute=0.0),
        judge("its commonest end, kicked by 0.02, comes back: largest error of inner products",
              "locally stable", 0.0, far, absolute=1e-6),
    ]  # fmt: skip
    places = list(range(1, most + 1))
    figure = plot_bars(
        places, {name: (seen[1 : most + 1] / starts).tolist() for name, seen in counts.items()},
        "clusters at the end", "share of starts",
        f"{starts} starts of {tokens} tokens on S^{dim - 1}; heads β = {betas} with weights "
        f"{outputs}, and the first alone.",
    )  # fmt: skip
    return Finding(rows, {"ends": figure})
