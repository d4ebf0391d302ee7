"""Causal language models of Hugging Face folders, behind the same four verbs as our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from metastable.models.folder import _complaint, _load_tokenizer, _read_config, quiet
from metastable.models.own.language import LanguageModel


class Hugging(nn.Module, LanguageModel):
    """A causal model of transformers; its own positions are added to whatever vectors come."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.table = model.get_input_embeddings()
        self.vocabulary, self.width = self.table.weight.shape
        self.places = getattr(model.config, "max_position_embeddings", None)

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    def forward_embeddings(self, embeddings: Tensor) -> Tensor:
        if self.places and embeddings.shape[1] > self.places:
            raise ValueError(
                f"prompt and item must fit the model's {self.places} places; they take "
                f"{embeddings.shape[1]}: shorten the items or the prompt."
            )
        return self.model(inputs_embeds=embeddings, use_cache=False).logits.log_softmax(-1)


def load_causal(folder: str | Path) -> tuple[Hugging, Any]:
    """The model and the tokeniser of a folder; nothing is downloaded and no code of it is run."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"model folder must exist; nothing at {folder}: check the path.")
    _read_config(folder)
    from transformers import AutoModelForCausalLM

    with quiet():
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                weights_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
        except Exception as error:  # of safetensors, pickle, torch or transformers: all bad files
            raise ValueError(_complaint(folder, error)) from None
    model, told = loaded
    if told["missing_keys"]:
        raise ValueError(
            f"weights in {folder} must be those of a causal language model; "
            f"{len(told['missing_keys'])} tensors are missing, such as "
            f"{sorted(told['missing_keys'])[0]}: get the whole folder again."
        )
    tokenizer = _load_tokenizer(folder)
    if tokenizer is None:
        raise ValueError(f"model folder must hold a tokeniser; none in {folder}: add its files.")
    return Hugging(model).eval(), tokenizer
