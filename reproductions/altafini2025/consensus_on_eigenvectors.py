"""Consensus rests on eigenvectors of V, and is stable on the first."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions.altafini2025._states import consensus_rates, on_a_line

ENTRY = Entry(
    title="Consensus rests on eigenvectors of V, and is stable on the first",
    places=["arXiv:2511.11553, abstract"],
    claim=(
        "All tokens at one point rest only if it is an eigenvector of the value matrix, and the "
        "principal eigenvector holds them, whatever Q and K."
    ),
    method=(
        "Speed of a consensus at eigenvectors and elsewhere, ‖P_u Vu‖; all rates by the Jacobian "
        "against λ_j − λ_k and −λ_k; tokens in a narrow cap, carried to the principal eigenvector "
        "as Oja's flow carries one token."
    ),
    subject="clusters",
    basis="report",
    limits="V symmetric with simple positive eigenvalues, softmax attention, random Q and K.",
    planted="SelfAttention.value * 1.1",
    settings={"values": [2.0, 1.2, 0.5], "tokens": 6, "beta": 1.0, "draws": 8},
    fast={"draws": 2, "tokens": 4},
)


def consensus_on_eigenvectors(
    *, values: list[float], tokens: int, beta: float, draws: int
) -> Finding:
    """Speeds and rates at a consensus, and where a narrow cap goes."""
    lam, dim = np.array(values), len(values)
    rest, move, gaps, away, curves, law = [], [], [], [], {}, {}
    times = np.linspace(0, 12, 49)
    for seed in range(draws):
        random = np.random.default_rng(seed)
        basis = np.linalg.qr(random.standard_normal((dim, dim)))[0]
        value = basis @ np.diag(lam) @ basis.T
        query, key = random.standard_normal((2, dim, dim))
        field = SelfAttention(beta, query, key, value)
        for k in range(dim):
            at = on_a_line(basis[:, k], tokens, 0)
            rest.append(np.abs(np.asarray(field.velocity(at))).max())
            found = np.sort(np.real(equilibrium(at, field).modes))
            gaps.append(np.abs(found - consensus_rates(lam, k, tokens)).max())
        u = random.standard_normal(dim)
        u /= np.linalg.norm(u)
        speed = np.linalg.norm(np.asarray(field.velocity(on_a_line(u, tokens, 0))), axis=1)
        pull = value @ u
        move.append(np.abs(speed - np.linalg.norm(pull - (u @ pull) * u)).max())
        start = u + 1e-4 * random.standard_normal((tokens, dim))
        start /= np.linalg.norm(start, axis=1)[:, None]
        run = flow(Points(start), field, times[-1], frames=times)
        cosine = np.array([np.abs(np.asarray(f.points) @ basis[:, 0]).mean() for f in run.frames])
        # Oja: the component along v_j grows like e^{λ_j t} before normalisation.
        parts = (basis.T @ u) * np.exp(np.outer(times, lam - lam[0]))
        oja = np.abs(parts[:, 0]) / np.linalg.norm(parts, axis=1)
        away.append(np.abs(cosine - oja).max())
        if seed < 3:
            curves[f"start {seed + 1}"] = (times, cosine)
            law[f"Oja, start {seed + 1}"] = (times, oja)
    rows = [
        judge("speed at eigenvectors, largest", "abstract", 0.0, max(rest), absolute=1e-12),
        judge("speed elsewhere less ‖P_u Vu‖, largest", "derived", 0.0, max(move), absolute=1e-12),
        judge("all rates at eigenvectors, largest error", "derived", 0.0, max(gaps), absolute=1e-9),
        # The cap is 10⁻⁴ wide and does not open.
        judge("a narrow cap against Oja's flow, largest error of the cosine", "derived", 0.0,
              max(away), absolute=2e-3),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock)", "|cosine| with the principal eigenvector",
        "Narrow caps of tokens, random Q and K; dashed: Oja's flow of one token.", theory=law,
    )  # fmt: skip
    return Finding(rows, {"cosine": figure})
