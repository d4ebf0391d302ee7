"""Observation against prediction: the only place that hears both witnesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metastable.core.lazy import lazy

if TYPE_CHECKING:
    from metastable.comparison.citations import cite as cite
    from metastable.comparison.claims import CLAIMS as CLAIMS
    from metastable.comparison.comparing import compare as compare
    from metastable.comparison.forecast import predict as predict
    from metastable.comparison.pooling import in_share as in_share
    from metastable.comparison.prediction import Prediction as Prediction
    from metastable.core.verdict import Comparison as Comparison
    from metastable.core.verdict import Verdict as Verdict

_HOMES = {
    "comparison.citations": "cite",
    "comparison.claims": "CLAIMS",
    "comparison.comparing": "compare",
    "comparison.forecast": "predict",
    "comparison.pooling": "in_share",
    "comparison.prediction": "Prediction",
    "core.verdict": "Comparison Verdict",
}
# Imported on first use: a captured transformer brings claims of its own.
__getattr__, __dir__, _names = lazy("metastable", _HOMES, owner="metastable.comparison")
__all__ = [name for name in _names if name != "CLAIMS"]  # pyright: ignore[reportUnsupportedDunderAll]
