"""How runs end: blow-up, step limit, interrupt; and how they go on from a checkpoint."""

from __future__ import annotations

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import exp1

import metastable as ms
from metastable.flows.solvers import segments

START = ms.uniform(6, 3, seed=4)
FIELD = ms.SelfAttention(3.0)
RUN = dict(horizon=4.0, frames=49)  # 24 segments of two frames


def test_unnormalised_attention_in_space_blows_up_at_the_known_time():
    # One token at distance r: ṙ = r e^{βr²}, so it reaches infinity at E₁(βr₀²)/2.
    token = ms.Points([[1.0, 0.0]], on_sphere=False)
    run = ms.flow(token, ms.SelfAttention(1.0, normalized=False), horizon=1.0, frames=401)
    blow_up = exp1(1.0) / 2
    assert run.outcome.name == "blow_up" and "Rescaled" in run.outcome.message
    assert blow_up - 1 / 400 <= run.times[-1] < blow_up
    assert len(run.frames) == len(run.times) and np.isfinite(run.points).all()
    r = np.linalg.norm(run.points[-1])
    assert exp1(r**2) / 2 == pytest.approx(blow_up - run.times[-1], rel=1e-5)


def test_exponential_growth_ends_where_doubles_end():
    # x grows like e^t, and the logits like e^{2t}: their overflow is at t = ln(1.8e308)/2 ≈ 355.
    run = ms.flow(START.euclidean(), FIELD, horizon=2000.0, frames=201)
    assert run.outcome.name == "blow_up"
    assert 300 < run.times[-1] < 710
    assert np.isfinite(run.points).all()


def test_layers_that_blow_up_keep_the_layers_before():
    token = ms.Points([[1.0, 0.0]], on_sphere=False)
    run = ms.flow(token, ms.SelfAttention(1.0, normalized=False), 20.0, stepper=ms.Layers(1.0))
    # r ← r(1 + e^{r²}): 1, 3.72, 3.8e6, ∞.
    assert run.outcome.name == "blow_up" and run.times.tolist() == [0.0, 1.0, 2.0]
    assert np.linalg.norm(run.points[1]) == pytest.approx(1 + np.e, rel=1e-14)


@pytest.fixture(scope="module")
def whole():
    return ms.flow(START, FIELD, **RUN)


def test_step_limit_keeps_the_frames_it_reached(whole):
    run = ms.flow(START, FIELD, **RUN, stepper=ms.Adaptive(max_steps=7))
    assert run.outcome.name == "step_limit" and "max_steps" in run.outcome.message
    assert 1 < len(run.frames) < 49
    assert np.array_equal(run.points, whole.points[: len(run.frames)])


def test_a_velocity_that_is_not_finite_ends_the_run_at_once():
    # USA at β = 800: e^β is beyond doubles before anything moves.
    field = ms.SelfAttention(800.0, normalized=False)
    run = ms.flow(ms.polygon(3), field, 1.0, frames=2, stepper=ms.Adaptive(max_steps=100))
    assert run.outcome.name == "blow_up" and run.statistics["rejected"] < 10


def interrupt_at(monkeypatch, call):
    """Make Ctrl-C arrive during that call of the compiled solve."""
    real, seen = segments._compiled, []

    def compiled(*args):
        seen.append(None)
        if len(seen) == call:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(segments, "_compiled", compiled)


def test_interrupt_keeps_the_frames_so_far(monkeypatch, whole):
    interrupt_at(monkeypatch, 3)
    run = ms.flow(START, FIELD, **RUN)
    assert run.outcome.name == "interrupted"
    assert np.array_equal(run.points, whole.points[: len(run.frames)])
    assert np.array_equal(run.times, whole.times[:5])  # the start and two segments of two


NOISE = ms.SelfAttention(3.0) + ms.Noise(20.0)
KINDS = {
    "adaptive": (FIELD, dict(RUN)),
    "noise": (NOISE, dict(RUN, stepper=ms.Geodesic(0.02), seed=5)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumed_from_its_checkpoint_gives_the_same_bits(monkeypatch, tmp_path, kind):
    field, options = KINDS[kind]
    file = tmp_path / "run.npz"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 4)
        half = ms.flow(START, field, **options, checkpoint=file)
    assert half.outcome.name == "interrupted" and file.exists()
    with monkeypatch.context() as patch:
        interrupt_at(patch, 10**9)
        resumed = ms.flow(START, field, **options, checkpoint=file)
    undisturbed = ms.flow(START, field, **options)
    assert resumed.outcome.name == "done"
    assert np.array_equal(resumed.points, undisturbed.points)
    for key in ("steps", "rejected", "evaluations", "step_norm_drift"):
        assert resumed.statistics[key] == undisturbed.statistics[key]
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_a_finished_checkpoint_is_not_run_again(monkeypatch, tmp_path, whole):
    file = tmp_path / "run.npz"
    ms.flow(START, FIELD, **RUN, checkpoint=file)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        again = ms.flow(START, FIELD, **RUN, checkpoint=file)
    assert again.outcome.name == "done" and np.array_equal(again.points, whole.points)


def test_the_checkpoint_of_another_run_is_refused(monkeypatch, tmp_path):
    file = tmp_path / "run.npz"
    ms.flow(START, FIELD, **RUN, checkpoint=file)
    others = [
        (ms.uniform(6, 3, seed=5), FIELD, RUN),
        (ms.Points(START.points, [1, 1, 1, 1, 1, 2]), FIELD, RUN),
        (START, ms.SelfAttention(3.1), RUN),
        (START, ms.SelfAttention(3.0, normalized=False), RUN),
        (START, FIELD, dict(RUN, horizon=5.0)),
        (START, FIELD, dict(RUN, frames=25)),
        (START, FIELD, dict(RUN, stepper=ms.Adaptive(rtol=1e-8))),
        (START, FIELD, dict(RUN, sum=ms.Dense(block=4))),
    ]
    for measure, field, options in others:
        with pytest.raises(ValueError, match=r"checkpoint .*run\.npz.*another run.*remove"):
            ms.flow(measure, field, **options, checkpoint=file)
    noisy = tmp_path / "noise.npz"
    field, options = KINDS["noise"]
    ms.flow(START, field, **options, checkpoint=noisy)
    with pytest.raises(ValueError, match="another run"):
        ms.flow(START, field, **dict(options, seed=6), checkpoint=noisy)


def test_the_checkpoint_of_another_function_is_refused(tmp_path):
    file = tmp_path / "run.npz"
    ms.flow(START, ms.Potential(jnp.sin), **RUN, checkpoint=file)
    with pytest.raises(ValueError, match="another run"):
        ms.flow(START, ms.Potential(jnp.exp), **RUN, checkpoint=file)


FINGERPRINT = """
import jax.numpy as jnp, numpy as np, metastable as ms
from metastable.core.checkpoint import Checkpoint
print(Checkpoint("x", ms.FeedForward(activation=jnp.tanh)).fingerprint)
"""


def test_a_run_with_a_perceptron_can_be_resumed_by_another_process():
    prints = {
        subprocess.run(
            [sys.executable, "-c", FINGERPRINT], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(prints) == 1
