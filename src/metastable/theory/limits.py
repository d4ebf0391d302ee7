"""Limit shapes of pure attention in R^d, read off the spectra of V and QᵀK.

Pure attention has no normalisation: ẋ_i = Σ_j P_ij V x_j. Tokens run away like e^{tV}, and the
rescaled ones z_i = e^{−tV}x_i converge to a shape that V decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LimitGeometry:
    """What the rescaled tokens converge to, and what to measure on a run.

    kind        "polytope", "hyperplanes", "polytope x subspace", "origin", or None
    reason      the hypotheses that hold, or the one that fails
    source      theorem, or None
    growth      λ_1, the rate at which tokens run away (None where undefined)
    functionals rows φ* with φ*(φ) = 1 (dual to the leading eigenvectors): φ*(z_i) takes at most
                three values for "hyperplanes"; for "polytope x subspace" they are coordinates on F
    root        A = (QᵀK)^{1/2} where QᵀK is symmetric positive definite, else None
    """

    kind: str | None
    reason: str
    source: str | None
    growth: float | None = None
    functionals: Array | None = None
    root: Array | None = None


def limit_geometry(
    value: ArrayLike,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    *,
    tolerance: float = 1e-9,
) -> LimitGeometry:
    """Limit shape of z_i = e^{−tV}x_i under pure attention with these matrices.

    | V | QᵀK | limit | theorem |
    |---|---|---|---|
    | λI, λ > 0 | symmetric, > 0 | a polytope's boundary, or 0 | 3.1 |
    | λ_1 > 0 simple, largest modulus | ⟨Qφ_1,Kφ_1⟩ > 0 | ≤ 3 parallel hyperplanes | 4.1 |
    | λI on F, smaller modulus on G | symmetric, > 0 | ∂polytope × G | 5.1 |
    | −I | I | x_i (not z_i) → 0 like t^{−1/2} | C.5 |

    Source: [geshkovski2023emergence] for the theorems; V = λI reduces to V = I by changing the
    clock; the power −1/2 is derived here. β > 0 multiplies QᵀK and changes none of the hypotheses.
    `tolerance` is relative to the size of the matrix tested; eigenvalues of V closer than its
    square root count as equal. A failed hypothesis gives kind None and its name in `reason`:
    nothing is proved there, which does not mean that no limit exists.

    >>> limit_geometry(np.diag([2.0, 1.0])).kind
    'hyperplanes'
    >>> limit_geometry(np.diag([1.0, 1.0, 0.5])).kind
    'polytope x subspace'
    """
    V = np.asarray(value, dtype=float)
    if V.ndim != 2 or V.shape[0] != V.shape[1]:
        raise ValueError(f"value must be a square matrix, got shape {V.shape}; pass V itself.")
    d = len(V)
    Q = np.eye(d) if query is None else np.asarray(query, dtype=float)
    K = np.eye(d) if key is None else np.asarray(key, dtype=float)
    if Q.ndim != 2 or Q.shape != K.shape or Q.shape[1] != d:
        raise ValueError(
            f"query and key must both have shape (k, {d}), got {Q.shape} and {K.shape}; "
            "they act on the same tokens as value."
        )
    B = Q.T @ K
    root, definiteness = _square_root(B, tolerance)
    scale = max(float(np.abs(V).max()), np.finfo(float).tiny)

    if np.allclose(V, -np.eye(d), rtol=0, atol=tolerance) and np.allclose(
        B, np.eye(d), rtol=0, atol=tolerance
    ):
        source = "geshkovski2023emergence, Thm C.5"
        return LimitGeometry("origin", "V = −I and QᵀK = I", source, -1.0, None, root)

    eigenvalues, right = np.linalg.eig(V)
    lead = eigenvalues[np.argmax(np.abs(eigenvalues))]
    # Eigenvalues of a defective matrix split like a root of the rounding error.
    close = np.abs(eigenvalues) > abs(lead) - np.sqrt(tolerance) * scale
    if not np.allclose(eigenvalues[close], abs(lead), rtol=0, atol=np.sqrt(tolerance) * scale):
        reason = "the eigenvalue of V of largest modulus is not real, positive and unique"
        return LimitGeometry(None, reason, None)
    growth = float(lead.real)
    if growth <= tolerance * scale:
        return LimitGeometry(None, "V has no positive eigenvalue", None)
    multiplicity = int(close.sum())

    if 1 == multiplicity < d:
        functionals = _left_eigenvectors(V, growth, 1)
        phi = np.real(right[:, close][:, 0])
        overlap = float((Q @ phi) @ (K @ phi))
        if overlap <= tolerance * np.abs(B).max():
            reason = f"⟨Qφ_1,Kφ_1⟩ = {overlap:.3g} is not positive"
            return LimitGeometry(None, reason, None, growth, functionals, root)
        reason = "λ_1(V) is simple, positive, largest in modulus, and ⟨Qφ_1,Kφ_1⟩ > 0"
        source = "geshkovski2023emergence, Thm 4.1"
        return LimitGeometry("hyperplanes", reason, source, growth, functionals, root)

    rank = np.linalg.matrix_rank(V - growth * np.eye(d), tol=np.sqrt(tolerance) * scale)
    if rank != d - multiplicity:
        return LimitGeometry(None, "V is not a multiple of I on its leading eigenspace", None)
    if root is None:
        return LimitGeometry(None, definiteness, None, growth)
    if multiplicity == d:
        reason = "V is a positive multiple of I and QᵀK is symmetric positive definite"
        source = "geshkovski2023emergence, Thm 3.1"
        return LimitGeometry("polytope", reason, source, growth, np.eye(d), root)
    reason = (
        f"V = {growth:.6g}·I on a space of dimension {multiplicity}, smaller modulus on the rest, "
        "and QᵀK is symmetric positive definite"
    )
    functionals = _left_eigenvectors(V, growth, multiplicity)
    source = "geshkovski2023emergence, Thm 5.1"
    return LimitGeometry("polytope x subspace", reason, source, growth, functionals, root)


def collapse_projection(
    value: ArrayLike,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    *,
    tolerance: float = 1e-9,
) -> Array:
    """Spectral projection P onto the leading eigenspace of M = VKᵀQ: where x goes is Px/‖Px‖.

    At β = ∞ among tokens all over the sphere x attends to KᵀQx/‖KᵀQx‖ alone, so that it moves
    along Mx, and x(t) = e^{sM}x/‖·‖ tends to Px/‖Px‖; the measure stays near P_#μ_0 for times of
    order log β, with W₂ ≲ √(log β/β)e^{Ct} + e^{−ct} (arXiv:2605.10931, whose abstract was read;
    the map is derived here). For Q = K = I the same P says where one cluster ends at any β:
    ċ = P_cVc. Leading are the eigenvalues of largest real part; a complex pair has no limit, and
    P projects onto the plane it turns in. V must not be defective there.

    >>> collapse_projection(np.diag([2.0, 1.0])).round(12).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    M = np.asarray(value, dtype=float)
    if key is not None:
        M = M @ np.asarray(key, dtype=float).T
    elif query is not None and np.shape(query)[0] != len(M):
        raise ValueError(f"query must be square without a key, got shape {np.shape(query)}.")
    if query is not None:
        M = M @ np.asarray(query, dtype=float)
    roots: Any
    right: Any
    roots, right = np.linalg.eig(M)
    scale = max(float(np.abs(M).max()), np.finfo(float).tiny)
    leading = roots.real > roots.real.max() - tolerance * scale
    left = np.linalg.inv(right)
    return np.real(right[:, leading] @ left[leading])


def polytope_residual(points: ArrayLike, vertices: ArrayLike, root: ArrayLike) -> Array:
    """How far each point is from the limit set of Theorem 3.1: |‖Ax‖² − max_j⟨Ax, Av_j⟩|.

    Source: [geshkovski2023emergence, Thm 3.1], with A = `root` = (QᵀK)^{1/2} and v_j the vertices
    of the limit polytope; every limit z̄_i has residual 0, and so do 0 and every vertex that is a
    limit. Finite times leave an error of order e^{−t}. `points` (n, d), `vertices` (m, d); the
    result is (n,).

    >>> polytope_residual([[1.0, 0.0], [0.5, 0.0]], [[1.0, 0.0], [-1.0, 0.0]], np.eye(2)).tolist()
    [0.0, 0.25]
    """
    A = np.asarray(root, dtype=float)
    x, v = np.asarray(points, dtype=float) @ A.T, np.asarray(vertices, dtype=float) @ A.T
    return np.abs(np.sum(x * x, axis=1) - np.max(x @ v.T, axis=1))


def attention_rank_bound(vertices: ArrayLike) -> int:
    """Largest rank of the limit P* of the attention matrix: the number of polytope vertices.

    Source: corollary of [geshkovski2023emergence, Thm 3.1], slides Theorem 2. `vertices` (m, d).
    """
    return len(np.asarray(vertices))


def boolean_limit(positions: ArrayLike, *, bounded: float = 1.0) -> NDArray[np.int64]:
    """Limit rows of the attention matrix in d = 1, from token positions at a late time.

    Row i of P* is e_k with k the returned index: the largest token for x_i → +∞, the smallest for
    x_i → −∞; −1 marks a row that may stay non-Boolean.

    Source: [geshkovski2023emergence, Thm 2.1], slides Theorem 1. At most one row is not Boolean,
    and only an interior token that stays bounded has one: a bounded extreme token attends to
    itself. Valid for d = 1, VQK > 0, distinct starts; convergence is doubly exponential, so P(t)
    is Boolean to all digits once |x_i| exceeds a few units. `bounded` is the |x| up to which a
    token counts as not yet decided; two such tokens mean that the time is too early (ValueError).

    >>> boolean_limit([-30.0, -8.0, 0.1, 25.0]).tolist()
    [0, 0, -1, 3]
    """
    x = np.asarray(positions, dtype=float)
    low, high = int(np.argmin(x)), int(np.argmax(x))
    rows = np.where(x > 0, high, low)
    undecided = np.abs(x) <= bounded
    rows[undecided] = -1
    for extreme in (low, high):
        if undecided[extreme]:
            rows[extreme] = extreme
    if np.count_nonzero(rows == -1) > 1:
        raise ValueError(
            f"positions must leave at most one interior token within ±{bounded}, got "
            f"{np.count_nonzero(rows == -1)}; integrate longer."
        )
    return rows


def _square_root(B: Array, tolerance: float) -> tuple[Array | None, str]:
    scale = max(float(np.abs(B).max()), np.finfo(float).tiny)
    if not np.allclose(B, B.T, rtol=0, atol=tolerance * scale):
        return None, "QᵀK is not symmetric"
    eigenvalues, vectors = np.linalg.eigh((B + B.T) / 2)
    if eigenvalues[0] <= tolerance * scale:
        return None, f"QᵀK is not positive definite (smallest eigenvalue {eigenvalues[0]:.3g})"
    return (vectors * np.sqrt(eigenvalues)) @ vectors.T, ""


def _left_eigenvectors(V: Array, growth: float, count: int) -> Array:
    """Rows dual to an orthonormal basis of the leading eigenspace, signs fixed."""
    d = len(V)
    left = np.linalg.svd((V - growth * np.eye(d)).T)[2][d - count :]
    right = np.linalg.svd(V - growth * np.eye(d))[2][d - count :].T
    largest = np.argmax(np.abs(right), axis=0)
    right = right * np.sign(right[largest, np.arange(count)])
    return np.linalg.solve(left @ right, left)
