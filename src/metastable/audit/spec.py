"""One audit, stated: what is protected, what M is, how it is asked. TOML in and out."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

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
    """Where documents come from; `names` keeps those whose name fits, such as "17*|18*".

    `dates` and `note` are recorded, not used: when the texts were written, why the set is as it is.
    `parts` cuts each document, a whole work, into consecutive parts of so many characters, each a
    unit of its own; with `split.stride` windows slide over them.
    """

    kind: Literal["text", "jsonl", "csv", "array", "sotu", "digits", "canaries"] = "text"
    path: Place | None = None
    field: Name = "text"
    names: Name | None = None
    dates: Place | None = None
    note: Place | None = None
    parts: Characters | None = None


class SplitSpec(Model):
    """Counts are windows of `length` characters; see `metastable.audit.split.deal`.

    With `stride` every document is covered by windows so many characters apart, and `items` and
    `controls` count documents, at most.
    """

    items: Count = 80
    controls: Count = 80
    background: Count = 240
    length: Characters = 48
    lead: Annotated[int, Field(ge=0, le=10**6, strict=True)] = 0
    per_document: Count = 1
    overlap: Share = 0.5
    ngram: Characters | None = None
    stride: Count | None = None


class ModelSpec(Model):
    """M: trained here (a family and a size), a Hugging Face folder (`path`), or text alone (`url`).

    `reference` is another such folder that has not seen the protected texts, or several; a model
    that is trained here has one trained beside it. `checkpoints` are earlier states of M, oldest
    first.

    `url` is a server that completes texts, `name` what the model is called there, `key` the
    environment variable with its key, `samples` how many continuations of an item are drawn;
    `remote` lets texts leave this machine.
    """

    family: Literal["transformer", "rnn", "lstm", "gru", "folder", "text"] = "transformer"
    size: Literal["basic", "complex", "large"] = "complex"
    path: Place | None = None
    reference: Place | Annotated[tuple[Place, ...], Field(min_length=1)] | None = None
    checkpoints: Annotated[tuple[Place, ...], Field(min_length=1)] | None = None
    tokens: Literal["characters", "bytes"] = "characters"
    steps: Steps = 600
    rows: Count = 64
    rate: Rate = 3e-3
    device: Name = "cpu"
    url: Place | None = None
    name: Name | None = None
    key: Name | None = None
    remote: bool | None = None
    samples: Annotated[int, Field(ge=2, le=1000, strict=True)] | None = None

    @property
    def references(self) -> tuple[str, ...]:
        return (self.reference,) if isinstance(self.reference, str) else self.reference or ()

    @property
    def trained(self) -> bool:
        """Whether M is trained here."""
        return self.family not in ("folder", "text")

    @model_validator(mode="after")
    def _told_where(self) -> ModelSpec:
        if (self.family == "folder") != (self.path is not None):
            raise ValueError('must have a path if its family is "folder", and only then')
        talk = {"url", "name", "key", "remote", "samples"}
        odd = sorted(talk & self.model_dump(exclude_none=True).keys())
        if odd and self.family != "text":
            raise ValueError(f'knows no {", ".join(odd)} unless its family is "text"')
        if self.url is not None:
            self._refuse_url(self.url)
        return self

    def _refuse_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            parts, usable = None, False
        if parts is None or not usable or parts.username is not None:
            example = "http://127.0.0.1:8000/v1"
            raise ValueError(f'must have a url such as "{example}"; got {url[:80]!r}')
        if not self.remote and not is_loopback(parts.hostname):
            raise ValueError(
                "must have a url on this machine (127.0.0.1, ::1, localhost), or remote = true, "
                f"which sends texts elsewhere; got {url[:80]!r}"
            )


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("example.org")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


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

    PATHS = ("corpus.path", "control.path", "public.path", "model.path", "model.reference")
    PATHS += ("model.checkpoints",)

    kind: Literal["audit"] = "audit"
    name: Name = ""
    seed: Seed = 0
    level: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.01
    batch: Count = 40
    corpus: Source
    control: Source | None = None
    public: Source | None = None  # texts anyone may know: passages that stand there are set aside
    ordinary: Annotated[int, Field(ge=0, le=1000, strict=True)] | None = None  # samples, of works
    split: SplitSpec = SplitSpec()
    model: ModelSpec = ModelSpec()
    dataset_inference: bool | None = None  # one more question: scores combined, see `references`
    generators: tuple[GeneratorSpec, ...] = (
        GeneratorSpec(kind="prefix", budgets=(16,)),
        GeneratorSpec(kind="soft", budgets=(1, 2, 4, 8)),
    )

    @model_validator(mode="after")
    def _enough(self) -> AuditConfig:
        n, m = (-(-k // self.split.per_document) for k in (self.split.items, self.split.controls))
        # Holm over the questions of a family, at most, and over the two findings.
        prompts = sum(len(spec.budgets) for spec in self.generators)
        asked = 2 * max(5 + len(self.more_scores), prompts)
        least = asked / relabellings(n, m, 10**9)
        if least > self.level:
            raise ValueError(
                f"sets too small for level {self.level:g}: {n} protected and {m} control documents "
                f"with {asked} questions can show no less than {least:.2g}; raise items and "
                "controls, or the level"
            )
        return self

    @model_validator(mode="after")
    def _typed(self) -> AuditConfig:
        odd = sorted({spec.kind for spec in self.generators} - {"prefix"})
        if self.model.family == "text" and odd:
            raise ValueError(
                'generators must be of kind prefix for a model of family "text"; got '
                f"{', '.join(odd)}, which {'need' if len(odd) > 1 else 'needs'} the model itself"
            )
        return self

    @model_validator(mode="after")
    def _whole(self) -> AuditConfig:
        own, length = self.corpus.parts, self.split.length
        if self.control is not None and self.control.parts != own:
            raise ValueError(
                f"control.parts must be corpus.parts, so that units are alike; got "
                f"{self.control.parts} and {own}: set both"
            )
        if own is not None and own < length:
            raise ValueError(f"corpus.parts must be at least split.length {length}; got {own}")
        if self.split.stride is not None and self.split.per_document > 1:
            raise ValueError("split must not have both stride and per_document: drop one")
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

    @property
    def more_scores(self) -> tuple[str, ...]:
        """Scores of likelihood whose models, or whose question, the config states."""
        more = ("lira", "rmia") if len(self.model.references) > 1 else ()
        more += ("trajectory", "slope") if self.model.checkpoints else ()
        return (*more, "combined") if self.dataset_inference else more

    def altered(self, **changes: Any) -> AuditConfig:
        """The same with other values, by dotted name written with two underscores.

        >>> AuditConfig(corpus=Source(kind="sotu")).altered(split__overlap=0.1).split.overlap
        0.1
        """
        tree = self.model_dump(mode="json", exclude_none=True)
        return self.from_tree(tree, {k.replace("__", "."): v for k, v in changes.items()})
