"""The two GPU kernels once more in Triton, as a yardstick for the Pallas ones."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["register_sums", "tiled_sums"]

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _registers(
    x, y, shift, out, tokens: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x0 = tl.load(x + i)[:, None]
    x1 = tl.load(x + tokens + i)[:, None]
    x2 = tl.load(x + 2 * tokens + i)[:, None]
    mass = tl.zeros((ROWS, COLUMNS), tl.float32)
    s0 = tl.zeros((ROWS, COLUMNS), tl.float32)
    s1 = tl.zeros((ROWS, COLUMNS), tl.float32)
    s2 = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, tokens, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        y0 = tl.load(y + j)[None, :]
        y1 = tl.load(y + tokens + j)[None, :]
        y2 = tl.load(y + 2 * tokens + j)[None, :]
        k = tl.exp2(tl.load(shift + j)[None, :] + x0 * y0 + x1 * y1 + x2 * y2)
        mass += k
        s0 += k * y0
        s1 += k * y1
        s2 += k * y2
    tl.store(out + i, tl.sum(mass, 1))
    tl.store(out + tokens + i, tl.sum(s0, 1))
    tl.store(out + 2 * tokens + i, tl.sum(s1, 1))
    tl.store(out + 3 * tokens + i, tl.sum(s2, 1))


def register_sums(beta, x, rows=128, columns=32, warps=4):
    """Σ_j e^{β(⟨x_i,x_j⟩−1)} (1, x_j)/n for x of shape (n, 3), n a multiple of both tile sides."""
    n = x.shape[0]
    y = x.T.contiguous()
    scaled = y * (beta * LOG2E.value)
    shift = torch.full_like(y[0], -beta * LOG2E.value - float(torch.log2(torch.tensor(float(n)))))
    out = torch.empty((4, n), dtype=torch.float32, device=x.device)
    _registers[(n // rows,)](scaled, y, shift, out, n, rows, columns, num_warps=warps)
    return out


@triton.jit
def _tiles(
    x, out, mass, scale, bias, tokens: tl.constexpr,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    here = tl.load(x + i[:, None] * WIDTH + c[None, :])
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    masses = tl.zeros((ROWS,), tl.float32)
    for start in range(0, tokens, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        there = tl.load(x + j[:, None] * WIDTH + c[None, :])
        k = tl.exp2(tl.dot(here, tl.trans(there)) * scale + bias)
        masses += tl.sum(k, 1)
        total = tl.dot(k.to(here.dtype), there, total)
    tl.store(out + i[:, None] * WIDTH + c[None, :], total)
    tl.store(mass + i, masses)


def tiled_sums(beta, x, rows=128, columns=64, warps=8, stages=3):
    """Σ_j e^{β(⟨x_i,x_j⟩−1)} (1, x_j) for x of shape (n, d) in bfloat16, d a power of two."""
    n, width = x.shape
    out = torch.empty((n, width), dtype=torch.float32, device=x.device)
    mass = torch.empty(n, dtype=torch.float32, device=x.device)
    scale = beta * LOG2E.value
    _tiles[(n // rows,)](
        x, out, mass, scale, -scale, n, width, rows, columns, num_warps=warps, num_stages=stages
    )
    return mass, out
