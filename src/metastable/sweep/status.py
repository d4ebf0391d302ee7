"""The state of a store, read without its lock."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from metastable.core.result import DATA
from metastable.sweep.layout import COORDINATE, chunk_name
from metastable.sweep.store import FAILURES, kept_sweep

MOST = 20  # failures told one by one


def open_sweep(folder: str | Path) -> xarray.Dataset:
    """A store as an xarray dataset, its axes in increasing order; cells not run are NaN."""
    kept_sweep(Path(folder))  # a clear refusal of anything else
    try:
        data = xarray.open_zarr(Path(folder).resolve() / DATA, chunks=None, consolidated=True)
        whole = isinstance(data.attrs["sweep"], dict) and {"done", "outcome"} <= set(data)
    except (ValueError, TypeError, LookupError, AttributeError, OSError):
        whole = False
    if not whole:
        raise ValueError(
            f"STORE must hold the metadata that `metastable sweep` wrote; those of {folder} are "
            "damaged: run the same sweep command again, which restores them and loses no cell."
        )
    _refuse_holes(Path(folder) / DATA, data)
    numeric = [dim for dim in data.dims if dim in data.coords and data[dim].dtype.kind in "if"]
    return data.sortby(numeric)


def status(folder: str | Path) -> dict[str, Any]:
    """Counts of cells, spans of axes, and why cells failed."""
    data, sweep = open_sweep(folder), kept_sweep(Path(folder))
    outcome, done = data["outcome"].values, data["done"].values
    try:
        failures = json.loads((Path(folder) / FAILURES).read_text())
    except (OSError, ValueError):
        failures = {}
    failures = failures if isinstance(failures, dict) else {}
    return {
        "name": sweep.name,
        "cells": int(done.size),
        "done": int(done.sum()),
        "failed": int((outcome > 1).sum()),
        "left": int((~done & (outcome < 2)).sum()),
        "axes": {str(d): _span(data[d]) for d in data["done"].dims},
        "observables": list(sweep.observables),
        "failures": dict(list(failures.items())[:MOST]),
        "store": str(folder),
    }


def _refuse_holes(folder: Path, data: xarray.Dataset) -> None:
    """Refuse a store where a file is missing: Zarr reads it as NaN, as of a cell not run."""
    lost = [
        f"{dim} axis"
        for dim in data.dims
        for part in range(-(-data.sizes[dim] // COORDINATE))
        if dim in data.coords and not (folder / str(dim) / chunk_name((part,))).is_file()
    ]
    cells = [tuple(index) for index in np.argwhere(data["done"].values).tolist()]
    for name in data.attrs["sweep"]["observables"]:
        files = set(os.listdir(folder / name)) if (folder / name).is_dir() else set()
        last = (0,) if "time" in data[name].dims else ()
        lost += [f"{name} of a cell" for index in cells if chunk_name(index + last) not in files]
    if lost:
        raise ValueError(
            f"{folder} is damaged: {len(lost)} files are missing, the first is the {lost[0]}; run "
            "the same sweep again, which mends it."
        )


def _span(axis: xarray.DataArray) -> str:
    values = axis.values
    ends = f"{values[0]:g} to {values[-1]:g}" if values.dtype.kind in "if" else ", ".join(values)
    return f"{ends} ({len(values)})"
