"""Sigmoid networks that tell two closed sets of the plane apart, lemma by lemma."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.ndimage import binary_erosion
from scipy.spatial import KDTree

__all__ = ["Separation", "enclose", "separate", "sigmoid", "threshold"]

CANDIDATES = 8  # centres tried for each set of a cover
SHARES = (0.25, 0.5, 0.75) * 3  # of a centre's distance to B that its sides leave to rise in
CHEAP = 120  # sides up to which many covers are tried
# Where a sigmoid stands at the two ends of a gap. Near 0 it is an exponential: it tells sums apart
# by their ratio, at half the steepness of a symmetric one, and vanishes faster beyond the gap.
LEVELS = ((0.35, 0.65), (0.15, 0.85), (0.02, 0.2), (0.001, 0.02), (0.01, 0.99))
RESOLVED = 5e-4  # smallest difference between two sums that the next layer has to tell apart


@dataclass(frozen=True)
class Separation:
    """H = σ(b_3 + W_3 σ(b_2 + W_2 σ(b_1 + W_1 x))), one neuron in its third layer."""

    first: np.ndarray  # (N_1, 2)
    second: Any  # (N_2, N_1), sparse
    third: np.ndarray  # (1, N_2)
    biases: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(map(len, self.biases))


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1/(1 + e^{−z}), in the form that cannot overflow."""
    return 0.5 + 0.5 * np.tanh(z / 2)


def threshold(x0: Any, x1: Any, y0: Any, y1: Any) -> tuple[Any, Any]:
    """Bias s and slope t with σ(s + t x_0) = y_0 and σ(s + t x_1) = y_1 (Lemma 2.3).

    For x_0 < x_1 and y_0 < y_1 the neuron is then ≤ y_0 left of x_0 and ≥ y_1 right of x_1.

    >>> s, t = threshold(0.0, 1.0, 0.1, 0.9)
    >>> round(float(sigmoid(s + t)), 12)
    0.9
    """
    z0, z1 = np.log(y0 / (1 - y0)), np.log(y1 / (1 - y1))
    t = (z1 - z0) / (x1 - x0)
    return z0 - t * x0, t


def enclose(a: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half planes {⟨u, x − a⟩ ≥ r} that cover `others` and leave a out (the cover of Lemma 2.4).

    Each is tangent to the disc around a that touches the nearest point not covered yet. Returns
    unit vectors u (m, 2) and distances r (m,).

    >>> enclose(np.zeros(2), np.array([[2.0, 0.0], [3.0, 1.0], [0.0, -4.0]]))[1].tolist()
    [2.0, 4.0]
    """
    apart = others - a
    distance = np.hypot(apart[:, 0], apart[:, 1])
    normals, radii = [], []
    while len(apart):
        nearest = distance.argmin()
        u, r = apart[nearest] / distance[nearest], distance[nearest]
        left = apart @ u < r * (1 - 1e-9)
        apart, distance = apart[left], distance[left]
        normals.append(u)
        radii.append(r)
    return np.array(normals), np.array(radii)


def separate(
    points: np.ndarray,
    high: np.ndarray,
    low: np.ndarray,
    residual: np.ndarray,
    random: np.random.Generator,
) -> tuple[Separation, np.ndarray]:
    """A network H ≤ 1/6 on the set `low` and ≥ 5/6 on the set `high` of a grid (Lemma 2.5).

    For a in one set A, half planes f_j cover the other set B without a; F_j = σ(s + t f_j) rises
    across the gap, and g_a = 1 − Σ_j F_j is large near a, small on B (Lemma 2.4). Finitely many
    {g_a large} cover A; H = σ(s + t Σ_a σ(s_a + t_a g_a)). Either set may play A; H is flipped if
    it is `low`.

    The lemmas ask for F_j < ε/N, which guards against all N terms being largest at one place.
    Here each (s, t) of Lemma 2.3 comes from the largest and smallest sums actually met, for
    several ε and several covers, and the gentlest H wins (the mean fourth power of the slope of
    residual − H): steep or badly fitting neurons would tear the next step's sets to shreds.

    - `points`: (k, k, 2), a rectangular grid; `high`, `low`: masks (k, k), disjoint, not empty.
    - `residual`: (k, k), in units of the coefficient H will get.

    Returns the network and its values on the grid, (k, k).
    """
    spacing = points[1, 1] - points[0, 0]
    best: Any = None
    for flip, cover in _covers(points, high, low, random):
        inside, outside = (low, high) if flip else (high, low)
        for first in LEVELS:
            s1, t1 = threshold(cover.near, cover.far, *first)
            bumps = _bumps(points, cover, s1, t1)
            # The smallest g_a on the part of A that it must raise, and the largest on B.
            least = np.full(len(cover.starts), np.inf)
            own = bumps[inside][np.arange(len(cover.owner)), cover.owner]
            np.minimum.at(least, cover.owner, own)
            most = bumps[outside].max(axis=0)
            if not np.all(least - most > RESOLVED):
                continue
            for second in LEVELS:
                s2, t2 = threshold(most, least, *second)
                total = sigmoid(s2 + t2 * bumps).sum(axis=-1)
                x0, x1 = total[outside].max(), total[inside].min()
                if x1 - x0 < RESOLVED:
                    continue
                s3, t3 = threshold(x0, x1, 1 / 6, 5 / 6)
                if flip:
                    s3, t3 = -s3, -t3
                height = sigmoid(s3 + t3 * total)
                left = residual - height
                slopes = [np.diff(left, axis=k) / spacing[k] for k in (0, 1)]
                rough = sum(np.mean(slope**4) for slope in slopes) / np.ptp(left) ** 4
                if best is None or rough < best[0]:
                    best = rough, height, cover, s1, t1, s2, t2, s3, t3
    if best is None:
        raise ValueError(
            "grid must resolve the gap between the two sets, which are nearly in touch; raise it."
        )
    _, height, cover, s1, t1, s2, t2, s3, t3 = best
    ends = np.append(cover.starts[1:], len(t1))
    rows = np.repeat(np.arange(len(t2)), ends - cover.starts)
    part = Separation(
        first=t1[:, None] * cover.normals,
        second=sparse.csr_array((-t2[rows], (rows, np.arange(len(t1))))),  # g_a = 1 − Σ_j F_j
        third=np.full((1, len(t2)), t3),
        biases=(s1, s2 + t2, np.array([s3])),
    )
    return part, height


@dataclass(frozen=True)
class _Cover:
    """Convex sets that cover A without B: slabs near < ⟨u, x⟩ < far where their sides rise."""

    normals: np.ndarray  # (N_1, 2)
    near: np.ndarray  # (N_1,)
    far: np.ndarray  # (N_1,)
    starts: np.ndarray  # (N_2,), where the sides of each set begin
    owner: np.ndarray  # (|A|,), the set in which each point of A lies deepest


def _covers(
    points: np.ndarray, high: np.ndarray, low: np.ndarray, random: np.random.Generator
) -> Iterator[tuple[bool, _Cover]]:
    """Covers of `high` without `low`, and flipped: the smallest six, or two once they are large."""
    found = []
    for flip, inside, outside in ((False, high, low), (True, low, high)):
        # A convex set around a ∉ B that meets B meets its border: the border is all we must avoid.
        core = np.asarray(binary_erosion(outside, np.ones((3, 3)), border_value=1), bool)
        border = outside & ~core
        for share in SHARES:
            sets = _convex_sets(points[inside], points[border], share, random)
            sides = sum(len(r) for *_, r in sets[0])
            found.append((sides, flip, points[inside], points[border], *sets))
            if sides > CHEAP:
                break
    found.sort(key=lambda cover: cover[0])
    for rank, (sides, flip, inside, border, sets, owner) in enumerate(found):
        if rank < (6 if sides < CHEAP else 2):
            slabs = [_slabs(inside[owner == k], border, *one) for k, one in enumerate(sets)]
            starts = np.cumsum([0, *(len(near) for _, near, _ in slabs[:-1])])
            normals, near, far = map(np.concatenate, zip(*slabs, strict=True))
            yield flip, _Cover(normals, near, far, starts, owner)


def _convex_sets(
    inside: np.ndarray, outside: np.ndarray, share: float, random: np.random.Generator
) -> tuple[list[tuple[np.ndarray, np.ndarray, np.ndarray]], np.ndarray]:
    """Centres a with their half planes (u, r), greedily, and the set that owns each point of A."""
    distance = KDTree(outside).query(inside)[0]
    depth: list[np.ndarray] = []
    sets: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    left = np.arange(len(inside))
    while len(left):
        tried = []
        for a in random.choice(left, min(CANDIDATES, len(left)), replace=False):
            u, r = enclose(inside[a], outside)
            reached = (inside[left] - inside[a]) @ u.T <= r - share * distance[a]
            tried.append((np.sum(reached.all(axis=1)) / np.sqrt(len(u)), a, u, r))
        _, a, u, r = max(tried, key=lambda candidate: candidate[0])
        room = np.min(r - (inside - inside[a]) @ u.T, axis=1)
        room[room < share * distance[a]] = -np.inf
        left = left[np.isinf(room[left])]
        depth.append(room)
        sets.append((inside[a], u, r))
    used, owner = np.unique(np.argmax(depth, axis=0), return_inverse=True)
    return [sets[k] for k in used], owner


def _slabs(
    mine: np.ndarray, outside: np.ndarray, a: np.ndarray, u: np.ndarray, r: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sides of one set, each turned to the widest slab between its own points and its share."""
    share = np.argmax((outside - a) @ u.T / r, axis=1)
    kept = np.unique(share)
    normals = np.array([_widest(mine, outside[share == j], u[j]) for j in kept])
    near = np.max(mine @ normals.T, axis=0)
    far = np.array([np.min(outside[share == j] @ v) for j, v in zip(kept, normals, strict=True)])
    return normals, near, far


def _widest(first: np.ndarray, second: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Unit normal of the widest slab between two convex hulls that u separates.

    The shortest vector between the hulls, by Frank and Wolfe's method.
    """
    apart = second[np.argmin(second @ u)] - first[np.argmax(first @ u)]
    for _ in range(60):
        corner = second[np.argmin(second @ apart)] - first[np.argmax(first @ apart)]
        gain, turn = apart @ (apart - corner), apart - corner
        if gain <= 1e-6 * (apart @ apart):
            break
        apart = apart - min(1.0, gain / (turn @ turn)) * turn
    # Stopped early it may separate less well than u did.
    found = apart / np.linalg.norm(apart)
    width = lambda v: np.min(second @ v) - np.max(first @ v)
    return found if width(found) > width(u) else u


def _bumps(points: np.ndarray, cover: _Cover, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """g_a = 1 − Σ_j F_j on the grid, (k, k, N_2)."""
    sums = [
        np.add.reduceat(sigmoid(s + t * (row @ cover.normals.T)), cover.starts, axis=-1)
        for row in points  # row by row: all sides on all points may not fit in memory
    ]
    return 1 - np.array(sums)
