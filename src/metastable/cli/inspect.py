"""A pretrained transformer, layer by layer: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metastable.cli.options import Debug, Json, conclude, given_options


def inspect(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="A folder, a .gguf file, rxnmapper, minilm or smollm2, or a name in the Hugging "
            "Face cache; several are laid over each other.",
        ),
    ],
    text: Annotated[
        str,
        typer.Option(
            help="A sentence; a text file; or a folder of .txt files: the first is drawn, all "
            "count."
        ),
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
    beta: Annotated[
        list[float] | None,
        typer.Option(
            metavar="F",
            help="Attention logits times F; may be repeated (1: as it is).",
        ),
    ] = None,
    control: Annotated[
        bool,
        typer.Option("--control/--no-control", help="Twins beside it: the same, not trained."),
    ] = True,
    twins: Annotated[
        int, typer.Option(metavar="N", help="So many untrained twins, for mean and range.")
    ] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the first twin; the others follow.")] = 0,
    cosine: Annotated[
        float,
        typer.Option(
            metavar="F",
            help="Tokens are one cluster where chains of cosines of F or more join them; pictures "
            "show 0.9 where no two tokens are as close.",
        ),
    ] = 0.99,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:1; the CPU unless told.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, float64, bfloat16 or float16.")] = "float32",
    out: Annotated[Path | None, typer.Option(help="New folder for page, figures, numbers.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """How the tokens of a text move through the layers of a transformer, and cluster.

    Histograms of the cosines of all pairs, clusters, rank, energy, attention and weights, beside
    the same network without training. Nothing is downloaded; no code of a model is run.
    """
    given = given_options(locals(), "model", "beta", "out", "as_json", "debug")
    from metastable import kinds
    from metastable.models.spec import Inspect
    from metastable.report.pages.inspect import print_inspection

    models = model[0] if len(model) == 1 else tuple(model)
    given |= {"model": models, "ablate": tuple(ablate or ()), "betas": tuple(beta or ())}
    spec = Inspect.from_tree(given)
    result = kinds.run(spec, out)
    conclude(result, as_json, print_inspection)
