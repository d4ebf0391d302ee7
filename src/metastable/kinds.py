"""Every kind of work, from its spec to its page: `run` and `open` for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from metastable.core.errors import did_you_mean
from metastable.core.folder import MANIFEST, SPEC, claimed, open_folder
from metastable.core.recognise import advise
from metastable.core.result import Result, read_result, write_result
from metastable.core.spec import Spec
from metastable.core.toml import read_toml


@dataclasses.dataclass(frozen=True)
class Kind:
    """Where a kind lives, each as "module:name"; imported on first use.

    - `spec`: the class of its specs.
    - `prepare`: takes a spec, refuses what cannot be done, and gives a function of (folder for
      checkpoints or None, progress) that returns a `Result`. With `claims` that function takes the
      result's folder, which it claims and seals itself.
    - `finish`: where it is stated, `prepare` is itself a function of (spec, folder, progress), and
      `finish` makes the result of (spec, what that gave), with its figures.
    - `page`: takes a kept result, and writes its figures and page into its folder.
    """

    spec: str
    prepare: str
    page: str
    noun: str = "run"  # what a folder is said to hold
    claims: bool = False
    finish: str = ""


def _study(spec: str, function: str) -> Kind:
    """An experiment in learning or a Gaussian study."""
    page, finish = (
        "metastable.report.pages.study:write_study",
        "metastable.report.studies:result_of_study",
    )
    return Kind(spec, function, page, finish=finish)


KINDS = {
    "flow": Kind(
        "metastable.flows.spec:Experiment",
        "metastable.comparison.run:prepare_run",
        "metastable.report.pages.run:write_run",
    ),
    "ensemble": Kind(
        "metastable.comparison.many:Ensemble",
        "metastable.comparison.many:refuse_spec",
        "metastable.report.pages.ensemble:write_ensemble",
        noun="ensemble",
    ),
    "sweep": Kind(
        "metastable.sweep.spec:Sweep",
        "metastable.sweep.execute:prepare_sweep",
        "metastable.report.pages.sweep:write_sweep",
        noun="sweep",
        claims=True,
    ),
    "audit": Kind(
        "metastable.audit.spec:AuditConfig",
        "metastable.audit.audit:prepare_audit",
        "metastable.report.pages.audit:write_audit",
        noun="audit",
        claims=True,
    ),
    "reproduction": Kind(
        "metastable.reproduce.spec:Reproduction",
        "metastable.reproduce.perform:prepare_reproduction",
        "metastable.report.pages.reproduction:write_reproduction",
        noun="reproduction",
    ),
    "inspect": Kind(
        "metastable.models.spec:Inspect",
        "metastable.models.spec:inspect_spec",
        "metastable.report.pages.inspect:write_inspection",
        noun="inspection",
        finish="metastable.report.pages.inspect:result_of_inspection",
    ),
    "classification": _study(
        "metastable.learn.spec:Classification",
        "metastable.learn.neural.classification:learn_classes",
    ),
    "deep_limit": _study(
        "metastable.learn.spec:DeepLimit", "metastable.learn.neural.classification:learn_deep_limit"
    ),
    "equivariant": _study(
        "metastable.learn.spec:Equivariant", "metastable.learn.neural.equivariant:learn_equivariant"
    ),
    "steering": _study(
        "metastable.learn.spec:Steering",
        "metastable.learn.control.steering_experiment:learn_steering",
    ),
    "feedforward": _study(
        "metastable.learn.spec:FeedForwardMap",
        "metastable.learn.control.feedforward:learn_feedforward",
    ),
    "clusters": _study(
        "metastable.learn.spec:ClustersOnDemand", "metastable.learn.control.clusters:learn_clusters"
    ),
    "particle_fit": _study(
        "metastable.learn.spec:ParticleFit", "metastable.models.particles:learn_particles"
    ),
    "gaussian_beta": _study(
        "metastable.learn.spec:GaussianBeta", "metastable.learn.gaussian.experiments:learn_beta"
    ),
    "gaussian_depth": _study(
        "metastable.learn.spec:GaussianDepth", "metastable.learn.gaussian.experiments:learn_depth"
    ),
    "gaussian_matrices": _study(
        "metastable.learn.spec:GaussianMatrices",
        "metastable.learn.gaussian.experiments:learn_matrices",
    ),
    "gaussian_tokens": _study(
        "metastable.learn.spec:GaussianTokens", "metastable.learn.gaussian.tokens:learn_tokens"
    ),
    "gaussian_steering": _study(
        "metastable.learn.spec:GaussianSteering", "metastable.learn.gaussian.steering:learn_path"
    ),
    "gaussian": _study(
        "metastable.comparison.random_matrices.spec:GaussianStudy",
        "metastable.comparison.random_matrices.study:run_study",
    ),
}


def spec_class(kind: str) -> type[Spec]:
    """The class of the specs of a kind."""
    return _find(KINDS[kind].spec)


def make(
    tree: dict[str, Any],
    overrides: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    kind: str | None = None,
) -> Spec:
    """The spec of a tree of plain values, whose `kind` says of which sort; else it is `kind`."""
    stated = tree.get("kind", kind)
    if not isinstance(stated, str) or stated not in KINDS:
        remedy = did_you_mean(stated, KINDS) or "choose one."
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {stated!r}: {remedy}")
    return spec_class(stated).from_tree(tree, overrides, folder)


def load_spec(
    path: str | Path, overrides: Mapping[str, Any] | None = None, kind: str | None = "flow"
) -> Spec:
    """The spec in a TOML file; without a `kind` in it, of that kind."""
    return make(read_toml(path), overrides, Path(path).resolve().parent, kind)


def run(
    spec: Spec | str | Path,
    out: str | Path | None = None,
    *,
    progress: bool | None = None,
    page: bool = True,
) -> Result:
    """Do what a spec, or the TOML file of one, asks for.

    With `out` the result is kept in that folder: a new one, or that of the same work cut short,
    which is gone on with. `page=False` leaves out figures and report.html.
    """
    spec = spec if isinstance(spec, Spec) else load_spec(spec)
    kind = KINDS[spec.kind]
    started = datetime.now(UTC)
    work = _prepared(kind, spec)  # bad input is refused before anything is written
    if out is None:
        if not kind.claims:
            origin = {"started": started.isoformat()}
            return dataclasses.replace(work(None, progress), manifest=origin)
        with TemporaryDirectory() as place:
            return dataclasses.replace(work(Path(place), progress), folder=None)
    folder = Path(out)
    if kind.claims:
        result = work(folder, progress)
        if page:
            remake_page(result)
        return result
    with claimed(folder, spec, kind.noun) as unfinished:
        result = write_result(work(unfinished, progress), folder, started)
        if page:
            remake_page(result)
    return result


def finished(spec: Spec, found: Any) -> Result:
    """The result of what the work of a spec gave, with its figures."""
    return _find(KINDS[spec.kind].finish)(spec, found)


def keep(result: Result, folder: str | Path) -> Result:
    """Keep a result that is in memory only in a new folder, with its page."""
    kind, folder = KINDS[result.kind], Path(folder)
    if result.folder is not None:
        raise ValueError(f"this result is kept already, in {result.folder}: copy that folder.")
    if kind.claims:
        remedy = "state the folder when it is run: ms.run(spec, folder)"
        raise ValueError(f"a result of kind {result.kind} is kept while it is made: {remedy}.")
    if result.kind == "flow" and not result.verdicts.rows:  # a run that is kept is compared
        result = _find("metastable.comparison.run:compared")(result)
    now = datetime.now(UTC).isoformat()
    started = datetime.fromisoformat(result.manifest.get("started", now))
    with claimed(folder, result.spec, kind.noun):
        result = write_result(result, folder, started)
        remake_page(result)
    return result


def open(folder: str | Path) -> Result:
    """The result kept in a folder; every file is compared with its checksum first.

    `manifest["unchecked"]` says so where an older version kept no checksums.
    """
    folder = Path(folder)
    got = advise(folder, "report") or f"got {folder}: make one with `metastable run --out DIR`."
    manifest = open_folder(folder, f"DIR must hold a finished result (with {MANIFEST}); {got}")
    try:
        spec = load_spec(folder / SPEC)
    except ValueError as error:
        files = manifest.get("plugins")
        if not files or "kind must be one of" not in str(error):
            raise
        options = " ".join(f"--plugin {path}" for path in files)
        calls = ", ".join(f"ms.register.load_plugin({path!r})" for path in files)
        raise ValueError(
            f"{error} This result was made with {options}: give it again; in Python call {calls} "
            "first."
        ) from None
    return read_result(folder, spec, manifest)


def remake_page(result: Result) -> Path:
    """Write the figures and the page of a kept result into its folder; gives the page's path."""
    return _find(KINDS[result.kind].page)(result)


def _prepared(kind: Kind, spec: Spec) -> Any:
    """The function that does the work of a spec."""
    prepare = _find(kind.prepare)
    if not kind.finish:
        return prepare(spec)
    finish = _find(kind.finish)
    return lambda unfinished, progress: finish(spec, prepare(spec, unfinished, progress))


def _find(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
