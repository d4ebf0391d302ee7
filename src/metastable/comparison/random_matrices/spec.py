"""Studies of Gaussian layers and random matrices, as specs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from metastable.core.spec import Count, Model, Seed, Several, Spec, fingerprint


class Verify(Model):
    """The closed form of one random layer against samples, and of a `calm` one of small logits."""

    kind: Literal["verify"] = "verify"
    dim: Count = 300
    keys: Count = 128
    samples: Annotated[Count, Field(ge=100)] = 20_000
    repeats: Count = 8
    calm_dim: Count = 16
    calm_keys: Count = 8
    calm_samples: Annotated[Count, Field(ge=4000)] = 32_000


class Iterate(Model):
    """Layer after layer; `settings` left out: all but the largest, `tokens`: as published."""

    kind: Literal["iterate"] = "iterate"
    settings: tuple[str, ...] = ()
    tokens: bool | None = None
    spectra: Several = 26


class Spectra(Model):
    """Spectra of random matrices up to the size n beside their laws; all ensembles by default."""

    kind: Literal["spectra"] = "spectra"
    ensembles: tuple[str, ...] = ()
    size: Annotated[Count, Field(ge=40)] = 3000  # smaller ones are far from any limit


class FitMatrices(Model):
    """The laws nearest to the spectra of given matrices, such as a model's Q: .npy files."""

    kind: Literal["fit"] = "fit"
    files: Annotated[tuple[str, ...], Field(min_length=1)]


class GaussianStudy(Spec):
    """A random Gaussian or random matrix, and what is asked about it."""

    kind: Literal["gaussian"] = "gaussian"
    seed: Seed = 0
    study: Annotated[Verify | Iterate | Spectra | FitMatrices, Field(discriminator="kind")]

    @property
    def digest(self) -> str:
        """SHA-256 of the content, that of the files it names included, the name aside."""
        content = self.model_dump(mode="json", exclude={"name"})
        for file in map(Path, getattr(self.study, "files", ())):
            if file.is_file():
                content[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
        return fingerprint(content)
