"""Packets, read back by hand from the layout they promise."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastable.explorer.packet import framed, header_of, pack, read_recording, unpack


@given(st.text(max_size=20), st.lists(st.integers(0, 6), min_size=0, max_size=3))
def test_layout_is_as_promised(title, shape):
    arrays = {
        "a": np.arange(int(np.prod(shape)), dtype="f4").reshape(shape),
        "b": np.arange(3, dtype="u1"),
        "c": np.arange(5, dtype="f8"),
    }
    packet = pack({"title": title}, arrays)
    length = int.from_bytes(packet[:4], "little")
    assert (4 + length) % 8 == 0 and len(packet) % 8 == 0
    header = json.loads(packet[4 : 4 + length].decode())
    assert header["title"] == title
    at = 4 + length
    for name, kind, dims in header["arrays"]:
        raw = np.frombuffer(packet, kind, int(np.prod(dims)), at).reshape(dims)
        np.testing.assert_array_equal(raw, arrays[name])
        at += -(-raw.nbytes // 8) * 8
    assert at == len(packet)
    read, back = unpack(packet)
    assert read == {"title": title} and back["a"].shape == tuple(shape)


def test_numbers_a_browser_cannot_read_are_refused():
    with pytest.raises(ValueError):
        pack({"energy": float("nan")})


def test_recording_cut_short_keeps_whole_packets(tmp_path):
    file = tmp_path / "run.msr"
    packets = [pack({"kind": kind}) for kind in ("head", "frame", "end")]
    file.write_bytes(b"".join(map(framed, packets))[:-3])
    assert [header_of(p)["kind"] for p in read_recording(file)] == ["head", "frame"]
    assert struct.unpack("<I", framed(packets[0])[:4])[0] == len(packets[0])
