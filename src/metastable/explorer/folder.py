"""The chosen folder: what lies in it, and nothing outside it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metastable.core.folder import MANIFEST
from metastable.core.result import DATA
from metastable.explorer.limits import Refused, spec_for_page

DEPTH = 3  # levels below the folder that are looked at
MOST = 500  # entries of each kind
LISTED = {"flow": "runs", "sweep": "sweeps", "inspect": "models"}  # kind of result → its list
CELLS = 200_000  # of a sweep that is drawn


class Folder:
    """Runs, sweeps and inspected models below one folder, by their relative path."""

    def __init__(self, root: str | Path):
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ValueError(f"FOLDER must be a folder that exists; got {root}.")

    def inside(self, name: str) -> Path:
        """The folder of that name; links and dots that lead outside are refused."""
        if not name or "\0" in name or len(name) > 1000:
            raise Refused("name must be a path inside the chosen folder.")
        try:
            path = (self.root / name).resolve()
        except (OSError, RuntimeError):
            path = Path("/")
        if not path.is_relative_to(self.root):
            raise Refused("name must be a path inside the chosen folder; this one leads outside.")
        if not path.is_dir():
            raise Refused(f"there is no folder {name[:80]!r} in the chosen folder.")
        return path

    def list(self) -> dict[str, list[str]]:
        """Names of what can be opened."""
        names: dict[str, list[str]] = {"runs": [], "sweeps": [], "models": []}
        level = [self.root]
        for _ in range(DEPTH + 1):
            below = []
            for folder in level:
                kind = _kind(folder)
                if kind and len(names[kind]) < MOST:
                    names[kind].append(folder.relative_to(self.root).as_posix())
                elif not kind:
                    below += _children(folder)
            level = below[: 20 * MOST]
        return {kind: sorted(each) for kind, each in names.items()}

    def recording(self, name: str) -> bytes:
        """A stored run, or the layers of a model, as a recording."""
        from metastable import kinds
        from metastable.comparison.run import TRAJECTORY, trajectory_of
        from metastable.explorer.recording import record_layers, record_run
        from metastable.flows import Trajectory
        from metastable.flows.spec import Experiment
        from metastable.measures import Points

        path = self.inside(name)
        kind = _kind(path)
        self._check_links(path)
        if kind not in ("runs", "models"):
            raise Refused(f"{name[:80]!r} holds no run and no inspected model.")
        with _reading(name):
            result = kinds.open(path)
            if kind == "models":
                return record_layers(Trajectory.from_dataset(result.data[TRAJECTORY]), name)
            run = trajectory_of(result)
        if not isinstance(run.frames[0], Points):
            raise Refused(f"{name[:80]!r} is the run of a density, which has no tokens to show.")
        assert isinstance(result.spec, Experiment)
        return record_run(result.spec, run, result.spec.name or name)

    def sweep(self, name: str) -> dict[str, Any]:
        """Axes and maps of a sweep; an observable of time is shown at its last time."""
        _, data, dims = self._sweep(name)
        if math.prod(data.sizes[d] for d in dims) > CELLS:
            raise Refused(f"a sweep of more than {CELLS} cells cannot be drawn here.")
        maps = {}
        for key in data.attrs["sweep"]["observables"]:
            values = data[key].isel(time=-1) if "time" in data[key].dims else data[key]
            over = [d for d in values.dims if d not in dims]
            mean = values.mean(over).transpose(*dims).values.ravel()
            maps[key] = {
                "values": [float(v) if math.isfinite(v) else None for v in mean],
                "label": str(data[key].attrs.get("long_name", key)),
            }
        return {
            "name": name,
            "title": data.attrs.get("title", name),
            "axes": [{"key": d, "values": data[d].values.tolist()} for d in dims],
            "observables": maps,
        }

    def cell(self, name: str, index: int) -> dict[str, Any]:
        """The experiment of a cell, by its place in the maps of `sweep`."""
        import numpy as np

        from metastable.sweep.cells import experiment_of
        from metastable.sweep.plan import plan_sweep
        from metastable.sweep.spec import canonical
        from metastable.sweep.store import kept_sweep

        path, data, dims = self._sweep(name)
        shape = [data.sizes[d] for d in dims]
        if index >= math.prod(shape):
            raise Refused(f"index must be below {math.prod(shape)}; got {index}.")
        plan = plan_sweep(kept_sweep(path))
        # Maps are sorted along their axes; the plan has them in the order they were asked for.
        chosen = []
        for dim, k, values in zip(dims, np.unravel_index(index, shape), plan.values, strict=True):
            wanted = data[dim].values[k].item()
            chosen.append([canonical(v) for v in values].index(canonical(wanted)))
        return spec_for_page(experiment_of(plan.recipe, plan.cell((*chosen, 0))))

    def _sweep(self, name: str) -> tuple[Path, Any, list[str]]:
        """The folder of a sweep, its data, and the names of its axes."""
        from metastable.sweep.status import open_sweep

        path = self.inside(name)
        if _kind(path) != "sweeps":
            raise Refused(f"{name[:80]!r} holds no sweep.")
        self._check_links(path)
        with _reading(name):
            data = open_sweep(path)
        return path, data, [str(d) for d in data["done"].dims if d != "repetition"]

    def _check_links(self, path: Path) -> None:
        """No file below leads out of the chosen folder by a link."""
        for file in path.rglob("*"):
            if file.is_symlink() and not file.resolve().is_relative_to(self.root):
                raise Refused("this folder holds a link that leads outside; remove the link.")


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What lies on disk may be anything; whatever is wrong with it, it cannot be shown."""
    try:
        yield
    except Exception as error:
        raise Refused(
            f"{name[:80]!r} cannot be read ({type(error).__name__}): it is damaged, or was written "
            "by another version."
        ) from None


def _kind(folder: Path) -> str:
    """What a folder is listed under; a sweep before it is finished too."""
    try:
        if (folder / MANIFEST).is_file():
            stated = json.loads((folder / MANIFEST).read_text("utf-8"))["kind"]
        else:
            attributes = json.loads((folder / DATA / "zarr.json").read_text("utf-8"))["attributes"]
            stated = "sweep" if "sweep" in attributes else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return LISTED.get(stated, "") if isinstance(stated, str) else ""


def _children(folder: Path) -> list[Path]:
    try:
        return [
            child
            for child in sorted(folder.iterdir())
            if child.is_dir() and not child.is_symlink() and not child.name.startswith(".")
        ]
    except OSError:
        return []
