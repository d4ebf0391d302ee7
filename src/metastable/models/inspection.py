"""Everything `metastable inspect` finds out about a model and a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from metastable.comparison import compare
from metastable.core import checks
from metastable.core.show import Shown, keep_found
from metastable.core.verdict import AGREE, DISAGREE, Comparison
from metastable.flows import Trajectory
from metastable.models.ablate import Ablation
from metastable.models.capture import capture
from metastable.models.captured import ModelCase
from metastable.models.clock import FittedClock, fit_clock
from metastable.models.depthwise import BETAS, COSINE, Depthwise, depthwise
from metastable.models.embedding import ContextPull, analogy, context_pull
from metastable.models.energy import EnergyParts, energy_parts
from metastable.models.folder import load
from metastable.models.groups import Groups, group_tokens
from metastable.models.hypotheses import HeadHypotheses, Theorem, theorems_beside
from metastable.models.ladder import Ladder, ladder
from metastable.models.network import Network
from metastable.models.prompts import Prompt, is_batch, read_prompt
from metastable.models.representation import FirstToken, first_token
from metastable.models.sinks import Sink, find_sinks, sink_sentence
from metastable.models.spec import Inspect
from metastable.models.study import Study, study
from metastable.models.twins import Twins, twins_of
from metastable.models.weights import Head, fit_weights, head_matrices

LOOSE = 0.9  # cosine of the looser clusters, where nothing comes within 0.99
MOST_FITS = 40  # matrices beside random ones
MOST_OTHERS = 24  # further texts on which clocks and thresholds are fitted
MOST_MAPPED = 256  # tokens of an attention map; layers · heads · n² numbers are kept
ANALOGIES = ((("king", "woman"), ("man",)), (("brother", "woman"), ("man",)))
BANKS = (
    "they sat down on the grassy bank of the river and fished",
    "the boat drifted to the muddy bank of the stream",
    "she deposited her money at the bank before noon",
    "the bank raised the interest on the loan",
)


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(Shown):
    """A model, a text, what was seen, and the same of the control without training.

    The control is the first of the `twins`, which are of several seeds. `show()` is a short page,
    `save(folder)` the full one with its tables; `report.figures_of` gives the figures, `to_dict()`
    all numbers, `table` those of every layer. Heads: `[head.to_row() for head in hypotheses]`.
    """

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
    groups: Groups  # of the pictures: at the cosine asked for, or looser where nothing is within it
    strict: Groups  # at the cosine asked for
    loose: Groups  # at `LOOSE`, or at the cosine asked for if that is lower
    control_groups: Groups | None  # as `groups`
    control_loose: Groups | None
    twins: Twins | None
    verdicts: Comparison
    sinks: list[Sink]
    energy: EnergyParts | None
    hypotheses: list[HeadHypotheses]
    theorems: list[Theorem]
    ladder: Ladder | None

    @property
    def sentence(self) -> str:
        """Do tokens cluster, when, into what; where attention rests; what theory says."""
        said = [self.strict.sentence(), self.gathering(), self.cosine_change()]
        if self.hypotheses:
            said.append(sink_sentence(self.sinks, self.run.statistics["heads"] * self._layers))
        if self.verdicts.rows:
            agree, disagree = self.verdicts.count(AGREE), self.verdicts.count(DISAGREE)
            said.append(f"Layers against their own weights: {agree} agree, {disagree} disagree")
        return " ".join(part.rstrip(".") + "." for part in said)

    @property
    def looser(self) -> bool:
        """Whether nothing is within the cosine asked for, so that pictures show looser clusters."""
        return self.groups is not self.strict

    def gathering(self) -> str:
        """Share of tokens that gather at the looser cosine, first to last, beside the twin."""
        own = self.loose
        said = f"At cosine {own.thresholds[0]:g}, tokens in clusters of two or more: "
        said += f"{first_to_last(own)} from layer {own.times[0]:g} to {own.times[-1]:g}"
        return said if self.twins is None else f"{said}; {self.twins.beside(own)}"

    def cosine_change(self) -> str:
        first, last = self.table.mean_cosine[[0, -1]]
        said = f"Mean cosine {first:.2f} at first, {last:.2f} in the end"
        if self.twins is None:
            return said
        return f"{said}; {self.twins.of_tables('mean_cosine').end(2)} untrained"

    def __repr__(self) -> str:
        return self.sentence

    @property
    def _layers(self) -> int:
        return int(self.run.statistics["layers"])

    def save(self, folder: str | Path) -> Any:
        """Keep this in a new folder with its full page, as `metastable inspect --out` does.

        A model in memory cannot be found again: the spec there names it, and has the words.
        """
        statistics, twins = self.run.statistics, 0 if self.twins is None else len(self.twins)
        spec = Inspect(
            model=statistics["model"],
            text=" ".join(statistics["words"]),
            cosine=float(self.strict.thresholds[0]),
            control=twins > 0,
            twins=max(twins, 1),
        )
        return keep_found(spec, self, folder)

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
            "cosine": float(self.strict.thresholds[0]),
            "gathered": _gathered(self.loose, self.twins),
            "plateaus": [[p.start, p.end, p.value] for p in table.plateaus],
            "first_token": self.first.to_dict(),
            "sinks": [sink.to_row() for sink in self.sinks],
            "energy_parts": None if self.energy is None else _lists(self.energy),
            "ladder": None if self.ladder is None else _lists(self.ladder),
            "clock": {key: getattr(self.clock, key) for key in ("beta", "rate", "start", "error")},
            "control": None if control is None else _numbers(control),
            "twins": None if self.twins is None else _spreads(self.twins),
            "study": None if self.study is None else self.study.to_dict(),
            "choices": {key: value for key, value in statistics.items() if key != "words"},
            "words": statistics["words"],
            "outcome": self.run.outcome.name,
            "out": out,
        }


def inspect(
    source: Any,
    prompts: Sequence[str | bytes | Sequence[int] | Prompt],
    *,
    tokens: int | None = None,
    depth: int | None = None,
    control: bool = True,
    seed: int = 0,
    twins: int = 3,
    cosine: float = COSINE,
    ablate: Sequence[Ablation] = (),
    device: Any = None,
    dtype: Any = None,
    progress: bool | None = None,
    **asked: Any,
) -> Inspection:
    """Look at the first prompt in every way, and at all of them for means and deviations.

    `control` runs the same shape without training beside it, `twins` times (weights by `seed`, the
    next, …): the first is looked at as closely as the model, the others tell the spread. Tokens
    joined by chains of cosines of at least `cosine` are a cluster; where no two tokens are, the
    pictures show chains of 0.9. `asked` goes to `capture`.
    """
    if not -1 < checks.real("cosine", cosine) < 1:
        raise ValueError(f"cosine must lie between −1 and 1; got {cosine}: 0.99 is usual.")
    checks.integer("twins", twins, 1)
    prompts = prompts if is_batch(prompts) else [prompts]  # pyright: ignore[reportAssignmentType]
    if not prompts or not len(prompts[0]):
        raise ValueError("prompts must not be empty; give at least one.")
    network = load(source, device=device, dtype=dtype)
    part = asked.get("part", "")
    reads = [read_prompt(network, prompt, tokens) for prompt in prompts]
    settings = {"depth": depth, "ablate": ablate, "progress": progress, **asked}

    def look(model: Network, thorough: bool = True) -> tuple[Trajectory, Depthwise]:
        run = capture(model, reads[0], **settings)
        return run, depthwise(run, thorough=thorough, progress=progress)

    fitted = lambda run, table: fit_clock(table.times, table.mean_cosine, run.frames[0].count)
    run, table = look(network)
    run = replace(run, field=replace(run.field, others=tuple(reads[1:MOST_OTHERS])))
    seeds = range(seed, seed + twins) if control else ()
    others = [look(network.untrained(each), each == seed) for each in seeds]
    still, still_table = others[0] if others else (None, None)
    arms = ("trained", "untrained", "shuffled") if control else ("trained", "shuffled")
    return Inspection(
        run=run,
        table=table,
        clock=fitted(run, table),
        control=still,
        control_table=still_table,
        control_clock=fitted(still, still_table) if others else None,
        analogies=_analogies(network),
        pull=_pull(network),
        study=study(network, reads, arms=arms, seed=seed, **settings) if len(reads) > 1 else None,
        **_clusters(run, table, others, cosine),
        verdicts=compare(run),
        map_words=list(reads[0].first(MOST_MAPPED).words),
        **_inside(network, run, reads, part),
    )


def _clusters(
    run: Trajectory,
    table: Depthwise,
    others: Sequence[tuple[Trajectory, Depthwise]],
    cosine: float,
) -> dict[str, Any]:
    """Clusters at the cosine asked for and at a looser one, and which of them is to be drawn.

    `others` are the twins, if any.
    """
    low = min(LOOSE, cosine)
    strict = group_tokens(run, cosine=cosine, progress=False)
    loose = strict if low == cosine else group_tokens(run, cosine=low, progress=False)
    found: dict[str, Any] = {"strict": strict, "loose": loose}
    found |= {"groups": strict if strict.gathered.any() else loose}
    found |= dict.fromkeys(("control_groups", "control_loose", "twins"))
    if not others:
        return found
    runs, tables = zip(*others, strict=True)
    still = [group_tokens(each, cosine=low, progress=False) for each in runs]
    drawn = still
    if found["groups"] is not loose:
        drawn = [group_tokens(each, cosine=cosine, progress=False) for each in runs]
    found |= {"control_loose": still[0], "control_groups": drawn[0]}
    return found | {"twins": twins_of(run, table.chosen, runs, tables, drawn, still)}


def first_to_last(groups: Groups) -> str:
    """Such as "16 % → 37 %"."""
    first, last = groups.shares[[0, -1]]
    return f"{100 * first:.0f} % → {100 * last:.0f} %"


def _gathered(own: Groups, twins: Twins | None) -> dict[str, Any]:
    """Share of tokens in clusters of two or more, and how many clusters, state by state."""
    told = {"cosine": float(own.thresholds[0]), "share": own.shares.tolist()}
    told |= {"clusters": own.gathered.tolist()}
    return told | {"untrained_share": None if twins is None else twins.shares.mean.tolist()}


def _spreads(twins: Twins) -> dict[str, Any]:
    """Means and ranges over the twins, state by state."""
    told: dict[str, Any] = {"count": len(twins), "share": twins.shares.to_dict()}
    for name, key in (("mean_cosine", "mean_cosine"), ("clusters", "clusters_099")):
        told[key] = twins.of_tables(name).to_dict()
    return told


def _inside(network: Network, run: Trajectory, reads: list[Prompt], part: str) -> dict[str, Any]:
    """What is seen inside the layers, as far as their parts are known."""
    found: dict[str, Any] = dict.fromkeys(("maps", "energy", "ladder"))
    found |= {name: [] for name in ("heads", "fits", "sinks", "hypotheses", "theorems")}
    if network.anatomy(part) is None:
        raw = capture(network, reads[0], part=part, sphere=False, progress=False)
        return found | {"first": first_token(raw)}
    case: ModelCase = run.field.case
    states = [np.asarray(state, float) for state in case.passage.states]
    found |= {"first": first_token(Trajectory.from_states(states, sphere=False))}
    found |= {"energy": energy_parts(case.inside, case.kept)}
    if not case.attends:
        return found
    kept = slice(MOST_MAPPED)
    climbed = None
    if len(reads) >= 4 and not run.field.changes:
        climbed = ladder(network, reads[:MOST_OTHERS], part=part, progress=False)
    return found | {
        "maps": np.stack([np.asarray(layer.maps)[:, kept, kept] for layer in case.inside]),
        "heads": head_matrices(network, part),
        "fits": fit_weights(network, part, MOST_FITS),
        "sinks": find_sinks(case.inside, case.stated),
        "hypotheses": case.hypotheses,
        "theorems": theorems_beside(case.hypotheses, case.causal),
        "ladder": climbed,
    }


def _lists(table: Any) -> dict[str, Any]:
    values = {own.name: getattr(table, own.name) for own in fields(table)}
    return {name: np.asarray(value).tolist() for name, value in values.items()}


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
