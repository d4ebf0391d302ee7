"""The page and a recording in one file that needs no server."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from metastable.explorer.guard import import_map, source_hash
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
    old_map = import_map(html)
    as_text = lambda content: base64.b64encode(content).decode()
    as_data = lambda file: "data:text/javascript;base64," + as_text(file.read_bytes())
    imports = json.loads(old_map)["imports"].items()
    new_map = json.dumps({"imports": {k: as_data(STATIC / Path(file).name) for k, file in imports}})
    start = 'import "metastable/main";'
    policy = (
        f"default-src 'none'; script-src data: '{source_hash(new_map)}' '{source_hash(start)}'; "
        f"style-src '{source_hash(style)}'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    pieces = {
        '<link rel="stylesheet" href="static/style.css">': f"<style>{style}</style>",
        f'<script type="importmap">{old_map}<': f'<script type="importmap">{new_map}<',
        '<script type="module" src="static/main.js">': f'<script type="module">{start}',
        RECORDING: RECORDING.replace("></", f">{as_text(_within(recording, MOST))}</"),
    }
    for old, new in pieces.items():
        if html.count(old) != 1:
            raise RuntimeError(f"index.html must hold {old[:60]} once; it does {html.count(old)}×")
        html = html.replace(old, new)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return re.sub(r"(<head[^>]*>)", lambda head: head.group(1) + meta, html, count=1)


def _within(recording: Path, most: int) -> bytes:
    """A recording as bytes, thinned to the size allowed; head, last frame and end always stay."""
    packets = list(read_recording(recording))
    every = -(-sum(map(len, packets)) // most)
    frames = [k for k, packet in enumerate(packets) if header_of(packet)["kind"] == "frame"]
    dropped = set(frames) - {*frames[::every], *frames[-1:]}
    return b"".join(framed(packet) for k, packet in enumerate(packets) if k not in dropped)
