"""The whole audit: a config in, a folder out, with the evidence and the verdict.

Beside what every result has, its folder holds the evidence as others can read it: split.json,
model/ and model.json, and items.csv, a row for each item and question.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.audit.alphabet import Alphabet
from metastable.audit.collect import collect, write_rows
from metastable.audit.corpus import Corpus, read_corpus
from metastable.audit.feasible import refuse_unfit
from metastable.audit.generators.amortised import Amortised
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Generator
from metastable.audit.generators.prefix import Prefix
from metastable.audit.generators.soft import Shared, Soft
from metastable.audit.provenance import file_digests, package_versions, weights_digest
from metastable.audit.spec import AuditConfig, GeneratorSpec, Source
from metastable.audit.split import Item, Split, deal
from metastable.audit.target import (
    Fitted,
    Target,
    build_model,
    make_alphabet,
    open_folder,
    refuse_folder,
    torch_device,
    train_target,
)
from metastable.audit.validity import in_words
from metastable.core.folder import MANIFEST, SPEC, claimed
from metastable.core.folder import open_folder as open_folder_of
from metastable.core.outcome import Outcome
from metastable.core.result import Result, write_result
from metastable.core.verdict import AGREE, DISAGREE, NOT_APPLICABLE, Comparison
from metastable.core.verdict import Verdict as Row
from metastable.models.own.training import Recipe

if TYPE_CHECKING:
    from metastable.audit.verdict import Verdict

ITEMS = "items.csv"
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
    documents: dict[tuple[str, str], str]  # texts by set ("corpus" or "control") and name

    def texts(self, *groups: str) -> list[str]:
        """Documents of some groups, as far as the blind classifier reads them."""
        apart = self.config.control is not None
        keys = dict.fromkeys(
            ("control" if apart and item.group == "control" else "corpus", item.document)
            for item in self.split.group(*groups)
        )
        return [self.documents[key][:BLIND] for key in keys]

    def alphabet(self) -> Alphabet:
        return make_alphabet(self.config.model.tokens, list(self.documents.values()))


def prepare(config: AuditConfig) -> Case:
    """Read the documents and deal them out; bad input is refused here, before any training."""
    torch_device(config.model.device)
    for path in (config.model.path, config.model.reference):
        if path is not None:
            refuse_folder(path)
    corpus = _read(config.corpus)
    control = None if config.control is None else _read(config.control)
    told = config.split.model_dump()
    if corpus.levels:  # an image is one item
        told["length"] = max(len(document.text) for document in corpus.documents)
    known = config.model.family != "folder"
    split = deal(corpus, **told, seed=config.seed, control=control, known=known)
    documents = {("corpus", d.name): d.text for d in corpus.documents}
    if control is not None:
        documents |= {("control", d.name): d.text for d in control.documents}
    return Case(config, corpus, split, documents)


def fit(case: Case, training: Sequence[Any], seed: int, checkpoint: Path | None = None) -> Fitted:
    """M as the config wants it, trained on windows from a seed."""
    told = case.config.model
    recipe = Recipe(told.steps, told.rows, told.rate, min(WARMUP, told.steps), seed=seed)
    held_out = [item.text for item in case.split.group("control")]
    try:
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
    except FloatingPointError as error:
        raise ValueError(f"model.rate is too high: {error}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("training: its last steps are kept") from None


def build_generators(specs: Sequence[GeneratorSpec]) -> list[Generator]:
    return [_KINDS[one.kind](k, **one.settings()) for one in specs for k in one.budgets]


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """The same items with their characters in random order: as likely as any, known to no one."""
    random = np.random.default_rng([seed, 5])
    return [
        replace(item, text="".join(random.permutation(list(item.text))), before="")
        for item in items
    ]


def run_audit(config: AuditConfig, folder: Path) -> Result:
    """Carry out an audit in a new folder, or go on with one that was cut short there.

    Facts of the result: verdict, reason, p_value, overlap_estimate [low, mid, high], auc,
    tpr_at_1pct, reconstruction_error, exact_rate, blind_auc, and the conditions.
    """
    started = datetime.now(UTC)
    case = prepare(config)
    target, reference = None, None
    if config.model.family == "folder":
        target = open_folder(str(config.model.path), config.model.device)
        if config.model.reference:
            reference = open_folder(config.model.reference, config.model.device)
    generators = build_generators(config.generators)
    alphabet = case.alphabet() if target is None else target.alphabet
    limit = getattr(target and target.model, "places", None)
    refuse_unfit(config, case.split.items, alphabet, limit, generators)
    with claimed(folder, config, "audit") as unfinished:
        result, digests = _examine(case, folder, unfinished, target, reference, generators)
        packages = package_versions()
        return write_result(result, folder, started, ["ranked.csv"], packages=packages, **digests)


def prepare_audit(config: AuditConfig) -> Callable[[Path, bool | None], Result]:
    """The function that carries out an audit in a folder, which it claims."""
    return lambda folder, progress: run_audit(config, folder)


def _examine(
    case: Case,
    folder: Path,
    unfinished: Path,
    target: Target | None,
    reference: Target | None,
    generators: Sequence[Generator],
) -> tuple[Result, dict[str, Any]]:
    """Train where no model is given, elicit, judge; the evidence is kept in the claimed folder.

    Gives the result, and the SHA-256 of the models' files.
    """
    from metastable.audit.verdict import judge

    config = case.config
    split = case.split.to_dict() | {"corpus_sha256": case.corpus.digest}
    _keep_same(folder / "split.json", split, "corpus and control")
    if target is None:
        fitted = fit(case, case.split.training, config.seed, unfinished / "training.npz")
        other = fit(case, case.split.background, config.seed + 1, unfinished / "reference.npz")
        target, reference = fitted.target, other.target
        write_json(folder / "model.json", {"model": fitted.to_dict(), "reference": other.to_dict()})
        _keep_model(fitted, folder / "model")
        digests = {
            "model_sha256": file_digests(folder / "model"),
            "reference_sha256": {"weights": weights_digest(other.target.model)},
        }
    else:
        paths = {"model": config.model.path, "reference": config.model.reference}
        digests = {f"{k}_sha256": file_digests(p) for k, p in paths.items() if p is not None}
        _keep_same(folder / "model.json", paths | digests, "the model's files")

    levels = case.corpus.levels
    rows = collect(
        target,
        case.split.items,
        generators,
        reference=reference,
        levels=levels,
        folder=unfinished / "parts",
        batch=config.batch,
        seed=config.seed,
    )
    write_rows(rows, folder / ITEMS)
    nulls = {
        name: collect(
            null,
            items,
            cheapest(generators),
            levels=levels,
            folder=unfinished / f"parts-{name}",
            batch=config.batch,
            seed=config.seed,
            title=f"nothing to find, {in_words(name)}",
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
    return _result(config, verdict), digests


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


def read_unreported(folder: Path, config: AuditConfig) -> dict[str, Any] | None:
    """The facts of this audit where it is finished but for its page; else None."""
    if not (folder / MANIFEST).is_file() or (folder / "report.html").exists():
        return None
    if AuditConfig.load(folder / SPEC).digest != config.digest:
        return None
    return read_facts(folder)


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts of a finished audit, after every file was compared with its checksum."""
    missing = f"DIR must hold a finished audit; got {folder}: run `metastable audit run` first."
    manifest = open_folder_of(folder, missing)
    if manifest.get("kind") != "audit":
        raise ValueError(missing)
    return manifest["result"] | {"out": str(folder)}


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, at once: it is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def _keep_same(path: Path, content: Any, what: str) -> None:
    """Write a JSON file, or refuse where an audit that was cut short has another there."""
    try:
        kept = json.loads(path.read_text("utf-8")) if path.is_file() else None
    except ValueError:
        kept = "damaged"
    if kept is not None and kept != json.loads(json.dumps(content)):
        raise ValueError(
            f"{what} must be as they were when this audit began; {path} says otherwise: bring "
            "them back, or choose another --out."
        )
    write_json(path, content)


def _read(source: Source) -> Corpus:
    return read_corpus(source.kind, source.path, source.field, source.names)


def _keep_model(fitted: Fitted, folder: Path) -> None:
    from metastable.models.own.saving import save_model

    if folder.exists():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    save_model(fitted.target.model, part)  # pyright: ignore[reportArgumentType]
    part.rename(folder)


def _result(config: AuditConfig, verdict: Verdict) -> Result:
    """The result of an audit: conditions are its rows of expected against observed."""
    words = {True: AGREE, False: DISAGREE, None: NOT_APPLICABLE}
    rows = tuple(
        Row(in_words(one["name"]), "derived: audit.validity", "holds", None, "", words[one["held"]],
            one["told"])
        for one in verdict.conditions
    )  # fmt: skip
    return Result(
        spec=config,
        outcome=Outcome("done", verdict.reason),
        facts=verdict.to_dict() | {"conditions": verdict.conditions},
        verdicts=Comparison(rows, "none"),
        sentence=f"{verdict.verdict}: {verdict.reason}",
    )
