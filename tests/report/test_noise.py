import numpy as np

from metastable.report.drawing import draw
from metastable.report.figures.noise import plot_branches, plot_phases
from metastable.theory.branches import branch_in_kappa, phase_diagram


def styles(ax):
    return [line.get_linestyle() for line in ax.lines if len(line.get_xdata()) > 1]


def test_branches_are_dashed_up_to_the_fold():
    smooth, bent = (branch_in_kappa(b, 2, normalized=False, until=1.1) for b in (1.5, 5.0))
    figure = draw(plot_branches([smooth, bent]))
    alignment, energy = figure.axes
    uniform = ["-", "--"]
    assert styles(alignment) == styles(energy) == ["-", "--", "-", *uniform]
    dashed = next(line for line in alignment.lines if line.get_linestyle() == "--")
    # The dashed piece ends next to the fold, where κ is smallest.
    assert np.isclose(min(dashed.get_xdata()), bent.turns[0][1] / bent.kappas[0], rtol=2e-3)
    assert [text.get_text() for text in alignment.get_legend().get_texts()] == ["1.5", "5"]
    assert "dashed ones unstable" in figure.get_label()


def test_phases_have_a_panel_for_each_table():
    tables = {
        "USA": phase_diagram([1.0, 3.0, 5.0], 2, normalized=False),
        "SA": phase_diagram([1.0, 3.0, 5.0], 2),
    }
    figure = draw(plot_phases(tables))
    assert [ax.get_title() for ax in figure.axes] == ["USA", "SA"]
    assert len(figure.axes[0].lines) == 3 and len(figure.axes[1].lines) == 1
    assert all(ax.get_xlabel() == "β" for ax in figure.axes)
    assert "hysteresis" in figure.get_label()
    assert len(draw(plot_phases({"one": tables["SA"]})).axes) == 1
