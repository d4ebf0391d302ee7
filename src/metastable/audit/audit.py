"""The whole audit: a config in, a folder out, with the evidence and both findings.

Beside what every result has, its folder holds the evidence as others can read it: documents.json
and split.json (which text was where, by digest), sets.json (what the sets show without asking M),
model/ and model.json, items.csv, a row for each item and question, and nulls/, the same of models
and items on which nothing must show. Findings follow from these alone; see `audit.verify`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from metastable.audit.alphabet import Alphabet
from metastable.audit.blind import Blind, separate_blindly
from metastable.audit.canaries import CLAIM, PUBLIC, SECRET, open_canaries, reveal
from metastable.audit.collect import Row, collect, counted, read_rows, write_rows
from metastable.audit.completions import Talk
from metastable.audit.corpus import Corpus, read_corpus
from metastable.audit.custody import describe_models, describe_set, environment
from metastable.audit.duplicates import check_duplicates, near_duplicates
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Generator, Prefix, refuse_short
from metastable.audit.generators.soft import Amortised, Shared, Soft
from metastable.audit.novelty import describe_known, mark_known
from metastable.audit.plan import PLAN, find_plan, read_plan, refuse_changes
from metastable.audit.spec import AuditConfig, GeneratorSpec, Source
from metastable.audit.split import Item, Split, Window, deal
from metastable.audit.talk import TRANSCRIPT, Conversation, open_talk, refuse_short_items
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
from metastable.audit.verdict import Findings, make_findings
from metastable.audit.wording import quote
from metastable.audit.works import (
    cut_works,
    describe_works,
    sample_ordinarily,
    thin_windows,
    work_lengths,
)
from metastable.core import checks
from metastable.core.folder import MANIFEST, SPEC, claimed, write_whole
from metastable.core.folder import open_folder as open_result_folder
from metastable.core.outcome import Outcome
from metastable.core.result import Result, write_result
from metastable.models.own.training import Recipe

ITEMS, NULLS, SETS, DOCUMENTS = "items.csv", "nulls", "sets.json", "documents.json"
SHORTEST = 8  # characters of an item: fewer say nothing of where they come from
WARMUP = 50
BLIND = 4000  # characters of a document that the blind classifier reads
M = Target | Conversation
_KINDS: dict[str, Any] = {kind.name: kind for kind in (Prefix, Soft, Shared, Discrete, Amortised)}


@dataclass(frozen=True)
class AuditCase:
    """A config with its documents dealt out."""

    config: AuditConfig
    corpus: Corpus
    split: Split
    documents: dict[tuple[str, str], str]  # texts by set ("corpus" or "control") and name
    sets: dict[str, Any]  # digests of both sets, see `custody.describe_set`

    @property
    def generators(self) -> list[Generator]:
        return build_generators(self.config.generators)

    def whole_texts(self, *groups: str) -> dict[str, str]:
        """Documents of some groups by name."""
        name = "control" if self.config.control is not None and "control" in groups else "corpus"
        names = dict.fromkeys(item.document for item in self.split.group(*groups))
        return {key: self.documents[name, key] for key in names}

    def texts(self, *groups: str) -> list[str]:
        """The same, as far as the blind classifier reads them."""
        return [text[:BLIND] for text in self.whole_texts(*groups).values()]

    def compare_sets(self) -> dict[str, Any]:
        """What the sets show without asking M: areas of the blind classifier, near-duplicates.

        Of canaries nothing is asked: coins made the sets alike.
        """
        if self.config.corpus.kind == "canaries":
            return {"blind_areas": None, "near_duplicates": None}
        sides = ("member", "protected"), ("control",)
        blind = separate_blindly(*(self.texts(*side) for side in sides), seed=self.config.seed)
        pairs = (
            [] if self.corpus.levels else near_duplicates(*(self.whole_texts(*s) for s in sides))
        )
        told = {"blind_areas": list(blind.areas), "near_duplicates": [list(pair) for pair in pairs]}
        if self.config.corpus.parts:
            told["works"] = work_lengths(self)
        return told

    def alphabet(self) -> Alphabet:
        return make_alphabet(self.config.model.tokens, list(self.documents.values()))

    def ask(
        self, target: M, items: Sequence[Item], generators: Sequence[Generator], **more: Any
    ) -> list[Row]:
        """Rows of items, collected as the config wants."""
        settings = {
            "levels": self.corpus.levels,
            "batch": self.config.batch,
            "seed": self.config.seed,
        }
        if more.get("reference") is not None or self.config.model.checkpoints:
            model = self.config.model
            open_all = lambda paths: [open_model_folder(path, model.device) for path in paths]
            if "reference" in more:  # the audited model, and not one of the nulls
                more["others"] = open_all(model.references[1:])
                more["checkpoints"] = open_all(model.checkpoints or ())
        return collect(target, items, generators, **settings, **more)


def prepare(config: AuditConfig) -> AuditCase:
    """Read the documents and deal them out; bad input is refused here, before any training."""
    torch_device(config.model.device)
    model = config.model
    for path in (model.path, *model.references, *(model.checkpoints or ())):
        if path is not None:
            refuse_folder(path)
    if config.corpus.kind == "canaries":
        return AuditCase(config, *open_canaries(config))
    corpus = _read(config.corpus)
    control = None if config.control is None else _read(config.control)
    settings = config.split.model_dump()
    if corpus.levels:  # an image is one item
        settings["length"] = max(len(document.text) for document in corpus.documents)
    known = config.model.trained
    if config.model.family == "text" and corpus.levels:
        raise ValueError('a model of family "text" must be asked for texts; got images: use text.')
    split = deal(corpus, **settings, seed=config.seed, control=control, known=known)
    short = min(split.items, key=lambda item: len(item.text))
    if len(short.text) < SHORTEST:
        raise ValueError(
            f"documents must have at least {SHORTEST} characters; {short.document!r} has "
            f"{len(short.text)}: leave it out, or set a greater length."
        )
    documents = {("corpus", d.name): d.text for d in corpus.documents}
    if control is not None:
        documents |= {("control", d.name): d.text for d in control.documents}
    sets = {"corpus": describe_set(config.corpus, corpus)}
    if config.control is not None and control is not None:
        sets["control"] = describe_set(config.control, control)
    if config.public is not None:
        public = _read(config.public)
        documents |= {("public", d.name): d.text for d in public.documents}
        sets["public"] = describe_set(config.public, public)
    return AuditCase(config, corpus, split, documents, sets)


def _read(source: Source) -> Corpus:
    corpus = read_corpus(source.kind, source.path, source.field, source.names)
    return corpus if source.parts is None else cut_works(corpus, source.parts)


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
    if limit is not None and longest > limit:
        raise ValueError(
            f"an item must fit the model's {limit} places; the longest takes {longest}: shorten it."
        )
    batches = {"model.rows": model.rows * longest} if model.trained else {}
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


def run_audit(
    config: AuditConfig, folder: Path, plan: Path | None = None, talk: Talk | None = None
) -> Result:
    """Carry out an audit in a new folder, or go on with one that was cut short there.

    `plan`, or a plan that lies in the folder, must fit. `talk` answers for a model of family
    "text" in the place of a server. Facts of the result: see `audit.verdict.Findings`, `planned`.
    """
    started = datetime.now(UTC)
    case = prepare(config)
    place = find_plan(folder, plan)
    planned = None if place is None else read_plan(place)
    if planned is not None:
        refuse_changes(planned, case)
    target, reference = None, None
    if config.model.family == "folder":
        target = open_model_folder(str(config.model.path), config.model.device)
        if config.model.references:
            reference = open_model_folder(config.model.references[0], config.model.device)
    if config.model.family == "text":
        refuse_short_items(case.split.items, [g.budget for g in case.generators])
    else:
        alphabet = case.alphabet() if target is None else target.alphabet
        limit = getattr(target and target.model, "places", None)
        refuse_unfit(config, case.split.items, alphabet, limit, case.generators)
    with claimed(folder, config, "audit") as unfinished:
        if place is not None and place != folder / PLAN:
            write_whole(folder / PLAN, place.read_bytes())
        for name in (SECRET, PUBLIC) if config.corpus.kind == "canaries" else ():
            write_whole(folder / name, (Path(str(config.corpus.path)) / name).read_bytes())
        if config.model.family == "text":
            target = open_talk(config.model, talk, folder / TRANSCRIPT, config.seed)
            first = case.generators[0].budget if case.generators else None
            target.make_rows(first, case.split.items[:1])  # a wrong address shows before all else
        digests = examine(case, folder, unfinished, target, reference)
        with counted((ITEMS, SETS), 2, "tables", "judging: "):
            result = make_result(folder, config)
        about = {"environment": environment(), "seeds": {"seed": config.seed}} | digests
        return write_result(result, folder, started, ["ranked_*.csv", "page.json"], **about)


def prepare_audit(config: AuditConfig) -> Callable[[Path, bool | None], Result]:
    """The function that carries out an audit in a folder, which it claims."""
    return lambda folder, progress: run_audit(config, folder)


def examine(
    case: AuditCase, folder: Path, unfinished: Path, target: M | None, reference: Target | None
) -> dict[str, Any]:
    """Train where no model is given, and collect: leaves evidence; returns digests of models."""
    config, generators = case.config, case.generators
    what = "corpus and control"
    _keep_same(folder / DOCUMENTS, case.sets, what)
    _keep_same(
        folder / "split.json", case.split.to_dict() | {"corpus_sha256": case.corpus.digest}, what
    )
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
        if isinstance(target, Conversation):
            paths = target.describe()
        digests = {f"{name}_sha256": own for name, own in describe_models(config).items()}
        _keep_same(folder / "model.json", paths | digests, "the model's files")

    parts = unfinished / "parts"
    rows = case.ask(target, case.split.items, generators, reference=reference, folder=parts)
    cases = null_cases(case, target, reference)
    models = [(name, own) for name, own, _ in cases if isinstance(own, Target)]
    others = {f"a {in_words(name)}": own for name, own in models if own is not target}
    alphabet = getattr(target, "alphabet", None)
    write_rows(mark_known(rows, case, alphabet, others), folder / ITEMS)
    if config.corpus.parts:
        sample_ordinarily(case, target, folder)
    (folder / NULLS).mkdir(exist_ok=True)
    for name, null, items in cases:
        title, parts = f"nothing to find, {in_words(name)}", unfinished / f"parts-{name}"
        rows = case.ask(null, items, cheapest(generators), folder=parts, title=title)
        write_rows(rows, folder / NULLS / f"{name}.csv")
    with counted(rows, len(rows), "rows", "comparing the sets: "):
        write_json(folder / SETS, case.compare_sets())
    return digests


def judge(folder: Path, config: AuditConfig) -> Findings:
    """Both findings, from the evidence in a folder alone: no model and no document is read."""
    sets = json.loads((folder / SETS).read_text("utf-8"))
    nulls = {file.stem: read_rows(file) for file in sorted((folder / NULLS).glob("*.csv"))}
    areas, pairs = sets["blind_areas"], sets["near_duplicates"]
    return make_findings(
        read_rows(folder / ITEMS),
        level=config.level,
        blind=None if areas is None else Blind.of(areas),
        nulls=nulls,
        more=[] if pairs is None else [check_duplicates([tuple(pair) for pair in pairs])],
        works=config.corpus.parts is not None,
        seed=config.seed,
        combined=bool(config.dataset_inference),
    )


def make_result(folder: Path, config: AuditConfig) -> Result:
    """The result that follows from the evidence in a folder."""
    found = judge(folder, config)
    plan = read_plan(folder / PLAN) if (folder / PLAN).is_file() else None
    planned = plan and {name: plan[name] for name in ("commitment", "written")}
    facts, verdicts = found.to_dict() | {"planned": planned}, found.comparison()
    if config.corpus.kind == "canaries":
        facts |= reveal(folder, read_rows(folder / ITEMS))
        first = replace(verdicts.rows[0], **CLAIM)
        verdicts = replace(verdicts, rows=(first, *verdicts.rows[1:]))
    both = (found.trained_on, found.reproduces)
    words = "; ".join(f"{one.name}: {_answer(one.word, one.name)}" for one in both)
    if config.model.family == "text":
        facts["unit"] = "characters"
    facts |= describe_known(read_rows(folder / ITEMS))
    if config.corpus.parts:
        facts["works"] = describe_works(folder, read_rows(folder / ITEMS), facts)
    facts["quote"] = quote(facts)
    return Result(
        spec=config,
        outcome=Outcome("done", words),
        facts=facts,
        verdicts=verdicts,
        sentence=facts["quote"],
    )


def _answer(word: str, name: str) -> str:
    return "found" if word == name else word


def cheapest(generators: Sequence[Generator]) -> list[Generator]:
    """What null models are asked by: the soft prompt of fewest vectors, or the first generator."""
    soft = sorted((g for g in generators if g.name == "soft"), key=lambda g: g.budget)
    return soft[:1] or list(generators[:1])


def null_cases(
    case: AuditCase, target: M, reference: Target | None
) -> list[tuple[str, M, Sequence[Item]]]:
    """Models and items that nothing must show on, by name."""
    items, seed, model = case.split.items, case.config.seed, case.config.model
    if case.config.split.stride is not None:
        items = thin_windows(items)
    cases: list[Any] = [("shuffled_targets", target, shuffled(items, seed))]
    if isinstance(target, Target) and model.trained:
        kind: Any = model.family
        blank = build_model(kind, model.size, target.alphabet.size, seed + 2)
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
