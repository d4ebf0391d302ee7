"""The result of a flow: frames, clock, outcome and statistics."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from metastable.core.numerics import is_traced
from metastable.core.outcome import Outcome
from metastable.core.show import Shown, observables
from metastable.core.tables import Tabular
from metastable.fields import Field
from metastable.flows.mergers import Mergers
from metastable.flows.states import directions, read_states
from metastable.measures import Density, Gaussian, Measure, Points

if TYPE_CHECKING:
    import pandas
    import xarray

M = TypeVar("M", bound=Measure)

# The descriptions a run may be read back as, and where each lives: nothing else is ever imported
# by name from a file.
_MEASURES = {kind.__name__: kind for kind in (Points, Density, Gaussian)}


@dataclasses.dataclass(frozen=True, repr=False)
class Trajectory(Shown, Tabular, Generic[M]):
    """A measure moved through time.

    - `times` (T,), in the time of `clock` ("SA", "USA", …): clocks of different fields differ.
    - `frames`: T measures; `frames[-1]` is the last. They are of one type, unless a density was
      handed over to tokens on the way.
    - `outcome`: how the run ended. Frames up to that moment are always kept.
    - `statistics`: steps, evaluations, the sum used, norm drift, seconds.
    - `field`: what moved the measure, a `Field` or a captured network; None when read back from a
      file.
    - `log_times` (T,), `mergers`: of runs that merge tokens, where times may pass 1e308.
    - `stepper`: how time was stepped; None for the default, and when read back from a file.
    """

    times: np.ndarray
    frames: Sequence[M]
    clock: str
    outcome: Outcome
    statistics: Mapping[str, Any]
    field: Any = None
    log_times: np.ndarray | None = None
    mergers: Mergers | None = None
    stepper: Any = None

    @property
    def points(self) -> Any:
        """All frames in one array, shape (T, n, d); needs the same tokens in every frame."""
        frames: Sequence[Any] = self.frames
        return np.stack([np.asarray(frame.points) for frame in frames])

    def to_dataset(self) -> xarray.Dataset:
        """An xarray dataset along the dimension time; each measure type names its own variables.

        Tokens have dimensions time, token, axis; a frame with fewer tokens than the first (after
        mergers) is padded with NaN and weight 0.
        """
        import xarray

        kinds = {type(frame).__name__: type(frame) for frame in self.frames}
        data = {}
        for kind in kinds.values():
            data |= kind.to_variables([f if isinstance(f, kind) else None for f in self.frames])
        if self.log_times is not None:
            data["log_time"] = (("time",), self.log_times)
        if self.mergers is not None:
            data |= self.mergers.to_variables()
        return xarray.Dataset(
            data,
            coords={"time": ("time", self.times, {"clock": self.clock})},
            attrs={
                "clock": self.clock,
                "measures": " ".join(kinds),
                "outcome": self.outcome.name,
                "outcome_message": self.outcome.message,
                "statistics": json.dumps(dict(self.statistics)),
                "field": repr(self.field),
            },
        )

    def observables(self, **own: Callable[[Any], float]) -> xarray.Dataset:
        """Energy, clusters, similarity, order, … of every frame, along `time`.

        Tokens: their number, clusters by linkage, order ‖Σwx‖, mean cosine of pairs, effective
        rank. A density: maxima of the potential, entropy, degree. A Gaussian: length of the mean,
        extreme variances. The energy where the field has one. `own` are functions of a measure.

        >>> import metastable as ms
        >>> run = ms.flow(ms.uniform(tokens=30, dim=2), ms.SelfAttention(4.0), 9.0, frames=4)
        >>> table = run.observables(top=lambda measure: float(measure.points[:, 1].max()))
        >>> sorted(table)
        ['clusters', 'effective_rank', 'energy', 'order', 'similarity', 'tokens', 'top']
        """
        return observables(self, own)

    def to_dataframe(self) -> pandas.DataFrame:
        """`observables()` for pandas, one row a frame."""
        return self.observables().to_dataframe().reset_index()

    def save(self, path: str | Path) -> Path:
        """Write a Zarr store; refuses to write over anything that exists."""
        path = Path(path).resolve()
        if path.exists():
            raise ValueError(f"path must not exist yet; got {path}: choose another or remove it.")
        with warnings.catch_warnings():
            # All metadata a second time in the root, which readers such as xarray.open_zarr look
            # for first and miss with a warning; Zarr warns that its format 3 does not know it yet.
            warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
            self.to_dataset().to_zarr(path, mode="w-", consolidated=True)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trajectory[Any]:
        """Read a trajectory written by `save`; a damaged one is a ValueError."""
        if not Path(path).is_dir():
            raise ValueError(f"path must be a stored trajectory; nothing at {path}.")
        import xarray

        try:
            return cls.from_dataset(
                xarray.load_dataset(Path(path).resolve(), engine="zarr", consolidated=False)
            )
        except (MemoryError, PermissionError):
            raise
        except Exception as error:  # whatever Zarr, its codecs, xarray and numpy make of it
            raise ValueError(
                f"{path} is damaged or no stored trajectory ({type(error).__name__}): restore it "
                "from a copy, or make it again."
            ) from error

    @classmethod
    def from_states(
        cls,
        states: Any,
        *,
        words: Sequence[str] | None = None,
        sphere: bool = True,
        clock: str = "layers",
    ) -> Trajectory[Points]:
        """A trajectory of states that were computed elsewhere, such as a model's hidden states.

        - `states`: T states of n tokens, (T, n, d) or a list of T arrays (n, d); or a .npz or
          .safetensors file with one array, or one called "states". Times are 0, …, T − 1.
        - `words`: of the n tokens, to be shown.
        - `sphere`: directions x/‖x‖ on S^{d−1}; False keeps lengths.
        - `clock`: whose unit a time is in.

        It has no field; `compare` asks for one, and for the stepper where times are layers:
        `dataclasses.replace(run, field=..., stepper=Layers())`.

        >>> import numpy as np
        >>> run = Trajectory.from_states(np.random.default_rng(0).normal(size=(13, 8, 64)))
        >>> run.times[-1], run.frames[0]
        (np.float64(12.0), Points(8 tokens on the sphere S^63, mass 0.125 each))
        """
        given = read_states(states)
        last, tokens = len(given) - 1, given.shape[1]
        shown = [str(number) for number in range(tokens)] if words is None else list(words)
        if len(shown) != tokens or not all(isinstance(word, str) for word in shown):
            raise ValueError(
                f"words must be {tokens} texts, one for each token; got {len(shown)} of "
                f"{', '.join(sorted({type(word).__name__ for word in shown})) or 'nothing'}."
            )
        if not isinstance(clock, str) or not clock:
            raise ValueError(f"clock must be a name, such as 'layers'; got {clock!r}.")
        placed = directions(given) if sphere else given
        return Trajectory(
            times=np.arange(last + 1.0),
            frames=tuple(Points(x, on_sphere=sphere) for x in placed),
            clock=clock,
            outcome=Outcome("done", f"All {last + 1} states were given."),
            statistics={
                "words": shown,
                "tokens": tokens,
                "layers": last,
                "lengths": "divided out (directions)" if sphere else "kept",
                "stepper": "layers, given" if clock == "layers" else "given",
            },
        )

    @classmethod
    def from_dataset(cls, data: xarray.Dataset, field: Field | None = None) -> Trajectory[Any]:
        """The trajectory of which `to_dataset` made this, moved by `field`."""
        times = data["time"].values
        if times.size == 0 or np.isnan(times).any():  # what a missing chunk reads as
            raise ValueError("times are missing")
        frames: list[Any] = [None] * times.size
        for name in data.attrs["measures"].split():
            read = _MEASURES[name].from_variables(data)
            frames = [old if new is None else new for old, new in zip(frames, read, strict=True)]
        if any(frame is None for frame in frames):
            raise ValueError("frames are missing")
        return cls(
            times=times,
            frames=tuple(frames),
            clock=data.attrs["clock"],
            outcome=Outcome(data.attrs["outcome"], data.attrs["outcome_message"]),
            statistics=json.loads(data.attrs["statistics"]),
            log_times=data["log_time"].values if "log_time" in data else None,
            mergers=Mergers.from_variables(data, getattr(frames[0], "count", 0)),
            field=field,
        )

    @property
    def _end(self) -> str:
        if self.log_times is not None and np.isinf(self.times[-1]):
            return f"e^{self.log_times[-1]:.6g}"
        return f"{self.times[-1]:g}"

    def __repr__(self) -> str:
        lines = [
            f"Trajectory of {self.frames[0]!r}",
            f"  field    {self.field!r}",
            f"  time     {self.times[0]:g} to {self._end} ({self.clock} clock), "
            f"{len(self.times)} frames",
            f"  outcome  {self.outcome}",
        ]
        if self.mergers is not None:
            lines.append(f"  mergers  {self.mergers!r}")
        if not is_traced(self.frames[-1]):
            shown = ("steps", "evaluations", "sum", "stepper", "max_norm_drift", "seconds")
            pairs = [f"{k} {_short(self.statistics[k])}" for k in shown if k in self.statistics]
            lines.append(f"  cost     {', '.join(pairs)}")
        return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
