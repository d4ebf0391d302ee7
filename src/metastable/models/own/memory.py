"""How far back a model can reach: gradients against distance, recall against distance."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from metastable.core import checks
from metastable.core.progress import Bar
from metastable.models.own.tasks import Recall, accuracy
from metastable.models.own.training import Recipe, train_model


def gradient_norms(model: Any, lags: Sequence[int], rows: int = 16, seed: int = 0) -> np.ndarray:
    """How much the output after `lag` places still feels the first input.

    ‖∂ log p(· | x_1 … x_T) / ∂ e_1‖_F with T = lag + 1, e_1 the embedding of x_1, for uniformly
    random ids; geometric mean over `rows` sequences, one figure for each lag. In float64, since
    float32 ends at 1e−45. Expected: exponential decay for a vanilla rnn (vanishing gradients:
    Bengio, Simard and Frasconi, 1994), slower for gated cells, about 1/T for attention, which
    reaches every place in one step.
    """
    model = copy.deepcopy(model).double().eval()
    random = np.random.default_rng(checks.seed(seed))
    norms = []
    for lag in lags:
        places = checks.integer("lag", lag, 1) + 1
        ids = torch.from_numpy(random.integers(model.vocabulary, size=(rows, places)))
        embeddings = model.embed(ids).detach().requires_grad_()
        last = model.forward_embeddings(embeddings)[:, -1]  # (rows, vocabulary)
        # Rows do not mix, so the gradient of a sum over rows holds each row's own.
        parts = [
            torch.autograd.grad(out.sum(), embeddings, retain_graph=True)[0][:, 0]
            for out in last.unbind(-1)
        ]
        squared = torch.stack(parts).square().sum((0, 2))  # (rows,)
        norms.append(float((0.5 * squared.log()).mean().exp()))
    return np.array(norms)


def recall_curves(
    families: Mapping[str, Callable[[int], Any]],
    lags: Sequence[int],
    recipe: Recipe | None = None,
    *,
    symbols: int = 8,
    rows: int = 1000,
    progress: bool | None = None,
) -> dict[str, np.ndarray]:
    """Accuracy of each family at each lag, after a training at that lag alone.

    A family maps the size of the vocabulary to a fresh model. Chance is 1/symbols; the accuracy on
    `rows` fresh sequences has a standard deviation of at most 1/(2√rows).
    """
    curves = {name: np.zeros(len(lags)) for name in families}
    with Bar("learning to recall", progress) as bar:
        for k, lag in enumerate(lags):
            task = Recall(lag, symbols)
            for j, (name, build) in enumerate(families.items()):
                model = build(task.vocabulary)
                train_model(model, task, recipe, progress=False)
                curves[name][k] = accuracy(model, task, rows)
                bar.update((k * len(families) + j + 1) / (len(lags) * len(families)))
    return curves
