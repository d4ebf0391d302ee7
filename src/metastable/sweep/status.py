"""The state of a store, read without its lock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import xarray

from metastable.sweep.store import FAILURES, kept_sweep

__all__ = ["open_sweep", "status"]

MOST = 20  # failures told one by one


def open_sweep(folder: str | Path) -> xarray.Dataset:
    """A store as an xarray dataset, its axes in increasing order; cells not run are NaN."""
    kept_sweep(Path(folder))  # a clear refusal of anything else
    try:
        data = xarray.open_zarr(folder, chunks=None, consolidated=True)
        whole = isinstance(data.attrs["sweep"], dict) and {"done", "outcome"} <= set(data)
    except (ValueError, TypeError, LookupError, AttributeError, OSError):
        whole = False
    if not whole:
        raise ValueError(
            f"STORE must hold the metadata that `metastable sweep` wrote; those of {folder} are "
            "damaged: run the same sweep command again, which restores them and loses no cell."
        )
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


def _span(axis: xarray.DataArray) -> str:
    values = axis.values
    ends = f"{values[0]:g} to {values[-1]:g}" if values.dtype.kind in "if" else ", ".join(values)
    return f"{ends} ({len(values)})"
