"""The shapes that signatures state are checked while the tests run."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import metastable as ms
from metastable.geometry.sphere import project
from metastable.measures.starts import encoding


def test_a_wrong_shape_is_noticed():
    tokens = ms.uniform(4, 3)
    with pytest.raises(TypeCheckError, match="points"):
        tokens.at(np.zeros(3))
    assert tokens.at(np.asarray(tokens.points)).count == 4
    assert project(tokens.points, tokens.points).shape == (4, 3)
    assert encoding(3, 4).shape == (3, 4)
