"""One state of a text's tokens cut into clusters, by four rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from metastable.measures import Points
from metastable.observe.clusters import clusters
from metastable.observe.kernel import kernel_modes

CLEAR = 2.0  # ratio of two merge heights, next to each other, that counts as a gap
SAME = 0.01  # merge heights below it count as it: such tokens are one whatever the gaps
ROUNDING = 1e-9  # of 1 − cosine; density has no meaning below it


def cut_state(
    frame: Points, how: str, cosine: float, beta: float | None, smallest: int
) -> tuple[np.ndarray, float]:
    """Labels of one state, −1 for a token of no cluster; and the threshold. See `group_tokens`."""
    if how == "linkage":
        return clusters(frame, angle=float(np.arccos(cosine))).labels, cosine
    if how == "kernel":
        assert beta is not None
        return kernel_modes(frame, beta).labels, beta
    x = np.asarray(frame.points)
    gaps = np.clip(1 - x @ x.T, 0.0, 2.0)
    np.fill_diagonal(gaps, 0.0)
    if how == "adaptive":
        return _adaptive(gaps)
    if len(gaps) < smallest:
        return np.full(len(gaps), -1), np.nan
    np.maximum(gaps, ROUNDING, out=gaps, where=~np.eye(len(gaps), dtype=bool))
    settings: dict[str, Any] = {"metric": "precomputed", "copy": True}
    settings |= {"min_cluster_size": smallest, "allow_single_cluster": True}
    return density_clusters()(**settings).fit(gaps).labels_, np.nan


def _adaptive(gaps: np.ndarray) -> tuple[np.ndarray, float]:
    """Single linkage cut at the largest ratio of two merge heights; see `group_tokens`."""
    one = np.zeros(len(gaps), int), -1.0
    if len(gaps) < 3:
        return one
    tree = linkage(squareform((gaps + gaps.T) / 2, checks=False), "single")
    heights = np.maximum(tree[:, 2], SAME)
    ratios = heights[1:] / heights[:-1]
    k = int(ratios.argmax())
    if ratios[k] < CLEAR:
        return one
    height = float(np.sqrt(heights[k] * heights[k + 1]))
    return fcluster(tree, height, "distance") - 1, 1 - height


def density_clusters() -> Any:
    """The class HDBSCAN of scikit-learn, or a refusal that says how to get it."""
    try:
        from sklearn.cluster import HDBSCAN
    except ImportError:
        raise ValueError(
            "how='hdbscan' needs the package scikit-learn: install the extra [models], or use "
            "how='linkage'."
        ) from None
    return HDBSCAN


def own_labels(labels: np.ndarray) -> np.ndarray:
    """Labels in which every token of no cluster is one of its own."""
    labels = np.array(labels, int)
    stray = labels < 0
    labels[stray] = labels.max(initial=-1) + 1 + np.arange(stray.sum())
    return labels
