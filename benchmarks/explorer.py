"""The explorer: its pages against a bare three.js page of as many points, and the server's stream.

Both pages are drawn by one headless browser in turns, so that the machine's other work slows both,
on canvases of the same size. Processor time a picture, of all processes of the browser, hardly
depends on other work: where the machine is shared it says more than pictures a second.
Run alone: `python benchmarks/explorer.py [--quick | --alone]`, the latter without the server; needs
Chromium.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.chrome import Chrome, Page  # noqa: E402
from tests.explorer.serving import Served, watch  # noqa: E402

from metastable.explorer.presets import presets  # noqa: E402
from metastable.explorer.standalone import STATIC  # noqa: E402
from metastable.explorer.tables import write_page  # noqa: E402

TOKENS = 10_000
ALONE = 1000  # tokens of the page that computes by itself
BARE = """<!DOCTYPE html><canvas id="c" style="width:WIDEpx;height:HIGHpx"></canvas>
<script type="importmap">{"imports": {"three": "./three.module.min.js",
"three-core": "./three.core.min.js"}}</script>
<script type="module">
import * as THREE from "three";
const canvas = document.getElementById("c");
const renderer = new THREE.WebGLRenderer({canvas, antialias: true});
renderer.setSize(WIDE, HIGH, false);
const scene = new THREE.Scene(), camera = new THREE.PerspectiveCamera(40, WIDE / HIGH, 0.1, 20);
camera.position.z = 3.5;
const places = new Float32Array(3 * COUNT);
for (let i = 0; i < COUNT; i++) {
  const z = 2 * Math.random() - 1, a = 2 * Math.PI * Math.random(), r = Math.sqrt(1 - z * z);
  places.set([r * Math.cos(a), r * Math.sin(a), z], 3 * i);
}
const geometry = new THREE.BufferGeometry();
geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
const points = new THREE.Points(geometry, new THREE.PointsMaterial({size: 0.03}));
scene.add(points);
window.drawn = 0;
function turn() {
  points.rotation.y += 0.01;
  renderer.render(scene, camera);
  window.drawn += 1;
  requestAnimationFrame(turn);
}
turn();
</script>"""


def measure(quick: bool = False) -> dict[str, Any]:
    """Frames a second of both pages in turns, and of the stream once compiled."""
    seconds, rounds = (2.0, 3) if quick else (3.0, 7)
    spec = next(preset["spec"] for preset in presets() if preset["name"] == "many")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        served, chrome = Served(folder), Chrome(folder / "chrome")
        try:
            stream = _stream(served, spec)
            page = chrome.open(served.url + "#" + json.dumps({"spec": spec}))
            page.wait("window.metastable && metastable.frames > 0", 120)
            page.click("#play")
            page.wait("!metastable.running", 300)  # drawing alone, as on the bare page
            plain = _open_bare(chrome, folder / "bare", TOKENS, page)
            drawing = Drawing(chrome, "bare", "ours")
            for _ in range(rounds):
                drawing.watch("bare", plain, seconds)
                page.front()
                page.fill("#scrub", 0)
                page.click("#play")
                drawing.watch("ours", page, seconds)
        finally:
            chrome.close()
            served.stop()
    alone = measure_alone(seconds, rounds)
    return {
        "tokens": TOKENS,
        "rates": drawing.rates,
        "costs": drawing.costs,
        "ratio": drawing.ratio("ours"),
        "stream": stream,
        "alone": alone,
        "summary": [
            f"{TOKENS} tokens: {drawing.sentence('ours')}",
            f"server: {stream['rate']:.1f} frames/s of {TOKENS} tokens, "
            f"{stream['cpu']:.1f} ms of processor each",
            *alone["summary"],
        ],
    }


def measure_alone(seconds: float, rounds: int) -> dict[str, Any]:
    """Pictures a second of the page without a server: while its worker computes, and afterwards.

    Each round measures the bare page, then a fresh run, then the same run once it is computed.
    `frames` are those computed in a second of a fresh run, whose worker rests for the pictures.
    """
    spec = next(preset["spec"] for preset in presets() if preset["name"] == "sphere")
    spec["measure"]["tokens"] = ALONE
    frames = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        file, chrome = write_page(folder / "page.html"), Chrome(folder / "chrome")
        try:
            page = chrome.open()
            _visit(page, file, spec)
            plain = _open_bare(chrome, folder / "bare", ALONE, page)
            drawing = Drawing(chrome, "bare", "computing", "computed")
            for _ in range(rounds):
                page.go("about:blank")  # no worker beside the bare page
                drawing.watch("bare", plain, seconds)
                _visit(page, file, spec)
                page.click("#play")
                page.wait("metastable.frames > 5")
                count, began = page.get("metastable.frames"), time.perf_counter()
                drawing.watch("computing", page, seconds)
                rate = (page.get("metastable.frames") - count) / (time.perf_counter() - began)
                if page.get("!metastable.running"):
                    raise RuntimeError("The run was computed before its pictures were counted.")
                frames.append(rate)
                page.wait("!metastable.running", 300)
                page.fill("#scrub", 0)
                page.click("#play")
                drawing.watch("computed", page, seconds)
        finally:
            chrome.close()
    lines = [
        f"alone, {ALONE} tokens, {which}: {drawing.sentence(which)}"
        for which in ("computing", "computed")
    ]
    lines.append(f"alone: {median(frames):.1f} frames/s computed meanwhile")
    return {
        "tokens": ALONE,
        "rates": drawing.rates,
        "costs": drawing.costs,
        "ratios": {which: drawing.ratio(which) for which in ("computing", "computed")},
        "frames": frames,
        "summary": lines,
    }


class Drawing:
    """Pictures a second (`rates`) and milliseconds of processor for each (`costs`), by name."""

    def __init__(self, chrome: Chrome, *names: str):
        self.chrome = chrome
        self.rates: dict[str, list[float]] = {name: [] for name in names}
        self.costs: dict[str, list[float]] = {name: [] for name in names}

    def watch(self, name: str, page: Page, seconds: float) -> None:
        counter = "drawn" if name == "bare" else "metastable.drawn"
        page.front()
        page.settle()
        count, spent, began = page.get(counter), _spent(self.chrome.process), time.perf_counter()
        time.sleep(seconds)
        count, spent = page.get(counter) - count, _spent(self.chrome.process) - spent
        self.rates[name].append(count / (time.perf_counter() - began))
        self.costs[name].append(1000 * spent / count)

    def ratio(self, name: str) -> float:
        """Of the rates of a page and the bare one: neighbours in time saw the same machine."""
        pairs = zip(self.rates[name], self.rates["bare"], strict=True)
        return median(ours / bare for ours, bare in pairs)

    def sentence(self, name: str) -> str:
        rate, bare = median(self.rates[name]), median(self.rates["bare"])
        cost, least = median(self.costs[name]), median(self.costs["bare"])
        return (
            f"{rate:.1f} pictures/s, bare three.js {bare:.1f}/s: {self.ratio(name):.2f}×; "
            f"{cost:.1f} and {least:.1f} ms of processor each"
        )


def _stream(served: Served, spec: dict[str, Any]) -> dict[str, float]:
    """Frames a second from the second frame on, in a run whose code is compiled.

    `cpu` is the milliseconds of processor that server and worker spend on a frame: what the rate
    would be with nothing else on the machine.
    """
    with served.socket() as socket:
        watch(socket, spec)
        arrivals: list[float] = []
        spent = _spent(served.process)
        frames, _ = watch(socket, spec, heard=lambda: arrivals.append(time.perf_counter()))
        spent = _spent(served.process) - spent
    span = arrivals[-1] - arrivals[1]
    return {
        "frames": len(frames),
        "seconds": span,
        "rate": (len(arrivals) - 2) / span,
        "cpu": 1000 * spent / len(frames),
    }


def _spent(process: subprocess.Popen[Any]) -> float:
    """Seconds of processor of a process and its children."""
    first = psutil.Process(process.pid)
    spent = 0.0
    for one in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            spent += sum(one.cpu_times()[:2])
    return spent


def _visit(page: Page, file: Path, spec: dict[str, Any]) -> None:
    page.go("about:blank")
    page.go(file.as_uri() + "#" + json.dumps({"spec": spec}))
    page.wait("window.metastable && metastable.frames > 0 && metastable.prediction")
    page.settle()


def _open_bare(chrome: Chrome, folder: Path, count: int, page: Page) -> Page:
    """The bare page with `count` points, on a canvas as large as that of `page`."""
    sphere = "document.querySelector('#sphere')"
    wide, high = page.get(f"[{sphere}.clientWidth, {sphere}.clientHeight]")
    folder.mkdir()
    for file in ("three.module.min.js", "three.core.min.js"):
        shutil.copy(STATIC / file, folder)
    text = BARE
    for word, value in (("COUNT", count), ("WIDE", wide), ("HIGH", high)):
        text = text.replace(word, str(value))
    (folder / "bare.html").write_text(text)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        bare = chrome.open(f"http://127.0.0.1:{server.server_address[1]}/bare.html")
        bare.wait("window.drawn > 5")  # all it needs is there
    finally:
        server.shutdown()
        server.server_close()
    return bare


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    found = measure_alone(3.0, 7) if "--alone" in sys.argv else measure(quick)
    print(json.dumps(found, indent=1))
    print("\n".join(found["summary"]), file=sys.stderr)
