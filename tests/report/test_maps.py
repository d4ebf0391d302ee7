"""Figures of sweeps: every ready figure is drawn, with the curve that theory gives."""

from pathlib import Path

import numpy as np
import pytest

from metastable.report.drawing import draw
from metastable.report.figures.sweep import figures_of_sweep
from metastable.report.pages.sweep import report_sweep
from metastable.sweep import execute
from metastable.sweep.spec import Sweep
from metastable.sweep.status import open_sweep
from tests.sweep.driver import numbers
from tests.sweep.stores import small

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def invented(monkeypatch):
    """Cells with invented numbers: only the drawing is on trial."""
    from metastable.core.outcome import Outcome
    from metastable.sweep.cells import Computed

    def some(recipe, cells):
        return [Computed(c.index, Outcome.done(), numbers(recipe, c)) for c in cells]

    monkeypatch.setattr(execute, "compute", some)


@pytest.mark.parametrize(
    ("name", "theory"),
    [
        ("phase_matrices", "Γ_∞"),
        ("noise_order", "κ_#"),
        ("ring_lifetimes", "max μ_p"),
        ("causal_centres", "Rényi"),
        ("normalization", "late law"),
    ],
)
def test_ready_figures_name_their_theory(tmp_path, invented, name, theory):
    execute.run_sweep(Sweep.load(EXPERIMENTS / f"{name}.toml"), tmp_path / "s")
    page = report_sweep(tmp_path / "s").read_text()
    # A map of cells with samples has a second one, of its standard errors.
    figures = 2 if name == "phase_matrices" else 1
    assert theory in page and page.count("<figcaption") == figures
    assert len(list((tmp_path / "s" / "figures").glob("*.svg"))) == figures


def test_the_curve_over_the_phase_diagram_is_the_published_one(tmp_path, invented):
    """Γ_∞ for n = 32, δ = 1e−3: t = 5.270, 6.954 at β = 1, 4 (40-digit quadrature)."""
    sweep = Sweep.load(EXPERIMENTS / "phase_circle.toml")
    execute.run_sweep(sweep, tmp_path / "s")
    figure = figures_of_sweep(open_sweep(tmp_path / "s"), sweep)["pair_probability"]
    (line,) = draw(figure).axes[0].lines
    times, betas = line.get_xdata(), line.get_ydata()
    np.testing.assert_allclose(np.interp([1.0, 4.0], betas, times), [5.270, 6.954], atol=2e-3)


def test_an_unfinished_sweep_is_drawn_with_holes(tmp_path, invented):
    short = small(count=300, budget={"seconds": 1e-9})
    summary = execute.run_sweep(short, tmp_path / "s")
    assert summary.left > 0
    assert report_sweep(tmp_path / "s").is_file()
