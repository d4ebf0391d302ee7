"""Lost in the middle: particles against the closed form, and their speed against eager PyTorch.

    python benchmarks/retrieval.py [--fast] [--out FILE.json] [--packages DIR]
    python benchmarks/retrieval.py --draw FILE.json

Causal chains with ALiBi (λ = β = 1, position weights on j < i as in the formula), uniform starts,
time t with a_1 t = 1, 8 Runge–Kutta steps (16 change the fifth digit), float32. `--packages`
names a folder with jaxtyping and wadler_lindig where they are not installed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to torch
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
FIGURE = ROOT / "docs" / "images" / "lost_in_the_middle.png"
BETA = SLOPE = 1.0
STEPS = 8
# Below s = 1/16 the law has a logarithmic singularity and tokens are few: no 1/N there.
EDGES = np.array([1 / 16, *np.linspace(0.125, 1.0, 8)])
FULL = {64: 2**19, 128: 2**18, 256: 2**17, 512: 2**16}
FAST = {16: 2048, 32: 1024, 64: 512}


def rate() -> float:
    from metastable.theory.spectrum import growth_rates

    return float(growth_rates(BETA, 2, 1, normalized=False)[0])  # a_1 on the USA clock


def particles(tokens: int, strength: float, systems: int, seed: int = 0):
    from benchmarks.context import load

    observe = load("retrieval")
    bias = observe.position_bias(tokens, SLOPE, own=False)
    how = {"systems": systems, "steps": STEPS, "precision": "float32", "seed": seed}
    profile = observe.retrieval_profile(bias, BETA, strength / rate(), **how)
    return profile, observe.position_weights(bias)


def profiles(sizes: dict[int, int]) -> dict:
    """Profiles by size, as ratios to the closed form, extrapolated to infinitely many tokens."""
    from metastable.theory.retrieval import retrieval_law, retrieval_row

    rows = []
    for tokens, systems in sizes.items():
        began = time.perf_counter()
        profile, pull = particles(tokens, 1.0, systems)
        group = np.digitize(profile.position, EDGES)
        mean = lambda v, group=group: np.array([v[group == k].mean() for k in range(1, len(EDGES))])
        law = mean(retrieval_law(profile.position, SLOPE))
        position, value, error = profile.binned(EDGES).T
        row = {"tokens": tokens, "systems": systems, "seconds": time.perf_counter() - began}
        linear = mean(retrieval_row(pull, 1.0)) / law
        named = {"position": position, "value": value, "ratio": value / law, "error": error / law}
        row |= {key: array.tolist() for key, array in (named | {"linear_ratio": linear}).items()}
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    ratio, error, linear = (
        np.array([row[key] for row in rows]) for key in ("ratio", "error", "linear_ratio")
    )
    inverse = 1 / np.array(list(sizes), float)
    limits, bounds = [], []
    for k in range(ratio.shape[1]):  # weighted fit r∞ + A/N + B/N²
        design = np.stack([inverse**0, inverse, inverse**2], axis=1) / error[:, k, None]
        covariance = np.linalg.inv(design.T @ design)
        limits.append(float((covariance @ design.T @ (ratio[:, k] / error[:, k]))[0]))
        bounds.append(float(np.sqrt(covariance[0, 0])))
    middle = slice(2, None)  # the first quarter holds early tokens, which converge later
    slope = lambda gap: float(np.polyfit(np.log(inverse), np.log(np.abs(gap)), 1)[0])
    beyond = (ratio / linear)[:, middle].mean(axis=1) - 1
    return {
        "rows": rows, "limit": limits, "limit_error": bounds,
        "exponent": slope(ratio[:, middle].mean(axis=1) - 1),
        "exponent_beyond_linear": slope(beyond), "beyond_linear": beyond.tolist(),
        "agrees": [abs(r - 1) <= max(0.02, 3 * e) for r, e in zip(limits, bounds, strict=True)],
    }  # fmt: skip


def critical(tokens: int, systems: int, sizes: tuple[int, ...]) -> dict:
    """Strength a_1 t at which the right end is flat: closed form, N positions, particles."""
    from scipy.optimize import brentq

    from benchmarks.context import load
    from metastable.theory.retrieval import critical_retrieval_time, retrieval_law, retrieval_row

    observe = load("retrieval")
    expected = critical_retrieval_time(SLOPE, 1.0)
    places = []
    for count in sizes:
        pull = observe.position_weights(observe.position_bias(count, SLOPE, own=False))
        flat = lambda c, pull=pull: float(np.diff(retrieval_row(pull, c)[-2:])[0])
        places.append(brentq(flat, 0.2, 4.0))
    linear = float(np.polyfit(1 / np.array(sizes), places, 2)[-1])
    # Particles: the rise from [0.8, 0.9) to [0.9, 1), which the law loses at a strength of its own.
    position = np.arange(1, tokens) / tokens
    near, last = (position >= 0.8) & (position < 0.9), position >= 0.9
    weights = last / last.sum() - near / near.sum()
    of_law: Any = brentq(lambda c: weights @ retrieval_law(position, SLOPE, c), 0.5, 3.0)
    strengths = of_law * np.array([0.6, 0.8, 1.0, 1.2, 1.4])
    runs = [particles(tokens, c, systems, k)[0] for k, c in enumerate(strengths)]
    rise, error = np.array([np.ravel(run.averaged(weights)) for run in runs]).T
    slopes, covariance = np.polyfit(strengths - of_law, rise, 2, w=1 / error, cov="unscaled")
    zero = of_law - slopes[2] / slopes[1]  # one Newton step from the law's own zero
    return {
        "expected": expected, "linear": linear, "linear_off": linear / expected - 1,
        "by_size": dict(zip(map(str, sizes), places, strict=True)),
        "window_expected": of_law, "window_particles": float(zero),
        "window_error": float(np.sqrt(covariance[2, 2]) / abs(slopes[1])),
        "tokens": tokens, "systems": systems, "strengths": strengths.tolist(),
        "rise": rise.tolist(), "rise_error": error.tolist(),
    }  # fmt: skip


def race(systems: int, tokens: int = 64) -> dict:
    """Seconds for the flow alone and for the whole profile, ours and eager PyTorch's."""
    import jax
    import jax.numpy as jnp
    import torch

    from benchmarks.context import load

    observe = load("retrieval")
    bias = observe.position_bias(tokens, SLOPE, own=False)
    pull = observe.position_weights(bias)
    step = 1 / rate() / STEPS
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weights = torch.tensor(pull, dtype=torch.float32, device=device)

    def velocity(y):
        apart = y[:, None, :] - y[:, :, None]
        return (weights * torch.exp(BETA * torch.cos(apart)) * torch.sin(apart)).sum(-1)

    def eager(y):
        for _ in range(STEPS):
            k1 = velocity(y)
            k2 = velocity(y + step / 2 * k1)
            k3 = velocity(y + step / 2 * k2)
            y = y + step / 6 * (k1 + 2 * k2 + 2 * k3 + velocity(y + step * k3))
        return y

    def eager_profile(start):
        start = start.requires_grad_(True)
        end = eager(start)[:, -1]
        (slope,) = torch.autograd.grad(end.sum(), start)
        return (torch.cos(end[:, None] - start) * slope).double().sum(0).detach()

    draw = lambda count: 2 * torch.pi * torch.rand(count, tokens, device=device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def seconds(run, most: int) -> float:
        """Of all systems, in parts that fit: autograd keeps some 250 arrays of pairs."""
        part = min(systems, most if device == "cuda" else 256)
        run(part)
        wait()
        began = time.perf_counter()
        for _ in range(systems // part):
            run(part)
        wait()
        return (time.perf_counter() - began) * systems / (part * (systems // part))

    with torch.no_grad():
        peer_flow = seconds(lambda count: eager(draw(count)), 2**14)
    peer_profile = seconds(lambda count: eager_profile(draw(count)), 2**12)

    matrix = jnp.asarray(pull[None], jnp.float32)
    start = draw(64)
    end = eager(start).cpu().numpy()
    chunk = min(systems, observe.CHUNK["cpu" if device == "cpu" else "gpu"] // tokens)
    shape = (tokens, chunk)
    force = observe.force_waves(BETA, jnp.float32)
    move = jax.jit(lambda y: observe.flow_circle(y, matrix, force, jnp.float32(step), STEPS))
    fresh = jax.jit(lambda key: move(jax.random.uniform(key, shape, jnp.float32, 0, 2 * jnp.pi)))
    jax.block_until_ready(fresh(jax.random.key(0)))
    count = -(-systems // chunk)
    began = time.perf_counter()
    jax.block_until_ready([fresh(jax.random.key(k))[-1] for k in range(count)])
    flow = (time.perf_counter() - began) * systems / (chunk * count)
    settings: dict = {"steps": STEPS, "precision": "float32", "chunk": chunk}
    profile = lambda n: observe.retrieval_profile(bias, BETA, 1 / rate(), systems=n, **settings)
    profile(chunk)
    began = time.perf_counter()
    profile(systems)
    whole = time.perf_counter() - began
    gap = end - np.asarray(move(jnp.asarray(start.cpu().numpy().T))).T
    out = {
        "systems": systems, "tokens": tokens, "steps": STEPS, "device": device,
        "torch_flow_seconds": peer_flow, "torch_profile_seconds": peer_profile,
        "flow_seconds": flow, "flow_ratio": peer_flow / flow, "profile_seconds": whole,
        "profile_ratio": peer_profile / whole, "largest_difference": float(np.abs(gap).max()),
    }  # fmt: skip
    print(json.dumps(out), file=sys.stderr, flush=True)
    return out


def draw(result: dict, path: Path) -> None:
    from metastable.core.figure import Axis, Lines, Series
    from metastable.report import draw as picture_of
    from metastable.theory.retrieval import least_retrieved, retrieval_law

    rows = result["profiles"]["rows"]
    series = []
    for group, row in enumerate(rows):
        law = np.array(row["value"]) / row["ratio"]
        name, error = f"{row['tokens']} tokens", law * row["error"]
        curve = (row["position"], row["value"])
        series.append(Series(name, *curve, error=error, style="both", group=group))
    s = np.linspace(0.03, 1.0, 200)
    series.append(Series("closed form, many tokens", s, retrieval_law(s, SLOPE), role="theory"))
    axes = Axis("position s of the source"), Axis("retrieval by the last token", limits=(1.0, 2.8))
    worst = {"retrieved worst": least_retrieved(SLOPE)}
    figure = picture_of(Lines(*axes, series, marks=worst, size=(6.2, 4.0)))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150, facecolor="white")


def main() -> None:
    from benchmarks.context import command_line, tell

    arguments = command_line(__doc__).parse_args()
    sys.path[:0] = [arguments.packages] if arguments.packages else []
    if arguments.draw:
        return draw(json.loads(arguments.draw.read_text()), FIGURE)
    import jax

    began, fast = time.perf_counter(), arguments.fast
    result: dict = {"device": str(jax.devices()[0])}
    result["race"] = race(256 if fast else 10**6)
    result["profiles"] = profiles(FAST if fast else FULL)
    half, systems, sizes = (16, 512, (64, 128)) if fast else (128, 2**18, (128, 512, 1024))
    one, two = (critical(tokens, systems, (*sizes, 256)) for tokens in (half, 2 * half))
    # 2z(2N) − z(N) is free of the term in 1/N.
    off = [run["window_particles"] / run["window_expected"] - 1 for run in (one, two)]
    bound = [run["window_error"] / run["window_expected"] for run in (one, two)]
    result["critical"] = {
        "half": one, "whole": two, "particles_off": 2 * off[1] - off[0],
        "particles_off_error": float(np.hypot(2 * bound[1], bound[0])),
    }  # fmt: skip
    result["seconds"] = time.perf_counter() - began
    tell(result, arguments.out)


if __name__ == "__main__":
    main()
