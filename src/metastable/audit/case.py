"""What an audit is about: its documents dealt out, and how models are asked about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metastable.audit.alphabet import Alphabet, Tokens
from metastable.audit.blind import separate_blindly
from metastable.audit.canaries import open_canaries
from metastable.audit.collect import Row, collect
from metastable.audit.corpus import Corpus, plural, read_corpus
from metastable.audit.custody import describe_set
from metastable.audit.duplicates import near_duplicates
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Generator, Prefix, refuse_short
from metastable.audit.generators.soft import Amortised, Shared, Soft
from metastable.audit.spec import AuditConfig, GeneratorSpec, Source
from metastable.audit.split import Item, Split, Window, deal
from metastable.audit.talk import Conversation
from metastable.audit.target import (
    Fitted,
    Target,
    build_model,
    make_alphabet,
    open_model_folder,
    refuse_folder,
    torch_device,
    train_target,
)
from metastable.audit.works import cut_works, thin_windows, work_lengths
from metastable.core import checks
from metastable.models.own.training import Recipe

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
    repeats: tuple[tuple[str, str], ...] = ()  # of one set: the document kept, and one left out

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

    @property
    def caution(self) -> str:
        """What an audit of somebody's model cannot show, where both sets are of the same texts."""
        config = self.config
        if config.control is not None or config.corpus.kind == "canaries" or config.model.trained:
            return ""
        return (
            "there is no [control]: your own texts were dealt into both sets. A model that has "
            "read all of them shows nothing then, and no finding says nothing. Give texts of the "
            "same kind that it cannot have read, such as later ones."
        )

    def repeated(self) -> list[str]:
        """What is said twice within one set, a line for each kind: such texts show nothing."""
        lines = []
        if self.repeats:
            kept, left = self.repeats[0]
            lines.append(
                f"the same text twice within one set: {plural(len(self.repeats), 'document')} left "
                f"out, such as {left!r}, which repeats {kept!r}: bring each text once."
            )
        if self.config.corpus.kind == "canaries" or self.config.corpus.parts or self.corpus.levels:
            return lines
        near = []
        for side in (("member", "protected"), ("control",)):
            texts = self.whole_texts(*side)
            near += [pair[:2] for pair in near_duplicates(texts, texts) if pair[0] < pair[1]]
        if near:
            one, other = near[0]
            lines.append(
                f"nearly the same within one set: {plural(len(near), 'pair')}, such as {one!r} and "
                f"{other!r}; what stands in both counts in neither."
            )
        return lines

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
    corpus = _read(config.corpus, SHORTEST)
    control = None if config.control is None else _read(config.control, SHORTEST)
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
    repeats = corpus.repeats + (() if control is None else control.repeats)
    return AuditCase(config, corpus, split, documents, sets, repeats)


def _read(source: Source, shortest: int = 0) -> Corpus:
    corpus = read_corpus(source.kind, source.path, source.field, source.names)
    lengths = [*((name, 0) for name in corpus.empty)] if shortest else []
    lengths += [(d.name, len(d.text)) for d in corpus.documents if len(d.text) < shortest]
    if lengths and not corpus.levels:
        name, length = lengths[0]
        more = f" (and {len(lengths) - 1} more have too few)" if len(lengths) > 1 else ""
        raise ValueError(
            f"documents must have at least {shortest} characters; {name!r} of {source.path} "
            f"{f'has {length}' if length else 'is empty'}{more}: take it away, or bring its text."
        )
    return corpus if source.parts is None else cut_works(corpus, source.parts)


def refuse_unfit_for_folder(case: AuditCase) -> None:
    """`refuse_unfit` by the tokeniser of a model folder, whose weights stay closed."""
    from metastable.models.folder import load_tokenizer

    place = case.config.model.path
    if case.config.model.family != "folder" or place is None:
        return
    tokenizer = load_tokenizer(place)
    alphabet = Tokens(tokenizer, len(tokenizer))
    refuse_unfit(case.config, case.split.items, alphabet, None, case.generators)


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
