"""A thousand tiny steps."""

from __future__ import annotations

from dataclasses import replace

from metastable.comparison.random_matrices import SETTINGS, iterate
from metastable.core.verdict import judge
from metastable.report.figures.gaussian import plot_iteration
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.fits import fit_scale
from metastable.theory.matrices import MarchenkoPastur

ENTRY = Entry(
    title="A thousand tiny steps",
    places=["Figure 3.6", "Listing 3", "section 3.2.2, last attempt"],
    claim=(
        "With ε = 1e-5 and 1000 layers at d = 1024 the spectrum converges to a "
        "Marchenko–Pastur distribution, by covariances and by samples alike."
    ),
    method=(
        "The same at a smaller size with a step longer in proportion: the truncated map, the "
        "exact layer, tokens; and steps 20 times as long."
    ),
    subject="Gaussian",
    basis="text",
    limits="d = 256 instead of 1024, 1000 steps longer in proportion; one seed.",
    planted="MarchenkoPastur.ratio * 1.3",
    settings={"dim": 256, "keys": 320, "step": 4e-05, "layers": 1000, "samples": 4000},
    fast={"dim": 96, "keys": 120, "step": 0.0003, "layers": 200, "samples": 1500},
)


def tiny_steps(*, dim: int, keys: int, step: float, layers: int, samples: int) -> Finding:
    """A thousand tiny steps look like Marchenko–Pastur: the law of the start, hardly moved."""
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
    return Finding(rows, {"tiny": plot_iteration(found), "longer": plot_iteration(further)})
