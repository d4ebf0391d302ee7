"""One training loop for everything that learns: small, resumable, and honest about how it ended."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import numpy as np

from metastable.core import checks
from metastable.core.checkpoint import Checkpoint
from metastable.core.interrupts import interruptible
from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar

DIVERGED = 1e6  # a loss this many times its first value will not come back
IMPROVED = 1e-3  # the relative gain that counts as one, for early stopping


class Method(Protocol):
    """How parameters are improved on one batch: `Gradient(...)` or `LeastSquares(...)`."""

    def loss(self, parameters: Any, batch: Any, /) -> Any: ...

    def init(self, parameters: Any, batch: Any) -> Any: ...

    def step(self, parameters: Any, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        """New parameters, new state, and the loss before the step."""
        ...


@dataclasses.dataclass(frozen=True)
class Gradient:
    """Steps of an optax optimizer along the gradient of `loss(parameters, batch)`.

    Optimizers that search along a line, such as `optax.lbfgs()`, are given the loss as well.
    """

    loss: Callable[[Any, Any], Any]
    optimizer: Any

    def init(self, parameters: Any, batch: Any) -> Any:
        return self.optimizer.init(parameters)

    def step(self, parameters: Any, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        import optax

        loss, gradient = jax.value_and_grad(self.loss)(parameters, batch)
        search = {"value": loss, "grad": gradient, "value_fn": lambda x: self.loss(x, batch)}
        optimizer = optax.with_extra_args_support(self.optimizer)
        updates, state = optimizer.update(gradient, state, parameters, **search)
        return optax.apply_updates(parameters, updates), state, loss


def adam(loss: Callable[[Any, Any], Any], rate: float, steps: int, final: float = 0.0) -> Gradient:
    """Adam, its rate falling from `rate` to `final` times it along a cosine over `steps`."""
    import optax

    return Gradient(loss, optax.adam(optax.cosine_decay_schedule(rate, steps, alpha=final)))


@dataclasses.dataclass(frozen=True)
class LeastSquares:
    """Steps of an optimistix solver on `residuals(parameters, batch)`; the loss is Σ residual².

    A step that would raise the loss is refused by the solver and tried again shorter, so some
    steps leave the parameters as they are. Batches must be the same at every step.
    """

    residuals: Callable[[Any, Any], Any]
    solver: Any

    def loss(self, parameters: Any, batch: Any) -> Any:
        residuals = jax.tree.leaves(self.residuals(parameters, batch))
        return sum(jnp.sum(leaf**2) for leaf in residuals)

    def _function(self, parameters: Any, batch: Any) -> tuple[Any, None]:
        return self.residuals(parameters, batch), None

    def init(self, parameters: Any, batch: Any) -> Any:
        shapes = jax.eval_shape(self.residuals, parameters, batch)
        return self.solver.init(self._function, parameters, batch, {}, shapes, None, frozenset())

    def step(self, parameters: Any, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        loss = self.loss(parameters, batch)
        step = self.solver.step(self._function, parameters, batch, {}, state, frozenset())
        return step[0], step[1], loss


@dataclasses.dataclass(frozen=True, repr=False)
class Training:
    """What a training left: parameters, history and outcome.

    - `losses` (steps,): on the batch of each step, before the step.
    - `checks` (m,): after how many steps `validation` (m,) and `seconds` (m,) were taken; the time
      is spent in steps alone, without compilation, checks and files.
    - `watched` (m, k): what `watch` saw at the same moments.
    """

    parameters: Any
    losses: np.ndarray
    checks: np.ndarray
    validation: np.ndarray
    seconds: np.ndarray
    outcome: Outcome
    watched: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))

    def __repr__(self) -> str:
        ends = f"loss {self.losses[0]:.3g} → {self.losses[-1]:.3g}" if self.losses.size else ""
        return f"Training({self.losses.size} steps, {ends}; {self.outcome})"

    def finished(self) -> Training:
        """The training itself; raises `Interrupted` where Ctrl-C ended it."""
        if self.outcome.name == "interrupted":
            raise Interrupted(self.outcome)
        return self


class Interrupted(Exception):
    """A training was interrupted; `outcome` says so."""

    def __init__(self, outcome: Outcome):
        super().__init__(outcome.message)
        self.outcome = outcome


def last(values: np.ndarray, place: int = -1) -> float | None:
    """The last entry of a history, or that at `place`; None where a run ended before it."""
    return float(values[place]) if values.size else None


def file_in(folder: Path | None, name: str) -> Path | None:
    """The checkpoint of a training in the folder of an experiment, if it has one."""
    return None if folder is None else folder / f"{name.replace(' ', '_')}.npz"


def options_in(folder: Path | None, name: str, progress: bool | None) -> dict[str, Any]:
    """`checkpoint` and `progress` for one training of an experiment."""
    return {"checkpoint": file_in(folder, name), "progress": progress}


def whole(data: Any, key: Any, step: Any) -> Any:
    """The batch that is all of the data."""
    return data


def train(
    parameters: Any,
    method: Method,
    data: Any,
    *,
    steps: int,
    draw: Callable[[Any, Any, Any], Any] = whole,
    validation: Any = None,
    every: int | None = None,
    watch: Callable[[Any], Any] | None = None,
    patience: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    title: str = "training",
) -> Training:
    """Improve `parameters` (any pytree of arrays) by `steps` steps of `method`.

    - `draw(data, key, step)` gives the batch of a step, for jit; fold the step into the key, which
      comes from `seed`: batches then depend on nothing but seed and step.
    - `every`: steps between two looks at the run (default: a fiftieth); each look validates on
      `validation` (by default all of `data`), saves the checkpoint and may stop.
    - `watch(parameters)` gives some numbers to keep at each look.
    - `patience`: stop after this many looks without a gain of 0.1 % on the validation loss.
    - `seconds`: stop at the first look after this much time in steps.
    - `checkpoint`: an .npz file. A run cut short goes on from it with the same bits, and a finished
      one can be extended by a larger `steps`; a file of another problem is refused.

    A loss that is not finite or 10⁶ times the first ends the run as "diverged" with the parameters
    of the last good look; Ctrl-C ends it as "interrupted". Neither raises.

    >>> import optax
    >>> method = Gradient(lambda x, goal: (x - goal) ** 2, optax.sgd(0.25))
    >>> train(jnp.asarray(0.0), method, jnp.asarray(1.0), steps=10, every=5).parameters
    Array(0.99902344, dtype=float64)
    """
    checks.integer("steps", steps, 1)
    every = max(1, steps // 50) if every is None else checks.integer("every", every, 1)
    parameters = jax.tree.map(jnp.asarray, parameters)
    key = jax.random.key(checks.seed(seed))
    first = draw(data, key, jnp.asarray(0))
    inner, fixed = eqx.partition(method.init(parameters, first), eqx.is_array)

    @jax.jit
    def advance(parameters, inner, data, key, step, count):
        def one(k, carry):
            parameters, inner, losses = carry
            state = eqx.combine(inner, fixed)
            batch = draw(data, key, step + k)
            parameters, state, loss = method.step(parameters, state, batch)
            return parameters, eqx.filter(state, eqx.is_array), losses.at[k].set(loss)

        return jax.lax.fori_loop(0, count, one, (parameters, inner, jnp.zeros(every)))

    traced = advance.trace(parameters, inner, data, key, jnp.asarray(0), jnp.asarray(0))
    # The traced step holds every constant of loss, optimizer and batches: what no longer matches
    # it is another problem.
    text = re.sub(r" at 0x[0-9a-f]+", "", str(traced.jaxpr))
    saved = Checkpoint(checkpoint, (text, parameters, data, seed, every))
    fresh = {"parameters": parameters, "inner": inner, "step": np.asarray(0)}
    fresh |= {name: np.zeros(0) for name in ("losses", "validation", "seconds")}
    fresh["checks"] = np.zeros(0, int)
    if watch is not None:
        fresh["watched"] = np.zeros((0, len(watch(parameters))))
    state = saved.load(fresh)
    loss_of = jax.jit(method.loss)
    held_out = data if validation is None else validation
    outcome = Outcome("done", f"All {steps} steps were taken.")
    with Bar(title, progress) as bar:
        try:
            compiled = interruptible(traced.lower().compile)
            run = lambda *inputs: jax.block_until_ready(compiled(*inputs))
            while (step := int(state["step"])) < steps:
                count = min(every - step % every, steps - step)
                began = time.perf_counter()
                now = state["parameters"], state["inner"], data, key
                span = jnp.asarray(step), jnp.asarray(count)
                moved, inner, losses = interruptible(run, *now, *span)
                spent = time.perf_counter() - began + (state["seconds"][-1:].sum())
                losses = np.asarray(losses)[:count]
                loss = interruptible(lambda moved: float(loss_of(moved, held_out)), moved)
                if bad := _diverged(state["losses"], losses, loss, step):
                    state["losses"] = np.append(state["losses"], losses)
                    outcome = bad
                    break
                step += count
                added = {"losses": losses, "checks": step, "validation": loss, "seconds": spent}
                history = {name: np.append(state[name], new) for name, new in added.items()}
                if watch is not None:
                    history["watched"] = np.vstack([state["watched"], np.asarray(watch(moved))])
                state = history | {"parameters": moved, "inner": inner, "step": np.asarray(step)}
                saved.save(state)
                bar.update(step / steps)
                if _stalled(state["validation"], patience):
                    message = f"The validation loss stopped falling by step {step}. Raise patience "
                    outcome = Outcome("early_stop", message + "to wait longer.")
                    break
                if seconds is not None and spent >= seconds and step < steps:
                    message = f"The time of {seconds:g} s was spent at step {step}. Raise seconds "
                    outcome = Outcome("time_limit", message + "to go on.")
                    break
        except KeyboardInterrupt:
            message = f"Interrupted at step {int(state['step'])}; what was learned so far is kept. "
            message += "Run it again with the same checkpoint to go on."
            outcome = Outcome("interrupted", message)
    history = {name: value for name, value in state.items() if name not in ("inner", "step")}
    return Training(outcome=outcome, **history)


def _diverged(before: np.ndarray, losses: np.ndarray, loss: float, step: int) -> Outcome | None:
    first = before[0] if before.size else losses[0]
    bad = ~(losses <= DIVERGED * max(first, 1e-300))
    if not bad.any() and np.isfinite(loss):
        return None
    where = step + (int(np.argmax(bad)) if bad.any() else losses.size)
    message = f"The loss left every bound at step {where}; the parameters of step {step} are kept."
    return Outcome("diverged", f"{message} Lower the learning rate.")


def _stalled(validation: np.ndarray, patience: int | None) -> bool:
    if patience is None or validation.size <= patience:
        return False
    return validation[-patience:].min() > (1 - IMPROVED) * validation[:-patience].min()
