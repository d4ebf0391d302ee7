"""What to reproduce: one claim, figure or table of a source document, as frozen validated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from metastable.complaints import one_line
from metastable.spec.experiment import Experiment
from metastable.spec.values import Model, fingerprint
from metastable.toml import read_toml

__all__ = ["DOCUMENTS", "Reproduction", "catalogue", "load_reproduction"]

# The documents whose figures, theorems and listings are reproduced.
DOCUMENTS = {
    "000_33a4b2d1a63784c1": "B. Valente, Transformers e la tutela della proprietà dei dati, 2024",
    "001_04243354c7d3d7df": "E. Ponti, Input di lunghezza arbitraria e misure gaussiane, 2025",
    "002_3bdba07c16fe92dc": "Talk: deep networks and transformers as flows (transcript)",
    "003_15c5af9139653374": "G. Bruno, Clustering behavior in a mean-field transformer, 2024",
    "004_98ad8a0261261265": "B. Geshkovski, The emergence of clusters in self-attention, 2023",
}

Words = Annotated[str, Field(min_length=3)]


class Reproduction(Model):
    """One entry: what is claimed and where, what we do about it, and with which numbers.

    `made_by` names the module of `metastable.reproduce` whose function of the entry's own name
    does the work; `settings` are that function's arguments, and `fast` replaces some of them.
    `known` is the verdict we have come to expect: a document may be wrong, and `correction` says
    how. The experiment, where there is one, is an argument too.
    """

    title: Words
    seed: Literal[tuple(DOCUMENTS)]  # pyright: ignore[reportInvalidTypeForm]
    places: Annotated[list[Words], Field(min_length=1)]
    claim: Words
    method: Words
    made_by: Annotated[str, Field(pattern=r"^[a-z_]+$")]
    known: Literal["agree", "disagree", "not applicable"] = "agree"
    correction: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    fast: dict[str, Any] = Field(default_factory=dict)
    experiment: Experiment | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Reproduction:
        unknown = sorted(set(self.fast) - set(self.settings))
        if unknown:
            raise ValueError(f"must replace keys of [settings] in [fast], not {unknown}")
        if self.known == "disagree" and not self.correction:
            raise ValueError("must say in `correction` why it is known to disagree")
        return self

    def arguments(self, fast: bool) -> dict[str, Any]:
        """What the entry's function is called with."""
        chosen = {**self.settings, **(self.fast if fast else {})}
        return chosen if self.experiment is None else {**chosen, "experiment": self.experiment}

    def digest(self, fast: bool) -> str:
        """Fingerprint of the work: the same numbers come from the same digest and version."""
        tree = self.model_dump(mode="json", include={"settings", "fast", "experiment", "made_by"})
        tree["fast"] = self.fast if fast else {}
        return fingerprint(tree)


def load_reproduction(path: Path) -> Reproduction:
    """Read one entry."""
    try:
        return Reproduction.model_validate(read_toml(path))
    except ValidationError as error:
        raise ValueError(f"{path.name}: {one_line(error)}") from None


def catalogue() -> dict[str, Reproduction]:
    """All entries by name, document by document."""
    files = sorted(_folder().glob("*.toml"))
    entries = {file.stem: load_reproduction(file) for file in files}
    return dict(sorted(entries.items(), key=lambda item: (item[1].seed, item[0])))


def _folder() -> Path:
    """`experiments/reproduce`: inside an installed package, or beside the sources."""
    package = Path(__file__).parents[1]
    installed = package / "experiments" / "reproduce"
    return installed if installed.is_dir() else package.parents[1] / "experiments" / "reproduce"
