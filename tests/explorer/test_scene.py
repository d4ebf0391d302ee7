"""What the page is shown of a moment."""

import math

import numpy as np

import metastable as ms
from metastable.explorer.packet import unpack
from metastable.explorer.scene import PAIRS, Scene, recolored
from metastable.fields.sums import choose_sum
from metastable.flows import Frame
from metastable.observe import attention, energy


def test_a_frame_holds_places_colours_and_numbers():
    tokens = ms.planted(tokens=60, dim=3, clusters=3, concentration=1e4, seed=0)
    field = ms.SelfAttention(beta=4.0)
    header, arrays = unpack(Scene(field, degrees=5).packet(Frame.at(2.0, tokens)))
    np.testing.assert_allclose(arrays["positions"], tokens.points, atol=1e-7)
    assert header["clusters"] == len(set(arrays["cluster"].tolist())) == 3
    assert math.isclose(header["time"], 2.0) and math.isclose(header["log10_time"], math.log10(2))
    assert len(header["amplitudes"]) == 5 and math.isclose(
        sum(header["histogram"]), 1, abs_tol=1e-3
    )
    assert math.isclose(header["energy"], float(energy(tokens, 4.0, scaled=True)))
    # The heat map: rows of softmax sorted by colour, brightest 255.
    order = np.argsort(arrays["cluster"], kind="stable")
    exact = np.asarray(attention(tokens, 4.0))[np.ix_(order, order)]
    np.testing.assert_allclose(
        arrays["attention"] / 255, exact / exact.max(), atol=0.5 / 255 + 1e-9
    )


def test_energy_of_many_tokens_agrees_with_the_sum_over_pairs():
    tokens, field = ms.uniform(tokens=PAIRS + 1, dim=2, seed=0), ms.SelfAttention(beta=9.0)
    scene = Scene(field, choose_sum(tokens, field, 1e-10))
    header, _ = unpack(scene.packet(Frame.at(0.0, tokens)))
    assert math.isclose(header["energy"], float(energy(tokens, 9.0, scaled=True)), rel_tol=1e-9)
    assert header["time"] == 0.0 and header["log10_time"] is None


def test_times_beyond_floating_point_go_on_as_logarithms():
    tokens = ms.polygon(5)
    header, _ = unpack(Scene(ms.SelfAttention(1.0)).packet(Frame(math.inf, 1e4, tokens)))
    assert header["time"] is None and math.isclose(header["log10_time"], 1e4 / math.log(10))


def test_speed_is_distance_over_time():
    scene = Scene(ms.SelfAttention(1.0))
    turn = lambda angle: ms.Points([[math.cos(angle), math.sin(angle)], [1.0, 0.0]])
    scene.packet(Frame.at(1.0, turn(0.0)))
    _, arrays = unpack(scene.packet(Frame.at(1.5, turn(1e-3))))
    np.testing.assert_allclose(arrays["speed"], [2e-3, 0.0], rtol=1e-5)


def test_space_is_scaled_into_view():
    tokens = ms.Points([[30.0, 0.0], [0.0, -40.0]], on_sphere=False)
    header, arrays = unpack(Scene(ms.SelfAttention(1.0)).packet(Frame.at(1.0, tokens)))
    assert header["scale"] == 40.0 and header["amplitudes"] is None
    np.testing.assert_allclose(arrays["positions"], [[0.75, 0, 0], [0, -1, 0]])


def test_clusters_keep_their_colours():
    old = np.array([4, 4, 4, 2, 2, 7])
    # The heaviest cluster comes first in `labels`; two of the old ones have merged.
    new = recolored(old, np.array([1, 1, 1, 0, 0, 0]))
    assert new.tolist() == [4, 4, 4, 2, 2, 2]
    # A cluster that falls apart keeps its colour in the larger part, and the other gets a free one.
    parts = recolored(np.zeros(5, int), np.array([1, 1, 1, 0, 0]))
    assert parts.tolist() == [0, 0, 0, 1, 1]
