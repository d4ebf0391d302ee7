"""The phase diagram P(⟨x_1,x_2⟩ ≥ 0.999) over (t, β), n = 32, against the curve Γ_∞.

Source of the curve: arXiv:2312.10794, §6; it is the limit of many dimensions.
"""

import numpy as np
import pytest

from metastable.sweep.execute import run_sweep
from metastable.sweep.spec import Sweep
from metastable.sweep.status import open_sweep
from metastable.theory.equiangular import phase_curve
from tests.flows.test_ensemble import late_by

pytestmark = pytest.mark.claim
CELL, LAST = 0.1, 6.5


def contour(probabilities, betas):
    """β at which P falls through 1/2, by linear interpolation between cells; NaN without one."""
    above = probabilities >= 0.5
    if above.all() or not above.any():
        return np.nan
    k = len(above) - 1 - int(np.argmax(above[::-1]))
    if k == len(above) - 1:
        return np.nan
    high, low = probabilities[k], probabilities[k + 1]
    return betas[k] + (high - 0.5) / (high - low) * (betas[k + 1] - betas[k])


@pytest.fixture(scope="module")
def shifts(tmp_path_factory):
    """Distance in β of the 50 % contour from Γ_∞ at every frame, by dimension."""
    betas = {"from": CELL, "to": LAST + 3 * CELL, "count": 68}
    horizon = 25.2
    sweep = Sweep.model_validate(
        {
            "observables": ["pair_probability"],
            "samples": 256,
            "axes": {"field.beta": betas, "measure.dim": [64, 256, 1024]},
            "base": {"measure": {"tokens": 32}, "flow": {"horizon": horizon, "frames": 169}},
        }
    )
    folder = tmp_path_factory.mktemp("phase") / "s"
    assert run_sweep(sweep, folder).done == 68 * 3
    data = open_sweep(folder).isel(repetition=0)
    fine = np.linspace(CELL, LAST, 2000)
    curve = phase_curve(fine, 32)
    times = data["time"].values
    times = times[(times > curve[0]) & (times < curve[-1])]
    wanted = np.interp(times, curve, fine)
    found = {}
    for dim in data["dim"].values:
        seen = data["pair_probability"].sel(dim=dim, time=times).values
        found[int(dim)] = np.array([contour(p, data["beta"].values) for p in seen.T]) - wanted
    return times, wanted, found


def test_the_contour_lies_within_one_cell_of_the_curve_at_d_1024(shifts):
    times, wanted, found = shifts
    off = np.abs(found[1024])
    assert len(times) > 100 and np.isfinite(off).all()
    worst = off.argmax()
    print(f"largest distance {off.max():.3f} at t = {times[worst]:.2f}, β = {wanted[worst]:.2f}")
    assert off.max() <= CELL


def test_the_contour_approaches_the_curve_as_d_grows(shifts):
    _, wanted, found = shifts
    mean = {dim: float(np.nanmean(np.abs(off[wanted > 3]))) for dim, off in found.items()}
    print("mean distance in β beyond β = 3:", {dim: round(m, 4) for dim, m in mean.items()})
    assert mean[64] > 2 * mean[256] > 4 * mean[1024]


@pytest.mark.parametrize(("dim", "stated"), [(2, 2e-3), (128, 4e-3)])
@pytest.mark.parametrize("beta", [0.5, 4.0])
def test_the_stated_error_of_ensembles_holds(dim, beta, stated):
    late = late_by(dim, beta, 256, 15.0)
    median, most = np.median(late), late.max()
    print(f"d = {dim}, β = {beta}: late by {median:.1e} in the median, {most:.1e} at most")
    assert len(late) > 1000 and median < stated
