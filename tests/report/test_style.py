from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba

from metastable.core.figure import COLORS
from metastable.report.styles import BETA, CATEGORIES, DENSITY, OTHER, TIME, category_colors

PAPER, NIGHT = "#ffffff", "#14171c"  # the backgrounds of templates/page.html
# Machado, Oliveira, Fernandes, IEEE TVCG 15 (2009), severity 1, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.072175],
        [0.0193339, 0.119192, 0.9503041],
    ]
)


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB under D65."""
    x = XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, two):
    """Contrast ratio of WCAG 2."""
    low, high = sorted(XYZ[1] @ linear(c) for c in (one, two))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("vision", BLINDNESS)
@pytest.mark.parametrize(("count", "apart"), [(8, 15), (24, 12)])
def test_categories_differ_for_every_kind_of_colour_vision(vision, count, apart):
    # ΔE = 10 is told apart at a glance.
    assert len(CATEGORIES) == COLORS == 24
    seen = [lab(np.array(BLINDNESS[vision]) @ linear(c)) for c in (*CATEGORIES[:count], OTHER)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > apart


@pytest.mark.parametrize("paper", [PAPER, NIGHT])
def test_data_colours_stand_out_from_both_backgrounds(paper):
    ends = [TIME(0.0), TIME(1.0), BETA(0.0), BETA(1.0)]
    for colour in (*CATEGORIES, OTHER):
        assert contrast(colour, paper) > 1.95
    for colour in ends:
        assert contrast(colour, paper) > 1.5


def test_maps_are_ordered():
    # Time gets lighter, density more opaque, all the way.
    lightness = [lab(linear(TIME(k)))[0] for k in range(256)]
    assert (np.diff(lightness[::4]) > 0).all()
    assert (np.diff([to_rgba(DENSITY(k))[3] for k in range(192)]) > 0).all()


def test_light_groups_and_tokens_without_mass_are_grey():
    colours = category_colors(np.array([0, 1, 23, 24, 40, -1]))
    assert colours.tolist() == [CATEGORIES[0], CATEGORIES[1], CATEGORIES[23], OTHER, OTHER, OTHER]
