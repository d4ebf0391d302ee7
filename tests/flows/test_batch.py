"""Small systems in one compiled call: every field, against SciPy, against `flow`, bit by bit."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import metastable as ms
from metastable.core.numerics import jax
from metastable.fields.sums import Dense
from metastable.flows import batch
from metastable.flows.batch import BATCH, flow_batch, moves_together
from metastable.observe import order_parameter
from tests.flows.test_magnitudes import FIELDS, NOISY, SPACE

TIGHT = ms.Adaptive(1e-11, 1e-11)
QUIET = {name: make for name, make in (FIELDS | SPACE).items() if name != "schedule"}
QUIET["smooth schedule"] = lambda m, d: ms.Schedule(lambda t: ms.SelfAttention(m + t))


def starts(field, count, *, space=False, tokens=5):
    measures = [ms.uniform(tokens, 3, seed=seed) for seed in range(count)]
    return [(m.euclidean() if space else m, field) for m in measures]


def integrated(measure, field, horizon):
    """The end by SciPy's DOP853, from the field's velocity alone."""
    shape = measure.points.shape
    velocity = jax.jit(
        lambda t, x: field.velocity(measure.at(x.reshape(shape)), t=t, sum=Dense()).ravel()
    )

    def slope(t, y):
        x = y.reshape(shape)
        if measure.on_sphere:  # velocities are those of tokens on the sphere
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return np.asarray(velocity(t, jnp.asarray(x.ravel())))

    how = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12}
    return solve_ivp(slope, (0, horizon), np.ravel(measure.points), **how).y[:, -1].reshape(shape)


@pytest.mark.parametrize("name", QUIET)
def test_every_field_moves_in_a_batch_as_scipy_moves_it(name):
    """Some tens of steps err by 1e−11 each, and nearby paths part by e^{Lt} < 100 to t = 1."""
    field = QUIET[name](0.7, 3)
    some = starts(field, 3, space=name in SPACE)
    assert moves_together(*some[0], None)
    for (measure, _), run in zip(some, flow_batch(some, 1.0, 3, TIGHT), strict=True):
        assert run is not None and np.array_equal(run.times, [0.0, 0.5, 1.0])
        assert np.array_equal(run.frames[0].points, measure.points)
        expected = integrated(measure, field, 1.0)
        assert np.abs(run.frames[-1].points - expected).max() < 1e-7


def test_noise_switches_other_steppers_and_many_tokens_are_left_to_flow():
    few, field = ms.uniform(5, 3), ms.SelfAttention(1.0)
    assert not any(moves_together(few, make(0.7, 3), None) for make in NOISY.values())
    assert not moves_together(few, FIELDS["schedule"](0.7, 3), None)
    assert not moves_together(few, field, ms.Layers(1.0))
    assert not moves_together(ms.uniform(200, 3), field, None)
    assert not moves_together(ms.Gaussian([0.0, 1.0], 0.5), field, None)


def test_a_system_has_the_same_bits_in_every_place_of_a_batch_and_side_by_side(monkeypatch):
    """Alone, among others, elsewhere in the batch, and as a GPU would move it."""
    some = starts(ms.SelfAttention(3.0), BATCH, tokens=7)
    points = lambda runs: [run.points for run in runs]
    whole = points(flow_batch(some, 4.0, 9, TIGHT))
    assert np.array_equal(points(flow_batch(some[3:4], 4.0, 9, TIGHT))[0], whole[3])
    assert np.array_equal(points(flow_batch(some[::-1], 4.0, 9, TIGHT))[::-1], whole)
    monkeypatch.setattr(batch.jax, "default_backend", lambda: "gpu")
    assert np.array_equal(points(flow_batch(some, 4.0, 9, TIGHT)), whole)


def test_fields_with_other_functions_or_shapes_are_run_alone():
    one, two = (ms.Potential(lambda s, k=k: k * s**2) for k in (1.0, 2.0))
    mixed = [(ms.uniform(5, 3), one), (ms.uniform(5, 3), two)]
    assert flow_batch(mixed, 1.0, 3, TIGHT) == [None, None]
    sizes = [(ms.uniform(n, 3), one) for n in (4, 5)]
    assert flow_batch(sizes, 1.0, 3, TIGHT) == [None, None]


def test_a_field_that_looks_at_its_numbers_is_run_alone():
    class Looking(ms.Field):
        @property
        def clock(self):
            return "none"

        def drift(self, measure, at, t, sum):
            return jnp.asarray(np.asarray(at.points))

    assert flow_batch([(ms.uniform(4, 3), Looking())], 1.0, 3, TIGHT) == [None]


def test_an_ensemble_of_a_smooth_schedule_is_the_flows_one_by_one():
    field = ms.Schedule(lambda t: ms.SelfAttention(1.0 + t))
    start = lambda seed: ms.uniform(4, 3, seed=seed)
    result = ms.ensemble(
        start, field, 2.0, samples=3, stepper=TIGHT, frames=3, observe=lambda m: m.points
    )
    for seed, seen in enumerate(result.data["samples"].value.values):
        run = ms.flow(start(seed), field, 2.0, stepper=TIGHT, frames=3)
        assert np.abs(seen - run.points).max() < 1e-8


def test_compiled_observables_say_what_they_say_frame_by_frame():
    """Numbers, whole numbers, truth values, arrays; and functions that cannot be compiled."""
    observe = {
        "order": order_parameter,
        "right": lambda m: (m.points[:, 0] > 0).sum(),
        "tight": lambda m: jnp.all(m.points @ m.points.T > 0.9),
        "mean": lambda m: m.weights @ m.points,
        "clusters": lambda m: ms.clusters(m).count,
        "word": lambda m: "one" if ms.clusters(m).count == 1 else "many",
    }
    start, field = lambda seed: ms.uniform(4, 3, seed=seed), ms.SelfAttention(1.0)
    result = ms.ensemble(start, field, 5.0, samples=20, frames=101, observe=observe)
    ends = ms.Trajectory.from_dataset(result.data["ends"].rename(sample="time"))
    last = result.data["samples"].isel(time=-1)
    for name, function in observe.items():
        expected = np.array([np.asarray(function(frame)) for frame in ends.frames])
        seen = last[name].values
        assert seen.dtype.kind == expected.dtype.kind
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-14)
        else:
            assert np.array_equal(seen, expected)
