"""Pure attention in one dimension: the limit of the attention matrix, row by row."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, gaussian_points
from metastable.observe import attention_rank
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import drop_legends, fitted_slope, last_attention, pure_run
from metastable.theory.limits import boolean_limit

__all__ = ["attention_line", "boolean_rows", "star_row"]


def attention_line(*, tokens: int, seed: int, horizon: float) -> Finding:
    """One prompt in d = 1 to the end, beside the Boolean rows that its attention must reach."""
    from metastable.report.animation import animate_space
    from metastable.report.plots import draw_image, draw_lines

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
    paths = draw_lines(
        {f"token {i + 1}": (run.times, z[:, i]) for i in range(tokens)},
        "time t (SA clock)",
        "$z_i = e^{-t}x_i$",
        f"{tokens} tokens on the line in the rescaled variable: all tend to the two ends.",
        lines=True,
    )
    drop_legends(paths)
    order = np.argsort(x[-1])
    matrix = draw_image(
        last_attention(run)[np.ix_(order, order)][::-1],
        (0.5, tokens + 0.5, tokens + 0.5, 0.5),
        "token j",
        "token i",
        "$P_{ij}$",
        f"Attention matrix at t = {horizon:g}, tokens in the order of their places.",
    )
    movie = lambda path, frames: animate_space(run, path, frames=frames, matrix=True)
    return Finding(rows, {"tokens": paths, "matrix": matrix}, movies={"tokens and P(t)": movie})


def boolean_rows(*, tokens: int, draws: int, horizon: float) -> Finding:
    """Many prompts in d = 1: how fast rows become Boolean, how many do not, the proof's bound."""
    from metastable.report.plots import draw_lines

    slopes, undecided, slack, curves = [], 0, [], {}
    for seed in range(draws):
        run = pure_run(gaussian_points(tokens, 1, seed=seed), horizon, frames=49)
        x = run.points[:, :, 0] * np.exp(run.times)[:, None]
        limit = boolean_limit(x[-1])
        undecided = max(undecided, int(np.sum(limit < 0)))
        rest = log_rest(x, limit)
        late = run.times >= 0.7 * horizon
        slopes.append(fitted_slope(run.times[late], np.log(-rest[late])))
        slack.append(_proof_slack(x))
        if seed < 8:
            shown = rest < 0
            curves[f"start {seed + 1}"] = (run.times[shown], -rest[shown])
    slopes = np.array(slopes)
    worst = slopes[np.abs(slopes - 1).argmax()]
    rows = [
        judge(
            f"slope of log(−log(1 − P)) in t, worst of {draws} prompts",
            "Theorem 1",
            1.0,
            float(worst),
            absolute=0.03,
        ),
        holds("rows that are not Boolean", "Theorem 1", undecided <= 1, "at most 1", undecided),
        holds(
            "P_ij ≤ e^{−c x_i} for x_i > 0 and j ≠ n, c the smallest gap at the start",
            "proof of Theorem 1",
            max(slack) <= 1e-9,
            "log P_ij + c x_i ≤ 0",
            f"largest {max(slack):.2e}",
        ),
    ]
    times = np.linspace(0.5 * horizon, horizon, 20)
    top = max(float(curve[1][-1]) for curve in curves.values())
    figure = draw_lines(
        curves,
        "time t (SA clock)",
        "$-\\log(1 - P_{i,k(i)})$, slowest row",
        f"How Boolean the slowest row is, for {len(curves)} prompts of {tokens} tokens: a straight "
        "line of slope 1 is doubly exponential decay.",
        theory={"$e^{t}$": (times, top * np.exp(times - horizon))},
        log="y",
        lines=True,
    )
    return Finding(rows, {"rates": figure})


def star_row(*, left: int, right: int, ends: list[float], horizon: float) -> Finding:
    """The exceptional prompt: an interior token that stays bounded, and its row of P*.

    Such a token is unstable beyond all floating point forwards in time (like e^{e^{2t}}), and as
    stable backwards: with V = −I pure attention runs back from a late configuration to a prompt.
    """
    from metastable.report.plots import draw_lines

    a, b = ends
    late = np.concatenate([np.full(left, a), [0.0], np.full(right, b)])
    apart = np.concatenate([0.4 * np.arange(left), [0.0], -0.3 * np.arange(right)[::-1]])
    last = np.exp(horizon) * late + apart
    back = flow(
        Points(last[:, None], on_sphere=False), SelfAttention(1.0, value=-1.0), horizon, frames=46
    )
    times, x = horizon - back.times[::-1], back.points[::-1, :, 0]
    # The last half unit belongs to the start of the backward run, which is not yet on the orbit.
    kept = times <= horizon - 0.5
    times, x = times[kept], x[kept]
    logits = x[:, :, None] * x[:, None, :]
    P = np.exp(logits - logsumexp(logits, axis=2, keepdims=True))
    # Bounded means Σ_j P_j z_j = 0 with P_j ∝ e^{c z_j}: one equation for c.
    c = np.log(-left * a / (right * b)) / (b - a)
    expected = np.exp(c * late) / np.exp(c * late).sum()
    star = P[:, left]
    others = np.delete(np.arange(len(late)), left)
    ended = np.where(x[-1, others] > 0, len(late) - 1, 0)
    boolean = np.abs(P[-1, others] - np.eye(len(late))[ended]).max()
    rows = [
        holds(
            "all but one particle tend to ±∞; a bounded interior one keeps a row that is neither "
            "e_1 nor e_n",
            "Theorem 1, the row of stars, and the three remarks of its proof",
            star[-1].max() < 0.9 and boolean < 1e-3 and abs(x[-1, left]) < 0.2,
            "one bounded token, its row not Boolean, the others Boolean",
            f"|x| = {abs(x[-1, left]):.1e}, largest entry {star[-1].max():.3f}, others to "
            f"{boolean:.0e}",
        ),
        judge(
            "its row: weights ∝ e^{c z_j} with Σ_j P_j z_j = 0 (largest difference)",
            "derived here",
            0.0,
            float(np.abs(star[-1] - expected).max()),
            absolute=0.003,
        ),
        judge(
            "rank of P*",
            "Theorem 1",
            3,
            attention_rank(P[-1], 1e-3),
            absolute=0,
            reason="two kinds of Boolean rows and the row of stars",
        ),
    ]
    shown = {"to the left end": 0, "to itself": left, "to the right end": len(late) - 1}
    figure = draw_lines(
        {name: (times, star[:, j]) for name, j in shown.items()},
        "time t (SA clock)",
        "attention $P_{ij}(t)$",
        f"Row of stars: the bounded one of {len(late)} tokens looks at a token of each end and at "
        "itself; dashed, the limit from the balance of forces.",
        theory={f"limit {name}": (times, 0 * times + expected[j]) for name, j in shown.items()},
        lines=True,
    )
    return Finding(rows, {"row": figure})


def log_rest(x: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """log(1 − P_{i,k(i)}) of the slowest decided row at each time; P itself rounds to 1 soon."""
    decided = np.flatnonzero(limit >= 0)
    logits = x[:, decided, None] * x[:, None, :]
    led = np.arange(x.shape[1]) == limit[decided, None]
    others = np.asarray(logsumexp(logits, axis=2, b=~led))
    return (others - np.asarray(logsumexp(logits, axis=2))).max(axis=1)


def _proof_slack(x: np.ndarray) -> float:
    """max of log P_ij + c x_i over times, x_i > 0 and j other than the largest token."""
    c = np.diff(np.sort(x[0])).min()
    logits = x[:, :, None] * x[:, None, :]
    log_p = logits - logsumexp(logits, axis=2, keepdims=True)
    log_p[:, :, np.argmax(x[0])] = -np.inf
    return float(np.where(x > 0, log_p.max(axis=2) + c * x, -np.inf).max())
