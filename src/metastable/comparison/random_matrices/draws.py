"""Random attention layers on random Gaussians, in one stated scaling."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from metastable.fields import MultiHead, SelfAttention
from metastable.measures import Gaussian


class RandomLayer(NamedTuple):
    """A Gaussian and one attention head on it: A = KᵀQ/√d_k and the output matrix WV."""

    measure: Gaussian
    bilinear: np.ndarray  # A (d, d): logits are yᵀAx
    output: np.ndarray  # WV (d, d)

    @property
    def field(self) -> MultiHead:
        """The head as a field. Only A and WV act, so nothing is lost by multiplying them out."""
        return MultiHead([SelfAttention(1.0, query=self.bilinear, value=self.output)])

    def quieter(self, variance: float, share: float = 0.99, samples: int = 4096) -> RandomLayer:
        """The same layer with A scaled so that `share` of the tokens see a logit variance
        xᵀAᵀΣAx of at most `variance`."""
        random = np.random.default_rng([2**32, 0])  # a stream of its own
        mean, factor = np.asarray(self.measure.mean), np.asarray(self.measure.factor)
        tokens = mean + random.standard_normal((samples, factor.shape[1])) @ factor.T
        variances = np.sum((tokens @ self.bilinear.T @ factor) ** 2, axis=1)
        scale = math.sqrt(variance / float(np.quantile(variances, share)))
        return self._replace(bilinear=scale * self.bilinear)


def draw_layer(dim: int, keys: int, values: int | None = None, seed: int = 0) -> RandomLayer:
    """m standard normal, Σ = GGᵀ/√d, and Q, K, V, W of entries N(0, 1/columns).

    G is d × d standard normal, so the top eigenvalue of Σ is near 4√d, not 4: with these sizes
    (d = 300, d_k = 128) logits have standard deviations near 16, and a layer multiplies the
    covariance by hundreds.
    """
    values = dim if values is None else values
    random = np.random.default_rng(seed)
    mean = random.standard_normal(dim)
    root = random.standard_normal((dim, dim)) / dim**0.25
    query, key = (random.standard_normal((keys, dim)) / math.sqrt(dim) for _ in "qk")
    value = random.standard_normal((values, dim)) / math.sqrt(dim)
    weight = random.standard_normal((dim, values)) / math.sqrt(values)
    measure = Gaussian.from_factor(mean, root)
    return RandomLayer(measure, key.T @ query / math.sqrt(keys), weight @ value)
