"""The number of clusters from β."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.spectrum import dominant_mode

from ..bruno2024.clusters_from_beta import clusters_from_beta

ENTRY = Entry(
    title="The number of clusters from β",
    places=["closing experiment: clusters from the dominant eigenvalue"],
    claim=(
        "For two or three values of β the simulation shows exactly as many clusters as the "
        "mode with the largest eigenvalue."
    ),
    method=(
        "Clusters at exit over many starts and several β; the mean against the dominant mode, "
        "and the whole law against random amplitudes grown by their rates."
    ),
    known="disagree",
    correction=(
        "Not in every run: the dominant mode is the centre of a law of counts. At n = 1000 "
        "and β = 5 about four starts in five show three clusters, at β = 7 little more than "
        "half show four."
    ),
    subject="clusters",
    basis="text",
    limits="The circle, 1000 tokens, five β up to 12, 100 starts.",
    planted="dominant_mode + 1",
    settings={"betas": [3.0, 5.0, 7.0, 9.0, 12.0], "tokens": 1000, "seeds": 100},
    fast={"betas": [5.0, 9.0], "tokens": 600, "seeds": 20},
)


def clusters_by_bessel(*, betas: list[float], tokens: int, seeds: int) -> Finding:
    """The dominant mode as a number of clusters: exact in every run, or the centre of a law?"""
    found = clusters_from_beta(betas=betas, tokens=tokens, seeds=seeds)
    means = np.array([row.observed for row in found.rows])
    modes = np.array([dominant_mode(beta, 2) for beta in betas])
    off = np.abs(means - modes)
    rows = [
        judge("every start shows as many clusters as the dominant mode: mean count off by",
              "experiment at the end of the talk", 0.0, float(off.max()), absolute=1e-9),
        holds(f"the nearest whole number to the mean count, β = {_list(betas)}",
              "dominant mode, argmax k²I_k(β)", bool((means.round() == modes).all()),
              _list(modes), _list(means.round())),
        *found.rows,
    ]  # fmt: skip
    note = (
        "The dominant mode outgrows the next one only by a small power of n, so that single "
        "starts show one cluster more or fewer; the law of the count is predicted without a fit."
    )
    order = ["means", *(name for name in found.figures if name != "means")]
    return Finding(rows, {name: found.figures[name] for name in order}, [note])


def _list(values: object) -> str:
    return ", ".join(f"{value:g}" for value in np.asarray(values, float))
