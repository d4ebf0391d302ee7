"""The server: routes, their errors, and what lives as long as it does."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from metastable import __version__
from metastable.explorer.folder import Folder
from metastable.explorer.guard import Guard, page_policy
from metastable.explorer.limits import Limits, Refused, read_experiment, read_object
from metastable.explorer.pool import Busy, Late, Lost, Pool
from metastable.explorer.presets import CHOICES, presets
from metastable.explorer.session import KeptRuns, Session
from metastable.explorer.standalone import STATIC
from metastable.flows.spec import Experiment

THINKING = 2  # processes for predictions, pictures of a start and what lies in the folder
PACKING = 300.0  # seconds to pack a run for download
STATUS: dict[type[Exception], int] = {Busy: 503, Lost: 503, Late: 504}
RELUCTANCE = 1.0  # seconds a question waits for the first of them before the second is started


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
    posts = {"predict": desk.predict, "place": desk.place, "export": desk.export}
    routes: list[BaseRoute] = [
        Route("/", desk.page),
        Route("/api/about", desk.about),
        *(Route(f"/api/{name}", post, methods=["POST"]) for name, post in posts.items()),
        Route("/api/folder", desk.list_folder),
        Route("/api/recording/{name:path}", desk.recording),
        Route("/api/sweep/{name:path}/cell/{index}", desk.cell),
        Route("/api/sweep/{name:path}", desk.sweep),
        Route("/api/download/{file}", desk.download),
        WebSocketRoute("/api/live", desk.live),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    # The interactive documentation is left out: it would load scripts from other hosts.
    none: dict[str, Any] = dict.fromkeys(("docs_url", "redoc_url", "openapi_url"))
    app = FastAPI(routes=routes, lifespan=desk.lifespan, **none)
    app.state.desk = desk
    for kind in (Refused, HTTPException, ClientDisconnect, *STATUS):
        app.add_exception_handler(kind, _tell)
    return Guard(app, hosts=hosts, token=token)


class Desk:
    """What the routes share: workers, kept runs, limits, the chosen folder."""

    def __init__(self, folder: Folder | None, limits: Limits, token: str | None):
        self.folder, self.limits, self.token = folder, limits, token
        self.connected = 0
        self.pool: Pool
        self.thinking: Pool
        self.kept = KeptRuns()

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="metastable-") as name:
            root = Path(name)
            for part in ("runs", "compiled"):
                (root / part).mkdir()
            first = presets()[0]["spec"]
            jobs = lambda *names: tuple({"think": name, "spec": first} for name in names)
            runs, cache = self.limits.runs, root / "compiled"
            excuse = f"{runs} runs are computed already: wait for one to end, or start the server "
            excuse += "with more --runs."
            self.pool = Pool(runs, cache, first=jobs("compile"), excuse=excuse)
            asked: dict[str, Any] = {"first": jobs("predict", "place"), "reluctance": RELUCTANCE}
            self.thinking = Pool(THINKING, cache, name="think", **asked)
            self.kept.root = root / "runs"
            warm = asyncio.create_task(self._warm())
            try:
                yield
            finally:
                warm.cancel()
                await asyncio.gather(warm, return_exceptions=True)
                await asyncio.gather(self.pool.close(), self.thinking.close())

    async def _warm(self) -> None:
        """Make ready what the first visitor asks for: the first preset, its start and theory."""
        await asyncio.gather(self.thinking.warm(), self.pool.warm())

    async def page(self, request: Request) -> Response:
        html = (STATIC / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": page_policy(html)})

    async def about(self, request: Request) -> Response:
        about = {"version": __version__, "limits": self.limits.to_dict(), "presets": presets()}
        given = {"token_required": self.token is not None, "folder": self.folder is not None}
        return JSONResponse(about | {"choices": CHOICES} | given)

    async def predict(self, request: Request) -> Response:
        experiment, body = await self._experiment(request)
        job = {"spec": experiment.model_dump(mode="json"), "fine": body.get("fine") is True}
        return await self._answered(request, think="predict", **job)

    async def place(self, request: Request) -> Response:
        spec = (await self._experiment(request))[0].model_dump(mode="json")
        _, packet = await self._think(request, think="place", spec=spec)
        return Response(packet, media_type="application/octet-stream")

    async def export(self, request: Request) -> Response:
        from metastable.explorer.export import to_python

        experiment, _ = await self._experiment(request)
        texts = {"toml": experiment.to_toml(), "python": to_python(experiment)}
        return JSONResponse(texts | {"fingerprint": experiment.digest})

    async def list_folder(self, request: Request) -> Response:
        if self.folder is None:
            return JSONResponse({"runs": [], "sweeps": [], "models": []})
        return await self._answered(request, think="list", root=self._root())

    async def recording(self, request: Request) -> Response:
        root, name = self._root(), request.path_params["name"]
        file = self.kept.root / f"{secrets.token_hex(8)}.msr"
        remove = BackgroundTask(file.unlink, missing_ok=True)
        try:
            await self._think(request, think="recording", root=root, name=name, file=str(file))
        except BaseException:
            await remove()
            raise
        return FileResponse(file, media_type="application/octet-stream", background=remove)

    async def sweep(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._answered(request, think="sweep", root=self._root(), name=name)

    async def cell(self, request: Request) -> Response:
        root, name, index = self._root(), request.path_params["name"], request.path_params["index"]
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            raise Refused("index must be a whole number, that of a cell in the sweep.")
        job = {"think": "cell", "root": root, "name": name, "index": int(index)}
        return JSONResponse({"spec": (await self._think(request, **job))[0]["answer"]})

    async def download(self, request: Request) -> Response:
        name, _, kind = request.path_params["file"].rpartition(".")
        run = self.kept.find(name)
        if kind not in ("zip", "html", "msr"):
            raise Refused("downloads end in .zip, .html or .msr.")
        file = run.recording if kind == "msr" else run.folder / f"run.{kind}"
        async with run.lock:
            if not file.exists():
                source = {"result": run.result} if kind == "zip" else {"recording": run.recording}
                job = {"think": kind, "file": file} | source
                await _given(self.pool.ask({k: str(v) for k, v in job.items()}, PACKING))
        return FileResponse(file, filename=f"metastable-{name[:6]}.{kind}")

    async def live(self, socket: WebSocket) -> None:
        if self.connected >= self.limits.connections:
            await socket.close(1013, f"at most {self.limits.connections} pages can be connected")
            return
        self.connected += 1
        try:
            await socket.accept()
            await Session(socket, self.pool, self.kept, self.limits).serve()
        finally:
            self.connected -= 1

    async def _experiment(self, request: Request) -> tuple[Experiment, dict[str, Any]]:
        """What is asked about, and the whole body."""
        body = read_object(await request.body(), "the body must be a JSON object")
        return read_experiment(body.get("spec"), self.limits), body

    def _root(self) -> str:
        if self.folder is None:
            raise Refused("No folder was chosen: start `metastable explore FOLDER`.")
        return str(self.folder.root)

    async def _answered(self, request: Request, **job: Any) -> Response:
        return JSONResponse((await self._think(request, **job))[0]["answer"])

    async def _think(self, request: Request, **job: Any) -> tuple[dict[str, Any], bytes]:
        """The answer of a process to a question; one whose asker has gone is dropped."""
        asking = asyncio.ensure_future(self.thinking.ask(job, self.limits.thinking))
        gone = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait([asking, gone], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ClientDisconnect
            return await _given(asking)
        finally:
            for task in (asking, gone):
                task.cancel()
            await asyncio.gather(asking, gone, return_exceptions=True)


async def _given(asking: Awaitable[tuple[dict[str, Any], bytes]]) -> tuple[dict[str, Any], bytes]:
    """An answer; `Refused` with its sentence, or `Lost` if it was not foreseen, for an error."""
    header, packet = await asking
    if header["kind"] == "error":
        raise (Refused if header.get("foreseen", True) else Lost)(header["error"])
    return header, packet


async def _gone(request: Request) -> None:
    """Return once the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _tell(request: Request, error: Exception) -> Response:
    """Every refusal as one sentence."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
    if isinstance(error, ClientDisconnect):
        return JSONResponse({"error": "The request was too long."}, 413)
    return JSONResponse({"error": str(error)}, STATUS.get(type(error), 400))
