"""What theory says of a captured transformer, one claim a function, in the order of their rows.

Each looks at a `ModelCase` and answers with a row, or with None where it is not about such a
model. Those about the layers themselves are in `layer_claims`, those about random weights in
`twin_claims`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.core.verdict import Verdict, decide, judge, not_applicable
from metastable.models.captured import ModelCase
from metastable.models.clock import fit_clock
from metastable.models.energy import coherent_pull, energy_parts, score_signs, token_energy
from metastable.models.hypotheses import why_not_isotropic, why_not_monotone
from metastable.models.layer_claims import (
    LOGIT_ROUNDING,
    attention_as_stated,
    earlier_tokens_stay,
    frames_are_states,
    if_fine,
    layers_follow,
    leader_moves_alone,
    maps_as_stated,
    norms_as_stated,
    of_attention,
    stated_maps,
    stream_adds_up,
    tokens_have_length,
    values_drawn_together,
    words_in_hulls,
)
from metastable.models.sinks import SINK, sink_shares
from metastable.models.twin_claims import TWIN_CLAIMS


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
    return if_fine(row, allowed)


@of_attention
def sink_share(case: ModelCase) -> Verdict | None:
    """Share of attention on the first token, by head: from the stated logits, and as it was."""
    if case.tokens < 4:
        return None
    claim = "attention on the first token, largest share of a head"
    seen = np.array([sink_shares(layer.maps) for layer in case.inside])
    foretold = np.array([sink_shares(found) for _, found in stated_maps(case)])
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
