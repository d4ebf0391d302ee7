"""Gaussian measures: each command builds a spec of a study or of learning, and carries it out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.options import Debug, Json, given_options
from metastable.cli.runs import carry_out

app = typer.Typer(
    help="Gaussian layers against samples, iterated layers, spectra, teacher and student.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

LEARNED = ("beta", "depth", "matrices", "tokens", "steering")
Out = Annotated[Path | None, typer.Option(help="New folder for the page, figures and data.")]
Seed = Annotated[int, typer.Option(help="Seed of the random matrices and samples.")]


def verify(
    dim: Annotated[int, typer.Option(help="Dimension d of the tokens, and of the values.")] = 300,
    keys: Annotated[int, typer.Option(help="Dimension d_k of queries and keys.")] = 128,
    samples: Annotated[int, typer.Option(help="Largest number N of samples.")] = 20_000,
    repeats: Annotated[int, typer.Option(help="Samples drawn at each N.")] = 8,
    calm_samples: Annotated[int, typer.Option(help="Most tokens in the calm layer.")] = 32_000,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """The closed form of one layer against samples: by its affine map, and by softmax attention."""
    sizes = {"dim": dim, "keys": keys, "samples": samples, "repeats": repeats}
    _study(seed, out, as_json, kind="verify", **sizes, calm_samples=calm_samples)


def iterate(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Settings; all but the largest.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say which settings there are.")] = False,
    tokens: Annotated[
        bool | None, typer.Option(help="Iterate tokens too; by default where published so.")
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Layer after layer: as first published, with the exact layer beside it."""
    if list_:
        from metastable.comparison.random_matrices import SETTINGS

        _list(SETTINGS)
    else:
        _study(seed, out, as_json, kind="iterate", settings=names or (), tokens=tokens)


def spectra(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Ensembles; all by default.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say which ensembles there are.")] = False,
    size: Annotated[int, typer.Option(help="Largest size n, at least 40.")] = 3000,
    matrix: Annotated[
        list[Path] | None,
        typer.Option(help="A matrix (.npy) to fit instead, such as a model's Q; may be repeated."),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Spectra of random matrices beside their laws, or the fit of given matrices."""
    if matrix:
        _study(seed, out, as_json, kind="fit", files=[str(file) for file in matrix])
    elif list_:
        from metastable.comparison.random_matrices import ENSEMBLES

        _list(ENSEMBLES)
    else:
        _study(seed, out, as_json, kind="spectra", ensembles=names or (), size=size)


def learn(
    what: Annotated[str, typer.Argument(help=f"What is learned: {', '.join(LEARNED)}.")] = "beta",
    exact: Annotated[
        bool | None, typer.Option("--exact", help="The exact layer, not the published truncation.")
    ] = None,
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
    optimizer: Annotated[str | None, typer.Option(help="sgd, adam or levenberg. [sgd]")] = None,
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
        bool | None, typer.Option("--single", help="Gradients in single precision, twice as fast.")
    ] = None,
    landscape: Annotated[
        bool | None, typer.Option("--landscape", help="Gradient and Hessian at the plateaus.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of teacher, student and data. [1]")] = None,
    out: Out = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn β, all four matrices, or a path, from what a teacher does to Gaussians.

    The defaults are those of the published experiments. With --out the same command run again goes
    on where it was interrupted.
    """
    given = given_options(locals(), "what", "out", "as_json", "debug")
    if what not in LEARNED:
        raise ValueError(f"what must be one of {', '.join(LEARNED)}; got {what!r}: choose one.")
    if "keys" in given:
        given["key_dim"] = given.pop("keys")
    carry_out({"kind": f"gaussian_{what}", **given}, out, as_json)


def _study(seed: int, out: Path | None, as_json: bool, **study: Any) -> None:
    carry_out({"kind": "gaussian", "seed": seed, "study": study}, out, as_json)


def _list(choices: dict[str, Any]) -> None:
    for name, choice in choices.items():
        print(f"{name:18} {choice.description}")


for command in (verify, iterate, spectra, learn):
    app.command()(command)
