"""Items × generators × budgets → rows: what was asked, what came out, how near it came.

Items go in batches that are the same in every run of a config, and each finished batch is kept in
a file of its own: a collection that was cut short goes on to the same numbers.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metastable.audit import scores
from metastable.audit.corpus import pixels
from metastable.audit.generators.amortised import Amortised
from metastable.audit.generators.discrete import Discrete
from metastable.audit.generators.generator import Elicitation, Generator, Tick
from metastable.audit.split import Item
from metastable.audit.target import Target
from metastable.core import checks
from metastable.core.progress import Bar

COLUMNS: Sequence[str] = (
    "item document group generator budget bits prompt output target exact hamming edit common_run "
    "squared_error nll min_k min_k_pp zlib_ratio reference_ratio extract_p compression"
).split(" ")
DRAWS = 100  # of (n, p)-extractability
_TEXTS = {"item", "document", "group", "generator", "prompt", "output", "target"}

Row = dict[str, Any]


def collect(
    target: Target,
    items: Sequence[Item],
    generators: Sequence[Generator],
    *,
    reference: Target | None = None,
    levels: int | None = None,
    folder: Path | None = None,
    batch: int = 40,
    seed: int = 0,
    progress: bool | None = None,
    title: str = "eliciting",
) -> list[Row]:
    """Rows for all items: the likelihood's, then those of each generator, in this order.

    `levels` of grey: then errors of outputs are those of images too. With `folder`, finished
    batches are kept there and not done again. Ctrl-C raises a KeyboardInterrupt that says how many
    rows are done; `title` names the work there and beside the bar.
    """
    checks.integer("batch", batch, 1)
    if not items:
        raise ValueError("items must not be empty; got none: deal a split with items in it.")
    keep = _Kept(folder)
    rows: list[Row] = []
    jobs = [(None, part) for part in _parts(items, batch)]
    for generator in generators:
        asked = _asked(generator, items, seed)
        parts = _parts(asked, batch) if generator.alone else [(0, asked)]
        jobs += [(generator, part) for part in parts]
    found: dict[int, list[Tensor]] = {}  # soft prompts by budget, for the amortised network
    total = sum(len(part) for _, (_, part) in jobs)
    with _counted(title, rows, total), Bar(title, progress) as bar:
        for generator, (first, part) in jobs:
            key = f"likelihood-{first}" if generator is None else _key(generator, first)
            kept, vectors = keep.load(key)
            if kept is None:
                if generator is None:
                    kept, vectors = _likelihood(target, part, reference), None
                else:
                    done, size = len(rows), len(part)
                    tick = lambda share, done=done, size=size: bar.update(
                        (done + share * size) / total
                    )
                    made = _elicit(generator, target, part, seed + first, found, tick)
                    kept = _rows(generator, target, part, made, levels)
                    vectors = made.vectors if generator.name == "soft" else None
                keep.save(key, kept, vectors)
            if generator is not None and vectors is not None:
                found.setdefault(generator.budget, []).append(vectors.to(target.device))
            rows += kept
            bar.update(len(rows) / total)
    return rows


@contextmanager
def _counted(title: str, rows: Sequence[Row], total: int) -> Iterator[None]:
    """Say in a KeyboardInterrupt that passes how many of `total` rows there are."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{title}: {len(rows)} of {total} rows are done") from None


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    """A CSV table with the columns of `COLUMNS`; what does not apply is empty."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as file:
        writer: Any = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(part, path)
    return path


def read_rows(path: Path) -> list[Row]:
    """Rows as `collect` gave them: numbers as numbers, empty cells left out."""
    with path.open(encoding="utf-8", newline="") as file:
        return [_typed(row) for row in csv.DictReader(file)]


def _typed(row: dict[str, str]) -> Row:
    made: Row = {}
    for name, cell in row.items():
        if name in _TEXTS:
            made[name] = cell
        elif name == "exact" and cell:
            made[name] = cell == "True"
        elif cell:
            made[name] = int(cell) if name == "budget" else float(cell)
    return made


def _parts(items: Sequence[Item], batch: int) -> list[tuple[int, Sequence[Item]]]:
    return [(k, items[k : k + batch]) for k in range(0, len(items), batch)]


def _asked(generator: Generator, items: Sequence[Item], seed: int) -> Sequence[Item]:
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
    kind = getattr(generator, "network", "")
    return f"{generator.name}{kind}-{generator.budget}-{first}"


def _elicit(
    generator: Generator,
    target: Target,
    items: Sequence[Item],
    seed: int,
    found: dict[int, list[Tensor]],
    tick: Tick,
) -> Elicitation:
    texts = [item.text for item in items]
    soft = found.get(generator.budget, [])
    if isinstance(generator, Amortised) and sum(map(len, soft)) == len(items):
        ids, lengths = target.rows(texts)
        warm = Elicitation(torch.cat(soft), ids, lengths, [""] * len(texts), 0.0)
        return generator.imitate(target, warm, seed, tick=tick)
    if isinstance(generator, Discrete):
        return generator.elicit(target, texts, seed, [item.before for item in items], tick=tick)
    return generator.elicit(target, texts, seed, tick=tick)


@torch.no_grad()
def _likelihood(target: Target, items: Sequence[Item], reference: Target | None) -> list[Row]:
    """What M alone says of an item: no prompt, budget 0."""
    ids, lengths = target.rows([item.text for item in items])
    laws = target.log_laws(target.model.embed(target.opening(len(ids))), ids).double()
    p = laws.exp()
    mean = (p * laws).sum(-1)
    std = ((p * laws.square()).sum(-1) - mean.square()).clamp(min=0).sqrt()
    logp = laws.gather(-1, ids[..., None])[..., 0]
    made = []
    for k, item in enumerate(items):
        inside = slice(0, int(lengths[k]))
        own, mu, sigma = (x[k, inside].cpu().numpy() for x in (logp, mean, std))
        nll = scores.nll(own)
        row = _row(item, "likelihood", 0, 0.0) | {
            "target": item.text,
            "nll": nll,
            "min_k": scores.min_k(own),
            "min_k_pp": scores.min_k_pp(own, mu, sigma),
            "zlib_ratio": scores.zlib_ratio(nll, item.text),
            "extract_p": scores.extractability(own, DRAWS),
        }
        if reference is not None:
            other = _reference(reference, item.text)
            row["reference_ratio"] = scores.reference_ratio(nll, other)
        made.append(row)
    return made


def _reference(reference: Target, text: str) -> float:
    ids, _ = reference.rows([text])
    opening = reference.model.embed(reference.opening(1))
    return scores.nll(reference.log_probs(opening, ids)[0].double().cpu().numpy())


@torch.no_grad()
def _rows(
    generator: Generator,
    target: Target,
    items: Sequence[Item],
    made: Elicitation,
    levels: int | None,
) -> list[Row]:
    written = target.model.generate(made.vectors, made.ids.shape[1]).cpu()
    logp = target.log_probs(made.vectors, made.ids).double().cpu().numpy()
    ids, lengths = made.ids.cpu(), made.lengths.tolist()
    rows = []
    for k, item in enumerate(items):
        wanted, output = ids[k, : lengths[k]].tolist(), written[k, : lengths[k]].tolist()
        exact = scores.exact(wanted, output)
        row = _row(item, generator.name, generator.budget, made.bits) | {
            "prompt": made.texts[k],
            "output": target.alphabet.decode(output),
            "target": target.alphabet.decode(wanted),
            "exact": exact,
            "hamming": scores.hamming(wanted, output),
            "edit": scores.edit(wanted, output),
            "common_run": scores.common_run(wanted, output),
            "nll": scores.nll(logp[k, : lengths[k]]),
        }
        if levels:
            row["squared_error"] = _squared_error(row["target"], row["output"], levels)
        if generator.name in ("prefix", "discrete"):
            row["extract_p"] = scores.extractability(logp[k, : lengths[k]], DRAWS)
            shortest = generator.budget if exact else None
            row["compression"] = scores.compression(lengths[k], shortest)
        rows.append(row)
    return rows


def _squared_error(target: str, output: str, levels: int) -> float:
    return scores.squared_error(
        pixels(target, levels), pixels(output.ljust(len(target), "0"), levels)
    )


def _row(item: Item, generator: str, budget: int, bits: float) -> Row:
    return {
        "item": item.name,
        "document": item.document,
        "group": item.group,
        "generator": generator,
        "budget": budget,
        "bits": bits,
    }


class _Kept:
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
        part = self.folder / f"{key}.part"
        kept = {"rows": rows, "sha256": _checksum(rows, array)}
        part.write_text(json.dumps(kept), encoding="utf-8")
        os.replace(part, self.folder / f"{key}.json")


def _checksum(rows: list[Row], vectors: np.ndarray | None) -> str:
    digest = hashlib.sha256(json.dumps(rows).encode())
    if vectors is not None:
        digest.update(str((vectors.shape, vectors.dtype)).encode() + vectors.tobytes())
    return digest.hexdigest()
