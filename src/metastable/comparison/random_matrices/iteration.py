"""Layer after layer on one Gaussian: as first published, and with the exact layer beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from metastable.comparison.random_matrices.draws import RandomLayer, draw_layer
from metastable.core import checks
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.flows import Layers, flow
from metastable.theory.fits import fit_scale, kolmogorov_distance
from metastable.theory.matrices import MarchenkoPastur


@dataclass(frozen=True)
class Setting:
    """One experiment: sizes, depth, step, and how it was first run.

    `by` is "samples" (X ← X + WVm_0 + B̂X with the empirical covariance of `samples` tokens and,
    wrongly, the mean of the start) or "truncated" (Σ ← Σ + ε(BΣ+ΣBᵀ)), which stops when ‖ΔΣ‖_2 is
    below `tolerance`. The corrected track is the exact layer in both cases.
    """

    name: str
    description: str
    dim: int
    keys: int
    layers: int
    step: float
    by: str
    samples: int = 20_000
    tolerance: float = 0.0


_ALL = (
    Setting("explosion", "standard matrices: the spectrum explodes", 300, 128, 7, 1.0, "samples"),
    Setting("more-keys",
            "smaller d, larger d_k: the same explosion, some thirty orders of magnitude lower",
            30, 1280, 5, 1.0, "samples"),
    Setting("small-step", "a step of 0.01: contained", 30, 1280, 5, 0.01, "truncated"),
    Setting("negative", "the same for 25 layers: the truncated map gives negative eigenvalues",
            30, 1280, 25, 0.01, "truncated"),
    Setting("negative-later",
            "the same for 80 layers: negative eigenvalues grow as the positive ones do",
            30, 1280, 80, 0.01, "truncated"),
    Setting("marchenko-pastur", "a step of 1e-5, 1000 layers: still close to the law of the start",
            1024, 1280, 1000, 1e-5, "truncated", tolerance=1e-3),
)  # fmt: skip
SETTINGS = {setting.name: setting for setting in _ALL}


@dataclass(frozen=True)
class Track:
    """Spectra along one way of iterating; `layers` says which layers `eigenvalues` belong to."""

    title: str
    layers: tuple[int, ...]
    eigenvalues: tuple[np.ndarray, ...]  # of the covariance, increasing
    outcome: Outcome
    negative_at: int | None = None  # first layer with a negative eigenvalue
    law: MarchenkoPastur | None = None  # Marchenko–Pastur fitted to the last spectrum
    distance: float | None = None  # Kolmogorov distance of the last spectrum from it
    start_distance: float | None = None  # of the last spectrum from the law of the start


@dataclass(frozen=True)
class Iteration:
    """The published track and the corrected ones, of one setting and seed.

    `published` follows the listing, faults included; `exact` is the exact layer on covariances;
    `sampled` the exact layer on tokens, where they were asked for.
    """

    setting: Setting
    seed: int
    published: Track
    exact: Track
    sampled: Track | None

    @property
    def tracks(self) -> tuple[Track, ...]:
        return tuple(t for t in (self.published, self.exact, self.sampled) if t is not None)


def iterate(
    setting: str | Setting, seed: int = 0, *, tokens: bool | None = None, spectra: int = 26,
    progress: bool | None = None,
) -> Iteration:  # fmt: skip
    """Run one setting, by name or of your own, as published and corrected.

    - `tokens`: also iterate the exact layer on tokens; by default in settings published so. After
      one layer this adds no noise: the empirical covariance of X + WVm̂ + B̂X is the exact layer of
      the empirical covariance, so tokens follow the same map from a slightly different start.
    - `spectra`: how many layers to keep the spectrum of, the first and the last included.

    A track ends early with an outcome that gives the layer: "blow_up" where floating point ends,
    "converged" below the tolerance. The truncated map goes on past its first negative eigenvalue,
    as published; `negative_at` says where that was.
    """
    if isinstance(setting, str):
        if setting not in SETTINGS:
            raise ValueError(f"setting must be one of {', '.join(SETTINGS)}; got {setting!r}.")
        setting = SETTINGS[setting]
    if setting.by not in ("samples", "truncated"):
        raise ValueError(f"by must be 'samples' or 'truncated'; got {setting.by!r}.")
    checks.integer("layers", setting.layers, 1)
    checks.integer("spectra", spectra, 2)
    checks.positive("step", setting.step)
    layer = draw_layer(setting.dim, setting.keys, seed=seed)
    count = min(spectra, setting.layers + 1)
    kept = sorted({round(k) for k in np.linspace(0, setting.layers, count)})
    by_samples = setting.by == "samples"
    on_tokens = lambda bar, frozen: _on_tokens(layer, setting, seed, kept, bar, frozen)
    with Bar(setting.name, progress) as bar:
        published = on_tokens(bar, True) if by_samples else _listing(layer, setting, kept, bar)
    exact, sampled = _exact(layer, setting, kept, progress), None
    if by_samples if tokens is None else tokens:
        with Bar(f"{setting.name}, tokens", progress) as bar:
            sampled = on_tokens(bar, False)
    return Iteration(setting, seed, published, exact, sampled)


def _exact(layer: RandomLayer, setting: Setting, kept: Sequence[int], bar: bool | None) -> Track:
    measure, field, horizon = layer.measure, layer.field, setting.layers * setting.step
    stepper, frames = Layers(setting.step), len(kept)
    run = flow(measure, field, horizon, stepper=stepper, frames=frames, progress=bar)
    if run.outcome.name == "interrupted":
        raise KeyboardInterrupt
    layers = [round(t / setting.step) for t in run.times]
    spectra = [frame.eigenvalues for frame in run.frames]
    return _track("exact layer", layers, spectra, run.outcome, setting)


def _listing(layer: RandomLayer, setting: Setting, kept: Sequence[int], bar: Bar) -> Track:
    """The published loop on covariances, kept apart from `flows` so that it can go on past the
    point where its matrix is no covariance."""
    cov = np.asarray(layer.measure.cov)
    spectra: list[np.ndarray] = [np.linalg.eigvalsh(cov)]
    layers = [0]
    outcome, negative = Outcome.done(), None
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(1, setting.layers + 1):
            half = setting.step * (layer.output @ cov) @ (layer.bilinear @ cov)
            change = half + half.T
            cov = cov + change
            if not np.isfinite(cov).all():
                outcome = _diverged(k)
                break
            if negative is None and not _positive_definite(cov):
                negative = k
            # The spectral norm is at least the Frobenius norm over √d, which costs less.
            frobenius, allowed = np.linalg.norm(change), setting.tolerance
            near = frobenius < allowed * len(change) ** 0.5
            small = near and np.linalg.norm(change, 2) < allowed
            if k in kept or small:
                spectra.append(np.linalg.eigvalsh(cov))
                layers.append(k)
            bar.update(k / setting.layers)
            if small:
                message = f"The covariance changed by less than {setting.tolerance:g} at layer {k}."
                outcome = Outcome("converged", message)
                break
    return _track("truncated map", layers, spectra, outcome, setting, negative)


def _on_tokens(
    layer: RandomLayer, setting: Setting, seed: int, kept: Sequence[int], bar: Bar, frozen: bool
) -> Track:
    """The same on tokens; with `frozen` the mean of the start acts in every layer."""
    points = np.asarray(layer.measure.sample(setting.samples, seed=seed + 1).points)
    start = np.asarray(layer.measure.mean)
    spectra, layers, outcome = [_spectrum(points)], [0], Outcome.done()
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(1, setting.layers + 1):
            mean = points.mean(axis=0)
            centered = points - mean
            cov = centered.T @ centered / len(points)
            linear = layer.output @ cov @ layer.bilinear
            shift = layer.output @ (start if frozen else mean)
            points = points + setting.step * (shift + points @ linear.T)
            if not np.isfinite(np.sum(points**2)):
                outcome = _diverged(k)
                break
            if k in kept:
                spectra.append(_spectrum(points))
                layers.append(k)
            bar.update(k / setting.layers)
    title = "tokens, mean of the start" if frozen else "tokens, exact layer"
    return _track(title, layers, spectra, outcome, setting)


def _spectrum(points: np.ndarray) -> np.ndarray:
    """Eigenvalues of the empirical covariance, from the tokens themselves: none is negative."""
    triangle = np.linalg.qr(points - points.mean(axis=0), mode="r")
    return np.linalg.svd(triangle, compute_uv=False)[::-1] ** 2 / len(points)


def _track(
    title: str, layers: Sequence[int], spectra: Sequence[np.ndarray], outcome: Outcome,
    setting: Setting, negative: int | None = None,
) -> Track:  # fmt: skip
    track = Track(title, tuple(layers), tuple(spectra), outcome, negative)
    last = spectra[-1]
    if last[0] < 0 or last[-1] > 1e6 * spectra[0][-1]:
        return track  # neither near nor comparable to a law of covariances
    start = MarchenkoPastur(scale=setting.dim**0.5)
    law, distance = fit_scale(last, start)
    assert isinstance(law, MarchenkoPastur)
    apart = kolmogorov_distance(last, start)
    return replace(track, law=law, distance=distance, start_distance=apart)


def _positive_definite(cov: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        return bool(np.linalg.eigvalsh(cov)[0] >= 0)
    return True


def _diverged(layer: int) -> Outcome:
    return Outcome("blow_up", f"The covariance left the range of floating point at layer {layer}.")
