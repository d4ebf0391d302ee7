"""Frames on their way to the page: a JSON header and plain arrays, in one block of bytes.

A packet is a u32 with the length of the header, the header in UTF-8, padded with spaces so that the
data begin at a multiple of 8, and the arrays in order, each padded to a multiple of 8; all of it
little-endian. A recording is packets one after another, each after a u32 with its own length: a
head, frames, an end.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"f4": "<f4", "f8": "<f8", "u1": "u1", "u2": "<u2", "u4": "<u4"}


def pack(header: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> bytes:
    """One packet; every array must already have one of the types of `KINDS`.

    >>> unpack(pack({"kind": "frame"}, {"mass": np.ones(3, "f4")}))[1]["mass"].tolist()
    [1.0, 1.0, 1.0]
    """
    arrays = arrays or {}
    listed = [[name, a.dtype.str[1:], list(a.shape)] for name, a in arrays.items()]
    # No NaN or infinity: JavaScript would refuse to read them.
    text = json.dumps({**header, "arrays": listed}, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    parts = [struct.pack("<I", len(text)), text]
    for array in arrays.values():
        raw = np.ascontiguousarray(array, KINDS[array.dtype.str[1:]]).tobytes()
        parts += [raw, b"\0" * (-len(raw) % 8)]
    return b"".join(parts)


def header_of(packet: bytes) -> dict[str, Any]:
    """The header alone."""
    (length,) = struct.unpack_from("<I", packet)
    return json.loads(packet[4 : 4 + length])


def unpack(packet: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of one packet."""
    header = header_of(packet)
    at = 4 + struct.unpack_from("<I", packet)[0]
    arrays = {}
    for name, kind, shape in header.pop("arrays"):
        count = int(np.prod(shape, dtype=int))
        array = np.frombuffer(packet, KINDS[kind], count, at)
        arrays[name] = array.reshape(shape)
        at += array.nbytes + -array.nbytes % 8
    return header, arrays


def framed(packet: bytes) -> bytes:
    """A packet after its own length, as recordings hold it."""
    return struct.pack("<I", len(packet)) + packet


def read_recording(path: Path) -> Iterator[bytes]:
    """The packets of a recording; one cut short gives those that are whole."""
    with path.open("rb") as file:
        while len(start := file.read(4)) == 4:
            (length,) = struct.unpack("<I", start)
            packet = file.read(length)
            if len(packet) < length:
                return
            yield packet
