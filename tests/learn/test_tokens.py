"""Learning from tokens: the layer against NumPy, and what tokens tell that covariances do not."""

from __future__ import annotations

import numpy as np
import optax
import pytest

from metastable.fields import SelfAttention
from metastable.flows import Layers, flow
from metastable.learn.gaussian.matrices import gauge_error
from metastable.learn.gaussian.teacher import Matrices, random_covariances, random_matrices
from metastable.learn.gaussian.tokens import (
    attend_prompts,
    prompt_pairs,
    sample_covariances,
    token_loss,
    token_residuals,
)
from metastable.learn.training import Gradient, train
from metastable.measures import Points

TEACHER = random_matrices(3, 2, seed=0)
COVARIANCES = random_covariances(6, 3, seed=1) / np.sqrt(3)


def test_attention_of_prompts_is_a_layer_of_the_field():
    """Oracle: `Layers`, one prompt at a time."""
    prompts = np.random.default_rng(2).standard_normal((2, 9, 3))
    w, v, q, k = TEACHER
    field = SelfAttention(1.0 / np.sqrt(2), query=q, key=k, value=w @ v)
    for x, found in zip(prompts, attend_prompts(TEACHER, prompts, 0.3), strict=True):
        tokens = Points(x, on_sphere=False)
        moved = flow(tokens, field, 0.3, stepper=Layers(0.3)).frames[-1]
        assert np.allclose(found, moved.points, atol=1e-13)


def test_sample_covariances_forget_the_tokens():
    data = prompt_pairs(TEACHER, COVARIANCES, tokens=50, step=0.3, seed=3)
    found = sample_covariances(data)
    assert data.inputs.shape == (6, 50, 3) and found.targets.shape == (6, 3, 3)
    for x, s in zip([*data.inputs, *data.targets], [*found.inputs, *found.targets], strict=True):
        assert np.allclose(s, np.cov(x, rowvar=False, bias=True), atol=1e-12)


def test_tokens_tell_both_products_with_their_scales():
    data = prompt_pairs(TEACHER, COVARIANCES, tokens=16, step=0.3, seed=4)
    # Not from anywhere: the loss has other minima, and the question here is what this one tells.
    apart = random_matrices(3, 2, seed=5)
    student = Matrices(*[m + 0.3 * n for m, n in zip(TEACHER, apart, strict=True)])
    method = Gradient(token_loss(0.3), optax.adam(1e-2))
    run = train(student, method, data, steps=2000)
    assert run.validation[-1] < 1e-16
    errors = token_residuals(0.3)(student, data)
    assert float((errors**2).sum()) == pytest.approx(run.losses[0], rel=1e-12)
    found = run.parameters
    assert np.allclose(found.W @ found.V, TEACHER.W @ TEACHER.V, atol=1e-6)
    assert np.allclose(found.K.T @ found.Q, TEACHER.K.T @ TEACHER.Q, atol=1e-6)
    assert gauge_error(found, TEACHER).product < 1e-6
