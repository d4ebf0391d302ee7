"""Everything `metastable inspect` finds out about a model and a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from metastable.comparison import compare
from metastable.core import checks
from metastable.core.show import Shown
from metastable.core.verdict import AGREE, DISAGREE, Comparison
from metastable.flows import Trajectory
from metastable.models.ablate import Ablation, ScaledBeta
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
from metastable.models.study import Study, study
from metastable.models.weights import Head, fit_weights, head_matrices

LOOSE = 0.9  # cosine of the looser clusters, where nothing comes within 0.99
FEW = 0.05  # share of the tokens by which a model must differ from its twin to be told apart
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
    groups: Groups  # of the pictures: at the cosine asked for, or looser where nothing is within it
    strict: Groups  # at the cosine asked for
    loose: Groups  # at `LOOSE`, or at the cosine asked for if that is lower
    control_groups: Groups | None  # as `groups`
    control_loose: Groups | None
    verdicts: Comparison
    sinks: list[Sink]
    energy: EnergyParts | None
    hypotheses: list[HeadHypotheses]
    theorems: list[Theorem]
    ladder: Ladder | None

    @property
    def sentence(self) -> str:
        """Do tokens cluster, when, into what; where attention rests; what theory says."""
        said = [self.strict.sentence(), self._gathering(), self._cosines()]
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

    def _gathering(self) -> str:
        """Share of tokens that gather at the looser cosine, first to last, beside the twin."""
        own, twin = self.loose, self.control_loose
        said = f"At cosine {own.thresholds[0]:g}, tokens in clusters of two or more: "
        said += f"{first_to_last(own)} from layer {own.times[0]:g} to {own.times[-1]:g}"
        if twin is None:
            return said
        more = float(own.shares[-1] - twin.shares[-1])
        if abs(more) < max(FEW, 2 / len(own.words)):
            told = "no difference to speak of"
        else:
            which = "more" if more > 0 else "fewer"
            told = f"in the end the model gathers {which} tokens than its twin"
        return f"{said}; in its untrained twin {first_to_last(twin)}: {told} (one seed of the twin)"

    def _cosines(self) -> str:
        first, last = self.table.mean_cosine[[0, -1]]
        said = f"Mean cosine {first:.2f} at first, {last:.2f} in the end"
        if self.control_table is None:
            return said
        return f"{said} (untrained: {self.control_table.mean_cosine[-1]:.2f})"

    def __repr__(self) -> str:
        return self.sentence

    @property
    def _layers(self) -> int:
        return int(self.run.statistics["layers"])

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
            "gathered": _gathered(self.loose, self.control_loose),
            "plateaus": [[p.start, p.end, p.value] for p in table.plateaus],
            "first_token": self.first.to_dict(),
            "sinks": [sink.to_row() for sink in self.sinks],
            "energy_parts": None if self.energy is None else _lists(self.energy),
            "ladder": None if self.ladder is None else _lists(self.ladder),
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
    cosine: float = COSINE,
    ablate: Sequence[Ablation] = (),
    device: Any = None,
    dtype: Any = None,
    progress: bool | None = None,
    **asked: Any,
) -> Inspection:
    """Look at the first prompt in every way, and at all of them for means and deviations.

    `control` runs the same shape without training (weights by `seed`) beside it. Tokens joined by
    chains of cosines of at least `cosine` are a cluster; where no two tokens are, the pictures show
    chains of 0.9. `asked` goes to `capture`.
    """
    if not -1 < checks.real("cosine", cosine) < 1:
        raise ValueError(f"cosine must lie between −1 and 1; got {cosine}: 0.99 is usual.")
    prompts = prompts if is_batch(prompts) else [prompts]  # pyright: ignore[reportAssignmentType]
    if not prompts or not len(prompts[0]):
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
    run = replace(run, field=replace(run.field, others=tuple(reads[1:MOST_OTHERS])))
    nothing = None, None, None
    still, still_table, still_clock = look(network.untrained(seed)) if control else nothing
    arms = ("trained", "untrained", "shuffled") if control else ("trained", "shuffled")
    return Inspection(
        run=run,
        table=table,
        clock=clock,
        control=still,
        control_table=still_table,
        control_clock=still_clock,
        analogies=_analogies(network),
        pull=_pull(network),
        study=study(network, reads, arms=arms, seed=seed, **settings) if len(reads) > 1 else None,
        **_clusters(run, still, cosine),
        verdicts=compare(run),
        map_words=list(reads[0].first(MOST_MAPPED).words),
        **_inside(network, run, reads, part),
    )


def _clusters(run: Trajectory, control: Trajectory | None, cosine: float) -> dict[str, Any]:
    """Clusters at the cosine asked for and at a looser one, and which of them is to be drawn."""
    low = min(LOOSE, cosine)
    strict = group_tokens(run, cosine=cosine, progress=False)
    loose = strict if low == cosine else group_tokens(run, cosine=low, progress=False)
    found: dict[str, Any] = {"strict": strict, "loose": loose}
    found |= {"groups": strict if strict.gathered.any() else loose}
    found |= dict.fromkeys(("control_groups", "control_loose"))
    if control is None:
        return found
    still = group_tokens(control, cosine=low, progress=False)
    found |= {"control_loose": still, "control_groups": still}
    if found["groups"] is not loose:
        found["control_groups"] = group_tokens(control, cosine=cosine, progress=False)
    return found


def first_to_last(groups: Groups) -> str:
    """Such as "16 % → 37 %"."""
    first, last = groups.shares[[0, -1]]
    return f"{100 * first:.0f} % → {100 * last:.0f} %"


def _gathered(own: Groups, twin: Groups | None) -> dict[str, Any]:
    """Share of tokens in clusters of two or more, and how many clusters, state by state."""
    told = {"cosine": float(own.thresholds[0]), "share": own.shares.tolist()}
    told |= {"clusters": own.gathered.tolist()}
    return told | {"untrained_share": None if twin is None else twin.shares.tolist()}


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


@dataclass(frozen=True, eq=False, repr=False)
class Inspections(Shown):
    """Several models, or one at several β, on the same texts; see `inspect_many`."""

    each: dict[str, Inspection]  # by name

    @property
    def run(self) -> Trajectory:
        """Of the first."""
        return next(iter(self.each.values())).run

    @property
    def steps(self) -> list[float] | None:
        """Numbers that the names end in, as those of checkpoints do; None where not all have one.

        They are the second axis: time of training.
        """
        found = [re.findall(r"(\d+)\D*$", name) for name in self.each]
        if len(found) < 2 or not all(found):
            return None
        numbers = [float(match[0]) for match in found]
        return numbers if len(set(numbers)) == len(numbers) else None

    @property
    def verdicts(self) -> Comparison:
        """All rows, each with the name of its model."""
        rows = [
            replace(row, claim=f"{name}: {row.claim}")
            for name, one in self.each.items()
            for row in one.verdicts.rows
        ]
        return Comparison(tuple(rows), "layers")

    @property
    def sentence(self) -> str:
        """Of each, what its tokens do; and all verdicts together."""
        said = [
            f"{name}: {one.strict.sentence().rstrip('.')}; {_lower(one._gathering())}; "
            f"{_lower(one._cosines())}; sink heads: {len(one.sinks)}."
            for name, one in self.each.items()
        ]
        rows = self.verdicts
        counts = f"{rows.count(AGREE)} agree, {rows.count(DISAGREE)} disagree"
        return " ".join([*said, f"Layers against their own weights: {counts}."])

    def __repr__(self) -> str:
        return self.sentence

    def table(self) -> list[dict[str, Any]]:
        """One row a model: where its tokens end, its sinks, its energy, its verdicts."""
        rows = []
        for name, one in self.each.items():
            table, energy = one.table, one.energy
            falls = None if energy is None else int(np.sum(energy.change < 0))
            row = {"model": name, "layers": one.run.statistics["layers"]}
            row |= {"tokens": one.run.statistics["tokens"]}
            row |= {"mean cosine at the start": float(table.mean_cosine[0])}
            row |= {"at the end": float(table.mean_cosine[-1]), "clusters": int(table.clusters[-1])}
            row |= {"effective rank": float(table.effective_rank[-1])}
            row |= {"layers in which the energy falls": falls, "sink heads": len(one.sinks)}
            rows.append(row | {"verdicts that disagree": one.verdicts.count(DISAGREE)})
        return rows

    def to_dict(self, out: str | None = None) -> dict[str, Any]:
        """What `metastable inspect A B --json` prints."""
        models = {name: one.to_dict() for name, one in self.each.items()}
        return {"models": models, "table": self.table(), "out": out}


def inspect_many(
    sources: Sequence[Any] | Mapping[str, Any],
    prompts: Sequence[str | Sequence[int] | Prompt],
    *,
    betas: Sequence[float] = (),
    ablate: Sequence[Ablation] = (),
    **choices: Any,
) -> Inspections:
    """The same texts through several models, through one at several β, or both.

    `sources` may be given by name; names that end in numbers are steps of training, a second axis.
    `betas` multiply the logits of attention, see `ScaledBeta`. `choices` go to `inspect`.
    """
    each: dict[str, Inspection] = {}
    named = sources if isinstance(sources, Mapping) else dict(enumerate(sources))
    for given, source in named.items():
        for beta in betas or (None,):
            changes = ablate if beta is None else (*ablate, ScaledBeta(beta))
            found = inspect(source, prompts, ablate=changes, **choices)
            name = given if isinstance(given, str) else _short(str(found.run.statistics["model"]))
            name = name if beta is None else f"{name}, β × {beta:g}"
            each[name if name not in each else f"{name} ({len(each) + 1})"] = found
    return Inspections(each)


def _short(name: str) -> str:
    """The last part of a path: enough to tell models apart on a page."""
    return name.rstrip("/").rsplit("/", 1)[-1]


def _lower(said: str) -> str:
    return said[:1].lower() + said[1:]


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
