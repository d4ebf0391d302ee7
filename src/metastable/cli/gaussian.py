"""Gaussian measures: one function per command, listed at the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metastable.cli.gaussian_learn import learn
from metastable.cli.options import Debug, Json

__all__ = ["app"]

app = typer.Typer(
    help="Gaussian layers against samples, iterated layers, spectra, teacher and student.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

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
    from metastable.trials import judge_verification
    from metastable.trials import verify as measure

    _check_new(out)
    found = measure(dim, keys, samples, repeats, seed, calm_samples=calm_samples)
    page = None
    if out is not None:
        from metastable.report.pages.gaussian import report_verification

        page = report_verification(found, out)
    _answer(found.to_dict(), judge_verification(found), page, as_json)


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
    from metastable.trials import SETTINGS, judge_iterations
    from metastable.trials import iterate as run

    if list_:
        for name, setting in SETTINGS.items():
            print(f"{name:18} {setting.told}")
        return
    # The largest setting takes minutes; it runs when asked for.
    names = names or [name for name, setting in SETTINGS.items() if setting.dim < 1000]
    _check_new(out)
    found, interrupted = [], False
    for name in names:
        try:
            found.append(run(name, seed, tokens=tokens))
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
            break
    page = None
    if out is not None:
        from metastable.report.pages.gaussian import report_iterations

        page = report_iterations(found, out)
    data = {"iterations": [one.to_dict() for one in found]}
    _answer(data, judge_iterations(found), page, as_json)
    if interrupted:
        raise typer.Exit(130)


def spectra(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Ensembles; all by default.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Say which ensembles there are.")] = False,
    size: Annotated[int, typer.Option(help="Largest size n.")] = 3000,
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
    _check_new(out)
    if matrix:
        _fit(matrix, out, as_json)
        return
    from metastable.trials import ENSEMBLES, judge_spectra
    from metastable.trials import spectra as draw

    if list_:
        for name, ensemble in ENSEMBLES.items():
            print(f"{name:18} {ensemble.told}")
        return
    if size < 40:
        raise ValueError(f"--size must be at least 40 to be compared with a limit; got {size}.")
    found = draw(names or (), [max(size // k, 2) for k in (30, 10, 3, 1)], seed)
    page = None
    if out is not None:
        from metastable.report.pages.gaussian import report_spectra

        page = report_spectra(found, out)
    data = {"spectra": [one.to_dict() for one in found]}
    _answer(data, judge_spectra(found), page, as_json)


def _fit(files: list[Path], out: Path | None, as_json: bool) -> None:
    from metastable.theory.fits import fit_matrix

    fits = {str(file): fit_matrix(_read_matrix(file)) for file in files}
    page = None
    if out is not None:
        from metastable.report.pages.gaussian import report_fit

        page = report_fit(fits, out)
    data: dict[str, Any] = {name: fit.to_dict() for name, fit in fits.items()}
    if as_json:
        print(json.dumps({"fits": data, "page": page and str(page)}))
        return
    for name, told in data.items():
        print(
            f"{name}: {told['law']}, distance {told['fitted_distance']:.4f} at scale "
            f"{told['fitted_scale']:.4g} ({told['expected_distance']:.4f} with the variance of the "
            f"entries), {told['outliers']} outliers"
        )
    if page is not None:
        print(f"page {page}")


def _read_matrix(file: Path) -> Any:
    import numpy as np

    try:
        return np.load(file, allow_pickle=False)
    except (EOFError, ValueError) as error:  # empty, and not NumPy's
        raise ValueError(
            f"--matrix must be an array saved by NumPy (.npy); got {file} ({error}): save it with "
            "numpy.save."
        ) from None


def _check_new(out: Path | None) -> None:
    """Before the work, not after it."""
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out must be a new or empty folder; got {out}: choose another.")


def _answer(data: dict[str, Any], judged: Any, page: Path | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**data, "verdicts": judged.to_dict(), "page": page and str(page)}))
    else:
        judged.print()
        if page is not None:
            print(f"page {page}")
    sys.stdout.flush()
    if not judged.agrees:
        raise typer.Exit(1)


for command in (verify, iterate, spectra, learn):
    app.command()(command)
