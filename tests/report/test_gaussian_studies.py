"""Pages and commands of the Gaussian studies, on small cases."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from metastable.cli.gaussian import app
from metastable.comparison.random_matrices import SETTINGS, Iteration, Track
from metastable.core.outcome import Outcome
from metastable.report.drawing import draw
from metastable.report.figures.gaussian import plot_iteration


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "figures"),
    [
        (["iterate", "small-step"], {"small-step"}),
        (["spectra", "wigner", "uniform", "--size", 240], {"spectra", "distances"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_answer_in_json_and_write_a_page(words, figures, tmp_path):
    done = call(*words, "--json", "--out", tmp_path / "new")
    told = json.loads(done.stdout)
    assert done.exit_code == (0 if told["verdicts"]["disagree"] == 0 else 1)
    assert told["out"] == str(tmp_path / "new")
    page = (tmp_path / "new" / "report.html").read_text()
    assert page.count("<figcaption") == len(figures) and "Verdicts" in page
    assert {path.stem for path in (tmp_path / "new" / "figures").iterdir()} == figures
    kept = json.loads((tmp_path / "new" / "verdicts.json").read_text())
    assert kept == told["verdicts"]


def test_an_explosion_up_to_the_end_of_floating_point_is_drawn():
    spectra = tuple(np.array([1.0, 10.0**power]) for power in (0, 30, 90, 305))
    track = Track("exact", (0, 1, 2, 3), spectra, Outcome("done", "All layers."))
    figure = draw(plot_iteration(Iteration(SETTINGS["explosion"], 0, track, track, None)))
    figure.canvas.draw()
    ax = figure.axes[2]
    assert np.isfinite(ax.get_ylim()[1]) and ax.get_ylim()[1] > 1e305
    assert 4 < len(ax.get_yticks()) < 9


def test_matrices_are_fitted(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "q.npy", random.standard_normal((60, 90)))
    done = call("spectra", "--matrix", tmp_path / "q.npy", "--json", "--out", tmp_path / "fit")
    fit = json.loads(done.stdout)[str(tmp_path / "q.npy")]
    assert done.exit_code == 0 and fit["law"] == "MarchenkoPastur" and fit["outliers"] == 0
    assert fit["fitted_scale"] == pytest.approx(1.0, rel=0.05)
    assert "<svg" in (tmp_path / "fit" / "report.html").read_text()
    assert "distance" in call("spectra", "--matrix", tmp_path / "q.npy").stdout


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object), allow_pickle=True)
    done = call("spectra", "--matrix", tmp_path / "bad.npy")
    assert isinstance(done.exception, ValueError) and "allow_pickle" in str(done.exception)


def test_lists_and_refusals(tmp_path):
    assert "negative eigenvalues" in call("iterate", "--list").stdout
    assert "semicircle" not in call("spectra", "--list").stdout
    assert "one of explosion" in str(call("iterate", "nothing").exception)
    (tmp_path / "kept").write_text("")
    refused = call("iterate", "small-step", "--out", tmp_path)
    assert "new or empty folder" in str(refused.exception)
