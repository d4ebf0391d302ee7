"""Discrete depth: one attention layer a step."""

from __future__ import annotations

import equinox as eqx

from metastable.core import checks

DEEPEST = 100_000_000


class Layers(eqx.Module):
    """The transformer as it is computed: x ← N(x + ε A(x)), ε = `step`; horizon/ε layers.

    A is the field before projection; N(y) = y/‖y‖ on the sphere and N(y) = y in R^d. Layer k sees
    the field at time kε. As ε → 0 at a fixed horizon the result tends to the flow, at first order.
    Tokens and Gaussians have layers; for a Gaussian see `layer_map`. A head with matrices
    Q, K, V, W and 1/√d_k is `MultiHead([SelfAttention(1/√d_k, Q, K, V)], [W])`.

    - `residual=False`: x ← N(εA(x)), without the identity.
    - `truncated=True`, for a Gaussian: Σ⁺ = Σ + ε(BΣ + ΣBᵀ), the exact layer without its term
      ε²BΣBᵀ. **Not a layer**: it loses positive definiteness when the step is too long, and the
      run then ends with the outcome "indefinite", which gives the layer and the eigenvalue.
    """

    step: float = eqx.field(static=True, converter=checks.plain_number, default=1.0)
    residual: bool = eqx.field(static=True, default=True)
    truncated: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        checks.positive("step", self.step)
        if self.truncated and not self.residual:
            raise ValueError("truncated needs the residual layer it truncates; got residual=False.")

    @property
    def name(self) -> str:
        return f"layers(step={self.step:g}{', truncated' if self.truncated else ''})"

    def depth(self, horizon: float) -> int:
        """How many layers lead to the horizon."""
        checks.positive("horizon", horizon)
        if horizon / self.step > DEEPEST * (1 + 1e-9):
            raise ValueError(
                f"depth must be at most {DEEPEST} layers; got {horizon / self.step:.3g}: shorten "
                "the horizon, or take a longer step."
            )
        depth = round(horizon / self.step)
        if depth < 1 or abs(depth * self.step - horizon) > 1e-9 * horizon:
            raise ValueError(
                f"horizon must be a whole number of layers of step {self.step:g}; got "
                f"{horizon:g}: take {max(depth, 1) * self.step:g}."
            )
        return depth
