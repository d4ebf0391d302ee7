"""Means of an observable along each axis of a sweep, and whether more than chance parts them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from scipy import stats
from scipy.special import gammaln

from metastable.sweep.words import located

LEVEL = 0.01  # of seeing a dependence on any axis where there is none
HARDLY = 0.1  # of the largest difference along an axis: what is less is hardly a dependence


@dataclass(frozen=True)
class Profile:
    """Means along an axis over all other axes, at its `places`, with their standard errors.

    - `errors`: NaN where none is known.
    - `p`: probability of means as unlike as these by chance alone; 0 where no error is known.
    - `left_open`: how far apart two places may be all the same, at 95 % for all pairs together;
      NaN where no error is known.
    - `turns`: where on other axes the direction is another; "" for nowhere.
    - `missing`: the places without any value; "" for none.
    """

    dim: str
    places: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    p: float
    left_open: float = math.nan
    turns: str = ""
    missing: str = ""
    tied: bool = False

    @property
    def span(self) -> float:
        """Between the lowest mean and the highest."""
        return float(np.ptp(self.means))

    @property
    def whole(self) -> tuple[float, float]:
        """The mean over all places, and its standard error."""
        count = 1.0 if self.tied else math.sqrt(len(self.errors))
        error = math.sqrt(float((self.errors**2).mean())) / count
        return float(self.means.mean()), error


def profiles(
    values: xarray.DataArray, errors: xarray.DataArray, runs: int, tied: bool
) -> list[Profile]:
    """One for each axis with two places or more that can be compared; see `dependence`."""
    found = [_profile(values, errors, str(dim), runs, tied) for dim in values.dims]
    return [profile for profile in found if profile is not None]


def _profile(
    values: xarray.DataArray, errors: xarray.DataArray, dim: str, runs: int, tied: bool
) -> Profile | None:
    """Over the cells that are known all along the axis; None where it has a single place.

    Where no cell is known all along, the places that miss most are left out.
    """
    means, off = _cells(values, dim), _cells(errors, dim)  # (places, cells, times)
    kept = np.asarray(np.isfinite(means).any(axis=(1, 2)))
    while kept.sum() > 1 and not np.isfinite(means[kept]).all(axis=0).any():
        kept[np.flatnonzero(kept)[np.isfinite(means[kept]).sum(axis=(1, 2)).argmin()]] = False
    if kept.sum() < 2:
        return None
    means, off = means[kept], off[kept]
    known = np.asarray(np.isfinite(means).all(axis=0))  # (cells, times)
    places = values[dim].values[kept]
    mean, error, cells = _averaged(means, off, known, tied)
    turns = _turns(values, dim, means, off, known, runs)
    missing = " and ".join(located(dim, place) for place in values[dim].values[~kept])
    p, open_ = chance(mean, error, runs, cells), left_open(mean, error, max(runs - 1, 1) * cells)
    return Profile(dim, places, mean, error, p, open_, turns, missing, tied)


def _cells(values: xarray.DataArray, dim: str) -> np.ndarray:
    """(places, cells, times): errors of one cell at several times are not independent."""
    rest = [d for d in values.dims if d not in (dim, "time")]
    last = ["time"] if "time" in values.dims and dim != "time" else []
    shape = values.sizes[dim], -1, values.sizes["time"] if last else 1
    return values.transpose(dim, *rest, *last).values.reshape(shape)


def _averaged(
    means: np.ndarray, off: np.ndarray, known: np.ndarray, tied: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and error at each place over the known cells, and how many cells the error is made of.

    Errors of one cell at several times add up in full. Where one cell has most of the error, the
    others tell nothing of how sure it is: (Σv)²/Σv² cells count, v their variances.
    """
    share = known / known.sum()
    mean = np.where(known, means, 0.0).reshape(len(means), -1) @ share.ravel()
    each = (np.where(known, off, 0.0) * share).sum(axis=2)  # (places, cells)
    if tied:
        return mean, each.sum(axis=1), 1.0
    spread = (each**2).mean(axis=0)  # NaN where no error is known
    whole = float(spread.sum())
    count = whole**2 / float((spread**2).sum()) if whole > 0 else float(known.any(axis=1).sum())
    return mean, np.sqrt((each**2).sum(axis=1)), count


def chance(means: np.ndarray, errors: np.ndarray, runs: int, cells: float = 1) -> float:
    """Probability of means as unlike as these, if nothing but their errors sets them apart.

    The larger of two: Welch's test, right where errors differ from place to place, but far too
    ready to reject where few runs of a whole number happen to be equal (up to 70 % of the time at
    a level of 1 %); and the test of one common error, which stands that. Errors are drawn towards
    their mean, which counts as one run more; an error of nought among others is their mean.

    - `means`, `errors`: at each place, from `runs` runs in each of so many `cells`.

    Where all errors are nought, p counts the ways to deal the same values out to places so that
    none has two of them. Where none is known, p is 0: nothing is held against the means.

    >>> chance(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.1, 0.1]), 16) < 1e-9
    True
    >>> round(chance(np.array([4.0, 5.0]), np.zeros(2), runs=2), 6)  # 4 4 | 5 5 of six ways
    0.333333
    """
    count, freedom = len(means), max(runs - 1, 1) * cells
    if np.ptp(means) <= 1e-12 * float(np.abs(means).max()):
        return 1.0
    if np.isnan(errors).all():
        return 0.0
    square = np.nan_to_num(errors, nan=np.nanmax(errors)) ** 2
    if not square.any():
        return _dealt(means, runs * cells)
    pooled = float(stats.f.sf(means.var(ddof=1) / square.mean(), count - 1, count * freedom))
    square = np.where(square > 0, square, square.mean())
    weight = (freedom + 1) / (freedom * square + square.mean())
    middle = (weight * means).sum() / weight.sum()
    uneven = ((1 - weight / weight.sum()) ** 2).sum() / freedom
    between = (weight * (means - middle) ** 2).sum() / (count - 1)
    between /= 1 + 2 * (count - 2) / (count**2 - 1) * uneven
    return max(pooled, float(stats.f.sf(between, count - 1, (count**2 - 1) / (3 * uneven))))


def left_open(means: np.ndarray, errors: np.ndarray, freedom: float) -> float:
    """The largest difference of two places that the errors do not exclude, of all pairs at 95 %.

    |m_j − m_k| + t·√(e_j² + e_k²), the largest of all pairs, t being Student's quantile of so many
    degrees of freedom at a level that Bonferroni divides among pairs. An error of nought among
    others is their mean, as in `chance`.

    >>> round(left_open(np.array([1.0, 1.0]), np.array([0.3, 0.4]), 1e9), 4)  # 1.96 · 0.5
    0.98
    """
    if np.isnan(errors).all():
        return math.nan
    square = np.nan_to_num(errors, nan=np.nanmax(errors)) ** 2
    square = np.where(square > 0, square, square.mean())
    pairs = np.triu_indices(len(means), 1)
    quantile = float(stats.t.isf(0.025 / len(pairs[0]), freedom))
    apart = np.abs(means[:, None] - means) + quantile * np.sqrt(square[:, None] + square)
    return float(apart[pairs].max())


def _dealt(means: np.ndarray, runs: float) -> float:
    """Of all ways to deal the runs to places, those with equal runs at every place."""
    same = np.unique(means, return_counts=True)[1]
    ways = gammaln(len(means) * runs + 1) - gammaln(runs * same + 1).sum()
    return float(np.exp(gammaln(len(means) + 1) - gammaln(same + 1).sum() - ways))


def _turns(
    values: xarray.DataArray, dim: str, means: np.ndarray, off: np.ndarray, known: np.ndarray,
    runs: int,
) -> str:  # fmt: skip
    """Where on another axis the change from first to last place has another sign than elsewhere.

    Each sign must be sure by itself, at `LEVEL` for all places of the other axis together.
    """
    if values[dim].dtype.kind not in "if":
        return ""
    sizes = {str(d): values.sizes[d] for d in values.dims if d not in (dim, "time")}
    change = np.where(known, means[-1] - means[0], np.nan).reshape(*sizes.values(), -1)
    error = np.where(known, np.hypot(off[0], off[-1]), np.nan).reshape(change.shape)
    usual = _mean(error)
    for axis, other in enumerate(sizes):
        if sizes[other] < 2:
            continue
        level = float(stats.t.isf(LEVEL / 2 / sizes[other], max(runs - 1, 1)))
        ends: dict[bool, list[tuple[float, Any]]] = {True: [], False: []}
        for k, place in enumerate(values[other].values):
            mean = _mean(change.take(k, axis))
            sure = level * max(_mean(error.take(k, axis)), usual)
            if abs(mean) > max(sure, HARDLY * float(np.nanmax(np.abs(change)))):
                ends[mean > 0].append((abs(mean), place))
        if ends[True] and ends[False]:
            up, down = (max(ends[sign], key=lambda end: end[0])[1] for sign in (True, False))
            return f"rising at {located(other, up)} and falling at {located(other, down)}"
    return ""


def _mean(values: np.ndarray) -> float:
    """Of those that are known; 0 where none is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else 0.0
