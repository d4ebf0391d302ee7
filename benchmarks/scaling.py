"""One field evaluation over 1 to 16 CPU devices: strong and weak scaling, and what travels.

    [BLOCK=256] python benchmarks/scaling.py [--out FILE.json] [--quick]

Each device computes with one thread, so that p devices use p cores; p stops at the number of
cores. Beside it stands one device with all threads, which is what a user has without a ring. The
links are timed by themselves: a ring of one process, and of two processes on one host by gloo.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
BETA, MOST = 9.0, 16
# Tokens in all (strong) or on the first device (weak: the same work on each, so √p for pairs).
SIZES = {3: 32768, 64: 16384}
FIRST = {3: 8192, 64: 4096}


def measure(quick: bool = False) -> dict:
    cores = len(os.sched_getaffinity(0))
    counts = [p for p in (1, 2, 4, 8, 16) if p <= min(cores, MOST)]
    words = ["--quick"] if quick else []
    one = _child(["--devices", *map(str, counts), *words], counts[-1], threads=False)
    whole = _child(["--devices", "1", str(counts[-1]), *words], counts[-1], threads=True)
    for row in whole["rows"]:
        row["threads"] = "all"
    result = {"rows": one["rows"] + whole["rows"], "links": one["links"] + _two_processes(words)}
    return result | {"summary": _summary(result["rows"], counts[-1])}


def _summary(rows: list[dict], most: int) -> list[str]:
    lines = []
    for row in rows:
        if row["devices"] != most or row["threads"] != 1:
            continue
        same = ("what", "method", "d", "threads")
        first = next(r for r in rows if r["devices"] == 1 and all(r[k] == row[k] for k in same))
        if row["what"] == "strong":
            gain = first["seconds"] / row["seconds"]
            said = f"{gain:.1f} times the speed of one device"
        else:
            said = f"{first['seconds'] / row['seconds']:.0%} of ideal"
        lines.append(f"{row['what']}, {row['method']}, d = {row['d']}, {most} devices: {said}")
    return lines


def _child(words: list[str], devices: int, threads: bool) -> dict:
    flags = f"--xla_force_host_platform_device_count={devices}"
    if not threads:
        flags += " --xla_cpu_multi_thread_eigen=false"
    # Code compiled for the cache may lack instructions of this machine.
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, __file__, "--child", *words],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def _scaling(counts: list[int], quick: bool) -> dict:
    from benchmarks import timing
    from metastable.core.numerics import jax

    rows, shrink = [], 4 if quick else 1
    for dim in SIZES:
        for what in ("strong", "weak"):
            for p in counts:
                first = FIRST[dim] * math.sqrt(p) if what == "weak" else SIZES[dim]
                n = 32 * round(first / shrink / 32)
                ways = {"pairs once": _pairs(n, dim, p, own=True)}
                if what == "strong" and p in (1, counts[-1]):
                    ways["all columns"] = _pairs(n, dim, p, own=False)
                    if p == 1:
                        ways["dense"] = _pairs(n, dim, None, own=True)
                for method, seconds in timing.race(ways, rounds=3, budget=4.0).items():
                    rows.append(_row(what, method, p, n, dim, seconds))
    for what, size in (("strong", lambda p: 2**22), ("weak", lambda p: 2**19 * p)):
        for p in counts:
            n = size(p) // shrink
            (seconds,) = timing.race({"": _moments(n, p)}, rounds=3, budget=4.0).values()
            rows.append(_row(what, "moments", p, n, 2, seconds))
    devices = jax.devices()
    links = [_link(devices[:p], size) for p in counts[1:] for size in (2**10, 2**24 // shrink)]
    return {"rows": rows, "links": links}


def _row(what: str, method: str, p: int, n: int, dim: int, seconds: float) -> dict:
    about = {"what": what, "method": method, "devices": p, "threads": 1, "n": n, "d": dim}
    return about | {"seconds": seconds}


def _pairs(n: int, dim: int, p: int | None, own: bool):
    import metastable as ms
    from metastable.core.numerics import jax, jnp
    from metastable.fields.sums.kernel import Kernel
    from metastable.fields.sums.sharded import ShardedSum

    dense = ms.Dense(int(os.environ["BLOCK"])) if "BLOCK" in os.environ else ms.Dense()
    sum = dense if p is None else ShardedSum(dense, jax.devices()[:p])
    column = jnp.full(n, -math.log(n))
    # Without `own` the sum of all columns is asked for: what any other kernel pays.
    run = jax.jit(
        lambda x: sum.attend(Kernel(jnp.asarray(BETA), x, x, column, None, zonal=own, own=own), x)
    )
    x = _placed(ms.uniform(tokens=n, dim=dim, seed=0).points, p)
    return lambda: run(x)


def _moments(n: int, p: int):
    import metastable as ms
    from metastable.core.numerics import jax, jnp
    from metastable.fields.sums.kernel import Kernel
    from metastable.fields.sums.sharded import ShardedSum

    sum = ShardedSum(ms.HarmonicSum.reaching(BETA, 2, 1e-11), jax.devices()[:p])
    column = jnp.full(n, -math.log(n))
    run = jax.jit(
        lambda x: sum.attend(Kernel(jnp.asarray(BETA), x, x, column, zonal=True, own=True), x)
    )
    x = _placed(ms.uniform(tokens=n, dim=2, seed=0).points, p)
    return lambda: run(x)


def _placed(x, p: int | None):
    """Tokens where a flow keeps them: spread over the devices that sum them."""
    import numpy as np

    from metastable.core.numerics import jax

    mesh = jax.sharding.Mesh(np.array(jax.devices()[: p or 1]), ("ring",))
    return jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("ring")))


def _link(devices, size: int, turns: int = 20) -> dict:
    """Seconds of one step of the ring, in which each device sends `size` bytes to the next."""
    import numpy as np

    from metastable.core.numerics import jax, jnp

    count = len(devices)
    mesh = jax.sharding.Mesh(np.array(devices), ("ring",))
    spec = jax.sharding.PartitionSpec("ring")
    onward = [(i, (i + 1) % count) for i in range(count)]

    def around(x):
        step = lambda x, _: (jax.lax.ppermute(x, "ring", onward), None)
        return jax.lax.scan(step, x, length=turns)[0]

    run = jax.jit(jax.shard_map(around, mesh=mesh, in_specs=spec, out_specs=spec))
    sharding = jax.sharding.NamedSharding(mesh, spec)
    x = jax.jit(lambda: jnp.zeros(count * size // 8), out_shardings=sharding)()
    run(x).block_until_ready()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run(x).block_until_ready()
        times.append((time.perf_counter() - start) / turns)
    hosts = len({device.process_index for device in devices})
    about = {"devices": count, "processes": hosts, "bytes": size, "seconds": min(times)}
    return about | {"bytes_per_second": size / min(times)}


def _two_processes(words: list[str]) -> list[dict]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    command = [sys.executable, __file__, *words, "--port", str(port), "--rank"]
    started = [
        subprocess.Popen([*command, str(rank)], env=environment, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    return json.loads(outputs[0].splitlines()[-1])


def _rank(rank: int, port: int, quick: bool) -> list[dict]:
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
    return [_link(jax.devices(), size) for size in (2**10, 2**22 if quick else 2**24)]


def draw(result: dict, path) -> None:
    from benchmarks import draw as figures

    panels = {}
    for what in ("strong", "weak"):
        panels[what] = [
            r | {"x": r["devices"], "y": r["seconds"], "method": f"{r['method']}, d = {r['d']}"}
            for r in result["rows"]
            if r["what"] == what and r["threads"] == 1 and r["method"] != "dense"
        ]
    title = "Scaling, one thread a device"
    figures.lines(panels, path, title, "devices", "seconds per evaluation", result["machine"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--devices", type=int, nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(_scaling(given.devices, given.quick)))
    elif given.rank is not None:
        print(json.dumps(_rank(given.rank, given.port, given.quick)))
    else:
        from benchmarks import timing

        began = time.perf_counter()
        result = measure(given.quick)
        result |= {"machine": timing.machine(), "seconds": time.perf_counter() - began}
        text = json.dumps(result | {"load": os.getloadavg()[1]}, indent=1)
        given.out.write_text(text + "\n") if given.out else print(text)
        print("\n".join(result["summary"]), file=sys.stderr)


if __name__ == "__main__":
    main()
