"""Layer after layer on one Gaussian, as published and with the exact layer beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metastable.comparison.verdict import judge
from metastable.reproduce.finding import Finding, holds
from metastable.theory.fits import fit_scale
from metastable.theory.gaussian import longest_truncated_step
from metastable.theory.matrices import MarchenkoPastur
from metastable.trials import SETTINGS, Track, iterate
from metastable.trials.draws import draw_layer

__all__ = ["exploding_layers", "negative_eigenvalues", "tiny_steps"]


def exploding_layers(*, samples: int, seeds: int) -> Finding:
    """Five and seven layers of standard matrices, and of smaller d with larger d_k."""
    from metastable.report.gaussians import draw_iteration

    first = iterate(replace(SETTINGS["explosion"], samples=samples), progress=False)
    fewer = replace(SETTINGS["more-keys"], samples=samples)
    second = [iterate(fewer, seed, progress=False) for seed in range(seeds)]
    ends = [track.layers[-1] for track in first.tracks]
    gap = _top(first.exact, 5) - np.median([_top(one.exact, 5) for one in second])
    apart = [
        abs(_top(track, 4) - _top(first.exact, 4)) / _top(first.exact, 4)
        for track in first.tracks
    ]  # fmt: skip
    rows = [
        holds("the spectrum leaves floating point by the seventh layer, d = 300, d_k = 128",
              "section 3.2.1", all(t.outcome.name == "blow_up" for t in first.tracks),
              "no eigenvalues after layer 7", f"last finite layer {max(ends)}"),
        judge("orders of magnitude between it and d = 30, d_k = 1280 after 5 layers",
              "section 3.2.1, some 30", 30.0, float(gap), absolute=15.0),
        holds("the explosion is no effect of sampling: tokens against covariances, layer 4",
              "section 3.2.2", max(apart) < 0.1, "powers of ten within 10 %",
              f"within {100 * max(apart):.2g} %"),
        holds("no eigenvalue of the exact layer is negative", "derived",
              all(v[0] >= 0 for one in (first, *second) for v in one.exact.eigenvalues),
              "none", "none" if first.exact.eigenvalues[-1][0] >= 0 else "some"),
    ]  # fmt: skip
    figures = {"standard": draw_iteration(first), "more-keys": draw_iteration(second[0])}
    return Finding(rows, figures)


def negative_eigenvalues(*, seeds: int) -> Finding:
    """Steps of 0.01: the exact layer keeps a covariance, the truncated map does not."""
    from metastable.report.gaussians import draw_iteration
    from metastable.report.plots import draw_lines

    short = [iterate("small-step", seed, progress=False) for seed in range(seeds)]
    found = [iterate("negative", seed, progress=False) for seed in range(seeds)]
    later = iterate("negative-later", 0, progress=False)
    grown = max(t.eigenvalues[-1][-1] / t.eigenvalues[0][-1] for one in short for t in one.tracks)
    bad = [sum(int(np.sum(v < 0)) for v in one.exact.eigenvalues) for one in found]
    lost = [one.published.negative_at for one in found]
    foretold = [_first_loss(seed) for seed in range(seeds)]
    deepest = min(float(v[0]) for v in later.published.eigenvalues)
    when = next(
        layer
        for layer, v in zip(later.published.layers, later.published.eigenvalues, strict=True)
        if v[0] < -1e5
    )
    rows = [
        holds("25 discrete layers of step 0.01 have negative eigenvalues: the step is long",
              "section 3.2.2", sum(bad) > 0, "some", f"{sum(bad)} in {seeds} runs of the layer"),
        holds("the truncated map has them: runs that lost positive definiteness",
              "Listing 3, first-order terms only", np.mean([k is not None for k in lost]) >= 0.75,
              "most", f"{sum(k is not None for k in lost)} of {seeds}"),
        holds("each at the layer where the step exceeds −1/λ_min of (BΣ + ΣBᵀ, Σ)", "derived",
              lost == foretold, f"layers {foretold}", f"layers {lost}"),
        holds("5 layers are contained", "section 3.2.2", grown < 1.2,
              "largest eigenvalue grows by less than 20 %", f"× {grown:.3f}"),
        holds("negative eigenvalues then grow as the positive ones, past −1e5", "section 3.2.2",
              deepest < -1e5, "below −1e5", f"{deepest:.1e}, past −1e5 at layer {when}"),
    ]  # fmt: skip
    curves = {"truncated": found[0].published, "exact": found[0].exact}
    smallest = draw_lines(
        {name: (t.layers, [v[0] for v in t.eigenvalues]) for name, t in curves.items()},
        "layer",
        "smallest eigenvalue",
        "The smallest eigenvalue of the covariance, d = 30, d_k = 1280, step 0.01.",
        lines=True,
    )
    figures = {
        "smallest": smallest, "small-step": draw_iteration(short[0]),
        "negative": draw_iteration(found[0]), "later": draw_iteration(later),
    }  # fmt: skip
    return Finding(rows, figures)


def _first_loss(seed: int, layers: int = 25, step: float = 0.01) -> int | None:
    """The layer after which the truncated map has lost positive definiteness, foretold."""
    layer = draw_layer(30, 1280, seed=seed)
    cov = np.asarray(layer.measure.cov)
    for k in range(1, layers + 1):
        linear = layer.output @ cov @ layer.bilinear
        if step > longest_truncated_step(cov, linear):
            return k
        cov = cov + step * (linear @ cov + cov @ linear.T)
    return None


def tiny_steps(*, dim: int, keys: int, step: float, layers: int, samples: int) -> Finding:
    """A thousand tiny steps look like Marchenko–Pastur: the law of the start, hardly moved."""
    from metastable.report.gaussians import draw_iteration

    setting = replace(
        SETTINGS["marchenko-pastur"], dim=dim, keys=keys, step=step, layers=layers,
        samples=samples, tolerance=0.0,
    )  # fmt: skip
    found = iterate(setting, tokens=True, spectra=6, progress=False)
    further = iterate(replace(setting, step=20 * step), tokens=False, spectra=6, progress=False)
    tracks = {"truncated": found.published, "exact": found.exact, "tokens": found.sampled}
    # The truncated map may have lost a tiny eigenvalue to below 0; the law is fitted all the same.
    law = MarchenkoPastur(scale=dim**0.5)
    distances = {
        name: fit_scale(track.eigenvalues[-1], law)[1]
        for name, track in tracks.items()
        if track is not None
    }
    tops = [track.eigenvalues[-1][-1] for track in tracks.values() if track is not None]
    start = float(found.exact.eigenvalues[0][-1])
    left = further.exact.start_distance
    rows = [
        holds("the last spectrum is that of Marchenko and Pastur: distance of the covariances",
              "section 3.2.2, last attempt", distances["truncated"] < 0.03, "below 0.03",
              distances["truncated"]),
        holds("so is that of the samples", "Figure 3.6", distances["tokens"] < 0.03,
              "below 0.03", distances["tokens"]),
        judge("largest eigenvalue of the covariances, against that of the samples", "Figure 3.6",
              float(tops[1]), float(tops[2]), relative=0.1),
        judge("largest eigenvalue against that of the start: so short a time moves little",
              "derived", start, float(tops[1]), relative=0.1),
        holds("with steps 20 times as long the spectrum leaves the law: it was no limit",
              "derived", left is None or left > 2 * (found.exact.start_distance or 0),
              "further away", "blown up" if left is None else left),
    ]  # fmt: skip
    return Finding(rows, {"tiny": draw_iteration(found), "longer": draw_iteration(further)})


def _top(track: Track, layer: int) -> float:
    """Power of ten of the largest eigenvalue at a layer."""
    return float(np.log10(track.eigenvalues[track.layers.index(layer)][-1]))
