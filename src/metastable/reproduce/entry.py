"""One claim, figure or table of a source, as frozen validated data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from metastable.core.spec import Model, fingerprint

Words = Annotated[str, Field(min_length=3)]
Subject = Literal[
    "existence", "clusters", "rates", "metastability", "noise", "causal", "normalisation",
    "Gaussian", "long context", "random depth", "control", "networks", "real models",
]  # fmt: skip
# What our statement of a claim rests on: the text of the paper, its authors' public code, another
# document that quotes it, its abstract alone, or a derivation of ours.
Basis = Literal["text", "code", "report", "abstract", "derived"]


class Entry(Model):
    """What is claimed and where, what we do about it, and with which numbers.

    `settings` are the arguments of the entry's function, and `fast` replaces some of them. `known`
    is the verdict we have come to expect: a source may be wrong, and `correction` says how.
    `limits` says what was not tested; `implies` and `contradicts` name other entries; `planted` is
    an error that must flip the verdict (`reproduce.planting`). The catalogue fills in `source` and
    `name` (folder and file), and `changed` fills in `changes`.
    """

    title: Words
    places: Annotated[list[Words], Field(min_length=1)]
    claim: Words
    method: Words
    known: Literal["agree", "disagree", "not applicable"] = "agree"
    correction: str = ""
    subject: Subject | None = None
    basis: Basis = "text"
    limits: str = ""
    implies: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    planted: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    fast: dict[str, Any] = Field(default_factory=dict)
    source: str = ""
    name: str = ""
    changes: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Entry:
        unknown = sorted(set(self.fast) - set(self.settings))
        if unknown:
            raise ValueError(f"must replace keys of settings in fast, not {unknown}")
        if self.known == "disagree" and not self.correction:
            raise ValueError("must say in `correction` why it is known to disagree")
        return self

    def changed(self, changes: Mapping[str, Any]) -> Entry:
        """The same entry with other values of some settings, `fast` or not.

        >>> entry = Entry(title="abc", places=["Figure 1"], claim="abc", method="abc", name="abc",
        ...               settings={"beta": 4.0, "tokens": 8}, fast={"tokens": 4})
        >>> entry.changed({"tokens": 16}).arguments(fast=True)
        {'beta': 4.0, 'tokens': 16}
        """
        for key in changes:
            if key not in self.settings:
                raise ValueError(
                    f"key must be a setting of {self.name} ({', '.join(self.settings) or 'none'}); "
                    f"got {key!r}: see its file."
                )
        values = {key: _like(self.settings[key], value, key) for key, value in changes.items()}
        return self.model_copy(update={"changes": {**self.changes, **values}})

    def arguments(self, fast: bool) -> dict[str, Any]:
        """What the entry's function is called with."""
        return {**self.settings, **(self.fast if fast else {}), **self.changes}

    def digest(self, fast: bool) -> str:
        """Fingerprint of the work: the same numbers come from the same digest and version."""
        names = {"source": self.source, "name": self.name}
        return fingerprint({**names, "settings": self.arguments(fast)})

    def label(self, fast: bool) -> str:
        """Name of the folder that keeps the work: a changed entry has one of its own."""
        return f"{self.name}-{self.digest(fast)[:8]}" if self.changes else self.name


def _like(model: Any, value: Any, key: str) -> Any:
    """A value of the kind that a setting has; a whole number may stand for a real one."""
    if isinstance(model, list) and isinstance(value, list):
        return [_like_one(model, each, key) for each in value]
    if type(model) is float and type(value) is int:
        return float(value)
    if type(model) is not type(value):
        raise ValueError(f"{key} must be of the kind of {model!r}; got {value!r}.")
    return value


def _like_one(models: list[Any], value: Any, key: str) -> Any:
    """A value of the kind of one of these, the first that fits."""
    for model in models:
        with suppress(ValueError):
            return _like(model, value, key)
    raise ValueError(f"{key} must be a list like {models!r}; got {value!r} in it.")
