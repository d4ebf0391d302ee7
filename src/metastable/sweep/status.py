"""The state of a store, read without its lock."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from metastable.core.result import DATA
from metastable.core.tables import write_csv
from metastable.core.verdict import AGREE, DISAGREE, NOT_APPLICABLE, Comparison
from metastable.sweep.dependence import dependence, say
from metastable.sweep.layout import COORDINATE, chunk_name
from metastable.sweep.observables import ERROR, JUDGED, is_own
from metastable.sweep.own import (
    claims_in,
    is_overall,
    judge_own,
    overall_in_words,
    own_in_words,
    shares_of,
)
from metastable.sweep.rows import observable_of, row_in_words
from metastable.sweep.store import FAILURES, kept_sweep

if TYPE_CHECKING:
    import pandas

MOST = 20  # failures told one by one
MOST_SAID = 3  # observables told in the answer


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
    return in_order(data)


def in_order(data: xarray.Dataset) -> xarray.Dataset:
    """The cells of a sweep with their axes in increasing order, as figures and words need them."""
    numeric = [dim for dim in data.dims if dim in data.coords and data[dim].dtype.kind in "if"]
    return data.sortby(numeric)


def leading(data: xarray.Dataset) -> str:
    """What the first sentence is about: a user's claim, or observable, or what is named first."""
    names = data.attrs["sweep"]["observables"]
    return next(iter([*claims_in(data), *filter(is_own, names), *names]))


def means(data: xarray.Dataset) -> xarray.Dataset:
    """Each observable's mean over samples and repetitions, and its standard error as NAME_error.

    With samples the error is that inside cells, else that between repetitions (NaN for one). Both
    are NaN where nothing is done, or where a value is infinite. Of a claim of a user: the share of
    all judged runs in which it holds, and NAME_judged, their number.
    """
    kept = {}
    for name in data.attrs["sweep"]["observables"]:
        if name + JUDGED in data:
            kept |= shares_of(data, name)
            continue
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


def table_of_means(data: xarray.Dataset) -> pandas.DataFrame:
    """`means` for pandas, one row a cell (and time, where observables have one)."""
    kept = means(data)
    axes = [dim for dim in data["done"].dims if dim in kept.dims]
    rest = [dim for dim in kept.dims if dim not in axes]
    return kept.to_dataframe(dim_order=[*axes, *rest]).reset_index()


def write_means(folder: str | Path, path: Path) -> Path:
    """Write the table of a store as CSV, also while the sweep runs."""
    return write_csv(table_of_means(open_sweep(folder)), path)


def answer(data: xarray.Dataset, verdicts: Comparison | None = None) -> str:
    """The `answers` one after the other."""
    return " ".join(answers(data, verdicts))


def answers(data: xarray.Dataset, verdicts: Comparison | None = None) -> list[str]:
    """What came out, the user's own first: claims, then observables; then theory, then the rest.

    Of a claim: in how many runs it holds, and where it fails most. Of an observable that nothing
    judges, the words say how it depends on each axis, as far as its standard errors tell. Of what
    theory judges: which rows agree, with their cells and the worst of them. Cells that are not done
    are counted where there are any.
    """
    names, done = data.attrs["sweep"]["observables"], data["done"].values
    rows = {observable_of(row): row for row in (verdicts.rows if verdicts else ())}
    own = [rows.get(name) or judge_own(data, name) for name in claims_in(data) if done.any()]
    about_all = [row for row in verdicts.rows if is_overall(row, names)] if verdicts else []
    said = [overall_in_words(row) for row in about_all] + [own_in_words(row) for row in own]
    mean = means(data)
    runs = data.attrs["sweep"]["samples"] * data.sizes["repetition"]
    tied = bool(data.attrs["sweep"].get("same_starts"))

    def told(name: str) -> str:
        depends = dependence(mean[name], mean[name + ERROR], runs, tied)
        silent = f" (theory is silent: {rows[name].reason})" if name in rows else ""
        return say(name, data[name].attrs.get("long_name", ""), depends) + silent

    judged = {name for name, row in rows.items() if row.verdict != NOT_APPLICABLE}
    open_ = [n for n in names if n not in judged and n not in claims_in(data)]
    open_.sort(key=lambda name: not is_own(name))
    mine = [name for name in open_[:MOST_SAID] if is_own(name)]
    said += map(told, mine)
    for verdict in (DISAGREE, AGREE):
        of_theory = [rows[name] for name in names if name in rows and name not in claims_in(data)]
        words = [row_in_words(row) for row in of_theory if row.verdict == verdict]
        said += [f"Theory and runs {verdict} on {each}" for each in words]
    said += map(told, open_[len(mine) : MOST_SAID])
    if len(open_) > MOST_SAID:
        said.append(f"{len(open_) - MOST_SAID} more observables stand in the figures")
    if open_ and sum(size > 1 for size in mean[open_[0]].shape) > 1:
        said.append("Along an axis these are means over the others")
    if not done.all():
        said.append(f"{int(done.sum())} of {done.size} cells are done")
    return [f"{each}." for each in said]


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
