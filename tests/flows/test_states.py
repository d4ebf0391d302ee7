"""Trajectories of states that were computed elsewhere: arrays, files, refusals."""

from __future__ import annotations

import dataclasses
import pickle
import sys

import numpy as np
import pytest

import metastable as ms
from metastable.models.depthwise import depthwise
from metastable.models.representation import first_token

X = np.random.default_rng(0).normal(size=(4, 6, 5))
UNIT = X / np.linalg.norm(X, axis=2, keepdims=True)
from_states = ms.Trajectory.from_states


def refused(states, match, **told):
    with pytest.raises(ValueError, match=match) as caught:
        from_states(states, **told)
    assert "\n" not in str(caught.value)


def test_arrays_and_lists_of_arrays():
    for given in (X, list(X), tuple(X), X.tolist()):
        run = from_states(given)
        assert np.allclose(run.points, UNIT, atol=1e-15) and run.frames[0].on_sphere
        assert run.times.tolist() == [0, 1, 2, 3] and run.clock == "layers"
        assert run.outcome.name == "done" and run.field is None
    raw = from_states(X.astype(np.float32), sphere=False, clock="steps", words=list("abcdef"))
    assert np.array_equal(raw.points, X.astype(np.float32)) and raw.clock == "steps"
    assert raw.statistics["words"] == list("abcdef") and not raw.frames[0].on_sphere
    assert from_states(X * 1e300).frames[0].on_sphere  # whose squares overflow


def test_tensors_as_a_model_returns_them():
    torch = pytest.importorskip("torch")
    states = tuple(torch.tensor(x, dtype=torch.bfloat16, requires_grad=True) for x in X)
    assert np.allclose(from_states(states, sphere=False).points, X, rtol=2**-8)
    assert np.array_equal(from_states(torch.tensor(X), sphere=False).points, X)
    batch = tuple(torch.tensor(x)[None] for x in X)
    refused(batch, r"\(states, tokens, axes\); got shape \(4, 1, 6, 5\): take one text")
    refused(torch.zeros(4, 6, 5, dtype=torch.int64), "floating-point numbers; got int64")


def test_files(tmp_path):
    np.savez(tmp_path / "one.npz", X)
    np.savez_compressed(tmp_path / "named.npz", states=X, other=np.zeros(3))
    for name in ("one.npz", "named.npz"):
        assert np.array_equal(from_states(tmp_path / name, sphere=False).points, X)
        assert np.allclose(from_states(str(tmp_path / name)).points, UNIT)


def test_safetensors(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({"x": X.astype(np.float32)}, tmp_path / "one.safetensors")
    numpy.save_file({"states": X, "other": np.zeros(3)}, tmp_path / "named.safetensors")
    for name in ("one", "named"):
        found = from_states(tmp_path / f"{name}.safetensors", sphere=False).points
        assert np.allclose(found, X, rtol=1e-6)
    numpy.save_file({"x": X, "y": X}, tmp_path / "two.safetensors")
    refused(tmp_path / "two.safetensors", "one array, or one called 'states'; got x, y")
    numpy.save_file({"x": np.zeros((4, 6, 5), np.int32)}, tmp_path / "whole.safetensors")
    refused(tmp_path / "whole.safetensors", "floating-point numbers; got I32")
    whole = (tmp_path / "one.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-9])
    refused(tmp_path / "cut.safetensors", "a whole .safetensors file")
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    save_file({"x": torch.tensor(X).bfloat16()}, tmp_path / "half.safetensors")
    found = from_states(tmp_path / "half.safetensors", sphere=False).points
    assert np.array_equal(found, torch.tensor(X).bfloat16().double().numpy())


def test_without_safetensors_one_line_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "x.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    refused(tmp_path / "x.safetensors", "pip install safetensors")


class Bomb:
    def __reduce__(self):
        return (open, ("exploded", "w"))


def test_bad_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("two.npz", a=X, b=X)
    refused("two.npz", "one array, or one called 'states'; got a, b")
    np.savez("objects.npz", np.array([Bomb()], object), allow_pickle=True)
    refused("objects.npz", "without pickled objects")
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps(Bomb()))
    refused("pickle.npz", "a whole .npz file")
    assert not (tmp_path / "exploded").exists()
    (tmp_path / "cut.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:500])
    refused("cut.npz", "a whole .npz file")
    np.savez("whole.npz", X)
    damaged = bytearray((tmp_path / "whole.npz").read_bytes())
    damaged[300:360] = bytes(60)
    (tmp_path / "damaged.npz").write_bytes(damaged)
    refused("damaged.npz", "numbers alone, whole")
    np.save("plain.npy", X)
    refused("plain.npy", "an array, a .npz or a .safetensors file; got plain.npy")
    refused("absent.npz", "nothing at absent.npz")


@pytest.mark.parametrize(
    ("states", "match"),
    [
        (X[0], r"\(states, tokens, axes\); got shape \(6, 5\)"),
        (X[None], r"got shape \(1, 4, 6, 5\)"),
        (X[:1], "at least two; got 1"),
        (X[:0], r"tokens and axes; got shape \(0, 6, 5\)"),
        (X[:, :0], r"must hold tokens and axes; got shape \(4, 0, 5\)"),
        (X[:, :, :0], r"must hold tokens and axes; got shape \(4, 6, 0\)"),
        (X[:, :, :1], "at least two axes.*sphere=False"),
        (X.astype(int), "floating-point numbers; got int64"),
        (X > 0, "floating-point numbers; got bool"),
        (X + 0j, "floating-point numbers; got complex128"),
        (X.astype(str), "floating-point numbers; got <U"),
        (X.astype(object), "floating-point numbers; got object"),
        (None, "floating-point numbers; got object"),
        ([X[0], X[1][:3]], r"one shape \(tokens, axes\); got \(3, 5\) and \(6, 5\)"),
        ([[[1.0, 2.0], [1.0]], [[1.0, 2.0], [1.0]]], "rows of one length"),
        ([], r"got shape \(0,\)"),
        (np.where(np.arange(4)[:, None, None] == 2, np.nan, X), "NaN or infinity first in state 2"),
        (np.where(np.arange(4)[:, None, None] == 3, np.inf, X), "first in state 3: cut"),
        (X * (np.arange(6) != 4)[:, None], "token 4 of state 0 is zero.*sphere=False"),
    ],
)
def test_odd_states_are_refused_in_one_line(states, match):
    refused(states, match)


def test_odd_words_and_clocks():
    refused(X, "words must be 6 texts.*; got 2 of str", words=["a", "b"])
    refused(X, "got 6 of int", words=range(6))
    refused(X, "clock must be a name", clock="")
    refused(X, "clock must be a name", clock=3)
    assert from_states(X * (np.arange(6) != 4)[:, None], sphere=False).frames[0].count == 6


def test_everything_works_on_it(tmp_path):
    run = from_states(X, words=list("abcdef"))
    table = depthwise(run)
    expected = [np.sum(x @ x.T) - 6 for x in UNIT]
    assert table.mean_cosine == pytest.approx(np.array(expected) / 30)
    assert first_token(from_states(X, sphere=False)).ratios.shape == (4,)
    back = ms.Trajectory.load(run.save(tmp_path / "run.zarr"))
    assert np.allclose(back.points, run.points) and back.statistics == run.statistics


def test_states_of_known_layers_are_compared():
    """Layers of attention by the library itself; a wrong β is noticed."""
    field, stepper = ms.SelfAttention(beta=2.0), ms.Layers(1.0)
    made = ms.flow(ms.uniform(12, 5, seed=0), field, 6.0, stepper=stepper)
    run = from_states(made.points)
    assert ms.compare(dataclasses.replace(run, field=field, stepper=stepper)).agrees
    wrong = dataclasses.replace(run, field=ms.SelfAttention(beta=2.1), stepper=stepper)
    assert not ms.compare(wrong).agrees
    with pytest.raises(ValueError, match="run must know its field"):
        ms.compare(run)
