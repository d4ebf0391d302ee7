"""Kinds of a user: by decorator and --plugin, in runs, sweeps and verdicts; never by a spec."""

import json
from pathlib import Path

import numpy as np
import pytest

import metastable as ms
from metastable.comparison import CLAIMS
from metastable.core.registry import PLUGINS, Registry, load_plugin
from metastable.core.result import ROOT
from metastable.core.spec import Count
from metastable.fields.spec import FIELDS
from metastable.flows.spec import Experiment
from metastable.measures.spec import STARTS
from metastable.sweep.observables import OBSERVABLES
from metastable.sweep.spec import Sweep

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def plugin():
    claims, observables = list(CLAIMS), dict(OBSERVABLES)
    load_plugin(EXAMPLES / "plugin.py")
    yield
    PLUGINS.clear()
    CLAIMS[:] = claims
    OBSERVABLES.clear()
    OBSERVABLES.update(observables)


def test_a_spec_names_what_a_plugin_brought(plugin, tmp_path):
    result = ms.run(EXAMPLES / "plugin.toml", tmp_path / "spring", page=False)
    rows = {row.claim: row.verdict for row in result.verdicts.rows}
    # tan(φ/2) falls as e^{−kt}: the claim of the plugin, beside those every run has
    assert rows.pop("angles to the center, largest error") == "agree"
    assert rows and set(rows.values()) <= {"agree", "not applicable"}
    manifest = json.loads((tmp_path / "spring" / "manifest.json").read_text())
    assert [Path(path).name for path in manifest["plugins"]] == ["plugin.py"]
    again = ms.trajectory_of(ms.open(tmp_path / "spring"))
    assert type(again.field).__name__ == "Spring"


def test_a_run_shows_the_observables_of_a_plugin(plugin, tmp_path):
    """Its first coordinate at angle φ from c = e_1 is cos φ; tan(φ/2) falls as e^{−t}."""
    from metastable.register import observable
    from metastable.report.figures import figures_of

    @observable(of="run")
    def last_time(run):
        """Time of the last frame."""
        return run.times[-1]

    @observable()
    def broken(measure):
        raise ZeroDivisionError("no such number")

    try:
        result = ms.run(EXAMPLES / "plugin.toml", tmp_path / "spring")
        (line,) = figures_of(result)["highest"].series
        run = ms.trajectory_of(result)
        angle = np.arccos(np.asarray(run.frames[0].points)[:, 0])
        half = np.tan(angle / 2) * np.exp(-float(run.field.strength) * run.times[:, None])
        assert np.allclose(line.y, np.cos(2 * np.arctan(half)).max(axis=1), atol=1e-7)
        page = (tmp_path / "spring" / "report.html").read_text()
        assert "Largest first coordinate (highest)" in page and "Time of the last frame" in page
        assert "not computed: ZeroDivisionError: no such number" in page
    finally:
        del OBSERVABLES["last_time"], OBSERVABLES["broken"]


def test_its_parameters_are_checked_as_those_of_any_spec(plugin):
    with pytest.raises(ValueError, match=r"field.strength must be greater than 0; got -1"):
        Experiment.load(EXAMPLES / "plugin.toml", {"field.strength": -1})
    with pytest.raises(ValueError, match=r"unknown key field.stiffness"):
        Experiment.load(EXAMPLES / "plugin.toml", {"field.stiffness": 1})
    experiment = Experiment.load(EXAMPLES / "plugin.toml")
    assert Experiment.from_tree(json.loads(experiment.model_dump_json())) == experiment


def test_sweeps_know_observables_of_a_plugin_of_the_library_and_functions(plugin, tmp_path):
    def lowest(measure):
        """Smallest first coordinate."""
        return float(np.asarray(measure.points)[:, 0].min())

    base = {
        "measure": {"kind": "ring", "tokens": 5, "turn": 0.1},
        "field": {"kind": "spring", "strength": 1.0, "center": [1.0, 0.0]},
        "flow": {"horizon": 1.0, "frames": 2},
    }
    names = ("highest", lowest, "effective_rank")
    sweep = Sweep(axes={"field.strength": [0.5, 2.0]}, observables=names, base=base)
    assert sweep.observables == ("highest", "lowest", "effective_rank")
    cells = ms.run(sweep, tmp_path / "sweep", page=False).data[ROOT]
    angles = 0.1 + 2 * np.pi * np.arange(5) / 5
    for row, k in enumerate((0.5, 2.0)):  # the closed form of the plugin's field
        moved = 2 * np.arctan(np.tan((angles + np.pi) % (2 * np.pi) / 2 - np.pi / 2) * np.exp(-k))
        assert float(cells["highest"].values[row].ravel()[-1]) == pytest.approx(
            np.cos(moved).max(), abs=1e-8
        )
        assert float(cells["lowest"].values[row].ravel()[-1]) == pytest.approx(
            np.cos(moved).min(), abs=1e-8
        )


def test_without_its_plugin_a_kind_is_unknown():
    with pytest.raises(ValueError, match=r"field.kind must be one of .*; got 'sprung'"):
        Experiment.from_tree({"field": {"kind": "sprung"}})
    assert "self_attention" in FIELDS.kinds and "gaussian" in STARTS.kinds


def test_what_cannot_be_registered_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'uniform' is already a kind of start"):
        ms.register.start("uniform")
    with pytest.raises(ValueError, match="no spec can hold"):

        @ms.register.start("odd")
        def odd(tokens: Count, profile): ...

    with pytest.raises(ValueError, match="'clusters' is already an observable"):

        @ms.register.observable()
        def clusters(measure): ...

    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(ValueError, match=r"broken\.py failed \(ZeroDivisionError"):
        load_plugin(broken)
    with pytest.raises(ValueError, match="must be a Python file"):
        load_plugin(tmp_path / "none.py")


def test_the_index_is_imported_when_a_kind_is_first_named():
    registry = Registry("start", (), {"poly": "metastable.measures.starts:polygon"})
    assert registry.kinds == ["poly"] and registry.homes == {
        "polygon": "metastable.measures.starts"
    }
    assert ms.measures.gaussian_start([0.0]).dim == 1


def test_a_gaussian_start_runs_from_a_spec(tmp_path):
    # V = −I, A = βI: Σ(t) = (Σ_0⁻¹ + 2βt)⁻¹ (Castin et al., arXiv:2501.18322, closed form)
    tree = {
        "measure": {"kind": "gaussian", "mean": [1.0, 0.0], "cov": [[0.5, 0.1], [0.1, 0.4]]},
        "field": {"beta": 0.5, "value": -1.0},
        "flow": {"horizon": 3.0, "frames": 4},
    }
    result = ms.run(Experiment.from_tree(tree), tmp_path / "g")
    start = np.linalg.inv([[0.5, 0.1], [0.1, 0.4]])
    expected = np.linalg.eigvalsh(np.linalg.inv(start + 3.0 * np.eye(2)))
    assert np.allclose(result.facts["variances_last"], expected, rtol=1e-9, atol=0)
    assert result.verdicts.agrees and (tmp_path / "g" / "report.html").is_file()
    for bad, message in (
        ({"flow": {"stepper": {"kind": "merging"}}}, '"adaptive", "fixed" or "layers"'),
        ({"field": {"kind": "noise", "kappa": 1.0}}, "a Gaussian stays Gaussian only under"),
        ({"measure": {"kind": "gaussian", "mean": []}}, "mean"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.run(Experiment.from_tree(tree | bad))


def test_a_function_is_found_though_its_module_is_called_like_it(monkeypatch):
    package = ms.measures
    monkeypatch.setitem(STARTS._index, "density", "metastable.measures.density:Density")
    monkeypatch.setattr(package, "Density", package.density, raising=False)
    assert STARTS._maker("density") is ms.Density and package.Density is ms.Density


def test_a_result_says_which_plugin_it_was_made_with(plugin, tmp_path, monkeypatch):
    ms.run(EXAMPLES / "plugin.toml", tmp_path / "spring", page=False)
    for registry, kind in ((STARTS, "ring"), (FIELDS, "spring")):
        monkeypatch.delitem(registry._makers, kind)
        monkeypatch.delitem(registry._models, kind)
    remedy = r"made with --plugin .*plugin\.py: give it again; .*load_plugin\("
    with pytest.raises(ValueError, match=remedy):
        ms.open(tmp_path / "spring")
