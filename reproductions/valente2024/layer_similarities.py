"""Inner products through the layers of an ALBERT."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.figure import Axis, Histogram, Panels
from metastable.core.verdict import judge, not_applicable
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import similarity
from metastable.observe.similarity import pairwise_similarity
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.equiangular import equiangular_cosine

ENTRY = Entry(
    title="Inner products through the layers of an ALBERT",
    places=["Figure 15"],
    claim=(
        "In a pretrained ALBERT, whose layers share their matrices, the inner products of "
        "pairs of tokens gather at 1 layer by layer: clusters form, and many stay for long."
    ),
    method=(
        "A trained ALBERT with tied layers, run past its depth on one prompt, and the same "
        "shape untrained; beside it our self-attention flow from random tokens in high "
        "dimension."
    ),
    subject="real models",
    basis="text",
    limits=(
        "One small ALBERT on one chemical prompt stands for the document's XLARGE on a "
        "paragraph; the surrogate is 64 tokens in d = 512 at β = 4."
    ),
    planted="SelfAttention.beta * 1.3",
    settings={
        "model": "rxnmapper",
        "prompt": (
            "C=CCN=C=S.CNCc1ccc(C#N)cc1.NNC(=O)c1cn2c(n1)CCCC2>>C=CCN1C(C2=CN3CCCCC3=N2)=NN=C1N(C)CC1=CC=C(C#N)C=C1"
        ),
        "depth": 192,
        "shown": [0, 12, 24, 48, 96, 192],
        "beta": 4.0,
        "times": [0.0, 2.0, 3.0, 4.0, 6.0, 12.0],
    },
    fast={"depth": 96, "shown": [0, 12, 24, 48, 96]},
)


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


def _panels(run: Any, shown: Any, word: str) -> Panels:
    """Histograms of the inner products at some frames, side by side."""
    shown = list(shown)
    panels = []
    for k in shown:
        values = pairwise_similarity(run.frames[k])[0]
        low = min(-0.4, float(values.min()) - 0.05)
        panels.append(
            Histogram.of(
                {"": values}, Axis("cosine"), count=np.linspace(low, 1.02, 60),
                y=Axis("" if panels else "density"), title=f"{word} {run.times[k]:g}",
                note=f"≥ 0.99:\n{100 * np.mean(values >= 0.99):.3g} %",
            )
        )  # fmt: skip
    clock = "tied layers" if run.clock == "none" or word == "layer" else f"{run.clock} clock"
    return Panels(
        panels,
        len(panels),
        size=(1.75 * len(panels), 2.1),
        caption=f"Cosines of all pairs of {run.frames[0].count} different tokens ({clock}); "
        "heights differ from panel to panel.",
    )
