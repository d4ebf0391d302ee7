"""The share of random starts whose first two tokens are together."""

from __future__ import annotations

import numpy as np

from metastable.flows.ensemble import Form, sample_ensemble

__all__ = ["NEAR", "share_together"]

NEAR = 1e-3  # ⟨x_1,x_2⟩ ≥ 1 − δ counts as one cluster


def share_together(
    form: Form, samples: int, tokens: int, dim: int, horizon: float, frames: int
) -> np.ndarray:
    """Share of the starts with ⟨x_1,x_2⟩ ≥ 1 − NEAR, in each frame."""
    seen = sample_ensemble(
        form, 0, samples, tokens, dim, horizon, frames, lambda form, y: form.pair(y)
    )
    return (np.asarray(seen) >= 1 - NEAR).mean(axis=1)
