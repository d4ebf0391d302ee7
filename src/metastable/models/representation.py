"""What people who study trained models measure on hidden states. NumPy; states are (n, d)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform

from metastable.core import checks
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.observe.clusters import components
from metastable.observe.similarity import effective_rank


def linear_cka(one: Any, two: Any) -> float:
    """Linear centred kernel alignment of two sets of states of the same tokens.

    ‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F), columns centred. Source: Kornblith et al., arXiv:1905.00414. In
    [0, 1]; 1 for states that agree up to rotation and scale; 0 where one has no spread.

    >>> x = np.random.default_rng(0).standard_normal((20, 3))
    >>> round(linear_cka(x, -2 * x[:, ::-1]), 12)
    1.0
    """
    return float(cka_matrix([one, two])[0, 1])


def cka_matrix(states: Sequence[Any]) -> np.ndarray:
    """`linear_cka` of every two of S sets of states, (S, S)."""
    rows = []
    for x in states:
        x = np.asarray(x, float) - np.mean(x, axis=0)
        gram = x @ x.T  # n × n: tokens are fewer than coordinates in most models
        rows.append(gram.ravel() / max(float(np.linalg.norm(gram)), 1e-300))
    table = np.array(rows)
    return table @ table.T if len(rows) else np.zeros((0, 0))


def intrinsic_dimension(measure: Points, same: float = 1e-5) -> float:
    """Dimension of the set the tokens lie on, from ratios of nearest-neighbour distances (TwoNN).

    (n − 1)/Σ_i log(r_2/r_1)_i. Source: Facco et al., Sci. Rep. 7 (2017) 12140, in the unbiased
    maximum-likelihood form. Tokens closer than `same` times the largest length are one token
    first: clusters are coincident points, and their ratios would be 0/0. NaN below five points.

    >>> from metastable.measures import uniform
    >>> round(intrinsic_dimension(uniform(tokens=2000, dim=3, seed=0)))
    2
    """
    x = np.asarray(measure.points)
    reach = same * float(np.linalg.norm(x, axis=1).max())
    kept = np.unique(components(x, reach), return_index=True)[1] if reach > 0 else []
    if len(kept) < 5:
        return float("nan")
    nearest = np.sort(squareform(pdist(x[kept])), axis=1)[:, 1:3]
    spread = np.sum(np.log(nearest[:, 1] / nearest[:, 0]))
    return float((len(kept) - 1) / spread) if spread > 0 else float("nan")


def top_coordinate_share(measure: Points, count: int = 3) -> float:
    """Share of the mean cosine that the `count` most important coordinates carry.

    c_k = Σ_{i≠j} u_ik u_jk with u = x/‖x‖; the largest |c_k| over Σ|c|. A few coordinates dominate
    the cosine in many trained models (Timkey and van Schijndel, arXiv:2109.04404); count/d if all
    count alike.
    """
    checks.integer("count", count, 1)
    x = np.asarray(measure.points)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    u = x / np.where(norms > 0, norms, 1.0)
    carried = np.sort(np.abs(np.sum(u, axis=0) ** 2 - np.sum(u**2, axis=0)))[::-1]
    return float(carried[:count].sum() / carried.sum()) if carried.any() else 0.0


@dataclass(frozen=True, eq=False)
class FirstToken:
    """How far the first token stands out, state by state; see `first_token`."""

    ratios: np.ndarray  # length of the first token over the median of the others
    ranks: np.ndarray  # effective rank with it
    ranks_without: np.ndarray
    threshold: float

    @property
    def found(self) -> bool:
        return bool((self.ratios > self.threshold).any())

    @property
    def states(self) -> tuple[int, int] | None:
        """First and last state in which it stands out."""
        where = np.flatnonzero(self.ratios > self.threshold)
        return (int(where[0]), int(where[-1])) if where.size else None

    def __str__(self) -> str:
        if self.states is None:
            return (
                f"no first-token effect: at most {self.ratios.max():.3g} times the others' length"
            )
        start, end = self.states
        worst = int(np.argmax(self.ratios))
        return (
            f"first-token effect in states {start} to {end}: up to {self.ratios[worst]:.3g} times "
            f"the others' length; with lengths kept, the effective rank of state {worst} is "
            f"{self.ranks[worst]:.3g} with it, {self.ranks_without[worst]:.3g} without"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "found": self.found,
            "states": self.states,
            "length_ratio": self.ratios.tolist(),
            "effective_rank": self.ranks.tolist(),
            "effective_rank_without": self.ranks_without.tolist(),
        }


def first_token(run: Trajectory, threshold: float = 10.0) -> FirstToken:
    """Whether the first token is a giant that hides the others (Sun et al., arXiv:2402.17762).

    Its length over the median length of the others, and the effective rank of the raw states with
    it and without it. It stands out where the ratio exceeds `threshold`. Needs a trajectory that
    keeps lengths (`capture(..., sphere=False)`), the first token in it.
    """
    checks.positive("threshold", threshold)
    if run.frames[0].on_sphere or run.statistics.get("first") == "left out":
        raise ValueError(
            "run must keep lengths and the first token: capture(..., sphere=False, first=True)."
        )
    lengths = [np.linalg.norm(np.asarray(frame.points), axis=1) for frame in run.frames]
    ratios = np.array([own[0] / max(np.median(own[1:]), 1e-300) for own in lengths])
    without = [Points(np.asarray(frame.points)[1:], on_sphere=False) for frame in run.frames]
    return FirstToken(
        ratios,
        np.array([effective_rank(frame) for frame in run.frames]),
        np.array([effective_rank(frame) for frame in without]),
        threshold,
    )
