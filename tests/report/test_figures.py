from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, QuadMesh

import metastable as ms
from metastable.report import (
    draw,
    figures_of,
    plot_angles,
    plot_clusters,
    plot_energy,
    plot_hulls,
    plot_line,
    plot_rank,
    plot_similarity,
    plot_strip,
)
from metastable.report.figures.run import unwrap, view_of
from tests.report import made


@pytest.fixture(scope="module", params=made.RUNS)
def drawn(request):
    figures = figures_of(made.RUNS[request.param]())
    return request.param, {name: draw(figure) for name, figure in figures.items()}


def test_figures_suit_the_run(drawn):
    name, figures = drawn
    own = {"circle": "angles", "sphere": "sphere", "square": "hulls", "high": None}
    first = own.get(name, "angles")
    others = ["clusters", "energy", "similarity", "rank"]
    if name == "square":
        others.remove("energy")
    assert list(figures) == [*([first] if first else []), *others]


def test_axes_name_quantity_unit_and_clock(drawn):
    for name, figure in drawn[1].items():
        assert "SA clock" in figure.get_label()
        for ax in figure.axes:
            if name == "sphere":
                assert ax.get_title().startswith("t = ") or not ax.get_visible()
            elif ax.get_label() != "<colorbar>":
                assert ax.get_ylabel()
                expected = "$z_1$" if name == "hulls" else "time t (SA clock)"
                assert ax.get_xlabel() == expected
        if name == "angles":
            assert figure.axes[0].get_ylabel() == "angle θ (rad)"


def test_no_text_overlaps_or_leaves_the_figure(drawn):
    for name, figure in drawn[1].items():
        figure.set_dpi(150)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        boxes = {}
        for text in _texts(figure):
            box = text.get_window_extent(canvas.get_renderer())
            assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, (name, text)
            assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, (name, text)
            boxes[text] = box
        for (one, a), (two, b) in combinations(boxes.items(), 2):
            assert not a.overlaps(b), (name, one, two)


def _texts(figure):
    for ax in figure.axes:
        if ax.axison and ax.get_visible():
            yield from (label for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text())
            for axis in (ax.xaxis, ax.yaxis):
                low, high = sorted(axis.get_view_interval())
                places = axis.get_majorticklocs()
                for place, label in zip(places, axis.get_majorticklabels(), strict=True):
                    if low <= place <= high and label.get_text():
                        yield label
        if ax.get_title():
            yield ax.title
        yield from ax.texts
        if ax.get_legend():
            yield from ax.get_legend().get_texts()


def test_a_single_frame_has_no_figures():
    run = made.trajectory([made.on_circle([0.0, 1.0])], [0.0])
    assert figures_of(run) == {}


def test_unwrapped_angles_keep_clusters_whole():
    run = made.circle()
    theta = np.array([np.asarray(frame.angles) for frame in run.frames])
    straight = unwrap(theta)
    turns = (straight - theta) / (2 * np.pi)
    np.testing.assert_allclose(turns, turns.round(), atol=1e-12)
    assert np.abs(np.diff(straight, axis=0)).max() < 1.0
    # The cluster at π is torn by arctan2, and is one here.
    assert np.ptp(theta[-1, 12:32]) > 6.0 and np.ptp(straight[-1, 12:32]) < 1e-4
    assert np.ptp(straight[-1]) < 2 * np.pi


def test_angles_show_every_token_and_the_masses():
    ax = draw(plot_angles(made.circle())).axes[0]
    (lines,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == 40
    assert sorted(text.get_text() for text in ax.texts) == ["20 %", "30 %", "50 %"]


def test_time_is_logarithmic_past_three_decades():
    assert draw(plot_rank(made.circle())).axes[0].get_xscale() == "linear"
    assert draw(plot_rank(made.RUNS["slow circle"]())).axes[0].get_xscale() == "log"
    assert draw(plot_rank(made.circle(), log=True)).axes[0].get_xscale() == "log"


def test_energy_of_two_opposite_clusters():
    # 2βe^{−β}E = m₁² + m₂² + 2m₁m₂e^{−2β} for points at ±e_1, m = 2/3 and 1/3.
    line = draw(plot_energy(made.sphere())).axes[0].lines[0]
    assert line.get_ydata()[-1] == pytest.approx(5 / 9 + 4 / 9 * np.exp(-18), rel=1e-6)
    assert draw(plot_rank(made.sphere())).axes[0].lines[0].get_ydata()[-1] == pytest.approx(
        1, abs=1e-3
    )


def test_energy_needs_an_energy():
    with pytest.raises(ValueError, match="self-attention on the sphere"):
        plot_energy(made.square())


def test_cluster_counts():
    linkage, modes = draw(plot_clusters(made.circle())).axes[0].lines
    assert linkage.get_ydata()[-1] == 3 and modes.get_ydata()[-1] == 3
    (alone,) = draw(plot_clusters(made.square())).axes[0].lines
    assert alone.get_ydata()[0] == 5  # four corners and the centre, farther apart than 0.2


def test_similarity_of_two_opposite_clusters():
    # Of the 30·29 ordered pairs, 20·19 + 10·9 have cosine 1 and 2·20·10 have cosine −1.
    (mesh,) = [
        c
        for c in draw(plot_similarity(made.sphere())).axes[0].collections
        if isinstance(c, QuadMesh)
    ]
    shares = mesh.get_array().filled(0).reshape(60, -1)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert shares[-1, -1] == pytest.approx((20 * 19 + 10 * 9) / (30 * 29))
    assert shares[0, -1] == pytest.approx(2 * 20 * 10 / (30 * 29))


def test_hulls_are_the_squares():
    ax = draw(plot_hulls(made.square(), count=9)).axes[0]
    hulls = [line for line in ax.lines if line.get_marker() == ""]
    assert len(hulls) == 9
    for line, t in zip(hulls, made.square().times, strict=True):
        assert set(map(tuple, np.abs(line.get_xydata()))) == {(1 / (1 + t), 1 / (1 + t))}
        # A walk around the square has four sides of equal length, and no diagonal.
        sides = np.linalg.norm(np.diff(line.get_xydata(), axis=0), axis=1)
        np.testing.assert_allclose(sides, 2 / (1 + t))


def test_tokens_in_one_dimension():
    values = np.array([[-1.0], [0.5], [2.0]])
    frames = [ms.Points(values * s, on_sphere=False) for s in (1.0, 0.5, 0.25)]
    run = made.trajectory(frames, [0.0, 1.0, 2.0])
    (lines,) = draw(plot_line(run)).axes[0].collections
    assert [s[:, 1].tolist() for s in lines.get_segments()][2] == [2.0, 1.0, 0.5]
    assert list(figures_of(run)) == ["line", "clusters"]


def test_strip_faces_the_mass():
    run = made.sphere()
    view = view_of(run.frames[-1])
    np.testing.assert_allclose(view @ view.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(view) == pytest.approx(1)
    assert (view @ [1.0, 0.0, 0.0])[2] > 0.9  # the heavier of the two clusters is in front
    assert [ax.get_visible() for ax in draw(plot_strip(run, count=5)).axes] == [True] * 5 + [False]


def test_only_circle_and_sphere_have_snapshots():
    with pytest.raises(ValueError, match="circle or S²"):
        plot_strip(made.sphere(dim=4))
