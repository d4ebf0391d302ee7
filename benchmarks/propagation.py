"""Signal propagation at random weights: networks against the overlap maps, layer by layer.

    python benchmarks/propagation.py --fast           # a minute on two cores
    python benchmarks/propagation.py                  # 10 seeds, d = 64 … 512: ten minutes on a CPU
    python benchmarks/propagation.py --seeds 40 --widths 64 128 256 512 1024 --device cuda

For each placement of the normalisation the residual scale is the one at which the theory says that
1 − ρ falls to 1/e in 48 blocks. Networks of n = 128 tokens and four thirds of that depth are drawn
at it; the first 48 layers go into the joint test, all of them into the measured depth. Printed is
JSON; figures go to docs/images/ (or --images).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from metastable.comparison.propagation import depth_error, joint_test
from metastable.core.figure import Axis, Lines, Map, Panels, Series
from metastable.models.own.random_stack import random_stack
from metastable.report import draw
from metastable.theory.propagation import RandomBlock, finite_width, propagate
from metastable.theory.trainability import (
    correlation_depth,
    residual_scale_for_depth,
    trainability_diagram,
)

START = 0.2  # correlation of tokens at the first layer
PLACEMENTS = ("pre", "post", "peri")
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def measure(placement: str, depth: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Networks of every width at the scale of this depth: tests, bias, depth, curves."""
    block = RandomBlock(placement=placement)  # pyright: ignore[reportArgumentType]
    scale = residual_scale_for_depth(depth, block, correlation=START)
    block, layers = block.scaled(scale), depth + depth // 3
    limit = propagate(block, layers, correlation=START).correlation
    # In pre and post norm the same as σ_v off by 5 %; under peri norm σ_v has no effect.
    planted = dataclasses.replace(block, attention=1.05 * block.attention)
    rows, curves = [], {}
    for width in arguments.widths:
        began = time.perf_counter()
        rho = random_stack(
            block, width, layers, correlation=START, seeds=arguments.seeds,
            seed=10_000 * PLACEMENTS.index(placement) + width, heads=arguments.heads,
            device=arguments.device,
        )["correlation"]  # fmt: skip
        seconds = time.perf_counter() - began
        mean, spread = finite_width(block, width, layers, correlation=START)
        inside = slice(1, depth + 1)
        found = correlation_depth(1 - rho.mean(0))
        row: dict[str, Any] = {"width": width, "seconds": round(seconds, 1)}
        for name, curve in (
            ("limit", limit),
            ("limit_10_seeds", limit),
            ("finite_width", mean),
            ("planted_5_percent", finite_width(planted, width, layers, correlation=START)[0]),
        ):
            drawn = rho[:10] if name == "limit_10_seeds" else rho
            test = joint_test(drawn[:, inside], curve[inside])
            row[name] = {
                "largest_t": round(test.statistic, 2),
                "critical_1_percent": round(test.critical, 2),
                "p": round(test.p, 5),
            }
        off = rho[:, inside].mean(0) - limit[inside]
        row |= {
            "largest_bias_from_limit": float(np.abs(off).max()),
            "mean_bias_from_limit_times_d": float(width * off.mean()),
            "foretold_times_d": float(width * (mean - limit)[inside].mean()),
            "spread_over_foretold": float(np.mean(rho.std(0, ddof=1)[inside] / spread[inside])),
            "depth_measured": found,
            "depth_error": depth_error(mean, spread, len(rho)),
            "depth_foretold_at_this_width": correlation_depth(1 - mean),
        }
        rows.append(row)
        curves[width] = (rho, mean)
    widest = rows[-1]
    return {
        "placement": placement,
        "scale": scale,
        "depth_aimed_at": depth,
        "rows": rows,
        "not_rejected_at_widest": widest["limit_10_seeds"]["p"] >= 0.01,
        "depth_within_5_percent": abs(widest["depth_measured"] / depth - 1) <= 0.05,
        "curves": curves,
        "limit": limit,
    }


def picture_of_curves(found: list[dict[str, Any]]) -> Panels:
    """Correlation by depth: seeds as thin lines, both theories."""
    panels = []
    for result in found:
        width = max(result["curves"])
        rho, mean = result["curves"][width]
        x = np.arange(len(mean))
        seeds = [Series("seeds" if not k else "", x, y, group=-1, width=0.6)
                 for k, y in enumerate(rho[:20])]  # fmt: skip
        series = [
            *seeds,
            Series("mean of seeds", x[::4], rho.mean(0)[::4], style="points", group=0),
            Series("theory, d = ∞", x, result["limit"], role="theory", group=5),
            Series(f"theory, d = {width}", x, mean, role="theory", group=2, dash="dotted"),
        ]
        title = f"{result['placement']} norm, α = {result['scale']:.3f}"
        axes = Axis("layer"), Axis("correlation ρ of two tokens", limits=(0.0, 1.0))
        panels.append(Lines(*axes, series, title=title, marks={"": result["depth_aimed_at"]}))
    return Panels(panels, len(panels), shared=True, size=(11.5, 3.8))


def picture_of_diagram(depth: int, points: int) -> Panels:
    """What remains of 1 − ρ, with the lines beyond which a stack fails."""
    betas, scales = np.linspace(0.5, 6.0, points), np.geomspace(0.03, 1.5, points)
    panels = []
    for placement in PLACEMENTS:
        block = RandomBlock(placement=placement)  # pyright: ignore[reportArgumentType]
        grid = trainability_diagram(block, depth, scales, betas, correlation=START)
        lines = [
            Series(name, *_border(grid, np.log(values), level), role="theory", width=2.2)
            for name, values, level in (
                ("1/e of 1 − ρ remains", grid.remaining, -1.0),
                ("gradients × 10", grid.gradients, math.log(10)),
                ("gradients / 10", grid.gradients, -math.log(10)),
            )
        ]
        half = float(np.interp(0.5, grid.shares[0], betas))
        lines.append(Series("Σw² = 1/2", [half, half], [scales[0], scales[-1]], role="theory"))
        axes = Axis("β, deviation of logits"), Axis("residual scale α", scale="log")
        panels.append(
            Map(*axes, Axis("share of 1 − ρ that remains", limits=(0, 1)), betas, scales,
                np.minimum(grid.remaining, 1), lines=lines, title=f"{placement} norm")
        )  # fmt: skip
    return Panels(panels, 3, size=(13.5, 4.2))


def _border(grid: Any, values: np.ndarray, level: float) -> tuple[list[float], list[float]]:
    """Where a quantity first crosses a level on the way up in scale, for each β."""
    x, y = [], []
    logs = np.log(grid.scales)
    for beta, column in zip(grid.betas, values.T, strict=True):
        signs = np.flatnonzero(np.diff(np.sign(column - level)))
        if len(signs):
            k = signs[0]
            part = (level - column[k]) / (column[k + 1] - column[k])
            x.append(float(beta))
            y.append(float(np.exp(logs[k] + part * (logs[k + 1] - logs[k]))))
    return x, y


def main() -> None:
    parser = argparse.ArgumentParser(description="Random transformers against theory")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=Path, default=IMAGES)
    arguments = parser.parse_args()
    depth = 48
    if arguments.fast:
        arguments.widths, depth = [64, 128], 24
    found = [measure(placement, depth, arguments) for placement in PLACEMENTS]
    for name, figure in (
        ("propagation", picture_of_curves(found)),
        ("trainability", picture_of_diagram(depth, 8 if arguments.fast else 24)),
    ):
        arguments.images.mkdir(parents=True, exist_ok=True)
        draw(figure).savefig(arguments.images / f"{name}.png", dpi=130, facecolor="white")
    for result in found:
        del result["curves"], result["limit"]
    print(json.dumps({"seeds": arguments.seeds, "tokens": 128, "results": found}, indent=1))


if __name__ == "__main__":
    main()
