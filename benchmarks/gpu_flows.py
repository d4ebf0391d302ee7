"""Whole flows on a GPU, with whatever is chosen by default, against PyTorch; each part alone.

    python benchmarks/gpu_flows.py [--out FILE.json] [--only PART ...]

Needs jax and torch with a CUDA device. The peer takes the same Runge–Kutta steps: the tableau and
the number of steps of our run, its attention by PyTorch's own kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import traceback
from pathlib import Path

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to torch
BETA = 9.0


def tokens(count, dim, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def timed(run, rounds=2):
    """Least time of a call, after one that compiles."""
    run()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


class Before:
    """The dense sum as it was: blocks of 1024 by plain XLA, each pair once."""

    def __new__(cls):
        from metastable.core.numerics import jnp
        from metastable.fields.sums.dense import _symmetric_products
        from metastable.fields.sums.kernel import Sum

        class Blocks(Sum):
            name = "blocks of 1024"

            def attend(self, kernel, values):
                mass = jnp.exp(kernel.column)[:, None]
                both = mass * jnp.concatenate([jnp.ones_like(mass), values], axis=1)
                total = _symmetric_products(kernel.beta, kernel.left, both, 1024)
                return kernel.beta + jnp.log(total[:, 0]), total[:, 1:] / total[:, :1]

        return Blocks()


def torch_flow(x, horizon, steps, dtype, sdpa):
    """Seconds of one evaluation in a loop of equal steps of the same Runge–Kutta method."""
    import diffrax
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from metastable.flows.solvers.steps import tableau

    _, a, b, _ = tableau(diffrax.Dopri8())
    y = torch.tensor(x, dtype=getattr(torch, dtype), device="cuda")
    h, stages = horizon / steps, len(b)

    def attention(y):
        if sdpa:
            with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
                q = y[None, None]
                return torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=BETA)[0, 0]
        out = torch.empty_like(y)
        for i in range(0, len(y), 8192):  # rows at a time: the logits of all would not fit
            out[i : i + 8192] = torch.softmax(BETA * y[i : i + 8192] @ y.T, -1) @ y
        return out

    def velocity(y):
        y = y / y.norm(dim=1, keepdim=True)
        v = attention(y)
        return v - (v * y).sum(1, keepdim=True) * y

    def step(y):
        slopes = []
        for i in range(stages):
            there = y + h * sum((w * s for w, s in zip(a[i], slopes, strict=False) if w), 0 * y)
            slopes.append(velocity(there))
        y = y + h * sum(w * s for w, s in zip(b, slopes, strict=True) if w)
        return y / y.norm(dim=1, keepdim=True)

    def run():
        z = y
        for _ in range(min(steps, 3)):
            z = step(z)
        torch.cuda.synchronize()
        return z

    return timed(run) / (min(steps, 3) * stages)


def _flow(count, dim, tolerance, horizon, frames=101, sums=(None,)):
    """Milliseconds of one evaluation in whole flows, frames kept and brought to the CPU."""
    import metastable as ms

    measure, field = ms.Points(tokens(count, dim)), ms.SelfAttention(BETA)
    rows = {}
    for how in sums:
        stepper = ms.Adaptive(rtol=tolerance, atol=tolerance)
        run = lambda how=how, stepper=stepper: ms.flow(
            measure, field, horizon, stepper=stepper, sum=how, frames=frames
        )
        found = run()
        evaluations = found.statistics["evaluations"]
        seconds = timed(run, 1)
        rows["default" if how is None else how.name] = {
            "sum": found.statistics["sum"],
            "evaluations": evaluations,
            "seconds": seconds,
            "ms_an_evaluation": 1e3 * seconds / evaluations,
            "end": np.asarray(found.frames[-1].points),
        }
    ends = [row.pop("end") for row in rows.values()]
    if len(ends) > 1:
        rows["largest_difference_of_ends"] = float(np.abs(ends[0] - ends[-1]).max())
    return rows


def single():
    """rtol = 1e−5, d = 64, n = 65 536: the default, the default of before, PyTorch in float32."""
    rows = _flow(65536, 64, 1e-5, 2.0, 11, (None, Before()))
    steps = max(1, rows["default"]["evaluations"] // 14)
    peer = 1e3 * torch_flow(tokens(65536, 64), 2.0, steps, "float32", True)
    ours = rows["default"]["ms_an_evaluation"]
    before = rows["blocks of 1024"]
    return rows | {
        "torch_sdpa_float32_ms": peer,
        "times_torch": peer / ours,
        "times_before": before["seconds"] / rows["default"]["seconds"],
        "times_before_an_evaluation": before["ms_an_evaluation"] / ours,
    }


def double():
    """Default tolerances, d = 64, n = 65 536, against PyTorch in float64."""
    rows = _flow(65536, 64, 1e-9, 2.0, 11)
    peer = 1e3 * torch_flow(tokens(65536, 64), 2.0, 10, "float64", False)
    ours = rows["default"]["ms_an_evaluation"]
    return rows | {"torch_float64_ms": peer, "times_torch": peer / ours}


def middle():
    """n = 8192, d = 64: whole flows with 101 frames in both precisions."""
    return {
        "rtol 1e-5": _flow(8192, 64, 1e-5, 5.0),
        "rtol 1e-9": _flow(8192, 64, 1e-9, 5.0),
    }


def late():
    """A flow that goes on after clusters have formed: the default against all pairs throughout."""
    import metastable as ms

    measure, field, runs = ms.Points(tokens(65536, 8)), ms.SelfAttention(BETA), {}
    for name, how in (("default", None), ("dense", ms.Dense())):
        run = lambda how=how: ms.flow(measure, field, 30.0, sum=how, frames=31)
        run()
        runs[name] = run()
    rows = {name: dict(run.statistics) for name, run in runs.items()}
    ours, theirs = (np.asarray(run.frames[-1].points) for run in runs.values())
    return rows | {"ends_apart": float(np.abs(ours - theirs).max())}


def gradient():
    """∂/∂x of a loss at the end of a flow through the fused sum, against the dense sum."""
    import jax

    import metastable as ms
    from metastable.core.numerics import jnp
    from metastable.fields.sums.gpu import FusedSum

    measure, field = ms.Points(tokens(4096, 64)), ms.SelfAttention(BETA)

    def loss(x, how):
        run = ms.flow(measure.at(x), field, 1.0, stepper=ms.Fixed(0.25), sum=how, frames=(0.0, 1.0))
        return jnp.sum(run.frames[-1].points[:, 0] ** 3)

    found, seconds = {}, {}
    for name, how in (("fused", FusedSum()), ("dense", ms.Dense())):
        run = jax.jit(jax.grad(lambda x, how=how: loss(x, how)))
        found[name] = np.asarray(run(measure.points))
        seconds[name] = timed(lambda run=run: jax.block_until_ready(run(measure.points)), 1)
    largest = np.abs(found["dense"]).max()
    return {
        "seconds": seconds,
        "relative_difference": float(np.abs(found["fused"] - found["dense"]).max() / largest),
    }


def staircase(count=2**18, dim=8, limit=540.0):
    """From uniform to the last cluster, by merging, as `flow` does it; how far when time is up."""
    import metastable as ms
    from metastable.flows.solvers.merging import MergingFlow
    from metastable.flows.solvers.solver import Choices

    began, seen = time.perf_counter(), []
    start = ms.Points(tokens(count, dim))
    solver = MergingFlow(start, ms.SelfAttention(BETA), math.inf, Choices(ms.Merging(), None, 101))
    solver.start()
    while solver.outcome is None and time.perf_counter() < began + limit:
        solver.advance()
        row = {"seconds": time.perf_counter() - began, "log_t": solver.log_time}
        row |= {"tokens": len(solver.x), "evaluations": solver.evaluations}
        row |= {"rank": solver.ranks.counts["rank"]}
        if not seen or row["seconds"] > seen[-1]["seconds"] + 5 or solver.outcome is not None:
            seen.append(row)
            print(row, file=sys.stderr, flush=True)
    done = len(solver.x) == 1
    return {"n": count, "d": dim, "finished": done, "seen": seen} | solver.statistics()


def phase_diagram():
    """32 tokens, 90 β × 2048 samples × 200 times to t = 30, against Euler steps in PyTorch."""
    import jax
    import torch

    from metastable.core.numerics import jnp
    from metastable.flows.ensemble import Angles, Gram, flow_ensemble

    betas = np.repeat(np.linspace(0.1, 9.0, 90), 2048).astype(np.float32)
    near = lambda form, y: form.pair(y) >= 0.999
    rows = {}
    for dim in (2, 128):
        x = np.tile(tokens(2048 * 32, dim).reshape(2048, 32, dim), (90, 1, 1)).astype(np.float32)
        z = torch.tensor(x, device="cuda")
        if dim == 2:
            form = Angles(jnp.asarray(betas))
            start = jnp.asarray(np.arctan2(x[..., 1], x[..., 0]).T)
        else:
            form = Gram(jnp.asarray(betas)[:, None, None])
            start = jnp.tile(jnp.einsum("snd,smd->snm", x[:2048], x[:2048]), (90, 1, 1))
        run = lambda form=form, start=start: jax.block_until_ready(
            flow_ensemble(form, start, 30.0, 201, near)
        )
        ours = timed(run)
        sharp = torch.tensor(betas, device="cuda")[:, None, None]

        def euler(z, sharp=sharp, step=0.15):
            v = torch.softmax(sharp * (z @ z.transpose(1, 2)), -1) @ z
            v = v - (v * z).sum(-1, keepdim=True) * z
            z = z + step * v
            z = z / z.norm(dim=-1, keepdim=True)
            return z, ((z[:, 0] * z[:, 1]).sum(-1) >= 0.999)

        def peer(z=z, euler=euler):
            for _ in range(20):  # each of the 200 costs the same
                z, close = euler(z)
            torch.cuda.synchronize()
            return close

        theirs = 10 * timed(peer)
        rows[f"d = {dim}"] = {"seconds": ours, "peer_seconds": theirs, "times": theirs / ours}
    return rows


def accuracy(cases=200):
    """Random cases of every sum that a GPU may be given, against float64 by NumPy."""
    import metastable as ms
    from metastable.fields.sums.gpu import FusedSum

    rng = np.random.default_rng(3)
    worst = {"fused": 0.0, "dense": 0.0}
    for _ in range(cases):
        n, d = int(rng.choice([300, 1500, 5000])), int(rng.choice([2, 3, 5, 8, 24, 64]))
        beta = float(rng.choice([0.0, 1.0, 9.0, 60.0]))
        x = rng.normal(size=(n, d))
        if rng.uniform() < 0.5:  # clustered
            x = 5 * x[rng.integers(0, 7, n)] + 10.0 ** rng.uniform(-4, 0) * x
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        w = rng.uniform(0.01, 1, n) if rng.uniform() < 0.5 else np.ones(n)
        query = None if rng.uniform() < 0.7 else rng.normal(size=(d, d)) / math.sqrt(d)
        q = x if query is None else x @ query.T
        logits = beta * q @ x.T
        k = np.exp(logits - logits.max(1, keepdims=True)) * w
        mean = k @ x / k.sum(1, keepdims=True)
        exact = mean - (mean * x).sum(1, keepdims=True) * x
        field, measure = ms.SelfAttention(beta, query=query), ms.Points(x, w)
        for name, how, stated in (
            ("fused", FusedSum(), FusedSum.error(float(np.abs(logits).max()))),
            ("dense", ms.Dense(), 1e-15 * (100 + 10 * float(np.abs(logits).max()))),
        ):
            got = np.asarray(field.velocity(measure, sum=how))
            error = np.linalg.norm(got - exact, axis=1).max()
            worst[name] = max(worst[name], float(error / stated))
    return {"cases": cases, "worst_error_over_stated": worst}


def crossover():
    """The chosen sum against every other, over n, d and tolerance; the worst ratio."""
    import jax

    import metastable as ms
    from metastable.fields.sums import HarmonicSum, choose_sum
    from metastable.fields.sums.gpu import FusedSum

    rows, field = [], ms.SelfAttention(BETA)
    for dim, count, tolerance in [
        (d, n, tol)
        for d in (2, 3, 4, 6, 16, 64)
        for n in (2048, 16384, 65536)
        for tol in (1e-6, 1e-10)
    ]:
        measure = ms.Points(tokens(count, dim))
        chosen = choose_sum(measure, field, tolerance)
        sums = {"chosen": chosen, "dense": ms.Dense()}
        if tolerance >= FusedSum.error(BETA):
            sums["fused"] = FusedSum()
        if dim <= 4:
            try:
                sums["harmonic"] = HarmonicSum.reaching(BETA, dim, tolerance * 1e-2)
            except ValueError:
                pass
        times = {}
        for name, how in sums.items():
            f = jax.jit(lambda m, how=how: field.velocity(m, sum=how))
            wait = lambda f=f, m=measure: jax.block_until_ready(f(m))
            times[name] = timed(wait, 3)
        rows.append(
            {"d": dim, "n": count, "tolerance": tolerance, "chosen": chosen.name, "ms": times}
        )
    worst = max(rows, key=lambda r: r["ms"]["chosen"] / min(r["ms"].values()))
    return {"rows": rows, "worst": worst["ms"]["chosen"] / min(worst["ms"].values()), "at": worst}


PARTS = [single, double, middle, late, gradient, phase_diagram, accuracy, crossover, staircase]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None, help="file for the results")
    parser.add_argument("--only", nargs="*", default=None, help="names of parts")
    arguments = parser.parse_args()
    results = {}
    for part in PARTS:
        if arguments.only and part.__name__ not in arguments.only:
            continue
        began = time.perf_counter()
        try:
            results[part.__name__] = part()
        except Exception as error:
            traceback.print_exc(limit=-3)
            results[part.__name__] = {"failed": f"{type(error).__name__}: {str(error)[:500]}"}
        print(part.__name__, f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        print(json.dumps(results[part.__name__], default=str), flush=True)
        if arguments.out:
            Path(arguments.out).write_text(json.dumps(results, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
