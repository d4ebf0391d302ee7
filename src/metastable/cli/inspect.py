"""A pretrained transformer, layer by layer: inspect."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from metastable.cli.options import Debug, Json

__all__ = ["inspect"]


def inspect(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A folder, a .gguf file, or rxnmapper, minilm, smollm2."
        ),
    ],
    text: Annotated[
        Path,
        typer.Option(help="A text file; or a folder of .txt files: the first is drawn, all count."),
    ],
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line of the file is a text of its own.")
    ] = False,
    depth: Annotated[
        int | None, typer.Option(help="Layers to run; past the trained ones if they are tied.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Keep the first tokens of each text.")] = None,
    heads: Annotated[
        int | None, typer.Option(help="Cut the matrices into another number of heads.")
    ] = None,
    part: Annotated[str, typer.Option(help="encoder or decoder, of a model that has both.")] = "",
    centre: Annotated[str, typer.Option(help="raw, centred or standardised states.")] = "raw",
    special: Annotated[
        bool, typer.Option("--special/--no-special", help="Special tokens among the particles.")
    ] = True,
    first: Annotated[
        bool, typer.Option("--first/--no-first", help="The first token among the particles.")
    ] = True,
    gain: Annotated[
        bool, typer.Option("--gain/--no-gain", help="Keep the norms' learned gain and bias.")
    ] = True,
    final_norm: Annotated[
        bool, typer.Option("--final-norm", help="Last state after the final norm.")
    ] = False,
    step: Annotated[float, typer.Option(help="Continuous depth in steps < 1; tied layers.")] = 1.0,
    cycle: Annotated[
        bool, typer.Option("--cycle", help="Let layers that are not tied come round again.")
    ] = False,
    ablate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="attention-only, feed-forward-only, no-norms, beta=F, head=H, value=±1, "
            "resampled=SEED; may be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the untrained control.")] = 0,
    control: Annotated[
        bool, typer.Option("--control/--no-control", help="The same shape without training.")
    ] = True,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    out: Annotated[Path | None, typer.Option(help="New folder for page, figures, numbers.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """How the tokens of a text move through the layers of a transformer, and cluster.

    Histograms of the cosines of all pairs, clusters, rank, energy, attention and weights, beside
    the same network without training. Nothing is downloaded; no code of a model is run.
    """
    texts = _read(text, lines)
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(
            f"--out must be a new or empty folder; {out} holds something: choose another, or "
            "remove it yourself."
        )
    for package in ("torch", "transformers", "safetensors"):
        if find_spec(package) is None:
            raise ValueError(
                f"inspect needs the package {package}: install the extra [models], as README says."
            )
    from metastable.models.ablate import ablation
    from metastable.models.inspection import inspect as look

    found = look(
        model,
        texts,
        tokens=tokens,
        depth=depth,
        heads=heads,
        part=part,
        centre=centre,
        special=special,
        first=first,
        gain=gain,
        final_norm=final_norm,
        step=step,
        cycle=cycle,
        ablate=[ablation(one) for one in ablate or []],
        seed=seed,
        control=control,
        dtype=dtype,
    )
    if out is not None:
        from metastable.report.pages.inspect import report_inspection

        report_inspection(found, out)
    if as_json:
        print(json.dumps(found.to_dict(None if out is None else str(out))))
    else:
        from metastable.report.pages.inspect import print_inspection

        print_inspection(found, out)
    if found.run.outcome.name == "interrupted":
        raise typer.Exit(130)
    if found.run.outcome.name != "done":
        raise typer.Exit(1)


def _read(path: Path, lines: bool) -> list[str]:
    """The texts of a file, of its lines, or of a folder."""
    if path.is_dir():
        texts = [one.read_text(encoding="utf-8") for one in sorted(path.glob("*.txt"))]
    elif path.is_file():
        whole = path.read_text(encoding="utf-8")
        texts = [one for one in whole.splitlines() if one.strip()] if lines else [whole]
    else:
        raise ValueError(f"--text must be a file or a folder of .txt files; nothing at {path}.")
    if not any(one.strip() for one in texts):
        raise ValueError(f"--text must hold text; {path} is empty: give another file.")
    return texts
