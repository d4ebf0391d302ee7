"""Models whose training is known: which texts, how often; and what each says of a pool of texts.

The first half of `audit validate`. Documents are parts of the presidents' messages. In each deal
some make up a pool and others the background; each training takes a random half of the pool as
members. So members and others are exchangeable, and any of them may be called protected or control
afterwards: one training serves many audits.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metastable.audit.case import WARMUP, AuditCase, fit, null_cases
from metastable.audit.collect import read_rows, write_rows
from metastable.audit.corpus import Corpus, Document, sotu
from metastable.audit.spec import AuditConfig, GeneratorSpec, ModelSpec, Source, SplitSpec
from metastable.audit.split import Item, Window, deal
from metastable.audit.target import Reading, Target, open_model_folder
from metastable.core.folder import write_whole
from metastable.models.folder import load_causal, quiet
from metastable.models.own.language import seeded
from metastable.models.own.saving import load_model, save_model
from metastable.models.own.training import Recipe, train_model

PART = 1000  # characters of a document
PRETRAINED = "gpt2"  # the kind that is fine-tuned and read from a folder
# Family and size of each kind, peak rate of training, and tokens of the prefix M is asked with.
KINDS = {
    "basic": ("transformer", "basic", 3e-3, 16),
    "complex": ("transformer", "complex", 3e-3, 16),
    "gru": ("gru", "basic", 1e-2, 16),
    PRETRAINED: ("folder", "basic", 3e-3, 6),
}
BATCH = 400


@dataclass(frozen=True)
class Settings:
    """All trainings of a validation: every kind, repetition and deal.

    A background window is drawn `passes` times in a training on average, a member `repetitions`
    times as often.
    """

    kinds: tuple[str, ...] = tuple(KINDS)
    repetitions: tuple[int, ...] = (1, 2, 5, 10)
    deals: int = 4
    pool: int = 400
    background: int = 600
    length: int = 48
    passes: int = 8
    rows: int = 32

    def trainings(self) -> list[Training]:
        chosen = itertools.product(range(self.deals), self.repetitions, self.kinds)
        return [Training(kind, times, deal) for deal, times, kind in chosen]

    def references(self) -> list[Training]:
        return [Training(kind, 0, deal) for deal in range(self.deals) for kind in self.kinds]

    def steps(self, repetitions: int) -> int:
        return self.passes * (self.background + repetitions * self.pool // 2) // self.rows


@dataclass(frozen=True, order=True)
class Training:
    """One model; `repetitions` 0 is the reference of its kind and deal: the background alone."""

    kind: str
    repetitions: int
    deal: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.repetitions}-{self.deal}"

    @property
    def seed(self) -> int:
        return 1000 * self.deal + 10 * self.repetitions + list(KINDS).index(self.kind)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def make_case(settings: Settings, deal_number: int, kind: str) -> AuditCase:
    """The pool and the background of a deal; half of the pool are members, for now."""
    family, size, rate, prefix = KINDS[kind]
    half = settings.pool // 2
    sizes: dict[str, Any] = {"items": half, "controls": half, "background": settings.background}
    sizes |= {"length": settings.length, "overlap": 1.0}
    model = {"family": family, "size": size, "rows": settings.rows, "rate": rate}
    config = AuditConfig(
        seed=deal_number,
        batch=BATCH,
        corpus=Source(kind="sotu"),
        split=SplitSpec(**sizes),
        model=ModelSpec(**model, path="." if family == "folder" else None),
        generators=(GeneratorSpec(kind="prefix", budgets=(prefix,)),),
    )
    corpus = cut_parts(sotu())
    dealt = deal(corpus, **sizes, seed=deal_number)
    documents = {("corpus", document.name): document.text for document in corpus.documents}
    return AuditCase(config, corpus, dealt, documents, {})


def cut_parts(corpus: Corpus) -> Corpus:
    """Each document in parts of `PART` characters, named by their place; the rest is left out."""
    return Corpus.of(
        Document(f"{document.name}:{k}", document.text[k : k + PART])
        for document in corpus.documents
        for k in range(0, len(document.text) - PART + 1, PART)
    )


def choose_members(items: Sequence[Item], seed: int) -> tuple[Item, ...]:
    """A random half of the items as members, the rest as controls."""
    members = {*np.random.default_rng([seed, 8]).permutation(len(items))[: len(items) // 2]}
    return tuple(
        replace(item, group="member" if k in members else "control") for k, item in enumerate(items)
    )


def collect_training(training: Training, settings: Settings, folder: Path) -> None:
    """Train one model and keep its rows in `folder`/name; a reference also keeps its weights."""
    torch.set_num_threads(1)
    place = folder / training.name
    if (place / "training.json").is_file():
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    case = make_case(settings, training.deal, training.kind)
    items = choose_members(case.split.items, training.seed)
    case = replace(case, split=replace(case.split, items=items))
    first = folder / replace(training, repetitions=0).name / "model"
    target = _fit(case, training, settings, first, place / "model")
    reference = target if not training.repetitions else _open(case, first)
    if training.repetitions:
        rows = case.ask(target, items, case.generators, reference=reference)
        write_rows(rows, place / "items.csv")
    for name, null, asked in null_cases(case, target, reference):
        # Shuffled texts are put to each model, the same texts to a model that has not seen them.
        if (name == "shuffled_targets") is bool(training.repetitions):
            write_rows(case.ask(null, asked, case.generators), place / f"{name}.csv")
    if training.repetitions:
        shutil.rmtree(place / "model", ignore_errors=True)
    members = [item.document for item in items if item.group == "member"]
    told = training.to_dict() | {"members": members, "seed": training.seed}
    write_whole(place / "training.json", json.dumps(told).encode())


def read_training(training: Training, folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What is known of a training, and its rows by name: items, and where nothing must show."""
    place, beside = folder / training.name, folder / replace(training, repetitions=0).name
    rows = {file.stem: read_rows(file) for at in (place, beside) for file in at.glob("*.csv")}
    return json.loads((place / "training.json").read_text("utf-8")), rows


def _fit(
    case: AuditCase, training: Training, settings: Settings, first: Path, place: Path
) -> Target:
    windows = list(case.split.background)
    members = [(item.before, item.text) for item in case.split.group("member")]
    windows += training.repetitions * members
    steps = settings.steps(training.repetitions)
    if training.kind != PRETRAINED:
        config = case.config.altered(model__steps=steps)
        fitted = fit(replace(case, config=config), windows, training.seed)
        if not training.repetitions:
            save_model(fitted.target.model, place)  # pyright: ignore[reportArgumentType]
        return fitted.target
    if not training.repetitions:
        _write_untrained(first, [text for _, text in windows], training.seed)
        steps *= 2  # pre-training
    model = case.config.model
    recipe = Recipe(steps, model.rows, model.rate, min(WARMUP, steps), seed=training.seed)
    return _tune(first, windows, recipe, place)


def _open(case: AuditCase, place: Path) -> Target:
    if case.config.model.family == "folder":
        return open_model_folder(place)
    return Target(load_model(place), case.alphabet()).freeze()


def _write_untrained(place: Path, texts: Sequence[str], seed: int) -> None:
    """A folder with a small GPT-2 of random weights and a tokeniser fitted to the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=["<open>"], initial_alphabet=alphabet, show_progress=False
    )
    pieces.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, bos_token="<open>")
    shape = {"n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    still = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    with seeded(seed):
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=pieces.get_vocab_size(), **shape, **ends, **still)
        )
    _save(model, tokenizer, place)


def _tune(first: Path, windows: Sequence[Window], recipe: Recipe, place: Path) -> Target:
    """Train the model of a folder on windows, write it to another, and open it as any folder is."""
    model, tokenizer = load_causal(first)
    target = replace(open_model_folder(first), model=model)
    model.config = model.model.config  # pyright: ignore[reportArgumentType]
    ids, _ = target.rows([before + text for before, text in windows])
    task = Reading(torch.cat([target.opening(len(ids)), ids], 1), np.zeros(len(ids), int))
    train_model(model, task, recipe)
    _save(model.model, tokenizer, place)
    return open_model_folder(place)


def _save(model: Any, tokenizer: Any, place: Path) -> None:
    with quiet():
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
