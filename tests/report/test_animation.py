import pytest
from PIL import Image

from metastable.report import animate
from tests.report import made


@pytest.mark.parametrize("name", ["circle", "sphere", "merging"])
def test_frames_and_duration(name, tmp_path):
    run = made.RUNS[name]()
    path = animate(run, tmp_path / "new" / "run.gif", seconds=2.0, frames=5)
    with Image.open(path) as film:
        frames = min(5, len(run.times))
        assert film.n_frames == frames and film.info["loop"] == 0
        total = 0
        for k in range(frames):
            film.seek(k)
            total += film.info["duration"]
    assert total == pytest.approx(3000, abs=10 * frames)  # GIF counts hundredths
    assert path.stat().st_size < 500_000


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="circle or S²"):
        animate(made.square(), tmp_path / "run.gif")
    with pytest.raises(ValueError, match="seconds must be > 0"):
        animate(made.circle(), tmp_path / "run.gif", seconds=0)
