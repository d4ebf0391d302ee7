"""Clusters under USA with matrices: their tokens are moved unlike each other to first order."""

import numpy as np
import pytest

import metastable as ms


@pytest.mark.parametrize("seed", [10, 13])
def test_the_rate_of_contraction_holds_where_the_weights_of_a_cluster_differ(seed):
    """Against the run: the rate ⟨c, F(c)⟩ alone is off by more than the row allows."""
    random = np.random.default_rng(seed)
    q, k, v = (np.eye(4) + 0.3 * random.normal(size=(4, 4)) for _ in range(3))
    field = ms.SelfAttention(0.7, query=q, key=k, value=v, normalized=False)
    run = ms.flow(ms.uniform(10, 4, seed=seed - 10), field, horizon=14.0, frames=71)
    comparison = ms.compare(run)
    assert comparison.agrees
    (row,) = [row for row in comparison.rows if row.claim.startswith("rate at which the last")]
    assert row.verdict == "agree" and abs(row.expected - row.observed) < 1e-4
