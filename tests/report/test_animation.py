import dataclasses
import itertools

import numpy as np
import pytest
from PIL import Image

import metastable as ms
from metastable.core.outcome import Outcome
from metastable.flows import Trajectory
from metastable.observe.geometry import hull_edges
from metastable.report import film_in_space, film_on_sphere, write_film
from tests.report import made


@pytest.mark.parametrize("name", ["circle", "sphere", "merging"])
def test_frames_and_duration(name, tmp_path):
    run = made.RUNS[name]()
    path = write_film(film_on_sphere(run, seconds=2.0, frames=5), tmp_path / "new" / "run.gif")
    with Image.open(path) as film:
        frames = min(5, len(run.times))
        assert film.n_frames == frames and film.info["loop"] == 0
        total = 0
        for k in range(frames):
            film.seek(k)
            total += film.info["duration"]
    assert total == pytest.approx(3000, abs=10 * frames)  # GIF counts hundredths
    assert path.stat().st_size < 500_000


def test_refusals():
    with pytest.raises(ValueError, match="circle or S²"):
        film_on_sphere(made.square())
    with pytest.raises(ValueError, match="seconds must be > 0"):
        film_on_sphere(made.circle(), seconds=0)


def still(dim, frames=5):
    """Tokens in R^d that shrink towards 0, as a run of pure attention."""
    field = ms.Rescaled(ms.SelfAttention(1.0))
    start = ms.gaussian_points(8, dim, seed=1)
    kept = tuple(start.at(start.points / (k + 1)) for k in range(frames))
    times = np.arange(frames, dtype=float)
    return Trajectory(times, kept, "SA", Outcome.done(), {}, field)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_space(dim, tmp_path):
    planes = (np.eye(dim)[0], [0.0, 1.0]) if dim > 1 else None
    made_film = film_in_space(still(dim), 1.0, 4, planes=planes, matrix=dim == 1)
    path = write_film(made_film, tmp_path / "run.gif")
    with Image.open(path) as film:
        assert film.n_frames == 4
        film.seek(0)
        before = np.asarray(film.convert("RGB"), float)
        film.seek(3)
        assert np.abs(np.asarray(film.convert("RGB"), float) - before).max() > 50  # it moves


def test_space_refusals():
    with pytest.raises(ValueError, match="R\\^d"):
        film_in_space(made.circle())
    plain = dataclasses.replace(still(2), field=ms.SelfAttention(1.0))
    with pytest.raises(ValueError, match="Rescaled"):
        film_in_space(plain, matrix=True)


def test_edges_of_a_cube():
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    edges = hull_edges(corners)
    assert len(edges) == 12  # no diagonal of a face
    assert np.allclose(np.linalg.norm(edges[:, 0] - edges[:, 1], axis=1), 1)
    assert len(hull_edges(corners[:, :2] @ np.eye(2, 3))) == 4  # a square in space
    assert len(hull_edges(np.array([[0.0], [1.0], [0.5]]))) == 1
