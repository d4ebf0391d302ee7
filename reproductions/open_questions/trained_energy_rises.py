"""Do trained layers raise the energy of attention, one after the other?"""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import not_applicable
from metastable.models.capture import capture
from metastable.models.energy import token_energy
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions.ponti2025._words import load_model

ENTRY = Entry(
    title="Do trained layers raise the energy of attention, one after the other?",
    places=["arXiv:2312.10794, §3 (attention with V = I never lets the energy fall)"],
    claim=(
        "Not in general: a small trained encoder with norms after each layer raises it in almost "
        "every layer of every text, a language model with norms before lets it fall in many."
    ),
    method=(
        "Energy of the directions of tokens, the first left out, in every state of a trained "
        "model; share of layer steps in which it rises, with a 95 % interval by texts."
    ),
    subject="real models",
    basis="report",
    limits=(
        "One encoder and one language model, short texts, β = 1; the two differ in norms, mask, "
        "training and depth at once, so that no cause is named. Needs their weights."
    ),
    planted="token_energy.beta = -1.0",
    settings={"models": ["minilm", "smollm2"], "beta": 1.0},
    fast={"models": ["minilm"]},
)

TEXTS = [
    "The bank of the river was muddy. She put her money in the bank.",
    "A short text whose tokens come closer to each other, layer by layer.",
    "Rain fell on the hills all night, and in the morning the road was gone.",
    "Add two spoons of sugar, stir until it melts, and let the mixture cool.",
    "The court found that the contract had been signed under duress.",
    "Our train leaves at nine, so we should meet at the station half an hour before.",
]


def trained_energy_rises(*, models: list[str], beta: float) -> Finding:
    """Share of layer steps with a rising energy, by model."""
    rows, series = [], []
    for group, name in enumerate(models):
        claim = f"{name}: share of layer steps in which the energy rises"
        network = load_model(name)
        if network is None:
            rows.append(not_applicable(claim, "a trained model", "its weights are not installed"))
            continue
        energies = []
        for text in TEXTS:
            frames = capture(network, text).frames
            energies.append([token_energy(np.asarray(f.points)[1:], beta=beta) for f in frames])
        rises = np.mean(np.diff(energies, axis=1) > 0, axis=1)
        mean, steps = float(rises.mean()), rises.size * (len(energies[0]) - 1)
        # Texts are the units: 97.5 % point of Student's law with five degrees of freedom.
        half = max(2.57 * float(rises.std(ddof=1)) / math.sqrt(len(TEXTS)), 3 / steps)
        low, high = max(mean - half, 0.0), min(mean + half, 1.0)
        expected = "above 0.9" if name == "minilm" else "below 0.9"
        right = low > 0.9 if name == "minilm" else high < 0.9
        observed = f"{mean:.2f} ({low:.2f} to {high:.2f}) of {steps} steps"
        rows.append(holds(claim, "answer", right, expected, observed))
        depth = np.linspace(0, 1, len(energies[0]))
        series += [
            Series(name if k == 0 else "", depth, energy, group=group)
            for k, energy in enumerate(energies)
        ]
    axes = Axis("layer / number of layers"), Axis("energy, 1 when all tokens agree")
    return Finding(rows, {"energies": Lines(*axes, series)} if series else {})
