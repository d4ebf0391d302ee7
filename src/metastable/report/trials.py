"""Pages of the Gaussian trials."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.core.figure import Figure
from metastable.core.verdict import Comparison
from metastable.report.figures.gaussian import (
    plot_attention_errors,
    plot_distances,
    plot_effective_tokens,
    plot_fit,
    plot_iteration,
    plot_sample_errors,
    plot_spectra,
)
from metastable.report.page import Block, Picture, Section, Table, rows_table, write_page
from metastable.report.svg import save_figure
from metastable.theory.fits import MatrixFit
from metastable.trials import (
    Iteration,
    Spectrum,
    Verification,
    judge_iterations,
    judge_spectra,
    judge_verification,
)

__all__ = ["report_fit", "report_iterations", "report_spectra", "report_verification"]


def report_verification(found: Verification, folder: Path) -> Path:
    """Write `report.html`, `figures/` and `result.json` about a verification into a folder."""
    columns = ["way", "N", "mean", "covariance", "velocity", "tokens attended to"]
    rows = [
        [series.title, row.samples, row.mean, row.cov, row.velocity, row.effective]
        for series in (found.affine, found.calm, found.loud)
        for row in series.rows
    ]
    figures = {
        "samples": plot_sample_errors(found),
        "attention": plot_attention_errors(found),
        "tokens": plot_effective_tokens(found),
    }
    table = Table(columns, rows, "Relative errors, root mean squares over the repeats")
    told = (
        "Under attention a Gaussian stays Gaussian. The closed form is tested twice: by moving "
        "samples with its own affine map, which only tests arithmetic, and by genuine softmax "
        "attention among the samples. The second approaches it only where logits are small."
    )
    return _publish(
        folder,
        "A Gaussian layer against samples",
        judge_verification(found),
        [Section("Errors", [told, *map(Picture, figures.values()), table])],
        figures,
        found.to_dict(),
    )


def report_iterations(found: Sequence[Iteration], folder: Path) -> Path:
    """The same about iterations, one section each."""
    sections, figures = [], {}
    for one in found:
        figure = figures[one.setting.name] = plot_iteration(one)
        rows = [
            [
                track.title,
                track.layers[-1],
                float(track.eigenvalues[-1][0]),
                float(track.eigenvalues[-1][-1]),
                track.negative_at,
                track.distance,
                track.start_distance,
                track.outcome.message,
            ]
            for track in one.tracks
        ]
        columns = ["track", "last layer", "smallest", "largest", "negative from layer"]
        columns += ["distance from Marchenko–Pastur", "from that of the start", "outcome"]
        sections.append(Section(one.setting.name, [Picture(figure), Table(columns, rows)]))
    data = {"iterations": [one.to_dict() for one in found]}
    judged = judge_iterations(found)
    return _publish(folder, "Gaussian layers, iterated", judged, sections, figures, data)


def report_spectra(found: Sequence[Spectrum], folder: Path) -> Path:
    """The same about spectra of random matrices."""
    figures = {"spectra": plot_spectra(list(found)), "distances": plot_distances(list(found))}
    sizes = found[0].sizes
    columns = ["name", "what", "law", "edge", *(f"n = {n}" for n in sizes), "outlier", "expected"]
    rows = [
        [
            one.name,
            one.told,
            type(one.law).__name__,
            one.law.edges[1],
            *one.distances,
            float(one.outliers[-1]) if one.outliers.size else None,
            one.outlier_expected,
        ]
        for one in found
    ]
    table = Table(columns, rows, "Kolmogorov distances from the limit law, by size")
    section = Section("Spectra", [*map(Picture, figures.values()), table])
    data = {"spectra": [one.to_dict() for one in found]}
    title = "Spectra of random matrices"
    return _publish(folder, title, judge_spectra(found), [section], figures, data)


def report_fit(fits: Mapping[str, MatrixFit], folder: Path) -> Path:
    """The same about given matrices: each spectrum beside the law of a random matrix."""
    figures = {f"fit{k}": plot_fit(fit, name) for k, (name, fit) in enumerate(fits.items())}
    data = {name: fit.to_dict() for name, fit in fits.items()}
    rows = rows_table([{"matrix": name, **told} for name, told in data.items()])
    section = Section("Fits", [rows, *map(Picture, figures.values())])
    return _publish(folder, "Spectra of given matrices", None, [section], figures, data)


def _publish(
    folder: Path,
    title: str,
    judged: Comparison | None,
    sections: list[Section],
    figures: Mapping[str, Figure],
    data: Mapping[str, Any],
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lead: list[Block] = []
    if judged is not None:
        lead = [rows_table([dataclasses.asdict(row) for row in judged.rows], "Verdicts")]
        data = {**data, "verdicts": judged.to_dict()}
    (folder / "result.json").write_text(json.dumps(data), encoding="utf-8")
    for name, figure in figures.items():
        save_figure(figure, folder / "figures", name)
    return write_page(folder / "report.html", title, *sections, lead=lead)
