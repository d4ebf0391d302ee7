"""The same transformer with one thing changed, for as long as it runs.

Each ablation is an object; `with ablation.on(network):` changes the model by hooks, or by
exchanged weights, and puts everything back. They combine, in the order in which they are given.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from metastable.core import checks
from metastable.models.anatomy import Anatomy, layers_of, part_at
from metastable.models.network import Network


@dataclass(frozen=True)
class Ablation(ABC):
    """One change to every layer of a model."""

    of_attention: ClassVar[bool] = True  # whether it means nothing to a model without attention

    @contextlib.contextmanager
    def on(self, network: Network, part: str = "") -> Iterator[None]:
        """The change, inside a `with` block."""
        anatomy = network.anatomy(part, f"the ablation {self!r}", attention=self.of_attention)
        assert anatomy is not None
        with contextlib.ExitStack() as changes:
            for layer in layers_of(network.model, anatomy):
                for undo in self.change(layer, anatomy, network):
                    changes.callback(undo)
            yield

    @abstractmethod
    def change(
        self, layer: nn.Module, anatomy: Anatomy, network: Network
    ) -> Iterator[Callable[[], object]]:
        """Change one layer, and yield what undoes it."""


@dataclass(frozen=True)
class AttentionOnly(Ablation):
    """No feed-forward net: nothing but attention, residual and norms moves a token."""

    def change(self, layer, anatomy, network):
        yield _silence(part_at(layer, anatomy.feed_forward))


@dataclass(frozen=True)
class FeedForwardOnly(Ablation):
    """No attention: tokens move without seeing each other."""

    def change(self, layer, anatomy, network):
        yield _silence(part_at(layer, anatomy.output))
        if anatomy.crossing is not None:
            yield _silence(part_at(layer, anatomy.crossing))


@dataclass(frozen=True)
class WithoutNorms(Ablation):
    """Every norm of the layers is the identity; states may then grow without bound.

    Norms of queries and keys alone, inside attention, stay.
    """

    of_attention: ClassVar[bool] = False

    def change(self, layer, anatomy, network):
        for path in dict.fromkeys((*anatomy.norms, *(anatomy.after or ()))):
            norm = part_at(layer, path)
            yield norm.register_forward_hook(lambda module, args, out: args[0]).remove


@dataclass(frozen=True)
class ScaledBeta(Ablation):
    """Attention logits ⟨Qx_i,Kx_j⟩/√d_k multiplied by `factor`: inverse temperature β ↦ factor·β.

    Positional terms that an architecture adds to the logits (T5), and the bound it puts on them
    afterwards (Gemma 2), are left as they are.
    """

    factor: float

    def __post_init__(self) -> None:
        checks.real("factor", self.factor)

    def change(self, layer, anatomy, network):
        attention = part_at(layer, anatomy.attention)
        before = getattr(attention, anatomy.scale)
        setattr(attention, anatomy.scale, before * self.factor)
        yield lambda: setattr(attention, anatomy.scale, before)


@dataclass(frozen=True)
class OneHead(Ablation):
    """Only head number `head` (from 0) speaks; the others see, and say nothing."""

    head: int

    def __post_init__(self) -> None:
        checks.integer("head", self.head, 0)

    def change(self, layer, anatomy, network):
        if self.head >= network.heads:
            raise ValueError(f"head must be below {network.heads}; got {self.head}.")

        def keep(module: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
            heads = args[0].unflatten(-1, (network.heads, -1))  # O reads them one after the other
            only = torch.zeros_like(heads)
            only[..., self.head, :] = heads[..., self.head, :]
            return (only.flatten(-2),)

        yield part_at(layer, anatomy.output).register_forward_pre_hook(keep).remove


@dataclass(frozen=True)
class IdentityValue(Ablation):
    """O_h V_h = ±I/H for each of the H heads, without biases: the mean of what the heads look at.

    Attention then says ±(1/H) Σ_h Σ_j P^h_ij x_j, with the trained P: the field of the theorems
    (V = I attracts, V = −I repels) under trained queries and keys.
    """

    sign: int = 1

    def __post_init__(self) -> None:
        if self.sign not in (1, -1):
            raise ValueError(f"sign must be 1 or -1; got {self.sign!r}.")

    def change(self, layer, anatomy, network):
        attention = part_at(layer, anatomy.attention)
        state: dict[str, Any] = {"inside": False}

        def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            # O is often called inside the module that knows P: ask it for P first.
            if state["inside"]:
                return
            state["inside"] = True
            try:
                state["x"] = args[0] if args else kwargs["hidden_states"]
                state["P"] = _weights(network, module, args, kwargs)
            finally:
                state["inside"] = False

        def speak(module: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor:
            return out if state["inside"] else self.sign * (state["P"].mean(1) @ state["x"])

        yield attention.register_forward_pre_hook(look, with_kwargs=True).remove
        yield part_at(layer, anatomy.output).register_forward_hook(speak).remove


@dataclass(frozen=True)
class Resampled(Ablation):
    """Entries of every weight matrix of the layers in random order: their law without structure."""

    of_attention: ClassVar[bool] = False
    seed: int = 0

    def __post_init__(self) -> None:
        checks.seed(self.seed)

    def change(self, layer, anatomy, network):
        generator = torch.Generator().manual_seed(self.seed)
        for weight in layer.parameters():
            if weight.ndim < 2:
                continue
            before = weight.detach().clone()
            order = torch.randperm(weight.numel(), generator=generator)
            with torch.no_grad():
                weight.copy_(before.flatten()[order].view_as(before))
            yield lambda weight=weight, before=before: weight.data.copy_(before)


def ablation(text: str) -> Ablation:
    """An ablation from its name on the command line, such as `beta=2` or `attention-only`.

    >>> ablation("head=3"), ablation("value=-1")
    (OneHead(head=3), IdentityValue(sign=-1))
    """
    name, _, value = text.partition("=")
    makers: dict[str, Callable[[], Ablation]] = {
        "attention-only": AttentionOnly,
        "feed-forward-only": FeedForwardOnly,
        "no-norms": WithoutNorms,
        "beta": lambda: ScaledBeta(float(value)),
        "head": lambda: OneHead(int(value)),
        "value": lambda: IdentityValue(int(value)),
        "resampled": lambda: Resampled(int(value or 0)),
    }
    wanted = "attention-only, feed-forward-only, no-norms, beta=F, head=H, value=±1, resampled=SEED"
    try:
        return makers[name]()
    except (KeyError, ValueError):
        raise ValueError(f"ablation must be one of {wanted}; got {text!r}.") from None


def _silence(module: nn.Module) -> Callable[[], object]:
    """The module's word to the residual stream becomes zero."""
    silent: Any = lambda module, args, out: torch.zeros_like(out)
    return module.register_forward_hook(silent).remove


def _weights(
    network: Network, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Tensor:
    """(rows, heads, n, n): what an attention module would look at."""
    if network.own:
        maps: list[Tensor] = []
        module(*args[:3], maps=maps)
        return maps[0]
    return module(*args, **kwargs)[-1]
