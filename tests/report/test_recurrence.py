import numpy as np

from metastable.report.drawing import draw
from metastable.report.figures.learning import plot_gradients, plot_recall

LAGS = [4, 8, 16]
CURVES = {"transformer": np.array([1.0, 1.0, 0.99]), "rnn": np.array([1.0, 0.4, 1e-9])}


def test_recall_shows_each_family_and_chance():
    figure = draw(plot_recall(LAGS, CURVES, 0.125))
    (ax,) = figure.axes
    drawn = {line.get_label(): line for line in ax.lines}
    for name, values in CURVES.items():
        assert np.array_equal(drawn[name].get_ydata(), values)
        assert np.array_equal(drawn[name].get_xdata(), LAGS)
    assert any(np.all(np.asarray(line.get_ydata()) == 0.125) for line in ax.lines)
    assert "chance" in figure.get_label()


def test_gradients_are_on_a_logarithmic_axis():
    figure = draw(plot_gradients(LAGS, CURVES))
    (ax,) = figure.axes
    assert ax.get_yscale() == "log"
    assert {"transformer", "rnn"} <= {line.get_label() for line in ax.lines}
