"""Results show themselves: a picture, a sentence, and a page where there is no notebook."""

import base64
import io
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import metastable as ms
from metastable.core.display import Cell
from metastable.report import draw, film_on_sphere, live, notebook, plot_angles, plot_energy
from tests.report import made

FIELD = ms.SelfAttention(beta=4.0)


def pictures(text):
    """The images inside some HTML."""
    found = re.findall(r'src="data:image/\w+;base64,([^"]+)"', text)
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


def ensemble():
    start = lambda seed: ms.uniform(tokens=4, dim=3, seed=seed)
    count = lambda measure: ms.clusters(measure).count
    return ms.ensemble(start, FIELD, 4.0, samples=3, observe={"clusters": count}, frames=4)


SHOWN = {
    "circle": lambda: ms.uniform(tokens=30, dim=2),
    "sphere": lambda: ms.uniform(tokens=30, dim=3),
    "many axes": lambda: ms.uniform(tokens=9, dim=12),
    "line": lambda: ms.gaussian_points(9, 1),
    "space": lambda: ms.gaussian_points(9, 3),
    "density": lambda: ms.Density.mode(dim=2, degree=4, amplitude=0.1),
    "map": lambda: ms.Density.mode(dim=3, degree=2, amplitude=0.1),
    "gaussian": lambda: ms.Gaussian([0.0, 1.0], [[1.0, 0.2], [0.2, 0.5]]),
    "prediction": lambda: ms.predict(FIELD, dim=2, tokens=100),
    "run": made.circle,
    "merging": made.merging,
    "ensemble": ensemble,
}


@pytest.mark.parametrize("name", SHOWN)
def test_every_result_has_a_picture_that_is_not_blank(name):
    (image,) = pictures(SHOWN[name]()._repr_html_())
    colors = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colors, axis=0)) > 20


def test_verdicts_are_a_table_and_texts_are_escaped():
    rows = ms.compare(made.circle())
    text = rows._repr_html_()
    agree, tested = rows.count("agree"), rows.count("agree") + rows.count("disagree")
    assert text.count(">agree</b>") == agree > 0 and len(rows.rows) > tested
    assert f"{agree} of {tested} tested claims agree" in text
    assert f"{len(rows.rows) - tested} claims that this run cannot test" in text
    assert notebook._table([{"claim": "a < b"}]).count("a &lt; b") == 1


def test_figures_show_whatever_the_backend():
    for shown in (plot_energy(made.circle()), draw(plot_energy(made.circle()))):
        data, size = shown._repr_png_()
        width, height = Image.open(io.BytesIO(data)).size
        assert size == {"width": 460, "height": 310} and (width, height) == (920, 620)
    assert plot_energy(made.circle())._repr_html_() is None  # one picture is enough


def test_a_film_moves_inside_the_page_and_stays_light(monkeypatch):
    film = film_on_sphere(made.sphere(), seconds=1.0, frames=5)
    (whole,) = pictures(film._repr_html_())
    assert whole.n_frames == 5 and film._repr_png_() is None
    monkeypatch.setattr(notebook, "HEAVIEST", 100)
    (light,) = pictures(film._repr_html_())
    assert light.n_frames == 2

    def last(film):
        film.seek(film.n_frames - 1)
        return np.asarray(film.convert("RGB"), int)

    # The last frame is never left out; palettes may differ by a shade.
    assert np.abs(last(whole) - last(light)).mean() < 0.5


def test_show_without_a_notebook_writes_a_page(capsys):
    plot_angles(made.circle()).show()
    path = capsys.readouterr().out.strip()
    assert path.endswith("lines.html") and len(pictures(Path(path).read_text())) == 1


class Handle:
    def __init__(self):
        self.shown = []

    def update(self, content):
        self.shown.append(content)


@pytest.fixture
def kernel(monkeypatch):
    """A notebook of our own: what is displayed, in order."""
    handle = Handle()

    def display(content, display_id=False):
        handle.update(content)
        return handle

    fake = types.ModuleType("IPython")
    fake.version_info = (9, 0)  # matplotlib asks
    fake.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    shown = types.ModuleType("IPython.display")
    shown.HTML, shown.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return handle


def test_live_frames_are_shown_at_most_twice_a_second(kernel, monkeypatch):
    moments = iter(np.arange(0.0, 1000.0, 0.06))  # two looks at the clock for a frame shown
    clock = lambda: float(next(moments))
    monkeypatch.setattr("metastable.report.watching.Cell", lambda: Cell(clock))
    run = ms.flows.drive(ms.uniform(tokens=20, dim=2), FIELD, 5.0, frames=21)
    assert [frame.time for frame in live(run)] == pytest.approx(np.linspace(0, 5, 21))
    # At t = 0, then whenever 0.5 s of looks have passed, and the end: 1.3 s in all.
    assert 3 <= len(kernel.shown) <= 4
    assert all(len(pictures(text)) == 1 for text in kernel.shown)
    assert "<progress" in kernel.shown[0] and "<progress" not in kernel.shown[-1]


def test_progress_of_a_flow_stands_below_the_cell_and_goes(kernel):
    from metastable.core.progress import Bar

    now = [0.0]
    with Bar("flow", clock=lambda: now[0]) as bar:
        for now[0], share in ((1.0, 0.1), (2.5, 0.4), (2.6, 0.5), (3.1, 0.8)):
            bar.update(share)
    values = [re.findall(r'value="([\d.]+)"', text) for text in kernel.shown]
    assert values == [["0.400"], ["0.800"], []]


def test_nothing_is_shown_of_what_is_traced():
    import jax

    seen = []
    jax.jit(lambda x: seen.append(ms.Points(x)._repr_html_()) or x)(np.eye(2))
    assert seen == [None]
