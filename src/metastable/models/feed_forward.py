"""A feed-forward net as a random function: overlaps of what it adds, from sizes of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from metastable.models.anatomy import layers_of
from metastable.theory.softmax import gauss

if TYPE_CHECKING:
    from metastable.models.captured import ModelCase

# Names of the matrices of a net below a layer: the gate (or the only one), its partner, the last.
_FORMS = (
    ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    ("mlp.c_fc", None, "mlp.c_proj"),
    ("intermediate.dense", None, "output.dense"),
    ("fc1", None, "fc2"),
    ("ffn.lin1", None, "ffn.lin2"),
    ("mlp.dense_h_to_4h", None, "mlp.dense_4h_to_h"),
    ("ffn", None, "ffn_output"),
)
NODES = 48  # of the Gaussian averages


@dataclass(frozen=True)
class FeedForward:
    """x ↦ W_2 φ(W_1x), or W_2(φ(W_1x)·W_3x) with a gate, by the mean squares of its entries."""

    first: float
    gate: float | None  # of W_3, where φ(W_1x) multiplies another map
    last: float
    width: int
    activation: Callable[[np.ndarray], np.ndarray]

    def overlaps(self, read: Any, dim: int) -> np.ndarray:
        """E⟨f_i,f_j⟩ (n, n) of tokens `read` over random matrices.

        d·m·σ_2²·E[φ(g_i)φ(g_j)], times σ_3²⟨x_i,x_j⟩ with a gate, (g_i, g_j) Gaussian with
        covariance σ_1²⟨x_i,x_j⟩.
        """
        x = np.asarray(read, float)
        gram = x @ x.T
        dual = self._dual(self.first * gram)
        if self.gate is not None:
            dual = dual * self.gate * gram
        return dim * self.width * self.last * dual

    def _dual(self, covariance: np.ndarray) -> np.ndarray:
        """E[φ(g_i)φ(g_j)] by the expansion in Hermite polynomials, one for each size."""
        deviations = np.sqrt(np.diag(covariance))
        nodes, weights = gauss(NODES)
        nodes, weights = np.asarray(nodes), np.asarray(weights)
        weights = weights / weights.sum()
        # φ(σz) = Σ c_k(σ) h_k(z), h_k orthonormal: E[φφ] = Σ c_k(σ_i)c_k(σ_j)ρ^k.
        values = self.activation(deviations[:, None] * nodes)  # (n, nodes)
        basis = [np.ones_like(nodes), nodes]
        for k in range(2, NODES // 2):
            basis.append((nodes * basis[-1] - np.sqrt(k - 1) * basis[-2]) / np.sqrt(k))
        coefficients = (values * weights) @ np.array(basis).T  # (n, terms)
        rho = np.clip(covariance / np.outer(deviations, deviations), -1, 1)
        total = np.zeros_like(rho)
        for k in reversed(range(coefficients.shape[1])):
            total = total * rho + np.outer(coefficients[:, k], coefficients[:, k])
        # What the polynomials miss belongs to the diagonal: E φ² itself is known.
        np.fill_diagonal(total, (values**2) @ weights)
        return total


def feed_forwards(case: ModelCase) -> list[FeedForward] | None:
    """The nets of all layers applied; None where one has a form that is not known here."""
    network = case.stated_network
    anatomy = network.anatomy(case.part)
    assert anatomy is not None
    if anatomy.router is not None:
        return None
    activation = _activation(network.config)
    if activation is None:
        return None
    nets = [_net(layer, activation) for layer in layers_of(network.model, anatomy)]
    if any(net is None for net in nets):
        return None
    return [nets[k % len(nets)] for k in range(case.depth)]  # pyright: ignore[reportReturnType]


def _net(layer: nn.Module, activation: Any) -> FeedForward | None:
    for first, gate, last in _FORMS:
        try:
            maps = [layer.get_submodule(path) if path else None for path in (first, gate, last)]
        except AttributeError:
            continue
        weights = [None if m is None else m.get_parameter("weight").detach() for m in maps]
        if weights[0] is None or weights[2] is None or weights[0].ndim != 2:
            continue
        squares = [None if w is None else float(torch.mean(w.double() ** 2)) for w in weights]
        assert squares[0] is not None and squares[2] is not None
        # GPT-2 keeps its maps transposed, in a class of its own.
        width = weights[0].shape[0 if isinstance(maps[0], nn.Linear) else 1]
        return FeedForward(squares[0], squares[1], squares[2], width, activation)
    return None


def _activation(config: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    name = next(
        (
            getattr(config, key)
            for key in ("hidden_act", "activation_function", "hidden_activation", "activation")
            if isinstance(getattr(config, key, None), str)
        ),
        None,
    )
    if name is None:
        return None
    from transformers.activations import ACT2FN

    act = ACT2FN[name]
    return lambda x: act(torch.as_tensor(np.ascontiguousarray(x), dtype=torch.float64)).numpy()
