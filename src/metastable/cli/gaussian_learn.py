"""`metastable gaussian learn`: teacher and student, tokens, steering."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.learn import answer
from metastable.cli.options import Debug, Json

__all__ = ["learn"]

WHAT = "beta, depth, matrices, tokens or steering"


def learn(
    what: Annotated[str, typer.Argument(help=f"What is learned: {WHAT}.")] = "beta",
    exact: Annotated[
        bool, typer.Option("--exact", help="The exact layer instead of the published truncation.")
    ] = False,
    step: Annotated[float | None, typer.Option(help="Step ε of a layer. [0.1; tokens 0.5]")] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension d.")] = None,
    keys: Annotated[int | None, typer.Option(help="Dimension d_k of queries and keys.")] = None,
    samples: Annotated[int | None, typer.Option(help="Pairs, a quarter for validation.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens per prompt. [64]")] = None,
    depth: Annotated[int | None, typer.Option(help="Number of equal layers. [5]")] = None,
    layers: Annotated[int | None, typer.Option(help="Layers of the steered path. [8]")] = None,
    rank: Annotated[int | None, typer.Option(help="Rank of the steered Gaussians. [d]")] = None,
    effort: Annotated[
        float | None, typer.Option(help="Price of the action of a steered path. [0.01]")
    ] = None,
    optimiser: Annotated[str | None, typer.Option(help="sgd, adam or levenberg. [sgd]")] = None,
    batch: Annotated[int | None, typer.Option(help="Pairs per mini-batch. [32]")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pairs. [500]")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Iterations, where there are no epochs.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop early after this many looks without gain.")
    ] = None,
    single: Annotated[
        bool, typer.Option("--single", help="Gradients in single precision, twice as fast.")
    ] = False,
    landscape: Annotated[
        bool, typer.Option("--landscape", help="Gradient and Hessian at the plateaus.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of teacher, student and data. [1]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for page, figures, numbers and checkpoint.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn β, all four matrices, or a path, from what a teacher does to Gaussians.

    The defaults are those of the published experiments. With --out the same command run again goes
    on where it was cut short.
    """
    from metastable.learn import lessons, lessons_beyond
    from metastable.learn.teacher import ExactLayer, TruncatedLayer

    run = getattr(lessons, f"learn_{what}", getattr(lessons_beyond, f"learn_{what}", None))
    if run is None:
        raise ValueError(f"what must be {WHAT}; got {what!r}: choose one.")
    known = inspect.signature(run).parameters
    given: dict[str, Any] = {
        "dim": dim,
        "key_dim": keys,
        "samples": samples,
        "tokens": tokens,
        "depth": depth,
        "layers": layers,
        "rank": rank,
        "effort": effort,
        "optimiser": optimiser,
        "batch": batch,
        "epochs": epochs,
        "steps": steps,
        "rate": rate,
        "patience": patience,
        "single": single or None,
        "landscape": landscape or None,
        "seed": seed,
        "step": step,
        "exact": exact or None,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if "layer" in known:
        kind = ExactLayer if given.pop("exact", False) else TruncatedLayer
        given["layer"] = kind(given.pop("step", 0.1))
    for name in given:
        if name not in known:
            raise ValueError(
                f"--{name.replace('_', '-')} does not belong to learning {what}; got "
                f"{given[name]!r}: leave it out."
            )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        if "checkpoint" in known:
            given["checkpoint"] = out / "checkpoint.npz"
    lesson = run(**given)
    if out is not None:
        from metastable.report.pages.learn import report_lesson

        report_lesson(lesson, out)
    answer(lesson, out, as_json)
