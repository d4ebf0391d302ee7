"""An attention layer on a Gaussian: against samples, against tokens, in small steps."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.flows.gaussian_layers import gaussian_layers, layer_map
from metastable.measures import Gaussian
from metastable.reproduce.finding import Finding, holds
from metastable.theory.gaussian import (
    blow_up_time,
    covariance_at,
    sample_error,
)
from metastable.trials import verify
from metastable.trials.draws import draw_layer

__all__ = [
    "continuous_limit",
    "frozen_mean",
    "layer_by_attention",
    "layer_verification",
]

PRINTED = {"mean": 2.49e-2, "covariance": 5.32e-2}  # of one unstated draw


def layer_verification(*, dim: int, keys: int, samples: int, draws: int) -> Finding:
    """The listing: samples through the affine map, their moments against m_T and Σ_T."""
    from metastable.report.plots import draw_lines

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
                found = _moments(block)
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
    figure = draw_lines(
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


def _moments(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Empirical mean and covariance (divided by N, as the listing does)."""
    mean = points.mean(axis=0)
    return mean, (points - mean).T @ (points - mean) / len(points)


def layer_by_attention(
    *, dim: int, keys: int, samples: int, calm_dim: int, calm_keys: int, calm_samples: int
) -> Finding:
    """Genuine softmax attention among tokens against the closed form, calm and as drawn."""
    from metastable.report.gaussians import draw_attention_errors, draw_effective_tokens

    found = verify(
        dim, keys, samples, 2, calm_dim=calm_dim, calm_keys=calm_keys, calm_samples=calm_samples,
        progress=False,
    )  # fmt: skip
    loud, calm = found.loud.rows[-1], found.calm.rows[-1]
    assert loud.velocity is not None and loud.effective is not None and calm.effective is not None
    rows = [
        holds("tokens of the layer as drawn move as the closed form says", "section 3.2",
              loud.velocity < 0.1, "relative error of the velocity below 0.1", loud.velocity,
              f"logits deviate by {found.loud.deviation:.1f}: each token attends to "
              f"{loud.effective:.1f} others of {loud.samples}"),
    ]  # fmt: skip
    rows += [
        judge(f"with logit variance below 1: exponent of N in the error, {name}", "1/√N", -0.5,
              found.calm.slope(name), absolute=0.1)
        for name in ("mean", "cov", "velocity")
    ]  # fmt: skip
    rows += [
        judge(f"tokens attended to, {name}, of {row.samples}", "derrida1981random",
              row.effective_expected or 0.0, row.effective or 0.0, relative=0.5)
        for name, row in (("calm", calm), ("as drawn", loud))
    ]  # fmt: skip
    figures = {"errors": draw_attention_errors(found), "tokens": draw_effective_tokens(found)}
    return Finding(rows, figures)


def frozen_mean(*, dim: int, keys: int, samples: int, layers: int, step: float) -> Finding:
    """The printed loop keeps the mean of the start; the layer needs that of each layer."""
    from metastable.report.plots import draw_lines

    layer = draw_layer(dim, keys, seed=0)
    start = np.asarray(layer.measure.mean)
    exact = gaussian_layers(layer.measure, layer.field, layers, step, progress=False)
    wanted = np.array([np.asarray(frame.mean) for frame in exact.frames])
    # Tokens with exactly the moments of the start follow the closed form to rounding.
    mean, cov = _moments(np.asarray(layer.measure.sample(samples).points))
    white = np.linalg.inv(np.linalg.cholesky(cov))
    tokens = (np.asarray(layer.measure.sample(samples).points) - mean) @ white.T
    tokens = start + tokens @ np.asarray(layer.measure.factor).T
    points = {"loop": tokens, "layer": tokens}
    means = {name: [x.mean(axis=0)] for name, x in points.items()}
    for _ in range(layers):
        for name, x in points.items():
            mean, cov = _moments(x)
            linear = layer.output @ cov @ layer.bilinear
            kept = start if name == "loop" else mean
            points[name] = x + step * (layer.output @ kept + x @ linear.T)
            means[name].append(points[name].mean(axis=0))
    size = np.linalg.norm(wanted, axis=1)
    off = {name: np.linalg.norm(np.array(m) - wanted, axis=1) / size for name, m in means.items()}
    spectra = [np.linalg.eigvalsh(_moments(x)[1]) for x in points.values()]
    rows = [
        judge(f"mean after {layers} layers of the printed loop: relative error",
              "section 3.2.1, the loop", 0.0, float(off["loop"][-1]), absolute=1e-8),
        judge("the same with the mean of each layer", "equation of m_T", 0.0,
              float(off["layer"][-1]), absolute=1e-8),
        judge("spectra of both loops: largest difference, of the largest eigenvalue",
              "a shift moves no spectrum", 0.0,
              float(np.abs(spectra[0] - spectra[1]).max() / spectra[1].max()), absolute=1e-8),
    ]  # fmt: skip
    at = np.arange(layers + 1)
    figure = draw_lines(
        {"mean of the start, as printed": (at, off["loop"]),
         "mean of each layer": (at, off["layer"])},
        "layer", "relative error of the mean",
        f"{samples} tokens, d = {dim}, d_k = {keys}, step {step:g}, against the closed form.",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"means": figure})


def continuous_limit(*, dim: int, depths: list[int], share: float, seed: int) -> Finding:
    """Shorter and shorter steps over the same time tend to the flow, whose covariance is known."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(seed)
    layer = draw_layer(dim, dim, seed=seed)
    symmetric = random.normal(size=(dim, dim)) / dim
    calm = layer._replace(output=np.eye(dim), bilinear=symmetric + symmetric.T)
    cov = np.asarray(calm.measure.cov)
    pole = blow_up_time(cov, calm.bilinear)
    horizon = share * pole
    wanted = covariance_at(horizon, cov, calm.bilinear)
    errors, least = [], []
    for depth in depths:
        run = gaussian_layers(
            calm.measure, calm.field, depth, horizon / depth, frames=2, progress=False
        )
        last = run.frames[-1]
        assert isinstance(last, Gaussian)
        errors.append(float(np.linalg.norm(np.asarray(last.cov) - wanted) / np.linalg.norm(wanted)))
        least.append(float(last.eigenvalues[0]))
    beyond = gaussian_layers(
        calm.measure, calm.field, 2 * depths[-1], 2 * pole / depths[-1], frames=2, progress=False
    )
    steps = horizon / np.array(depths)
    rows = [
        judge("exponent of the step in the distance from continuous time", "section 3.2.2; Euler",
              1.0, float(np.polyfit(np.log(steps[-3:]), np.log(errors[-3:]), 1)[0]), absolute=0.1),
        holds("in continuous time the covariance stays positive definite", "section 3.2.2",
              min(least) > 0 and np.linalg.eigvalsh(wanted)[0] > 0, "all eigenvalues above 0",
              min(least)),
        holds("but not for ever: it is infinite at a finite time t*", "derived, V = I",
              beyond.outcome.name == "blow_up" and 0.9 < beyond.times[-1] / pole < 1.5,
              "layers end soon after t*", f"{beyond.times[-1] / pole:.3f} t*"),
    ]  # fmt: skip
    figure = draw_lines(
        {"exact layers": (steps, errors)}, "step ε", "relative distance",
        f"Covariance after layers of step ε up to {share:g} of the blow-up time, against the "
        f"closed form of the flow, d = {dim}, V = I.",
        theory={"∝ ε": (steps, errors[-1] * steps / steps[-1])}, log="xy",
    )  # fmt: skip
    return Finding(rows, {"errors": figure})
