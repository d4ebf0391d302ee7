"""The page in one file that needs no server: with a recording inside, or computing by itself."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from metastable.explorer.guard import import_map, source_hash
from metastable.explorer.packet import framed, header_of, read_recording

STATIC = Path(__file__).parent / "static"
ALONE = STATIC / "alone"
MOST = 40 * 2**20  # bytes of frames inside one page
RECORDING = '<script id="recording" type="application/octet-stream"></script>'
TABLES = '<script id="tables" type="application/json"></script>'
WORKER = '<script id="worker" type="text/plain"></script>'
# Modules of the page that computes by itself: in place of those that talk to a server, and more.
MODULES = {
    f"metastable/{name}": f"{name}.js" for name in "live server random starts tables".split()
}


def standalone_page(recording: Path) -> str:
    """The explorer's page with everything inside: style, modules, and the recording.

    Of a recording above `MOST` bytes every k-th frame is kept.
    """
    content = base64.b64encode(_within(recording, MOST)).decode()
    return _sealed({RECORDING: RECORDING.replace("></", f">{content}</")})


def computing_page(tables: dict[str, Any]) -> str:
    """The explorer's page with everything inside, tokens moved by a worker of the page itself.

    `tables` is what the page knows of theory: see `metastable.explorer.tables`.
    """
    # A tag inside JSON text would end the script element.
    text = json.dumps(tables, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    pieces = {
        TABLES: TABLES.replace("></", f">{text}</"),
        WORKER: WORKER.replace("></", f">{worker_source()}</"),
        "<body>": '<body data-server="browser">',
    }
    modules = {name: ALONE / file for name, file in MODULES.items()}
    return _sealed(pieces, modules, "; worker-src blob:")


def worker_source() -> str:
    """The worker's modules as one plain script: a page opened from disk may not load modules."""
    files = [ALONE / f"{name}.js" for name in ("random", "power", "motion", "sight", "worker")]
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return re.sub(r"^(import .*;\n|export )", "", source, flags=re.MULTILINE)


def _sealed(
    pieces: dict[str, str], modules: dict[str, Path] | None = None, policy: str = ""
) -> str:
    """index.html with style and modules inside, and a policy that forbids any request.

    `pieces` are further replacements, `modules` replace or join those of the import map, `policy`
    is added to the Content-Security-Policy.
    """
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    old_map = import_map(html)
    as_data = lambda file: (
        "data:text/javascript;base64," + base64.b64encode(file.read_bytes()).decode()
    )
    own = json.loads(old_map)["imports"].items()
    files = {name: STATIC / Path(file).name for name, file in own} | (modules or {})
    new_map = json.dumps({"imports": {name: as_data(file) for name, file in files.items()}})
    start = 'import "metastable/main";'
    allowed = (
        f"default-src 'none'; script-src data: '{source_hash(new_map)}' '{source_hash(start)}'; "
        f"style-src '{source_hash(style)}'; img-src data: blob:; base-uri 'none'; "
        f"form-action 'none'{policy}"
    )
    pieces = pieces | {
        '<link rel="stylesheet" href="static/style.css">': f"<style>{style}</style>",
        f'<script type="importmap">{old_map}<': f'<script type="importmap">{new_map}<',
        '<script type="module" src="static/main.js">': f'<script type="module">{start}',
    }
    for old, new in pieces.items():
        if html.count(old) != 1:
            raise RuntimeError(f"index.html must hold {old[:60]} once; it does {html.count(old)}×")
        html = html.replace(old, new)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'
    return re.sub(r"(<head[^>]*>)", lambda head: head.group(1) + meta, html, count=1)


def _within(recording: Path, most: int) -> bytes:
    """A recording as bytes, thinned to the size allowed; head, last frame and end always stay."""
    packets = list(read_recording(recording))
    every = -(-sum(map(len, packets)) // most)
    frames = [k for k, packet in enumerate(packets) if header_of(packet)["kind"] == "frame"]
    dropped = set(frames) - {*frames[::every], *frames[-1:]}
    return b"".join(framed(packet) for k, packet in enumerate(packets) if k not in dropped)
