"""Where the energy of a trained model falls: formulas that foretell its sign, out of sample.

    python benchmarks/energy_sign.py smollm2 --prompts 48 --out benchmarks/results/energy_sign.json

Every formula gives a number a layer and text; its threshold is fitted on other layers of other
texts (`score_signs`). From least to most that is known of a layer:

- `spectra`: traces of O_hV_h alone, O_hV_h = (tr/d)·I, and the Gram matrix of the input;
- `heads`: the matrices O_hV_h under uniform attention (`coherent_pull`);
- `heads, size`: the same, less E·‖ΣOV‖²_F/‖x‖², the loss if what is said had random directions;
- `attention`, `feed-forward`: the exact change through that half alone (evaluates the layer);
- `first order`: the derivative of the energy along all that is added (evaluates the layer).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from metastable.models.captured import Captured, ModelCase
from metastable.models.energy import coherent_pull, energy_parts, energy_slope, score_signs
from metastable.models.folder import load
from metastable.models.passes import Passage
from metastable.models.pretrained import messages
from metastable.models.prompts import read_prompt


def measure(name: str, prompts: int, tokens: int, seed: int) -> dict[str, Any]:
    network = load(name)
    rng = np.random.default_rng(seed)
    texts = []
    for file in rng.permutation(messages())[:prompts]:
        whole = file.read_text(encoding="utf-8")
        begin = int(rng.integers(len(whole) // 2))
        texts.append(read_prompt(network, whole[begin : begin + 12 * tokens], tokens))
    case = ModelCase(Captured(network, texts[0]))
    rows = [numbers(case, case.pass_of(text)) for text in texts]
    change = np.array([row.pop("change") for row in rows])
    found: dict[str, Any] = {
        "model": name,
        "prompts": prompts,
        "tokens": tokens,
        "rises": float(np.mean(change > 0)),
        "falls_by_layer": np.mean(change < 0, axis=0).tolist(),
        "parts": {
            part: float(np.mean(np.abs([row[part] for row in rows])))
            for part in ("attention", "feed-forward", "norm")
        },
        "size_of_change": float(np.mean(np.abs(change))),
    }
    print(f"{name}: the energy rises in {100 * found['rises']:.1f} % of {change.size} steps")
    if min(np.mean(change > 0), np.mean(change <= 0)) < 0.05:
        return found | {"scores": None}
    formulas = [key for key in rows[0] if key != "norm"]
    scores = {key: score_signs(np.array([row[key] for row in rows]), change) for key in formulas}
    for key, score in scores.items():
        print(f"  {key:14} {score}")
    return found | {"scores": {key: asdict(score) for key, score in scores.items()}}


def numbers(case: ModelCase, passage: Passage) -> dict[str, np.ndarray]:
    anatomy = case.anatomy
    assert anatomy is not None
    kept = np.ones(len(passage.states[0]), bool)
    kept[0] = False  # the first token is a giant, or a sink
    parts = energy_parts(passage.inside, kept)
    pairs = list(zip(passage.inside, case.stated, strict=True))
    heads = [coherent_pull(own, layer.state, kept, anatomy.pre_norm) for layer, own in pairs]
    lost = []
    for layer, own in pairs:
        value = np.sum([head.output @ head.value for head in own.heads], axis=0)
        gain = 1.0 if own.first is None or not anatomy.pre_norm else own.first.gain
        lost.append(np.sum((value * gain) ** 2) / np.mean(np.sum(layer.state[kept] ** 2, axis=1)))
    return {
        "change": parts.change,
        "spectra": np.array([traces(case, layer, own, kept) for layer, own in pairs]),
        "heads": np.array(heads),
        "heads, size": np.array(heads) - np.array(lost),
        "attention": parts.attention,
        "feed-forward": parts.feed_forward,
        "first order": parts.attention_first + parts.feed_forward_first,
        "norm": parts.norm,
    }


def traces(case: ModelCase, layer: Any, own: Any, kept: np.ndarray) -> float:
    """The pull if every O_hV_h were (tr/d) times the identity."""
    state = np.asarray(layer.state, float)
    seen = state / np.sqrt(np.mean(state**2, axis=1, keepdims=True))
    gain = 1.0 if own.first is None else own.first.gain
    trace = sum(np.sum(head.output.T * (head.value * gain)) for head in own.heads)
    sees = own.sees(len(state)).astype(float)
    said = trace / state.shape[1] * (sees / sees.sum(axis=1, keepdims=True)) @ seen
    return energy_slope(state[kept], said[kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=["smollm2", "minilm"])
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = [measure(name, given.prompts, given.tokens, given.seed) for name in given.models]
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
