"""One pass through the layers, seen by hooks, and its continuation past the trained depth."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metastable.core.progress import Bar
from metastable.models.anatomy import Anatomy, layers_of, part_at
from metastable.models.network import Network
from metastable.models.own.transformer import Trace


@dataclass
class Passage:
    """What the tokens went through; middles and maps where asked for."""

    states: list[np.ndarray] = field(default_factory=list)  # (n, d), before layers and after each
    times: list[float] = field(default_factory=list)  # depths of the states
    middles: list[np.ndarray] = field(default_factory=list)  # after the attention half of a layer
    maps: list[np.ndarray] = field(default_factory=list)  # attention weights (heads, n, n)
    applied: list[nn.Module] = field(default_factory=list)  # layers in the model's own order
    period: int | None = None  # after how many layers it repeats itself; None: never
    ending: str = "done"  # or "blow_up", "interrupted"
    final: np.ndarray | None = None  # the last state after the model's final norm
    calls: list[_Call] = field(default_factory=list)  # of layers in the model's own pass
    outputs: list[Tensor] = field(default_factory=list)  # of those calls

    @property
    def trained(self) -> int:
        """How many layers the model has; 0 until it has run."""
        return len(self.applied)


@dataclass(frozen=True)
class _Call:
    """One application of a layer, to be repeated with another state."""

    layer: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def state(self) -> Tensor:
        return self.args[0] if self.args else self.kwargs["hidden_states"]

    def repeat(self, state: Tensor) -> Tensor:
        if self.args:
            return _first(self.layer(state, *self.args[1:], **self.kwargs))
        return _first(self.layer(**{**self.kwargs, "hidden_states": state}))


def pass_through(
    network: Network,
    ids: Sequence[int],
    *,
    part: str = "",
    depth: int | None = None,
    step: float = 1.0,
    cycle: bool = False,
    middles: bool = False,
    maps: bool = False,
    progress: bool | None = None,
) -> Passage:
    """Send tokens through a network and keep every state.

    Layer k maps x_k to F_k(x_k). Past the trained depth a tied model goes on with its one layer,
    x_{k+1} = F(x_k); an untied one only with `cycle`, from its first layer again. A `step` ε < 1
    of a tied model makes depth continuous: x ← x + ε(F(x) − x), the Euler scheme of ẋ = F(x) − x,
    which at ε = 1 is the model itself; times are then depths kε.
    """
    anatomy = network.anatomy(part)
    if anatomy is None:
        return _only_states(network, ids, depth, step, middles or maps)
    passage = Passage()
    with torch.no_grad(), contextlib.ExitStack() as hooks:
        trace = Trace() if network.own else None
        for handle in _watch(network, anatomy, passage, middles, maps):
            hooks.callback(handle.remove)
        network.run(list(ids), part, **({"trace": trace} if trace is not None else {}))
        passage.applied = [call.layer for call in passage.calls]
        passage.period = period_of(passage.applied)
        depth = passage.trained if depth is None else depth
        _check_depth(network, passage, depth, step, cycle)
        if step != 1.0:  # begun anew below, with its own halves and maps
            for kept in (passage.middles, passage.maps, trace.maps if trace is not None else []):
                kept.clear()
        with Bar("layers", progress) as bar:
            for time, state in _go_on(passage, depth, step, bar):
                if not torch.isfinite(state).all():
                    passage.ending = "blow_up"
                    break
                passage.states.append(_array(state))
                passage.times.append(time)
        if trace is not None and maps:
            passage.maps = [_array(weights) for weights in trace.maps]
        if anatomy.final_norm is not None and passage.ending == "done":
            last = torch.as_tensor(passage.states[-1])[None]
            passage.final = _array(part_at(network.model, anatomy.final_norm)(last))
    whole = len(passage.states) - 1
    passage.middles, passage.maps = passage.middles[:whole], passage.maps[:whole]
    return passage


def period_of(layers: Sequence[nn.Module]) -> int | None:
    """After how many applications a sequence of layers repeats itself; None if it never does."""
    for period in range(1, len(layers) // 2 + 1):
        repeats = all(a is b for a, b in zip(layers, layers[period:], strict=False))
        if len(layers) % period == 0 and repeats:
            return period
    return None


def _go_on(passage: Passage, depth: int, step: float, bar: Bar) -> Iterator[tuple[float, Tensor]]:
    """Depths and states: those of the pass, then those of repeated calls."""
    calls = passage.calls
    state = calls[0].state()
    yield 0.0, state
    steps = round(depth / step)
    known = passage.outputs if step == 1.0 else []
    try:
        for k in range(steps):
            if k < len(known):
                state = known[k]
            else:
                after = calls[k % (passage.period or len(calls))].repeat(state)
                # At ε = 1 the difference would cost the last digits of the layer's own result.
                state = after if step == 1.0 else state + step * (after - state)
            bar.update((k + 1) / steps)
            yield (k + 1) * step, state
    except KeyboardInterrupt:
        passage.ending = "interrupted"


def _watch(
    network: Network, anatomy: Anatomy, passage: Passage, middles: bool, maps: bool
) -> Iterator[Any]:
    """Hooks at the doors, in the middle and on the attention of every distinct layer."""

    def enter(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not passage.trained:  # afterwards calls are repeated, not recorded
            passage.calls.append(_Call(layer, args, kwargs))

    def leave(layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        if not passage.trained:
            passage.outputs.append(_first(out))

    for layer in layers_of(network.model, anatomy):
        yield layer.register_forward_pre_hook(enter, with_kwargs=True)
        yield layer.register_forward_hook(leave)
        if middles:
            yield part_at(layer, anatomy.middle).register_forward_pre_hook(
                lambda m, args: passage.middles.append(_array(args[0]))
            )
        if maps and not network.own:
            yield part_at(layer, anatomy.attention).register_forward_hook(
                lambda m, args, out: passage.maps.append(_array(out[-1]))
            )


def _check_depth(network: Network, passage: Passage, depth: int, step: float, cycle: bool) -> None:
    trained, period = passage.trained, passage.period
    if step != 1.0 and period != 1:
        raise ValueError(
            f"step must be 1 for a model whose layers differ; got {step:g} for {network.name}, "
            f"with {trained} layers of its own weights each."
        )
    if depth > trained and period is None and not cycle:
        raise ValueError(
            f"depth must be at most {trained}, the layers of {network.name}, which are not "
            f"tied; got {depth}: ask for them to come round again with cycle=True (--cycle)."
        )


def _only_states(
    network: Network, ids: Sequence[int], depth: int | None, step: float, inside: bool
) -> Passage:
    """States of an architecture whose parts are not known, as transformers returns them."""
    if inside or step != 1.0:
        network.anatomy(need="looking inside a layer")
    output = network.run(list(ids), output_hidden_states=True)
    states = getattr(output, "hidden_states", None) or getattr(
        output, "encoder_hidden_states", None
    )
    if states is None:
        raise ValueError(
            f"architecture must be a transformer that returns its hidden states; "
            f"{network.architecture!r} does not."
        )
    trained = len(states) - 1
    if depth is not None and depth > trained:
        network.anatomy(need=f"a depth of {depth}, past the {trained} trained layers,")
    kept = [_array(state) for state in states[: None if depth is None else depth + 1]]
    return Passage(kept, [float(k) for k in range(len(kept))], applied=[network.model] * trained)


def _first(out: Any) -> Tensor:
    return out[0] if isinstance(out, tuple) else out


def _array(batch: Tensor) -> np.ndarray:
    """The one row of a batch."""
    return batch[0].detach().numpy().copy()
