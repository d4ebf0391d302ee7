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
from metastable.sweep.observables import ERROR
from metastable.sweep.store import FAILURES, kept_sweep

MOST = 20  # failures told one by one


def open_sweep(folder: str | Path) -> xarray.Dataset:
    """A store as an xarray dataset, its axes in increasing order; cells not run are NaN.

    With several samples in a cell NAME_error beside NAME is its standard error; `means` has one
    for every observable.
    """
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


def means(data: xarray.Dataset) -> xarray.Dataset:
    """Each observable's mean over samples and repetitions, and its standard error as NAME_error.

    With samples the error is that inside cells, else that between repetitions (NaN for one). Both
    are NaN where nothing is done, or where a value is infinite.
    """
    kept = {}
    for name in data.attrs["sweep"]["observables"]:
        every = data[name].where(data["done"])
        axis, known = every.dims.index("repetition"), ~np.isnan(every.values)
        count = known.sum(axis)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(known, every.values, 0).sum(axis) / count
            mean = np.where(np.isfinite(mean), mean, np.nan)
            if name + ERROR in data:
                square = np.nansum(data[name + ERROR].where(data["done"]).values ** 2, axis)
            else:
                off = np.where(known, every.values - np.expand_dims(mean, axis), 0)
                square = (off**2).sum(axis) * (count / (count - 1))
            error = np.where(np.isfinite(mean), np.sqrt(square) / count, np.nan)
        like = every.isel(repetition=0, drop=True)
        kept |= {name: like.copy(data=mean), name + ERROR: like.copy(data=error)}
    return xarray.Dataset(kept, attrs=data.attrs)


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
    for name in map(str, set(data) - {"done", "outcome"}):
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
