"""Theory as tables, for a page that has no Python behind it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from metastable import __version__
from metastable.explorer.presets import presets
from metastable.explorer.standalone import computing_page
from metastable.theory.bessel import log_reduced_bessel
from metastable.theory.counts import count_distribution, fewest_tokens
from metastable.theory.regimes import single_cluster_theorem
from metastable.theory.spectrum import log_growth_rates

MODES = 64
LEAST, MOST, A_DECADE = 0.01, 1000.0, 16  # of β: rates, a power of β below
COUNTED, COUNTS_A_DECADE = 0.5, 10  # of β: distributions of first clusters, from here on
TOKENS = (100, 1500)
SAMPLES = {2: 300, 3: 150}  # starts behind each distribution that is sampled
LIMITS = {"tokens": 1500, "dim": 3, "horizon": 10_000, "frames": 2000}
STARTS = ("uniform", "tokens", "von_mises_fisher")


def write_page(file: Path, samples: dict[int, int] | None = None) -> Path:
    """Write the explorer as one HTML file that computes by itself, and return its path.

    `samples` random starts for each dimension make each distribution of first clusters (`SAMPLES`
    if not given). Some seconds of work; 1.3 MB.
    """
    page = computing_page(page_tables(samples or SAMPLES))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
    return file


def page_tables(samples: dict[int, int]) -> dict[str, Any]:
    """Everything the page holds: version, limits, presets it can run, theory by dimension."""
    causal = single_cluster_theorem(1.0, 2, tokens=10**6, causal=True)
    assert causal is not None
    return {
        "version": __version__,
        "limits": LIMITS,
        "presets": [preset for preset in presets() if _runs(preset["spec"])],
        "per_mode": fewest_tokens(1e-3, 2),  # tokens a mode needs: there is one mode at small β
        "causal": _stated(causal),
        "tables": {dim: _table(dim, samples[dim]) for dim in (2, 3)},
    }


def _table(dim: int, samples: int) -> dict[str, Any]:
    """Rates of SA, the ratio of both clocks, and counts, on grids of β even in its logarithm."""
    beta, counted = _grid(LEAST, A_DECADE), _grid(COUNTED, COUNTS_A_DECADE)
    clock = log_reduced_bessel(dim / 2 - 1, np.zeros(1, int), beta[:, None])[:, 0]
    theorem = single_cluster_theorem(1.0, dim, tokens=10**6)
    assert theorem is not None
    return {
        "beta": _short(beta),
        "log_rates": [_short(row) for row in log_growth_rates(beta, dim, MODES)],
        "log_clock": _short(clock),
        "counted": _short(counted),
        "tokens": list(TOKENS),
        "counts": [[_law(float(b), dim, n, samples) for n in TOKENS] for b in counted],
        "theorem": _stated(theorem),
    }


def _law(beta: float, dim: int, tokens: int, samples: int) -> dict[int, float] | None:
    """Probabilities of the first counts, None where tokens are too few for the law."""
    if tokens < fewest_tokens(beta, dim):
        return None
    law = count_distribution(beta, dim, tokens, samples=samples).counts
    return {count: round(share, 4) for count, share in law.items() if share >= 5e-4}


def _grid(least: float, a_decade: int) -> np.ndarray:
    return np.geomspace(least, MOST, 1 + round(a_decade * math.log10(MOST / least)))


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.8g}") for value in values]


def _stated(theorem: Any) -> str:
    return f"{theorem.name}: {theorem.statement} [{theorem.source}]"


def _runs(spec: dict[str, Any]) -> bool:
    """Whether the page can run a preset: one head with Q = K = I, V = ±I, and perhaps noise."""
    measure, field, flow = spec["measure"], spec["field"], spec["flow"]
    heads = [part for part in (field if isinstance(field, list) else [field])]
    heads = [part for part in heads if part["kind"] != "noise"]
    dim = measure.get("dim") or len(measure.get("centre", ()))
    return (
        measure["kind"] in STARTS
        and dim <= LIMITS["dim"]
        and measure.get("tokens", 0) <= LIMITS["tokens"]
        and [part["kind"] for part in heads] == ["self_attention"]
        and not any(key in heads[0] for key in ("query", "key"))
        and heads[0].get("value", 1.0) in (1.0, -1.0)
        and "stepper" not in flow
    )
