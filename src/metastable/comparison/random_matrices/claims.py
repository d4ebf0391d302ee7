"""What theory claims of random layers and spectra, as verdict rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from metastable.comparison.random_matrices.draws import draw_layer
from metastable.comparison.random_matrices.iteration import Iteration
from metastable.comparison.random_matrices.spectra import Spectrum
from metastable.comparison.random_matrices.verification import Verification
from metastable.core.verdict import AGREE, DISAGREE, Comparison, Verdict, judge, not_applicable
from metastable.theory.gaussian import longest_truncated_step

# Relative errors printed for one unstated draw of d = 300, d_k = 128, N = 20 000.
PRINTED = {(300, 128, 20_000): (2.49e-2, 5.32e-2)}


def judge_verification(found: Verification) -> Comparison:
    """The 1/√N law with its constants, its slope under genuine attention, and where it fails."""
    affine, calm, loud = found.affine, found.calm, found.loud
    rows = [judge("errors inside their 95 % band", "derived", 0.95, affine.covered, absolute=0.1)]
    slopes = [(affine, name) for name in ("mean", "cov")]
    slopes += [(calm, name) for name in ("mean", "cov", "velocity")]
    for series, name in slopes:
        claim = f"{series.title}: exponent of N in the error, {name}"
        # Few repeats in few dimensions leave the exponent less certain than the 0.06 it is held to.
        allowed = max(0.06, 3 * series.slope_error(name))
        rows.append(judge(claim, "1/√N", -0.5, series.slope(name), absolute=allowed))
    last = affine.rows[-1]
    printed = PRINTED.get((affine.dim, affine.keys, last.samples), ())
    for name, value in zip(("mean", "cov"), printed, strict=False):
        claim, seen = f"relative error, {name}, as printed for another draw", getattr(last, name)
        rows.append(judge(claim, "ponti2025gaussian, section 3.2", value, seen, relative=0.5))
    for series in (calm, loud):
        row = series.rows[-1]
        expected, seen = row.effective_expected, row.effective
        assert expected is not None and seen is not None
        claim = f"{series.title}: tokens attended to, of {row.samples}"
        source, logarithm = "derrida1981random", math.log(row.samples)
        if logarithm / 2 < series.deviation**2 < 8 * logarithm:
            reason = "logits near the freezing transition, where theory gives no more than an order"
            rows.append(not_applicable(claim, source, reason))
            continue
        rows.append(judge(claim, source, expected, seen, relative=0.5))
    return Comparison(tuple(rows), "none")


def judge_iterations(found: Iterable[Iteration]) -> Comparison:
    """Whether each track did what its map must do."""
    rows = []
    for one in found:
        name, exact = one.setting.name, one.exact
        negative = sum(int(np.sum(values < 0)) for values in exact.eigenvalues)
        claim = f"{name}: negative eigenvalues of the exact layer"
        rows.append(judge(claim, "derived", 0, negative, absolute=0))
        if one.setting.by == "truncated":
            layer = draw_layer(one.setting.dim, one.setting.keys, seed=one.seed)
            cov = np.asarray(layer.measure.cov)
            longest = longest_truncated_step(cov, layer.output @ cov @ layer.bilinear)
            safe, kept = one.setting.step <= longest, one.published.negative_at != 1
            claim = f"{name}: the truncated map keeps a covariance at layer 1"
            reason = f"it does up to a step of {longest:.2g}; this one is {one.setting.step:g}"
            verdict = AGREE if safe == kept else DISAGREE
            rows.append(Verdict(claim, "derived", safe, kept, "exact", verdict, reason))
        if one.sampled is not None:
            claim = f"{name}: last layer of the tokens, against that of the covariance"
            ends = exact.layers[-1], one.sampled.layers[-1]
            rows.append(judge(claim, "same map", *ends, absolute=1))
    return Comparison(tuple(rows), "none")


def judge_spectra(found: Sequence[Spectrum]) -> Comparison:
    """Whether every distance falls with n, and outliers stand where they must."""
    rows = []
    for one in found:
        if len(one.sizes) > 1:
            falls = all(a > b for a, b in zip(one.distances, one.distances[1:], strict=False))
            claim = f"{one.name}: distance from the law falls with n"
            ends = f"below {one.distances[0]:.3g}", one.distances[-1]
            verdict = AGREE if falls else DISAGREE
            rows.append(Verdict(claim, "limit law", *ends, "at every size", verdict))
        if one.outlier_expected is None:
            count = one.outliers.size
            rows.append(judge(f"{one.name}: outliers", "limit law", 0, count, absolute=0))
        else:
            seen = float(one.outliers[-1]) if one.outliers.size == 1 else math.nan
            expected = one.outlier_expected
            rows.append(judge(f"{one.name}: the outlier", "nμ", expected, seen, relative=0.01))
    return Comparison(tuple(rows), "none")
