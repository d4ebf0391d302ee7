"""Pure attention in R^d: the table of limit geometries, and hulls that shrink."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Trajectory, flow
from metastable.measures import Points, gaussian_points
from metastable.observe import hull, hull_contains
from metastable.reproduce.finding import Finding, holds
from metastable.theory.limits import limit_geometry, polytope_residual

__all__ = ["limit_table", "other_matrices", "shrinking_hulls"]


def limit_table(*, tokens: int, horizon: float) -> Finding:
    """One run for each row of the table of limit geometries."""
    from metastable.report.plots import draw_lines

    simple = np.array([[1.0, 0.0], [0.3, 0.3]])
    product = np.diag([1.0, 1.0, 0.3])
    runs = {
        "V = I": _rescaled(np.eye(2), tokens, horizon),
        "λ₁ simple": _rescaled(simple, tokens, horizon),
        "V paranormal": _rescaled(product, tokens, horizon),
    }
    last = {name: np.asarray(run.points[-1]) for name, run in runs.items()}
    polytope = _residual(runs["V = I"], np.eye(2), np.eye(2))
    levels = last["λ₁ simple"] @ limit_geometry(simple).functionals[0]  # pyright: ignore
    planes = np.array([0.0, min(levels.min(), 0.0), max(levels.max(), 0.0)])
    off = np.abs(levels[:, None] - planes).min(axis=1).max() / np.ptp(planes)
    functionals = limit_geometry(product).functionals
    mixed = _residual(runs["V paranormal"], functionals, np.eye(2))
    times = np.geomspace(10, 1e4, 21)
    falling = flow(
        gaussian_points(tokens, 3, seed=1), SelfAttention(1.0, value=-1.0), 1e4, frames=times
    )
    size = np.linalg.norm(falling.points, axis=2).max(axis=1)[-21:]
    power = np.polyfit(np.log(falling.times[-21:]), np.log(size), 1)[0]
    rows = [
        judge("V = I: distance from the boundary set of a polytope", "Theorem 3.1, row 1",
              0.0, polytope[-1], absolute=1e-4),
        judge("λ₁ simple: distance from three parallel hyperplanes", "Theorem 4.1, row 2",
              0.0, off, absolute=1e-3),
        judge("V paranormal: the same on F, with any part in G", "Theorem 5.1, row 3",
              0.0, mixed[-1], absolute=1e-4),
        judge("V = −I: power of time with which tokens fall to the origin", "Theorem C.5, row 4",
              -0.5, power, absolute=0.02),
    ]  # fmt: skip
    shapes = draw_lines(
        {name: (x[:, 0], x[:, 1]) for name, x in last.items()},
        "first coordinate of z", "second coordinate of z",
        f"Where {tokens} rescaled tokens are at t = {horizon:g}.", size=(5.0, 4.0),
    )  # fmt: skip
    approach = draw_lines(
        {
            "V = I": (runs["V = I"].times, polytope),
            "V paranormal": (runs["V paranormal"].times, mixed),
        },
        "time t", "distance from the limit set", log="y",
        caption="How fast rescaled tokens reach the set of Theorems 3.1 and 5.1.",
        theory={"e^(−t)": (runs["V = I"].times, np.exp(-runs["V = I"].times))},
    )  # fmt: skip
    fall = draw_lines(
        {"largest ‖x‖": (falling.times[-21:], size)}, "time t (SA clock)", "largest ‖x‖",
        "V = −I: all tokens fall to the origin.", log="xy",
        theory={"t^(−1/2)": (falling.times[-21:], size[0] * (falling.times[-21:] / 10) ** -0.5)},
    )  # fmt: skip
    return Finding(rows, {"shapes": shapes, "approach": approach, "fall": fall})


def shrinking_hulls(*, tokens: int, dim: int, horizon: float, seeds: int) -> Finding:
    """V = I: the convex hull of the rescaled tokens shrinks to a polytope."""
    from metastable.report.hulls import draw_hulls
    from metastable.report.plots import draw_lines

    nested, volumes, corners = 0, {}, []
    for seed in range(seeds):
        run = _rescaled(np.eye(dim), tokens, horizon, seed)
        hulls = [hull(frame) for frame in run.frames]
        nested += all(hull_contains(a, b.points).all() for a, b in pairwise(hulls))
        volumes[f"seed {seed}"] = (run.times, [shape.volume for shape in hulls])
        corners.append(len(hulls[-1].points))
    flat = _rescaled(np.eye(2), tokens, horizon)
    rows = [
        judge("share of runs whose hulls are nested", "Figure 20", 1.0, nested / seeds, absolute=0),
        holds("the hull keeps a body: it tends to a polytope, not to a point", "Figure 20",
              all(v[1][-1] > 0.01 * v[1][0] for v in volumes.values()), "positive volume",
              min(v[1][-1] for v in volumes.values())),
    ]  # fmt: skip
    figures = {
        "volumes": draw_lines(
            volumes, "time t", "volume of the hull", lines=True,
            caption=f"{tokens} tokens in R^{dim}, V = I: hulls of z = e^(−t)x.",
        ),
        "hulls": draw_hulls(flat),
    }  # fmt: skip
    return Finding(rows, figures, [f"Corners of the last hulls: {corners}."])


def other_matrices(*, tokens: int, dim: int, draws: int, horizon: float) -> Finding:
    """Random V: which limit geometries appear, and how often no theorem applies."""
    from metastable.report.plots import draw_bars

    random, kinds, ranks = np.random.default_rng(9), [], []
    for seed in range(draws):
        value = random.normal(size=(dim, dim))
        kinds.append(limit_geometry(value).kind or "no theorem")
        growth = max(np.linalg.eigvals(value).real.max(), 0.5)
        run = _rescaled(value, tokens, min(horizon, 10 / growth), seed)
        field = Rescaled(SelfAttention(1.0, value=value))
        x = np.asarray(field.tokens(run.frames[-1], run.times[-1]).points)
        spread = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
        ranks.append(int((spread > 1e-3 * spread[0]).sum()))
    open_share = kinds.count("no theorem") / draws
    names = sorted(set(kinds))
    rows = [
        holds("the table leaves random matrices without a theorem", "Problem 14", open_share > 0,
              "a positive share", open_share),
        holds("tokens flatten onto fewer directions even there", "Problem 14",
              np.mean(ranks) < dim, f"mean rank below {dim}", float(np.mean(ranks))),
    ]  # fmt: skip
    each = [[r for r, k in zip(ranks, kinds, strict=True) if k == name] for name in names]
    figure = draw_bars(
        names,
        {"share of draws": [len(e) / draws for e in each],
         "mean rank of the tokens / d": [float(np.mean(e)) / dim for e in each]},
        "limit geometry", "share", f"{draws} Gaussian V in d = {dim}; rank at 1e−3 of the largest.",
    )  # fmt: skip
    return Finding(rows, {"kinds": figure})


def _rescaled(value: np.ndarray, tokens: int, horizon: float, seed: int = 0) -> Trajectory[Points]:
    start = gaussian_points(tokens, len(value), seed=seed)
    return flow(start, Rescaled(SelfAttention(1.0, value=value)), horizon, frames=33)


def _residual(run: Trajectory[Points], functionals, root: np.ndarray) -> np.ndarray:
    """Largest |‖z‖² − max_j⟨z,v_j⟩| of a token in each frame, v_j the corners of the last hull."""
    seen = run.points @ np.asarray(functionals).T
    corners = hull(Points(seen[-1], on_sphere=False)).points
    return np.array([polytope_residual(z, corners, root).max() for z in seen])
