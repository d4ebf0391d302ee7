"""Forced host devices, and two processes: the numbers of a sum over all pairs by NumPy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import metastable as ms
from metastable.fields.sums import CircleSum, HarmonicSum
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.sharded import ShardedSum, sharded_choice, travel_cost

# In each sum there are a token of mass zero, and numbers of tokens that devices cannot share
# evenly. Errors are relative to 1, the length of the mean of unit vectors at most.
SCRIPT = """
import json, sys
import numpy as np
rank, port = int(sys.argv[1]), int(sys.argv[2])
import jax
if port:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
import metastable as ms
from metastable.fields.sums.sharded import ShardedSum
from metastable.core.numerics import jnp

def expected(x, w, beta, query=None, key=None, times=None, slope=0.0):
    q, k = (x if m is None else x @ m.T for m in (query, key))
    logits = beta * q @ k.T + np.log(w, where=w > 0, out=np.full(len(w), -np.inf))
    if times is not None:
        apart = times[:, None] - times
        logits = np.where(apart >= 0, logits - slope * apart, -np.inf)
    a = np.exp(logits - logits.max(1, keepdims=True))
    mean = a @ x / a.sum(1, keepdims=True)
    return mean - x * (x * mean).sum(1, keepdims=True)

rng = np.random.default_rng(0)
query, key = rng.normal(size=(2, 4, 5))
errors = {"devices": len(jax.devices())}
for tokens in (3, 96, 501):  # fewer than the devices, a multiple of them, neither
    points, weights = rng.normal(size=(tokens, 5)), rng.uniform(size=tokens)
    weights[0] = 0.0
    weights /= weights.sum()
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    measure = ms.from_array(points, weights)
    # Visible to itself, the first token would otherwise see no mass at all.
    seen = ms.from_array(points[1:], weights[1:])
    order = np.asarray(seen.positions, float)
    cases = {
        "plain": (ms.SelfAttention(9.0), measure, expected(points, weights, 9.0)),
        "matrices": (
            ms.SelfAttention(2.0, query, key), measure, expected(points, weights, 2.0, query, key)
        ),
        "causal": (
            ms.SelfAttention(3.0, causal=True, position=ms.Alibi(0.1)),
            seen,
            expected(points[1:], weights[1:], 3.0, times=order, slope=0.1),
        ),
    }
    for name, (field, given, right) in cases.items():
        if name != "plain" and tokens != 501:
            continue
        velocity = np.asarray(field.velocity(given, sum=ShardedSum()))
        errors[f"{name} {tokens}"] = float(np.abs(velocity - right).max())
    if tokens == 3:
        continue
    flat = points[:, :2] / np.linalg.norm(points[:, :2], axis=1, keepdims=True)
    harmonic = ms.HarmonicSum.reaching(9.0, 2)
    velocity = ms.SelfAttention(9.0).velocity(
        ms.from_array(flat, weights), sum=ShardedSum(harmonic)
    )
    errors[f"moments {tokens}"] = float(np.abs(velocity - expected(flat, weights, 9.0)).max())
if port:
    # Steps of a fixed length: adaptive ones follow the rounding of their error estimate, so that
    # two runs agree to the stepper's tolerance only, which says nothing about the sum.
    run = lambda sum: ms.flow(
        measure, ms.SelfAttention(4.0), 1.0, sum=sum, frames=2, stepper=ms.Fixed(0.25)
    )
    ends = [np.asarray(run(sum).frames[-1].points) for sum in (ms.Dense(), ShardedSum())]
    errors["flow"] = float(np.abs(ends[0] - ends[1]).max())
else:
    loss = lambda x, sum: jnp.sum(jnp.sin(ms.SelfAttention(4.0).velocity(measure.at(x), sum=sum)))
    gradients = [jax.grad(loss)(measure.points, sum) for sum in (ms.Dense(), ShardedSum())]
    errors["gradient"] = float(jnp.max(jnp.abs(gradients[0] - gradients[1])))
print(json.dumps(errors))
"""


def start(devices: int, rank: int = 0, port: int = 0) -> subprocess.Popen:
    flags = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(rank), str(port)],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def errors_of(process: subprocess.Popen) -> dict[str, float]:
    try:
        out, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, said
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("devices", [3, 4])
def test_several_devices_give_the_sum_over_all_pairs(devices):
    errors = errors_of(start(devices))
    assert errors.pop("devices") == devices
    assert len(errors) == 8 and np.max(list(errors.values())) < 1e-12, errors


def test_two_processes_give_the_sum_over_all_pairs():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [start(1, rank, port) for rank in (0, 1)]
    try:
        both = [errors_of(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for errors in both:
        assert errors.pop("devices") == 2
        assert len(errors) == 8 and np.max(list(errors.values())) < 1e-12, errors


def test_no_devices_are_refused():
    with pytest.raises(ValueError, match="devices"):
        ShardedSum(devices=[])


class Device:
    """What the choice looks at of a device."""

    device_kind = "NVIDIA H200"

    def __init__(self, platform: str, process_index: int, limit: int | None):
        self.platform, self.process_index, self.limit = platform, process_index, limit

    def memory_stats(self):
        return None if self.limit is None else {"bytes_limit": self.limit}


CARDS = [Device("gpu", 0, 10**11)] * 4
HOSTS = [Device("cpu", rank, None) for rank in range(4)]
SHARED = [Device("cpu", 0, None)] * 16


def test_one_device_and_devices_that_share_one_core_change_nothing():
    for devices, cores in ((CARDS[:1], 16), (HOSTS[:1], 16), (SHARED, 1)):
        for inner in (ms.Dense(), HarmonicSum(2, 20), CircleSum(20)):
            assert sharded_choice(inner, 10**7, 2, devices=devices, cores=cores) is inner


def test_few_tokens_stay_on_one_device_and_many_are_spread():
    for devices in (CARDS, HOSTS, SHARED):
        assert sharded_choice(ms.Dense(), 100, 3, devices=devices, cores=16) == ms.Dense()
        chosen = sharded_choice(ms.Dense(), 10**6, 3, devices=devices, cores=16)
        assert isinstance(chosen, ShardedSum) and chosen.devices == tuple(devices)


def test_tokens_that_one_device_cannot_hold_are_spread_whatever_it_costs():
    free = lambda memory: sharded_choice(ms.Dense(), 1000, 64, devices=CARDS, memory=memory)
    assert isinstance(free(1000 * 64 * 8), ShardedSum)
    assert free(10**9) == ms.Dense()


def test_a_transform_is_spread_as_the_harmonic_sum_of_its_degree_and_a_causal_sum_never():
    hosts = [Device("cpu", rank, None) for rank in range(64)]
    chosen = sharded_choice(CircleSum(20, 1e-11), 10**8, 2, devices=hosts)
    assert isinstance(chosen, ShardedSum) and chosen.inner == HarmonicSum(2, 20, 1e-11)
    causal = CausalSum(2, 20)
    assert sharded_choice(causal, 10**8, 2, devices=hosts) is causal


def test_what_travels_is_counted():
    """Half a ring of tokens, values and sums; twice the tokens take twice as long."""
    once, twice = (travel_cost(ms.Dense(), n, 3, 8, gpu=True) for n in (8 * 10**6, 16 * 10**6))
    empty = travel_cost(ms.Dense(), 0, 3, 8, gpu=True)
    assert np.isclose(twice - empty, 2 * (once - empty))
    few, many = (travel_cost(HarmonicSum(2, 20), n, 2, 8) for n in (10**3, 10**9))
    assert few == many
