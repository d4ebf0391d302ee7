"""Pages of Gaussian layers: verified, iterated, and spectra beside their laws."""

from __future__ import annotations

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
from metastable.report.page import Picture, Section, Table, count_verdicts, page, rows_table
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


def report_verification(result: Verification, folder: Path) -> Path:
    """Write `report.html`, `figures/` and `result.json` about a verification into a folder."""
    columns = ["way", "N", "mean", "covariance", "velocity", "tokens attended to"]
    rows = [
        [series.title, row.samples, row.mean, row.cov, row.velocity, row.effective]
        for series in (result.affine, result.calm, result.loud)
        for row in series.rows
    ]
    figures = {
        "samples": plot_sample_errors(result),
        "attention": plot_attention_errors(result),
        "tokens": plot_effective_tokens(result),
    }
    table = Table(columns, rows, "Relative errors, root mean squares over the repeats")
    text = (
        "Under attention a Gaussian stays Gaussian. The closed form is tested twice: by moving "
        "samples with its own affine map, which only tests arithmetic, and by genuine softmax "
        "attention among the samples. The second approaches it only where logits are small."
    )
    return _publish(
        folder,
        "A Gaussian layer against samples",
        judge_verification(result),
        [Section("Errors", [text, *map(Picture, figures.values()), table])],
        figures,
        result.to_dict(),
    )


def report_iterations(results: Sequence[Iteration], folder: Path) -> Path:
    """The same about iterations, a section each."""
    sections, figures = [], {}
    for iteration in results:
        figure = figures[iteration.setting.name] = plot_iteration(iteration)
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
            for track in iteration.tracks
        ]
        columns = ["track", "last layer", "smallest", "largest", "negative from layer"]
        columns += ["distance from Marchenko–Pastur", "from that of the start", "outcome"]
        sections.append(Section(iteration.setting.name, [Picture(figure), Table(columns, rows)]))
    data = {"iterations": [iteration.to_dict() for iteration in results]}
    comparison = judge_iterations(results)
    return _publish(folder, "Gaussian layers, iterated", comparison, sections, figures, data)


def report_spectra(results: Sequence[Spectrum], folder: Path) -> Path:
    """The same about spectra of random matrices."""
    figures = {"spectra": plot_spectra(list(results)), "distances": plot_distances(list(results))}
    sizes = results[0].sizes
    columns = ["name", "what", "law", "edge", *(f"n = {n}" for n in sizes), "outlier", "expected"]
    rows = [
        [
            spectrum.name,
            spectrum.told,
            type(spectrum.law).__name__,
            spectrum.law.edges[1],
            *spectrum.distances,
            float(spectrum.outliers[-1]) if spectrum.outliers.size else None,
            spectrum.outlier_expected,
        ]
        for spectrum in results
    ]
    table = Table(columns, rows, "Kolmogorov distances from the limit law, by size")
    section = Section("Spectra", [*map(Picture, figures.values()), table])
    data = {"spectra": [spectrum.to_dict() for spectrum in results]}
    title = "Spectra of random matrices"
    return _publish(folder, title, judge_spectra(results), [section], figures, data)


def report_fit(fits: Mapping[str, MatrixFit], folder: Path) -> Path:
    """The same about given matrices: each spectrum beside the law of a random matrix."""
    figures = {f"fit{k}": plot_fit(fit, name) for k, (name, fit) in enumerate(fits.items())}
    data = {name: fit.to_dict() for name, fit in fits.items()}
    rows = rows_table([{"matrix": name, **numbers} for name, numbers in data.items()])
    section = Section("Fits", [rows, *map(Picture, figures.values())])
    return _publish(folder, "Spectra of given matrices", None, [section], figures, data)


def _publish(
    folder: Path,
    title: str,
    comparison: Comparison | None,
    sections: list[Section],
    figures: Mapping[str, Figure],
    data: Mapping[str, Any],
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = () if comparison is None else comparison.rows
    if comparison is not None:
        data = {**data, "verdicts": comparison.to_dict()}
    (folder / "result.json").write_text(json.dumps(data), encoding="utf-8")
    sentence = f"Theory and what was observed: {count_verdicts(rows)}." if rows else ""
    path = folder / "report.html"
    return page(path, title, sentence=sentence, verdicts=rows, figures=figures, sections=sections)
