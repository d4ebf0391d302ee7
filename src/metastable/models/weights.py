"""Weights of a transformer as the matrices of the theory: Q, K, V, O of every head, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor, nn

from metastable.models.anatomy import Anatomy, layers_of, part_at
from metastable.models.folder import load
from metastable.models.network import Network
from metastable.theory.fits import MatrixFit, fit_matrix
from metastable.theory.limits import LimitGeometry, limit_geometry


def _no_bias() -> np.ndarray:
    return np.zeros(1)


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head: token i sees x_j with logits s⟨Qx_i,Kx_j⟩ and is told Σ_j P_ij OVx_j.

    With biases the logits are s⟨Qx_i + q, Kx_j + k⟩, and all heads of a layer together say
    o + Σ_h O_h Σ_j P^h_ij (V_h x_j + v_h): attention as the model computes it, where positions do
    not enter the logits.

    - `query`, `key`, `value`: (k, d); `output`: (d, k). Where positions turn queries and keys
      (rotary), Q and K hold between tokens at one place; where a norm of their own follows (Qwen 3,
      Gemma 3, OLMoE), they are the maps before it.
    - `scale`: s, 1/√k for most.
    - `radius`: length of the tokens it sees, √Σ(g² + b²) of the norm they come from.
    - `query_bias`, `key_bias`, `value_bias`: q, k, v of shape (k,), zero where there are none;
      `output_bias`: o (d,) of the layer, the same for each of its heads and added once. None of
      the quantities below uses them.
    """

    layer: int
    head: int
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    scale: float
    radius: float
    query_bias: np.ndarray = field(default_factory=_no_bias)
    key_bias: np.ndarray = field(default_factory=_no_bias)
    value_bias: np.ndarray = field(default_factory=_no_bias)
    output_bias: np.ndarray = field(default_factory=_no_bias)

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
        KQ = self.key @ self.query.T
        squares = np.sum((self.query @ self.query.T) * (self.key @ self.key.T)) + np.sum(KQ * KQ.T)
        size = self.scale * np.sqrt(max(float(squares), 0.0) / 2)  # ‖B‖_F, without forming B
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
    anatomy = network.anatomy(part, need="reading its matrices", attention=True)
    assert anatomy is not None
    shared = network.heads // network.key_heads
    made = []
    door = anatomy.embedding_norm
    before = None if door is None else part_at(network.model, door)
    for number, layer in enumerate(layers_of(network.model, anatomy)):
        (Q, q), (K, k), (V, v), (O, o) = _projections(layer, anatomy, network)
        scale = float(getattr(part_at(layer, anatomy.attention), anatomy.scale))
        last = part_at(layer, anatomy.norms[1])
        if anatomy.pre_norm:
            before = part_at(layer, anatomy.norms[0])
        elif before is None:  # tokens that come from a layer's own norm, as in every tied one
            before = last
        radius = _radius(before, anatomy, network)
        Q, q = (np.split(rows, network.heads) for rows in (Q, q))
        K, k, V, v = (np.split(rows, network.key_heads) for rows in (K, k, V, v))
        O = np.split(O, network.heads, axis=1)
        for h in range(network.heads):
            g = h // shared
            matrices, biases = (Q[h], K[g], V[g], O[h]), (q[h], k[g], v[g], o)
            made.append(Head(number, h, *matrices, scale, radius, *biases))
        before = last
    return made


def fit_weights(
    source: Any, part: str = "", most: int | None = None
) -> list[tuple[int, str, MatrixFit]]:
    """Spectra of each layer's W_Q, W_K, W_V, W_O beside Marchenko–Pastur, of sym(W_QᵀW_K) beside
    Wigner: (layer, name, fit). What stands out of the law of a random matrix was learned. `most` of
    them, in their order, where not all are wanted."""
    network = load(source)
    anatomy = network.anatomy(part, need="reading its matrices", attention=True)
    assert anatomy is not None
    fits = []
    for number, layer in enumerate(layers_of(network.model, anatomy)):
        maps = _projections(layer, anatomy, network)
        matrices = {name: matrix for name, (matrix, _) in zip("QKVO", maps, strict=True)}
        if matrices["Q"].shape == matrices["K"].shape:
            product = matrices["Q"].T @ matrices["K"]
            matrices["sym(QᵀK)"] = (product + product.T) / 2
        fits += [(number, name, fit_matrix(matrix)) for name, matrix in matrices.items()]
        if most is not None and len(fits) >= most:
            return fits[:most]
    return fits


def _projections(
    layer: nn.Module, anatomy: Anatomy, network: Network
) -> list[tuple[np.ndarray, np.ndarray]]:
    """W_Q, W_K, W_V of shape (heads·k, d) and W_O (d, heads·k), each with its bias."""
    maps = [_affine(part_at(layer, path)) for path in anatomy.projections]
    if len(maps) == 1:
        matrix, bias = maps[0]
        heads, keys = network.heads, network.key_heads
        rows = np.arange(len(matrix))
        if anatomy.interleaved:
            thirds = [third.ravel() for third in np.split(rows.reshape(heads, 3, -1), 3, axis=1)]
        else:
            k = len(rows) // (heads + 2 * keys)
            thirds = np.split(rows, [heads * k, (heads + keys) * k])
        maps = [(matrix[third], bias[third]) for third in thirds]
    return [*maps, _affine(part_at(layer, anatomy.output))]


def _affine(module: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    """W (out, in) and b (out,), zero where there is none."""
    weight = _array(module.get_parameter("weight"))
    # GPT-2 keeps its maps transposed, in a class of its own.
    matrix = weight if isinstance(module, nn.Linear) else weight.T
    bias = getattr(module, "bias", None)
    return matrix, np.zeros(len(matrix)) if bias is None else _array(bias)


def _radius(norm: nn.Module, anatomy: Anatomy, network: Network) -> float:
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    gain = np.ones(network.width) if weight is None else anatomy.unit_gain + _array(weight)
    shift = 0.0 if bias is None else _array(bias)
    return float(np.sqrt(np.sum(gain**2 + shift**2)))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().cpu().numpy()
