"""A device that runs out of memory in mid-run: smaller blocks, a line, and the same numbers."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import metastable as ms
from metastable.flows.solvers import segments


def tight(limit):
    """The compiled segment of a device that holds blocks of at most `limit` tokens."""
    real = segments._compiled

    def compiled(job, *arguments):
        if job.sum.size > limit:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating.")
        return real(job, *arguments)

    return compiled


def run():
    tokens, field = ms.uniform(tokens=100, dim=9, seed=0), ms.SelfAttention(2.0)
    return ms.flow(tokens, field, 1.0, frames=3)


def test_the_sum_goes_on_in_smaller_blocks_and_says_so(monkeypatch):
    plain = run()
    monkeypatch.setattr(segments, "_compiled", tight(300))
    with pytest.warns(UserWarning) as told:
        squeezed = run()
    # Halved twice, and told once each: later segments begin with the smaller blocks.
    sizes = [str(warning.message).split()[-2] for warning in told]
    assert sizes == ["512", "256"]
    assert squeezed.outcome.name == "done"
    assert np.array_equal(squeezed.frames[-1].points, plain.frames[-1].points)


def test_no_block_is_small_enough(monkeypatch):
    monkeypatch.setattr(segments, "_compiled", tight(0))
    with pytest.warns(UserWarning), pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        run()
