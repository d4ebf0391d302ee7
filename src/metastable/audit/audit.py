"""The whole audit: a config in, a folder out, with the evidence and the verdict.

Folder: config.toml, split.json, model/ and model.json, items.csv, checks.json, summary.json,
manifest.json, report.html. `parts/` and the training checkpoints stand there until all is done.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from metastable.audit.alphabet import Alphabet
from metastable.audit.collect import collect, write_rows
from metastable.audit.config import AuditConfig, GeneratorSpec, Source, load_config
from metastable.audit.corpus import Corpus, read_corpus
from metastable.audit.generators.amortised import Amortised
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Generator
from metastable.audit.generators.prefix import Prefix, refuse_short
from metastable.audit.generators.soft import Shared, Soft
from metastable.audit.split import Item, Split, deal
from metastable.audit.target import (
    Fitted,
    Target,
    build_model,
    make_alphabet,
    open_folder,
    torch_device,
    train_target,
)
from metastable.core.folder import claimed
from metastable.models.training import Recipe

__all__ = ["Case", "build_generators", "fit", "prepare", "run_audit", "shuffled"]

CONFIG, PARTS = "config.toml", "parts"
WARMUP = 50
BLIND = 4000  # characters of a document that the blind classifier reads
_KINDS: dict[str, Any] = {
    "prefix": Prefix,
    "soft": Soft,
    "shared": Shared,
    "discrete": Discrete,
    "amortised": Amortised,
}


@dataclass(frozen=True)
class Case:
    """A config with its documents dealt out."""

    config: AuditConfig
    corpus: Corpus
    split: Split
    documents: dict[str, str]  # texts by name

    def texts(self, *groups: str) -> list[str]:
        """Documents of some groups, as far as the blind classifier reads them."""
        names = dict.fromkeys(item.document for item in self.split.group(*groups))
        return [self.documents[name][:BLIND] for name in names]

    def alphabet(self) -> Alphabet:
        return make_alphabet(self.config.model.tokens, list(self.documents.values()))


def prepare(config: AuditConfig) -> Case:
    """Read the documents and deal them out; bad input is refused here, before any training."""
    corpus = _read(config.corpus)
    control = None if config.control is None else _read(config.control)
    told = config.split.model_dump()
    if corpus.levels:  # an image is one item
        told["length"] = max(len(document.text) for document in corpus.documents)
    known = config.model.family != "folder"
    split = deal(corpus, **told, seed=config.seed, control=control, known=known)
    documents = {d.name: d.text for d in corpus.documents}
    documents |= {} if control is None else {d.name: d.text for d in control.documents}
    return Case(config, corpus, split, documents)


def fit(case: Case, training: Sequence[Any], seed: int, checkpoint: Path | None = None) -> Fitted:
    """M as the config wants it, trained on windows from a seed."""
    told = case.config.model
    recipe = Recipe(told.steps, told.rows, told.rate, min(WARMUP, told.steps), seed=seed)
    held_out = [item.text for item in case.split.group("control")]
    return train_target(
        training,
        held_out,
        case.alphabet(),
        family=told.family,  # pyright: ignore[reportArgumentType]
        size=told.size,
        recipe=recipe,
        device=told.device,
        checkpoint=checkpoint,
    )


def build_generators(specs: Sequence[GeneratorSpec]) -> list[Generator]:
    return [_KINDS[one.kind](k, **one.settings()) for one in specs for k in one.budgets]


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """The same items with their characters in random order: as likely as any, known to no one."""
    random = np.random.default_rng([seed, 5])
    return [
        replace(item, text="".join(random.permutation(list(item.text))), before="")
        for item in items
    ]


def run_audit(config: AuditConfig, folder: Path) -> dict[str, Any]:
    """Carry out an audit in a new folder, or go on with one that was cut short there.

    Returns the summary: verdict, reason, p_value, overlap_estimate [low, mid, high], auc,
    tpr_at_1pct, reconstruction_error, exact_rate, blind_auc, out.
    """
    started = datetime.now(UTC)
    case = prepare(config)
    target, reference = None, None
    if config.model.family == "folder":
        target = open_folder(str(config.model.path), config.model.device)
        if config.model.reference:
            reference = open_folder(config.model.reference, config.model.device)
    generators = build_generators(config.generators)
    _refuse_unfit(case, case.alphabet() if target is None else target.alphabet, generators)
    with claimed(folder, CONFIG, config.to_toml(), lambda file: _same(file, config), "audit"):
        return _examine(case, folder, target, reference, generators, started)


def _examine(
    case: Case,
    folder: Path,
    target: Target | None,
    reference: Target | None,
    generators: Sequence[Generator],
    started: datetime,
) -> dict[str, Any]:
    """Train where no model is given, elicit, judge; everything is kept in the claimed folder."""
    from metastable.audit.verdict import judge

    config = case.config
    if target is None:
        fitted = fit(case, case.split.training, config.seed, folder / "training.npz")
        other = fit(case, case.split.background, config.seed + 1, folder / "reference.npz")
        target, reference = fitted.target, other.target
        about = {"model": fitted.to_dict(), "reference": other.to_dict()}
        _keep_model(fitted, folder / "model")
    else:
        about = {"model": {"folder": config.model.path}, "reference": config.model.reference}
    write_json(folder / "split.json", case.split.to_dict() | {"corpus_sha256": case.corpus.digest})
    write_json(folder / "model.json", about)

    levels, parts = case.corpus.levels, folder / PARTS
    rows = collect(
        target,
        case.split.items,
        generators,
        reference=reference,
        levels=levels,
        folder=parts,
        batch=config.batch,
        seed=config.seed,
    )
    write_rows(rows, folder / "items.csv")
    nulls = {
        name: collect(
            null,
            items,
            cheapest(generators),
            levels=levels,
            folder=folder / f"{PARTS}-{name}",
            batch=config.batch,
            seed=config.seed,
        )
        for name, null, items in null_cases(case, target, reference)
    }
    verdict = judge(
        rows,
        level=config.level,
        blind=(case.texts("member", "protected"), case.texts("control")),
        nulls=nulls,
        seed=config.seed,
    )
    return _finish(config, folder, verdict, started)


def cheapest(generators: Sequence[Generator]) -> list[Generator]:
    """What null models are asked by: the soft prompt of fewest vectors, or the first generator."""
    soft = sorted((g for g in generators if g.name == "soft"), key=lambda g: g.budget)
    return soft[:1] or list(generators[:1])


def null_cases(
    case: Case, target: Target, reference: Target | None
) -> list[tuple[str, Target, Sequence[Item]]]:
    """Models and items that nothing must show on, by name."""
    items = case.split.items
    found: list[tuple[str, Target, Sequence[Item]]] = [
        ("shuffled_targets", target, shuffled(items, case.config.seed))
    ]
    if case.config.model.family != "folder":
        told = case.config.model
        blank = build_model(told.family, told.size, target.alphabet.size, case.config.seed + 2)  # pyright: ignore[reportArgumentType]
        blank = Target(blank.to(target.device), target.alphabet, target.device).freeze()
        found.append(("random_weights", blank, items))
    if reference is not None:
        found.append(("overlap_zero", reference, items))
    return found


def _same(file: Path, config: AuditConfig) -> bool:
    try:
        return load_config(file).digest == config.digest
    except ValueError:
        return False


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _refuse_unfit(case: Case, alphabet: Alphabet, generators: Sequence[Generator]) -> None:
    """Refuse items that no tokeniser gives back or no prefix fits, before anything is trained."""
    torch_device(case.config.model.device)
    lengths = {item.text: len(alphabet.round_trip(item.text)) for item in case.split.items}
    short = min(lengths, key=lambda text: lengths[text])
    for one in generators:
        if one.name in ("prefix", "shared"):
            refuse_short(getattr(one, "prefix", one.budget), short, lengths[short])


def _read(source: Source) -> Corpus:
    return read_corpus(source.kind, source.path, source.field, source.names)


def _keep_model(fitted: Fitted, folder: Path) -> None:
    from metastable.models.saving import save_model

    shutil.rmtree(folder, ignore_errors=True)  # of an audit that was cut short, perhaps in it
    save_model(fitted.target.model, folder)  # pyright: ignore[reportArgumentType]


def _finish(config: AuditConfig, folder: Path, verdict: Any, started: datetime) -> dict[str, Any]:
    from metastable.flows import Outcome
    from metastable.manifest import write_manifest

    summary = verdict.to_dict() | {"out": str(folder)}
    write_json(folder / "checks.json", verdict.conditions)
    write_json(folder / "summary.json", summary)
    outcome = Outcome("done", summary["reason"])
    spec = config.model_dump(mode="json", exclude_none=True)
    scratch = f"{PARTS}*", "training.npz", "reference.npz"
    skip = *scratch, "ranked.csv"
    write_manifest(folder, spec, config.digest, started, outcome, summary, skip)
    for left in (path for pattern in scratch for path in folder.glob(pattern)):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return summary
