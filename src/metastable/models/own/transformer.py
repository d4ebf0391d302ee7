"""The transformer of "Attention is all you need", small enough to read in one sitting.

Vaswani et al., arXiv:1706.03762: an encoder of N = 6 layers reads the source, a decoder of N layers
writes the target, each layer h = 8 heads of size d/h and a feed-forward net, each sub-layer inside
a residual connection with a normalisation. Variants: the decoder alone (a language model),
normalisation before the sub-layer instead of after the sum, and tied layers (one layer applied N
times, as in ALBERT: then depth is the time of an autonomous system, and can go on past N).

Shapes: n places of the stream, m places it looks at, d = width, h = heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from metastable.core import checks
from metastable.models.own.language import LanguageModel, check_ids, seeded


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes and variants; the defaults are the paper's base model, without dropout."""

    vocabulary: int
    width: int = 512  # d
    heads: int = 8  # h; each has d_k = d_v = d/h
    layers: int = 6  # N
    hidden: int = 2048  # of the feed-forward net
    norm_first: bool = False  # x + f(norm(x)) instead of norm(x + f(x))
    tied: bool = False  # one layer applied N times
    dropout: float = 0.0  # of each sub-layer's output and of the embeddings
    padding: int | None = None  # an id of the source that nobody looks at

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "heads", "layers", "hidden"):
            checks.integer(name, getattr(self, name), 1)
        if self.width % self.heads or self.width % 2:
            raise ValueError(
                f"width must be even and a multiple of heads ({self.heads}); got {self.width}."
            )
        if not 0.0 <= checks.real("dropout", self.dropout) < 1.0:
            raise ValueError(f"dropout must lie in [0, 1); got {self.dropout}.")
        if self.padding not in (None, *range(self.vocabulary)):
            raise ValueError(f"padding must be an id below {self.vocabulary}; got {self.padding}.")


@dataclass
class Trace:
    """Recorder of what a stack of N layers goes through; pass one in to have it filled."""

    states: list[Tensor] = field(default_factory=list)  # N + 1 of (rows, n, d), embeddings first
    middles: list[Tensor] = field(default_factory=list)  # N states after self-attention
    maps: list[Tensor] = field(default_factory=list)  # N of (rows, h, n, n), rows sum to 1
    cross_maps: list[Tensor] = field(default_factory=list)  # N of (rows, h, n, m)
    final: Tensor | None = None  # the last state, after the last norm if there is one


def sinusoids(places: int, width: int) -> Tensor:
    """Positions as vectors (places, width): sin(t ω_k) and cos(t ω_k), ω_k = 10000^(−2k/d).

    Source: arXiv:1706.03762, §3.5. Any number of places will do.
    """
    t = torch.arange(places, dtype=torch.float64)
    ω = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = t[:, None] * ω
    return torch.stack([angles.sin(), angles.cos()], -1).reshape(places, width)


class Attention(nn.Module):
    """Concat(head_1 … head_h) W^O with head_i = softmax(β Q_i K_iᵀ) V_i and β = 1/√d_k."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.beta = (width // heads) ** -0.5
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,  # (rows, n, d): who looks
        y: Tensor,  # (rows, m, d): what is looked at
        mask: Tensor | None = None,  # broadcasts to (rows, h, n, m); True where looking is allowed
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        q, k, v = (self._split(w) for w in (self.query(x), self.key(y), self.value(y)))
        logits = self.beta * (q @ k.transpose(-2, -1))  # (rows, h, n, m)
        if mask is not None:
            logits = logits.masked_fill(~mask, -math.inf)
        a = logits.softmax(-1)
        if maps is not None:
            maps.append(a)
        return self.output((a @ v).transpose(1, 2).flatten(2))  # (rows, n, d)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (rows, h, n, d/h)


class Layer(nn.Module):
    """Self-attention, attention to the encoder's memory (in a decoder of two), feed-forward."""

    def __init__(self, config: TransformerConfig, cross: bool):
        super().__init__()
        d = config.width
        self.norm_first = config.norm_first
        self.attention, self.attention_norm = Attention(d, config.heads), nn.LayerNorm(d)
        self.cross = Attention(d, config.heads) if cross else None
        self.cross_norm = nn.LayerNorm(d) if cross else nn.Identity()
        self.feed_forward = nn.Sequential(
            nn.Linear(d, config.hidden), nn.ReLU(), nn.Linear(config.hidden, d)
        )
        self.feed_forward_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        trace: Trace | None,
    ) -> Tensor:
        maps = None if trace is None else trace.maps
        cross_maps = None if trace is None else trace.cross_maps
        x = self._add(x, self.attention_norm, lambda z: self.attention(z, z, mask, maps))
        if trace is not None:
            trace.middles.append(x)
        cross = self.cross
        if cross is not None and memory is not None:
            x = self._add(x, self.cross_norm, lambda z: cross(z, memory, memory_mask, cross_maps))
        return self._add(x, self.feed_forward_norm, self.feed_forward)

    def _add(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))


class Stack(nn.Module):
    """Positions, then N layers: x ↦ f_N(… f_1(x + positions))."""

    def __init__(self, config: TransformerConfig, cross: bool = False):
        super().__init__()
        self.depth = config.layers
        self.layers = nn.ModuleList(
            Layer(config, cross) for _ in range(1 if config.tied else config.layers)
        )
        # Without it the residual stream of a pre-norm stack would leave unnormalised.
        self.norm = nn.LayerNorm(config.width) if config.norm_first else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,  # (rows, n, d)
        mask: Tensor | None = None,
        memory: Tensor | None = None,  # (rows, m, d)
        memory_mask: Tensor | None = None,
        depth: int | None = None,  # past N the layers come round again; tied, this is natural
        trace: Trace | None = None,
    ) -> Tensor:
        x = self.dropout(x + sinusoids(x.shape[1], x.shape[2]).to(x))
        for l in range(self.depth if depth is None else depth):
            if trace is not None:
                trace.states.append(x)
            x = self.layers[l % len(self.layers)](x, mask, memory, memory_mask, trace)
        final = self.norm(x)
        if trace is not None:
            trace.states.append(x)
            trace.final = final
        return final


def causal(places: int, device: torch.device) -> Tensor:
    """(n, n), True where j ≤ i: no place looks ahead."""
    return torch.ones(places, places, dtype=torch.bool, device=device).tril()


class _Vocabulary(nn.Module):
    """Ids to vectors of unit variance per axis, and back to log-probabilities."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config, self.vocabulary, self.width = config, config.vocabulary, config.width
        self.table = nn.Embedding(config.vocabulary, config.width)
        self.unembed = nn.Linear(config.width, config.vocabulary)

    def start(self) -> None:
        """Initial weights: Glorot's for matrices, rows of the table of norm about 1."""
        for name, w in self.named_parameters():
            if name == "table.weight":
                nn.init.normal_(w, std=self.width**-0.5)
            elif w.ndim == 2:
                nn.init.xavier_uniform_(w)

    def embed(self, ids: Tensor) -> Tensor:
        return math.sqrt(self.width) * self.table(ids)

    def read(self, x: Tensor) -> Tensor:
        return self.unembed(x).log_softmax(-1)


class DecoderOnly(_Vocabulary, LanguageModel):
    """A language model: one causal stack.

    >>> model = DecoderOnly(TransformerConfig(vocabulary=5, width=16, layers=2, hidden=32))
    >>> model.log_probs(torch.tensor([[0, 1, 2, 3]])).shape
    torch.Size([1, 3])
    """

    def __init__(self, config: TransformerConfig, seed: int = 0):
        with seeded(seed):
            super().__init__(config)
            self.stack = Stack(config)
            self.start()

    def forward_embeddings(
        self, embeddings: Tensor, depth: int | None = None, trace: Trace | None = None
    ) -> Tensor:
        mask = causal(embeddings.shape[1], embeddings.device)
        return self.read(self.stack(embeddings, mask, depth=depth, trace=trace))


class EncoderDecoder(_Vocabulary):
    """A law of target sequences given a source; `given(source)` is the language model."""

    def __init__(self, config: TransformerConfig, seed: int = 0):
        with seeded(seed):
            super().__init__(config)
            self.encoder, self.decoder = Stack(config), Stack(config, cross=True)
            self.start()

    def encode(
        self, source: Tensor, depth: int | None = None, trace: Trace | None = None
    ) -> Tensor:
        """The memory (rows, m, d) of a source (rows, m)."""
        source = check_ids("source", source, self.vocabulary, least=1)
        return self.encoder(self.embed(source), self.seen(source), depth=depth, trace=trace)

    def seen(self, source: Tensor) -> Tensor | None:
        """Which places of the source may be looked at: all but padding."""
        padding = self.config.padding
        return None if padding is None else (source != padding)[:, None, None, :]

    def given(self, source: Tensor) -> Conditional:
        return Conditional(self, self.encode(source), self.seen(source))


class Conditional(LanguageModel):
    """The decoder, looking at one memory; rows may come k times over, as beams do."""

    def __init__(self, model: EncoderDecoder, memory: Tensor, mask: Tensor | None):
        self.model, self.memory, self.mask = model, memory, mask
        self.vocabulary, self.width = model.vocabulary, model.width

    def embed(self, ids: Tensor) -> Tensor:
        return self.model.embed(ids)

    def forward_embeddings(
        self, embeddings: Tensor, depth: int | None = None, trace: Trace | None = None
    ) -> Tensor:
        times, odd = divmod(len(embeddings), len(self.memory))
        if odd or not times:
            raise ValueError(
                f"rows must be a multiple of the source's {len(self.memory)}; "
                f"got {len(embeddings)}."
            )
        memory = self.memory.repeat_interleave(times, 0)
        visible = None if self.mask is None else self.mask.repeat_interleave(times, 0)
        mask = causal(embeddings.shape[1], embeddings.device)
        x = self.model.decoder(embeddings, mask, memory, visible, depth=depth, trace=trace)
        return self.model.read(x)
