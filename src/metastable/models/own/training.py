"""Training by maximum likelihood: seeded, resumable to the bit, safe to interrupt."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from metastable.core import checks
from metastable.core.checkpoint import Checkpoint
from metastable.core.progress import Bar
from metastable.models.own.language import seeded
from metastable.models.own.tasks import Batch, Task, pose


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Adam with warm-up: the rate at step s is rate · min(s/warmup, √(warmup/s)).

    Source: arXiv:1706.03762, §5.3, with the peak stated instead of implied by the width. Gradients
    are clipped to norm `clip` (Pascanu et al., arXiv:1211.5063). Good values: rates of 1e−3 to 1e−2
    for models of width 32 to 128; six layers with the norm after the sum learn slowly at any.
    """

    steps: int = 1000
    rows: int = 64
    rate: float = 1e-3
    warmup: int = 100
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "rows", "warmup"):
            checks.integer(name, getattr(self, name), 1)
        checks.positive("rate", self.rate)
        checks.positive("clip", self.clip)
        checks.seed(self.seed)

    def rate_at(self, step: int) -> float:
        """For steps 1, 2, …"""
        return self.rate * min(step / self.warmup, (self.warmup / step) ** 0.5)


@dataclasses.dataclass(frozen=True)
class Fit:
    """How a training went: the loss −log p per id in each step, and the seconds of this call."""

    losses: np.ndarray
    seconds: float

    @property
    def loss(self) -> float:
        """Mean over the last twentieth of the steps."""
        return float(self.losses[-max(1, len(self.losses) // 20) :].mean())

    def __repr__(self) -> str:
        return f"Fit({len(self.losses)} steps, loss {self.loss:.4g}, {self.seconds:.1f} s)"


def train_model(
    model: Any,
    task: Task,
    recipe: Recipe | None = None,
    *,
    checkpoint: str | Path | None = None,
    every: int = 200,
    watch: Callable[[int, Any], object] | None = None,
    progress: bool | None = None,
) -> Fit:
    """Maximise log p of a task's targets, changing the model in place.

    θ ↦ −mean log p_θ(x_t | x_1 … x_{t−1}) over the ids of the targets falls by Adam. `model` is a
    language model of ours or an `EncoderDecoder`; `task(random, rows)` makes the batch of a step.

    Batch and dropout of step s depend on (seed, s) alone, so a training that goes on from its
    checkpoint ends in the same bits as one that was never cut (on one machine, with one number of
    threads). With `checkpoint`, a file, the state is kept every `every` steps and at the end; the
    same call, with a model that starts from the same weights, goes on from there. Ctrl-C ends the
    step, keeps the checkpoint and raises KeyboardInterrupt.

    `watch(step, model)` is called after every step, and with 0 before the first: to keep copies of
    the model on its way, as `inspect_many` takes them.

    >>> from metastable.models import Copy, Recurrent, RecurrentConfig
    >>> task = Copy(symbols=2, length=1)
    >>> model = Recurrent(RecurrentConfig(task.vocabulary, "gru", width=8))
    >>> bool(train_model(model, task, Recipe(steps=50, rate=0.03, warmup=5)).loss < 0.1)
    True
    """
    recipe = recipe or Recipe()
    checks.integer("every", every, 1)
    started = time.perf_counter()
    first = _draw(task, recipe, 1)
    identity = {
        "model": f"{type(model).__name__} {model.config} {recipe}",
        "weights": _arrays(model.state_dict()),
        "batch": _arrays(vars(first)),
    }
    kept = Checkpoint(checkpoint, identity)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    done, losses = _restore(kept, model, optimizer, recipe)
    if watch is not None and not done:
        watch(0, model)
    model.train()
    with Bar("training", progress) as bar, _deferred_interrupt() as interrupted:
        for step in range(done + 1, recipe.steps + 1):
            losses[step - 1] = _step(model, optimizer, task, recipe, step)
            bar.update(step / recipe.steps)
            if watch is not None:
                watch(step, model)
            if step % every == 0 or step == recipe.steps or interrupted.is_set():
                kept.save(_state(model, optimizer, losses, step))
            if interrupted.is_set():
                raise KeyboardInterrupt
    model.eval()
    return Fit(losses, time.perf_counter() - started)


def _draw(task: Task, recipe: Recipe, step: int) -> Batch:
    return task(np.random.default_rng([recipe.seed, step]), recipe.rows)


def _step(model: Any, optimizer: Any, task: Task, recipe: Recipe, step: int) -> float:
    batch = _draw(task, recipe, step)
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate_at(step)
    # Not [seed, step]: dropout would then follow the numbers that made the batch.
    with seeded(int(np.random.default_rng([recipe.seed, step, 1]).integers(2**63))):
        language, ids, place = pose(model, batch)
        loss = -language.log_probs(ids)[:, place - 1 :].mean()
    if not torch.isfinite(loss):
        raise FloatingPointError(
            f"the loss left the range of floating point at step {step}: lower the rate "
            f"({recipe.rate:g}) or lengthen the warm-up ({recipe.warmup})."
        )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
    optimizer.step()
    return loss.item()


def _state(model: Any, optimizer: Any, losses: np.ndarray, step: int) -> dict[str, Any]:
    moments = [optimizer.state[w] for w in model.parameters()]
    return {
        "step": np.array(step),
        "losses": losses,
        "weights": _arrays(model.state_dict()),
        "means": [m["exp_avg"].cpu().numpy() for m in moments],
        "squares": [m["exp_avg_sq"].cpu().numpy() for m in moments],
    }


def _restore(
    kept: Checkpoint, model: Any, optimizer: Any, recipe: Recipe
) -> tuple[int, np.ndarray]:
    nothing = [np.zeros(tuple(w.shape), np.float32) for w in model.parameters()]
    fresh = {
        "step": np.array(0),
        "losses": np.full(recipe.steps, np.nan),
        "weights": _arrays(model.state_dict()),
        "means": nothing,
        "squares": nothing,
    }
    try:
        # np.load leaves a broken file open.
        if kept.path is not None and kept.path.exists() and not zipfile.is_zipfile(kept.path):
            raise ValueError
        state = kept.load(fresh)
    except (ValueError, KeyError, OSError):
        raise ValueError(
            "checkpoint must be a whole one of this training (same model, first weights, recipe "
            f"and data); {kept.path} is not: choose another file or remove it."
        ) from None
    step = int(state["step"])
    if step:
        model.load_state_dict({k: torch.from_numpy(w) for k, w in state["weights"].items()})
        for w, mean, square in zip(
            model.parameters(), state["means"], state["squares"], strict=True
        ):
            optimizer.state[w] = {
                "step": torch.tensor(float(step), device=w.device),
                "exp_avg": torch.from_numpy(mean).to(w.device),
                "exp_avg_sq": torch.from_numpy(square).to(w.device),
            }
    return step, state["losses"]


def _arrays(tensors: dict[str, Any]) -> dict[str, np.ndarray]:
    return {k: w.detach().cpu().numpy() for k, w in tensors.items() if w is not None}


@contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets an event: a step cut in the middle would leave weights of two steps.

    A second Ctrl-C does not wait.
    """
    interrupted = threading.Event()

    def note(*_: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
