"""Every architecture whose parts are known: states, and what happens inside a layer, against
transformers' own and against the model's parts put together by hand."""

import contextlib

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from metastable.models.ablate import (
    AttentionOnly,
    FeedForwardOnly,
    IdentityValue,
    OneHead,
    Resampled,
    ScaledBeta,
    WithoutNorms,
)
from metastable.models.network import wrap
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder, Trace, TransformerConfig
from metastable.models.passes import pass_rows, pass_through

from .made import IDS, OTHER, save_tiny

transformers = pytest.importorskip("transformers")
VARIANTS = {
    kind: (kind, {})
    for kind in "gpt2 gpt_neox opt bert distilbert albert t5 llama mistral qwen2 qwen3 smollm3 "
    "gemma2 gemma3_text phi3 mixtral olmoe mamba".split()
} | {
    "gpt_neox in series": ("gpt_neox", {"use_parallel_residual": False}),
    "opt, norm last": ("opt", {"do_layer_norm_before": False, "word_embed_proj_dim": 16}),
    "opt, projected": ("opt", {"word_embed_proj_dim": 16}),
    "opt, no final norm": ("opt", {"_remove_final_layer_norm": True}),
    "opt, bare norms": ("opt", {"layer_norm_elementwise_affine": False, "enable_bias": False}),
    "albert of two": ("albert", {"num_hidden_groups": 2}),
}
POST = ("bert", "distilbert", "albert", "albert of two", "opt, norm last")
NO_FINAL = (*POST, "opt, no final norm")
ATTENTIVE = [name for name in VARIANTS if name != "mamba"]
every = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("tiny")
    return {
        name: save_tiny(kind, home / name.replace(" ", "_"), **told)
        for name, (kind, told) in VARIANTS.items()
    }


def model_at(folder, dtype=torch.float32):
    return transformers.AutoModel.from_pretrained(
        folder, attn_implementation="eager", dtype=dtype
    ).eval()


@pytest.fixture(scope="module")
def networks(folders):
    return {name: wrap(model_at(folder), name) for name, folder in folders.items()}


def parts_of(name):
    return ("encoder", "decoder") if name == "t5" else ("",)


def reference(model, rows, part):
    """All hidden states as transformers gives them, embeddings first, and its last one apart."""
    ids = torch.tensor(rows)
    # A cache lays keys out otherwise, and the last digit of their products changes with it.
    told = {"output_hidden_states": True, "use_cache": False}
    if part:
        told["decoder_input_ids"] = torch.cat([torch.zeros_like(ids[:, :1]), ids[:, :-1]], 1)
    with torch.no_grad():
        found = model(ids, **told)
        states = list(getattr(found, f"{part}_hidden_states" if part else "hidden_states"))
        if model.config.model_type == "mamba":  # transformers leaves out the embeddings
            states = [model.embeddings(ids), *states]
            del states[-2]  # and has the last state both before and after the norm
    return states[:-1], states[-1]


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def arrays(tensors, row):
    return [tensor[row].float().numpy() for tensor in tensors]


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_states_are_those_of_transformers_to_the_bit(folders, name, dtype):
    network, model = wrap(model_at(folders[name], dtype)), model_at(folders[name], dtype)
    for part in parts_of(name):
        expected, last = reference(model, [IDS, OTHER], part)
        runs = pass_rows(network, [IDS, OTHER], part=part)
        for row, run in enumerate(runs):
            assert all(state.dtype == np.float32 for state in run.states)
            assert run.times == [float(k) for k in range(len(expected) + 1)]
            for state, truth in zip(run.states, arrays(expected, row), strict=False):
                assert np.array_equal(state, truth)
            # What transformers calls the last state is ours after the final norm, and, in OPT of
            # unlike widths, after a map back to the width of the embeddings.
            ours = run.states[-1] if name in NO_FINAL else run.final
            if "word_embed_proj_dim" in VARIANTS[name][1]:
                with torch.no_grad():
                    ours = model.decoder.project_out(torch.tensor(ours).to(dtype)).float().numpy()
                assert np.allclose(ours, last[row].float().numpy(), atol=1e-6, rtol=1e-2)
            else:
                assert np.array_equal(ours, last[row].float().numpy())


@every
def test_the_last_state_is_before_the_final_norm(networks, name):
    model = networks[name].model
    for part in parts_of(name):
        run = pass_through(networks[name], IDS, part=part)
        if name in NO_FINAL:
            assert run.final is None
            continue
        norms = {"gpt2": "ln_f", "gpt_neox": "final_layer_norm", "mamba": "norm_f"}
        norms |= {"opt": "decoder.final_layer_norm", "t5": f"{part}.final_layer_norm"}
        norm = model.get_submodule(norms.get(VARIANTS[name][0], "norm"))
        with torch.no_grad():
            normed = norm(torch.tensor(run.states[-1])[None])[0].numpy()
        assert np.allclose(run.final, normed, atol=1e-6)
        assert not np.allclose(run.final, run.states[-1], atol=1e-2)


@every
def test_the_parts_of_a_layer_add_up(networks, name):
    network = networks[name]
    for part in parts_of(name):
        run = pass_through(network, IDS, part=part, inside=True, middles=name != "mamba")
        assert len(run.inside) == len(run.states) - 1 == run.trained
        for k, inner in enumerate(run.inside):
            assert np.array_equal(inner.state, run.states[k])
            assert np.array_equal(inner.leaves, run.states[k + 1])
            crossed = 0.0 if inner.crossed is None else inner.crossed
            assert (inner.crossed is None) == (part != "decoder")
            assert (inner.experts is None) == (name not in ("mixtral", "olmoe"))
            if name == "mamba":
                assert inner.seen is inner.attended is inner.maps is None
                assert np.array_equal(inner.middle, inner.state)
                assert np.allclose(inner.leaves, inner.state + inner.fed, atol=1e-5)
                continue
            assert np.array_equal(inner.middle, run.middles[k])
            assert inner.maps.shape == (4, len(IDS), len(IDS))
            assert np.allclose(inner.maps.sum(-1), 1, atol=1e-5)
            if name in POST:
                anatomy = network.anatomy(part)
                norms = [run.applied[k].get_submodule(path) for path in anatomy.norms]
                sums = (inner.state + inner.attended, inner.middle + inner.fed)
                with torch.no_grad():
                    normed = [n(torch.tensor(x)).numpy() for n, x in zip(norms, sums, strict=True)]
                assert np.array_equal(inner.seen, inner.state)
                assert np.array_equal(inner.read, inner.middle)
                assert np.allclose(inner.middle, normed[0], atol=1e-5)
                assert np.allclose(inner.leaves, normed[1], atol=1e-5)
            else:
                assert np.allclose(inner.middle, inner.state + inner.attended + crossed, atol=1e-5)
                assert np.allclose(inner.leaves, inner.middle + inner.fed, atol=1e-5)
            assert min(np.abs(inner.attended).max(), np.abs(inner.fed).max()) > 1e-4


def visible(window=None):
    """Zero where token i may look at token j, and −∞ elsewhere."""
    i, j = torch.arange(len(IDS))[:, None], torch.arange(len(IDS))
    hidden = (j > i) if window is None else (j > i) | (j <= i - window)
    return torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)[None, None]


def mixture(block, x, normalised):
    """Σ_e w_e F_e(x) over the two likeliest experts, token by token."""
    chances = torch.softmax(x @ block.gate.weight.T, -1)
    out, chosen, shares = torch.zeros_like(x), [], []
    for i, token in enumerate(x):
        best = torch.argsort(chances[i], descending=True)[:2]
        share = chances[i][best] / (chances[i][best].sum() if normalised else 1.0)
        for e, w in zip(best, share, strict=True):
            gate, up = (block.experts.gate_up_proj[e] @ token).chunk(2)
            out[i] += w * (block.experts.down_proj[e] @ (F.silu(gate) * up))
        chosen.append(best)
        shares.append(share)
    return out, torch.stack(chosen), torch.stack(shares)


def by_hand(name, model, k, x):
    """Layer k of the model, its own modules called in the order of their papers."""
    causal, places = visible(), torch.arange(len(IDS))[None]
    if name == "gpt2":
        b = model.h[k]
        norms, attend, feed = (b.ln_1, b.ln_2), lambda y: b.attn(y, attention_mask=causal), b.mlp
    elif name.startswith("gpt_neox"):
        b, turn = model.layers[k], model.rotary_emb(x, places)
        norms, feed = (b.input_layernorm, b.post_attention_layernorm), b.mlp
        attend = lambda y: b.attention(y, causal, position_embeddings=turn)
    elif name.startswith("opt"):
        b = model.decoder.layers[k]
        norms = (b.self_attn_layer_norm, b.final_layer_norm)
        attend = lambda y: b.self_attn(y, attention_mask=causal)
        feed = lambda y: b.fc2(F.relu(b.fc1(y)))
    elif name == "bert":
        b = model.encoder.layer[k]
        norms = (b.attention.output.LayerNorm, b.output.LayerNorm)
        attend = lambda y: (b.attention.output.dense(b.attention.self(y)[0]),)
        feed = lambda y: b.output.dense(b.intermediate(y))
    else:
        b, mask, more = model.layers[k], causal, ()
        if name in ("gemma2", "gemma3_text"):
            sort = model.config.layer_types[k]
            mask = visible(4 if sort == "sliding_attention" else None)
            more = (sort,) if name == "gemma3_text" else ()
        turn = model.rotary_emb(x, places, *more)
        norms, feed = (b.input_layernorm, b.post_attention_layernorm), b.mlp
        attend = lambda y: b.self_attn(
            hidden_states=y, position_embeddings=turn, attention_mask=mask
        )
    if name in ("bert", "opt, norm last"):
        attended = attend(x)[0]
        middle = norms[0](x + attended)
        fed = feed(middle)
        return {
            "seen": x,
            "attended": attended,
            "middle": middle,
            "read": middle,
            "fed": fed,
            "leaves": norms[1](middle + fed),
        }
    seen = norms[0](x)
    attended = attend(seen)[0]
    if name in ("gemma2", "gemma3_text"):
        attended = b.post_attention_layernorm(attended)
        norms = (norms[0], b.pre_feedforward_layernorm)
        feed = lambda y: b.post_feedforward_layernorm(b.mlp(y))
    middle = x + attended
    read = norms[1](x if name == "gpt_neox" else middle)
    if name in ("mixtral", "olmoe"):
        feed = lambda y: mixture(b.mlp, y[0], name == "mixtral")[0][None]
    fed = feed(read)
    parts = {"seen": seen, "attended": attended, "middle": middle, "read": read, "fed": fed}
    return parts | {"leaves": middle + fed}


SERIAL = "gpt2|gpt_neox|gpt_neox in series|opt|opt, norm last|bert|llama|gemma2|gemma3_text|phi3"


@pytest.mark.parametrize("name", [*SERIAL.split("|"), "mixtral", "olmoe"])
def test_every_sublayer_is_what_the_model_s_own_parts_give(networks, name):
    network = networks[name]
    run = pass_through(network, IDS, inside=True)
    for k, inner in enumerate(run.inside):
        with torch.no_grad():
            expected = by_hand(name, network.model, k, torch.tensor(inner.state)[None])
        for part, value in expected.items():
            assert np.allclose(getattr(inner, part), value[0].numpy(), atol=1e-5), part


@pytest.mark.parametrize("name", ["mixtral", "olmoe"])
def test_routing_says_which_experts_answered_and_how_loudly(networks, name):
    network = networks[name]
    runs = pass_rows(network, [IDS, OTHER], inside=True)
    for run in runs:
        for layer, inner in zip(run.applied, run.inside, strict=True):
            with torch.no_grad():
                read = torch.tensor(inner.read)
                _, chosen, shares = mixture(layer.mlp, read, name == "mixtral")
            assert inner.experts.experts.shape == (len(IDS), 2)
            assert np.array_equal(inner.experts.experts, chosen.numpy())
            assert np.allclose(inner.experts.weights, shares.numpy(), atol=1e-6)


def test_a_state_space_layer_is_its_norm_and_its_mixer(networks):
    network = networks["mamba"]
    for layer, inner in zip(
        network.model.layers, pass_through(network, IDS, inside=True).inside, strict=True
    ):
        with torch.no_grad():
            read = layer.norm(torch.tensor(inner.state)[None])
            fed = layer.mixer(read)
        assert np.allclose(inner.read, read[0], atol=1e-5)
        assert np.allclose(inner.fed, fed[0], atol=1e-5)
    for asked in ("maps", "middles"):
        with pytest.raises(ValueError, match=r"needs an architecture with attention; got 'mamba'"):
            pass_through(network, IDS, **{asked: True})
    assert network.heads == 0
    with pytest.raises(ValueError, match="heads must"):
        network.with_heads(2)


@every
def test_a_batch_is_its_rows_and_leaves_no_hooks(networks, name):
    network = networks[name]
    before, weights = hooks(network.model), {k: v.clone() for k, v in state(network).items()}
    for part in parts_of(name):
        both = pass_rows(network, [IDS, OTHER], part=part, inside=True)
        for ids, row in zip((IDS, OTHER), both, strict=True):
            alone = pass_through(network, ids, part=part, inside=True)
            for one, other in zip(alone.states, row.states, strict=True):
                assert np.allclose(one, other, atol=1e-5)
            for one, other in zip(alone.inside, row.inside, strict=True):
                for field in ("seen", "attended", "middle", "read", "fed", "maps"):
                    pair = getattr(one, field), getattr(other, field)
                    assert pair[0] is pair[1] is None or np.allclose(*pair, atol=1e-5)
            if alone.final is not None:
                assert np.allclose(alone.final, row.final, atol=1e-5)
    assert hooks(network.model) == before
    assert all(torch.equal(value, weights[key]) for key, value in state(network).items())


def state(network):
    return network.model.state_dict()


def test_tokens_go_where_the_weights_are(folders):
    """On PyTorch's device without storage, which refuses tensors of another."""
    network = wrap(model_at(folders["bert"]).to("meta"))
    assert network.run([IDS, OTHER]).last_hidden_state.device.type == "meta"
    assert wrap(model_at(folders["t5"]).to("meta")).run([IDS])[0].device.type == "meta"


def test_rows_of_unequal_length_are_refused(networks):
    with pytest.raises(ValueError, match=r"ids must be rows of equal length; got 11, 3: cut"):
        pass_rows(networks["gpt2"], [IDS, IDS[:3]])


def test_hooks_are_gone_after_an_error(networks):
    network = networks["bert"]
    before = hooks(network.model)
    with pytest.raises(ValueError, match="depth must be at most 3"):
        pass_through(network, IDS, depth=9, inside=True)
    with pytest.raises(IndexError):
        pass_through(network, [1000], inside=True)
    assert hooks(network.model) == before


def test_rows_that_overflow_end_alone(folders):
    """One embedding is infinite: its row ends, the other goes on."""
    network = wrap(model_at(folders["gpt2"]))
    with torch.no_grad():
        network.model.wte.weight[30] = torch.inf
    one, two = pass_rows(network, [IDS, OTHER], inside=True)
    assert (one.ending, len(one.states), len(one.inside)) == ("done", 4, 3)
    assert (two.ending, len(two.states), len(two.inside)) == ("blow_up", 0, 0)
    assert one.final is not None and two.final is None


@pytest.mark.parametrize("name", ["albert", "albert of two"])
def test_repeated_layers_are_recorded_one_by_one(networks, name):
    """Past the trained depth too, and in parts of a step."""
    network = networks[name]
    run = pass_through(network, IDS, depth=6, cycle=True, inside=True)
    assert len(run.inside) == 6 and run.trained == 4
    for k, inner in enumerate(run.inside):
        layer = run.applied[k % 4]
        with torch.no_grad():
            x = torch.tensor(inner.state)[None]
            assert np.allclose(inner.middle, layer.attention(x)[0][0], atol=1e-5)
            assert np.allclose(inner.leaves, layer(x)[0], atol=1e-5)
    if name == "albert":
        half = pass_through(network, IDS, depth=2, step=0.5, inside=True)
        assert len(half.inside) == len(half.states) - 1 == 4
        for k, inner in enumerate(half.inside):
            between = (half.states[k] + inner.leaves) / 2
            assert np.allclose(half.states[k + 1], between, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_inside_of_our_own_layers(norm_first):
    """Against the trace they keep themselves; the decoder of two adds what it crossed."""
    told = {"vocabulary": 40, "width": 16, "heads": 4, "layers": 2, "hidden": 24}
    config = TransformerConfig(**told, norm_first=norm_first)
    model, trace = DecoderOnly(config), Trace()
    with torch.no_grad():
        model.forward_embeddings(model.embed(torch.tensor([IDS])), trace=trace)
    run = pass_through(wrap(model), IDS, inside=True)
    for k, inner in enumerate(run.inside):
        assert np.allclose(inner.middle, trace.middles[k][0], atol=1e-5)
        assert np.allclose(inner.maps, trace.maps[k][0], atol=1e-5)
    two = pass_rows(wrap(EncoderDecoder(config)), [IDS, OTHER], part="decoder", inside=True)
    for inner in (inner for run in two for inner in run.inside):
        if norm_first:
            total = inner.state + inner.attended + inner.crossed + inner.fed
            assert np.allclose(inner.leaves, total, atol=1e-5)
        assert inner.crossed.shape == inner.fed.shape


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_gives_float32_arrays(folders, name, dtype):
    network = wrap(model_at(folders[name], dtype))
    part = parts_of(name)[-1]
    run = pass_through(network, IDS, part=part, inside=True)
    for inner in run.inside:
        found = [inner.state, inner.seen, inner.attended, inner.middle, inner.read, inner.fed]
        for array in (*found, inner.leaves, inner.maps, inner.crossed):
            assert array is None or array.dtype == np.float32
        if name not in POST and name != "mamba":
            crossed = 0.0 if inner.crossed is None else inner.crossed
            total = inner.state + inner.attended + crossed + inner.fed
            assert np.allclose(inner.leaves, total, atol=0.1, rtol=0.05)


EVERY = [
    AttentionOnly(),
    FeedForwardOnly(),
    WithoutNorms(),
    ScaledBeta(2.5),
    OneHead(2),
    IdentityValue(-1),
    Resampled(3),
]


@every
@pytest.mark.parametrize("one", EVERY, ids=repr)
def test_every_ablation_changes_the_model_and_is_undone(networks, name, one):
    network = networks[name]
    if name == "mamba" and one.of_attention:
        with pytest.raises(ValueError, match=r"the ablation .* needs .* with attention"):
            with one.on(network):
                pass
        return
    before, hooked = pass_through(network, IDS).states, hooks(network.model)
    with one.on(network):
        changed = pass_through(network, IDS, inside=True)
    assert np.isfinite(changed.states[-1]).all()
    assert np.abs(changed.states[-1] - before[-1]).max() > 1e-6
    assert hooks(network.model) == hooked
    for old, new in zip(before, pass_through(network, IDS).states, strict=True):
        assert np.array_equal(old, new)
    for inner in changed.inside:
        if isinstance(one, AttentionOnly):
            assert not inner.fed.any()
        elif isinstance(one, FeedForwardOnly):
            assert not inner.attended.any()
        elif isinstance(one, WithoutNorms) and name != "mamba":
            assert np.array_equal(inner.seen, inner.state)
            if name not in ("gpt_neox", "t5"):
                assert np.array_equal(inner.read, inner.middle)
            assert np.allclose(
                inner.leaves, inner.state + inner.attended + inner.fed, rtol=1e-4, atol=1e-4
            )


# T5 has a term in its logits that does not scale, and Gemma 2 a bound: see test_weights.
@pytest.mark.parametrize("name", [name for name in ATTENTIVE if name not in ("t5", "gemma2")])
def test_a_scaled_beta_scales_differences_of_logits(networks, name):
    """log P_ij − log P_ii in the first layer, where all models are given the same state."""
    network = networks[name]

    def logits():
        maps = pass_through(network, IDS, inside=True).inside[0].maps.astype(float)
        seen = maps.min(0) > 1e-6
        own = np.log(maps[:, np.arange(len(IDS)), np.arange(len(IDS))])
        return np.log(np.where(seen, maps, 1.0)) - own[..., None], seen

    plain, seen = logits()
    with ScaledBeta(0.5).on(network):
        scaled, _ = logits()
    assert np.allclose(scaled[:, seen], 0.5 * plain[:, seen], atol=1e-4)
    assert np.abs(plain[:, seen]).max() > 0.01


@pytest.mark.parametrize("name", ATTENTIVE)
def test_heads_that_speak_alone_sum_to_all_of_them(networks, name):
    """In the first layer, without norms: Σ_h (one head alone) counts the bias of O four times."""
    network = networks[name]

    def attended(*ablations):
        with contextlib.ExitStack() as changes:
            for ablation in (WithoutNorms(), *ablations):
                changes.enter_context(ablation.on(network))
            return pass_through(network, IDS, inside=True).inside[0].attended

    layer = pass_through(network, IDS).applied[0]
    bias = getattr(layer.get_submodule(network.anatomy().output), "bias", None)
    extra = 0.0 if bias is None else 3 * bias.detach().numpy()
    total = sum(attended(OneHead(h)) for h in range(4))
    assert np.allclose(total - extra, attended(), rtol=1e-4, atol=1e-4)


def test_interleaved_heads_are_not_cut_anew(networks):
    with pytest.raises(ValueError, match=r"heads must divide .* not interleaved"):
        networks["gpt_neox"].with_heads(2)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "mamba"])
def test_the_untrained_control_in_half_precision_keeps_its_buffers(folders, name):
    fresh = wrap(model_at(folders[name], torch.bfloat16)).untrained(0)
    assert {weight.dtype for weight in fresh.model.parameters()} == {torch.bfloat16}
    assert torch.bfloat16 not in {buffer.dtype for buffer in fresh.model.buffers()}
    assert pass_through(fresh, IDS).states[-1].shape == (len(IDS), 32)
