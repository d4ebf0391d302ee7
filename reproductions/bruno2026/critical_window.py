"""The critical window of a long context."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import uniform
from metastable.observe.context import attention_rows
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.context import critical_beta, window_law

ENTRY = Entry(
    title="The critical window of a long context",
    places=["arXiv:2605.08505, abstract"],
    claim=(
        "Among n uniform keys on S^(d−1) attention becomes selective at β of order n^(2/(d−1)): "
        "below it a token sees a local average, at it finitely many nearest keys keep mass, above "
        "it one key has all."
    ),
    method=(
        "Sample rows of attention among uniform tokens at β = λ n^(2/(d−1)) and compare Σw² and "
        "the largest weight with the limit law, a Poisson process derived here. The paper was read "
        "as its abstract."
    ),
    subject="long context",
    basis="abstract",
    limits=(
        "Two dimensions and one number of tokens; the limit law is derived here and was not "
        "compared with the constants of the paper."
    ),
    planted="attention_rows.beta * 1.3",
    settings={"tokens": 100000, "rows": 2000, "scales": [0.05, 0.25, 0.5, 1.0, 3.0]},
    fast={"rows": 400},
)


def critical_window(*, tokens: int, rows: int, scales: list[float]) -> Finding:
    """Σw² and max w of sampled rows on S² and S³ against the law of the window."""
    verdicts, curves, laws = [], {}, {}
    across = np.geomspace(min(scales) / 2, 2 * max(scales), 40)
    for dim, name in ((3, "S²"), (4, "S³")):
        measure = uniform(tokens, dim, seed=dim)
        samples = [
            attention_rows(measure, critical_beta(dim, tokens, scale), rows=rows)
            for scale in scales
        ]
        for scale, sample in zip(scales, samples, strict=True):
            law = window_law(scale, dim)
            for key, label in (("participation", "E Σw²"), ("largest", "E max w")):
                expected = getattr(law, key)
                allowed = max(0.01 * expected, 4 * float(sample.error[key]))
                verdicts.append(
                    judge(f"{label} on {name} at λ = {scale:g}", "bruno2026scaling",
                          expected, float(sample.mean[key]), absolute=allowed)
                )  # fmt: skip
        means = [sample.mean["participation"] for sample in samples]
        errors = [sample.error["participation"] for sample in samples]
        curves[name] = (scales, means, errors)
        laws[f"law on {name}"] = (across, [window_law(s, dim).participation for s in across])
    below, above = (window_law(scale, 3).largest for scale in (1e-4, 1e4))
    verdicts.append(
        holds("the law leaves the window to a mean below and to one token above",
              "bruno2026scaling", below < 1e-3 and above > 0.999, "max w from 0 to 1",
              f"{below:.1e} to {above:.6f}")
    )  # fmt: skip
    caption = f"Sum of squared weights of {rows} rows among {tokens} uniform tokens."
    axes = ("λ, β = λ n^(2/(d−1))", "E Σw²")
    return Finding(verdicts, {"window": plot_lines(curves, *axes, caption, theory=laws, log="xy")})
