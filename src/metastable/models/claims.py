"""What theory says of a captured transformer, one claim a function, in the order of their rows.

Each looks at a `ModelCase` and answers with a row, or with None where it is not about such a
model. Identities take the weights from `case.stated` and what happened from `case.inside`: two
witnesses, of which neither runs the other's code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.models.anatomy import layers_of, part_at
from metastable.models.captured import ModelCase
from metastable.models.clock import fit_clock
from metastable.models.energy import coherent_pull, energy_parts, score_signs, token_energy
from metastable.models.hypotheses import why_not_isotropic, why_not_monotone
from metastable.models.passes import Inside
from metastable.models.sinks import SINK, sink_shares
from metastable.models.stated import Norm, StatedLayer, norm_of
from metastable.models.twin_claims import TWIN_CLAIMS

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
    return _fine(judge(claim, source, expected, found, absolute=allowed), allowed)


@of_attention
def maps_as_stated(case: ModelCase) -> Verdict | None:
    """P = softmax of s⟨R_iQx_i, R_jKx_j⟩ with the stated Q, K and positions."""
    claim = "attention weights are the softmax of the stated QᵀK; worst error"
    worst = max(
        (float(np.abs(layer.maps - found).max()) for layer, found in _maps(case)), default=np.nan
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
    return _fine(row, 10 * case.rounding)


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
    return _fine(decide(worst <= allowed, claim, source, "≤ 0", worst, f"{allowed:.2g}"), allowed)


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


@of_attention
def entropy_by_gaps(case: ModelCase) -> Verdict | None:
    """Entropy of a row by its gap-counting function N(g) = #{j: ℓ_max − ℓ_j ≤ g}.

    S = log Z + ∫ g e^{−g} dN/Z, Z = ∫ e^{−g} dN(g): what decides between looking everywhere and
    looking at one token as the context grows (THEORY: critical scaling of β with n).
    """
    claim, source = "mean entropy of attention rows, by the gaps of the stated logits", "derived"
    seen, foretold = [], []
    for layer, stated in zip(case.inside, case.stated, strict=False):
        assert layer.seen is not None and layer.maps is not None
        P = np.asarray(layer.maps, float)
        seen.append(-np.sum(P * np.log(np.maximum(P, 1e-300)), axis=-1).mean())
        logits = stated.logits(layer.seen)
        gaps = logits.max(axis=-1, keepdims=True) - logits
        weights = np.exp(-gaps)
        Z = weights.sum(axis=-1)
        drop = np.where(weights > 0, np.where(np.isfinite(gaps), gaps, 0.0) * weights, 0.0)
        foretold.append((np.log(Z) + drop.sum(axis=-1) / Z).mean())
    seen, foretold = np.array(seen), np.array(foretold)
    k = int(np.abs(seen - foretold).argmax())
    reason = f"layer {k} is farthest; e^S is {np.exp(seen.mean()):.3g} tokens on average"
    allowed = 10 * max(LOGIT_ROUNDING, case.rounding)
    row = judge(claim, source, float(foretold[k]), float(seen[k]), absolute=allowed, reason=reason)
    return _fine(row, allowed)


@of_attention
def sink_share(case: ModelCase) -> Verdict | None:
    """Share of attention on the first token, by head: from the stated logits, and as it was."""
    if case.tokens < 4:
        return None
    claim = "attention on the first token, largest share of a head"
    seen = np.array([sink_shares(layer.maps) for layer in case.inside])
    foretold = np.array([sink_shares(found) for _, found in _maps(case)])
    if seen.shape != foretold.shape:
        return not_applicable(claim, "definition", "layers of another number")
    k, h = np.unravel_index(np.abs(seen - foretold).argmax(), seen.shape)
    top = np.unravel_index(seen.argmax(), seen.shape)
    where = (k, h) if abs(seen[k, h] - foretold[k, h]) > LOGIT_ROUNDING else top
    count = int((seen > SINK).sum())
    reason = f"{count} of {seen.size} heads are sinks (share above {SINK:g})"
    allowed = max(LOGIT_ROUNDING, case.rounding)
    source = "xiao2023efficient; computed from the stated weights"
    return judge(
        claim, source, float(foretold[where]), float(seen[where]), absolute=allowed, reason=reason
    )


def earlier_tokens_stay(case: ModelCase) -> Verdict | None:
    """Under a causal mask later tokens change nothing: the first half alone moves alike."""
    claim = "the first half of the text moves as it does alone; worst error"
    return _alone(case, claim, max(case.tokens // 2, 1))


def leader_moves_alone(case: ModelCase) -> Verdict | None:
    """The first token of a causal chain sees itself alone: its way is its own (the anchor)."""
    return _alone(case, "the first token moves as it does alone; worst error", 1)


def energy_adds_up(case: ModelCase) -> Verdict:
    """ΔE of every layer is what attention, feed-forward and norms give, exactly."""
    claim = "change of energy = attention + feed-forward + norm; worst error"
    found = energy_parts(case.inside, case.kept)
    whole = [
        token_energy(layer.leaves[case.kept]) - token_energy(layer.state[case.kept])
        for layer in case.inside
    ]
    total = found.attention + found.feed_forward + found.norm
    anatomy = case.anatomy
    if anatomy is not None and anatomy.pre_norm:
        # The stream of a norm-first layer meets no norm: what is left over is an error.
        total = total - found.norm
    share = lambda part: float(np.sum(np.abs(part)) / max(np.sum(np.abs(total)), 1e-30))
    falls = int(np.sum(np.array(whole) < 0))
    reason = (
        f"it falls in {falls} of {len(whole)} layers; sizes over that of the change: attention "
        f"{share(found.attention):.2f}, feed-forward {share(found.feed_forward):.2f}, norm "
        f"{share(found.norm):.2f}"
    )
    worst = float(np.abs(total - whole).max())
    return judge(claim, "chain rule, derived", 0.0, worst, absolute=case.rounding, reason=reason)


@of_attention
def energy_sign(case: ModelCase) -> Verdict | None:
    """The sign of ΔE by `coherent_pull`, its threshold from other layers of other texts."""
    claim = "the heads' coherent pull foretells where the energy falls, balanced accuracy"
    source, anatomy = "derived: models.energy.coherent_pull", case.anatomy
    assert anatomy is not None
    runs = [case.passage, *case.others]
    if len(runs) < 8:
        return not_applicable(claim, source, "needs eight texts: the threshold is fitted on others")
    changes, pulls = [], []
    for passage in runs:
        kept = case.kept if passage is case.passage else _others_kept(case, len(passage.states[0]))
        changes.append(energy_parts(passage.inside, kept).change)
        pulls.append(
            [
                coherent_pull(stated, layer.state, kept, anatomy.pre_norm)
                for layer, stated in zip(passage.inside, case.stated, strict=False)
            ]
        )
    change, pull = np.array(changes), np.array(pulls)
    if change.shape[1] < 12 or min(np.mean(change > 0), np.mean(change <= 0)) < 0.05:
        rises = 100 * float(np.mean(change > 0))
        reason = f"needs twelve layers and both signs: it rises in {rises:.0f} % of steps"
        return not_applicable(claim, source, f"{reason} in {change.shape[1]} layers")
    score = score_signs(pull, change)
    if score.low <= 0.5 <= score.high:
        return not_applicable(claim, source, f"cannot tell it from a coin: {score}")
    words = "95 % interval above 0.5"
    return decide(score.low > 0.5, claim, source, "> 0.5", score.accuracy, words, str(score))


@of_attention
def energy_monotone(case: ModelCase) -> Verdict | None:
    """E never falls where V = I, or V and QᵀK are one symmetric matrix, and nothing else acts."""
    claim, source = "the energy never falls", "geshkovski2023mathematical, §3"
    whole = energy_parts(case.inside, case.kept).change
    falls = int(np.sum(whole < -1e-6))
    if reason := why_not_monotone(case):
        return not_applicable(claim, source, f"{reason}; it fell in {falls} of {len(whole)} layers")
    return decide(falls == 0, claim, source, 0, falls, "rounding")


@of_attention
def one_cosine(case: ModelCase) -> Verdict | None:
    """Mean cosine against γ_β(t) of equiangular tokens, the clock fitted on other texts."""
    claim, source = (
        "mean cosine follows γ_β(t), largest difference",
        "geshkovski2023mathematical, §6",
    )
    curves = [_mean_cosines(p, _others_kept(case, len(p.states[0]))) for p in case.others]
    own = _mean_cosines(case.passage, case.kept)
    layers = np.arange(len(own))
    fitted = fit_clock(layers, np.mean(curves, axis=0) if curves else own, case.tokens)
    off = float(np.abs(fitted.cosines - own).max())
    on = "other texts" if curves else "this text"
    if reason := why_not_isotropic(case):
        seen = f"with the clock fitted on {on} it is off by {off:.2g}"
        return not_applicable(claim, source, f"{reason}; {seen}")
    if len(curves) < 4:
        return not_applicable(claim, source, "needs four other texts for the clock")
    spread = float(np.std(curves, axis=0, ddof=1).max())
    return decide(off <= 4 * spread, claim, source, 0.0, off, f"{4 * spread:.2g}, 4 deviations")


def _alone(case: ModelCase, claim: str, first: int) -> Verdict | None:
    anatomy = case.anatomy
    if not case.causal or case.tokens < 2 or (anatomy is not None and anatomy.crossing):
        return None
    short = case.pass_of(case.prompt.first(first), inside=False)
    pairs = zip(short.states, case.passage.states, strict=False)
    worst = max(_apart(a, b[:first]) for a, b in pairs)
    allowed = 100 * case.rounding  # sums of other lengths are rounded in another order
    row = judge(claim, "causal mask; duerinckx2026kinetic", 0.0, worst, absolute=allowed)
    return _fine(row, allowed)


def _fine(row: Verdict, allowed: float) -> Verdict:
    """The row, unless half precision allows so much that an agreement would say nothing."""
    if allowed <= COARSE or row.verdict == "disagree":
        return row
    return not_applicable(row.claim, row.source, "too coarse in half precision: use float32")


def _maps(case: ModelCase) -> Iterator[tuple[Inside, np.ndarray]]:
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


def _mean_cosines(passage: Any, kept: np.ndarray) -> np.ndarray:
    found = []
    for x in passage.states:
        x = np.asarray(x[kept], float)
        u = x / np.linalg.norm(x, axis=1, keepdims=True)
        n = len(u)
        found.append((np.sum(u.sum(axis=0) ** 2) - n) / (n * (n - 1)))
    return np.array(found)


def _others_kept(case: ModelCase, tokens: int) -> np.ndarray:
    kept = np.ones(tokens, bool)
    kept[0] = bool(case.kept[0])
    return kept


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


# What happens to the tokens first, then what is software: the layers against their weights.
CLAIMS: list[Callable[..., Any]] = [
    energy_monotone,
    energy_adds_up,
    energy_sign,
    one_cosine,
    *TWIN_CLAIMS,
    sink_share,
    entropy_by_gaps,
    values_drawn_together,
    words_in_hulls,
    leader_moves_alone,
    earlier_tokens_stay,
    tokens_have_length,
    frames_are_states,
    layers_follow,
    stream_adds_up,
    norms_as_stated,
    maps_as_stated,
    attention_as_stated,
]
