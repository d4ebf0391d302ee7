"""Scores from several models: references that have not seen an item, and M's own checkpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.core import checks

if TYPE_CHECKING:
    from metastable.audit.split import Item
    from metastable.audit.target import Target

SEVERAL = ("lira", "rmia", "trajectory", "slope")  # asked only where their models are given
MANY = 64  # references from which an item has a deviation of its own; below, one for all items
RIDGE = 1e-3  # of the combination, whose scores are nearly collinear


def confidence(nll: ArrayLike) -> NDArray[np.float64]:
    """φ = log(p/(1 − p)) with p = exp(−nll), which is nearly normal over models (arXiv:2112.03570).

    >>> float(confidence(math.log(2)))  # p = 1/2
    0.0
    """
    loss = np.maximum(np.asarray(nll, float), 1e-12)
    return -loss - np.log(-np.expm1(-loss))


def lira(nll: float, outside: Sequence[float], inside: Sequence[float] = ()) -> float:
    """Likelihood ratio attack, from the `nll` of an item under M and under reference models.

    With φ of `confidence`, and μ, σ over models: offline (φ − μ_out)/σ_out; online, where models
    `inside` were trained on the item too, log N(φ; μ_in, σ_in²) − log N(φ; μ_out, σ_out²).
    Source: Carlini et al., arXiv:2112.03570. Below 64 models σ is taken as one
    for all items, as there; it then scales every item alike, and is left at 1.

    >>> round(lira(1.0, [2.0, 2.0]), 4)  # φ(1) − φ(2)
    1.3133
    """
    own, out = float(confidence(nll)), confidence(outside)
    mean, spread = _law(out)
    if not len(inside):
        return (own - mean) / spread
    other, wide = _law(confidence(inside))
    log_normal = lambda m, s: -((own - m) ** 2) / (2 * s**2) - math.log(s)
    return log_normal(other, wide) - log_normal(mean, spread)


def rmia(
    nll: ArrayLike, reference_nll: ArrayLike, *, gamma: float = 1.0, trust: float = 1.0
) -> NDArray[np.float64]:
    """Share of the other items z that x dominates: p_M(x)/p(x) ≥ γ p_M(z)/p(z).

    p(x) = ((1 + a) p_out(x) + 1 − a)/2 with p_out the mean over references, and a = `trust` (1: a
    model learns nothing from one item). Source: Zarifzadeh et al., arXiv:2312.03262, here
    with p = exp(−nll) of a token. All items are each other's population, protected
    and control alike, so that relabelling leaves every score as it is.

    >>> rmia([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]).tolist()
    [1.0, 0.5, 0.0]
    """
    checks.finite_array("nll", nll, 1)
    own, out = np.exp(-np.asarray(nll, float)), np.exp(-np.asarray(reference_nll, float))
    ratio = own / (((1 + trust) * out + 1 - trust) / 2)
    order = np.sort(ratio)
    dominated = np.searchsorted(order, ratio / gamma * (1 + 1e-12), side="right")
    return (dominated - (gamma <= 1)) / max(len(ratio) - 1, 1)


def mean_nll(nlls: Sequence[float]) -> float:
    """−log of the mean over models of p = exp(−nll).

    >>> round(mean_nll([1.0, 3.0]), 4)
    1.5662
    """
    values = np.asarray(nlls, float)
    least = float(values.min())
    return least - math.log(float(np.mean(np.exp(least - values))))


def trajectory(nlls: Sequence[float]) -> tuple[float, float]:
    """Mean of an item's `nll` over checkpoints, M last, and its least-squares slope for each.

    What is trained on falls early and far (loss trajectories, arXiv:2208.14933).

    >>> trajectory([3.0, 2.0, 1.0])
    (2.0, -1.0)
    """
    values = np.asarray(nlls, float)
    places = np.arange(len(values)) - (len(values) - 1) / 2
    return float(values.mean()), float(places @ values / (places @ places))


def combine(
    protected: ArrayLike, control: ArrayLike, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Dataset inference: scores weighted by what tells the sets apart in one half of documents.

    Rows are documents, columns scores. Halves are drawn at random; in one, scores are brought to
    mean 0 and deviation 1, cut at 3, and regressed on the label (ridge); the weights then give one
    number for each document of the other half. Under the null those are exchangeable, as the
    weights never saw them: any test of the two samples returned is as exact as it was. Source:
    Maini et al., arXiv:2406.06443.
    """
    random = np.random.default_rng([checks.seed(seed), 13])
    halves: list[list[NDArray[np.float64]]] = []
    for values in (np.asarray(protected, float), np.asarray(control, float)):
        mixed = values[random.permutation(len(values))]
        halves.append([mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]])
    learnt = np.concatenate([own[0] for own in halves])
    label = np.concatenate(
        [np.full(len(own[0]), sign) for own, sign in zip(halves, (1.0, -1.0), strict=True)]
    )
    center, spread = learnt.mean(0), np.maximum(learnt.std(0), 1e-12)
    scale = lambda x: np.clip((x - center) / spread, -3, 3)
    x = scale(learnt)
    gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, x.T @ (label - label.mean()))
    held, rest = (scale(own[1]) @ weights for own in halves)
    return held, rest


def add_scores(
    rows: Sequence[dict[str, Any]],
    items: Sequence[Item],
    references: Sequence[Target | None],
    checkpoints: Sequence[Target] = (),
) -> None:
    """Add to rows of likelihood what two references or more, and M's checkpoints, say of items."""
    beside = [model for model in references if model is not None]
    for row, item in zip(rows, items, strict=True):
        nll = float(row["nll"])
        if len(beside) > 1:
            outside = [item_nll(model, item.text) for model in beside]
            row["reference_ratio"] = nll / float(np.mean(outside))
            row |= {"reference_nll": mean_nll(outside), "lira": lira(nll, outside)}
        if checkpoints:
            before = [item_nll(model, item.text) for model in checkpoints]
            row["trajectory"], row["slope"] = trajectory([*before, nll])


def rank_by_references(rows: Sequence[dict[str, Any]]) -> None:
    """Add RMIA to rows that several references have looked at: all of one collection together."""
    own = [row for row in rows if "reference_nll" in row]
    if len(own) > 1:
        ranked = rmia([row["nll"] for row in own], [row["reference_nll"] for row in own])
        for row, score in zip(own, ranked.tolist(), strict=True):
            row["rmia"] = score


def item_nll(model: Target, text: str) -> float:
    """Mean −log p of a text under a model, by its own tokens."""
    opening = model.model.embed(model.opening(1))
    logp = model.log_probs(opening, model.rows([text])[0])[0]
    return -float(logp.detach().double().mean())


def _law(values: NDArray[np.float64]) -> tuple[float, float]:
    few = len(values) < MANY
    return float(values.mean()), 1.0 if few else max(float(values.std(ddof=1)), 1e-12)
