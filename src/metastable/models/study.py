"""Many prompts, with controls: one prompt is an anecdote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.core import checks
from metastable.core.progress import Bar
from metastable.core.tables import Tabular
from metastable.flows import Trajectory
from metastable.models.capture import capture
from metastable.models.depthwise import choose_states, depthwise
from metastable.models.folder import load
from metastable.models.prompts import Prompt, read_prompt

if TYPE_CHECKING:
    import pandas

ARMS = ("trained", "untrained", "shuffled")
MOST = 65  # states of each run that are looked at, evenly spread in log depth


@dataclass(frozen=True, eq=False)
class Spread:
    """Mean and standard deviation over prompts, state by state."""

    mean: np.ndarray
    deviation: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}


@dataclass(frozen=True, eq=False)
class Study(Tabular):
    """Observables of several prompts in each arm; see `study`."""

    times: np.ndarray  # (T,)
    tokens: np.ndarray  # (prompts,)
    series: dict[str, dict[str, np.ndarray]]  # arm → name → (prompts, T)

    @property
    def prompts(self) -> int:
        return len(self.tokens)

    def spread(self, arm: str, name: str) -> Spread:
        values = self.series[arm][name]
        # With one prompt there is no deviation to speak of.
        apart = values if len(values) > 1 else np.repeat(values, 2, axis=0)
        return Spread(values.mean(axis=0), apart.std(axis=0, ddof=1))

    def to_dataframe(self) -> pandas.DataFrame:
        """One row an arm and state: mean and deviation over prompts of every observable."""
        import pandas

        tables = []
        for arm, series in self.series.items():
            table: dict[str, Any] = {"arm": arm, "layer": self.times}
            for name in series:
                spread = self.spread(arm, name)
                table |= {name: spread.mean, f"{name}_deviation": spread.deviation}
            tables.append(pandas.DataFrame(table))
        return pandas.concat(tables, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        arms = {
            arm: {name: self.spread(arm, name).to_dict() for name in series}
            for arm, series in self.series.items()
        }
        return {"times": self.times.tolist(), "prompts": self.prompts} | arms


def study(
    source: Any,
    prompts: Sequence[str | Sequence[int] | Prompt],
    *,
    arms: Sequence[str] = ARMS,
    at: Sequence[int] | None = None,
    seed: int = 0,
    tokens: int | None = None,
    progress: bool | None = None,
    dtype: Any = None,
    **asked: Any,
) -> Study:
    """Observables through depth of many prompts: the model, and its controls.

    Arms: "trained"; "untrained", the same shape before training (`seed` + number of the prompt, so
    every prompt meets another network); "shuffled", the trained model on the same tokens in random
    order, which tells content from order. `at` names the states to look at (up to 65, evenly
    spread in log depth, unless told); `asked` goes to `capture`. Twenty prompts or more make the
    deviations worth printing.
    """
    if not prompts:
        raise ValueError("prompts must not be empty; give at least one, better twenty.")
    if not set(arms) <= set(ARMS):
        raise ValueError(f"arms must be among {', '.join(ARMS)}; got {', '.join(arms)}.")
    seed = checks.seed(seed)
    network = load(source, dtype=dtype)
    rows: dict[str, list[dict[str, np.ndarray]]] = {arm: [] for arm in arms}
    times, counts = np.zeros(0), []
    with Bar("prompts", progress) as bar:
        for number, prompt in enumerate(prompts):
            read = read_prompt(network, prompt, tokens)
            for arm in arms:
                model = network.untrained(seed + number) if arm == "untrained" else network
                text = read.shuffled(seed + number) if arm == "shuffled" else read
                run = thin(capture(model, text, progress=False, **asked), at)
                times = run.times
                table = depthwise(run, thorough=False, progress=False)
                more = {"cluster_share": table.clusters / run.frames[0].count}
                rows[arm].append(table.series | more | {"energy": table.energy[:, 0]})
            counts.append(run.frames[0].count)
            bar.update((number + 1) / len(prompts))
    series = {
        arm: {name: np.array([row[name] for row in own]) for name in own[0]}
        for arm, own in rows.items()
    }
    return Study(times, np.array(counts), series)


def thin(run: Trajectory, at: Sequence[int] | None = None) -> Trajectory:
    """The same run with fewer frames: those at the indices `at`, or 65 spread in log depth."""
    kept = choose_states(run.times, MOST) if at is None else np.asarray(at)
    return replace(run, times=run.times[kept], frames=tuple(run.frames[k] for k in kept))
