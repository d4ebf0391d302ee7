"""The attention matrix of tokens on a line."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import gaussian_points
from metastable.report.figures.films import film_in_space
from metastable.report.figures.plain import plot_image, plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import boolean_limit

from .._slopes import fitted_slope
from ._pure_attention import last_attention, log_rest, pure_run

ENTRY = Entry(
    title="The attention matrix of tokens on a line",
    places=["Theorem 1", "section on d = 1, attention-matrix limit"],
    claim=(
        "With QK = V = 1 and distinct tokens on the line, P(t) has a limit whose rows are e_1 "
        "or e_n except at most one, and these rows are approached doubly exponentially fast."
    ),
    method=(
        "Follow one prompt of Gaussian tokens in the rescaled variable, compare P(t) with the "
        "Boolean rows given by the signs of the tokens, and fit the decay of 1 - P in its "
        "logarithm's logarithm."
    ),
    subject="clusters",
    basis="text",
    limits="One prompt of twelve Gaussian tokens on the line with QK = V = 1, up to t = 9.",
    planted="pure_run.times * 1.3",
    settings={"tokens": 12, "seed": 3, "horizon": 9.0},
)


def attention_line(*, tokens: int, seed: int, horizon: float) -> Finding:
    """One prompt in d = 1 to the end, beside the Boolean rows that its attention must reach."""
    run = pure_run(gaussian_points(tokens, 1, seed=seed), horizon, frames=61)
    z = run.points[:, :, 0]
    x = z * np.exp(run.times)[:, None]
    limit = boolean_limit(x[-1])
    decided = limit >= 0
    wanted = np.eye(tokens)[limit[decided]]
    off = [np.abs(last_attention(run, k)[decided] - wanted).max() for k in range(len(run.times))]
    rest = log_rest(x, limit)
    late = (run.times >= 0.6 * horizon) & (run.times <= 0.95 * horizon)
    # An interior token makes no exception of its own: its row is decided by the sign of x.
    extremes = {int(np.argmin(x[-1])), int(np.argmax(x[-1]))}
    rows = [
        holds(
            "all rows of P(t) but at most one tend to e_1 or e_n",
            "Theorem 1",
            off[-1] < 1e-9 and np.sum(~decided) <= 1 and set(limit[decided]) <= extremes,
            "distance from Boolean rows → 0, at most 1 row left",
            f"{off[-1]:.1e}, {np.sum(~decided)} rows left",
        ),
        judge(
            "they do so doubly exponentially: slope of log(−log(1 − P)) in t",
            "Theorem 1; geshkovski2023emergence, Thm 2.1",
            1.0,
            fitted_slope(run.times[late], np.log(-rest[late])),
            absolute=0.03,
        ),
    ]
    paths = plot_lines(
        {f"token {i + 1}": (run.times, z[:, i]) for i in range(tokens)},
        "time t (SA clock)",
        "$z_i = e^{-t}x_i$",
        f"{tokens} tokens on the line in the rescaled variable: all tend to the two ends.",
        lines=True,
        legend=False,
    )
    order = np.argsort(x[-1])
    matrix = plot_image(
        last_attention(run)[np.ix_(order, order)][::-1],
        (0.5, tokens + 0.5, tokens + 0.5, 0.5),
        "token j",
        "token i",
        "$P_{ij}$",
        f"Attention matrix at t = {horizon:g}, tokens in the order of their places.",
    )
    movie = lambda frames: film_in_space(run, frames=frames, matrix=True)
    return Finding(rows, {"tokens": paths, "matrix": matrix}, movies={"tokens and P(t)": movie})
