"""The numerics policy holds however the package comes to be loaded."""

import subprocess
import sys

import pytest

INSIDE = """
y = jax.jit(lambda x: metastable.SelfAttention(beta=1.0).velocity(metastable.Points(x)))(
    np.array([[1.0, 0.0], [0.0, 1.0]])
)
assert y.dtype == "float64", y.dtype
assert jax.config.jax_default_matmul_precision == "highest"
"""


@pytest.mark.parametrize("order", ["import metastable, jax", "import jax, metastable"])
def test_first_use_may_be_inside_a_compiled_function(order):
    code = f"{order}\nimport numpy as np\n{INSIDE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
