"""Attention at β = ∞."""

from __future__ import annotations

import equinox as eqx

from metastable.core import checks


class Hardmax(eqx.Module):
    """The limit β → ∞ of a field, from event to event; the field's own β plays no role.

    **On the sphere**, `SelfAttention` with Q, K, V multiples of the identity. In the clock
    dt = e^{β(1−max⟨x_i,x_j⟩)}ds only the closest pair moves, along its geodesic, token i at a speed
    in proportion to α_j/α_i (SA) or α_j (USA). Meanwhile no distance to a third token shrinks as
    fast as theirs, so they meet, α_j²/(α_i²+α_j²) (SA) or α_j/(α_i+α_j) (USA) of the way from i to
    j, and the run is a list of mergers. Its clock is c = lim (log t)/β: the largest 1 − cos φ so
    far (USA: −cos φ); `log_times` and `log_waits` are in this unit too. The horizon is `math.inf`.

    **In R^d**, `Rescaled(SelfAttention(...))` with V = λ > 0 and QᵀK + KᵀQ ≥ 0:
    ż_i = λ(z_k − z_i), k = argmax_k ⟨Qz_i,Kz_k⟩. While no argmax changes,
    z_i(t) = Σ_r e^{−λt}(λt)^r/r! z_{k^r(i)}(0), k^r(i) being the argmax taken r times. A token
    within `radius` of a resting one that it moves toward is absorbed by it.

    Sources: arXiv:2410.06833 (sphere), arXiv:2305.05465 (R^d). Speeds, meeting points and the
    solution between events are derived here, checked against β = 1000 and against small steps.
    Ties go to the first token in order. `frames` as in `Merging`; given as times they are for R^d.
    Time O(n²) per merger, memory O(n²).

    >>> import math
    >>> import metastable as ms
    >>> tokens = ms.Points([[1.0, 0.0], [0.8, 0.6], [0.0, -1.0]])
    >>> run = ms.flow(tokens, ms.SelfAttention(beta=1.0), math.inf, stepper=Hardmax())
    >>> run.log_times.round(6).tolist()
    [0.0, 0.2, 1.316228]
    """

    radius: float = eqx.field(static=True, converter=checks.plain_number, default=1e-6)

    def __check_init__(self) -> None:
        checks.positive("radius", self.radius)
