"""A feed-forward layer against attention on the circle: does it keep, move or replace clusters?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import iv

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.core.result import Answer
from metastable.fields import FeedForward, Field, SelfAttention
from metastable.flows.ensemble import TokenForm, flow_ensemble
from metastable.learn.curves import Chart, Curves, make_answer
from metastable.learn.spec import FeedForwardMap
from metastable.measures import Points
from metastable.observe import kernel_modes
from metastable.theory.perturbation import (
    balanced_strength,
    perturbed_rates,
    pinning_strength,
    rate_shift,
    tearing_strength,
)


@dataclasses.dataclass(frozen=True, eq=False)
class WellMap:
    """What random starts became at the horizon; all arrays are (betas, strengths).

    - `counts`: mean number of clusters (maxima of the potential); `alone` (betas,): without layer.
    - `aligned`: mean over starts of Re μ̂_m. Zero where chance places the clusters, 1 where all
      tokens sit in the wells.
    - `order`: mean of |μ̂_m|, which is large wherever m clusters form, placed or not.
    - `done`: False where Ctrl-C ended it; what was not run is NaN.
    """

    wells: int
    betas: np.ndarray
    strengths: np.ndarray
    counts: np.ndarray
    alone: np.ndarray
    aligned: np.ndarray
    order: np.ndarray
    done: bool = True


def well_layer(strength: Any, wells: int) -> FeedForward:
    """A feed-forward layer w exp(ax), w ∝ aᵀ, that pulls tokens of the circle into m equal wells.

    Its neurons look in m directions evenly around the circle, with gain g = m³/100. The potential
    is (c/g) Σ_j e^{g⟨a_j,x⟩} = const + ε cos mθ + …, with c = εg/(2m I_m(g)): wells contract at
    rate εm². The next wave, cos 2mθ, bends it by less than 1 % of that.

    >>> layer = well_layer(0.25, 2)
    >>> layer.velocity(Points([[2**-0.5, 2**-0.5]])).round(3).tolist()  # −ε m sin 2θ at θ = π/4
    [[0.354, -0.354]]
    """
    m = checks.integer("wells", wells, 1)
    angles = 2 * np.pi * np.arange(m) / m
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    gain = m**3 / 100
    scale = gain / (2 * m * iv(m, gain))
    return FeedForward(strength * scale * directions.T, gain * directions, activation=jnp.exp)


def map_feedforward(
    betas: Sequence[float],
    strengths: Sequence[float],
    wells: int,
    *,
    tokens: int = 128,
    starts: int = 16,
    horizon: float = 8.0,
    seed: int = 0,
    progress: bool | None = None,
) -> WellMap:
    """Run independent uniform starts under attention and a `well_layer`, for every pair (β, ε).

    Time is that of SA. Expected, with ε_c = I_m(β)/(β I_0(β)): below 2ε_c/√n the layer changes
    nothing; up to ε_c it moves the clusters of attention; above, clusters are those of the layer
    (`theory.perturbation`).
    """
    hot, strong = np.asarray(betas, float), np.asarray(strengths, float)
    shape = len(hot), len(strong)
    counts, aligned, order = (np.full(shape, np.nan) for _ in range(3))
    alone = np.full(len(hot), np.nan)
    keys = jax.random.split(jax.random.key(checks.seed(seed)), starts)
    start = TokenForm(SelfAttention(1.0), rate=1.0).start(keys, tokens, 2)
    # One rate for the whole map, or every cell would be compiled anew.
    rate = float(2 ** np.ceil(np.log2(1 + 1.5 * wells**2 * strong.max())))
    done = True
    with Bar("feed-forward map", progress) as bar:
        try:
            for cell in range(shape[0] * (shape[1] + 1)):
                i, j = divmod(cell, shape[1] + 1)
                strength = 0.0 if j == 0 else float(strong[j - 1])
                field = SelfAttention(float(hot[i])) + well_layer(strength, wells)
                ends = _ends(field, start, horizon, rate)
                count = np.mean([int(kernel_modes(Points(x), float(hot[i]))) for x in ends])
                if j == 0:
                    alone[i] = count
                    continue
                wave = np.mean((ends[..., 0] + 1j * ends[..., 1]) ** wells, axis=1)
                counts[i, j - 1] = count
                aligned[i, j - 1], order[i, j - 1] = wave.real.mean(), np.abs(wave).mean()
                bar.update((cell + 1) / (shape[0] * (shape[1] + 1)))
        except KeyboardInterrupt:
            done = False
    return WellMap(wells, hot, strong, counts, alone, aligned, order, done)


def spread_of_cluster(
    strength: float, wells: int, beta: float = 5.0, horizon: float = 2.0, width: float = 1e-4
) -> float:
    """Growth rate of the width of a tight cluster on the hilltop between two wells (SA clock).

    Theory: εm² − 1. Measured: log of the ratio of two widths, over the time between them.
    """
    top = np.pi / wells
    angles = top + width * np.linspace(-1, 1, 9)
    start = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1))[None]
    field = SelfAttention(beta) + well_layer(strength, wells)
    ends = _ends(field, start, horizon, 64.0)[0]
    turned = np.angle((ends[:, 0] + 1j * ends[:, 1]) * np.exp(-1j * top))
    return float(np.log(np.std(turned) / np.std(angles)) / horizon)


def learn_feedforward(
    spec: FeedForwardMap, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `FeedForwardMap`: the map of runs with the lines of theory over it."""
    m, strengths = spec.wells, np.geomspace(*spec.strengths, spec.points)
    how: dict[str, Any] = spec.model_dump(include={"tokens", "starts", "horizon", "seed"})
    wells = map_feedforward(spec.betas, strengths.tolist(), m, progress=progress, **how)
    balance = np.array([balanced_strength(b, m) for b in spec.betas])
    pinning = np.array([pinning_strength(b, m, spec.tokens) for b in spec.betas])
    lines = {
        "pinned above, 2ε_c/√n": (np.log10(pinning), wells.betas),
        "ruled by the layer above, ε_c": (np.log10(balance), wells.betas),
    }
    setting = (
        f"{m} well{'s' if m > 1 else ''}, {spec.tokens} tokens, t = {spec.horizon:g} (SA clock)."
    )

    def chart(value: str, values: np.ndarray, caption: str) -> Chart:
        axes = "log₁₀ of the strength ε", "inverse temperature β"
        places = np.log10(strengths), wells.betas
        return Chart(*axes, value, *places, values, lines, f"{caption} {setting}")

    asked = "Whether the wells say where clusters are: 0 is chance, 1 is the wells."
    figures: dict[str, Chart | Curves] = {
        "counts": chart("mean number of clusters", wells.counts, "How many clusters there are."),
        "aligned": chart("alignment Re μ̂_m", wells.aligned, asked),
    }
    facts: dict[str, Any] = {
        "wells m": m,
        "tokens": spec.tokens,
        "starts": spec.starts,
        "β": list(spec.betas),
        "ε_c = λ_m/m²": balance.tolist(),
        "pinning 2ε_c/√n": pinning.tolist(),
        "tearing 1/m²": tearing_strength(m),
    }
    sentence = f"A layer with {m} wells rules attention above ε_c, from {balance.min():.3g} on."
    if not wells.done:
        cut = Outcome("interrupted", "Interrupted; the cells so far are kept. Run it again.")
        return make_answer(sentence, facts, figures, cut)
    facts |= {
        "clusters without the layer": wells.alone.tolist(),
        "alignment at the pinning strength": _at(wells.aligned, strengths, pinning),
        "alignment at ε_c": _at(wells.aligned, strengths, balance),
        "clusters at ε_c": _at(wells.counts, strengths, balance),
    }
    beta = float(wells.betas[len(wells.betas) // 2])
    figures |= {"rates": _rates(beta, m), "tearing": _tearing(beta, m)}
    return make_answer(sentence, facts, figures, Outcome("done", "Every cell was run."))


def _ends(field: Field, start: Any, horizon: float, rate: float) -> np.ndarray:
    return np.asarray(flow_ensemble(TokenForm(field, rate=rate), start, horizon, 2, _places)[-1])


def _places(form: Any, y: Any) -> Any:
    return y


def _rates(beta: float, m: int) -> Curves:
    shares = np.linspace(0, 1, 21)
    exact = np.array([perturbed_rates(beta, s, m, 6) for s in shares])
    rates = {f"rate {k + 1}": (shares, exact[:, k] / exact[0, 0]) for k in range(0, 6, 2)}
    top = int(np.argmax([rate_shift(beta, 0.0, m, k)[1] for k in range(1, 12)])) + 1
    leading = [rate_shift(beta, s, m, top)[1] / exact[0, 0] for s in shares[:9]]
    rates["rate 1, leading order"] = (shares[:9], np.array(leading))
    caption = f"Growth rates around the balanced density, β = {beta:g}: the largest grows."
    return Curves("share s = ε/ε_c", "growth rate over λ_max (USA clock)", rates, caption=caption)


def _tearing(beta: float, m: int) -> Curves:
    strengths = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.0]) * tearing_strength(m)
    measured = np.array([spread_of_cluster(float(e), m, beta) for e in strengths])
    x = strengths * m**2
    lines = {"measured": (x, measured), "theory, εm² − 1": (x, x - 1)}
    caption = "A tight cluster on a hilltop of the layer: torn apart above εm² = 1."
    return Curves("strength εm²", "growth rate of a cluster's width", lines, caption=caption)


def _at(values: np.ndarray, strengths: np.ndarray, at: np.ndarray) -> list[float]:
    """Values of each row interpolated in log ε."""
    logs = np.log(strengths)
    return [float(np.interp(np.log(e), logs, row)) for e, row in zip(at, values, strict=True)]
