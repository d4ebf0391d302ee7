"""The exercises of the lessons: hand in a number, hear whether it is right, and a hint if not.

What is right is computed from `metastable.theory` at the moment you ask; no answer is stored here.

>>> usa_units(1.0)
not yet: compare λ_ℓ of USA with λ_ℓ of SA for the same ℓ; their quotient does not depend on ℓ
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from metastable import theory


@dataclass(frozen=True)
class Judged:
    """Whether an answer is right (its truth value), and what to say about it."""

    right: bool
    sentence: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.sentence


def _judge(
    answer: object,
    expected: float,
    hint: str,
    *,
    relative: float = 0.02,
    slips: dict[float, str] | None = None,
) -> Judged:
    """Compare with a tolerance; `slips` are wrong values with the hint that each deserves."""
    try:
        value = float(answer)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return Judged(False, f"an answer is one number; got {answer!r}")
    near = lambda target: math.isclose(value, target, rel_tol=relative, abs_tol=1e-12)
    if near(expected):
        return Judged(True, f"right: {expected:.6g}")
    slip = next((text for target, text in (slips or {}).items() if near(target)), None)
    return Judged(False, f"not yet: {slip or hint}")


# Lesson 1: tokens on a sphere, and clocks


def usa_units(answer: object) -> Judged:
    """How many units of USA time pass in one of SA time, near uniform, d = 2, β = 4?"""
    rate = lambda normalized: theory.growth_rates(4.0, 2, 1, normalized=normalized)[0]
    ratio = float(rate(False) / rate(True))
    hint = "compare λ_ℓ of USA with λ_ℓ of SA for the same ℓ; their quotient does not depend on ℓ"
    slips = {
        1 / ratio: "this is the other way round: USA runs faster",
        math.exp(4.0): "e^β is the weight of one token; the denominator is a mean over all of them",
    }
    return _judge(answer, ratio, hint, slips=slips)


def pair_cosine(answer: object) -> Judged:
    """Cosine of two tokens that start orthogonal, SA, β = 1, at t = 1."""
    cosine = lambda normalized: float(theory.equiangular_cosine(1.0, 1.0, 2, normalized=normalized))
    slips = {
        cosine(False): "this is USA; softmax attention divides by the partition function",
        math.tanh(1.0): "this is β = 0, where every token has the same weight",
    }
    hint = "flow ms.orthogonal(2, 2) to t = 1 and take the inner product of the two tokens"
    return _judge(answer, cosine(True), hint, slips=slips)


# Lesson 2: one cluster


def most_in_a_hemisphere(answer: object) -> Judged:
    """Largest n for which n uniform tokens in R^10 share a hemisphere with probability ≥ 1/2."""
    shares = lambda n: theory.wendel_probability(dim=10, tokens=n) >= 0.5
    most = next(n for n in range(1, 1000) if not shares(n + 1))
    hint = "ask theory.wendel_probability(dim=10, tokens=n) for growing n"
    slips = {10.0: "up to n = d it is certain; it stays likelier than not for some more"}
    return _judge(answer, most, hint, relative=1e-9, slips=slips)


def final_rate(answer: object) -> Judged:
    """The rate a in 1 − γ ~ e^{−at} of orthogonal tokens at the end, SA, n = 32, β = 1."""
    gap = 1e-6
    rate = float(theory.equiangular_rate(1 - gap, 1.0, 32)) / gap
    usa = float(theory.equiangular_rate(1 - gap, 1.0, 32, normalized=False)) / gap
    hint = "take the logarithm of 1 − γ between two late times and divide by the time between them"
    slips = {
        -rate: "a decay e^{−at} has a positive a",
        usa: "this is the rate of USA, on its own clock",
        rate / 2: "angles close at half that rate: 1 − cos φ ≈ φ²/2",
    }
    return _judge(answer, rate, hint, slips=slips)


# Lesson 3: growth of modes, and the first clusters


def fastest_mode(answer: object) -> Judged:
    """The mode that grows fastest from the uniform measure on the circle, β = 16."""
    mode = theory.dominant_mode(16.0, 2)
    hint = "theory.growth_rates(16.0, 2, 12) lists λ_1 … λ_12; which is largest?"
    slips = {mode - 1.0: "Python counts from zero, modes from one"}
    return _judge(answer, mode, hint, relative=1e-9, slips=slips)


def leaving_time(answer: object) -> Judged:
    """When do 2000 uniform tokens on the circle leave uniformity, SA, β = 9?"""
    rate = theory.max_rate(9.0, 2)
    hint = "amplitudes start at n^(−1/2) and must grow to order one at the largest rate"
    slips = {
        2 * theory.exit_time(2000, rate): "the start is n^(−1/2), not 1/n",
        theory.exit_time(2000, theory.max_rate(9.0, 2, normalized=False)): "this is the USA clock",
    }
    return _judge(answer, theory.exit_time(2000, rate), hint, slips=slips)


# Lesson 4: metastability and the staircase


def meeting_time(answer: object) -> Judged:
    """How long do two equal clusters, 90° apart, take to 1° apart, SA, β = 6?"""
    times = [
        theory.merge_time(math.pi / 2, 6.0, until=math.pi / 180, normalized=n)
        for n in (True, False)
    ]
    hint = "flow two tokens at a right angle and read off when their angle is below one degree"
    return _judge(answer, times[0], hint, slips={times[1]: "this is the USA clock"})


def longer_by(answer: object) -> Judged:
    """By which factor is that time longer at β = 13 than at β = 12?"""
    low, high = (theory.merge_time(math.pi / 2, beta, until=math.pi / 180) for beta in (12.0, 13.0))
    hint = "ask theory.merge_time at both β, until the same angle, and divide"
    slips = {
        math.e: "e^{β(1 − cos φ)} has a factor in front that falls with β: ask merge_time for both",
        math.e**2: "1 − cos φ is 2 for opposite clusters; for a right angle it is less",
    }
    return _judge(answer, high / low, hint, relative=0.05, slips=slips)


# Lesson 5: noise, and a phase transition


def critical_noise(answer: object) -> Judged:
    """The κ above which the uniform measure is unstable: SA, circle, β = 2."""
    expected = float(theory.critical_kappa(2.0, 2))
    hint = "with noise λ_1 becomes λ_1 − (d − 1)/κ; at which κ is it zero?"
    slips = {
        float(theory.critical_kappa(2.0, 2, normalized=False)): "this is USA",
        1 / expected: "κ is the inverse strength of the noise",
    }
    return _judge(answer, expected, hint, slips=slips)


def jump_begins(answer: object) -> Judged:
    """The β above which unnormalised attention on the circle orders by a jump."""
    hint = "theory.transition(beta, 2, normalized=False).kind says which; halve the interval 2 … 3"
    return _judge(answer, theory.tricritical_beta(2), hint, relative=0.01)


# Lesson 6: real transformers, and normalisation


def late_power(answer: object) -> Judged:
    """The power a in 1 − γ ~ t^{−a} of Pre-LN, from orthogonal tokens."""
    law = theory.clustering_law("pre", 1.0, 32)
    hint = "slope of log(1 − γ) against log t at late times, with the sign turned round"
    slips = {-law.exponent: "t^{−a} falls with a positive a"}
    return _judge(answer, law.exponent, hint, relative=0.05, slips=slips)


def head_start(answer: object) -> Judged:
    """How many times faster is Peri-LN than Post-LN at t = 0: 64 orthogonal tokens, β = 1?"""
    speed = lambda scheme: theory.clustering_law(scheme, 1.0, 64).initial_speed
    ratio = speed("peri") / speed("post")
    hint = "Peri-LN divides the output A by its norm; what is ‖A‖ when tokens are orthogonal?"
    return _judge(answer, ratio, hint, slips={1 / ratio: "the other way round"})
