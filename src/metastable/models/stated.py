"""A layer as its weights state it, computed in NumPy apart from the model's own code.

What a layer should do, by the formulas of the theory with its own Q, K, V, O, norms and positions:
the witness against which a captured run is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from metastable.models.anatomy import Anatomy, layers_of, part_at
from metastable.models.network import Network
from metastable.models.weights import Head, head_matrices

# Every token of these sees every other; in all others it sees those before it.
_MUTUAL = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "albert", "distilbert")


@dataclass(frozen=True, eq=False)
class Norm:
    """N(x) = g·(x − m)/√(s² + ε) + b, over the last axis; m the mean, or 0 (root mean square)."""

    gain: np.ndarray | float
    shift: np.ndarray | float
    epsilon: float
    centred: bool

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        if self.centred:
            x = x - x.mean(axis=-1, keepdims=True)
        size = np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + self.epsilon)
        return self.gain * x / size + self.shift


@dataclass(frozen=True, eq=False)
class StatedLayer:
    """Attention and norms of one layer, from its weights alone.

    Logits are s⟨R_iq_i, R_jk_j⟩ + bias, q = Qx + b_q, with R the rotation of a place (rotary) and
    bias a learned function of the distance (T5), squashed to c·tanh(·/c) where the model caps
    them; a token sees those before it (`causal`), and of these the last `window`.
    """

    heads: Sequence[Head]
    first: Norm | None  # before attention; of a norm-last layer, after it
    second: Norm | None  # the same of the feed-forward half
    causal: bool
    frequencies: np.ndarray | None = None  # of the rotary turn of one place, (r/2,)
    turn_scale: float = 1.0
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    joint_norms: bool = False  # those two are over all heads together
    distance: Any = None  # n ↦ bias (heads, n, n)
    cap: float | None = None
    window: int | None = None
    key_heads: int = 1

    def logits(self, seen: np.ndarray) -> np.ndarray:
        """(heads, n, n) of what attention reads; −∞ where a token does not see another."""
        x = np.asarray(seen, float)
        ask = np.stack([x @ h.query.T + h.query_bias for h in self.heads])
        tell = np.stack([x @ h.key.T + h.key_bias for h in self.heads])
        if self.query_norm is not None and self.key_norm is not None:
            shared = len(self.heads) // self.key_heads
            ask = self._normed(ask, self.query_norm)
            tell = np.repeat(self._normed(tell[::shared], self.key_norm), shared, axis=0)
        if self.frequencies is not None:
            ask, tell = self._turned(ask), self._turned(tell)
        scale = np.array([h.scale for h in self.heads])[:, None, None]
        found = scale * (ask @ tell.transpose(0, 2, 1))
        if self.distance is not None:
            found = found + self.distance(len(x))
        if self.cap is not None:
            found = self.cap * np.tanh(found / self.cap)
        return np.where(self.sees(len(x)), found, -np.inf)

    def maps(self, seen: np.ndarray) -> np.ndarray:
        """Attention weights (heads, n, n): softmax of the logits over the tokens seen."""
        logits = self.logits(seen)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    def values(self, seen: np.ndarray) -> np.ndarray:
        """Vx + v of every head, (heads, n, k)."""
        return np.stack([np.asarray(seen, float) @ h.value.T + h.value_bias for h in self.heads])

    def attend(self, seen: np.ndarray, maps: np.ndarray | None = None) -> np.ndarray:
        """o + Σ_h O_h Σ_j P^h_ij (V_hx_j + v_h): what attention says, under given weights."""
        maps = self.maps(seen) if maps is None else maps
        told = np.asarray(maps, float) @ self.values(seen)
        said = sum(own @ head.output.T for own, head in zip(told, self.heads, strict=True))
        return said + self.heads[0].output_bias

    def sees(self, tokens: int) -> np.ndarray:
        """(n, n): whether token i sees token j."""
        ago = np.arange(tokens)[:, None] - np.arange(tokens)
        seen = ago >= 0 if self.causal else np.ones_like(ago, bool)
        return seen if self.window is None else seen & (ago < self.window)

    def _normed(self, x: np.ndarray, norm: Norm) -> np.ndarray:
        if not self.joint_norms:
            return norm(x)
        heads, tokens, k = x.shape
        flat = norm(x.transpose(1, 0, 2).reshape(tokens, heads * k))
        return flat.reshape(tokens, heads, k).transpose(1, 0, 2)

    def _turned(self, x: np.ndarray) -> np.ndarray:
        assert self.frequencies is not None
        half = len(self.frequencies)
        angle = np.arange(x.shape[1])[:, None] * self.frequencies
        c, s = self.turn_scale * np.cos(angle), self.turn_scale * np.sin(angle)
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1)


def stated_layers(network: Network, part: str = "") -> list[StatedLayer]:
    """Every distinct layer of a network; a tied one has one."""
    anatomy = network.anatomy(part, need="reading its matrices", attention=True)
    assert anatomy is not None
    layers = layers_of(network.model, anatomy)
    heads = np.array_split(np.array(head_matrices(network, part), dtype=object), len(layers))
    made = zip(layers, heads, strict=True)
    return [_state(network, anatomy, part, layer, list(own)) for layer, own in made]


def norm_of(module: nn.Module, unit_gain: bool = False) -> Norm | None:
    """A norm of the model as numbers; None where it is the identity."""
    if isinstance(module, nn.Identity):
        return None
    read = lambda name: getattr(module, name, None)
    weight, bias = read("weight"), read("bias")
    numbers = lambda tensor: tensor.detach().double().cpu().numpy()
    gain = 1.0 if weight is None else numbers(weight) + unit_gain
    epsilon = read("variance_epsilon") if read("eps") is None else read("eps")
    shift = 0.0 if bias is None else numbers(bias)
    return Norm(gain, shift, float(epsilon or 0.0), isinstance(module, nn.LayerNorm))


def is_causal(network: Network, part: str = "") -> bool:
    """Whether a token sees only those before it."""
    if network.architecture in ("t5", "own encoder-decoder", "own encoder-decoder, norm first"):
        return part == "decoder"
    return network.architecture not in _MUTUAL


def _state(
    network: Network, anatomy: Anatomy, part: str, layer: nn.Module, heads: list[Head]
) -> StatedLayer:
    attention: Any = part_at(layer, anatomy.attention)
    config = network.config
    norms = [norm_of(part_at(layer, path), anatomy.unit_gain) for path in anatomy.norms]
    more: dict[str, Any] = {"cap": getattr(attention, "attn_logit_softcapping", None)}
    own_window = hasattr(attention, "sliding_window")
    window = (attention if own_window else config).__dict__.get("sliding_window")
    turning = getattr(network.model, "rotary_emb", None)
    if turning is not None and getattr(attention, "use_rope", True):
        kind = getattr(attention, "layer_type", None)
        prefix = f"{kind}_" if hasattr(turning, f"{kind}_inv_freq") else ""
        frequencies = getattr(turning, f"{prefix}inv_freq").detach().double().cpu().numpy()
        more["frequencies"] = frequencies
        more["turn_scale"] = float(getattr(turning, f"{prefix}attention_scaling"))
    if hasattr(attention, "q_norm"):
        for name, norm in (("query_norm", "q_norm"), ("key_norm", "k_norm")):
            more[name] = norm_of(getattr(attention, norm), anatomy.unit_gain)
        more["joint_norms"] = len(np.ravel(more["query_norm"].gain)) != heads[0].query.shape[0]
    if network.architecture == "t5":
        first: Any = part_at(layers_of(network.model, anatomy)[0], anatomy.attention)
        more["distance"] = lambda n: _distance_bias(first, n)
    causal = is_causal(network, part)
    return StatedLayer(
        heads, norms[0], norms[1], causal, window=window, key_heads=network.key_heads, **more
    )


@torch.no_grad()
def _distance_bias(attention: Any, tokens: int) -> np.ndarray:
    """The learned bias of a distance (T5), which all layers take from the first."""
    return attention.compute_bias(tokens, tokens)[0].double().cpu().numpy()
