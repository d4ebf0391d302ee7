"""How much of the motion of a model's tokens each part of it explains.

A ladder from the field of the theorems to the model itself: attention of the tokens to each other
with Q = K = V = I; with the model's V; with its Q and K, all heads in one; with its heads; with
its feed-forward net; with its norms. Every rung says how a direction moves in a layer, up to one
factor a layer that is fitted on other texts, and is judged on texts it has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core.progress import Bar
from metastable.core.tables import Tabular
from metastable.models.captured import Captured, ModelCase
from metastable.models.folder import load
from metastable.models.passes import Inside, Passage
from metastable.models.prompts import Prompt, read_prompt
from metastable.models.stated import StatedLayer

if TYPE_CHECKING:
    import pandas

RUNGS = ("isotropic attention", "its V", "its Q and K", "its heads", "feed-forward", "norms")


@dataclass(frozen=True, eq=False)
class Ladder(Tabular):
    """Share of the squared motion of directions that each rung explains on held-out texts."""

    rungs: tuple[str, ...]
    share: np.ndarray  # (rungs,) over all layers and texts
    low: np.ndarray  # 95 % by a bootstrap over texts
    high: np.ndarray
    by_layer: np.ndarray  # (rungs, layers)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a rung: share and interval."""
        import pandas

        table = {"rung": self.rungs, "share": self.share, "low": self.low, "high": self.high}
        return pandas.DataFrame(table)

    def __str__(self) -> str:
        shown = zip(self.rungs, self.share, strict=True)
        return "; ".join(f"{rung} {100 * share:.0f} %" for rung, share in shown)


def ladder(
    source: Any,
    prompts: Sequence[str | Sequence[int] | Prompt],
    *,
    part: str = "",
    tokens: int | None = None,
    first: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Ladder:
    """Climb from isotropic attention to the model, on at least four texts.

    With u = x/‖x‖, a layer turns u_i by Δ_i = u_i(after) − u_i. A rung foretells what is added to
    the stream, y_i; its Δ̂_i is the turn of u_i by c·y_i, to first order in c for the rungs that are
    scaled (c fitted by least squares, a layer at a time, on the other half of the texts), and the
    turn itself for those that are the model's own (c = 1). The share is 1 − Σ‖Δ − Δ̂‖²/Σ‖Δ‖²;
    below zero, a rung is worse than standing still. `first` keeps the first token among them.
    """
    network = load(source)
    network.anatomy(part, need="a ladder", attention=True)
    reads = [read_prompt(network, prompt, tokens) for prompt in prompts]
    if len(reads) < 4:
        raise ValueError(f"prompts must be at least 4, for two halves; got {len(reads)}.")
    case = ModelCase(Captured(network, reads[0], part))
    moved, foretold = [], []  # (texts, layers) of (n, d) and (rungs, n, d)
    with Bar("ladder", progress) as bar:
        for number, read in enumerate(reads):
            passage = case.pass_of(read)
            rows = _turns(case, passage, 0 if first else 1)
            moved.append([turn for turn, _ in rows])
            foretold.append([said for _, said in rows])
            bar.update((number + 1) / len(reads))
    half = np.random.default_rng(seed).permutation(len(reads)) % 2
    left = np.zeros((len(RUNGS), len(reads), len(moved[0])))
    whole = np.zeros((len(reads), len(moved[0])))
    for layer in range(len(moved[0])):
        scales = [_scale(moved, foretold, layer, half != side) for side in (0, 1)]
        for text, turns in enumerate(moved):
            whole[text, layer] = np.sum(turns[layer] ** 2)
            said = scales[half[text]][:, None, None] * foretold[text][layer]
            left[:, text, layer] = np.sum((turns[layer] - said) ** 2, axis=(1, 2))
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(reads), (1000, len(reads)))
    spread = 1 - left.sum(axis=2)[:, draws].sum(axis=2) / whole.sum(axis=1)[draws].sum(axis=1)
    low, high = np.quantile(spread, [0.025, 0.975], axis=1)
    share = 1 - left.sum(axis=(1, 2)) / whole.sum()
    return Ladder(RUNGS, share, low, high, 1 - left.sum(axis=1) / whole.sum(axis=0))


SCALED = 3  # rungs whose step is fitted; the others are the model's own


def _scale(moved: Any, foretold: Any, layer: int, texts: np.ndarray) -> np.ndarray:
    """Least-squares factors (rungs,), 1 for the rungs that are not scaled."""
    scales = np.ones(len(RUNGS))
    chosen = np.flatnonzero(texts)
    for rung in range(SCALED):
        both = sum(np.sum(moved[t][layer] * foretold[t][layer][rung]) for t in chosen)
        size = sum(np.sum(foretold[t][layer][rung] ** 2) for t in chosen)
        scales[rung] = both / max(size, 1e-300)
    return scales


def _turns(case: ModelCase, passage: Passage, begin: int) -> list[tuple[np.ndarray, np.ndarray]]:
    anatomy = case.anatomy
    assert anatomy is not None
    rows = []
    for layer, stated in zip(passage.inside, case.stated, strict=True):
        x, u = np.asarray(layer.state, float), _directions(layer.state)
        turn = _directions(layer.leaves) - u
        said = [_tangent(u, y) for y in _scaled_rungs(layer, stated, u)]
        said += [_directions(x + y) - u for y in _own_rungs(layer)]
        said.append(turn)  # with its norms it is the layer
        rows.append((turn[begin:], np.stack(said)[:, begin:]))
    return rows


def _scaled_rungs(layer: Inside, stated: StatedLayer, u: np.ndarray) -> list[np.ndarray]:
    assert layer.seen is not None
    seen, sees = np.asarray(layer.seen, float), stated.sees(len(u))
    beta = float(np.mean([head.beta for head in stated.heads]))
    plain = _softmax(np.where(sees, beta * (u @ u.T), -np.inf))
    value = np.sum([head.output @ head.value for head in stated.heads], axis=0)
    logits = stated.logits(seen)
    one = _softmax(np.where(sees, np.where(sees, logits, 0.0).mean(axis=0), -np.inf))
    return [plain @ u, plain @ seen @ value.T, one @ seen @ value.T]


def _own_rungs(layer: Inside) -> list[np.ndarray]:
    assert layer.attended is not None
    attended = np.asarray(layer.attended, float)
    if layer.crossed is not None:
        attended = attended + layer.crossed
    return [attended, attended + layer.fed]


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _tangent(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    return y - np.sum(u * y, axis=1, keepdims=True) * u


def _directions(x: Any) -> np.ndarray:
    x = np.asarray(x, float)
    return x / np.linalg.norm(x, axis=1, keepdims=True)
