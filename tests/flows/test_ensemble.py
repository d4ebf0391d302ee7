"""Ensembles of small systems against exact solutions, brute force and small steps."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.flows.ensemble import (
    Angles,
    Gram,
    TokenForm,
    choose_form,
    flow_ensemble,
    sample_ensemble,
)
from metastable.theory.equiangular import equiangular_cosine


def brute(x, beta, query, key, value, horizon, frames):
    """Tokens by SciPy's DOP853 with all matrices written out: nothing shared with the package."""
    n, d = x.shape

    def velocity(_, flat):
        y = flat.reshape(n, d)
        weights = np.exp(beta * (y @ query.T) @ (y @ key.T).T)
        v = weights / weights.sum(1, keepdims=True) @ y @ value.T
        return (v - (v * y).sum(1, keepdims=True) * y).ravel()

    times = np.linspace(0, horizon, frames)
    solved = solve_ivp(velocity, (0, horizon), x.ravel(), "DOP853", times, rtol=1e-10, atol=1e-12)
    return solved.y.T.reshape(frames, n, d)


def starts(samples, tokens, dim, seed=0):
    x = np.random.default_rng(seed).normal(size=(samples, tokens, dim))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


cosine = lambda form, y: form.pair(y)
order = lambda form, y: form.order(y)


@pytest.mark.parametrize("dim", [2, 3, 12])
def test_forms_follow_the_tokens(dim):
    """The closed equations of angles and inner products are those of the tokens."""
    x, beta, eye = starts(4, 8, dim), 3.0, np.eye(dim)
    exact = np.stack([brute(one, beta, eye, eye, eye, 4.0, 9) for one in x], axis=1)
    forms = {Gram: jnp.asarray(x @ x.transpose(0, 2, 1))}
    if dim == 2:
        forms[Angles] = jnp.asarray(np.arctan2(x[..., 1], x[..., 0]).T)
    for kind, state in forms.items():
        form = kind(jnp.asarray(beta))
        # In double precision and with small steps, so that only the equation is on trial.
        seen = flow_ensemble(form, state, 4.0, 9, cosine, steps=64)
        np.testing.assert_allclose(seen, (exact[:, :, 0] * exact[:, :, 1]).sum(-1), atol=1e-6)
        seen = flow_ensemble(form, state, 4.0, 9, order, steps=64)
        np.testing.assert_allclose(seen, np.linalg.norm(exact.mean(2), axis=-1), atol=1e-6)


def test_any_matrices_are_followed():
    rng = np.random.default_rng(1)
    query, key, value = rng.normal(size=(3, 4, 4)) / 2
    x = starts(3, 6, 4)
    field = ms.SelfAttention(2.0, query=query, key=key, value=value)
    form = choose_form(field, 6, 4)
    assert isinstance(form, TokenForm)
    exact = np.stack([brute(one, 2.0, query, key, value, 3.0, 7) for one in x], axis=1)
    expected = (exact[:, :, 0] * exact[:, :, 1]).sum(-1)
    coarse = flow_ensemble(form, jnp.asarray(x), 3.0, 7, cosine)
    fine = flow_ensemble(form, jnp.asarray(x), 3.0, 7, cosine, steps=64)
    np.testing.assert_allclose(coarse, expected, atol=2e-2)
    np.testing.assert_allclose(fine, expected, atol=1e-5)


def test_orthogonal_tokens_follow_the_exact_cosine():
    start = jnp.broadcast_to(jnp.eye(32), (1, 32, 32))
    seen = flow_ensemble(Gram(jnp.asarray(4.0)), start, 12.0, 13, cosine, steps=64)[:, 0]
    np.testing.assert_allclose(seen, equiangular_cosine(np.arange(13.0), 4.0, 32), atol=1e-6)


@pytest.mark.parametrize("kind", [Gram, Angles, TokenForm])
def test_steps_are_of_their_order(kind):
    """Orthogonal tokens, of which the circle has two."""
    tokens = 2 if kind is Angles else 8
    start = {
        Gram: jnp.eye(tokens)[None],
        Angles: jnp.array([[0.0], [np.pi / 2]]),
        TokenForm: jnp.eye(tokens)[None],
    }[kind]
    exact = equiangular_cosine(np.linspace(0, 3, 13), 1.0, tokens)
    tokens_form = TokenForm(ms.SelfAttention(1.0), rate=1.0)
    form = tokens_form if kind is TokenForm else kind(jnp.asarray(1.0))
    errors = [
        # The largest of several times: the error changes its sign on the way.
        np.abs(np.asarray(flow_ensemble(form, start, 3.0, 13, cosine, steps=k))[:, 0] - exact).max()
        for k in (4, 8, 16)
    ]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (abs(orders - form.memory) < 0.5).all(), orders


@pytest.mark.parametrize("frames", [2, 3, 41, 42, 401])
def test_frames_inside_a_step_are_those_of_small_steps(frames):
    """Frames closer than steps are read off the polynomial that makes the step."""
    x = starts(3, 8, 2)
    angles, form = jnp.asarray(np.arctan2(x[..., 1], x[..., 0]).T), Angles(jnp.asarray(3.0))
    seen = flow_ensemble(form, angles, 6.0, frames, cosine)
    fine = flow_ensemble(form, angles, 6.0, frames, cosine, steps=max(4, 2400 // frames))
    assert seen.shape == (frames, 3)
    np.testing.assert_allclose(seen, fine, atol=3e-3)


def test_a_contraction_is_followed_without_error():
    """Two tokens of one cluster close in like e^{−t}, however long the step is."""
    form = Angles(jnp.asarray(4.0))
    angles = jnp.array([[-5e-10], [5e-10]])  # so close that the equation is linear, also earlier
    gap = lambda form, y: y[1] - y[0]
    seen = np.asarray(flow_ensemble(form, angles, 6.0, 4, gap, steps=1))[:, 0]
    np.testing.assert_allclose(seen, 1e-9 * np.exp([0.0, -2.0, -4.0, -6.0]), rtol=1e-6)


def late_by(dim, beta, samples=128, horizon=12.0):
    """How late pairs come near 0.999 by default steps: |Δ log(1 − ⟨x_1,x_2⟩)|/2, one per pair seen.

    1 − ⟨x_1,x_2⟩ falls as e^{−2t} there. P itself would be a blunt measure: a probability moves
    only if a pair crosses the threshold on the other side of a frame.
    """
    form = choose_form(ms.SelfAttention(beta), 32, dim)
    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(7), s))(jnp.arange(samples))
    start = form.start(keys, 32, dim)
    frames = round(horizon / 0.15) + 1
    mine = np.asarray(flow_ensemble(form, start, horizon, frames, cosine), float)

    @jax.jit
    def advance(y):
        y = jax.lax.fori_loop(0, 4, lambda _, y: _classical(form, y, 0.15 / 4), y)
        return y, form.pair(y)

    y = start.astype(jnp.float64)
    tight = [np.asarray(form.pair(y))]
    for _ in range(frames - 1):
        y, seen = advance(y)
        tight.append(np.asarray(seen))
    tight = np.array(tight)
    near = (tight > 0.99) & (tight < 0.9999)
    return np.abs(np.log1p(-mine[near]) - np.log1p(-tight[near])) / 2


def test_the_stated_error_holds():
    """The circle, and other β, are in tests/claims/test_sweep_phase.py."""
    late = late_by(128, 4.0)
    assert len(late) > 1000 and np.median(late) < 4e-3


def _classical(form, y, h):
    k1 = form.drift(y)
    k2 = form.drift(y + h / 2 * k1)
    k3 = form.drift(y + h / 2 * k2)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + form.drift(y + h * k3))


@pytest.mark.parametrize(("dim", "tokens"), [(64, 8), (3, 8)])
def test_starts_have_the_law_of_uniform_tokens(dim, tokens):
    """⟨x,y⟩² of uniform tokens has mean 1/d and fourth moment 3/(d(d+2))."""
    keys = jax.random.split(jax.random.key(0), 4000)
    g = np.asarray(Gram(jnp.asarray(1.0)).start(keys, tokens, dim), float)
    np.testing.assert_allclose(np.diagonal(g, axis1=1, axis2=2), 1, atol=1e-6)
    pairs = g[:, *np.triu_indices(tokens, 1)]
    assert pairs.mean() == pytest.approx(0, abs=5e-3)
    assert (pairs**2).mean() == pytest.approx(1 / dim, rel=0.03)
    assert (pairs**4).mean() == pytest.approx(3 / (dim * (dim + 2)), rel=0.06)


def test_samples_do_not_depend_on_their_number():
    form = choose_form(ms.SelfAttention(2.0), 3, 4)
    few = sample_ensemble(form, 3, 4, 3, 4, 2.0, 3, cosine)
    many = sample_ensemble(form, 3, 132, 3, 4, 2.0, 3, cosine)
    np.testing.assert_allclose(many[:, :4], few, atol=1e-6)
    assert many.shape == (3, 132)


def test_other_fields_have_no_form():
    assert choose_form(ms.Kuramoto(1.0), 4, 2) is None
