"""Layers recomputed from their weights, energies and hypotheses: against direct computation."""

import numpy as np
import pytest
import torch

from metastable.models.energy import (
    coherent_pull,
    energy_parts,
    energy_slope,
    score_signs,
    token_energy,
)
from metastable.models.folder import load
from metastable.models.hypotheses import head_hypotheses, theorems, theorems_beside
from metastable.models.ladder import RUNGS, ladder
from metastable.models.passes import pass_through
from metastable.models.stated import Norm, is_causal, stated_layers
from metastable.models.weights import head_matrices
from tests.models.made import IDS, save_tiny


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    kinds = "gpt2 bert llama gemma2 qwen3 olmoe t5".split()
    return {kind: load(save_tiny(kind, tmp_path_factory.mktemp(kind))) for kind in kinds}


@pytest.mark.parametrize("kind", ["gpt2", "bert", "llama", "gemma2", "qwen3", "olmoe", "t5"])
def test_maps_from_weights_are_those_of_transformers(networks, kind):
    network = networks[kind]
    inside = pass_through(network, IDS, inside=True).inside
    for layer, stated in zip(inside, stated_layers(network), strict=True):
        np.testing.assert_allclose(stated.maps(layer.seen), layer.maps, atol=2e-6)


def test_norm_is_torchs():
    x = np.random.default_rng(0).standard_normal((5, 8))
    gain, shift = np.linspace(1, 2, 8), np.linspace(-1, 1, 8)
    made = torch.nn.functional.layer_norm(
        torch.tensor(x), (8,), torch.tensor(gain), torch.tensor(shift), 1e-5
    )
    np.testing.assert_allclose(Norm(gain, shift, 1e-5, True)(x), made.numpy(), atol=1e-12)


def test_a_window_hides_old_tokens(networks):
    import dataclasses

    layer = dataclasses.replace(stated_layers(networks["llama"])[0], window=3)
    seen = layer.sees(6)
    assert seen[5].tolist() == [False, False, False, True, True, True]
    assert is_causal(networks["llama"]) and not is_causal(networks["bert"])


def test_energy_slope_is_the_derivative():
    """Against a central difference."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 7, 5))
    h = 1e-5
    difference = (token_energy(x + h * y, 2.0) - token_energy(x - h * y, 2.0)) / (2 * h)
    assert energy_slope(x, y, 2.0) == pytest.approx(difference, rel=1e-7)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "gemma2"])
def test_energy_parts_add_up(networks, kind):
    network = networks[kind]
    passage = pass_through(network, IDS, inside=True)
    parts = energy_parts(passage.inside, np.ones(len(IDS), bool))
    energies = [token_energy(state) for state in passage.states]
    np.testing.assert_allclose(parts.change, np.diff(energies), atol=1e-7)
    total = parts.attention + parts.feed_forward + parts.norm
    np.testing.assert_allclose(total, parts.change, atol=1e-12)


def test_coherent_pull_is_the_slope_along_uniform_attention(networks):
    network = networks["gpt2"]
    inside, stated = pass_through(network, IDS, inside=True).inside[0], stated_layers(network)[0]
    n = len(IDS)
    maps = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    seen = np.asarray(inside.seen, float)
    said = sum(maps @ seen @ (h.output @ h.value).T for h in head_matrices(network)[:4])
    kept = np.ones(n, bool)
    expected = energy_slope(inside.state, said)
    assert coherent_pull(stated, inside.state, kept, True) == pytest.approx(expected, rel=1e-5)


def test_signs_are_scored_out_of_sample():
    """A number that knows the sign scores 1; noise scores a half, within its interval."""
    rng = np.random.default_rng(0)
    change = rng.standard_normal((10, 30))
    assert score_signs(change + 5.0, change).accuracy > 0.95
    noise = score_signs(rng.standard_normal(change.shape), change)
    assert noise.low < 0.5 < noise.high
    layerwise = np.repeat(np.sign(rng.standard_normal((1, 30))), 10, axis=0)
    assert score_signs(change, layerwise).baseline == 1.0


def test_hypotheses_by_dense_matrices(networks):
    """Every overlap against the d × d matrices themselves."""
    network = networks["gpt2"]
    gains = [stated.first.gain for stated in stated_layers(network)]
    for found, head in zip(head_hypotheses(network), head_matrices(network), strict=True):
        g = np.diag(gains[head.layer])
        M, OV = g @ head.query.T @ head.key @ g, head.output @ head.value @ g
        d, sym = len(M), lambda a: (a + a.T) / 2
        norm = np.linalg.norm
        assert found.symmetric == pytest.approx(norm(sym(M)) ** 2 / norm(M) ** 2)
        assert found.value_isotropic == pytest.approx(np.trace(OV) / (np.sqrt(d) * norm(OV)))
        aligned = np.sum(sym(OV) * sym(M)) / (norm(sym(OV)) * norm(sym(M)))
        assert found.aligned == pytest.approx(aligned)
        values = np.linalg.eigvals(OV)
        assert found.normal == pytest.approx(np.sum(np.abs(values) ** 2) / norm(OV) ** 2)
        share = np.abs(values)[values.real > 1e-12].sum() / np.abs(values).sum()
        assert found.positive == pytest.approx(share, abs=1e-6)


def test_theorems_know_a_head_they_cover():
    from metastable.models.hypotheses import HeadHypotheses

    perfect = HeadHypotheses(0, 0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    random = HeadHypotheses(0, 1, 1.0, 0.5, 0.0, 0.0, 0.5, 0.3, 0.0)
    rows = theorems_beside([perfect, random], causal=True)
    assert [row.heads for row in rows] == [1, 1, 1, 1]
    assert all(row.where == "layer 0, head 0" for row in rows)


def test_no_theorem_covers_a_random_head(networks):
    assert [row.heads for row in theorems(networks["gpt2"])] == [0, 0, 0, 0]
    assert len(theorems(networks["bert"])) == 3  # one is about causal chains


def test_the_top_of_the_ladder_is_the_model(networks):
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, 40, 12).tolist() for _ in range(4)]
    for kind in ("gpt2", "bert"):
        found = ladder(networks[kind], prompts, progress=False)
        assert found.rungs == RUNGS
        assert found.share[-1] == pytest.approx(1.0)
        assert (found.low <= found.share).all() and (found.share <= found.high).all()
    # Norm first: nothing but attention and feed-forward moves a direction.
    assert ladder(networks["gpt2"], prompts, progress=False).share[4] == pytest.approx(1, abs=1e-6)
    with pytest.raises(ValueError, match="at least 4"):
        ladder(networks["gpt2"], prompts[:2])
