"""The page and a recording in one file that needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

from metastable.explorer.packet import framed, header_of, read_recording

STATIC = Path(__file__).parent / "static"
MOST = 40 * 2**20  # bytes of frames inside one page
RECORDING = '<script id="recording" type="application/octet-stream"></script>'


def standalone_page(recording: Path) -> str:
    """The explorer's page with everything inside: style, modules, and the recording.

    Of a recording above `MOST` bytes every k-th frame is kept.
    """
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    imports = json.loads(_between(html, '<script type="importmap">', "</script>"))["imports"]
    inlined = {name: _as_data(STATIC / Path(file).name) for name, file in imports.items()}
    the_map = json.dumps({"imports": inlined})
    start = 'import "metastable/main";'
    policy = (
        f"default-src 'none'; script-src data: '{_hash(the_map)}' '{_hash(start)}'; "
        f"style-src '{_hash(style)}'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    tape = base64.b64encode(_within(recording, MOST)).decode()
    old_map = _between(html, '<script type="importmap">', "</script>")
    pieces = {
        '<link rel="stylesheet" href="static/style.css">': f"<style>{style}</style>",
        f'<script type="importmap">{old_map}</script>': (
            f'<script type="importmap">{the_map}</script>'
        ),
        '<script type="module" src="static/main.js"></script>': (
            f'<script type="module">{start}</script>'
        ),
        RECORDING: RECORDING.replace("></", f">{tape}</"),
    }
    for old, new in pieces.items():
        if html.count(old) != 1:
            raise RuntimeError(f"index.html must hold {old[:60]} once; it does {html.count(old)}×")
        html = html.replace(old, new)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return re.sub(r"(<head[^>]*>)", lambda found: found.group(1) + meta, html, count=1)


def _within(recording: Path, most: int) -> bytes:
    """A recording as bytes, thinned to the size allowed; head, last frame and end always stay."""
    packets = list(read_recording(recording))
    every = -(-sum(map(len, packets)) // most)
    frames = [k for k, packet in enumerate(packets) if header_of(packet)["kind"] == "frame"]
    dropped = set(frames) - {*frames[::every], *frames[-1:]}
    return b"".join(framed(packet) for k, packet in enumerate(packets) if k not in dropped)


def _between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def _as_data(file: Path) -> str:
    return "data:text/javascript;base64," + base64.b64encode(file.read_bytes()).decode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
