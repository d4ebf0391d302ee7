"""The explorer: its pages against a bare three.js page of as many points, and the server's stream.

Both pages are drawn by one headless browser in turns, so that the machine's other work slows both.
Run alone: `python benchmarks/explorer.py [--quick | --alone]`, the latter without the server; needs
Chromium.
"""

from __future__ import annotations

import functools
import http.server
import json
import shutil
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
BARE = """<!DOCTYPE html><canvas id="c" style="width:100%;height:520px"></canvas>
<script type="importmap">{"imports": {"three": "./three.module.min.js",
"three-core": "./three.core.min.js"}}</script>
<script type="module">
import * as THREE from "three";
const canvas = document.getElementById("c");
const renderer = new THREE.WebGLRenderer({canvas, antialias: true});
renderer.setSize(545, 520, false);
const scene = new THREE.Scene(), camera = new THREE.PerspectiveCamera(40, 545 / 520, 0.1, 20);
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
        bare = _serve_bare(folder / "bare", TOKENS)
        try:
            stream = _stream(served, spec)
            page = chrome.open(served.url + "#" + json.dumps({"spec": spec}))
            page.wait("window.metastable && metastable.frames > 0", 120)
            page.click("#play")
            page.wait("!metastable.running", 300)  # drawing alone, as on the bare page
            plain = chrome.open(f"http://127.0.0.1:{bare.server_address[1]}/bare.html")
            plain.wait("window.drawn > 5")
            rates: dict[str, list[float]] = {"ours": [], "bare": []}
            for _ in range(rounds):
                rates["bare"].append(_rate(plain, "drawn", seconds))
                page.front()
                page.fill("#scrub", 0)
                page.click("#play")
                rates["ours"].append(_rate(page, "metastable.drawn", seconds))
        finally:
            chrome.close()
            served.stop()
            bare.shutdown()
    alone = measure_alone(seconds, rounds)
    middle = {which: median(found) for which, found in rates.items()}
    # Neighbours in time saw the same machine.
    ratio = median(a / b for a, b in zip(rates["ours"], rates["bare"], strict=True))
    return {
        "tokens": TOKENS,
        "rates": rates,
        "ratio": ratio,
        "stream": stream,
        "alone": alone,
        "summary": [
            f"{TOKENS} tokens: {middle['ours']:.1f} pictures/s, bare three.js "
            f"{middle['bare']:.1f}/s: {ratio:.2f}×",
            f"server: {stream['rate']:.1f} frames/s of {TOKENS} tokens, "
            f"{stream['cpu']:.1f} ms of processor each",
            *alone["summary"],
        ],
    }


def measure_alone(seconds: float, rounds: int) -> dict[str, Any]:
    """Pictures a second of the page without a server: while its worker computes, and afterwards.

    Each round measures the bare page, then a fresh run, then the same run once it is computed.
    """
    spec = next(preset["spec"] for preset in presets() if preset["name"] == "sphere")
    spec["measure"]["tokens"] = ALONE
    rates: dict[str, list[float]] = {"bare": [], "computing": [], "computed": []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        file, chrome = write_page(folder / "page.html"), Chrome(folder / "chrome")
        bare = _serve_bare(folder / "bare", ALONE)
        try:
            plain = chrome.open(f"http://127.0.0.1:{bare.server_address[1]}/bare.html")
            plain.wait("window.drawn > 5")
            page = chrome.open()
            for _ in range(rounds):
                rates["bare"].append(_rate(plain, "drawn", seconds))
                page.go("about:blank")
                page.go(file.as_uri() + "#" + json.dumps({"spec": spec}))
                page.wait("window.metastable && metastable.frames > 0 && metastable.prediction")
                page.settle()
                page.click("#play")
                page.wait("metastable.frames > 5")
                rates["computing"].append(_rate(page, "metastable.drawn", seconds))
                page.wait("!metastable.running", 300)
                page.fill("#scrub", 0)
                page.click("#play")
                rates["computed"].append(_rate(page, "metastable.drawn", seconds))
        finally:
            chrome.close()
            bare.shutdown()
    ratio = lambda which: median(a / b for a, b in zip(rates[which], rates["bare"], strict=True))
    lines = [
        f"alone, {ALONE} tokens, {which}: {median(rates[which]):.1f} pictures/s, bare three.js "
        f"{median(rates['bare']):.1f}/s: {ratio(which):.2f}×"
        for which in ("computing", "computed")
    ]
    return {"tokens": ALONE, "rates": rates, "summary": lines}


def _stream(served: Served, spec: dict[str, Any]) -> dict[str, float]:
    """Frames a second from the second frame on, in a run whose code is compiled.

    `cpu` is the milliseconds of processor that server and worker spend on a frame: what the rate
    would be with nothing else on the machine.
    """
    with served.socket() as socket:
        watch(socket, spec)
        arrivals: list[float] = []
        spent = _spent(served)
        frames, _ = watch(socket, spec, heard=lambda: arrivals.append(time.perf_counter()))
        spent = _spent(served) - spent
    span = arrivals[-1] - arrivals[1]
    return {
        "frames": len(frames),
        "seconds": span,
        "rate": (len(arrivals) - 2) / span,
        "cpu": 1000 * spent / len(frames),
    }


def _spent(served: Served) -> float:
    server = psutil.Process(served.process.pid)
    times = [one.cpu_times() for one in (server, *server.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def _rate(page: Page, counter: str, seconds: float) -> float:
    page.front()
    page.settle()
    count, began = page.get(counter), time.perf_counter()
    time.sleep(seconds)
    return (page.get(counter) - count) / (time.perf_counter() - began)


def _serve_bare(folder: Path, count: int) -> http.server.ThreadingHTTPServer:
    folder.mkdir()
    for file in ("three.module.min.js", "three.core.min.js"):
        shutil.copy(STATIC / file, folder)
    (folder / "bare.html").write_text(BARE.replace("COUNT", str(count)))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    found = measure_alone(3.0, 7) if "--alone" in sys.argv else measure(quick)
    print(json.dumps(found, indent=1))
    print("\n".join(found["summary"]), file=sys.stderr)
