"""Gaussian studies carried out: facts, verdicts, data and figures of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metastable.comparison.random_matrices.claims import (
    judge_iterations,
    judge_spectra,
    judge_verification,
)
from metastable.comparison.random_matrices.iteration import SETTINGS, Iteration, iterate
from metastable.comparison.random_matrices.spec import (
    FitMatrices,
    GaussianStudy,
    Iterate,
    Spectra,
    Verify,
)
from metastable.comparison.random_matrices.spectra import Spectrum, spectra
from metastable.comparison.random_matrices.verification import Verification, verify
from metastable.core.answer import Answer
from metastable.core.outcome import Outcome
from metastable.core.verdict import Comparison
from metastable.theory.fits import MatrixFit, fit_matrix

LARGEST = 1000  # dimension from which a setting takes minutes and runs when it is asked for


def run_study(
    spec: GaussianStudy, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `GaussianStudy`. It leaves no checkpoints."""
    study, seed = spec.study, spec.seed
    match study:
        case Verify():
            sizes = study.model_dump(exclude={"kind"})
            return answer_verification(verify(**sizes, seed=seed, progress=progress))
        case Iterate():
            return _iterate(study, seed, progress)
        case Spectra():
            sizes = [max(study.size // k, 2) for k in (30, 10, 3, 1)]
            return answer_spectra(spectra(study.ensembles, sizes, seed, progress=progress))
        case FitMatrices():
            return answer_fits({file: fit_matrix(_read_matrix(file)) for file in study.files})


def answer_verification(result: Verification) -> Answer:
    """A verification as an answer."""
    parts = {"affine": result.affine, "calm": result.calm, "loud": result.loud}
    names = ("samples", "mean", "cov", "velocity", "effective", "effective_expected")
    rows = [
        {
            "way": series.title,
            "N": row.samples,
            "mean": row.mean,
            "covariance": row.cov,
            "velocity": row.velocity,
            "tokens attended to": row.effective,
        }
        for series in parts.values()
        for row in series.rows
    ]
    data = {
        part: {n: np.array([getattr(row, n) for row in series.rows], float) for n in names}
        for part, series in parts.items()
    }
    for name in ("mean_each", "cov_each"):
        data["affine"][name] = np.array([getattr(row, name) for row in result.affine.rows])
    figures = {"samples": result, "attention": result, "tokens": result}
    judged = judge_verification(result)
    slope = f"N^{result.calm.slope('cov'):.2f}"
    sentence = (
        f"Attention approaches the closed form of a Gaussian layer by {slope} where logits are "
        f"small, and {judged.count('disagree')} of {len(judged.rows)} claims fail."
    )
    return Answer(
        Outcome("done", "Every sample was moved."),
        {"relative errors, root mean squares over the repeats": rows},
        judged.rows,
        data,
        figures,
        sentence,
    )


def answer_iterations(results: Sequence[Iteration], outcome: Outcome | None = None) -> Answer:
    """Iterated layers as an answer: a table and a figure for each setting."""
    facts = {
        result.setting.name: [
            {
                "track": track.title,
                "last layer": track.layers[-1],
                "smallest": float(track.eigenvalues[-1][0]),
                "largest": float(track.eigenvalues[-1][-1]),
                "negative from layer": track.negative_at,
                "distance from Marchenko–Pastur": track.distance,
                "from that of the start": track.start_distance,
                "outcome": track.outcome.message,
            }
            for track in result.tracks
        ]
        for result in results
    }
    data = {
        f"{result.setting.name}, {track.title}": {
            "layers": np.array(track.layers),
            "eigenvalues": np.array(track.eigenvalues),
        }
        for result in results
        for track in result.tracks
    }
    return Answer(
        outcome or Outcome("done", "Every setting was iterated."),
        facts,
        judge_iterations(results).rows,
        data,
        {result.setting.name: result for result in results},
        _counted("Gaussian layers iterated as published and exactly", judge_iterations(results)),
    )


def answer_spectra(results: Sequence[Spectrum]) -> Answer:
    """Spectra of random matrices as an answer."""
    rows = [
        {
            "name": result.name,
            "what": result.description,
            "law": type(result.law).__name__,
            "edge": result.law.edges[1],
            **{f"n = {n}": d for n, d in zip(result.sizes, result.distances, strict=True)},
            "outlier": float(result.outliers[-1]) if result.outliers.size else None,
            "expected": result.outlier_expected,
        }
        for result in results
    ]
    judged = judge_spectra(results)
    return Answer(
        Outcome("done", "Every matrix was drawn."),
        {"Kolmogorov distances from the limit law, by size": rows},
        judged.rows,
        {result.name: {"values": result.values} for result in results},
        {"spectra": list(results), "distances": list(results)},
        _counted("Spectra of random matrices beside their limit laws", judged),
    )


def answer_fits(fits: Mapping[str, MatrixFit]) -> Answer:
    """Fits of given matrices as an answer: each spectrum beside the law of a random matrix."""
    listed = ", ".join(f"{fit.fitted_distance:.3g} from {name}" for name, fit in fits.items())
    return Answer(
        Outcome("done", "Every matrix was fitted."),
        {name: fit.to_dict() for name, fit in fits.items()},
        data={name: {"values": fit.values} for name, fit in fits.items()},
        figures={f"fit{k}": fit for k, fit in enumerate(fits.values())},
        sentence=f"Distance of the nearest law of a random matrix: {listed}.",
    )


def _iterate(study: Iterate, seed: int, progress: bool | None) -> Answer:
    names = study.settings or [n for n, s in SETTINGS.items() if s.dim < LARGEST]
    results = []
    try:
        for name in names:
            result = iterate(
                name, seed, tokens=study.tokens, spectra=study.spectra, progress=progress
            )
            results.append(result)
    except KeyboardInterrupt:
        if not results:
            raise
        message = f"Interrupted after {len(results)} of {len(names)} settings; those are kept."
        return answer_iterations(results, Outcome("interrupted", message))
    return answer_iterations(results)


def _counted(what: str, judged: Comparison) -> str:
    return f"{what}: {judged.count('agree')} claims agree, {judged.count('disagree')} do not."


def _read_matrix(file: str) -> Any:
    try:
        return np.load(file, allow_pickle=False)
    except (EOFError, ValueError) as error:  # empty, and not NumPy's
        raise ValueError(
            f"--matrix must be an array saved by NumPy (.npy); got {file} ({error}): save it with "
            "numpy.save."
        ) from None
