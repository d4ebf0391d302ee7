"""The server: routes, their errors, and what lives as long as it does."""

from __future__ import annotations

import asyncio
import json
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from metastable import __version__
from metastable.explorer.folder import Folder
from metastable.explorer.guard import Guard, page_policy
from metastable.explorer.limits import Limits, Refused, read_experiment
from metastable.explorer.pool import Busy, Pool
from metastable.explorer.presets import CHOICES, presets
from metastable.explorer.session import Session
from metastable.explorer.shelf import Shelf, Shelved
from metastable.explorer.standalone import STATIC, standalone_page

__all__ = ["create_app"]

THINKING = 2  # predictions, pictures of a start and recordings made at the same time


def create_app(
    folder: Path | None = None,
    *,
    limits: Limits | None = None,
    hosts: set[str] | None = None,
    token: str | None = None,
) -> Any:
    """The explorer as an ASGI application.

    - `folder`: the only place whose files can be opened, if any.
    - `hosts`: names the server answers to; None for any.
    - `token`: what every request must show; None for none.
    """
    desk = Desk(None if folder is None else Folder(folder), limits or Limits(), token)
    routes: list[BaseRoute] = [
        Route("/", desk.page),
        Route("/api/about", desk.about),
        Route("/api/predict", desk.predict, methods=["POST"]),
        Route("/api/place", desk.place, methods=["POST"]),
        Route("/api/export", desk.export, methods=["POST"]),
        Route("/api/folder", desk.list_folder),
        Route("/api/recording/{name:path}", desk.recording),
        Route("/api/sweep/{name:path}/cell/{index}", desk.cell),
        Route("/api/sweep/{name:path}", desk.sweep),
        Route("/api/download/{file}", desk.download),
        WebSocketRoute("/api/live", desk.live),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    # The interactive documentation is left out: it would load scripts from other hosts.
    app = FastAPI(
        routes=routes, docs_url=None, redoc_url=None, openapi_url=None, lifespan=desk.lifespan
    )
    app.state.desk = desk
    for kind in (Refused, HTTPException, ClientDisconnect, Busy):
        app.add_exception_handler(kind, _tell)
    return Guard(app, hosts=hosts, token=token)


class Desk:
    """What the routes share: workers, kept runs, limits, the chosen folder."""

    def __init__(self, folder: Folder | None, limits: Limits, token: str | None):
        self.folder, self.limits, self.token = folder, limits, token
        self.thinking = asyncio.Semaphore(THINKING)
        self.connected = 0
        self.pool: Pool
        self.shelf = Shelf()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="metastable-") as name:
            root = Path(name)
            for part in ("runs", "compiled"):
                (root / part).mkdir()
            self.pool = Pool(self.limits.runs, root / "compiled")
            self.shelf.root = root / "runs"
            warm = asyncio.create_task(self._warm())
            try:
                yield
            finally:
                warm.cancel()
                await asyncio.wait([warm])
                await self.pool.close()

    async def _warm(self) -> None:
        """Make ready what the first visitor asks for: the first preset, its start and theory."""
        first = presets()[0]["spec"]
        await asyncio.gather(self.pool.warm(first), run_in_threadpool(_think_ahead, first))

    async def page(self, request: Request) -> Response:
        html = (STATIC / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": page_policy(html)})

    async def about(self, request: Request) -> Response:
        return JSONResponse(
            {
                "version": __version__,
                "limits": self.limits.to_dict(),
                "presets": presets(),
                "choices": CHOICES,
                "token_required": self.token is not None,
                "folder": self.folder is not None,
            }
        )

    async def predict(self, request: Request) -> Response:
        from metastable.explorer.theory import predict_experiment

        body = await _body(request)
        experiment = read_experiment(body.get("spec"), self.limits)
        fine = body.get("fine") is True
        return JSONResponse(await self._think(predict_experiment, experiment, fine))

    async def place(self, request: Request) -> Response:
        from metastable.explorer.recording import first_frame

        experiment = read_experiment((await _body(request)).get("spec"), self.limits)
        return _packet(await self._think(first_frame, experiment))

    async def export(self, request: Request) -> Response:
        from metastable.explorer.export import to_python

        experiment = read_experiment((await _body(request)).get("spec"), self.limits)
        return JSONResponse(
            {
                "toml": experiment.to_toml(),
                "python": to_python(experiment),
                "fingerprint": experiment.digest,
            }
        )

    async def list_folder(self, request: Request) -> Response:
        empty = {"runs": [], "sweeps": [], "models": []}
        return JSONResponse(empty if self.folder is None else await self._think(self.folder.list))

    async def recording(self, request: Request) -> Response:
        found = await self._think(self._folder().recording, request.path_params["name"])
        return _packet(found)

    async def sweep(self, request: Request) -> Response:
        found = await self._think(self._folder().sweep, request.path_params["name"])
        return JSONResponse(found)

    async def cell(self, request: Request) -> Response:
        name, index = request.path_params["name"], request.path_params["index"]
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            raise Refused("index must be a whole number, that of a cell in the sweep.")
        return JSONResponse({"spec": await self._think(self._folder().cell, name, int(index))})

    async def download(self, request: Request) -> Response:
        name, _, kind = request.path_params["file"].rpartition(".")
        run = self.shelf.find(name)
        makers = {"zip": self._zip, "html": self._html, "msr": _recorded}
        if kind not in makers:
            raise Refused("downloads end in .zip, .html or .msr.")
        async with run.lock:
            file = await makers[kind](run)
        return FileResponse(file, filename=f"metastable-{name[:6]}.{kind}")

    async def live(self, socket: WebSocket) -> None:
        if self.connected >= self.limits.connections:
            await socket.close(1013, f"at most {self.limits.connections} pages can be connected")
            return
        self.connected += 1
        try:
            await socket.accept()
            await Session(socket, self.pool, self.shelf, self.limits).serve()
        finally:
            self.connected -= 1

    async def _zip(self, run: Shelved) -> Path:
        file = run.folder / "run.zip"
        if not file.exists():
            worker = await self.pool.take()
            free = False
            try:
                await worker.begin({"complete": str(run.result)})
                while (header := (await worker.receive())[0])["kind"] != "free":
                    if header["kind"] == "error":
                        raise Refused(header["error"])
                free = True
            except (EOFError, ConnectionError):
                raise Refused("The run could not be packed: start it again.") from None
            finally:
                self.pool.give_back(worker, free=free)
            await run_in_threadpool(_archive, run.result, file)
        return file

    async def _html(self, run: Shelved) -> Path:
        file = run.folder / "run.html"
        if not file.exists():
            page = await run_in_threadpool(standalone_page, run.recording)
            file.write_text(page, encoding="utf-8")
        return file

    def _folder(self) -> Folder:
        if self.folder is None:
            raise Refused("No folder was chosen: start `metastable explore FOLDER`.")
        return self.folder

    async def _think(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Something that takes a while, beside the event loop; what it refuses is told."""
        async with self.thinking:
            try:
                return await run_in_threadpool(partial(work, *arguments))
            except Refused:
                raise
            except (ValueError, OverflowError, MemoryError, OSError) as error:
                said = " ".join(str(error).split("\n---")[0].split())
                raise Refused(
                    said if isinstance(error, ValueError) else "It is too large."
                ) from None


async def _recorded(run: Shelved) -> Path:
    return run.recording


def _archive(folder: Path, file: Path) -> None:
    """A folder as a zip file; what it holds is compressed already."""
    part = file.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path("run") / path.relative_to(folder))
    part.replace(file)


async def _body(request: Request) -> dict[str, Any]:
    try:
        tree = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Refused("the body must be a JSON object; got something else.") from None
    if not isinstance(tree, dict):
        raise Refused(f"the body must be a JSON object; got {type(tree).__name__}.")
    return tree


def _packet(content: bytes) -> Response:
    return Response(content, media_type="application/octet-stream")


def _think_ahead(spec: dict[str, Any]) -> None:
    from metastable.explorer.recording import first_frame
    from metastable.explorer.theory import predict_experiment

    experiment = read_experiment(spec, Limits())
    predict_experiment(experiment)
    first_frame(experiment)


async def _tell(request: Request, error: Exception) -> Response:
    """Every refusal as one sentence."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
    if isinstance(error, ClientDisconnect):
        return JSONResponse({"error": "The request was too long."}, 413)
    return JSONResponse({"error": str(error)}, 503 if isinstance(error, Busy) else 400)
