"""k growing eigenvalues, subspaces of codimension k."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from metastable.core.verdict import judge
from metastable.measures import Points, gaussian_points
from metastable.observe import clusters
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pure_attention import pure_run

ENTRY = Entry(
    title="k growing eigenvalues, subspaces of codimension k",
    places=["section on open questions, beyond Theorem 3"],
    claim=(
        "If k eigenvalues of V have real part ≥ 0, tokens converge to at most three parallel "
        "subspaces of codimension k."
    ),
    method=(
        "Run prompts in R³ with five spectra (real and distinct, a complex pair behind, a "
        "double leading one, a leading complex pair, a zero) and count the places of the "
        "tokens in the k coordinates that count."
    ),
    known="disagree",
    correction=(
        "Not as asked: an eigenvalue 0 moves nothing, so tokens keep their places; a double "
        "leading eigenvalue gives the vertices of a polytope, a leading complex pair leaves "
        "tokens at many places. With a real simple λ_1 and positive real parts behind it, at "
        "most three were seen in every run."
    ),
    subject="clusters",
    basis="text",
    limits="R³ with five spectra, 20 tokens, 30 prompts, up to t = 14; no proof of what remains.",
    planted="clusters.angle * 1e-6",
    settings={"tokens": 20, "draws": 30, "horizon": 14.0},
    fast={"draws": 8},
)


def codimension_k(*, tokens: int, draws: int, horizon: float) -> Finding:
    """How many codimension-k subspaces hold the tokens when k eigenvalues have Re λ ≥ 0."""
    turn = np.array([[0.7, -0.5], [0.5, 0.7]])
    cases = {
        "1, 0.7, −0.4": np.diag([1.0, 0.7, -0.4]),
        "1, 0.7±0.5i": block_diag([[1.0]], turn),
        "1, 1, −0.4": np.diag([1.0, 1.0, -0.4]),
        "1±i, −0.4": block_diag([[1.0, -1.0], [1.0, 1.0]], [[-0.4]]),
        "1, 0, −0.4": np.diag([1.0, 0.0, -0.4]),
    }
    simple = ("1, 0.7, −0.4", "1, 0.7±0.5i")
    counts: dict[str, list[int]] = {}
    still = 0.0
    for name, form in cases.items():
        positive = np.diag(form) >= 0
        counts[name] = []
        for seed in range(draws):
            basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
            value = basis @ form @ basis.T
            start = gaussian_points(tokens, 3, seed=seed)
            run = pure_run(start, horizon, value=value, frames=9)
            y = (run.points @ basis)[:, :, positive]
            # Parallel subspaces of codimension k are points of the k coordinates that count.
            scaled = Points(y[-1] / np.abs(y[-1]).max(), on_sphere=False)
            counts[name].append(clusters(scaled, angle=5e-3).count)
            if name == "1, 0, −0.4":
                still = max(still, float(np.ptp(y[:, :, 1], axis=0).max()))
    most = {name: max(found) for name, found in counts.items()}
    rows = [
        holds(
            "k eigenvalues with Re λ ≥ 0 lead to at most 3 parallel subspaces of codimension k, "
            "whatever they are",
            "section on open questions, beyond Theorem 3",
            max(most.values()) <= 3,
            "at most 3",
            ", ".join(f"({name}): {one}" for name, one in most.items()),
        ),
        holds(
            "so it is where λ_1 is real and simple and the other k − 1 have Re λ > 0",
            "conjecture of the document, narrowed here",
            max(most[name] for name in simple) <= 3,
            "at most 3",
            max(most[name] for name in simple),
            f"{len(simple) * draws} prompts",
        ),
        judge(
            "an eigenvalue 0 moves nothing: largest change of its coordinate",
            "Lemma in the proof of Theorem 3",
            0.0,
            still,
            absolute=1e-8,
        ),
        holds(
            "a double leading eigenvalue gives a polytope, with more than 3 vertices for some "
            "prompts",
            "Theorem 4",
            most["1, 1, −0.4"] > 3,
            "more than 3",
            most["1, 1, −0.4"],
        ),
    ]
    names = list(cases)
    figure = plot_bars(
        names,
        {
            "fewest": [min(counts[name]) for name in names],
            "median": [float(np.median(counts[name])) for name in names],
            "most": [max(counts[name]) for name in names],
        },
        "eigenvalues of V",
        "subspaces of codimension k",
        f"Parallel subspaces that {tokens} tokens in R³ end on, {draws} prompts for each V; the "
        "question was whether there are at most 3.",
        size=(5.4, 3.4),
        levels={"3, as asked": 3},
    )
    return Finding(
        rows, {"counts": figure}, ["An experiment: the document asks, nothing is proved."]
    )
