"""Hidden states of a transformer as a trajectory of tokens."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.flows import Trajectory
from metastable.models.ablate import Ablation
from metastable.models.captured import Captured
from metastable.models.folder import load
from metastable.models.frames import Collector, Layers, Lens, Stream
from metastable.models.network import Network
from metastable.models.passes import Passage, pass_rows, pass_through
from metastable.models.prompts import Prompt, is_batch, read_prompt
from metastable.models.streaming import stream_through

BATCH = 4096  # tokens of prompts of one length that go through the layers together
Text = str | Sequence[int] | Prompt


@dataclass(frozen=True, eq=False)
class Streamed:
    """What a function found in the states of a text, instead of a trajectory; see `capture`."""

    times: np.ndarray  # (T,) of the states it was shown
    results: list[Any]  # T of them
    clock: str
    outcome: Outcome
    statistics: dict[str, Any]


def capture(
    source: Any,
    prompt: Any,
    *,
    layers: Layers = "all",
    stream: Stream | None = None,
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
    device: Any = None,
    dtype: Any = None,
    progress: bool | None = None,
) -> Any:
    """The states of a text through the layers of a transformer, as a `Trajectory`.

    Frame k is the measure Σ_i δ_{x_i(k)}/n of the n tokens after k layers (frame 0: embeddings);
    times are layers. All choices that change the picture are arguments, and are kept in
    `statistics` (`choices` prints them).

    - `source`: what `load` takes (a model, a folder, a .gguf file, a name), or what it returned.
    - `prompt`: a text, or ids; `tokens` keeps the first ones. A list of texts, or of rows of ids,
      gives a list of trajectories; those of one length go through the layers together.
    - `layers`: the states to keep, by number: "all"; 4 for every fourth and the last; or a list,
      negative numbers from the end.
    - `stream`: a function of (depth, states), called with the array (n, d) of each state to keep;
      its results are kept instead, in a `Streamed`. Of the states one is in memory at a time, for
      any depth; all of them, for a while, with `sublayers`, or where the parts of an architecture
      are not known.
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
    - `device`, `dtype`: where and in which precision, as for `load`.

    A state with NaN or infinity ends the trajectory before it, with the outcome "blow_up".
    """
    if depth is not None:
        checks.integer("depth", depth, 1)
    if not 0 < checks.real("step", step) <= 1:
        raise ValueError(f"step must lie in (0, 1]; got {step}.")
    network = load(source, device=device, dtype=dtype)
    network = network if heads is None else network.with_heads(heads)
    many = is_batch(prompt)
    reads = [read_prompt(network, one, tokens) for one in (prompt if many else [prompt])]
    lens = Lens(network, part, layers, stream, centre, gain, final_norm, sphere)
    kept = [_kept(read, special, first) for read in reads]
    views = [
        _View(read, Collector(lens, own, depth, step), tuple(ablate), _others(reads, read))
        for read, own in zip(reads, kept, strict=True)
    ]
    # States that are not all kept are looked at one by one, where hooks can be put.
    hooked = not sublayers and network.anatomy(part) is not None
    hooked = hooked and (stream is not None or not isinstance(layers, str))
    settings = {"part": part, "depth": depth, "step": step, "cycle": cycle}
    settings |= {"progress": False if many else progress}
    with contextlib.ExitStack() as changes:
        for ablation in ablate:
            changes.enter_context(ablation.on(network, part))
        bar = changes.enter_context(Bar("prompts", progress if many else False))
        for batch in _batches(views, alone=hooked):
            started = time.perf_counter()
            if hooked:
                see, ids = batch[0].collector.see, batch[0].read.ids
                passages = [stream_through(network, ids, see, final_norm=final_norm, **settings)]
            else:
                rows = [view.read.ids for view in batch]
                passages = pass_rows(network, rows, middles=sublayers, **settings)
            for view, passage in zip(batch, passages, strict=True):
                view.passage = passage if hooked else _finite(passage)
                view.seconds = (time.perf_counter() - started) / len(batch)
                if not hooked:
                    view.collector.see_all(passage)
                if many and passage.ending == "interrupted":
                    raise KeyboardInterrupt
            bar.update(sum(view.passage is not None for view in views) / len(views))
    told = {
        "model": network.name,
        "architecture": network.architecture,
        "heads": network.heads,
        "part": part or None,
        "special": "kept" if special else "left out",
        "first": "kept" if first else "left out",
        "centre": centre,
        "lengths": "divided out (directions)" if sphere else "kept",
        "gain": "kept" if gain else "taken off",
        "diagonal": "excluded: pairs of different tokens",
        "sublayers": sublayers,
        "ablations": [repr(ablation) for ablation in ablate],
        "step": step,
        "dtype": str(next(network.model.parameters()).dtype).removeprefix("torch."),
        "device": str(network.device),
    }
    runs = [view.run(told) for view in views]
    return runs if many else runs[0]


@dataclass(eq=False)
class _View:
    """One prompt, and what was seen of it."""

    read: Prompt
    collector: Collector
    changes: tuple[Ablation, ...]
    others: tuple[Prompt, ...] = ()
    passage: Passage | None = None
    seconds: float = 0.0

    def run(self, told: dict[str, Any]) -> Any:
        passage, seen, lens = self.passage, self.collector, self.collector.lens
        assert passage is not None
        if not passage.times:
            raise ValueError(
                f"weights of {lens.network.name} must give finite embeddings in {told['dtype']}; "
                "they hold NaN or infinity: get them again, or use dtype='float32'."
            )
        seen.finish()
        words = zip(self.read.words, seen.kept, strict=True)
        normed = lens.final_norm and passage.ending == "done"
        statistics = told | {
            "layers": passage.trained,
            "tied": passage.period is not None,
            "tokens": int(seen.kept.sum()),
            "words": [word for word, keep in words if keep],
            "special": f"{sum(self.read.special)} {told['special']}",
            "final_norm": _final(lens.network, lens.part, normed),
            "stepper": f"{len(passage.times) - 1} layers",
            "seconds": self.seconds,
        }
        outcome = _outcome(passage, told["dtype"])
        times = np.array(seen.times)
        if lens.stream is not None:
            return Streamed(times, seen.made, "layers", outcome, statistics)
        moved = Captured(lens.network, self.read, lens.part, seen.kept, self.others, self.changes)
        return Trajectory(times, tuple(seen.made), "layers", outcome, statistics, field=moved)


def _batches(views: list[_View], alone: bool) -> Iterator[list[_View]]:
    """Prompts of one length together, up to so many tokens; or each alone."""
    for length, group in itertools.groupby(sorted(views, key=_length), _length):
        same, size = list(group), 1 if alone else max(1, BATCH // length)
        for begin in range(0, len(same), size):
            yield same[begin : begin + size]


def _others(reads: list[Prompt], own: Prompt) -> tuple[Prompt, ...]:
    return tuple(read for read in reads if read is not own)


def _length(view: _View) -> int:
    return len(view.read)


def _finite(passage: Passage) -> Passage:
    """A passage cut before the first state that is not finite, as one seen by hooks is."""
    for number, state in enumerate(passage.states):
        if not np.isfinite(state).all():
            del passage.states[number:], passage.times[number:]
            passage.ending = "blow_up"
            break
    return passage


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
    prompt: Text,
    *,
    tokens: int | None = None,
    depth: int | None = None,
    part: str = "",
    cycle: bool = False,
    device: Any = None,
    dtype: Any = None,
) -> tuple[np.ndarray, list[str]]:
    """Attention weights (layers, heads, n, n) and the words: row i says where token i looks."""
    network = load(source, device=device, dtype=dtype)
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


def _final(network: Network, part: str, normed: bool) -> str:
    anatomy = network.anatomy(part)
    if anatomy is None:
        return "unknown: the last state is what transformers returns"
    if anatomy.final_norm is None:
        return "none: every layer ends with a norm"
    if normed:
        return "applied to the last state, which is not comparable with the others"
    return "not applied: the last state is before it"


def _outcome(passage: Passage, dtype: str) -> Outcome:
    last = f"{passage.times[-1]:g}"
    remedy = "Run fewer layers, or with normalisation."
    if dtype == "float16":
        remedy = "Use dtype='bfloat16' or 'float32', whose range is wider."
    messages = {
        "blow_up": f"States left the range of {dtype} after layer {last}. {remedy}",
        "interrupted": f"Interrupted after layer {last}; the states so far are kept.",
        "done": f"All {last} layers were run.",
    }
    return Outcome(passage.ending, messages[passage.ending])
