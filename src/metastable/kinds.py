"""Every kind of work, from its spec to its page: the last module, which may name all others."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from metastable.core.folder import MANIFEST, SPEC, claimed, open_folder
from metastable.core.result import Result, read_result, write_result
from metastable.core.spec import Spec
from metastable.core.toml import read_toml

__all__ = ["KINDS", "load", "open", "run", "write_page"]


@dataclasses.dataclass(frozen=True)
class Kind:
    """Where a kind lives, each as "module:name".

    `spec` is its class. `prepare` takes a spec, refuses what cannot be done, and gives a function
    of (folder for checkpoints or None, progress) that returns a `Result`. `page` takes a result and
    writes its figures and its page into its folder.
    """

    spec: str
    prepare: str
    page: str
    noun: str  # what a folder is said to hold
    claims: bool = False  # whether the function claims and seals its folder itself


KINDS = {
    "flow": Kind(
        "spec.experiment:Experiment", "comparison.run:prepare", "report.pages.run:write_run", "run"
    ),
    "sweep": Kind(
        "sweep.spec:Sweep", "sweep.execute:prepare", "report.maps:write_sweep", "sweep", claims=True
    ),
}


def load(path: str | Path, overrides: dict[str, Any] | None = None, kind: str = "flow") -> Spec:
    """The spec in a TOML file, whose `kind` says of which sort; without one it is `kind`."""
    tree = read_toml(path)
    stated = tree.get("kind", kind)
    if stated not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {stated!r}: choose one.")
    return _find(KINDS[stated].spec).from_tree(tree, overrides, Path(path).resolve().parent)


def run(
    spec: Spec | str | Path,
    out: str | Path | None = None,
    *,
    progress: bool | None = None,
    page: bool = True,
) -> Result:
    """Do what a spec, or the TOML file of one, asks for.

    With `out` the result is kept in that folder: a new one, or that of the same work cut short,
    which is gone on with. `page=False` leaves out figures and report.html.
    """
    spec = spec if isinstance(spec, Spec) else load(spec)
    kind = KINDS[spec.kind]
    started = datetime.now(UTC)
    work = _find(kind.prepare)(spec)  # bad input is refused before anything is written
    if out is None and kind.claims:
        with TemporaryDirectory() as place:
            return dataclasses.replace(work(Path(place), progress), folder=None)
    if out is None:
        return work(None, progress)
    folder = Path(out)
    if kind.claims:
        result = work(folder, progress)
        if page:
            write_page(result)
        return result
    with claimed(folder, spec, kind.noun) as unfinished:
        result = write_result(work(unfinished, progress), folder, started)
        if page:
            write_page(result)
    return result


def open(folder: str | Path) -> Result:
    """The result kept in a folder; every file is compared with its checksum first.

    `manifest["unchecked"]` says so where an older version kept no checksums.
    """
    folder = Path(folder)
    manifest = open_folder(
        folder,
        f"DIR must hold a finished result (with {MANIFEST}); got {folder}: make one with "
        "`metastable run --out DIR`.",
    )
    return read_result(folder, load(folder / SPEC), manifest)


def write_page(result: Result) -> Path:
    """Write the figures and the page of a kept result into its folder; gives the page's path."""
    return _find(KINDS[result.kind].page)(result)


def _find(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(f"metastable.{module}"), name)
