"""How a sweep lies in Zarr v3: metadata and chunks, as bytes that depend on the plan alone.

Data variables have one chunk per cell. `outcome` and `done` have few, larger chunks, which are
written again as cells finish. No compressor, and a crc32c at the end of every chunk: a damaged one
is an error for any reader, never a wrong number. The root holds all metadata a second time
(consolidated), so that one rename shows a store of another shape to its readers.
"""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Iterator
from typing import Any

import google_crc32c
import numpy as np

from metastable.sweep.plan import Index, Plan

# Codes of the variable `outcome`; a name that is not here counts as an error.
OUTCOMES = ("not run", "done", "step_limit", "blow_up", "error")
COORDINATE = 1024  # values of an axis per chunk; a longer axis writes into the same chunk
LEDGER = 2**16  # cells per chunk of `outcome` and `done`, at most


def encoded(array: np.ndarray) -> bytes:
    """One chunk: little-endian numbers in C order, then their crc32c."""
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return data + google_crc32c.value(data).to_bytes(4, "little")


def decoded(data: bytes, dtype: Any, shape: Index) -> np.ndarray | None:
    """The numbers of a chunk, or None if it is damaged."""
    body, check = data[:-4], data[-4:]
    whole = len(body) == np.dtype(dtype).itemsize * math.prod(shape)
    if not whole or google_crc32c.value(body).to_bytes(4, "little") != check:
        return None
    return np.frombuffer(body, dtype).reshape(shape)


def chunk_name(index: Index) -> str:
    return "c." + ".".join(map(str, index))


def chunk_of(dims: int) -> int:
    """Side of the chunks of `outcome` and `done`; it must not depend on the shape, which grows."""
    return max(1, int(LEDGER ** (1 / dims) + 1e-9))


def block_slices(shape: Index) -> Iterator[tuple[Index, tuple[slice, ...]]]:
    """Chunks of `outcome` and `done`: their index, and the part of the array they hold."""
    side = chunk_of(len(shape))
    for index in itertools.product(*(range(-(-n // side)) for n in shape)):
        yield index, tuple(slice(k * side, (k + 1) * side) for k in index)


def metadata(plan: Plan, about: dict[str, Any]) -> dict[str, bytes]:
    """Every file of an empty store by its path; the root, which makes it a store, comes last."""
    cells = (*plan.dims, "repetition")
    side = (chunk_of(len(cells)),) * len(cells)
    arrays: dict[str, dict[str, Any]] = {}
    files: dict[str, bytes] = {}
    for dim, values in zip(plan.dims, plan.values, strict=True):
        arrays[dim] = _coordinate(dim, labels(values), files)
    arrays["repetition"] = _coordinate("repetition", np.arange(plan.repetitions), files)
    if plan.times is not None:
        arrays["time"] = _coordinate("time", plan.times, files)
        arrays["time"]["attributes"] = {"clock": plan.clock}
    flags = {"flag_values": list(range(len(OUTCOMES))), "flag_meanings": "|".join(OUTCOMES)}
    arrays["outcome"] = _array(cells, plan.shape, side, "int8", 0, flags)
    arrays["done"] = _array(cells, plan.shape, side, "bool", False, {})
    for one in plan.kept:
        more = () if plan.times is None or not one.per_time else (len(plan.times),)
        dims = (*cells, "time") if more else cells
        chunk = (*(1 for _ in cells), *more)
        described = {"long_name": one.about} | ({"share": list(one.share)} if one.share else {})
        arrays[one.name] = _array(dims, plan.shape + more, chunk, "float64", "NaN", described)
    files |= {f"{name}/zarr.json": _json(array) for name, array in arrays.items()}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": arrays}
    root = {"zarr_format": 3, "node_type": "group", "attributes": about}
    files["zarr.json"] = _json(root | {"consolidated_metadata": consolidated})
    return files


def labels(values: Any) -> np.ndarray:
    """An axis as a coordinate: numbers as float64 (also where cases are named so), else words."""
    try:
        if not any(isinstance(value, bool) for value in values):
            return np.array([float(value) for value in values])
    except ValueError:
        pass
    words = (str(v).lower() if isinstance(v, bool) else str(v) for v in values)
    return np.array(list(words), dtype=object)


def _coordinate(name: str, values: np.ndarray, files: dict[str, bytes]) -> dict[str, Any]:
    words = values.dtype == object
    for k in range(0, len(values), COORDINATE):
        part = values[k : k + COORDINATE]
        rest = COORDINATE - len(part)
        path = f"{name}/{chunk_name((k // COORDINATE,))}"
        files[path] = _words([*part, *[""] * rest]) if words else encoded(np.pad(part, (0, rest)))
    kind = "string" if words else values.dtype.name
    fill = {"string": "", "int64": 0, "float64": "NaN"}[kind]
    return _array((name,), (len(values),), (COORDINATE,), kind, fill, {})


def _words(values: list[str]) -> bytes:
    """Zarr's vlen-utf8: the number of items, then each with its length before it."""
    items = [value.encode() for value in values]
    body = b"".join(struct.pack("<I", len(item)) + item for item in items)
    data = struct.pack("<I", len(items)) + body
    return data + google_crc32c.value(data).to_bytes(4, "little")


def _array(
    dims: tuple[str, ...], shape: Index, chunk: Index, kind: str, fill: Any, attributes: Any
) -> dict[str, Any]:
    codec: dict[str, Any] = {"name": "bytes"}
    if kind == "string":
        codec = {"name": "vlen-utf8"}
    elif kind in ("int64", "float64"):
        codec["configuration"] = {"endian": "little"}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": fill,
        "codecs": [codec, {"name": "crc32c"}],
        "attributes": attributes,
        "dimension_names": list(dims),
    }


def _json(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, indent=1, ensure_ascii=False).encode()
