"""A transformer ready to be looked at: model, tokeniser, sizes, and how to run it once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from metastable.core import checks
from metastable.models.anatomy import Anatomy, anatomy_of
from metastable.models.own.transformer import DecoderOnly, EncoderDecoder


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A model in evaluation mode, with what is needed to feed it and to find its parts."""

    model: nn.Module
    architecture: str
    name: str
    tokenizer: Any = None  # of a model that takes texts, and not ids alone
    fresh: bool = False  # weights as they are drawn before training

    def __repr__(self) -> str:
        sizes = {"heads": getattr(self, "heads", 0), "dimensions": getattr(self, "width", 0)}
        told = [f"{size} {name}" for name, size in sizes.items() if size]
        weights = sum(weight.numel() for weight in self.model.parameters())
        first = next(self.model.parameters())
        kind = f"{str(first.dtype).removeprefix('torch.')} on {first.device}"
        told = ", ".join([self.architecture, *told, f"{weights / 1e6:.3g} M weights", kind])
        return f"Network({self.name}: {told}{'' if self.tokenizer else '; no tokenizer'})"

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def own(self) -> bool:
        """Whether the model is one of ours, not one of transformers."""
        return isinstance(self.model, DecoderOnly | EncoderDecoder)

    @property
    def heads(self) -> int:
        """Heads of queries; 0 for a model without attention."""
        return int(
            self.config.heads if self.own else getattr(self.config, "num_attention_heads", 0)
        )

    @property
    def key_heads(self) -> int:
        """Heads of keys and values; fewer than `heads` where several queries share one."""
        return int(getattr(self.config, "num_key_value_heads", None) or self.heads)

    @property
    def width(self) -> int:
        return int(self.config.width if self.own else self.config.hidden_size)

    @property
    def vocabulary(self) -> int:
        return int(self.config.vocabulary if self.own else self.config.vocab_size)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def positions(self) -> int | None:
        """The most tokens the model has positions for; None where any number will do."""
        if self.own or self.architecture == "t5":
            return None
        limit = getattr(self.config, "max_position_embeddings", None)
        if limit is not None and self.architecture in ("roberta", "xlm-roberta", "camembert"):
            limit -= self.config.pad_token_id + 1  # their positions start after the padding's
        return limit

    def anatomy(self, part: str = "", need: str = "", attention: bool = False) -> Anatomy | None:
        """The map of its layers. With `need`, what asks for it: refuse where there is none, or,
        with `attention`, where it has no attention."""
        known = anatomy_of(self.architecture, part, self.config)
        if known is None and need:
            raise ValueError(
                f"{need} needs an architecture whose parts are known; got {self.architecture!r}: "
                "only its states can be captured (known: metastable.models.anatomy)."
            )
        if attention and known is not None and known.attention is None:
            raise ValueError(
                f"{need} needs an architecture with attention; got {self.architecture!r}, which "
                "has none: take another model."
            )
        return known

    @torch.no_grad()
    def run(self, rows: Sequence[Sequence[int]], part: str = "", **asked: Any) -> Any:
        """One forward pass over sequences of equal length; what it does is seen by hooks.

        A decoder that reads an encoder is given the same tokens, one place later, after its start
        token: it writes what the encoder reads.
        """
        ids = torch.tensor([list(row) for row in rows], device=self.device)
        if isinstance(self.model, DecoderOnly):
            return self.model.forward_embeddings(self.model.embed(ids), **asked)
        if isinstance(self.model, EncoderDecoder):
            if part != "decoder":
                return self.model.encode(ids, **asked)
            later = torch.cat([torch.zeros_like(ids[:, :1]), ids[:, :-1]], 1)
            decoder = self.model.given(ids)
            return decoder.forward_embeddings(decoder.embed(later), **asked)
        if getattr(self.config, "is_encoder_decoder", False):
            start = torch.full_like(ids[:, :1], self.config.decoder_start_token_id or 0)
            asked["decoder_input_ids"] = torch.cat([start, ids[:, :-1]], 1)
        return self.model(input_ids=ids, use_cache=False, **asked)

    def untrained(self, seed: int = 0) -> Network:
        """The same shape with the weights that training would have started from."""
        checks.seed(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            fresh = type(self.model)(copy.deepcopy(self.config))
        return replace(self, model=self._alike(fresh), name=f"{self.name}, untrained", fresh=True)

    def with_heads(self, heads: int) -> Network:
        """The same matrices cut into another number of heads: a different dynamical system.

        One head of full width is what the notebook behind arXiv:2312.10794's figure runs at depth
        48. Its logits are divided by √(d/heads), as a model made so would.
        """
        checks.integer("heads", heads, 1)
        if heads == self.heads:
            return self
        config = copy.deepcopy(self.config)
        known = self.anatomy()
        fixed = not self.heads or (known is not None and known.interleaved)
        if self.own or fixed or self.width % heads or self.key_heads != self.heads:
            raise ValueError(
                f"heads must divide the width {self.width} of a model whose heads all have their "
                f"own keys, in maps that are not interleaved, from a folder; got {heads} for "
                f"{self.architecture}."
            )
        config.num_attention_heads = heads
        again = self._alike(type(self.model)(config))
        try:
            again.load_state_dict(self.model.state_dict())
        except RuntimeError:
            raise ValueError(
                f"heads must keep the shapes of all matrices; {heads} does not for "
                f"{self.architecture}, which sets the size of a head apart."
            ) from None
        return replace(self, model=again)

    def _alike(self, model: nn.Module) -> nn.Module:
        """A model on the device and in the precision of this one, in evaluation mode.

        Buffers stay as they were made: rotary frequencies do not bear half precision.
        """
        like = next(self.model.parameters())
        for weight in model.parameters():
            weight.data = weight.data.to(like.dtype)
        return model.to(like.device).eval()


def wrap(model: nn.Module, name: str | None = None, tokenizer: Any = None) -> Network:
    """A network around the model itself, ours or transformers' (without its head), set to eval."""
    if isinstance(model, DecoderOnly | EncoderDecoder):
        kind = "decoder" if isinstance(model, DecoderOnly) else "encoder-decoder"
        norm = ", norm first" if model.config.norm_first else ""
        return Network(model.eval(), f"own {kind}{norm}", name or f"own {kind}", tokenizer)
    config = getattr(model, "config", None)
    architecture = getattr(config, "model_type", None)
    if not isinstance(model, nn.Module) or architecture is None:
        raise ValueError(
            "model must be a folder, a .gguf file, a model of transformers or one of "
            f"metastable.models; got {type(model).__name__}."
        )
    base = getattr(model, "base_model", model)
    choose: Any = getattr(base, "set_attn_implementation", None)
    if choose is not None:
        choose("eager")  # the only one that hands out attention weights
    return Network(base.eval(), architecture, name or type(model).__name__, tokenizer)
