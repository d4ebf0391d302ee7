"""Tiny random transformers written as folders, without a download."""

from pathlib import Path

import torch

SIZES = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IDS = [1, 7, 12, 5, 33, 7, 21, 39, 4, 18, 2]


def config_of(kind: str, **told):
    import transformers

    wide = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
    if kind == "gpt2":
        made = transformers.GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=64, **SIZES)
    elif kind == "t5":
        made = transformers.T5Config(
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=3,
            num_decoder_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            **SIZES,
        )
    elif kind == "llama":
        made = transformers.LlamaConfig(
            num_hidden_layers=3, num_key_value_heads=2, max_position_embeddings=64, **wide, **SIZES
        )
    elif kind == "albert":
        made = transformers.AlbertConfig(
            embedding_size=16,
            num_hidden_layers=4,
            max_position_embeddings=64,
            initializer_range=0.2,
            **wide,
            **SIZES,
        )
    else:
        made = transformers.AutoConfig.for_model(
            kind, num_hidden_layers=3, max_position_embeddings=64, **wide, **SIZES
        )
    for name, value in told.items():
        setattr(made, name, value)
    return made


def save_tiny(kind: str, folder: Path, seed: int = 0, **told) -> Path:
    """A folder as transformers writes it: config.json and model.safetensors."""
    from transformers import AutoModel

    torch.manual_seed(seed)
    model = AutoModel.from_config(config_of(kind, **told))
    # Norms start as the identity; moved, a wrong norm shows.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name.lower() or "ln_" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)
    return folder
