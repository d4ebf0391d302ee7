"""Long contexts: rows of attention among up to a million tokens against the limit law.

    python benchmarks/context.py [--fast] [--rows R] [--out FILE.json] [--packages DIR]
    python benchmarks/context.py --draw FILE.json

n uniform tokens on S² and S³, β = λn^{2/(d−1)}. E Σw² and E max w over sampled rows must meet
`theory.window_law` within 1 % or 3 standard errors; then the whole window for n = 10³ to 10⁶.
Made for a GPU; on a CPU `--rows 300` takes minutes. `--packages` names a folder with equinox,
jaxtyping and wadler_lindig where they are not installed; nothing else is needed to measure.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "docs" / "images" / "long_context.png"
SCALES = (0.05, 0.25, 0.5, 1.0, 3.0)
WINDOW = np.geomspace(1e-3, 30.0, 13)
FIELDS = ("participation", "largest")


def load(name: str) -> Any:
    """One module of `observe` by its file: the package imports more than a bare machine has."""
    path = ROOT / "src" / "metastable" / "observe" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sampled(dim: int, tokens: int, scales: Any, rows: int, most: int) -> list[dict]:
    """Mean and error of Σw² and max w at each λ, over `rows` rows, at most `most` of one draw."""
    from metastable.measures.points import Points
    from metastable.theory.context import critical_beta

    observe = load("context")
    values: dict[float, list] = {scale: [] for scale in scales}
    draws = -(-rows // min(most, tokens))
    for draw in range(draws):
        x = np.random.default_rng([dim, tokens, draw]).normal(size=(tokens, dim))
        measure = Points(x / np.linalg.norm(x, axis=1, keepdims=True))
        for scale in scales:
            beta = critical_beta(dim, tokens, scale)
            sample = observe.attention_rows(measure, beta, rows=-(-rows // draws), seed=draw)
            values[scale].append(np.stack([getattr(sample, name) for name in FIELDS]))
    out = []
    for scale, parts in values.items():
        each = np.concatenate(parts, axis=1)
        mean, error = each.mean(1), each.std(1) / np.sqrt(each.shape[1])
        row = {"dim": dim, "tokens": tokens, "scale": float(scale), "rows": each.shape[1]}
        out.append(row | {"mean": mean.tolist(), "error": error.tolist()})
    return out


def check(fast: bool, rows: int | None) -> list[dict]:
    """Rows of n = 10⁶ (fast: 10⁵) against the law."""
    from metastable.theory.context import window_law

    tokens, usual = (100_000, 400) if fast else (1_000_000, 32_768)
    rows = rows or usual
    out = []
    for dim in (3, 4):
        for row in sampled(dim, tokens, SCALES, rows, most=tokens // 100):
            expected = window_law(row["scale"], dim)[:2]
            off = [abs(m - e) for m, e in zip(row["mean"], expected, strict=True)]
            row["expected"] = list(expected)
            row["agrees"] = all(
                gap <= max(0.01 * e, 3 * error)
                for gap, e, error in zip(off, expected, row["error"], strict=True)
            )
            out.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    return out


def window(fast: bool, rows: int | None) -> list[dict]:
    sizes = (10**3, 10**4) if fast else (10**3, 10**4, 10**5, 10**6)
    rows = rows or (256 if fast else 4096)
    return [
        row
        for dim in (3, 4)
        for tokens in sizes
        for row in sampled(dim, tokens, WINDOW, rows, most=tokens // (1 if fast else 2))
    ]


def draw(result: dict, path: Path) -> None:
    from metastable.core.figure import Axis, Lines, Panels, Series
    from metastable.report import draw as picture_of
    from metastable.theory.context import window_law

    across = np.geomspace(WINDOW[0], WINDOW[-1], 60)
    panels = []
    for dim, name in ((3, "S²"), (4, "S³")):
        law = [window_law(scale, dim).participation for scale in across]
        series = []
        sizes = sorted({row["tokens"] for row in result["window"]})
        for group, tokens in enumerate(sizes):
            some = [r for r in result["window"] if (r["dim"], r["tokens"]) == (dim, tokens)]
            x = [r["scale"] for r in some]
            y, e = ([r[key][0] for r in some] for key in ("mean", "error"))
            label = f"n = 10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[round(np.log10(tokens))]}"
            series.append(Series(label, x, y, error=e, style="points", group=group))
        series.append(Series("limit law", across, law, role="theory"))
        power = "n" if dim == 3 else "n^(2/3)"
        axes = Axis(f"λ = β / {power}", scale="log"), Axis("E Σw²", scale="log")
        notes = [(2e-3, 0.35, "a local mean"), (0.6, 0.06, "a few tokens"), (4.0, 0.3, "itself")]
        panels.append(Lines(*axes, series, notes=notes, title=f"tokens on {name}"))
    figure = picture_of(Panels(panels, 2, shared=True, size=(8.4, 4.0)))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150, facecolor="white")


def command_line(title: str | None) -> argparse.ArgumentParser:
    """What this benchmark and that of retrieval ask for."""
    parser = argparse.ArgumentParser(description=(title or "").splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--out", type=Path, help="write the numbers here as well")
    parser.add_argument("--packages", help="folder with packages that are not installed")
    parser.add_argument("--draw", type=Path, help="draw the figure from these numbers, and stop")
    return parser


def tell(result: dict, path: Path | None) -> None:
    """Print the numbers, and write them where asked."""
    text = json.dumps(result, indent=1)
    if path:
        path.write_text(text + "\n")
    print(text)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, help="rows at each λ instead of the usual number")
    arguments = parser.parse_args()
    sys.path[:0] = [str(ROOT / "src"), *([arguments.packages] if arguments.packages else [])]
    if arguments.draw:
        return draw(json.loads(arguments.draw.read_text()), FIGURE)
    import jax

    began = time.perf_counter()
    result: dict = {"device": str(jax.devices()[0]), "check": check(arguments.fast, arguments.rows)}
    result["check_seconds"] = time.perf_counter() - began
    result["window"] = window(arguments.fast, arguments.rows)
    result["seconds"] = time.perf_counter() - began
    result["agree"] = sum(row["agrees"] for row in result["check"])
    tell(result, arguments.out)


if __name__ == "__main__":
    main()
