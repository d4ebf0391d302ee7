"""Weights of a transformer as the matrices of the theory: Q, K, V, O of every head, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from metastable.models.anatomy import Anatomy, layers_of, part_at
from metastable.models.folder import load
from metastable.theory.fits import MatrixFit, fit_matrix
from metastable.theory.limits import LimitGeometry, limit_geometry


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head: token i sees x_j with logits s⟨Qx_i,Kx_j⟩ and is told Σ_j P_ij OVx_j.

    - `query`, `key`, `value`: (k, d); `output`: (d, k). Biases are left out. Where positions turn
      queries and keys (rotary), Q and K hold between tokens at one place.
    - `scale`: s, 1/√k for most.
    - `radius`: length of the tokens it sees, √Σ(g² + b²) of the norm they come from.
    """

    layer: int
    head: int
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    scale: float
    radius: float

    @property
    def value_output(self) -> np.ndarray:
        """OV (d, d): the V of the theory, of rank k."""
        return self.output @ self.value

    @cached_property
    def value_eigenvalues(self) -> np.ndarray:
        """The k eigenvalues of OV that need not vanish, largest modulus first.

        Those of OV and of the small VO agree but for zeros.
        """
        values = np.linalg.eigvals(self.value @ self.output)
        return values[np.argsort(-np.abs(values), kind="stable")]

    @cached_property
    def logit_eigenvalues(self) -> np.ndarray:
        """Eigenvalues of B = s·sym(QᵀK) that need not vanish (2k or d of them), largest first.

        B = (s/2) MᵀJM with M = [Q; K] and J the swap of the two, so with Mᵀ = UR they are those
        of (s/2) RJRᵀ.
        """
        k, d = self.query.shape
        stacked = np.concatenate([self.query, self.key]).T  # (d, 2k)
        R = np.linalg.qr(stacked, mode="r") if 2 * k < d else stacked
        swapped = np.roll(R, k, axis=1)
        return np.linalg.eigvalsh(self.scale / 2 * (R @ swapped.T))[::-1]

    @property
    def beta(self) -> float:
        """Effective inverse temperature r²‖B‖_F/√d, r the radius: β itself where r²B = βI.

        Derived here; with r = √d it is the √d‖B‖_F of the notebook behind arXiv:2312.10794.
        """
        size = np.sqrt(np.sum(self.logit_eigenvalues**2))
        return float(self.radius**2 * size / np.sqrt(self.query.shape[1]))

    @property
    def limit(self) -> LimitGeometry:
        """Which limit-geometry theorem covers this head alone, without norms: see `limit_geometry`.

        Asked on the range of O, where all motion happens.
        """
        U, _ = np.linalg.qr(self.output)
        V = U.T @ self.output @ (self.value @ U)
        return limit_geometry(V, self.query @ U, self.key @ U)

    def to_row(self) -> dict[str, Any]:
        """Numbers for a table."""
        top, logits = self.value_eigenvalues[0], self.logit_eigenvalues
        limit = self.limit
        return {
            "layer": self.layer,
            "head": self.head,
            "β": self.beta,
            "top eigenvalue of OV": f"{top.real:.3g}{f'{top.imag:+.3g}i' if top.imag else ''}",
            "its sign": "complex" if top.imag else "+" if top.real > 0 else "−",
            "trace of OV": float(np.sum(self.value_eigenvalues).real),
            "B largest": float(logits[0]),
            "B smallest": float(logits[-1]),
            "limit": limit.kind or f"none proved: {limit.reason}",
        }


def head_matrices(source: Any, part: str = "") -> list[Head]:
    """Every head of every distinct layer, in float64; a tied model has one layer."""
    network = load(source)
    anatomy = network.anatomy(part, need="reading its matrices")
    assert anatomy is not None
    heads, shared = network.heads, network.heads // network.key_heads
    made = []
    door = anatomy.embedding_norm
    before = None if door is None else part_at(network.model, door)
    for number, layer in enumerate(layers_of(network.model, anatomy)):
        query, key, value, output = _projections(layer, anatomy)
        q = np.split(query, heads)
        k, v = (np.split(matrix, network.key_heads) for matrix in (key, value))
        o = np.split(output, heads, axis=1)
        scale = float(getattr(part_at(layer, anatomy.attention), anatomy.scale))
        last = part_at(layer, anatomy.norms[1])
        if anatomy.pre_norm:
            before = part_at(layer, anatomy.norms[0])
        elif before is None:  # tokens that come from a layer's own norm, as in every tied one
            before = last
        radius = _radius(before)
        made += [
            Head(number, h, q[h], k[h // shared], v[h // shared], o[h], scale, radius)
            for h in range(heads)
        ]
        before = last
    return made


def fit_weights(source: Any, part: str = "") -> list[tuple[int, str, MatrixFit]]:
    """Spectra of each layer's W_Q, W_K, W_V, W_O beside Marchenko–Pastur, of sym(W_QᵀW_K) beside
    Wigner: (layer, name, fit). What stands out of the law of a random matrix was learned."""
    network = load(source)
    anatomy = network.anatomy(part, need="reading its matrices")
    assert anatomy is not None
    fits = []
    for number, layer in enumerate(layers_of(network.model, anatomy)):
        matrices = dict(zip("QKVO", _projections(layer, anatomy), strict=True))
        if matrices["Q"].shape == matrices["K"].shape:
            product = matrices["Q"].T @ matrices["K"]
            matrices["sym(QᵀK)"] = (product + product.T) / 2
        fits += [(number, name, fit_matrix(matrix)) for name, matrix in matrices.items()]
    return fits


def _projections(layer: nn.Module, anatomy: Anatomy) -> list[np.ndarray]:
    """W_Q, W_K, W_V of shape (heads·k, d) and W_O (d, heads·k)."""
    matrices = [_matrix(part_at(layer, path)) for path in anatomy.projections]
    if len(matrices) == 1:
        matrices = np.split(matrices[0], 3)
    return [*matrices, _matrix(part_at(layer, anatomy.output))]


def _matrix(module: nn.Module) -> np.ndarray:
    weight = module.get_parameter("weight").detach().numpy().astype(float)
    # GPT-2 keeps its maps transposed, in a class of its own.
    return weight if isinstance(module, nn.Linear) else weight.T


def _radius(norm: nn.Module) -> float:
    gain = norm.get_parameter("weight").detach().numpy().astype(float)
    bias = getattr(norm, "bias", None)
    shift = 0.0 if bias is None else bias.detach().numpy().astype(float)
    return float(np.sqrt(np.sum(gain**2 + shift**2)))
