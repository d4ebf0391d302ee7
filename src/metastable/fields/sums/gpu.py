"""Dense attention on a GPU, fused into one kernel; the plain dense sum elsewhere."""

from __future__ import annotations

from functools import reduce
from operator import add

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core.numerics import jax
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.fused import WIDEST, Logits, fused_sums
from metastable.fields.sums.kernel import Attended, Kernel, Sum


class FusedSum(Sum):
    """All pairs in one GPU kernel in float32, added up in float64.

    Serves every kernel of at most 256 axes and channels: any query and key, masks and positional
    schemes, weights; each head on its own. The sphere with identity query and key needs no running
    maximum and is the fastest. Derivatives, forward and reverse, are those of the dense sum.
    `half` rounds the factors of the matrix products to bfloat16 when there are more than four
    axes: the mean then has about two digits. On other devices this is the dense sum; `interpret`
    runs the GPU kernel's program on a CPU, for tests.
    """

    half: bool = eqx.field(static=True, default=False)
    interpret: bool = eqx.field(static=True, default=False)

    @property
    def name(self) -> str:
        return f"fused {'bfloat16' if self.half else 'float32'}"

    @staticmethod
    def error(logit: float) -> float:
        """The stated error of the mean in float32, relative to the largest value.

        A logit up to `logit` (β on the sphere) is rounded at 2^−24 of itself and enters an
        exponential; three roundings more are the products and sums. Positive terms do not cancel.
        """
        return 2.0**-23 * (4 + logit)

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        served = max(kernel.left.shape[1], values.shape[1]) <= WIDEST
        plain = not jax.tree.leaves(eqx.filter(kernel.biases, eqx.is_array))
        here = self.interpret or jax.default_backend() == "gpu"
        if not (served and plain and here):
            return Dense().attend(kernel, values)
        return _attend((kernel, values), self)


@eqx.filter_custom_jvp
def _attend(inputs: tuple[Kernel, Array], how: FusedSum) -> Attended:
    kernel, values = inputs
    biases = kernel.biases
    bias = None if not biases else lambda r, c: reduce(add, (scheme(r, c) for scheme in biases))
    logits = Logits(
        kernel.beta,
        kernel.left,
        kernel.right,
        kernel.column,
        kernel.zonal,
        bias,
        kernel.row_times,
        kernel.column_times,
    )
    log_mass, mean = fused_sums(logits, values, half=how.half, interpret=how.interpret)
    if kernel.row is not None:
        log_mass = log_mass + kernel.row
    return log_mass.astype(values.dtype), mean.astype(values.dtype)


@_attend.def_jvp
def _attend_jvp(primals: tuple, tangents: tuple) -> tuple[Attended, Attended]:
    inputs, how = primals
    dense = lambda kernel, values: Dense().attend(kernel, values)
    _, change = eqx.filter_jvp(dense, inputs, tangents[0])
    return _attend(inputs, how), change
