"""Does the time to leave a metastable state grow like e^{nκΔF}?"""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.branches import branch_in_kappa
from metastable.theory.interaction import attention_interaction

ENTRY = Entry(
    title="Does the time to leave a metastable state grow like e^{nκΔF}?",
    places=["arXiv:2510.20094 and arXiv:2606.05140 leave finitely many tokens aside"],
    claim=(
        "Numerically yes, for unnormalised attention at β = 7 on the circle in the window of "
        "hysteresis: mean times for n noisy tokens to leave disorder follow the escape of their "
        "alignment over a barrier nκΔF, ΔF the free energy of the saddle; slope in n over that "
        "of this diffusion: 0.99, interval [0.91, 1.07]."
    ),
    method=(
        "Many copies of n tokens as a stochastic equation, time at risk over escapes past the "
        "alignment of the saddle, an unstable stationary density; the ratio to the escape time of "
        "a planar diffusion of the alignment over that barrier should not depend on n."
    ),
    subject="metastability",
    basis="derived",
    limits=(
        "nκΔF reaches about 3.5, whence the comparison with a diffusion and not with the "
        "exponential alone; that diffusion has a barrier of the sixth order in the alignment, "
        "through the saddle. A first run by Euler steps of 0.02 was 60 % off. One β and κ, d = 2."
    ),
    planted="attention_interaction.beta * 1.1",
    settings={"beta": 7.0, "tokens": [60, 100, 140, 180, 220], "copies": 150, "share": 0.2,
              "step": 0.02},
    fast={"tokens": [50, 80, 110], "copies": 60},
)  # fmt: skip


def escape_of_few_tokens(
    *, beta: float, tokens: list[int], copies: int, share: float, step: float
) -> Finding:
    """Mean times at which n noisy tokens leave disorder."""
    branch = branch_in_kappa(beta, 2, normalized=False, until=1.05)
    _, fold, _ = branch.turns[0]
    kappa = fold + share * (branch.kappas[0] - fold)
    turn = int(np.argmin(branch.kappas))
    back = slice(turn, None, -1)  # from the fold to uniform κ rises
    saddle = float(np.interp(kappa, branch.kappas[back], branch.alignments[back]))
    barrier = kappa * float(np.interp(kappa, branch.kappas[back], branch.free_energies[back]))
    weights = attention_interaction(beta, 2, normalized=False).weights
    weights = weights[: np.flatnonzero(weights > 3e-3 * weights[1])[-1] + 1]
    random = np.random.default_rng(1)
    times, errors = [], []
    for n in tokens:
        risk, escapes = _escapes(random, n, copies, weights, kappa, saddle, step,
                                 horizon=40 * np.exp(n * barrier))  # fmt: skip
        times.append(risk / escapes)
        errors.append(1 / np.sqrt(escapes))
    n = np.array(tokens, float)
    reduced = np.array([_reduced(m, kappa / branch.kappas[0], saddle, barrier) for m in tokens])
    logs, weight = np.log(np.array(times) / reduced), 1 / np.array(errors)
    slope = float(np.polyfit(n, logs, 1, w=weight)[0])
    spread = 1 / np.sqrt(np.sum(weight**2 * (n - np.average(n, weights=weight**2)) ** 2))
    rows = [
        # 15 % of the slope, and four standard errors.
        judge("slope in n of log T over that of the diffusion, less one", "open", 0.0,
              slope / barrier, absolute=0.15 + 4 * spread / barrier),
        # Other modes are taken to follow at once: a factor below 1.5 either way.
        judge("log of mean time over that of the diffusion, at the largest n", "open", 0.0,
              float(logs[-1]), absolute=np.log(1.5) + 4 * errors[-1]),
        holds("mean times grow with n", "open", bool(times[-1] > times[0] * 1.3), "grow",
              f"{times[-1] / times[0]:.2f} times longer at n = {tokens[-1]} than at {tokens[0]}"),
    ]  # fmt: skip
    low, high = (1 + (slope + sign * 2 * spread) / barrier for sign in (-1, 1))
    notes = [
        f"κΔF = {barrier:.5f}; slope over that of the diffusion in [{low:.2f}, {high:.2f}] "
        "(two standard errors).",
    ]
    series = [
        Series("mean time", n, times, np.array(times) * errors, style="both"),
        Series("diffusion over the barrier nκΔF", n, reduced, role="theory"),
    ]
    caption = f"β = {beta:g}, κ = {kappa:.5g}, circle."
    axes = Axis("tokens n"), Axis("mean time to leave, T/κ", scale="log")
    return Finding(rows, {"times": Lines(*axes, series, caption=caption)}, notes)


def _reduced(tokens: int, closeness: float, saddle: float, barrier: float) -> float:
    """Mean time of dm = −½Φ′dt + dW/√n in the plane to reach the saddle, Φ = Am² + Bm⁴ + Cm⁶.

    A = 1 − κ/κ_# is that of linear theory, B and C put the saddle where it is.
    """
    first = 1 - closeness
    b, c = np.linalg.solve(
        [[saddle**4, saddle**6], [4 * saddle**3, 6 * saddle**5]],
        [barrier - first * saddle**2, -2 * first * saddle],
    )
    m = np.linspace(0, saddle, 4001)[1:]
    well = tokens * (first * m**2 + b * m**4 + c * m**6)
    inner = np.cumsum(m * np.exp(-well)) * (m[1] - m[0])
    return float(2 * tokens * np.sum(np.exp(well) / m * inner) * (m[1] - m[0]))


def _escapes(
    random: np.random.Generator, tokens: int, copies: int, weights: np.ndarray, kappa: float,
    saddle: float, step: float, horizon: float,
) -> tuple[float, int]:  # fmt: skip
    """Time at risk over all copies in units of κ, and how many left before the horizon."""
    angles = random.uniform(0, 2 * np.pi, (copies, tokens))
    force = 2 * kappa * np.arange(len(weights)) * weights  # of time t/κ
    risk, escapes, noise = 0.0, 0, np.sqrt(step)
    for _ in range(int(horizon / step)):
        # Half a Brownian step, the midpoint rule for the drift, half a Brownian step.
        angles = angles + noise * random.normal(size=angles.shape)
        drift, size = _drift(angles, force)
        drift, _ = _drift(angles + 0.5 * step * drift, force)
        risk += step * len(angles)
        inside = size < saddle
        escapes += int(np.sum(~inside))
        angles = (angles + step * drift + noise * random.normal(size=angles.shape))[inside]
        if not len(angles):
            break
    return risk, max(escapes, 1)


def _drift(angles: np.ndarray, force: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drift of each angle, −Im Σ_k force_k conj(mean z^k) z^k, and the alignment of each copy."""
    z = np.exp(1j * angles)
    power, total, size = z, np.zeros_like(z), None
    for k in range(1, len(force)):
        mean = power.mean(axis=1, keepdims=True)
        size = np.abs(mean[:, 0]) if size is None else size
        total += force[k] * np.conj(mean) * power
        power = power * z
    assert size is not None
    return -np.imag(total), size
