"""Heads as matrices: they rebuild the model's attention; spectra against dense eigenvalues."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from metastable.models.ablate import ScaledBeta
from metastable.models.capture import attention_maps, capture
from metastable.models.folder import load
from metastable.models.network import wrap
from metastable.models.own.transformer import DecoderOnly, TransformerConfig
from metastable.models.passes import pass_through
from metastable.models.weights import Head, fit_weights, head_matrices
from metastable.theory.limits import limit_geometry

from .made import IDS, save_tiny

pytest.importorskip("transformers")


def identity_head(beta: float, d: int = 6) -> Head:
    eye = np.eye(d)
    return Head(0, 0, beta * eye, eye, eye, eye, scale=1.0 / d, radius=np.sqrt(d))


@pytest.mark.parametrize("kind", ["albert", "bert", "gpt2", "t5", "distilbert"])
def test_the_matrices_rebuild_the_attention_of_the_first_layer(tmp_path, kind):
    """softmax(s⟨Qx_i,Kx_j⟩) in NumPy, biases and position terms of the logits set to zero."""
    folder = save_tiny(kind, tmp_path / kind)
    network = load(folder, dtype="float64")
    for name, weight in network.model.named_parameters():
        if name.endswith("bias") or "relative_attention_bias" in name:
            weight.data.zero_()
    x = np.asarray(capture(network, IDS, sphere=False).frames[0].points)
    if kind == "gpt2":
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        x = x * network.model.h[0].ln_1.weight.detach().numpy()
    elif kind == "t5":
        norm = network.model.encoder.block[0].layer[0].layer_norm
        x = x / np.sqrt(np.mean(x**2, 1, keepdims=True) + 1e-6) * norm.weight.detach().numpy()
    maps, _ = attention_maps(network, IDS)
    for head in [one for one in head_matrices(network) if one.layer == 0]:
        logits = head.scale * (x @ head.query.T) @ (x @ head.key.T).T
        if kind == "gpt2":
            logits[np.triu_indices(len(x), 1)] = -np.inf
        assert np.allclose(softmax(logits, axis=1), maps[0, head.head], atol=1e-7)


def test_values_and_outputs_of_all_heads_sum_to_the_model_s_own(tmp_path):
    """Grouped queries share values: Σ_h O_h V_h x is o_proj(v_proj(x) repeated)."""
    network = load(save_tiny("llama", tmp_path / "llama"), dtype="float64")
    attention = network.model.layers[1].self_attn
    x = torch.randn(32, dtype=torch.float64)
    with torch.no_grad():
        shared = attention.v_proj(x).reshape(2, 8).repeat_interleave(2, 0)
        expected = attention.o_proj(shared.flatten()).numpy()
    heads = [one for one in head_matrices(network) if one.layer == 1]
    assert len(heads) == 4 and heads[0].query.shape == (8, 32)
    assert np.allclose(sum(one.value_output @ x.numpy() for one in heads), expected, atol=1e-12)


VARIANTS = {
    kind: (kind, {})
    for kind in "gpt2 bert distilbert albert opt gpt_neox llama phi3 gemma2 mixtral qwen2".split()
} | {
    "gpt_neox in series": ("gpt_neox", {"use_parallel_residual": False}),
    "opt, norm last": ("opt", {"do_layer_norm_before": False}),
    "opt, bare": ("opt", {"layer_norm_elementwise_affine": False, "enable_bias": False}),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_the_heads_of_a_layer_are_its_attention(tmp_path, name, factor):
    """softmax(s(Qx + q)(Kx + k)ᵀ)(Vx + v)Oᵀ summed over heads, + o, is what the model adds; rotary
    frequencies, where there are any, are set to zero, so that positions do not enter."""
    kind, told = VARIANTS[name]
    network = load(save_tiny(kind, tmp_path / kind, **told))
    if hasattr(network.model, "rotary_emb"):
        network.model.rotary_emb.inv_freq.zero_()
    with ScaledBeta(factor).on(network):
        run = pass_through(network, IDS, inside=True)
    heads = head_matrices(network)
    n = len(IDS)
    i, j = np.arange(n)[:, None], np.arange(n)
    for layer, (module, inner) in enumerate(zip(run.applied, run.inside, strict=True)):
        hidden = (j > i) if kind not in ("bert", "distilbert", "albert") else np.zeros((n, n), bool)
        if kind == "gemma2" and network.config.layer_types[layer] == "sliding_attention":
            hidden = hidden | (j <= i - network.config.sliding_window)
        x, said = inner.seen.astype(float), 0.0
        for head in heads[:4] if kind == "albert" else heads[4 * layer : 4 * layer + 4]:
            queries, keys = x @ head.query.T + head.query_bias, x @ head.key.T + head.key_bias
            logits = factor * head.scale * queries @ keys.T
            if kind == "gemma2":  # the bound of the tiny model
                logits = 2.0 * np.tanh(logits / 2.0)
            P = softmax(np.where(hidden, -np.inf, logits), axis=1)
            assert np.allclose(P, inner.maps[head.head], atol=1e-5)
            said = said + P @ (x @ head.value.T + head.value_bias) @ head.output.T
        said = said + head.output_bias
        if kind == "gemma2":
            with torch.no_grad():
                said = module.post_attention_layernorm(torch.tensor(said)).numpy()
        assert np.allclose(said, inner.attended, atol=1e-5)


@pytest.mark.parametrize("kind", ["gemma2", "gemma3_text", "gpt_neox", "phi3", "opt"])
def test_the_radius_is_the_mean_square_length_of_what_is_seen(tmp_path, kind):
    """√Σ(g² + b²) for tokens of random direction; the gain of Gemma is 1 + its weight."""
    network = load(save_tiny(kind, tmp_path / kind, hidden_size=64, word_embed_proj_dim=64))
    run = pass_through(network, list(range(1, 40)), inside=True)
    heads = head_matrices(network)
    assert heads[0].query.shape == ((12 if kind.startswith("gemma") else 16), 64)
    for layer, inner in enumerate(run.inside):
        size = np.sqrt(np.mean(np.sum(inner.seen**2, axis=1)))
        assert heads[4 * layer].radius == pytest.approx(size, rel=0.05)


@pytest.mark.parametrize("kind", ["gpt_neox", "phi3", "gemma2", "opt", "olmoe"])
def test_fused_maps_are_cut_for_their_spectra_too(tmp_path, kind):
    """Sizes of the four maps: queries and outputs of all heads, keys and values of fewer."""
    fits = fit_weights(save_tiny(kind, tmp_path / kind))
    shared = kind in ("phi3", "gemma2", "olmoe")
    names = ["Q", "K", "V", "O"] + ([] if shared else ["sym(QᵀK)"])
    assert [name for _, name, _ in fits] == names * 3


def test_a_model_without_attention_has_no_heads(tmp_path):
    folder = save_tiny("mamba", tmp_path / "mamba")
    for read in (head_matrices, fit_weights):
        with pytest.raises(ValueError, match=r"needs an architecture with attention; got 'mamba'"):
            read(folder)


@pytest.mark.parametrize("kind", ["albert", "llama"])
def test_small_spectra_are_those_of_the_large_matrices(tmp_path, kind):
    for head in head_matrices(save_tiny(kind, tmp_path / kind)):
        dense = np.linalg.eigvals(head.value_output)
        dense = dense[np.argsort(-np.abs(dense))][: len(head.value_eigenvalues)]
        assert np.allclose(np.sort_complex(dense), np.sort_complex(head.value_eigenvalues))
        product = head.query.T @ head.key
        B = head.scale * (product + product.T) / 2
        values = np.linalg.eigvalsh(B)
        assert np.allclose(head.logit_eigenvalues.max(), values.max())
        assert np.allclose(np.sum(head.logit_eigenvalues**2), np.sum(B**2))


def test_the_effective_beta_of_isotropic_attention_is_beta():
    """Q = βI, K = I, s = 1/d, tokens of length √d: logits are β⟨u_i,u_j⟩ exactly."""
    assert identity_head(7.0).beta == pytest.approx(7.0)


def test_the_radius_is_the_length_of_normalised_tokens(tmp_path):
    """Tokens that leave a norm have mean square length Σ(g² + b²) when coordinates are centred."""
    torch_model = wrap(DecoderOnly(TransformerConfig(vocabulary=40, width=16, heads=4, layers=2)))
    heads = head_matrices(torch_model)
    assert [one.layer for one in heads] == [0] * 4 + [1] * 4
    x = np.asarray(capture(torch_model, IDS, sphere=False).frames[1].points)
    assert heads[-1].radius == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-3)


def test_which_theorem_applies_is_asked_of_the_theory():
    d, k = 6, 3
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((d, k)))[0]
    inside = np.diag([2.0, 0.5, 0.3])
    head = Head(0, 0, U.T, U.T, inside @ U.T, U, 1.0, 1.0)
    found = head.limit
    assert found.kind == "hyperplanes" and found.growth == pytest.approx(2.0)
    assert limit_geometry(head.value_output, U.T, U.T).kind == found.kind
    assert head.to_row()["its sign"] == "+"
    turned = Head(0, 0, U.T, U.T, -inside @ U.T, U, 1.0, 1.0)
    assert turned.limit.kind is None and turned.to_row()["its sign"] == "−"


def test_random_weights_follow_marchenko_pastur(tmp_path):
    """Freshly drawn Gaussian matrices of side 64: distance of the order log n/n, no outliers."""
    folder = save_tiny("bert", tmp_path / "b", hidden_size=64, intermediate_size=64)
    fits = fit_weights(folder)
    assert [name for _, name, _ in fits[:5]] == ["Q", "K", "V", "O", "sym(QᵀK)"]
    for _, name, fit in fits:
        if name in "QKVO":
            assert fit.fitted_distance < 0.08 and len(fit.outliers) == 0
