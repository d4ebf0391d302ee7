"""A headless Chromium, driven through its own DevTools protocol: no driver, no extra package."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new --no-sandbox --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-default-apps --disable-extensions "
    "--disable-dev-shm-usage --mute-audio --use-angle=swiftshader --enable-unsafe-swiftshader "
    "--remote-debugging-port=0 --remote-allow-origins=*"
).split()

LOUD = ("error", "warning", "assert")


def find_chrome() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chrome:
    """One browser process; `open` gives pages."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.pages: list[Page] = []
        # No name resolves: a request to any other host would fail, and be seen.
        rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        self.process = subprocess.Popen(
            [find_chrome() or "chromium", *FLAGS, rules, f"--user-data-dir={folder / 'profile'}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        active = folder / "profile" / "DevToolsActivePort"
        _until(lambda: active.exists() and active.read_text().count("\n") > 0, 60)
        self.port = active.read_text().split()[0]

    def open(self, url: str = "about:blank", size: tuple[int, int] = (1280, 900)) -> Page:
        answer = httpx.put(f"http://127.0.0.1:{self.port}/json/new?about:blank", timeout=60)
        page = Page(answer.json()["webSocketDebuggerUrl"], self.folder / "downloads", size)
        self.pages.append(page)
        page.go(url)
        return page

    def close(self) -> None:
        for page in self.pages:
            page.held.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Page:
    """A tab. `complaints` are console errors and exceptions, `requests` all addresses asked for."""

    def __init__(self, address: str, downloads: Path, size: tuple[int, int]):
        self.held = ExitStack()
        self.socket = self.held.enter_context(
            connect(address, max_size=None, open_timeout=60, ping_interval=None)
        )
        self.count = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.downloads = downloads
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.ask(f"{domain}.enable")
        self.resize(*size)
        allow = {"behavior": "allow", "downloadPath": str(downloads)}
        self.ask("Browser.setDownloadBehavior", **allow)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        order = {"id": self.count, "method": method, "params": parameters}
        self.socket.send(json.dumps(order))
        while True:
            message = json.loads(self.socket.recv(120))
            self._note(message)
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]

    def _note(self, message: dict[str, Any]) -> None:
        method, told = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and told["type"] in LOUD:
            self.complaints.append(json.dumps(told["args"])[:500])
        elif method == "Log.entryAdded" and told["entry"]["level"] in LOUD:
            self.complaints.append(json.dumps(told["entry"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(told["url"])

    def go(self, url: str) -> None:
        self.front()
        self.ask("Page.navigate", url=url)

    def front(self) -> None:
        """Make this the tab that is seen: the others draw nothing."""
        self.ask("Page.bringToFront")

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def get(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:500])
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 90) -> Any:
        """Wait until an expression is true."""
        try:
            return _until(lambda: self.get(f"Boolean({expression})"), seconds)
        except TimeoutError:
            state = self.get("document.body.innerText.slice(0, 400)")
            raise AssertionError(f"never true: {expression}; {self.complaints}; {state}") from None

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.get("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        box = self.get(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    def fill(self, selector: str, value: Any) -> None:
        """Set a control as a user would: its value, then its events."""
        self.get(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f" e.value = {json.dumps(str(value))};"
            " for (const kind of ['input', 'change'])"
            " e.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    def press(self, key: str) -> None:
        text = {"Space": " "}.get(key, key)
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=text, code=key, text=text)

    def shoot(self, file: Path) -> None:
        picture = self.ask("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(picture))

    def downloaded(self, suffix: str, seconds: float = 120) -> Path:
        """The newest finished download with that ending."""
        files = lambda: sorted(self.downloads.glob(f"*{suffix}"), key=lambda f: f.stat().st_mtime)
        _until(lambda: files() and not list(self.downloads.glob("*.crdownload")), seconds)
        return files()[-1]


def _until(condition: Any, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)
    return found
