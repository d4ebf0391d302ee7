"""Hidden states of a transformer as a trajectory of tokens."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.outcome import Outcome
from metastable.flows import Trajectory
from metastable.measures import Points
from metastable.models.ablate import Ablation
from metastable.models.anatomy import part_at
from metastable.models.folder import load
from metastable.models.network import Network
from metastable.models.passes import Passage, pass_through
from metastable.models.prompts import Prompt, read_prompt

CENTRES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "raw": lambda x: x,
    "centred": lambda x: x - x.mean(axis=0),
    "standardised": lambda x: (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12),
}


def capture(
    source: Any,
    prompt: str | Sequence[int] | Prompt,
    *,
    tokens: int | None = None,
    depth: int | None = None,
    heads: int | None = None,
    part: str = "",
    centre: str = "raw",
    special: bool = True,
    first: bool = True,
    gain: bool = True,
    final_norm: bool = False,
    sublayers: bool = False,
    sphere: bool = True,
    ablate: Sequence[Ablation] = (),
    step: float = 1.0,
    cycle: bool = False,
    dtype: str = "float32",
    progress: bool | None = None,
) -> Trajectory:
    """The states of a text through the layers of a transformer, as a `Trajectory`.

    Frame k is the measure Σ_i δ_{x_i(k)}/n of the n tokens after k layers (frame 0: embeddings);
    times are layers. All choices that change the picture are arguments, and are kept in
    `statistics` (`choices` prints them).

    - `source`: a folder, a .gguf file, a name of `pretrained`, a model, or what `load` returned.
    - `prompt`: a text, or ids; `tokens` keeps the first ones.
    - `depth`: layers to run; past the trained depth for tied layers, or with `cycle`.
    - `heads`: cut the same matrices into another number of heads.
    - `part`: "encoder" or "decoder" of an encoder–decoder.
    - `centre`: "raw", "centred" (mean of the tokens taken away) or "standardised" (every
      coordinate with variance 1 over the tokens).
    - `special`, `first`: whether special tokens, and the first token, are among the particles. They
      are always among what the others see.
    - `gain`: False takes a post-norm layer's learned gain and bias off its states, x ↦ (x − b)/g.
      They then have norm √d exactly. States that no norm made stay as they are.
    - `final_norm`: replace the last state of a pre-norm model by its final norm, as transformers'
      last hidden state is. It is not comparable with the others.
    - `sublayers`: add the states after attention, at half-integer times.
    - `sphere`: directions x/‖x‖ on S^{d−1}; False keeps lengths.
    - `ablate`: see `metastable.models.ablate`.
    - `step`: ε < 1 makes depth continuous (tied layers): x ← x + ε(F(x) − x).

    A state with NaN or infinity ends the trajectory before it, with the outcome "blow_up".
    """
    started = time.perf_counter()
    if centre not in CENTRES:
        raise ValueError(f"centre must be one of {', '.join(CENTRES)}; got {centre!r}.")
    if depth is not None:
        checks.integer("depth", depth, 1)
    if not 0 < checks.real("step", step) <= 1:
        raise ValueError(f"step must lie in (0, 1]; got {step}.")
    network = load(source, dtype)
    network = network if heads is None else network.with_heads(heads)
    read = read_prompt(network, prompt, tokens)
    with contextlib.ExitStack() as changes:
        for ablation in ablate:
            changes.enter_context(ablation.on(network, part))
        settings = {"part": part, "depth": depth, "step": step, "cycle": cycle}
        passage = pass_through(network, read.ids, middles=sublayers, progress=progress, **settings)
    states = passage.states if gain else _without_gain(network, part, passage)
    normed = final_norm and passage.final is not None
    if normed:
        states = [*states[:-1], passage.final]
    times = passage.times
    if sublayers:
        halves = [t + step / 2 for t in times[:-1]]
        order = np.argsort([*times, *halves], kind="stable")
        states = [[*states, *passage.middles][k] for k in order]
        times = sorted([*times, *halves])
    kept = _kept(read, special, first)
    return Trajectory(
        times=np.array(times),
        frames=tuple(
            _measure(CENTRES[centre](np.asarray(x[kept], float)), sphere, t)
            for t, x in zip(times, states, strict=True)
        ),
        clock="layers",
        outcome=_outcome(passage),
        statistics={
            "model": network.name,
            "architecture": network.architecture,
            "layers": passage.trained,
            "tied": passage.period is not None,
            "heads": network.heads,
            "part": part or None,
            "tokens": int(kept.sum()),
            "words": [word for word, keep in zip(read.words, kept, strict=True) if keep],
            "special": f"{sum(read.special)} {'kept' if special else 'left out'}",
            "first": "kept" if first else "left out",
            "centre": centre,
            "lengths": "divided out (directions)" if sphere else "kept",
            "gain": "kept" if gain else "taken off",
            "final_norm": _final(network, part, normed),
            "diagonal": "excluded: pairs of different tokens",
            "sublayers": sublayers,
            "ablations": [repr(ablation) for ablation in ablate],
            "step": step,
            "dtype": str(network.model.dtype if not network.own else dtype).removeprefix("torch."),
            "stepper": f"{len(times) - 1} layers",
            "seconds": time.perf_counter() - started,
        },
    )


def choices(run: Trajectory) -> dict[str, Any]:
    """The choices behind a captured trajectory, by name: print them beside every figure."""
    statistics = run.statistics
    names = "tokens special first centre lengths gain final_norm diagonal heads part".split()
    shown = {name: statistics[name] for name in names if statistics.get(name) is not None}
    if statistics["ablations"]:
        shown["ablations"] = ", ".join(statistics["ablations"])
    if statistics["step"] != 1.0:
        shown["step"] = statistics["step"]
    return shown | {"dtype": statistics["dtype"]}


def attention_maps(
    source: Any,
    prompt: str | Sequence[int] | Prompt,
    *,
    tokens: int | None = None,
    depth: int | None = None,
    part: str = "",
    cycle: bool = False,
    dtype: str = "float32",
) -> tuple[np.ndarray, list[str]]:
    """Attention weights (layers, heads, n, n) and the words: row i says where token i looks."""
    network = load(source, dtype)
    network.anatomy(part, need="an attention map")
    read = read_prompt(network, prompt, tokens)
    passage = pass_through(network, read.ids, part=part, depth=depth, cycle=cycle, maps=True)
    return np.stack(passage.maps), list(read.words)


def _kept(read: Prompt, special: bool, first: bool) -> np.ndarray:
    kept = np.ones(len(read), bool) if special else ~np.array(read.special)
    if not first:
        kept[0] = False
    if kept.sum() < 2:
        raise ValueError(
            f"at least two tokens must be left as particles; got {kept.sum()} of {len(read)}: "
            "write more, or keep special tokens and the first."
        )
    return kept


def _without_gain(network: Network, part: str, passage: Passage) -> list[np.ndarray]:
    anatomy = network.anatomy(part, need="gain=False")
    assert anatomy is not None
    if anatomy.pre_norm:
        raise ValueError(
            f"gain must stay for a model that normalises before its layers; {network.architecture} "
            "has none on the states between them: leave gain=True."
        )
    start, *states = passage.states
    applied = itertools.cycle(part_at(layer, anatomy.norms[1]) for layer in passage.applied)
    bare = [_bare(x, norm) for x, norm in zip(states, applied, strict=False)]
    if anatomy.embedding_norm is None:
        return [start, *bare]
    return [_bare(start, part_at(network.model, anatomy.embedding_norm)), *bare]


def _bare(x: np.ndarray, norm: Any) -> np.ndarray:
    return (x - norm.bias.detach().numpy()) / norm.weight.detach().numpy()


def _final(network: Network, part: str, normed: bool) -> str:
    anatomy = network.anatomy(part)
    if anatomy is None:
        return "unknown: the last state is what transformers returns"
    if anatomy.final_norm is None:
        return "none: every layer ends with a norm"
    if normed:
        return "applied to the last state, which is not comparable with the others"
    return "not applied: the last state is before it"


def _measure(x: np.ndarray, sphere: bool, depth: float) -> Points:
    if not sphere:
        return Points(x, on_sphere=False)
    largest = np.abs(x).max(axis=1, keepdims=True)
    if not largest.all():
        raise ValueError(
            f"sphere=True needs tokens with a direction; at depth {depth:g} one is zero: keep "
            "lengths with sphere=False, or use centre='raw'."
        )
    x = x / largest  # squares of what no norm holds back would overflow
    return Points(x / np.linalg.norm(x, axis=1, keepdims=True))


def _outcome(passage: Passage) -> Outcome:
    last = f"{passage.times[-1]:g}"
    messages = {
        "blow_up": f"States left the range of floating point after layer {last}. Run fewer layers, "
        "or with normalisation.",
        "interrupted": f"Interrupted after layer {last}; the states so far are kept.",
        "done": f"All {last} layers were run.",
    }
    return Outcome(passage.ending, messages[passage.ending])
