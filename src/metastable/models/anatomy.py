"""Where the parts of a layer are, in each architecture.

A state is seen at a layer's door, an ablation acts on one of its parts, a theorem asks for its
matrices: all three need the same map, and it is written here once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Anatomy:
    """Dotted paths of the parts of a stack of layers.

    `layers` is a pattern below the model (`*` for numbers, `{part}` for encoder or decoder), as are
    `final_norm` and `embedding_norm`; all other paths start at a layer.
    """

    layers: str
    attention: (
        str | None
    )  # gives the attention weights as the last of its outputs; None: it has none
    projections: tuple[str, ...]  # query, key, value; or one map that holds all three
    output: str | None  # O: its output joins the residual stream
    feed_forward: str  # its output joins the residual stream
    norms: tuple[str, str]  # of the attention and of the feed-forward half
    pre_norm: bool = False
    after: tuple[str, str] | None = None  # norms of what each half adds (peri-norm)
    parallel: bool = False  # the feed-forward half reads the state that attention reads
    # Receives the state after attention as its first argument; unless said, the second norm of a
    # pre-norm layer, and else the feed-forward net.
    middle: str = ""
    final_norm: str | None = None
    embedding_norm: str | None = None
    parts: tuple[str, ...] = ("",)
    crossing: str | None = None  # O of the attention to an encoder, where a layer has one
    router: str | None = None  # of a mixture of experts; returns logits, weights, experts
    scale: str = "scaling"  # the attention's own 1/√d_k, by name
    interleaved: bool = False  # one map that holds all three has those of each head together
    unit_gain: bool = False  # norms multiply by 1 + weight


_BERT = Anatomy(
    layers="encoder.layer.*",
    attention="attention.self",
    projections=("attention.self.query", "attention.self.key", "attention.self.value"),
    output="attention.output.dense",
    middle="intermediate",
    feed_forward="output.dense",
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    embedding_norm="embeddings.LayerNorm",
)
_ALBERT = Anatomy(
    layers="encoder.albert_layer_groups.*.albert_layers.*",
    attention="attention",
    projections=("attention.query", "attention.key", "attention.value"),
    output="attention.dense",
    middle="ffn",
    feed_forward="ffn_output",
    norms=("attention.LayerNorm", "full_layer_layer_norm"),
)
_DISTILBERT = Anatomy(
    layers="transformer.layer.*",
    attention="attention",
    projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    output="attention.out_lin",
    feed_forward="ffn",
    norms=("sa_layer_norm", "output_layer_norm"),
    embedding_norm="embeddings.LayerNorm",
)
_GPT2 = Anatomy(
    layers="h.*",
    attention="attn",
    projections=("attn.c_attn",),
    output="attn.c_proj",
    feed_forward="mlp",
    norms=("ln_1", "ln_2"),
    pre_norm=True,
    final_norm="ln_f",
)
_T5 = Anatomy(
    layers="{part}.block.*",
    attention="layer.0.SelfAttention",
    projections=tuple(f"layer.0.SelfAttention.{name}" for name in "qkv"),
    output="layer.0.SelfAttention.o",
    middle="layer.-1",
    feed_forward="layer.-1.DenseReluDense",
    norms=("layer.0.layer_norm", "layer.-1.layer_norm"),
    pre_norm=True,
    final_norm="{part}.final_layer_norm",
    parts=("encoder", "decoder"),
    crossing="layer.1.EncDecAttention.o",
)
_LLAMA = Anatomy(
    layers="layers.*",
    attention="self_attn",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.o_proj",
    feed_forward="mlp",
    norms=("input_layernorm", "post_attention_layernorm"),
    pre_norm=True,
    final_norm="norm",
)
_PERI = replace(
    _LLAMA,
    norms=("input_layernorm", "pre_feedforward_layernorm"),
    after=("post_attention_layernorm", "post_feedforward_layernorm"),
    unit_gain=True,
)
_EXPERTS = replace(_LLAMA, router="mlp.gate")
_PHI3 = replace(_LLAMA, projections=("self_attn.qkv_proj",))
_NEOX = Anatomy(
    layers="layers.*",
    attention="attention",
    projections=("attention.query_key_value",),
    output="attention.dense",
    feed_forward="mlp",
    norms=("input_layernorm", "post_attention_layernorm"),
    pre_norm=True,
    parallel=True,
    final_norm="final_layer_norm",
    interleaved=True,
)
_OPT = Anatomy(
    layers="decoder.layers.*",
    attention="self_attn",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.out_proj",
    feed_forward="fc2",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    pre_norm=True,
    final_norm="decoder.final_layer_norm",
)
# A state-space model: its one sublayer stands where others have the feed-forward net.
_MAMBA = Anatomy(
    layers="layers.*",
    attention=None,
    projections=(),
    output=None,
    feed_forward="mixer",
    norms=("norm", "norm"),
    pre_norm=True,
    final_norm="norm_f",
)

_OWN = Anatomy(
    layers="stack.layers.*",
    attention="attention",
    projections=("attention.query", "attention.key", "attention.value"),
    output="attention.output",
    feed_forward="feed_forward",
    norms=("attention_norm", "feed_forward_norm"),
    scale="beta",
)
_OWN_FIRST = replace(_OWN, pre_norm=True, final_norm="stack.norm")
_OWN_TWO = replace(
    _OWN, layers="{part}.layers.*", parts=("encoder", "decoder"), crossing="cross.output"
)
_OWN_TWO_FIRST = replace(_OWN_TWO, pre_norm=True, final_norm="{part}.norm")

# By the `model_type` of a Hugging Face configuration, or by our own names.
ANATOMIES = (
    dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), _BERT)
    | {"albert": _ALBERT, "distilbert": _DISTILBERT, "gpt2": _GPT2, "t5": _T5}
    | dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "smollm3"), _LLAMA)
    | dict.fromkeys(("gemma2", "gemma3_text"), _PERI)
    | dict.fromkeys(("mixtral", "olmoe"), _EXPERTS)
    | {"phi3": _PHI3, "gpt_neox": _NEOX, "opt": _OPT, "mamba": _MAMBA}
    | {"own decoder": _OWN, "own decoder, norm first": _OWN_FIRST}
    | {"own encoder-decoder": _OWN_TWO, "own encoder-decoder, norm first": _OWN_TWO_FIRST}
)


def _opt(config: Any) -> dict[str, Any]:
    """The 350M model of OPT normalises after its halves, all others before them."""
    if not config.do_layer_norm_before:
        return {"pre_norm": False, "final_norm": None, "middle": "fc1"}
    return {"final_norm": None} if config._remove_final_layer_norm else {}


# What a configuration changes in the map of its architecture.
_VARIANTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "gpt_neox": lambda config: {"parallel": config.use_parallel_residual},
    "opt": _opt,
}


def anatomy_of(architecture: str, part: str = "", config: Any = None) -> Anatomy | None:
    """The map of an architecture, for one part of an encoder–decoder; None where there is none.

    `config` is the model's own, where variants of one architecture differ; None: the usual one.
    """
    known = ANATOMIES.get(architecture)
    if known is None:
        return None
    if part and part not in known.parts:
        offered = ", ".join(filter(None, known.parts)) or "none to choose"
        raise ValueError(
            f"part must be one that {architecture} has ({offered}); got {part!r}: leave it out."
        )
    part = part or known.parts[0]
    if config is not None and architecture in _VARIANTS:
        known = replace(known, **_VARIANTS[architecture](config))
    return replace(
        known,
        layers=known.layers.format(part=part),
        final_norm=known.final_norm and known.final_norm.format(part=part),
        crossing=known.crossing if part == "decoder" else None,
        middle=known.middle or (known.norms[1] if known.pre_norm else known.feed_forward),
    )


def layers_of(model: nn.Module, anatomy: Anatomy) -> list[nn.Module]:
    """The distinct layers of a model, in the order of their names."""
    pattern = re.compile(re.escape(anatomy.layers).replace(r"\*", r"\d+"))
    return [module for name, module in model.named_modules() if pattern.fullmatch(name)]


def part_at(module: nn.Module, path: str | None) -> nn.Module:
    """The module at a dotted path; −1 is the last of a list."""
    assert path is not None, "asked only of an architecture that has the part"
    for name in path.split("."):
        if name == "-1" and isinstance(module, nn.ModuleList):
            module = module[-1]
        else:
            module = module.get_submodule(name)
    return module
