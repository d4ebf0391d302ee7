"""Refuses, before anything is trained, what cannot be asked: items, prompts and batches."""

from __future__ import annotations

from collections.abc import Sequence

from metastable.audit.alphabet import Alphabet
from metastable.audit.generators.generator import Generator
from metastable.audit.generators.prefix import refuse_short
from metastable.audit.spec import AuditConfig
from metastable.audit.split import Item
from metastable.core import checks


def refuse_unfit(
    config: AuditConfig,
    items: Sequence[Item],
    alphabet: Alphabet,
    limit: int | None,
    generators: Sequence[Generator],
) -> None:
    """Refuse items that no tokeniser gives back, or that no prefix, model or memory fits.

    `limit` is the number of places the model can read, None where it has none.
    """
    lengths = {item.text: len(alphabet.round_trip(item.text)) for item in items}
    short, longest = min(lengths, key=lambda text: lengths[text]), max(lengths.values())
    for generator in generators:
        if generator.name in ("prefix", "shared"):
            refuse_short(getattr(generator, "prefix", generator.budget), short, lengths[short])
        places = _places(generator, longest)
        if limit is not None and places > limit:
            raise ValueError(
                f"prompt and item must fit the model's {limit} places; with {generator.name} "
                f"{generator.budget} they take {places}: shorten the items or the prompt."
            )
    if config.model.device.startswith("cpu"):
        _refuse_large(config, len(items), alphabet.size, longest, generators)


def _places(generator: Generator, longest: int) -> int:
    """Places that M reads at once: a prompt and all but the last token of an item."""
    if generator.name == "prefix":  # the opening, and the item itself
        return longest
    return longest + generator.budget - (generator.name != "discrete")


def _refuse_large(
    config: AuditConfig, items: int, vocabulary: int, longest: int, generators: Sequence[Generator]
) -> None:
    """Refuse batches whose log p alone, of every id at every place, exceed the memory."""
    model = config.model
    asked = {} if model.family == "folder" else {"model.rows": (model.rows, longest)}
    for generator in generators:
        rows = min(config.batch, items) if generator.alone else items
        asked[f"{generator.name} {generator.budget}"] = (
            rows * getattr(generator, "tries", 1),
            _places(generator, longest),
        )
    for name, (rows, places) in asked.items():
        # Numbers of four bytes, where eight are counted.
        remedy = "lower rows, batch, tries, budgets or length"
        checks.fits_memory(name, rows * places * vocabulary / 2, remedy)
