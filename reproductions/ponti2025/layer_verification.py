"""A Gaussian layer against samples."""

from __future__ import annotations

import numpy as np

from metastable.comparison.random_matrices.draws import draw_layer
from metastable.core.verdict import judge
from metastable.flows.solvers.gaussian_layers import layer_map
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.gaussian import sample_error

from ._moments import sample_moments

ENTRY = Entry(
    title="A Gaussian layer against samples",
    places=["section 3.2, verification", "Listing 2"],
    claim=(
        "For d = 300, d_k = 128 and 20 000 samples the empirical mean and covariance differ "
        "from m_T and Σ_T by 2.49e-2 and 5.32e-2."
    ),
    method=(
        "The listing at its own size for several random layers; the errors against the "
        "printed ones and against the law that sampling errors obey."
    ),
    subject="Gaussian",
    basis="text",
    limits=(
        "The listing's size, eight draws; printed errors are met within a half because its seed"
        " is unknown."
    ),
    planted="sample_error * 1.3",
    settings={"dim": 300, "keys": 128, "samples": 20000, "draws": 8},
    fast={"draws": 2},
)

PRINTED = {"mean": 2.49e-2, "covariance": 5.32e-2}  # of one unstated draw


def layer_verification(*, dim: int, keys: int, samples: int, draws: int) -> Finding:
    """The listing: samples through the affine map, their moments against m_T and Σ_T."""
    sizes = [samples // 100, samples // 10, samples]
    errors, law = np.zeros((2, 2, len(sizes), draws))  # mean and covariance, by N and layer
    inside = []
    for k in range(draws):
        layer = draw_layer(dim, keys, seed=k)
        start = layer.measure
        linear = np.eye(dim) + layer.output @ np.asarray(start.cov) @ layer.bilinear
        mean, factor = (np.asarray(x) for x in layer_map(start.mean, start.factor, layer.field))
        wanted = factor @ factor.T
        points = np.asarray(start.sample(samples, seed=1000 + k).points)
        moved = points @ linear.T + layer.output @ np.asarray(start.mean)
        for i, n in enumerate(sizes):
            expected = sample_error(mean, wanted, n)
            bands = expected.mean_band, expected.cov_band
            each = []
            for block in np.split(moved, samples // n)[:10]:
                found = sample_moments(block)
                each.append([_relative(found[0], mean), _relative(found[1], wanted)])
                inside += [
                    low <= off <= high for off, (low, high) in zip(each[-1], bands, strict=True)
                ]
            errors[:, i, k] = np.sqrt(np.mean(np.square(each), axis=0))
            law[:, i, k] = expected.mean, expected.cov
    errors, law = (np.sqrt(np.mean(x**2, axis=-1)) for x in (errors, law))
    slopes = [float(np.polyfit(np.log(sizes), np.log(each), 1)[0]) for each in errors]
    rows = [
        judge(f"relative error of the {name}, d = {dim}, N = {samples}",
              f"printed {value:.2e} in section 3.2, another draw", value, float(seen),
              relative=0.5)
        for (name, value), seen in zip(PRINTED.items(), errors[:, -1], strict=True)
    ]  # fmt: skip
    rows += [
        judge(f"{name}: the same at N = {sizes[1]} against the law of sampling errors",
              "fourth moments, derived", float(expect), float(seen), relative=0.2)
        for name, expect, seen in zip(PRINTED, law[:, 1], errors[:, 1], strict=True)
    ]  # fmt: skip
    rows += [
        judge(f"share of {len(inside)} errors inside their 95 % bands", "derived", 0.95,
              float(np.mean(inside)), absolute=0.1),
        judge("exponent of N, mean of both", "1/√N", -0.5, float(np.mean(slopes)), absolute=0.08),
    ]  # fmt: skip
    figure = plot_lines(
        {name: (sizes, each) for name, each in zip(PRINTED, errors, strict=True)},
        "samples N",
        "relative error",
        f"Errors of the moments of N samples moved by the affine map, d = {dim}, d_k = {keys}, "
        f"root mean square over {draws} layers; Σ = GGᵀ/√d.",
        theory={f"law, {name}": (sizes, each) for name, each in zip(PRINTED, law, strict=True)},
        log="xy",
    )
    return Finding(rows, {"errors": figure})


def _relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
