"""GPU kernels: speed, errors and peers, in one call; each part may fail alone.

    python benchmarks/gpu.py [--out FILE.json] [--packages DIR]

Needs jax, torch and triton with a CUDA device, and nothing of metastable but one file. `--packages`
names a folder with the pure-Python packages metastable imports; with it the harmonic sum and the
plain XLA sum are timed on the GPU too.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import statistics
import sys
import time
import traceback
from pathlib import Path

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to torch
ROOT = Path(__file__).resolve().parents[1]
BETA = 9.0


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tokens(count, dim, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def reference(x, rows):
    """Mean of the tokens in float64 at a sample of rows."""
    k = np.exp(BETA * (x[rows] @ x.T - 1))
    return (k @ x) / k.sum(1)[:, None]


def relative_error(mean, x, rows):
    expected = reference(x, rows)
    return float(np.linalg.norm(mean - expected) / np.linalg.norm(expected))


def seconds(run, wait, least=5, budget=2.0):
    """Median time of a call, over rounds that are long enough for the clock."""
    wait(run())
    began = time.perf_counter()
    wait(run())
    once = time.perf_counter() - began
    inner = max(1, int(0.02 / max(once, 1e-6)))
    samples = []
    while (len(samples) < least and time.perf_counter() - began < budget) or len(samples) < 3:
        start = time.perf_counter()
        for _ in range(inner):
            out = run()
        wait(out)
        samples.append((time.perf_counter() - start) / inner)
    return statistics.median(samples)


def best_of(configurations, build, wait, budget=40.0):
    """The fastest configuration; those that do not compile are listed with their error."""
    table, began = [], time.perf_counter()
    for configuration in configurations:
        try:
            table.append((seconds(build(configuration), wait, budget=0.5), configuration))
        except Exception as error:
            table.append((float("inf"), {**configuration, "error": str(error)[:200]}))
        if time.perf_counter() - began > budget:
            break
    table.sort(key=lambda row: row[0])
    if table[0][0] == float("inf"):
        raise RuntimeError(table[0][1])
    return table[0][1], table


def grid(**choices):
    return [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]


# ------------------------------------------------------------------------------------- parts


def pallas_registers(count=2**20):
    import jax
    import jax.numpy as jnp

    fused = load("fused", ROOT / "src/metastable/fields/sums/fused.py")

    def build(n):
        x = jnp.asarray(tokens(n, 3), jnp.float32)
        log_mass = jnp.full(n, -np.log(n), jnp.float32)

        def with_tiles(c):
            f = jax.jit(lambda x, w: fused.register_sums(BETA, x, x, w, x, **c))
            return lambda: f(x, log_mass)

        return x, with_tiles

    wait = jax.block_until_ready
    choices = grid(rows=[64, 128, 256], columns=[16, 32, 64], warps=[2, 4, 8])
    best, table = best_of(choices, build(2**17)[1], wait)
    x, with_tiles = build(count)
    run = with_tiles(best)
    time_ = seconds(run, wait)
    rows = np.random.default_rng(1).integers(0, count, 128)
    mass, total = (np.asarray(a, np.float64) for a in run())
    error = relative_error(total[rows] / mass[rows, None], np.asarray(x, np.float64), rows)
    return {
        "n": count, "seconds": time_, "pairs_per_second": count**2 / time_,
        "relative_error": error, "tiles": best, "tried": table[:6],
    }  # fmt: skip


def triton_registers(count=2**20):
    import torch

    kernels = load("triton_kernels", ROOT / "benchmarks/triton_kernels.py")
    wait = lambda _: torch.cuda.synchronize()
    small = torch.tensor(tokens(2**17, 3), dtype=torch.float32, device="cuda")
    choices = grid(rows=[64, 128, 256], columns=[16, 32, 64], warps=[2, 4, 8])
    build = lambda x: lambda c: lambda: kernels.register_sums(BETA, x, **c)
    best, table = best_of(choices, build(small), wait)
    x = torch.tensor(tokens(count, 3), dtype=torch.float32, device="cuda")
    run = build(x)(best)
    time_ = seconds(run, wait)
    rows = np.random.default_rng(1).integers(0, count, 128)
    out = run().double().cpu().numpy()
    mean = (out[1:, rows] / out[0, rows]).T
    error = relative_error(mean, x.double().cpu().numpy(), rows)
    return {
        "n": count, "seconds": time_, "pairs_per_second": count**2 / time_,
        "relative_error": error, "tiles": best, "tried": table[:6],
    }  # fmt: skip


def _sdpa(count, dim, dtype, backend):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    x = tokens(count, dim)
    # The peer's kernels want a multiple of eight axes: zeros change no inner product.
    wide = np.pad(x, ((0, 0), (0, -dim % 8)))
    q = torch.tensor(wide, dtype=getattr(torch, dtype), device="cuda")[None, None]
    wait = lambda _: torch.cuda.synchronize()

    def run():
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=BETA)

    time_ = seconds(run, wait)
    rows = np.random.default_rng(1).integers(0, count, 128)
    mean = run()[0, 0][rows, :dim].double().cpu().numpy()
    return {
        "n": count, "d": dim, "dtype": dtype, "backend": backend, "seconds": time_,
        "pairs_per_second": count**2 / time_, "relative_error": relative_error(mean, x, rows),
    }  # fmt: skip


def sdpa_float32_low():
    return _sdpa(2**18, 3, "float32", "EFFICIENT_ATTENTION")


def cudnn_bfloat16():
    return _sdpa(65536, 64, "bfloat16", "CUDNN_ATTENTION")


def flash_bfloat16():
    return _sdpa(65536, 64, "bfloat16", "FLASH_ATTENTION")


def sdpa_float32_wide():
    return _sdpa(65536, 64, "float32", "EFFICIENT_ATTENTION")


def _pallas_tiles(half, choices):
    import jax
    import jax.numpy as jnp

    fused = load("fused", ROOT / "src/metastable/fields/sums/fused.py")
    n = 65536
    x = jnp.asarray(tokens(n, 64), jnp.bfloat16 if half else jnp.float32)
    log_mass = jnp.full(n, -np.log(n), jnp.float32)
    wait = jax.block_until_ready

    def build(c):
        f = jax.jit(lambda x, w: fused.tiled_sums(BETA, x, x, w, x, half=half, **c))
        return lambda: f(x, log_mass)

    best, table = best_of(choices, build, wait, budget=60.0)
    run = build(best)
    time_ = seconds(run, wait)
    rows = np.random.default_rng(1).integers(0, n, 128)
    mass, total = (np.asarray(a, np.float64) for a in run())
    error = relative_error(total[rows] / mass[rows, None], tokens(n, 64), rows)
    return {
        "n": n, "d": 64, "seconds": time_, "pairs_per_second": n**2 / time_,
        "relative_error": error, "tiles": best, "tried": table[:6],
    }  # fmt: skip


TILES = dict(rows=[64, 128, 256], columns=[32, 64, 128], warps=[4, 8], stages=[2, 3, 4])


def pallas_bfloat16():
    return _pallas_tiles(True, grid(**TILES))


def pallas_float32():
    return _pallas_tiles(False, grid(rows=[64, 128], columns=[32, 64], warps=[4, 8], stages=[2, 3]))


def triton_bfloat16():
    import torch

    kernels = load("triton_kernels", ROOT / "benchmarks/triton_kernels.py")
    n = 65536
    x = torch.tensor(tokens(n, 64), dtype=torch.bfloat16, device="cuda")
    wait = lambda _: torch.cuda.synchronize()
    build = lambda c: lambda: kernels.tiled_sums(BETA, x, **c)
    best, table = best_of(grid(**TILES), build, wait, budget=60.0)
    run = build(best)
    time_ = seconds(run, wait)
    rows = np.random.default_rng(1).integers(0, n, 128)
    mass, total = (a.double().cpu().numpy() for a in run())
    error = relative_error(total[rows] / mass[rows, None], tokens(n, 64), rows)
    return {
        "n": n, "d": 64, "seconds": time_, "pairs_per_second": n**2 / time_,
        "relative_error": error, "tiles": best, "tried": table[:6],
    }  # fmt: skip


def package_sums():
    """Harmonic, dense and fused sums of the package itself, in both precisions."""
    import jax
    import jax.numpy as jnp

    import metastable as ms
    from metastable.fields.sums.gpu import FusedSum
    from metastable.fields.sums.harmonic import HarmonicSum

    rows = []
    for dtype, dim, count in itertools.product((jnp.float32, jnp.float64), (2, 3), (2**13, 2**17)):
        measure = ms.Points(tokens(count, dim), dtype=dtype)
        sums = {
            "harmonic": HarmonicSum.reaching(BETA, dim, 1e-5 if dtype == jnp.float32 else 1e-11),
            "dense": ms.Dense(block=4096),
            "fused": FusedSum(),
        }
        for name, sum in sums.items():
            f = jax.jit(lambda m, s=sum: ms.SelfAttention(BETA).velocity(m, sum=s))
            time_ = seconds(lambda f=f, m=measure: f(m), jax.block_until_ready, budget=1.0)
            rows.append(
                {"sum": name, "n": count, "d": dim, "dtype": dtype.__name__, "seconds": time_}
            )
    return rows


PARTS = [
    pallas_registers, triton_registers, sdpa_float32_low,
    cudnn_bfloat16, flash_bfloat16, pallas_bfloat16, triton_bfloat16,
    sdpa_float32_wide, pallas_float32, package_sums,
]  # fmt: skip


def machine():
    import jax

    return f"{jax.devices()[0].device_kind}, jax {jax.__version__}"


def run_parts(only=None):
    results = {}
    for part in PARTS:
        if only and part.__name__ not in only:
            continue
        began = time.perf_counter()
        try:
            results[part.__name__] = part()
        except Exception as error:
            traceback.print_exc(limit=-3)
            results[part.__name__] = {"failed": f"{type(error).__name__}: {str(error)[:500]}"}
        print(
            part.__name__, round(time.perf_counter() - began, 1), "s", file=sys.stderr, flush=True
        )
    try:
        results["machine"] = machine()
    except Exception as error:
        results["machine"] = f"unknown: {error}"
    results["summary"] = summarise(results)
    return results


def summarise(results):
    """The ratios that matter, from whichever parts succeeded."""
    lines = []
    rate = lambda name: results.get(name, {}).get("pairs_per_second")
    error = lambda name: results[name]["relative_error"]
    for name in ("pallas_registers", "triton_registers", "sdpa_float32_low"):
        if rate(name):
            lines.append(
                f"d = 3, float32, {name}: {rate(name):.2e} pairs/s, error {error(name):.1e}"
            )
    wide = ("pallas_bfloat16", "triton_bfloat16", "flash_bfloat16", "cudnn_bfloat16")
    for name in (*wide, "pallas_float32", "sdpa_float32_wide"):
        if rate(name):
            seconds_ = results[name]["seconds"]
            lines.append(f"d = 64, {name}: {1e3 * seconds_:.2f} ms, error {error(name):.1e}")
    return lines


def measure(quick=False):
    """For the runner: this machine's GPU, or the results kept from another."""
    import jax

    if jax.default_backend() == "gpu":
        return run_parts()
    kept = ROOT / "benchmarks" / "results" / "gpu.json"
    if not kept.exists():
        return {"kept": True, "summary": ["no GPU here, and no results kept from one"]}
    result = json.loads(kept.read_text())
    return result | {"kept": True, "summary": ["no GPU here; kept results:", *result["summary"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None, help="file for the results")
    parser.add_argument("--packages", default=None, help="folder of pure-Python packages")
    parser.add_argument("--only", nargs="*", default=None, help="names of parts")
    arguments = parser.parse_args()
    sys.path[:0] = [str(ROOT / "src")] + ([arguments.packages] if arguments.packages else [])
    results = run_parts(arguments.only)
    text = json.dumps(results, indent=1, default=str)
    if arguments.out:
        Path(arguments.out).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
