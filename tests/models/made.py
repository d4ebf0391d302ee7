"""Tiny random transformers written as folders, without a download."""

from pathlib import Path

import torch

SIZES = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IDS = [1, 7, 12, 5, 33, 7, 21, 39, 4, 18, 2]
OTHER = [1, 30, 12, 8, 25, 7, 7, 16, 4, 11, 2]

_WIDE = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
_STEEP = {"initializer_range": 0.2}  # weights large enough for attention to be far from uniform
_SHARED = {"num_key_value_heads": 2, **_STEEP}
_GEMMA = {"head_dim": 12, "query_pre_attn_scalar": 12, "sliding_window": 4, **_SHARED}
# By architecture, what differs from three layers of the sizes above.
_SPECIAL = {
    "gpt2": {"n_inner": 48, **_STEEP},
    "t5": {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 3,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    },
    "llama": {"num_key_value_heads": 2},
    "albert": {"embedding_size": 16, "num_hidden_layers": 4, **_STEEP},
    "gpt_neox": _STEEP,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.2},
    "mistral": _SHARED,
    "qwen2": _SHARED,
    "qwen3": {"head_dim": 8, **_SHARED},
    "smollm3": _SHARED,
    "gemma2": {"attn_logit_softcapping": 2.0, **_GEMMA},
    "gemma3_text": _GEMMA,
    "phi3": _SHARED,
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, **_SHARED},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2, **_SHARED},
    "mamba": {"state_size": 8},
}


def config_of(kind: str, **told):
    import transformers

    sizes = {} if kind == "t5" else {"num_hidden_layers": 3, "max_position_embeddings": 64} | _WIDE
    if kind == "mamba":
        sizes = {"num_hidden_layers": 3, "hidden_size": 32}
    made = transformers.AutoConfig.for_model(kind, **(sizes | SIZES | _SPECIAL.get(kind, {})))
    for name, value in told.items():
        setattr(made, name, value)
    return made


def save_tiny(kind: str, folder: Path, seed: int = 0, **told) -> Path:
    """A folder as transformers writes it: config.json and model.safetensors."""
    from transformers import AutoModel

    torch.manual_seed(seed)
    model = AutoModel.from_config(config_of(kind, **told))
    # Norms start as the identity and biases as zero; moved, a wrong one shows.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name.lower() or "ln_" in name or name.endswith("bias"):
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)
    return folder
