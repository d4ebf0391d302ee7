"""The page on which the flow can be watched: explore."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from metastable.cli.options import Debug, Json


def explore(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="Runs, sweeps and inspected models to open."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    token: Annotated[
        str | None, typer.Option(help="What pages must show; made up off loopback if not given.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs computed at the same time.")] = 4,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page once it answers.")
    ] = True,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write DIR/index.html, a page that computes by itself, and start no server.",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Watch tokens move beside what theory says, in a browser; Ctrl-C ends the server.

    On any address but this machine's own a token is needed, which is part of the printed address.
    """
    if export is not None:
        _export(folder, export, as_json)
        return
    for package in ("fastapi", "uvicorn", "websockets"):
        if find_spec(package) is None:
            raise ValueError(
                f"explore needs the package {package}: install the extra [explorer], "
                "as README says."
            )
    from metastable.explorer.serve import serve

    def say(url: str) -> None:
        print(json.dumps({"url": url}) if as_json else f"{url}  (Ctrl-C to end)", flush=True)

    serve(folder, host, port, token=token, runs=runs, browser=browser, say=say)


def _export(folder: Path | None, export: Path, as_json: bool) -> None:
    """Write the page that needs nothing into a folder; runs of another folder stay out of it."""
    if folder is not None:
        raise ValueError(
            f"FOLDER cannot be given with --export; got {folder}: the page holds no runs, leave it "
            "out."
        )
    if export.exists() and not export.is_dir():
        raise ValueError(f"--export must name a folder; got the file {export}: name another.")
    from metastable.explorer.tables import write_page

    if not as_json:
        print("Making the tables of theory: some seconds.", file=sys.stderr, flush=True)
    file = write_page(export / "index.html")
    print(json.dumps({"page": str(file)}) if as_json else file, flush=True)
