"""Everything `metastable inspect` finds out about a model and a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.flows import Trajectory
from metastable.models.ablate import Ablation
from metastable.models.capture import attention_maps, capture
from metastable.models.clock import FittedClock, fit_clock
from metastable.models.depthwise import BETAS, Depthwise, depthwise
from metastable.models.embedding import ContextPull, analogy, context_pull
from metastable.models.folder import load
from metastable.models.network import Network
from metastable.models.prompts import Prompt, read_prompt
from metastable.models.representation import FirstToken, first_token
from metastable.models.study import Study, study
from metastable.models.weights import Head, fit_weights, head_matrices

MOST_MAPPED = 256  # tokens of an attention map; layers · heads · n² numbers are kept
ANALOGIES = ((("king", "woman"), ("man",)), (("brother", "woman"), ("man",)))
BANKS = (
    "they sat down on the grassy bank of the river and fished",
    "the boat drifted to the muddy bank of the stream",
    "she deposited her money at the bank before noon",
    "the bank raised the interest on the loan",
)


@dataclass(frozen=True, eq=False)
class Inspection:
    """A model, a text, what was seen, and the same of the control without training."""

    run: Trajectory  # directions
    table: Depthwise
    clock: FittedClock
    control: Trajectory | None
    control_table: Depthwise | None
    control_clock: FittedClock | None
    first: FirstToken
    maps: np.ndarray | None  # (layers, heads, n, n), trained depth
    map_words: list[str]
    heads: list[Head]
    fits: list[tuple[int, str, Any]]
    analogies: dict[str, list[tuple[str, float]]]
    pull: ContextPull | None
    study: Study | None

    def to_dict(self, out: str | None = None) -> dict[str, Any]:
        """What `metastable inspect --json` prints."""
        statistics, table = self.run.statistics, self.table
        violations = table.energy_violations
        control = self.control_table
        return {
            "model": statistics["model"],
            "architecture": statistics["architecture"],
            "tied": statistics["tied"],
            "layers": statistics["layers"],
            "depth": float(self.run.times[-1]),
            "tokens": statistics["tokens"],
            "times": table.times.tolist(),
            **_numbers(table),
            "energy_violations": violations[f"{BETAS[0]:g}"],
            "energy_violations_by_beta": violations,
            "plateaus": [[p.start, p.end, p.value] for p in table.plateaus],
            "first_token": self.first.to_dict(),
            "clock": {key: getattr(self.clock, key) for key in ("beta", "rate", "start", "error")},
            "control": None if control is None else _numbers(control),
            "study": None if self.study is None else self.study.to_dict(),
            "choices": {key: value for key, value in statistics.items() if key != "words"},
            "words": statistics["words"],
            "outcome": self.run.outcome.name,
            "out": out,
        }


def inspect(
    source: Any,
    prompts: Sequence[str | Sequence[int] | Prompt],
    *,
    tokens: int | None = None,
    depth: int | None = None,
    control: bool = True,
    seed: int = 0,
    ablate: Sequence[Ablation] = (),
    device: Any = None,
    dtype: Any = None,
    progress: bool | None = None,
    **asked: Any,
) -> Inspection:
    """Look at the first prompt in every way, and at all of them for means and deviations.

    `control` runs the same shape without training (weights by `seed`) beside it. `asked` goes to
    `capture`.
    """
    if not prompts:
        raise ValueError("prompts must not be empty; give at least one.")
    network = load(source, device=device, dtype=dtype)
    part = asked.get("part", "")
    reads = [read_prompt(network, prompt, tokens) for prompt in prompts]
    settings = {"depth": depth, "ablate": ablate, "progress": progress, **asked}

    def look(model: Network) -> tuple[Trajectory, Depthwise, FittedClock]:
        run = capture(model, reads[0], **settings)
        table = depthwise(run, progress=progress)
        return run, table, fit_clock(table.times, table.mean_cosine, run.frames[0].count)

    run, table, clock = look(network)
    nothing = None, None, None
    still, still_table, still_clock = look(network.untrained(seed)) if control else nothing
    raw = capture(network, reads[0], part=part, sphere=False, progress=False)
    known = network.anatomy(part) is not None
    ids, words, special = reads[0].ids, reads[0].words, reads[0].special
    begin = Prompt(ids[:MOST_MAPPED], words[:MOST_MAPPED], special[:MOST_MAPPED])
    arms = ("trained", "untrained", "shuffled") if control else ("trained", "shuffled")
    return Inspection(
        run=run,
        table=table,
        clock=clock,
        control=still,
        control_table=still_table,
        control_clock=still_clock,
        first=first_token(raw),
        maps=attention_maps(network, begin, part=part)[0] if known else None,
        map_words=list(begin.words),
        heads=head_matrices(network, part) if known else [],
        fits=fit_weights(network, part) if known else [],
        analogies=_analogies(network),
        pull=_pull(network),
        study=study(network, reads, arms=arms, seed=seed, **settings) if len(reads) > 1 else None,
    )


def _numbers(table: Depthwise) -> dict[str, Any]:
    return {name: values.tolist() for name, values in table.series.items()}


def _analogies(network: Network) -> dict[str, list[tuple[str, float]]]:
    """Those whose words the vocabulary has."""
    answers = {}
    for plus, minus in ANALOGIES:
        question = f"{plus[0]} − {minus[0]} + {plus[1]}"
        try:
            answers[question] = analogy(network, plus, minus)
        except ValueError:
            continue
    return answers


def _pull(network: Network) -> ContextPull | None:
    try:
        return context_pull(network, "bank", BANKS)
    except ValueError:
        return None
