"""What moved a captured run, and the case its claims are judged on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metastable.flows import Trajectory
from metastable.models.ablate import Ablation
from metastable.models.anatomy import Anatomy, layers_of
from metastable.models.hypotheses import HeadHypotheses, head_hypotheses
from metastable.models.network import Network
from metastable.models.passes import Inside, Passage, pass_through
from metastable.models.prompts import Prompt
from metastable.models.stated import StatedLayer, is_causal, stated_layers

LONGEST = 384  # tokens of a text that are looked at from inside: attention maps grow as n²


@dataclass(frozen=True, eq=False)
class Captured:
    """A network that read a text: what stands where other runs have a field.

    - `kept`: which tokens are particles; the others are only seen by them.
    - `others`: further texts, on which what is fitted is fitted.
    - `stated`: the network whose weights the theory takes; None: the one that ran.
    """

    network: Network
    prompt: Prompt
    part: str = ""
    kept: np.ndarray | None = None
    others: tuple[Prompt, ...] = ()
    changes: tuple[Ablation, ...] = ()  # that it ran with
    stated: Network | None = None

    @property
    def claims(self) -> Sequence[Callable[..., Any]]:
        """What the theory says of such a run; nothing where the parts of its layers are unknown."""
        from metastable.models.claims import CLAIMS

        return CLAIMS if self.network.anatomy(self.part) is not None else ()

    @cached_property
    def case(self) -> ModelCase:
        """Made once: its passes serve every look at the run."""
        return ModelCase(self)

    def make_case(self, run: Trajectory) -> ModelCase:
        self.case.run = run
        return self.case

    def __repr__(self) -> str:
        return f"Captured({self.network.name}, {len(self.prompt)} tokens)"


class ModelCase:
    """A captured run with the inside of every layer, and what its weights state."""

    discrete = False

    def __init__(self, captured: Captured):
        self.captured = captured
        self.run: Trajectory | None = None  # that is judged
        self.network, self.part = captured.network, captured.part
        self.stated_network = captured.stated or captured.network
        self.prompt = captured.prompt.first(LONGEST)
        self.tokens = len(self.prompt)

    @cached_property
    def anatomy(self) -> Anatomy | None:
        return self.network.anatomy(self.part)

    @cached_property
    def passage(self) -> Passage:
        return self.pass_of(self.prompt)

    @property
    def inside(self) -> list[Inside]:
        """Of every layer of the model's own depth."""
        return self.passage.inside

    @cached_property
    def others(self) -> list[Passage]:
        """Passes of the other texts."""
        return [self.pass_of(prompt) for prompt in self.captured.others]

    def pass_of(self, prompt: Prompt, inside: bool = True) -> Passage:
        """One forward pass, with the changes that the run was made with."""
        ids, settings = prompt.first(LONGEST).ids, {"part": self.part, "progress": False}
        with contextlib.ExitStack() as changes:
            for change in self.captured.changes:
                changes.enter_context(change.on(self.network, self.part))
            return pass_through(self.network, ids, inside=inside, **settings)

    @cached_property
    def stated(self) -> list[StatedLayer]:
        """What the weights state of every layer applied, in their order."""
        distinct = stated_layers(self.stated_network, self.part)
        anatomy = self.stated_network.anatomy(self.part)
        assert anatomy is not None
        modules = layers_of(self.stated_network.model, anatomy)
        if len(modules) == len(self.inside):
            return distinct
        # A tied model applies its layers again and again.
        return [distinct[k % len(distinct)] for k in range(self.depth)]

    @cached_property
    def hypotheses(self) -> list[HeadHypotheses]:
        """Of every head of the stated network."""
        return head_hypotheses(self.stated_network, self.part)

    @property
    def depth(self) -> int:
        """Layers that the stated network applies."""
        config = self.stated_network.config
        if self.stated_network is self.network:
            return len(self.inside)
        anatomy = self.stated_network.anatomy(self.part)
        assert anatomy is not None
        distinct = len(layers_of(self.stated_network.model, anatomy))
        return max(distinct, int(getattr(config, "num_hidden_layers", distinct)))

    @property
    def attends(self) -> bool:
        return self.anatomy is not None and self.anatomy.attention is not None

    @property
    def causal(self) -> bool:
        return is_causal(self.stated_network, self.part)

    @cached_property
    def kept(self) -> np.ndarray:
        kept = self.captured.kept
        return np.ones(self.tokens, bool) if kept is None else kept[: self.tokens]

    @property
    def rounding(self) -> float:
        """What the precision of the run allows in a sum of a few terms, relative to its size."""
        dtype = str(next(self.network.model.parameters()).dtype)
        digits = {"torch.bfloat16": 2.0**-8, "torch.float16": 2.0**-11}
        return max(1e-5, 8 * digits.get(dtype, 0.0))
