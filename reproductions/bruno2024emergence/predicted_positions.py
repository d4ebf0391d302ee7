"""Where the first clusters form is known from the start."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.observe import kernel_modes
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.counts import predicted_angles
from metastable.theory.spectrum import dominant_mode, exit_time, max_rate

ENTRY = Entry(
    title="Where the first clusters form is known from the start",
    places=["authors' notebook: predicted positions", "arXiv:2410.23228, figures at β = 5 and 7"],
    claim=(
        "The first clusters form at the angles (2πj − arg μ̂_k)/k, with k = k_max and μ̂_k the "
        "Fourier coefficient of the tokens at time 0."
    ),
    method=(
        "Many starts: the turn that best fits the ring of predicted angles to the maxima of the "
        "potential at exit, as a fraction of the spacing; among runs with k_max maxima."
    ),
    subject="clusters",
    basis="code",
    limits=(
        "n of a few thousand, the notebook has 20 000 and one seed; other modes shift clusters by "
        "an amount that falls only like n^{−(λ_1−λ_2)/(2λ_1)}."
    ),
    planted="predicted_angles + 0.7",
    settings={"cases": [[5.0, 3], [7.0, 4]], "tokens": 3000, "seeds": 40},
    fast={"cases": [[5.0, 3]], "tokens": 1000, "seeds": 16},
)


def predicted_positions(*, cases: list, tokens: int, seeds: int) -> Finding:
    """A turn by half a spacing is the largest; a blind guess is off by a quarter in the median."""
    rows, samples = [], {}
    for beta, count in cases:
        rows.append(holds(f"β = {beta:g}: k_max", "notebook", dominant_mode(beta, 2) == count,
                          count, dominant_mode(beta, 2)))  # fmt: skip
        off = []
        for seed in range(seeds):
            start = uniform(tokens, 2, seed)
            run = flow(start, SelfAttention(beta), exit_time(tokens, max_rate(beta, 2)), frames=2)
            found = kernel_modes(run.frames[-1], beta)
            if int(found) != count:
                continue
            x = np.asarray(found.centres)
            x = np.arctan2(x[:, 1], x[:, 0])
            points = np.asarray(start.points)
            y = predicted_angles(np.arctan2(points[:, 1], points[:, 0]), None, beta)
            turn = np.angle(np.sum(np.exp(1j * count * x)) * np.exp(-1j * count * y[0]))
            off.append(abs(turn) / (2 * np.pi))
        rows.append(judge(f"β = {beta:g}: median turn, {len(off)} of {seeds} runs, in spacings",
                          "notebook", 0.0, float(np.median(off)), absolute=0.08))  # fmt: skip
        samples[f"β = {beta:g}"] = off
    figure = plot_histograms(
        samples, "turn of the ring of clusters from the prediction (spacings)",
        "At exit; a blind guess is even between 0 and 1/2.", bins=np.linspace(0, 0.5, 21),
        laws={"blind": ([0, 0.5], [2, 2])},
    )  # fmt: skip
    return Finding([rows[1], rows[0], *rows[2:]], {"turns": figure})
