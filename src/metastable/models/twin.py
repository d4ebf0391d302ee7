"""A model in memory, to be looked at in any precision and on any device without being changed."""

from __future__ import annotations

import contextlib
import copy
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from metastable.core.checks import in_bytes

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def read_dtype(dtype: Any) -> torch.dtype | None:
    """A precision by its name, or as torch has it; None stays None."""
    if dtype is None or dtype in DTYPES.values():
        return dtype
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    *most, last = DTYPES
    raise ValueError(f"dtype must be {', '.join(most)} or {last}; got {dtype!r}.")


def read_device(device: Any) -> torch.device | None:
    """A device that torch sees; None stays None."""
    if device is None:
        return None
    seen = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
    seen += ["mps"] if torch.backends.mps.is_available() else []
    name = "cuda:0" if str(device) == "cuda" else str(device)
    if name not in seen:
        raise ValueError(
            f"device must be one that torch sees here ({', '.join(seen)}); got {str(device)!r}: "
            "leave it out, or install a torch that knows your device."
        )
    return torch.device(name)


def twin_of(
    model: nn.Module, dtype: torch.dtype | None, device: torch.device | None, always: bool = True
) -> nn.Module:
    """The same model with modules, configuration and hooks of its own, and the same tensors.

    Looking at it needs evaluation mode and plain attention, which would stay on the model given.
    Tensors are shared unless they are of another precision or elsewhere than asked for. Buffers
    that are no weights keep their precision: rotary frequencies do not bear half of it. Without
    `always`, a model that is as asked for is given back itself.
    """
    weights = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():  # and those that a module keeps as plain attributes
        tensors += [value for value in vars(module).values() if isinstance(value, Tensor)]
    if any(tensor.is_meta for tensor in tensors):
        raise ValueError("model must hold its weights; got one on the device meta: load them.")

    def wanted(tensor: Tensor) -> dict[str, Any]:
        becomes = dtype if id(tensor) in weights and tensor.is_floating_point() else None
        return {"device": device or tensor.device, "dtype": becomes or tensor.dtype}

    apart = {id(t): t for t in tensors if any(getattr(t, k) != v for k, v in wanted(t).items())}
    if not apart and not always:
        return model
    # A model made from GGUF remembers a quantisation that its tensors no longer have.
    known = all(t.dtype in DTYPES.values() for t in tensors if t.dtype.is_floating_point)
    packed = any(t.dtype in (torch.uint8, torch.int8) for t in model.parameters())
    if apart and getattr(model, "is_quantized", False) and (packed or not known):
        raise ValueError(
            "dtype and device must be left out for a quantised model; got another than its own."
        )
    need = sum(t.numel() * wanted(t)["dtype"].itemsize for t in apart.values())
    for place in {wanted(tensor)["device"] for tensor in apart.values()}:
        check_memory(type(model).__name__, need, place)
    memo: dict[int, Tensor] = {id(tensor): tensor for tensor in tensors}  # not copied
    for key, tensor in apart.items():
        own = tensor.detach().to(**wanted(tensor))
        is_weight = isinstance(tensor, nn.Parameter)
        memo[key] = nn.Parameter(own, tensor.requires_grad) if is_weight else own
    return copy.deepcopy(model, memo)


def check_memory(what: str, need: float, device: torch.device) -> None:
    """Refuse weights of so many bytes that the memory for them is not free, before any is read."""
    have = free_memory(device)
    if need > have:
        raise ValueError(
            f"model must fit the free memory of the {device}; {what} needs {in_bytes(need)} and "
            f"{in_bytes(have)} are free: take a smaller one, or dtype='bfloat16'."
        )


def free_memory(device: torch.device) -> float:
    """Bytes that may still be taken on a device; all there is where the system does not say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
