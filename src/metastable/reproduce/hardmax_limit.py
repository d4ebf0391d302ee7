"""The second time scale of pure attention: softmax turns into argmax, and vertices are fixed."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import Rescaled, SelfAttention
from metastable.flows import hardmax
from metastable.measures import Points, gaussian_points
from metastable.observe import hull, leaders
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.polytopes import positive_query
from metastable.reproduce.rescaled_runs import fitted_slope, legend_below, limit_corners, pure_run

__all__ = ["two_time_scales", "vertex_convergence", "vertex_counts"]


def two_time_scales(*, tokens: int, draws: int, horizon: float) -> Finding:
    """When softmax may be replaced by argmax, and what the hull does before and after."""
    from metastable.report.plots import draw_lines

    gaps, areas, ends = [], [], []
    for seed in range(draws):
        query = positive_query(2, seed)
        run = pure_run(gaussian_points(tokens, 2, seed=seed), horizon, query=query)
        field: Rescaled = run.field  # pyright: ignore[reportAssignmentType]
        gaps.append([argmax_gap(z, field, t) for t, z in zip(run.times, run.frames, strict=True)])
        area = np.array([hull(frame).volume for frame in run.frames])
        areas.append(area / area[0])
        # From t = 3 on, the event-driven limit should lead to the same places.
        chase = hardmax(run.frames[9], field, frames=2)
        places = np.asarray(chase.frames[-1].points)
        apart = np.asarray(run.frames[-1].points)[:, None] - places
        ends.append(float(np.linalg.norm(apart, axis=2).min(axis=1).max()))
    gaps, areas = np.array(gaps), np.array(areas)
    doubled = gaussian_points(tokens, 2, seed=0)
    twice = Points(np.repeat(np.asarray(doubled.points), 2, axis=0), on_sphere=False)
    plain = Rescaled(SelfAttention(1.0))
    late = horizon / 2
    left = (areas - areas[:, -1:]).mean(axis=0)
    rest = (run.times >= 3) & (run.times <= 8)
    rows = [
        holds(
            f"once e^{{2t}} is gigantic, ż_i ≈ Σ (z_j − z_i) over j in argmax⟨Az_i,Az_k⟩: largest "
            f"relative gap at t = {horizon:g}",
            "section on two timescales",
            gaps[:, -1].max() < 1e-6 < gaps[:, 0].min(),
            "order 1 at t = 0, below 1e−6 at the end",
            f"{gaps[:, 0].min():.2f} at t = 0, {gaps[:, -1].max():.1e} at the end",
        ),
        judge(
            "with equal tokens it is the mean over the argmax, not the sum: sum over velocity for "
            "tokens taken twice",
            "section on two timescales, corrected",
            2.0,
            _sum_over_mean(twice, plain, late),
            absolute=1e-3,
        ),
        judge(
            "during t = O(1) hulls shrink and then come to rest: rate r of the area left, e^{−rt}",
            "section on two timescales; rate derived here",
            1.0,
            -fitted_slope(run.times[rest], np.log(left[rest])),
            absolute=0.1,
        ),
        judge(
            "attention at β = ∞ from t = 3 leads each token to the same place: largest distance",
            "section on two timescales",
            0.0,
            max(ends),
            absolute=0.05,
            reason="the softmax still moves the leaders a little after t = 3",
        ),
    ]
    figure = draw_lines(
        {
            "gap to argmax, slowest prompt": (run.times, np.maximum(gaps.max(axis=0), 1e-17)),
            "area left to lose, mean": (
                run.times[:-1], np.maximum(left[:-1], 1e-17),
            ),
        },
        "time t (SA clock)",
        "relative size",
        f"Two time scales of {tokens} tokens, {draws} prompts: softmax becomes argmax doubly "
        "exponentially, while the hull comes to rest.",
        theory={"$e^{-t}$": (run.times, np.exp(-run.times))},
        log="y",
        lines=True,
    )  # fmt: skip
    legend_below(figure)
    return Finding(rows, {"scales": figure})


def vertex_counts(*, sizes: list[list[int]], draws: int, horizon: float) -> Finding:
    """How many vertices the limit has, over random prompts, and who they are."""
    from metastable.report.plots import draw_bars

    counts, wrong, fewer, more, total = {}, 0, 0, 0, 0
    for tokens, dim in sizes:
        found = []
        for seed in range(draws):
            start = gaussian_points(tokens, dim, seed=seed)
            run = pure_run(start, horizon, frames=13)
            decided = run.frames[4]  # a third of the way
            found.append(len(limit_corners(run.frames[-1])))
            wrong += int(found[-1] != self_leaders(decided))
            chase = hardmax(start, Rescaled(SelfAttention(1.0)), frames=2)
            extra = chase.frames[-1].count - self_leaders(start)
            fewer, more = fewer + int(extra < 0), more + int(extra > 0)
            total += 1
        counts[f"n = {tokens}, d = {dim}"] = np.array(found)
    rows = [
        holds(
            "vertices are the tokens that lead themselves, z_i = argmax_j⟨z_i,z_j⟩, once e^{2t} is "
            "large: prompts with another count",
            "section on open questions (count the vertices); rule found here",
            wrong <= 0.05 * total,
            "none (5 % allowed: some are not decided yet)",
            f"{wrong} of {total}",
        ),
        holds(
            "at β = ∞ the leaders of the start all stay vertices; now and then one more appears",
            "derived here: a token that leads itself rests, and hulls only shrink",
            fewer == 0 and more <= 0.05 * total,
            "never fewer, more in 5 % at most",
            f"fewer in {fewer}, more in {more} of {total}",
        ),
    ]
    places = np.arange(1, max(found.max() for found in counts.values()) + 1)
    figure = draw_bars(
        places,
        {name: [np.mean(found == k) for k in places] for name, found in counts.items()},
        "vertices m of the limit polytope",
        "share of prompts",
        f"Number of vertices over {draws} Gaussian prompts of each size, Q = K = V = I.",
    )
    means = ", ".join(f"{name}: {found.mean():.2f}" for name, found in counts.items())
    return Finding(rows, {"counts": figure}, [f"Mean number of vertices: {means}."])


def vertex_convergence(*, tokens: int, draws: int, nudges: list[float], horizon: float) -> Finding:
    """Whether tokens end at vertices, near any prompt; and how unstable other limits are."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(1)
    shares = {size: [] for size in nudges}
    for seed in range(draws):
        base = np.asarray(gaussian_points(tokens, 2, seed=seed).points)
        for size in nudges:
            start = Points(base + size * random.normal(size=base.shape), on_sphere=False)
            run = pure_run(start, horizon, frames=13)
            corners = limit_corners(run.frames[-1])
            apart = np.asarray(run.frames[-1].points)[:, None] - corners
            shares[size].append(np.mean(np.linalg.norm(apart, axis=2).min(axis=1) < 1e-3))
    # A token on the axis of a symmetric prompt must stay on it, and ends in the middle of a side.
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    middle = []
    sizes = [0.0, 1e-12, 1e-9, 1e-6, 1e-3]
    for size in sizes:
        start = Points(np.concatenate([square, [[0.4, size]]]), on_sphere=False)
        run = pure_run(start, 2.5, frames=26)
        middle.append(np.abs(run.points[:, -1, 1]))
    middle = np.array(middle)
    least = min(min(share) for share in shares.values())
    rows = [
        holds(
            "all tokens end at vertices, for an open set of prompts: least share over random "
            f"prompts and their neighbours ({draws} prompts, nudged by {nudges})",
            "section on open questions (convergence to vertices)",
            least == 1,
            "1",
            f"{least:.3f}",
        ),
        holds(
            "the middle of a side is a limit of symmetric prompts only: distance from the axis at "
            "t = 2.5, exact start and one nudged by 1e−3",
            "Theorem 2, limits on the boundary that are no vertices",
            middle[0, -1] < 1e-3 and middle[-1, -1] > 0.3,
            "0 and of order 1",
            f"{middle[0, -1]:.1e} and {middle[-1, -1]:.2f}",
        ),
    ]
    figure = draw_lines(
        {
            f"nudged by {size:g}": (run.times, np.maximum(path, 1e-17))
            for size, path in zip(sizes[1:], middle[1:], strict=True)
        },
        "time t (SA clock)",
        "distance from the axis",
        "A token near the symmetry axis of a square leaves it doubly exponentially: limits inside "
        "a side are exceptional.",
        log="y",
        lines=True,
    )
    legend_below(figure)
    return Finding(rows, {"axis": figure}, ["An experiment: nothing is proved here."])


def argmax_gap(measure: Points, field: Rescaled, t: float) -> float:
    """Largest ‖ż_i − Σ_{argmax}(z_j − z_i)‖ in units of the largest token."""
    z = np.asarray(measure.points)
    chosen = leaders(measure, field.attention.query, field.attention.key)
    exact = np.asarray(field.velocity(measure, t=t))
    size = np.linalg.norm(z, axis=1).max()
    return float(np.linalg.norm(exact - (z[chosen] - z), axis=1).max() / size)


def self_leaders(measure: Points) -> int:
    """How many tokens are their own argmax."""
    return int(np.sum(leaders(measure) == np.arange(measure.count)))


def _sum_over_mean(measure: Points, field: Rescaled, t: float) -> float:
    """Size of the sum over the argmax relative to the velocity, tokens far from rest only."""
    z = np.asarray(measure.points)
    scores = z @ z.T
    chosen = scores >= scores.max(axis=1, keepdims=True) - 1e-12
    total = chosen @ z - chosen.sum(axis=1)[:, None] * z
    exact = np.asarray(field.velocity(measure, t=t))
    moving = np.linalg.norm(total, axis=1) > 0.1
    ratio = np.linalg.norm(total[moving], axis=1) / np.linalg.norm(exact[moving], axis=1)
    return float(np.median(ratio))
