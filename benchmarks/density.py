"""A density on the circle at the end of its linear phase: spectral against first-order upwind.

The upwind scheme is the one public code uses: cell averages, potential by FFT, fluxes from the
windward cell, Euler steps. Both are compiled; the first call of each is not counted.
"""

from __future__ import annotations

from typing import Any

import diffrax
import numpy as np

import metastable as ms
from benchmarks import draw as figures
from benchmarks import timing
from metastable.flows import Adaptive, Resolution
from metastable.measures import Density

BETA, MODE, START, END = 5.0, 3, 1e-3, 0.1
CELLS = [64, 128, 256, 512, 1024, 2048, 4096]
STEPS = [0.25, 1.0, 4.0]  # times the width of a cell; the best of them counts
TOLERANCES = [1e-4, 1e-6, 1e-8, 1e-10, 1e-12]


def measure(quick: bool = False) -> dict:
    from metastable.theory.spectrum import growth_rates

    start, field = Density.mode(2, MODE, START), ms.SelfAttention(BETA)
    horizon = float(np.log(END / START) / growth_rates(BETA, 2, MODE)[-1])
    # Another pair and four times the harmonics, so that no error is shared with the candidates.
    exact = _spectral(start, field, horizon, Adaptive(1e-13, 1e-13, diffrax.Dopri5()), 128)()
    candidates, errors = {}, {}
    for tolerance in TOLERANCES[::2] if quick else TOLERANCES:
        name = f"spectral {tolerance:g}"
        stepper = Adaptive(tolerance, tolerance)
        candidates[name] = _spectral(start, field, horizon, stepper, 32)
    for cells in CELLS[:4] if quick else CELLS:
        for step in STEPS:
            candidates[f"upwind {cells} {step:g}"] = _upwind(cells, step, horizon)
    seconds = timing.race(candidates, rounds=3 if quick else 7, budget=20.0 if quick else 60.0)
    for name, run in candidates.items():
        errors[name] = float(np.abs(np.asarray(run())[: 3 * MODE + 1] - exact).max())
    rows = [
        {
            "method": name.split()[0],
            "setting": name,
            "seconds": seconds[name],
            "error": errors[name],
        }
        for name in candidates
    ]
    ours = min((r for r in rows if r["method"] == "spectral"), key=lambda r: r["error"])
    theirs = [r for r in rows if r["method"] == "upwind"]
    within = [r for r in theirs if r["seconds"] <= ours["seconds"]]
    best = min(within or theirs, key=lambda r: r["error"])
    finest = min(theirs, key=lambda r: r["error"])
    return {
        "rows": rows,
        "beta": BETA,
        "horizon": horizon,
        "ratio": best["error"] / ours["error"],
        "summary": [
            f"spectral: error {ours['error']:.1e} in {1e3 * ours['seconds']:.2g} ms "
            f"({ours['setting']})",
            f"upwind in at most that time: error {best['error']:.1e} ({best['setting']}), "
            f"{best['error'] / ours['error']:.1e} times larger",
            f"upwind at its finest: error {finest['error']:.1e} in "
            f"{1e3 * finest['seconds']:.2g} ms ({finest['setting']})",
        ],
    }


def _spectral(start, field, horizon, stepper, degree):
    how: Any = dict(frames=2, stepper=Resolution(degree, stepper=stepper))
    return lambda: np.asarray(ms.flow(start, field, horizon, **how).frames[-1].coefficients)[
        : 3 * MODE + 1
    ]


def _upwind(cells: int, step: float, horizon: float):
    import jax
    import jax.numpy as jnp

    width = 2 * np.pi / cells
    count = int(np.ceil(horizon / (step * width)))
    dt = horizon / count
    centres = width * (np.arange(cells) + 0.5)
    # Averages over cells of 1 + 2a cos(kθ), exactly.
    shrink = np.sin(MODE * width / 2) / (MODE * width / 2)
    f0 = jnp.asarray(1 + 2 * START * shrink * np.cos(MODE * centres))
    kernel = jnp.fft.rfft(jnp.exp(BETA * (jnp.cos(width * jnp.arange(cells)) - 1))) / cells

    @jax.jit
    def run(f):
        def body(_, f):
            phi = jnp.log(jnp.fft.irfft(jnp.fft.rfft(f) * kernel, cells)) / BETA
            v = (jnp.roll(phi, -1) - phi) / width  # at the right face of each cell
            flux = jnp.where(v > 0, f, jnp.roll(f, -1)) * v
            return f - dt / width * (flux - jnp.roll(flux, 1))

        f = jax.lax.fori_loop(0, count, body, f)
        modes = jnp.arange(3 * MODE + 1)
        averages = jnp.exp(-1j * modes[:, None] * centres) @ f / cells
        half = jnp.where(modes > 0, modes, 1) * width / 2
        return averages * jnp.where(modes > 0, half / jnp.sin(half), 1.0)

    return lambda: run(f0)


def draw(result: dict, path) -> None:
    rows = [{"method": r["method"], "x": r["seconds"], "y": r["error"]} for r in result["rows"]]
    best = []
    for method in ("spectral", "upwind"):
        mine = sorted((r for r in rows if r["method"] == method), key=lambda r: r["x"])
        for row in mine:  # keep what nothing faster beats
            if not any(b["method"] == method and b["y"] <= row["y"] for b in best):
                best.append(row)
    title = f"Density on the circle, β = {result['beta']:g}"
    figures.lines({"": best}, path, title, "seconds", "error of the harmonics", result["machine"])
