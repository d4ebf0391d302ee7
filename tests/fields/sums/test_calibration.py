"""What sums cost on a device: measured once, kept, and measured again where that is damaged."""

from __future__ import annotations

import math

import pytest

from metastable.fields.sums import Dense, HarmonicSum, calibration, costs
from metastable.fields.sums.costs import Device, Pairs
from metastable.fields.sums.gpu import FusedSum

CARD = Device(90.0, Pairs(5e-6, 4e-8), Pairs(1e-5, 6e-8), Pairs(4e-7, 4e-8), 0.03, 0.04)


class Unknown:
    platform, device_kind = "gpu", "A card nobody has seen"


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """How many times a device was measured."""
    times = []
    monkeypatch.setattr(calibration, "measure_device", lambda: times.append(1) or CARD)
    monkeypatch.setattr(calibration, "cache_folder", lambda: tmp_path)
    calibration._kept.cache_clear()
    yield times
    calibration._kept.cache_clear()


def test_a_card_is_measured_once(measured, tmp_path):
    assert calibration.costs_of(Unknown()) == CARD
    calibration._kept.cache_clear()  # as in another process
    assert calibration.costs_of(Unknown()) == CARD
    assert len(measured) == 1


@pytest.mark.parametrize("content", ["", "[1, 2", "[1, [2], [3], [4]]", '{"start": 1}', "\x00"])
def test_damaged_costs_are_measured_again(measured, tmp_path, content):
    calibration.costs_of(Unknown())
    (kept,) = tmp_path.iterdir()
    kept.write_text(content)
    calibration._kept.cache_clear()
    assert calibration.costs_of(Unknown()) == CARD
    assert len(measured) == 2


def test_nothing_need_be_kept(measured, monkeypatch):
    monkeypatch.setattr(calibration, "cache_folder", lambda: None)
    assert calibration.costs_of(Unknown()) == CARD


def test_a_card_prefers_pairs_in_single_precision_and_a_cpu_has_none():
    h200 = calibration.KNOWN["NVIDIA H200"]
    assert costs.fused_cost(65536, 64, h200) < costs.dense_cost(65536, 64, True, h200)
    assert costs.fused_cost(65536, 64, costs.CPU) == math.inf
    assert calibration.sum_cost(FusedSum(), 10, 3) == math.inf
    harmonic, dense = HarmonicSum(2, 20), Dense()
    assert calibration.sum_cost(harmonic, 10**6, 2) < calibration.sum_cost(dense, 10**6, 2)
