"""Four forced host devices in a process of their own give the numbers of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from metastable.fields.sums.sharded import ShardedSum

SCRIPT = """
import json
import numpy as np
import metastable as ms
from metastable.fields.sums.sharded import ShardedSum
from metastable.core.numerics import jax, jnp

rng = np.random.default_rng(0)
errors = {"devices": len(jax.devices())}
for tokens in (3, 501):  # fewer than the devices, and no multiple of them
    points, weights = rng.normal(size=(tokens, 5)), rng.uniform(size=tokens)
    weights[0] = 0.0
    measure = ms.from_array(points, weights)
    query, key = rng.normal(size=(2, 4, 5))
    fields = {
        "plain": ms.SelfAttention(9.0),
        "matrices": ms.SelfAttention(2.0, query, key),
        "causal": ms.SelfAttention(3.0, causal=True, position=ms.Alibi(0.1)),
    }
    if tokens == 3:
        fields = {"plain": fields["plain"]}
    for name, field in fields.items():
        one, four = field.velocity(measure), field.velocity(measure, sum=ShardedSum())
        errors[f"{name} {tokens}"] = float(jnp.max(jnp.abs(one - four)))
loss = lambda x, sum: jnp.sum(jnp.sin(ms.SelfAttention(4.0).velocity(measure.at(x), sum=sum)))
gradients = [jax.grad(loss)(measure.points, sum) for sum in (ms.Dense(), ShardedSum())]
errors["gradient"] = float(jnp.max(jnp.abs(gradients[0] - gradients[1])))
print(json.dumps(errors))
"""


def test_four_devices_give_the_numbers_of_one():
    flags = "--xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout.splitlines()[-1])
    assert errors.pop("devices") == 4
    assert len(errors) == 5 and np.max(list(errors.values())) < 1e-12, errors


def test_no_devices_are_refused():
    with pytest.raises(ValueError, match="devices"):
        ShardedSum(devices=[])
