"""Identities of Gaussians on the way to the closed form of a layer, and where they are misused."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import kstest, norm

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows.gaussian_layers import layer_map
from metastable.measures import Points
from metastable.numerics import jnp
from metastable.reproduce.finding import Finding, holds

__all__ = ["dependent_sums", "gaussian_line", "stein_identity", "tilted_numerator"]


def gaussian_line(*, means: list[float], deviations: list[float], order: int) -> Finding:
    """One-dimensional attention on a Gaussian, by quadrature, against the affine closed form."""
    from metastable.report.plots import draw_lines

    mean_off, spread_off, line_off, code_off, curves, theory = 0.0, 0.0, 0.0, 0.0, {}, {}
    for mean in means:
        for deviation in deviations:
            x, w = _quadrature(mean, deviation, order)
            tokens = Points(x[:, None], w, on_sphere=False)
            # Only places near the bulk: the farthest nodes carry no mass and see only themselves.
            near = np.abs(x - mean) < 3 * deviation
            moved = x + np.asarray(SelfAttention(1.0).velocity(tokens))[:, 0]
            affine = (1 + deviation**2) * x + mean
            line_off = max(line_off, np.abs(moved - affine)[near].max())
            first = w @ moved
            spread = w @ (moved - first) ** 2
            wanted = (2 + deviation**2) * mean, (1 + deviation**2) ** 2 * deviation**2
            mean_off = max(mean_off, abs(first - wanted[0]) / max(abs(wanted[0]), 1.0))
            spread_off = max(spread_off, abs(spread / wanted[1] - 1))
            m, factor = layer_map(jnp.array([mean]), jnp.array([[deviation]]), SelfAttention(1.0))
            closed = float(m[0]), float(factor[0, 0]) ** 2
            code_off = max(code_off, *(abs(a - b) for a, b in zip(closed, wanted, strict=True)))
            if mean == means[-1]:
                name = f"σ = {deviation:g}"
                curves[name] = (x[near], moved[near])
                theory[f"(1 + σ²)x + μ, {name}"] = (x[near], affine[near])
    rows = [
        judge("attention maps x to (1 + σ²)x + μ: largest error", "section 3.2", 0.0,
              float(line_off), absolute=1e-10),
        judge("μ_T = (2 + σ²)μ: largest relative error", "section 3.2", 0.0, float(mean_off),
              absolute=1e-10),
        judge("σ_T² = (1 + σ²)²σ²: largest relative error", "section 3.2", 0.0, float(spread_off),
              absolute=1e-10),
        judge("our layer against both formulas: largest error", "castin2025unified", 0.0, code_off,
              absolute=1e-12),
    ]  # fmt: skip
    figure = draw_lines(
        curves,
        "x",
        "Γ(x)",
        f"Softmax attention among {order} quadrature tokens of N({means[-1]:g}, σ²): points, and "
        "the affine maps.",
        theory=theory,
    )
    return Finding(rows, {"maps": figure})


def tilted_numerator(*, dim: int, keys: int, order: int, seed: int) -> Finding:
    """∫ y e^{⟨Qx, Ky⟩/√d_k} dμ(y) for a Gaussian, against the two exponents."""
    from metastable.report.plots import draw_bars

    random = np.random.default_rng(seed)
    query, key = random.normal(size=(2, keys, dim)) / math.sqrt(dim)
    mean = random.normal(size=dim)
    root = random.normal(size=(dim, dim)) / math.sqrt(dim)
    cov = root @ root.T
    nodes, w = _quadrature(0.0, 1.0, order)
    grid = np.stack(np.meshgrid(*[nodes] * dim, indexing="ij"), -1).reshape(-1, dim)
    masses = np.prod(np.stack(np.meshgrid(*[w] * dim, indexing="ij"), -1), axis=-1).ravel()
    y = mean + grid @ root.T
    off: dict[str, list[float]] = {"as printed": [], "with 1/(2d_k)": [], "ratio m + ΣAx": []}
    places = random.normal(size=(6, dim))
    for x in places:
        a = key.T @ query @ x / math.sqrt(keys)  # Ax
        weights = masses * np.exp(y @ a)
        numerator, denominator = weights @ y, weights.sum()
        quadratic = x @ query.T @ key @ cov @ key.T @ query @ x
        tilted, linear = mean + cov @ a, x @ query.T @ key @ mean / math.sqrt(keys)
        for name, exponent in {
            "as printed": quadratic / math.sqrt(keys),
            "with 1/(2d_k)": quadratic / (2 * keys),
        }.items():
            guess = tilted * math.exp(linear + exponent)
            off[name].append(float(np.linalg.norm(guess - numerator) / np.linalg.norm(numerator)))
        ratio = numerator / denominator
        off["ratio m + ΣAx"].append(float(np.linalg.norm(ratio - tilted) / np.linalg.norm(tilted)))
    rows = [
        judge("numerator with the exponent as printed, 1/√d_k: largest relative error",
              "section 3.2, numerator", 0.0, max(off["as printed"]), absolute=1e-8),
        judge("the same with 1/(2d_k), as in the denominator", "Definition A.3", 0.0,
              max(off["with 1/(2d_k)"]), absolute=1e-8),
        judge("the quotient is m + ΣKᵀQx/√d_k", "section 3.2", 0.0, max(off["ratio m + ΣAx"]),
              absolute=1e-8),
    ]  # fmt: skip
    figure = draw_bars(
        [str(k + 1) for k in range(len(places))],
        {name: np.maximum(each, 1e-17).tolist() for name, each in off.items()},
        "place x", "relative error",
        f"Numerator of attention on a Gaussian, d = {dim}, d_k = {keys}, by quadrature.",
    )  # fmt: skip
    figure.axes[0].set(yscale="log", ylim=(1e-17, 1e6))  # room for the legend
    return Finding(rows, {"errors": figure})


def stein_identity(*, samples: int, seed: int) -> Finding:
    """E[X f(X)] = E[f′(X)] by quadrature and by samples; and with a term at infinity."""
    from metastable.report.plots import draw_bars

    functions = {
        "x³": (lambda x: x**3, lambda x: 3 * x**2),
        "sin 2x": (lambda x: np.sin(2 * x), lambda x: 2 * np.cos(2 * x)),
        "tanh x": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
        "$e^{0.7x}$": (lambda x: np.exp(0.7 * x), lambda x: 0.7 * np.exp(0.7 * x)),
    }
    drawn = np.random.default_rng(seed).standard_normal(samples)
    exact, scores, sides = [], [], []
    for f, slope in functions.values():
        left, right = (
            quad(lambda x, g=g: g(x) * norm.pdf(x), -12, 12, epsabs=1e-13, limit=200)[0]
            for g in (lambda x, f=f: x * f(x), slope)
        )
        exact.append(abs(left - right))
        sides.append((left, right))
        differences = drawn * f(drawn) - slope(drawn)
        scores.append(abs(differences.mean()) / (differences.std() / math.sqrt(samples)))
    # f = tanh/p: f p tends to ±1, so that the term at infinity is 2 and the identity must fail by
    # it. In terms of h = fp, the two integrands are xh and h′ + xh.
    left = quad(lambda x: x * np.tanh(x), -12, 12)[0]
    right = quad(lambda x: 1 / np.cosh(x) ** 2 + x * np.tanh(x), -12, 12)[0]
    rows = [
        judge("E[X f(X)] − E[f′(X)], four functions: largest, by quadrature", "Lemma A.3", 0.0,
              max(exact), absolute=1e-10),
        holds(f"the same of {samples} samples, in standard errors", "Lemma A.3",
              max(scores) < 3.5, "below 3.5", max(scores)),
        judge("where f p tends to ±1 (f = tanh/p) they differ by the term at infinity",
              "condition of Lemma A.3", -2.0, left - right, absolute=1e-6),
    ]  # fmt: skip
    figure = draw_bars(
        list(functions), {"E[X f(X)]": [a for a, _ in sides], "E[f′(X)]": [b for _, b in sides]},
        "f", "expectation", "Both sides of Gaussian integration by parts, by quadrature.",
    )  # fmt: skip
    return Finding(rows, {"sides": figure})


def dependent_sums(*, deviation: float, samples: int, seed: int) -> Finding:
    """Sums of Gaussians: independent, proportional, and uncorrelated but not jointly normal."""
    from metastable.report.plots import draw_histograms

    random = np.random.default_rng(seed)
    x, y = deviation * random.standard_normal((2, samples))
    flipped = x * random.choice([-1.0, 1.0], samples)
    added = deviation**2 * x  # what attention adds to X, up to the constant μ
    error = math.sqrt(2 / samples)  # relative standard error of an empirical variance
    independent = kstest((x + y) / (math.sqrt(2) * deviation), "norm")
    rows = [
        judge("variance of X + σ²X by the rule for independent variables, σ² + σ⁶",
              "Lemma A.2 as used in section 3.2", deviation**2 + deviation**6,
              float(np.var(x + added)), relative=4 * error),
        judge("its variance as an affine image, (1 + σ²)²σ²", "affine maps of a Gaussian",
              (1 + deviation**2) ** 2 * deviation**2, float(np.var(x + added)),
              relative=4 * error),
        judge("independent X and Y: variance of the sum", "Lemma A.2", 2 * deviation**2,
              float(np.var(x + y)), relative=4 * error),
        holds("independent X and Y: the sum is normal (Kolmogorov–Smirnov)", "Lemma A.2",
              independent.pvalue > 1e-3, "p above 0.001", float(independent.pvalue)),
        judge("X and ±X, each normal and uncorrelated: share of sums that are exactly 0",
              "a sum of Gaussians need not be Gaussian", 0.5, float(np.mean(x + flipped == 0)),
              absolute=4 * 0.5 / math.sqrt(samples)),
    ]  # fmt: skip
    edge = 5 * deviation
    grid = np.linspace(-edge, edge, 400)
    figure = draw_histograms(
        {"X + Y, independent": x + y, "X ± X, uncorrelated": x + flipped}, "sum",
        f"Two sums of N(0, {deviation:g}²) variables with the same variance; the second is 0 half "
        "of the time.", bins=np.linspace(-edge, edge, 82),
        laws={"N(0, 2σ²)": (grid, norm.pdf(grid, scale=math.sqrt(2) * deviation))},
    )  # fmt: skip
    figure.axes[0].set_ylim(0, 0.34 / deviation)  # the atom at 0 would dwarf the rest
    return Finding(rows, {"sums": figure})


def _quadrature(mean: float, deviation: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite nodes and masses of N(mean, deviation²)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return mean + deviation * nodes, weights / weights.sum()
