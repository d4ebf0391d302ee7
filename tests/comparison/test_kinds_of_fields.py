"""Verdicts on linear, sigmoid and sink attention, state-space layers and graphs: rows flip."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pydantic import TypeAdapter

import metastable as ms
from metastable.comparison import compare
from metastable.comparison.linear import linear_growth
from metastable.fields.build import build_field
from metastable.fields.spec import FieldSpec
from metastable.theory import spectrum

RNG = np.random.default_rng(3)
CAP = ms.Points(ms.von_mises_fisher(12, np.eye(3)[2], 5.0, seed=3).points, RNG.uniform(1, 2, 12))
FEW, MANY = ms.uniform(8, 3, seed=4), ms.uniform(400, 3, seed=7)
RING = ms.uniform(16, 2, seed=4)
EIGHT = ms.uniform(8, 2, seed=4)
FOUR = ms.orthogonal(4, 4)
OMEGA = RNG.normal(size=16)
A, B, C = (RNG.normal(size=(3, 3)) / 1.7 for _ in range(3))
GRAPH = ms.KuramotoNetwork("ring", 10.0, reach=2)
LOCKING = ms.KuramotoNetwork("complete", 6.0, OMEGA)
SLOW = ms.Kuramoto(1.0, OMEGA)

# What is tested: the row, the start, the stated field, another in its place, the horizon, frames.
ROWS = [
    ("the energy never falls", CAP, ms.SigmoidAttention(3.0, -1.0),
     ms.SigmoidAttention(3.0, -1.0, value=-1.0), 6.0, 41),
    ("dE/dt", CAP, ms.SigmoidAttention(3.0, -1.0), ms.SigmoidAttention(3.0, -0.8), 6.0, 81),
    ("growth rates", MANY, ms.SigmoidAttention(3.0, 1.0), ms.SigmoidAttention(3.0, -1.0), 3.0, 41),
    ("rate at which the last", CAP, ms.SigmoidAttention(3.0, -1.0),
     ms.SigmoidAttention(3.0, -0.9), 24.0, 61),
    ("first drift", ms.uniform(128, 3, seed=2), ms.SigmoidAttention(3.0, -1.0, A, B, C),
     ms.SigmoidAttention(3.0, -1.0, A, B, 1.5 * C), 3.0, 41),
    ("dE/dt", CAP, ms.SinkAttention(3.0, 1.5), ms.SinkAttention(3.0, 1.3), 4.0, 121),
    ("net torque", CAP, ms.SinkAttention(3.0, 1.5), ms.SinkAttention(3.0, 0.5), 4.0, 121),
    ("growth rates", MANY, ms.SinkAttention(3.0, 1.5), ms.SinkAttention(3.0, -1.0), 2.0, 41),
    ("rate at which the last", CAP, ms.SinkAttention(3.0, 1.5),
     ms.SinkAttention(3.0, 1.3), 22.0, 61),
    ("orthogonal tokens stay", FOUR, ms.SinkAttention(2.0, 1.0),
     ms.SinkAttention(2.0, 0.9), 9.0, 21),
    ("time for two clusters", ms.orthogonal(2, 3), ms.SinkAttention(2.0, 1.0),
     ms.SinkAttention(2.0, 0.9), 20.0, 61),
    ("first drift", ms.uniform(128, 3, seed=2), ms.SinkAttention(3.0, 1.5, A, B, C),
     ms.SinkAttention(3.0, 0.5, A, B, C), 3.0, 41),
    ("the first token moves by itself", CAP, ms.SinkAttention(3.0, 1.5, A, B, C, causal=True),
     ms.SinkAttention(3.0, 1.4, A, B, C, causal=True), 4.0, 41),
    ("all tokens converge to x_1", CAP, ms.SinkAttention(3.0, 1.5, causal=True),
     ms.SinkAttention(3.0, 1.5, causal=True), 200.0, 41),
    ("projective cross-ratios", FEW, ms.LinearAttention(A, B, C),
     ms.LinearAttention(A, B, C, features="elu"), 4.0, 41),
    ("the largest second moment", FEW, ms.LinearAttention(),
     ms.LinearAttention(value=-1.0), 4.0, 41),
    ("rate at which tokens approach the ends", FEW, ms.LinearAttention(),
     ms.LinearAttention(value=1.1), 20.0, 81),
    ("dE/dt", FEW, ms.LinearAttention(), ms.LinearAttention(value=1.1), 4.0, 81),
    ("growth rates", MANY, ms.LinearAttention(), ms.LinearAttention(value=2.0), 2.0, 41),
    ("first drift", ms.uniform(128, 3, seed=2), ms.LinearAttention(A, B, C),
     ms.LinearAttention(A, B, 1.5 * C), 2.0, 41),
    ("the first two tokens", FEW, ms.StateSpace(1.0, A, B, C, gate=[1.0, 0.0, -0.5]),
     ms.StateSpace(1.2, A, B, C, gate=[1.0, 0.0, -0.5]), 10.0, 41),
    ("the first token rests", FEW, ms.StateSpace(1.0), ms.StateSpace(1.0, value=A), 10.0, 41),
    ("all tokens end at ±x_1", FEW, ms.StateSpace(1.0), ms.StateSpace(1.0, value=-1.0), 2000.0, 41),
    ("rate at which tokens approach the line", FEW, ms.StateSpace(1.0),
     ms.StateSpace(1.5), 250.0, 91),
    ("energy gained", FEW, ms.StateSpace(1.0), ms.StateSpace(1.5), 60.0, 91),
    ("decay near synchrony", ms.uniform(10, 3, seed=4), GRAPH,
     ms.KuramotoNetwork("ring", 10.0, reach=3), 12.0, 61),
    ("the energy never falls", ms.uniform(10, 3, seed=4), GRAPH,
     ms.KuramotoNetwork("ring", -10.0, reach=2), 3.0, 61),
    ("net torque", ms.uniform(10, 3, seed=4), GRAPH, ms.SelfAttention(1.0, value=A), 3.0, 61),
    ("all tokens end in one cluster", ms.uniform(10, 3, seed=4), GRAPH,
     ms.KuramotoNetwork([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]], 10.0), 60.0, 61),
    ("order parameter of the state", RING, LOCKING,
     ms.KuramotoNetwork("complete", 5.0, OMEGA), 30.0, 301),
    ("mean phase", RING, LOCKING, ms.KuramotoNetwork("complete", 6.0, OMEGA + 0.01), 3.0, 101),
    ("d/dt(K‖m‖²/2", RING, LOCKING, ms.KuramotoNetwork("complete", 5.0, OMEGA), 3.0, 301),
    ("below K_c", RING, SLOW, ms.Kuramoto(1.0), 30.0, 301),
    ("sines across the edges", EIGHT, ms.KuramotoNetwork("path", 80.0, OMEGA[:8]),
     ms.KuramotoNetwork("path", 70.0, OMEGA[:8]), 40.0, 201),
]  # fmt: skip
NAMES = [f"{type(row[2]).__name__}: {row[0]}" for row in ROWS]
KEPT = {"all tokens converge to x_1"}  # another field that leaves the start where it is


def _row(run, begins):
    found = [row for row in compare(run).rows if row.claim.startswith(begins)]
    assert len(found) == 1, [row.claim for row in compare(run).rows]
    return found[0]


@pytest.mark.parametrize(
    ("claim", "start", "stated", "other", "horizon", "frames"), ROWS, ids=NAMES
)
def test_a_row_agrees_with_its_field_and_not_with_another(
    claim, start, stated, other, horizon, frames
):
    run = ms.flow(start, stated, horizon, frames=frames, progress=False)
    assert _row(run, claim).verdict == "agree"
    if claim in KEPT:
        # Another leader: the row must look at the token of the earliest time.
        turned = np.arange(12.0)[::-1]
        frames = [ms.Points(f.points, f.weights, times=turned) for f in run.frames]
        assert _row(dataclasses.replace(run, frames=frames), claim).verdict != "agree"
        return
    wrong = ms.flow(start, other, horizon, frames=frames, progress=False)
    assert _row(dataclasses.replace(wrong, field=stated), claim).verdict == "disagree"


@pytest.mark.parametrize(
    "field",
    [ms.SigmoidAttention(4.0, -2.0), ms.SinkAttention(4.0, 1.0), ms.LinearAttention(value=0.5)],
)
@pytest.mark.parametrize("dim", [2, 3])
def test_predicted_growth_is_the_slope_of_the_potential(field, dim):
    """Each is a potential of the inner product around uniform, whose rates theory knows."""
    if isinstance(field, ms.SigmoidAttention):
        shape = lambda s: np.log1p(np.exp(4 * s - 2)) / 4
    elif isinstance(field, ms.SinkAttention):
        s, w = spectrum.gegenbauer_quadrature(dim, 200)
        whole = float(w @ np.exp(4 * s)) + np.e
        shape = lambda s: np.exp(4 * s) / 4 / whole
    else:
        shape = lambda s: s**2 / 4
    expected = spectrum.potential_rates(shape, dim, 8)
    found = linear_growth(field, dim, np.inf)
    assert found is not None
    assert np.abs(found.rates[:8] - expected).max() < 1e-10
    assert ms.predict(field, dim, 1000).dominant_mode == int(np.argmax(expected)) + 1


def test_predictions_name_theorems_or_say_why_not():
    sphere = ms.predict(ms.SigmoidAttention(4.0, -2.0), 3).single_cluster_theorem
    assert sphere is not None and "markdahl2018almost" in sphere
    graph = ms.KuramotoNetwork([[0, 1], [2, 3]])
    assert ms.predict(graph, 3, 4).single_cluster_theorem is None
    assert ms.predict(ms.KuramotoNetwork("ring"), 3, 4).single_cluster_theorem is not None
    assert ms.predict(ms.KuramotoNetwork("ring"), 2, 4).single_cluster_theorem is None
    for field, word in ((ms.LinearAttention(), "one line"), (ms.StateSpace(), "±x_1")):
        assert word in ms.predict(field, 3, 8).reasons["single_cluster_theorem"]


DESCRIBED = [
    {"kind": "sigmoid_attention", "beta": 2.0, "bias": -1.0, "value": -1},
    {"kind": "sink_attention", "beta": 2.0, "sink": 0.5, "causal": True},
    {"kind": "linear_attention", "features": "elu", "normalized": True},
    {"kind": "linear_attention", "query": {"draw": "gaussian"}},
    {"kind": "state_space", "decay": 2.0, "gate": [1.0, 0.5, 0.0]},
    {"kind": "kuramoto_network", "edges": [[0, 1], [1, 2]], "coupling": 2.0},
    {"kind": "kuramoto_network", "edges": "ring", "reach": 2},
]


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda d: d["kind"])
def test_specs_know_them(described):
    spec = TypeAdapter(FieldSpec).validate_python(described)
    field = build_field(spec, 3)
    run = ms.flow(FEW, field, 1.0, frames=3, progress=False)
    assert np.isfinite(run.points).all()  # pyright: ignore
    with pytest.raises(ValueError, match="missing_key"):
        TypeAdapter(FieldSpec).validate_python(described | {"missing_key": 1})


@pytest.mark.parametrize("field", [ms.SigmoidAttention(5.0), ms.LinearAttention()])
def test_densities_move_under_them_by_linear_theory(field):
    """A small wave of degree 2 grows at the rate of the potential."""
    run = ms.flow(ms.Density.mode(2, 2, 1e-6), field, 1.0, frames=3, progress=False)
    growth = linear_growth(field, 2, np.inf)
    assert growth is not None
    seen = [float(ms.observe.amplitudes(frame, 2)[-1]) for frame in run.frames]
    assert np.log(seen[-1] / seen[0]) == pytest.approx(growth.rates[1], rel=1e-5)


def test_a_sigmoid_too_sharp_to_expand_says_so():
    for field in (ms.SigmoidAttention(1e5, -3e4), ms.SigmoidAttention(1e300)):
        assert "β ≤ 300" in ms.predict(field, 3, 100).reasons["rates"]


FOR_ONE = [described for described in DESCRIBED if not isinstance(described.get("edges"), list)]


@pytest.mark.parametrize("described", FOR_ONE, ids=lambda d: d["kind"])
def test_one_token_alone_is_compared(described):
    field = build_field(TypeAdapter(FieldSpec).validate_python(described), 3)
    run = ms.flow(ms.Points(np.eye(3)[:1]), field, 1.0, frames=3, progress=False)
    assert compare(run).agrees
