"""One pass through the layers whose states are handed on and not kept: long texts, deep models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metastable.core.progress import Bar
from metastable.models.anatomy import layers_of, part_at
from metastable.models.network import Network
from metastable.models.passes import Passage, pass_through


class _Enough(Exception):
    """Ends a pass from inside a hook."""


def stream_through(
    network: Network,
    ids: Sequence[int],
    see: Callable[[Passage, np.ndarray], object],
    *,
    part: str = "",
    depth: int | None = None,
    step: float = 1.0,
    cycle: bool = False,
    final_norm: bool = False,
    progress: bool | None = None,
) -> Passage:
    """The pass of `pass_through`, each state (n, d) given to `see(passage, state)` in turn.

    The passage knows the times so far, and keeps no states: the memory taken is that of one layer,
    for any depth. `final_norm` applies the model's own to the last state. Layers past `depth` are
    not run. Needs an architecture whose parts are known; what its layers are is asked of the first
    two tokens, in a pass of their own.
    """
    anatomy = network.anatomy(part, need="a stream of states")
    assert anatomy is not None
    begin = list(ids[:2])
    known = pass_through(network, begin, part=part, progress=False)
    trained, period = known.trained, known.period
    depth = trained if depth is None else depth
    if depth > trained or step != 1.0:  # for its refusals
        told = {"depth": min(depth, trained + 1), "step": step, "cycle": cycle}
        pass_through(network, begin, part=part, progress=False, **told)
    passage = Passage(applied=known.applied, period=period)
    steps = round(depth / step)
    calls: list[Callable[[Tensor], Tensor]] = []  # layers with all they are told but the state
    norm = part_at(network.model, anatomy.final_norm) if anatomy.final_norm else None
    now: list[Tensor] = []  # the state it stands at

    def arrive(state: Tensor) -> None:
        now[:] = [state]
        number = len(passage.times)
        shown = norm(state) if final_norm and norm is not None and number == steps else state
        if not torch.isfinite(shown).all():
            passage.ending = "blow_up"
            raise _Enough
        passage.times.append(number * step)
        see(passage, shown[0].detach().to("cpu", torch.float64).numpy())
        bar.update(number / steps)
        if number == steps:
            raise _Enough

    def enter(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not now:
            arrive(args[0] if args else kwargs["hidden_states"])
        calls.append(_without_state(layer, args, kwargs))
        if step != 1.0:  # all others are this one
            raise _Enough

    def leave(layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        arrive(out[0] if isinstance(out, tuple) else out)

    with torch.no_grad(), Bar("layers", progress) as bar:
        try:
            with contextlib.ExitStack() as hooks, contextlib.suppress(_Enough):
                for layer in layers_of(network.model, anatomy):
                    hooks.callback(layer.register_forward_pre_hook(enter, with_kwargs=True).remove)
                    hooks.callback(layer.register_forward_hook(leave).remove)
                network.run([list(ids)], part)
            with contextlib.suppress(_Enough):
                while passage.ending == "done" and len(passage.times) <= steps:
                    state, number = now[0], len(passage.times) - 1
                    after = calls[number % (period or len(calls))](state)
                    # At ε = 1 the difference would cost the last digits of the layer's own result.
                    arrive(after if step == 1.0 else state + step * (after - state))
        except KeyboardInterrupt:
            passage.ending = "interrupted"
    return passage


def _without_state(
    layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Tensor], Tensor]:
    """A layer as a function of the state alone; the state it was called with is let go."""
    positional, rest = bool(args), args[1:]
    told = {name: value for name, value in kwargs.items() if name != "hidden_states"}

    def again(state: Tensor) -> Tensor:
        out = layer(state, *rest, **told) if positional else layer(hidden_states=state, **told)
        return out[0] if isinstance(out, tuple) else out

    return again
