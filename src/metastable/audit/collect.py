"""Items × generators × budgets → rows: what was asked, what came out, how near it came.

Items go in batches that are the same in every run of a config, and each finished batch is kept in
a file of its own: a collection that was cut short goes on to the same numbers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metastable.audit import scores
from metastable.audit.corpus import pixels
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Generator, Prompts, Tick, no_tick
from metastable.audit.generators.soft import Amortised
from metastable.audit.references import SEVERAL, add_scores, rank_by_references
from metastable.audit.split import Item
from metastable.audit.talk import Conversation
from metastable.audit.target import Target
from metastable.core import checks
from metastable.core.folder import write_whole
from metastable.core.progress import Bar
from metastable.models.own.decoding import Following, Greedy

COLUMNS: Sequence[str] = (
    "item document group generator budget bits item_bits prompt output target exact hamming edit "
    "common_run squared_error nll min_k min_k_pp zlib_ratio reference_ratio extract_p compression "
    "foresight coverage best_coverage refused common also"
).split(" ")
MORE = ("pair", "reference_nll", *SEVERAL)  # columns that stand only where known
DRAWS = 100  # of (n, p)-extractability
# How a cell of the table is read, where it is no real number.
_CELLS: dict[str, Any] = {"exact": lambda cell: cell == "True", "budget": int} | dict.fromkeys(
    ("item", "document", "group", "generator", "prompt", "output", "target"), str
)
_CELLS["also"] = lambda cell: cell  # left out where it is empty

Row = dict[str, Any]


def collect(
    target: Target | Conversation,
    items: Sequence[Item],
    generators: Sequence[Generator],
    *,
    reference: Target | None = None,
    others: Sequence[Target] = (),
    checkpoints: Sequence[Target] = (),
    levels: int | None = None,
    folder: Path | None = None,
    batch: int = 40,
    seed: int = 0,
    progress: bool | None = None,
    title: str = "",
) -> list[Row]:
    """Rows for all items: the likelihood's, then those of each generator, in this order.

    `others` are more references, `checkpoints` earlier states of M. With `levels` of grey, errors
    of outputs are those of images too. With `folder`, finished batches are kept there and not done
    again. Ctrl-C raises a KeyboardInterrupt that says how many rows are done; `title` names the
    work there and beside the bar.
    """
    checks.integer("batch", batch, 1)
    if not items:
        raise ValueError("items must not be empty; got none: deal a split with items in it.")
    # What was said is kept in the transcript, answer by answer.
    store = _Store(None if isinstance(target, Conversation) else folder)
    rows: list[Row] = []
    jobs = [(None, part) for part in _parts(items, batch)]
    for generator in generators:
        own = _sample(generator, items, seed)
        jobs += [(generator, p) for p in _parts(own, batch if generator.alone else len(own))]
    soft: dict[int, list[Tensor]] = {}  # prompts by budget, for the amortised network
    total = sum(len(part) for _, (_, part) in jobs)
    tick = lambda more: bar.update((len(rows) + more) / total)
    title = title or ("eliciting" if generators else "reading")
    with counted(rows, total, "rows", f"{title}: "), Bar(title, progress) as bar:
        for generator, (first, part) in jobs:
            key = f"likelihood-{first}" if generator is None else _key(generator, first)
            made, vectors = store.load(key)
            if made is None:
                if isinstance(target, Conversation):
                    made = target.make_rows(getattr(generator, "budget", None), part, tick)
                elif generator is None:
                    made = _likelihood(target, part, reference)
                    add_scores(made, part, [reference, *others], checkpoints)
                else:
                    prompts = _elicit(generator, target, part, seed + first, soft, tick)
                    # A prefix is no search: all its time goes into writing.
                    ticked = tick if generator.name == "prefix" else no_tick
                    made = _rows(generator, target, part, prompts, levels, ticked)
                    vectors = prompts.vectors if generator.name == "soft" else None
                store.save(key, made, vectors)
            if generator is not None and vectors is not None:
                soft.setdefault(generator.budget, []).append(vectors.to(target.device))
            rows.extend(made)
            tick(0)
    rank_by_references(rows)
    pairs = {item.name: item.pair for item in items if item.pair is not None}
    for row in rows:
        row |= {"pair": pairs[row["item"]]} if row["item"] in pairs else {}
    return rows


@contextmanager
def counted(done: Sequence[Any], total: int, what: str, title: str = "") -> Iterator[None]:
    """Say in a KeyboardInterrupt that passes how many of `total` are done."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        within = f"; in the next, {stopped}" if str(stopped) else ""
        raise KeyboardInterrupt(f"{title}{len(done)} of {total} {what} are done{within}") from None


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    """A CSV table with the columns of `COLUMNS`, and of `MORE` as known; else cells are empty."""
    text = io.StringIO(newline="")
    columns = [*COLUMNS, *(name for name in MORE if any(name in row for row in rows))]
    writer: Any = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
    return path


def read_rows(path: Path) -> list[Row]:
    """Rows as `collect` gave them: numbers as numbers, empty cells left out."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {k: _CELLS.get(k, float)(v) for k, v in row.items() if v or _CELLS.get(k) is str}
            for row in csv.DictReader(file)
        ]


def _parts(items: Sequence[Item], batch: int) -> list[tuple[int, Sequence[Item]]]:
    return [(k, items[k : k + batch]) for k in range(0, len(items), batch)]


def _sample(generator: Generator, items: Sequence[Item], seed: int) -> Sequence[Item]:
    """All items, or as many of the protected ones and of the controls as the generator wants.

    Drawn without regard to membership: a sample of members alone would be no sample of the
    protected set.
    """
    most = getattr(generator, "items", None)
    if most is None:
        return items
    random = np.random.default_rng([seed, 2])
    chosen: list[int] = []
    for control in (False, True):
        own = [k for k, item in enumerate(items) if (item.group == "control") is control]
        chosen += random.permutation(own)[:most].tolist()
    return [items[k] for k in sorted(chosen)]


def _key(generator: Generator, first: int) -> str:
    return f"{generator.name}{getattr(generator, 'network', '')}-{generator.budget}-{first}"


def _elicit(
    generator: Generator,
    target: Target,
    items: Sequence[Item],
    seed: int,
    soft: dict[int, list[Tensor]],
    tick: Tick,
) -> Prompts:
    texts, ticked = [item.text for item in items], lambda share: tick(share * len(items))
    known = soft.get(generator.budget, [])
    if isinstance(generator, Amortised) and sum(map(len, known)) == len(items):
        prompts = Prompts(torch.cat(known), *target.rows(texts), [""] * len(texts), 0.0)
        return generator.imitate(target, prompts, seed, tick=ticked)
    if isinstance(generator, Discrete):
        return generator.elicit(target, texts, seed, [item.before for item in items], tick=ticked)
    return generator.elicit(target, texts, seed, tick=ticked)


@torch.no_grad()
def _likelihood(target: Target, items: Sequence[Item], reference: Target | None) -> list[Row]:
    """What M alone says of an item: no prompt, budget 0."""
    ids, lengths = target.rows([item.text for item in items])
    laws = target.log_laws(target.model.embed(target.opening(len(ids))), ids).double()
    p = laws.exp()
    mean = (p * laws).sum(-1)
    std = ((p * laws.square()).sum(-1) - mean.square()).clamp(min=0).sqrt()
    logp = laws.gather(-1, ids[..., None])[..., 0]
    rows = []
    for k, item in enumerate(items):
        own, mu, sigma = (x[k, : int(lengths[k])].cpu().numpy() for x in (logp, mean, std))
        nll = scores.nll(own)
        size = int(lengths[k]) * math.log2(target.alphabet.size)
        row = _row(item, "likelihood", 0, 0.0, size) | {
            "target": item.text,
            "nll": nll,
            "min_k": scores.min_k(own),
            "min_k_pp": scores.min_k_pp(own, mu, sigma),
            "zlib_ratio": scores.zlib_ratio(nll, item.text),
            "extract_p": scores.extractability(own, DRAWS),
        }
        if reference is not None:
            opening = reference.model.embed(reference.opening(1))
            other = reference.log_probs(opening, reference.rows([item.text])[0])[0]
            other_nll = scores.nll(other.double().cpu().numpy())
            row["reference_ratio"] = scores.reference_ratio(nll, other_nll)
        rows.append(row)
    return rows


@torch.no_grad()
def _rows(
    generator: Generator,
    target: Target,
    items: Sequence[Item],
    made: Prompts,
    levels: int | None,
    tick: Tick,
) -> list[Row]:
    """What M writes after the prompts, beside what it should."""
    decoding = _Watched(tick, len(items))
    written = target.model.generate(made.vectors, made.ids.shape[1], decoding).cpu()
    log_probs = target.log_probs(made.vectors, made.ids).double().cpu().numpy()
    rows = []
    for k, (item, length) in enumerate(zip(items, made.lengths.tolist(), strict=True)):
        wanted, output = made.ids[k, :length].tolist(), written[k, :length].tolist()
        logp = log_probs[k, :length]
        texts = [made.texts[k], *map(target.alphabet.decode, (output, wanted))]
        # A prefix is part of the item, which is longer than what is left to write.
        size = length + (generator.budget if generator.name == "prefix" else 0)
        size *= math.log2(target.alphabet.size)
        row = _row(item, generator.name, generator.budget, made.bits, size)
        row |= dict(zip(("prompt", "output", "target"), texts, strict=True))
        for score in (scores.exact, scores.hamming, scores.edit, scores.common_run):
            row[score.__name__] = score(wanted, output)
        row["nll"] = scores.nll(logp)
        if levels:
            output = row["output"].ljust(len(row["target"]), "0")
            images = (pixels(text, levels) for text in (row["target"], output))
            row["squared_error"] = scores.squared_error(*images)
        if generator.name in ("prefix", "discrete"):
            row["extract_p"] = scores.extractability(logp, DRAWS)
            shortest = generator.budget if row["exact"] else None
            row["compression"] = scores.compression(length, shortest)
        rows.append(row)
    return rows


@dataclass(frozen=True)
class _Watched:
    """Greedy decoding that tells how many of `rows` the tokens written so far amount to."""

    tick: Tick
    rows: int

    def extend(self, following: Following, start: Tensor, length: int, stop: int | None) -> Tensor:
        def watched(ids: Tensor) -> Tensor:
            self.tick(self.rows * ids.shape[1] / length)
            return following(ids)

        return Greedy().extend(watched, start, length, stop)


def _row(item: Item, generator: str, budget: int, bits: float, item_bits: float) -> Row:
    first = (item.name, item.document, item.group, generator, budget, bits, item_bits)
    return dict(zip(COLUMNS[: len(first)], first, strict=True))


class _Store:
    """Finished batches: rows as JSON, soft prompts as arrays; nowhere without a folder."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        if folder is not None:
            folder.mkdir(exist_ok=True)

    def load(self, key: str) -> tuple[list[Row] | None, Tensor | None]:
        """Rows and prompts of a batch; none where it is not there, or damaged, to be done again."""
        if self.folder is None or not (self.folder / f"{key}.json").is_file():
            return None, None
        array = self.folder / f"{key}.npy"
        try:
            kept = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            vectors = np.load(array, allow_pickle=False) if array.is_file() else None
            if kept["sha256"] != _checksum(kept["rows"], vectors):
                return None, None
        except (ValueError, KeyError, TypeError, EOFError):
            return None, None
        return kept["rows"], None if vectors is None else torch.from_numpy(vectors)

    def save(self, key: str, rows: list[Row], vectors: Tensor | None) -> None:
        if self.folder is None:
            return
        array = None if vectors is None else vectors.cpu().numpy()
        if array is not None:
            np.save(self.folder / f"{key}.npy", array, allow_pickle=False)
        # The rows last and at once: where they stand, the batch is whole.
        kept = json.dumps({"rows": rows, "sha256": _checksum(rows, array)})
        write_whole(self.folder / f"{key}.json", kept.encode())


def _checksum(rows: list[Row], vectors: np.ndarray | None) -> str:
    digest = hashlib.sha256(json.dumps(rows).encode())
    if vectors is not None:
        digest.update(str((vectors.shape, vectors.dtype)).encode() + vectors.tobytes())
    return digest.hexdigest()
