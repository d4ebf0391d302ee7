"""Where the normalisation sits decides how fast equiangular tokens collapse.

Each token is a radius times a direction. The direction obeys θ̇_j = s_j^{−1} P A_j, with A_j the
attention output of the directions, and the placement chooses s_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SCHEMES = ("post", "pre", "peri", "ngpt", "sqrt", "mix")

# scheme: (kind, exponent), for 1 − γ ≍ e^{−at}, t^{−a} or e^{−a√t}
_LAWS = {
    "post": ("exponential", 2.0),
    "pre": ("power", 2.0),
    "peri": ("power", 2.0),
    "ngpt": ("exponential", 2.0),
    "sqrt": ("stretched", 4.0),
    "mix": ("power", 2.0),
}


@dataclass(frozen=True)
class ClusteringLaw:
    """Late law of 1 − γ and first speed of γ.

    `kind` is "exponential" (1−γ ≍ e^{−at}), "power" (t^{−a}) or "stretched" (e^{−a√t}), with a the
    `exponent`; `initial_speed` is γ̇(0) from orthogonal tokens.
    """

    scheme: str
    kind: str
    exponent: float
    initial_speed: float


def clustering_law(scheme: str, beta: float, tokens: int, *, alpha: float = 1.0) -> ClusteringLaw:
    """How n orthogonal tokens start to move, and at which rate they finally collapse.

    | scheme | s_j | radius | 1 − γ |
    |---|---|---|---|
    | post | 1 | – | e^{−2t} |
    | pre | r_j | ṙ = ⟨θ,A⟩ | t^{−2} |
    | peri | r_j‖A_j‖ | ṙ = ⟨θ,A⟩/‖A‖ | t^{−2} |
    | ngpt | ‖A_j‖/α | – | e^{−2αt} |
    | sqrt | √(t+1) | – | e^{−4√t} |
    | mix | 1 until τ > 0, then r_j | r = 1 until τ, then as pre | t^{−2} |

    with r(0) = 1. Near γ = 1 the attention output has norm 1, so (1−γ)˙ ≈ −2(1−γ)/s and r ≈ t.
    At γ = 0, γ̇ = 2/((e^β+n−1)s) with ‖A‖ = √(e^{2β}+n−1)/(e^β+n−1).

    Source: schemes of [karagodin2025normalization]; post and pre rates also in
    [rigollet2025meanfield]; the others derived here, checked by integrating each system. Valid for
    softmax attention, Q = K = V = I, n ≥ 2 equiangular tokens (d ≥ n), β ≥ 0; late laws do not
    depend on β and n. Expected: peri starts fast and ends slow.

    >>> law = clustering_law("peri", beta=1.0, tokens=32)
    >>> law.kind, law.exponent, round(law.initial_speed, 4)
    ('power', 2.0, 0.3228)
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}; choose one.")
    if tokens < 2 or not beta >= 0:
        raise ValueError(
            f"tokens must be ≥ 2 and beta ≥ 0, got {tokens} and {beta}; γ needs two tokens."
        )
    if not alpha > 0:
        raise ValueError(f"alpha must be positive, got {alpha}; it is the step of nGPT.")
    kind, exponent = _LAWS[scheme]
    # All powers of e^β are divided out: β = 1000 is a legitimate input.
    others = (tokens - 1) * math.exp(-beta)
    speed = 2 * math.exp(-beta) / (1 + others)
    if scheme in ("peri", "ngpt"):
        norm = math.sqrt(1 + others * math.exp(-beta)) / (1 + others)
        speed /= norm
    if scheme == "ngpt":
        exponent, speed = exponent * alpha, speed * alpha
    return ClusteringLaw(scheme, kind, exponent, speed)
