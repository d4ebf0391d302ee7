"""What theory says of a transformer before training: every matrix is random, fresh in each layer.

Given the states that enter, the matrices of a layer are independent of them: what a layer adds has
then a known size and known overlaps in the mean. Each claim averages a ratio, or a difference, of
mean one or zero over the layers; the layers are independent draws given what came before, so that
the mean over its own standard error follows Student's law. Derived here; the recursion is that of
`metastable.theory.propagation` (arXiv:2103.03404, 2206.03126, 2505.24333), in the sizes of the
model at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import stdtr

from metastable.core.verdict import Verdict, not_applicable, sampled
from metastable.models.captured import ModelCase
from metastable.models.feed_forward import feed_forwards
from metastable.models.stated import StatedLayer

SOURCE = "random weights; dong2021attention, noci2022signal, derived"
PAIRS = 400  # of tokens, whose overlaps are compared


def is_random(case: ModelCase) -> Verdict | None:
    """One row that says why the claims below are silent on a trained model."""
    if case.network.fresh:
        return None
    claim = "random weights move tokens as the overlap maps say"
    return not_applicable(
        claim, SOURCE, "the weights are not known to be random: ask of network.untrained(seed)"
    )


def logits_are_small(case: ModelCase) -> Verdict | None:
    """E ℓ_ij² = s²k σ_q²σ_k²‖x_i‖²‖x_j‖² for i ≠ j."""

    def ratio(layer: Any, stated: StatedLayer) -> float:
        sizes = np.sum(np.asarray(layer.seen, float) ** 2, axis=1)
        expected = np.outer(sizes, sizes) * _logit_variance(stated)
        logits = stated.logits(layer.seen)
        pairs = stated.sees(len(sizes)) & ~np.eye(len(sizes), dtype=bool)
        return float(np.mean((logits**2)[:, pairs] / expected[pairs]))

    if not _asked(case) or any(layer.query_norm is not None for layer in case.stated):
        return None
    if any(layer.distance is not None for layer in case.stated):
        return None
    return _mean_one(case, "mean square of the logits, over the expected", ratio)


def attention_size(case: ModelCase) -> Verdict | None:
    """E‖a_i‖² = d Σ_h kσ_o²σ_v²‖m^h_i‖², m the mean of what head h looks at."""

    def ratio(layer: Any, stated: StatedLayer) -> float:
        expected = _attention_overlaps(layer, stated)
        return float(np.sum(layer.attended**2) / np.trace(expected))

    if not _asked(case, plain=True):
        return None
    return _mean_one(case, "square of what attention adds, over the expected", ratio)


def attention_overlaps(case: ModelCase) -> Verdict | None:
    """E⟨a_i,a_j⟩ = d Σ_h kσ_o²σ_v²⟨m^h_i,m^h_j⟩ over all pairs of tokens."""

    def ratio(layer: Any, stated: StatedLayer) -> float:
        expected, a = _attention_overlaps(layer, stated), np.asarray(layer.attended, float)
        return float(np.sum(_off(a @ a.T)) / np.sum(_off(expected)))

    if not _asked(case, plain=True):
        return None
    return _mean_one(case, "overlap of what attention adds to two tokens, over the expected", ratio)


def feed_forward_size(case: ModelCase) -> Verdict | None:
    """E‖f_i‖² = d σ_2² m E[φ(g)²], g Gaussian of variance σ_1²‖x_i‖²; a gate multiplies."""
    return _fed(case, "square of what the feed-forward net adds, over the expected", False)


def feed_forward_overlaps(case: ModelCase) -> Verdict | None:
    """E⟨f_i,f_j⟩ = d σ_2² m E[φ(g_i)φ(g_j)], g_i, g_j with the correlation of their tokens."""
    claim = "overlap of what the feed-forward net adds to two tokens, over the expected"
    return _fed(case, claim, True)


def attention_is_orthogonal(case: ModelCase) -> Verdict | None:
    """E⟨x_i,a_i⟩ = 0: what attention adds knows nothing of where a token points."""
    if not _asked(case, plain=True):
        return None
    values = [_mean_angle(layer.state, layer.attended) for layer in case.inside]
    return _mean_is("cosine of a token with what attention adds", values, 0.0)


def feed_forward_is_orthogonal(case: ModelCase) -> Verdict | None:
    """E⟨x_i,f_i⟩ = 0."""
    if not _asked(case, plain=True):
        return None
    values = [_mean_angle(layer.middle, layer.fed) for layer in case.inside]
    return _mean_is("cosine of a token with what the feed-forward net adds", values, 0.0)


def attention_looks_everywhere(case: ModelCase) -> Verdict | None:
    """E Σ_j w_j² = e^{v(1−ρ)}/n for Gaussian logits of variance v and correlation ρ, v small."""
    claim = "n Σ w² of attention rows, over that of Gaussian logits"
    if not _asked(case) or any(layer.query_norm is not None for layer in case.stated):
        return None
    if any(layer.distance is not None or layer.frequencies is not None for layer in case.stated):
        return not_applicable(claim, SOURCE, "positions turn the logits: not of one variance")

    def ratio(layer: Any, stated: StatedLayer) -> float:
        x = np.asarray(layer.seen, float)
        variance, sees = _logit_variance(stated), stated.sees(len(x))
        rows = [i for i in range(len(x)) if sees[i].sum() >= 8]
        found = np.mean([np.sum(layer.maps[:, i] ** 2, axis=-1) for i in rows], axis=1)
        expected = []
        for i in rows:
            spread = np.mean(np.sum((x[sees[i]] - x[sees[i]].mean(axis=0)) ** 2, axis=1))
            apart = variance * np.sum(x[i] ** 2) * spread
            expected.append(np.exp(apart) / sees[i].sum())
        return float(np.mean(found / np.array(expected)))

    return _mean_one(case, claim, ratio)


def cosines_by_the_map(case: ModelCase) -> Verdict | None:
    """Mean cosine after every half layer against the overlap map's, one step ahead.

    ρ_ij ← (⟨x_i,x_j⟩ + E⟨a_i,a_j⟩)/√((‖x_i‖² + E‖a_i‖²)(‖x_j‖² + E‖a_j‖²)), and so for f.
    """
    if not _asked(case, plain=True) or (nets := feed_forwards(case)) is None:
        return None
    off = []
    for layer, stated, net in zip(case.inside, case.stated, nets, strict=False):
        halves = [(layer.state, layer.attended, _attention_overlaps(layer, stated))]
        halves.append((layer.middle, layer.fed, net.overlaps(layer.read, len(layer.fed[0]))))
        for x, added, expected in halves:
            x = np.asarray(x, float)
            off.append(_mean_cosine((x + added) @ (x + added).T) - _mean_cosine(x @ x.T + expected))
    return _mean_is("mean cosine after a half layer, beyond the overlap map", off, 0.0)


def _asked(case: ModelCase, plain: bool = False) -> bool:
    """Whether a claim is about this case; `plain`: and nothing normalises what is added."""
    anatomy = case.anatomy
    if not case.network.fresh or not case.attends or anatomy is None:
        return False
    return not (plain and (anatomy.after is not None or anatomy.parallel))


def _logit_variance(stated: StatedLayer) -> float:
    """s²k σ_q²σ_k² of a layer's heads together."""
    head = stated.heads[0]
    query = np.mean([np.mean(h.query**2) for h in stated.heads])
    key = np.mean([np.mean(h.key**2) for h in stated.heads])
    return float(head.scale**2 * head.query.shape[0] * query * key)


def _attention_overlaps(layer: Any, stated: StatedLayer) -> np.ndarray:
    """E⟨a_i,a_j⟩ (n, n), over values and outputs, given the states and the maps."""
    x, heads = np.asarray(layer.seen, float), stated.heads
    output = np.mean([np.mean(h.output**2) for h in heads])
    value = np.mean([np.mean(h.value**2) for h in heads])
    d, k = heads[0].output.shape
    total = np.zeros((len(x), len(x)))
    for P in np.asarray(layer.maps, float):
        m = P @ x
        total += m @ m.T
    return float(d * k * output * value) * total


def _fed(case: ModelCase, claim: str, pairs: bool) -> Verdict | None:
    if not _asked(case, plain=True):
        return None
    if (nets := feed_forwards(case)) is None:
        return not_applicable(claim, SOURCE, "a feed-forward net of another form")
    values = []
    for layer, net in zip(case.inside, nets, strict=False):
        f = np.asarray(layer.fed, float)
        found, expected = f @ f.T, net.overlaps(layer.read, f.shape[1])
        cut = _off if pairs else np.diag
        values.append(float(np.sum(cut(found)) / np.sum(cut(expected))))
    return _mean_is(claim, values, 1.0)


def _mean_one(case: ModelCase, claim: str, ratio: Callable[[Any, StatedLayer], float]) -> Verdict:
    layers = zip(case.inside, case.stated, strict=False)
    return _mean_is(claim, [ratio(layer, stated) for layer, stated in layers], 1.0)


def _mean_is(claim: str, values: Any, expected: float) -> Verdict:
    values = np.asarray(values, float)
    if len(values) < 3:
        return not_applicable(claim, SOURCE, "fewer than three layers")
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    t = (values.mean() - expected) / max(error, 1e-300)
    p = float(2 * stdtr(len(values) - 1, -abs(t)))
    return sampled(claim, SOURCE, expected, float(values.mean()), p, error)


def _off(matrix: np.ndarray) -> np.ndarray:
    return matrix[~np.eye(len(matrix), dtype=bool)]


def _mean_angle(x: Any, added: Any) -> float:
    x, added = np.asarray(x, float), np.asarray(added, float)
    return float(np.sum(x * added) / np.sqrt(np.sum(x * x) * np.sum(added * added)))


def _mean_cosine(gram: np.ndarray) -> float:
    size = np.sqrt(np.diag(gram))
    return float(np.mean(_off(gram / np.outer(size, size))))


TWIN_CLAIMS: list[Callable[..., Any]] = [
    is_random,
    logits_are_small,
    attention_looks_everywhere,
    attention_size,
    attention_overlaps,
    attention_is_orthogonal,
    feed_forward_size,
    feed_forward_overlaps,
    feed_forward_is_orthogonal,
    cosines_by_the_map,
]
