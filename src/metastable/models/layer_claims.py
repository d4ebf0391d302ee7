"""Claims about the layers of a captured transformer: what happened against what the weights state.

Identities take the weights from `case.stated` and what happened from `case.inside`: two witnesses,
of which neither runs the other's code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.models.anatomy import layers_of, part_at
from metastable.models.captured import ModelCase
from metastable.models.passes import Inside
from metastable.models.stated import Norm, StatedLayer, norm_of

LOGIT_ROUNDING = 1e-4  # of an attention weight: a logit of 100 in single precision has five digits
DIRECTIONS = 64  # in which hulls are compared
COARSE = 0.1  # an allowance beyond which an agreement says nothing


def of_weights(claim: Callable[[ModelCase], Verdict | None]) -> Callable[[ModelCase], Any]:
    """A claim about the stated weights: it has nothing to say where the run changed them."""

    @functools.wraps(claim)
    def asked(case: ModelCase) -> Verdict | None:
        row = claim(case)
        if row is None or not case.captured.changes:
            return row
        changes = ", ".join(map(repr, case.captured.changes))
        return not_applicable(row.claim, row.source, f"the run was made with {changes}")

    return asked


def of_attention(claim: Callable[[ModelCase], Verdict | None]) -> Callable[[ModelCase], Any]:
    """The same, of models that have attention."""
    asked = of_weights(claim)
    return functools.wraps(claim)(lambda case: asked(case) if case.attends else None)


def stream_adds_up(case: ModelCase) -> Verdict:
    """Norm first: x ← x + attention + feed-forward. Norm last: x ← N(N(x + attention) + …)."""
    claim = "a layer adds attention and feed-forward, and nothing else; worst error"
    worst = 0.0
    anatomy = case.anatomy
    assert anatomy is not None
    closing = None if anatomy.pre_norm else _closing_norms(case)
    for k, layer in enumerate(case.inside):
        middle = layer.state if layer.attended is None else layer.state + layer.attended
        middle = middle if layer.crossed is None else middle + layer.crossed
        if closing is not None:
            middle = _apply(closing[k % len(closing)][0], middle)
        worst = max(worst, _apart(middle, layer.middle))
        leaves = layer.middle + layer.fed
        if closing is not None:
            leaves = _apply(closing[k % len(closing)][1], leaves)
        worst = max(worst, _apart(leaves, layer.leaves))
    return judge(claim, "definition of the layer", 0.0, worst, absolute=case.rounding)


def frames_are_states(case: ModelCase) -> Verdict | None:
    """The frames of the run are directions of the states of a pass made now, with these weights.

    They are not where a run was edited, or the model changed since it was captured.
    """
    claim, source = "frames are the states of the model as it is now; worst error", "definition"
    run = case.run
    if run is None or "centre" not in run.statistics:
        return None
    told = run.statistics
    plain = told["centre"] == "raw" and told["gain"] == "kept" and told.get("step", 1.0) == 1.0
    if not plain or not run.frames[0].on_sphere or case.tokens < len(case.captured.prompt):
        return not_applicable(claim, source, "frames are not the bare directions of all states")
    worst = 0.0
    for time, frame in zip(run.times, run.frames, strict=True):
        k = int(time)
        normed = k == len(case.inside) and "applied to" in str(told.get("final_norm"))
        if k != time or k >= len(case.passage.states) or normed:
            continue
        x = np.asarray(case.passage.states[k], float)[case.kept]
        u = x / np.linalg.norm(x, axis=1, keepdims=True)
        worst = max(worst, _apart(np.asarray(frame.points), u))
    return judge(claim, source, 0.0, worst, absolute=10 * case.rounding)


def layers_follow(case: ModelCase) -> Verdict:
    """Every layer starts where the one before ended, and none is left out."""
    claim, source = "layers applied, one after the other", "definition of the network"
    gaps = [_apart(b.state, a.leaves) for a, b in zip(case.inside, case.inside[1:], strict=False)]
    broken = int(np.sum(np.array(gaps) > case.rounding))
    reason = "" if not broken else f"{broken} do not start where the one before ended"
    count = len(case.inside) - broken
    return judge(claim, source, float(case.depth), float(count), absolute=0.0, reason=reason)


@of_weights
def norms_as_stated(case: ModelCase) -> Verdict:
    """N(x) = g(x − m)/√(s² + ε) + b with the stated gain, at every door."""
    claim = "norms do what their gain says; worst error"
    worst = max((_apart(_apply(norm, x), y) for norm, x, y in _normed(case)), default=0.0)
    return judge(claim, "definition of the norm", 0.0, worst, absolute=case.rounding)


@of_weights
def tokens_have_length(case: ModelCase) -> Verdict:
    """What a norm made has length √d once its gain and bias are taken off (placement laws)."""
    claim = "length that norms give tokens, over √d; worst"
    off = [(0.0, 1.0, 1.0)]
    for norm, x, y in _normed(case):
        if norm is None or not np.all(norm.gain):
            continue
        x = np.asarray(x, float) - (np.mean(x, axis=1, keepdims=True) if norm.centred else 0.0)
        size = np.mean(x**2, axis=1)
        expected = np.sqrt(size / (size + norm.epsilon))
        bare = (np.asarray(y, float) - norm.shift) / norm.gain
        found = np.sqrt(np.mean(bare**2, axis=1))
        k = int(np.abs(found - expected).argmax())
        off.append((abs(found[k] - expected[k]), float(expected[k]), float(found[k])))
    _, expected, found = max(off)
    source, allowed = "norm placement, arXiv:2510.22026", 10 * case.rounding
    return if_fine(judge(claim, source, expected, found, absolute=allowed), allowed)


@of_attention
def maps_as_stated(case: ModelCase) -> Verdict | None:
    """P = softmax of s⟨R_iQx_i, R_jKx_j⟩ with the stated Q, K and positions."""
    claim = "attention weights are the softmax of the stated QᵀK; worst error"
    worst = max(
        (float(np.abs(layer.maps - found).max()) for layer, found in stated_maps(case)),
        default=np.nan,
    )
    allowed = max(LOGIT_ROUNDING, case.rounding)
    return judge(claim, "geshkovski2023mathematical, §2", 0.0, worst, absolute=allowed)


@of_attention
def attention_as_stated(case: ModelCase) -> Verdict | None:
    """What attention adds is o + Σ_h O_h Σ_j P^h_ij V_hx_j, through the norm that may follow."""
    claim, worst = "attention adds Σ O V P x with the stated O, V; worst error", 0.0
    for layer, (stated, after) in zip(case.inside, _with_after(case), strict=False):
        assert layer.seen is not None and layer.attended is not None
        said = _apply(after, stated.attend(layer.seen, layer.maps))
        scale = max(float(np.linalg.norm(layer.attended, axis=1).max()), 1e-30)
        worst = max(worst, float(np.linalg.norm(said - layer.attended, axis=1).max()) / scale)
    source = "geshkovski2023mathematical, §2"
    row = judge(claim, source, 0.0, worst, absolute=10 * case.rounding)
    return if_fine(row, 10 * case.rounding)


@of_attention
def words_in_hulls(case: ModelCase) -> Verdict | None:
    """⟨e, attention_i⟩ ≤ ⟨e,o⟩ + Σ_h max_j ⟨e,O_h(V_hx_j + v_h)⟩ over the tokens j that i sees.

    Attention averages: what a head says lies in the convex hull of the values it sees, so the sum
    lies in the sum of their hulls, whatever the weights.
    """
    anatomy = case.anatomy
    if anatomy is None or anatomy.after is not None:
        return None
    claim = "what attention adds lies in the hulls of the values it sees; overshoot"
    rng, worst = np.random.default_rng(0), -np.inf
    for layer, stated in zip(case.inside, case.stated, strict=False):
        assert layer.seen is not None and layer.attended is not None
        e = rng.standard_normal((layer.attended.shape[1], DIRECTIONS))
        e /= np.linalg.norm(e, axis=0)
        reach = np.broadcast_to(
            np.asarray(stated.heads[0].output_bias) @ e, (case.tokens, DIRECTIONS)
        )
        for head, values in zip(stated.heads, stated.values(layer.seen), strict=True):
            reach = reach + _running_max((values @ head.output.T) @ e, stated)
        scale = max(float(np.linalg.norm(layer.attended, axis=1).max()), 1e-30)
        worst = max(worst, float(((layer.attended @ e) - reach).max()) / scale)
    allowed = 10 * case.rounding
    source = "convexity of softmax; geshkovski2023emergence"
    return if_fine(decide(worst <= allowed, claim, source, "≤ 0", worst, f"{allowed:.2g}"), allowed)


@of_attention
def values_drawn_together(case: ModelCase) -> Verdict | None:
    """osc⟨e, Σ_j P_ij w_j⟩ ≤ τ(P) osc⟨e, w⟩, τ = 1 − Σ_k min_i P_ik, summed over heads.

    What all rows of an attention map share (Doeblin's minorisation, a bound of Dobrushin's
    coefficient) bounds how far apart tokens can be after it: why attention without skip and
    feed-forward ends in rank one (dong2021attention).
    """
    anatomy = case.anatomy
    if anatomy is None or anatomy.after is not None:
        return None
    claim = "attention draws values together by what its rows share; ratio"
    rng, worst = np.random.default_rng(1), 0.0
    for layer, stated in zip(case.inside, case.stated, strict=False):
        assert layer.seen is not None and layer.attended is not None and layer.maps is not None
        e = rng.standard_normal((layer.attended.shape[1], 16))
        allowed = np.zeros(16)
        for head, values, P in zip(
            stated.heads, stated.values(layer.seen), layer.maps, strict=True
        ):
            allowed += _doeblin(P) * np.ptp((values @ head.output.T) @ e, axis=0)
        spread = np.ptp(layer.attended @ e, axis=0)
        worst = max(worst, float((spread / np.maximum(allowed, 1e-30)).max()))
    source = "Doeblin's minorisation; dong2021attention"
    return decide(worst <= 1 + 100 * case.rounding, claim, source, "≤ 1", worst, "rounding")


def earlier_tokens_stay(case: ModelCase) -> Verdict | None:
    """Under a causal mask later tokens change nothing: the first half alone moves alike."""
    claim = "the first half of the text moves as it does alone; worst error"
    return _alone(case, claim, max(case.tokens // 2, 1))


def leader_moves_alone(case: ModelCase) -> Verdict | None:
    """The first token of a causal chain sees itself alone: its way is its own (the anchor)."""
    return _alone(case, "the first token moves as it does alone; worst error", 1)


def _alone(case: ModelCase, claim: str, first: int) -> Verdict | None:
    anatomy = case.anatomy
    if not case.causal or case.tokens < 2 or (anatomy is not None and anatomy.crossing):
        return None
    short = case.pass_of(case.prompt.first(first), inside=False)
    pairs = zip(short.states, case.passage.states, strict=False)
    worst = max(_apart(a, b[:first]) for a, b in pairs)
    allowed = 100 * case.rounding  # sums of other lengths are rounded in another order
    row = judge(claim, "causal mask; duerinckx2026kinetic", 0.0, worst, absolute=allowed)
    return if_fine(row, allowed)


def if_fine(row: Verdict, allowed: float) -> Verdict:
    """The row, unless half precision allows so much that an agreement would say nothing."""
    if allowed <= COARSE or row.verdict == "disagree":
        return row
    return not_applicable(row.claim, row.source, "too coarse in half precision: use float32")


def stated_maps(case: ModelCase) -> Iterator[tuple[Inside, np.ndarray]]:
    for layer, stated in zip(case.inside, case.stated, strict=False):
        assert layer.seen is not None
        yield layer, stated.maps(layer.seen)


def _normed(case: ModelCase) -> Iterator[tuple[Norm | None, np.ndarray, np.ndarray]]:
    """Every norm at a door of a layer, as stated, with what went in and what came out."""
    anatomy = case.anatomy
    assert anatomy is not None
    for layer, norms in zip(case.inside, _stated_norms(case), strict=False):
        if anatomy.pre_norm:
            if layer.seen is not None:
                yield norms[0], layer.state, layer.seen
            entering = layer.state if anatomy.parallel or layer.attended is None else layer.middle
            yield norms[1], entering, layer.read
        else:
            assert layer.attended is not None
            yield norms[0], layer.state + layer.attended, layer.middle
            yield norms[1], layer.middle + layer.fed, layer.leaves


def _stated_norms(case: ModelCase) -> list[tuple[Norm | None, Norm | None]]:
    """Both norms of every layer applied, as the stated network has them."""
    network = case.stated_network
    anatomy = network.anatomy(case.part)
    assert anatomy is not None
    both = [
        tuple(norm_of(part_at(layer, path), anatomy.unit_gain) for path in anatomy.norms)
        for layer in layers_of(network.model, anatomy)
    ]
    return [both[k % len(both)] for k in range(case.depth)]  # pyright: ignore[reportReturnType]


def _closing_norms(case: ModelCase) -> list[tuple[Norm | None, Norm | None]]:
    """Of the network that ran, which a norm-last layer ends with."""
    anatomy = case.anatomy
    assert anatomy is not None
    return [
        tuple(norm_of(part_at(layer, path), anatomy.unit_gain) for path in anatomy.norms)
        for layer in layers_of(case.network.model, anatomy)
    ]  # pyright: ignore[reportReturnType]


def _with_after(case: ModelCase) -> Iterator[tuple[StatedLayer, Norm | None]]:
    """Stated layers, each with the norm that follows its attention (peri-norm)."""
    network = case.stated_network
    anatomy = network.anatomy(case.part)
    assert anatomy is not None
    modules = layers_of(network.model, anatomy)
    for k, stated in enumerate(case.stated):
        module = modules[k % len(modules)]
        after = anatomy.after and norm_of(part_at(module, anatomy.after[0]), anatomy.unit_gain)
        yield stated, after or None


def _running_max(values: np.ndarray, stated: StatedLayer) -> np.ndarray:
    """Largest value over the tokens that each token sees, (n, directions)."""
    if stated.window is not None and stated.window < len(values):
        sees = stated.sees(len(values))
        return np.stack([values[row].max(axis=0) for row in sees])
    if stated.causal:
        return np.maximum.accumulate(values, axis=0)
    return np.broadcast_to(values.max(axis=0), values.shape)


def _doeblin(P: Any) -> float:
    return 1.0 - float(np.asarray(P, float).min(axis=0).sum())


def _apply(norm: Norm | None, x: np.ndarray) -> np.ndarray:
    return np.asarray(x, float) if norm is None else norm(x)


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Largest distance of a token from its other self, over its length."""
    size = np.maximum(np.linalg.norm(b, axis=1), 1e-30)
    return float((np.linalg.norm(np.asarray(a, float) - b, axis=1) / size).max())
