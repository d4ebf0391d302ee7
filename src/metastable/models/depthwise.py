"""Observables of captured states through depth, in one table of arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.progress import Bar
from metastable.core.tables import Tabular
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.models.representation import cka_matrix, intrinsic_dimension, top_coordinate_share
from metastable.observe.clusters import clusters, gram_rank
from metastable.observe.energy import energy
from metastable.observe.kernel import kernel_modes
from metastable.observe.phases import Plateau, plateaus
from metastable.observe.similarity import (
    effective_rank,
    pairwise_similarity,
    residual,
    similarity,
)

if TYPE_CHECKING:
    import pandas

DELTAS = (0.1, 0.01, 0.001)
BETAS = (1.0, 5.0)
BINS = 100
COSINE = 0.99  # two tokens are one cluster above it
CLOSER = ("gram_rank", "modes", "dimension")
MOST = 33  # states for what costs O(n³), or compares states with each other


@dataclass(frozen=True, eq=False)
class Depthwise(Tabular):
    """Numbers of T states, and of S chosen ones; see `depthwise`."""

    times: np.ndarray  # (T,) layers
    mean_cosine: np.ndarray  # (T,)
    mass: np.ndarray  # (T, 3) share of pairs with cosine ≥ 1 − δ, δ = 0.1, 0.01, 0.001
    histogram: np.ndarray  # (T, bins) shares, on equal bins of [−1, 1]
    clusters: np.ndarray  # (T,) by linkage, cosine > 0.99
    merges: np.ndarray  # (T,) clusters that became part of another since the state before
    splits: np.ndarray  # (T,)
    effective_rank: np.ndarray  # (T,) of the directions
    residual: np.ndarray  # (T,) distance from consensus ‖X − 1x̄ᵀ‖/‖X‖
    top_share: np.ndarray  # (T,) of the three most important coordinates
    energy: np.ndarray  # (T, 2) 2βe^{−β}E_β, β = 1 and 5
    chosen: np.ndarray  # (S,) indices of the states below
    gram_rank: np.ndarray  # (S,) δ = 0.01
    modes: np.ndarray  # (S,) maxima of the kernel density, β = 50
    dimension: np.ndarray  # (S,) intrinsic dimension
    cka: np.ndarray  # (S, S)

    @property
    def energy_violations(self) -> dict[str, int]:
        """For each β, how often the energy fell from one state to the next."""
        return {f"{beta:g}": len(energy_drops(self.energy[:, k])) for k, beta in enumerate(BETAS)}

    @property
    def plateaus(self) -> list[Plateau]:
        """Stretches of depth, long in logarithmic depth, over which the cluster count stands."""
        return plateaus(self.times, self.clusters, min_log_length=0.25)

    @property
    def series(self) -> dict[str, np.ndarray]:
        """The observables of one number a state that pages and studies show."""
        return {
            "mean_cosine": self.mean_cosine,
            "mass_099": self.mass[:, 1],
            "clusters_099": self.clusters,
            "effective_rank": self.effective_rank,
            "residual": self.residual,
        }

    def to_dict(self) -> dict[str, Any]:
        table = {column.name: getattr(self, column.name).tolist() for column in fields(self)}
        plateaus = [[p.start, p.end, p.value] for p in self.plateaus]
        return table | {"energy_violations": self.energy_violations, "plateaus": plateaus}

    def to_dataframe(self) -> pandas.DataFrame:
        """A pandas table with one row a state; of chosen states alone, NaN elsewhere.

        `mass_099` is the share of pairs with cosine ≥ 0.99, `energy_5` the energy at β = 5.
        Histograms and CKA, which are more than one number a state, are left out.
        """
        import pandas

        columns = {"layer": self.times, "mean_cosine": self.mean_cosine}
        columns |= {f"mass_{_digits(1 - d)}": self.mass[:, k] for k, d in enumerate(DELTAS)}
        for name in ("clusters", "merges", "splits", "effective_rank", "residual", "top_share"):
            columns[name] = getattr(self, name)
        columns |= {f"energy_{beta:g}": self.energy[:, k] for k, beta in enumerate(BETAS)}
        for name in CLOSER:
            columns[name] = np.full(len(self.times), np.nan)
            columns[name][self.chosen] = getattr(self, name)
        return pandas.DataFrame(columns)


def depthwise(run: Trajectory, *, thorough: bool = True, progress: bool | None = None) -> Depthwise:
    """Every observable of every state of a captured trajectory.

    Cosines are between different tokens. Clusters by three definitions: linkage at cosine > 0.99,
    rank of the thresholded Gram matrix at δ = 0.01, maxima of the kernel density at β = 50, whose
    width 1/√β is the angle that belongs to 0.99. The last two, intrinsic dimension and CKA are
    taken at up to 33 states, evenly spread in log depth, and at none with `thorough=False`.
    """
    frames = [frame.directions() for frame in run.frames]
    chosen = choose_states(np.asarray(run.times), MOST) if thorough else np.array([], int)
    rows = []
    with Bar("observables", progress) as bar:
        for k, frame in enumerate(frames):
            rows.append(_look(frame) | (_look_closer(frame) if k in chosen else {}))
            bar.update((k + 1) / len(frames))
    table = {name: np.array([row[name] for row in rows]) for name in rows[0] if name not in CLOSER}
    table |= {name: np.array([row[name] for row in rows if name in row]) for name in CLOSER}
    changes = [count_changes(a, b) for a, b in pairwise(table.pop("labels"))]
    merges, splits = np.array([(0, 0), *changes]).T
    states = [np.asarray(frames[k].points) for k in chosen]
    cka = cka_matrix(states)
    more = {"times": np.asarray(run.times), "chosen": chosen}
    return Depthwise(merges=merges, splits=splits, cka=cka, **more, **table)


def _digits(share: float) -> str:
    return f"{share:g}".replace(".", "")


def _look(frame: Points) -> dict[str, Any]:
    alike, (cosines, shares) = similarity(frame, bins=BINS), pairwise_similarity(frame)
    groups = clusters(frame, angle=float(np.arccos(COSINE)))
    return {
        "mean_cosine": alike.mean,
        "mass": [float(shares[cosines >= 1 - delta].sum()) for delta in DELTAS],
        "histogram": alike.histogram,
        "clusters": groups.count,
        "labels": groups.labels,
        "effective_rank": effective_rank(frame),
        "residual": residual(frame),
        "top_share": top_coordinate_share(frame),
        "energy": [float(energy(frame, beta, scaled=True)) for beta in BETAS],
    }


def _look_closer(frame: Points) -> dict[str, Any]:
    return {
        "gram_rank": gram_rank(frame, 1 - COSINE),
        "modes": kernel_modes(frame, 50.0).count,
        "dimension": intrinsic_dimension(frame),
    }


def choose_states(times: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` states: all of a few, else the ends and even steps of log depth."""
    if len(times) <= most:
        return np.arange(len(times))
    return np.unique(np.round(np.geomspace(1, len(times), most) - 1).astype(int))


def count_changes(before: np.ndarray, after: np.ndarray) -> tuple[int, int]:
    """Merges and splits between two partitions of the same tokens.

    A new cluster that meets m old ones is m − 1 merges; an old one spread over m new ones is m − 1
    splits. Without splits the count falls by the merges.

    >>> count_changes(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1]))
    (2, 1)
    """
    pairs = len(np.unique(np.column_stack([before, after]), axis=0))
    return pairs - len(np.unique(after)), pairs - len(np.unique(before))


def energy_drops(series: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
    """States at which an energy is lower than in the state before, beyond float32's rounding.

    Attention with V = I never lets it fall (arXiv:2312.10794); trained layers do.

    >>> energy_drops(np.array([0.1, 0.2, 0.15, 0.3])).tolist()
    [2]
    """
    return 1 + np.flatnonzero(np.diff(series) < -tolerance * np.abs(series[:-1]))
