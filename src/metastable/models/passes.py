"""One pass through the layers, seen by hooks, and its continuation past the trained depth."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metastable.core.progress import Bar
from metastable.models.anatomy import Anatomy, layers_of, part_at
from metastable.models.network import Network
from metastable.models.own.transformer import Trace


@dataclass(frozen=True, eq=False)
class Routing:
    """Which k experts each token of a mixture-of-experts layer was sent to."""

    experts: np.ndarray  # (n, k) numbers from 0
    weights: np.ndarray  # (n, k): how much of each expert's answer was added


@dataclass(frozen=True, eq=False)
class Inside:
    """What happened inside one layer, n tokens of width d.

    With N1, N2 the norms of a layer, A attention and F the feed-forward net:

    - norm first: `middle` = `state` + `attended`, `leaves` = `middle` + `fed`, where `attended` =
      A(`seen`), `seen` = N1(`state`), `fed` = F(`read`), `read` = N2(`middle`). In a peri-norm
      layer what each half adds has passed a norm of its own. In a parallel layer `read` =
      N2(`state`).
    - norm last: `middle` = N1(`state` + `attended`), `leaves` = N2(`middle` + `fed`), `seen` is
      `state` and `read` is `middle`.

    A decoder adds `crossed`, what it heard from the encoder, before `middle`. A layer without
    attention (Mamba) has `seen`, `attended` and `maps` None, `middle` is `state`, and `fed` is
    what its one sublayer adds.
    """

    state: np.ndarray  # (n, d), as every array but maps
    seen: np.ndarray | None
    attended: np.ndarray | None
    middle: np.ndarray
    read: np.ndarray
    fed: np.ndarray
    leaves: np.ndarray  # the layer's own result, also where a step ε < 1 goes only part of the way
    maps: np.ndarray | None = None  # (heads, n, n)
    crossed: np.ndarray | None = None
    experts: Routing | None = None


@dataclass
class Passage:
    """What the tokens went through; middles, maps and insides where asked for.

    The last state is before the model's final norm, as all others are; `final` is after it. Arrays
    are float32 for a model of half precision, and else of the model's own.
    """

    states: list[np.ndarray] = field(default_factory=list)  # (n, d), before layers and after each
    times: list[float] = field(default_factory=list)  # depths of the states
    middles: list[np.ndarray] = field(default_factory=list)  # after the attention half of a layer
    maps: list[np.ndarray] = field(default_factory=list)  # attention weights (heads, n, n)
    inside: list[Inside] = field(default_factory=list)  # of every layer applied
    applied: list[nn.Module] = field(default_factory=list)  # layers in the model's own order
    period: int | None = None  # after how many layers it repeats itself; None: never
    ending: str = "done"  # or "blow_up", "interrupted"
    final: np.ndarray | None = None  # the last state after the model's final norm

    @property
    def trained(self) -> int:
        """How many layers the model has."""
        return len(self.applied)


def pass_through(network: Network, ids: Sequence[int], **settings: Any) -> Passage:
    """Send one sequence through a network and keep every state; `settings` as for `pass_rows`."""
    return pass_rows(network, [ids], **settings)[0]


def pass_rows(
    network: Network,
    rows: Sequence[Sequence[int]],
    *,
    part: str = "",
    depth: int | None = None,
    step: float = 1.0,
    cycle: bool = False,
    middles: bool = False,
    maps: bool = False,
    inside: bool = False,
    progress: bool | None = None,
) -> list[Passage]:
    """Send sequences through a network in a single forward pass and keep every state of each.

    Layer k maps x_k to F_k(x_k). Past the trained depth a tied model goes on with its one layer,
    x_{k+1} = F(x_k); an untied one only with `cycle`, from its first layer again. A `step` ε < 1
    of a tied model makes depth continuous: x ← x + ε(F(x) − x), the Euler scheme of ẋ = F(x) − x,
    which at ε = 1 is the model itself; times are then depths kε.

    - `rows`: ids of equal length.
    - `middles`, `maps`: keep the states after attention, and the attention weights.
    - `inside`: keep all that happens inside each layer, as `Inside`.
    """
    if len({len(row) for row in rows}) > 1:
        lengths = ", ".join(str(len(row)) for row in rows)
        raise ValueError(f"ids must be rows of equal length; got {lengths}: cut them to one.")
    anatomy = network.anatomy(part)
    if anatomy is None:
        return _only_states(network, rows, depth, step, middles or maps or inside)
    if middles or maps:
        need = "an attention map" if maps else "a state after attention"
        network.anatomy(part, need, attention=True)
    recorder = _Recorder(network, anatomy, middles, maps, inside)
    with torch.no_grad(), recorder.watching():
        network.run(rows, part, **({"trace": recorder.trace} if network.own else {}))
        recorder.passing = False
        layers = [call.layer for call in recorder.calls]
        passages = [Passage(applied=layers, period=period_of(layers)) for _ in rows]
        depth = len(layers) if depth is None else depth
        _check_depth(network, passages[0], depth, step, cycle)
        if step != 1.0:  # begun anew below, with its own halves and maps
            recorder.records.clear()
        with Bar("layers", progress) as bar:
            for time, state in _go_on(recorder, passages, depth, step, bar):
                _keep(passages, time, state)
                last = state
                if all(passage.ending == "blow_up" for passage in passages):
                    break
        if anatomy.final_norm is not None:
            finals = _arrays(part_at(network.model, anatomy.final_norm)(last))
            for passage, final in zip(passages, finals, strict=True):
                passage.final = final if passage.ending == "done" else None
    for row, passage in enumerate(passages):
        for state, record in zip(passage.states[:-1], recorder.records, strict=False):
            happened = {name: array[row] for name, array in record.items()}
            if middles:
                passage.middles.append(_middle(state, happened))
            if maps:
                passage.maps.append(happened["maps"])
            if inside:
                passage.inside.append(_inside(anatomy, state, happened))
    return passages


def period_of(layers: Sequence[nn.Module]) -> int | None:
    """After how many applications a sequence of layers repeats itself; None if it never does."""
    for period in range(1, len(layers) // 2 + 1):
        repeats = all(a is b for a, b in zip(layers, layers[period:], strict=False))
        if len(layers) % period == 0 and repeats:
            return period
    return None


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


class _Recorder:
    """Hooks on every distinct layer of a model, and what they saw of a batch."""

    def __init__(self, network: Network, anatomy: Anatomy, middles: bool, maps: bool, inside: bool):
        self.network, self.anatomy, self.inside = network, anatomy, inside
        attends = anatomy.attention is not None
        self.middles, self.maps = middles or (inside and attends), maps or (inside and attends)
        self.trace = Trace() if network.own else None
        self.passing = True  # afterwards calls are repeated, not recorded
        self.calls: list[_Call] = []  # of layers in the model's own pass
        self.outputs: list[Tensor] = []  # of those calls
        self.records: list[dict[str, np.ndarray]] = []  # of every layer applied, (rows, n, …) each
        self._record: dict[str, np.ndarray] = {}  # of the layer that is running
        self._shape = (0, 0)  # rows and tokens of its state

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        with contextlib.ExitStack() as hooks:
            for layer in layers_of(self.network.model, self.anatomy):
                for handle in self._hook(layer):
                    hooks.callback(handle.remove)
            yield

    def _hook(self, layer: nn.Module) -> Iterator[Any]:
        yield layer.register_forward_pre_hook(self._enter, with_kwargs=True)
        yield layer.register_forward_hook(self._leave)
        if self.middles and not self.anatomy.parallel:
            yield part_at(layer, self.anatomy.middle).register_forward_pre_hook(
                lambda module, args: self._note("middle", args[0])
            )
        if self.maps and self.trace is None:
            yield part_at(layer, self.anatomy.attention).register_forward_hook(
                lambda module, args, out: self._record.update(maps=_arrays(out[-1]))
            )
        for name, path in self._outputs().items():
            yield part_at(layer, path).register_forward_hook(self._noting(name))
        if self.inside and self.anatomy.router is not None:
            yield part_at(layer, self.anatomy.router).register_forward_hook(self._route)

    def _outputs(self) -> dict[str, str | None]:
        """Parts whose output is kept, by what it is called inside a layer."""
        anatomy = self.anatomy
        attended, fed = anatomy.after or (anatomy.output, anatomy.feed_forward)
        if not self.inside:
            return {"attended": attended} if self.middles and anatomy.parallel else {}
        kept: dict[str, str | None] = {"fed": fed}
        if anatomy.attention is not None:
            kept["attended"] = attended
        if anatomy.crossing is not None:
            kept["crossed"] = anatomy.crossing
        if anatomy.pre_norm:
            kept["read"] = anatomy.norms[1]
            if anatomy.attention is not None:
                kept["seen"] = anatomy.norms[0]
        return kept

    def _enter(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = _Call(layer, args, kwargs)
        rows, tokens, _ = call.state().shape
        self._record, self._shape = {}, (rows, tokens)
        if self.passing:
            self.calls.append(call)

    def _leave(self, layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        if self.passing:
            self.outputs.append(_first(out))
        if self.inside:
            self._note("leaves", _first(out))
        if self.maps and self.trace is not None:
            self._record["maps"] = _arrays(self.trace.maps[-1])
        self.records.append(self._record)

    def _noting(self, name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda module, args, out: self._note(name, out)

    def _note(self, name: str, value: Tensor) -> None:
        # Some parts are given all tokens of a batch in one line. A part that runs twice, as when an
        # ablation asks attention for its weights first, is kept as it ran last.
        self._record[name] = _arrays(value.reshape(*self._shape, value.shape[-1]))

    def _route(self, module: nn.Module, args: tuple[Any, ...], out: tuple[Tensor, ...]) -> None:
        _, weights, experts = out
        self._note("weights", weights)
        self._note("experts", experts)


def _go_on(
    recorder: _Recorder, passages: list[Passage], depth: int, step: float, bar: Bar
) -> Iterator[tuple[float, Tensor]]:
    """Depths and states: those of the pass, then those of repeated calls."""
    calls = recorder.calls
    state = calls[0].state()
    yield 0.0, state
    steps = round(depth / step)
    known = recorder.outputs if step == 1.0 else []
    try:
        for k in range(steps):
            if k < len(known):
                state = known[k]
            else:
                after = calls[k % (passages[0].period or len(calls))].repeat(state)
                # At ε = 1 the difference would cost the last digits of the layer's own result.
                state = after if step == 1.0 else state + step * (after - state)
            bar.update((k + 1) / steps)
            yield (k + 1) * step, state
    except KeyboardInterrupt:
        for passage in passages:
            if passage.ending == "done":
                passage.ending = "interrupted"


def _keep(passages: list[Passage], time: float, states: Tensor) -> None:
    """Keep the state of each row, until the row leaves the range of floating point."""
    finite = torch.isfinite(states).flatten(1).all(1).tolist()
    for passage, state, whole in zip(passages, _arrays(states), finite, strict=True):
        if whole and passage.ending == "done":
            passage.states.append(state)
            passage.times.append(time)
        else:
            passage.ending = "blow_up"


def _middle(state: np.ndarray, happened: dict[str, np.ndarray]) -> np.ndarray:
    """The stream after attention; no part of a parallel layer is given it."""
    if "middle" in happened:
        return happened["middle"]
    return state + happened["attended"] if "attended" in happened else state


def _inside(anatomy: Anatomy, state: np.ndarray, happened: dict[str, np.ndarray]) -> Inside:
    middle = _middle(state, happened)
    seen = happened.get("seen")
    return Inside(
        state=state,
        seen=seen if anatomy.pre_norm else state,
        attended=happened.get("attended"),
        middle=middle,
        read=happened["read"] if anatomy.pre_norm else middle,
        fed=happened["fed"],
        leaves=happened["leaves"],
        maps=happened.get("maps"),
        crossed=happened.get("crossed"),
        experts=Routing(happened["experts"], happened["weights"]) if anatomy.router else None,
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
    network: Network, rows: Sequence[Sequence[int]], depth: int | None, step: float, inside: bool
) -> list[Passage]:
    """States of an architecture whose parts are not known, as transformers returns them."""
    if inside or step != 1.0:
        network.anatomy(need="looking inside a layer")
    output = network.run(rows, output_hidden_states=True)
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
    kept = [_arrays(state) for state in states[: None if depth is None else depth + 1]]
    times = [float(k) for k in range(len(kept))]
    applied = [network.model] * trained
    return [
        Passage([state[row] for state in kept], list(times), applied=applied)
        for row in range(len(rows))
    ]


def _first(out: Any) -> Tensor:
    return out[0] if isinstance(out, tuple) else out


def _arrays(batch: Tensor) -> np.ndarray:
    """A copy for NumPy, which has no bfloat16: half precision becomes float32."""
    half = batch.dtype in (torch.bfloat16, torch.float16)
    dtype = torch.float32 if half else batch.dtype
    return batch.detach().to("cpu", dtype, copy=True).numpy()
