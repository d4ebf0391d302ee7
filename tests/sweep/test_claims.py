"""Verdicts in sweeps: of single cells, of whole diagrams, and the errors of every observable."""

import dataclasses
import json
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, sem

from metastable.cli import main
from metastable.comparison import compare
from metastable.flows.build import build_start, run_experiment
from metastable.observe import similarity
from metastable.report.figures.sweep import figures_of_sweep
from metastable.report.pages.sweep import report_sweep
from metastable.sweep import cells, claims, execute
from metastable.sweep.claims import compare_sweep
from metastable.sweep.plan import plan_sweep
from metastable.sweep.spec import Sweep
from metastable.sweep.status import means, open_sweep
from tests.sweep.driver import pretend

PAIRS = {
    "name": "pairs",
    "observables": ["pair_probability"],
    "samples": 32,
    "axes": {"field.beta": [0.5, 2.0, 4.0]},
    "base": {"measure": {"tokens": 8, "dim": 256}, "flow": {"horizon": 20.0, "frames": 81}},
}
NOISE = {
    "observables": ["late_order"],
    "axes": {"field.1.kappa": [0.6, 1.2, 6.0]},
    "base": {
        "measure": {"tokens": 64, "dim": 2},
        "field": [{"kind": "self_attention", "beta": 1.0}, {"kind": "noise", "kappa": 1.0}],
        "flow": {"horizon": 40.0, "frames": 41, "stepper": {"kind": "geodesic", "step": 0.05}},
    },
}
EXIT = {
    "observables": ["first_clusters", "dominant_mode"],
    "repetitions": 12,
    "axes": {"field.beta": [2.0, 6.0]},
    "base": {"measure": {"tokens": 64, "dim": 2}, "flow": {"horizon": 12.0, "frames": 49}},
}
ROWS = {
    "observables": ["row_participation", "row_largest"],
    "repetitions": 3,
    "axes": {"measure.tokens": [300, 3000], "field.beta": [30.0, 3e3, 3e5]},
    "base": {"measure": {"dim": 3}},
}


def made(spec, folder):
    """A computed sweep and its rows."""
    sweep = Sweep.model_validate(spec)
    summary = execute.run_sweep(sweep, folder)
    assert summary.verdicts is not None
    return sweep, open_sweep(folder).load(), summary.verdicts.rows


def relabeled(data, sweep, key, factor):
    """The same numbers under another label than that of the runs."""
    axis = key.split(".")[-1]
    axes = sweep.axes | {key: [factor * value for value in sweep.values(key)]}
    stated = sweep.model_copy(update={"axes": axes}).model_dump(mode="json")
    return data.assign_coords({axis: factor * data[axis]}).assign_attrs(sweep=stated)


def verdicts(data):
    return {row.verdict for row in compare_sweep(data).rows}


def test_rows_of_cells_are_those_of_their_runs(tmp_path):
    spec = {
        "observables": ["agreements", "disagreements"],
        "repetitions": 2,
        "axes": {"field.beta": [3.0]},
        "base": {"measure": {"tokens": 16, "dim": 3}, "flow": {"horizon": 3.0, "frames": 13}},
    }
    sweep, data, rows = made(spec, tmp_path / "s")
    plan = plan_sweep(sweep)
    alone = compare(run_experiment(cells.experiment_of(plan.recipe, plan.cell((0, 1)))))
    here = data.isel(beta=0, repetition=1)
    assert alone.count("agree") == int(here["agreements"]) >= 3
    assert alone.count("disagree") == int(here["disagreements"]) == 0
    (row,) = rows
    assert (row.expected, row.observed) == ("at most 1% of runs", "0 of 2 runs")
    assert (row.p, row.verdict) == (1.0, "agree")
    wrong = data.assign(disagreements=data["disagreements"] + 1)
    assert compare_sweep(wrong).rows[0].p == pytest.approx(1e-4)  # two of two pages: 0.01²
    assert verdicts(wrong) == {"disagree"}


def test_a_diagram_of_pairs_agrees_and_is_read_back(tmp_path, monkeypatch, capsys):
    """Γ_∞ by SciPy's quadrature of dγ/γ̇ from 0 to 0.999 (arXiv:2312.10794, §6)."""
    sweep, data, (row,) = made(PAIRS, tmp_path / "s")
    assert row.verdict == "agree" and row.error is not None and row.p is not None
    beta = float(row.reason.split("β = ")[1].split(";")[0])
    slowness = lambda g: (np.exp(beta * (1 - g)) + 7) / (2 * (1 - g) * (7 * g + 1))
    assert row.expected == pytest.approx(quad(slowness, 0, 0.999)[0], rel=1e-6)
    assert verdicts(relabeled(data, sweep, "field.beta", 1.3)) == {"disagree"}
    assert verdicts(relabeled(data, sweep, "field.beta", 0.7)) == {"disagree"}
    kept = (tmp_path / "s" / "verdicts.json").read_bytes()
    again = execute.run_sweep(sweep, tmp_path / "s")
    assert again.skipped == 3 and (tmp_path / "s" / "verdicts.json").read_bytes() == kept
    page = report_sweep(tmp_path / "s").read_text()
    assert "half of the pairs have met" in page and "standard errors up to" in page
    assert _main(monkeypatch, "compare", str(tmp_path / "s")) == 0
    assert "Γ_∞" in capsys.readouterr().out


def test_cells_computed_with_another_beta_end_the_command_with_1(tmp_path, monkeypatch, capsys):
    def wrong(recipe, some):
        other = lambda cell: {"field.beta": 1.5 * cell.overrides["field.beta"]}
        return cells.compute(
            recipe, [dataclasses.replace(cell, overrides=other(cell)) for cell in some]
        )

    monkeypatch.setattr(execute, "compute", wrong)
    (tmp_path / "spec.toml").write_text(Sweep.model_validate(PAIRS).to_toml())
    words = ("sweep", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "s"))
    assert _main(monkeypatch, *words) == 1
    assert "DISAGREE" in capsys.readouterr().out
    assert _main(monkeypatch, "compare", str(tmp_path / "s"), "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["disagree"] == 1 and told["clock"] == "SA"


def test_order_sets_in_around_the_critical_noise(tmp_path):
    """κ_# = I_0(1)/I_1(1) = 2.2402 at β = 1 on the circle, between 1.2 and 6."""
    sweep, data, (row,) = made(NOISE, tmp_path / "s")
    assert row.verdict == "agree", row
    assert row.observed == f"uniform up to {1.2 / 2.2402:.3g}, order from {6 / 2.2402:.3g}"
    assert row.error == pytest.approx(4.8 / 2.2402 / np.sqrt(12), rel=1e-3)
    assert verdicts(relabeled(data, sweep, "field.1.kappa", 0.2)) == {"disagree"}
    assert verdicts(relabeled(data, sweep, "field.1.kappa", 5.0)) == {"disagree"}
    close = sweep.model_copy(update={"axes": {"field.1.kappa": [2.0]}})
    (row,) = compare_sweep(
        relabeled(data.isel(kappa=[0]).assign_coords(kappa=[2.0]), close, "field.1.kappa", 1.1)
    ).rows
    assert row.verdict == "not applicable" and "too few" in row.reason


def test_the_law_of_order_is_that_of_uniform_tokens_where_noise_rules(tmp_path):
    """κ → 0: the mean of n uniform tokens of the circle is normal, P(|m|² ≥ x) = e^{−nx}."""
    setting = claims.Setting(1.0, 2, 100, True, 1e-6, np.linspace(0, 1, 2))
    for late in (0.1, 0.2):
        p, _ = claims._order_law(setting, 1e-6 / 2.24 - 1, late, 1)
        assert p == pytest.approx(2 * np.exp(-100 * late**2), rel=0.1)  # on both sides


def test_first_clusters_and_modes_follow_their_laws(tmp_path):
    sweep, data, rows = made(EXIT, tmp_path / "s")
    assert [row.verdict for row in rows] == ["agree", "agree"], rows
    assert "disagree" in verdicts(relabeled(data, sweep, "field.beta", 0.3))
    assert all(row.p is not None and row.error is not None for row in rows)


def test_sums_of_draws_have_the_tails_of_the_binomial_law():
    for k in (0, 3, 7, 10):
        tails = binom.cdf(k, 10, 0.3), binom.sf(k - 1, 10, 0.3)
        expected = min(1.0, 2 * min(tails))
        assert claims._tails(np.array([0.7, 0.3]), k, 10, 0.0) == pytest.approx(expected, rel=1e-9)
    loose = claims._tails(np.array([0.0, 1.0]), 15, 10, 0.5)  # one half of draws may be 2
    assert loose == 1.0 and claims._tails(np.array([0.0, 1.0]), 15, 10, 0.0) < 1e-12


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"base": {"measure": {"kind": "orthogonal", "tokens": 4, "dim": 4}}}, "not uniform"),
        ({"base": {"measure": {"tokens": 4, "dim": 2}}}, "many dimensions"),
        ({"base": {"measure": {"tokens": 4, "dim": 8}, "field": {"causal": True}}}, "one head"),
        ({"axes": {"measure.seed": [1, 2]}}, "seed is stated"),
        ({"samples": 4, "base": {"measure": {"tokens": 4, "dim": 8}}}, "fewer than 16"),
    ],
)
def test_what_cannot_be_judged_says_why(tmp_path, monkeypatch, change, why):
    monkeypatch.setattr(execute, "compute", pretend)
    spec = PAIRS | {"samples": 16, "axes": {"field.beta": [1.0]}} | change
    spec["base"] = spec["base"] | {"flow": {"horizon": 0.5, "frames": 3}}
    _, _, (row,) = made(spec, tmp_path / "s")
    assert row.verdict == "not applicable" and why in row.reason


def test_an_unfinished_sweep_has_no_verdicts_yet(tmp_path):
    sweep = Sweep.model_validate(PAIRS | {"budget": {"seconds": 1e-9}})
    assert execute.run_sweep(sweep, tmp_path / "s").verdicts is None
    rest = execute.run_sweep(Sweep.model_validate(PAIRS), tmp_path / "s")
    assert rest.verdicts is not None and rest.verdicts.agrees and rest.verdicts.rows


def test_every_observable_has_its_standard_error(tmp_path):
    """Over samples inside cells, over repetitions between them; SciPy's standard error of means."""
    spec = {
        "observables": ["similarity", "last_clusters"],
        "repetitions": 3,
        "axes": {"field.beta": [2.0]},
        "base": {"measure": {"tokens": 6, "dim": 3}, "flow": {"horizon": 2.0, "frames": 3}},
    }
    _, data, _ = made(spec | {"observables": ["similarity", "first_clusters"]}, tmp_path / "r")
    for name in ("similarity", "first_clusters"):
        every, mean = data[name].isel(beta=0).values, means(data)
        np.testing.assert_allclose(mean[name].values[0], every.mean(axis=0))
        np.testing.assert_allclose(mean[f"{name}_error"].values[0], sem(every), atol=1e-15)
    sweep = Sweep.model_validate(spec | {"samples": 4, "repetitions": 2})
    execute.run_sweep(sweep, tmp_path / "s")
    data, plan = open_sweep(tmp_path / "s"), plan_sweep(sweep)
    errors = []
    for repetition in range(2):
        cell = plan.cell((0, repetition))
        runs = [
            run_experiment(cells.experiment_of(plan.recipe, cell, sample)) for sample in range(4)
        ]
        alone = [[similarity(frame).mean for frame in run.frames] for run in runs]
        here = data.isel(beta=0, repetition=repetition)
        np.testing.assert_allclose(here["similarity_error"], sem(alone), atol=1e-12)
        assert float(here["last_clusters_error"]) >= 0
        errors.append(sem(alone))
    together = np.hypot(*errors) / 2  # of the mean of two means
    np.testing.assert_allclose(means(data)["similarity_error"][0], together, atol=1e-12)


def _main(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["metastable", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_rows_of_attention_are_read_off_starts_and_follow_their_law(tmp_path, monkeypatch):
    def moved(*_, **__):
        raise AssertionError("nothing need move")

    monkeypatch.setattr(cells, "run_experiment", moved)
    monkeypatch.setattr(cells, "flow_batch", moved)
    sweep, data, rows = made(ROWS, tmp_path / "s")
    assert [row.verdict for row in rows] == ["agree", "agree"]
    plan = plan_sweep(sweep)
    start, _ = build_start(cells.experiment_of(plan.recipe, plan.cell((0, 1, 2))))
    logits = 3e3 * (start.points @ start.points.T)
    w = np.exp(logits - logits.max(axis=1, keepdims=True))
    share = np.sum((w / w.sum(axis=1, keepdims=True)) ** 2, axis=1)
    seen = float(data["row_participation"].isel(tokens=0, beta=1, repetition=2))
    assert seen == pytest.approx(share.mean(), abs=4 * share.std() / np.sqrt(300 // 16))
    assert verdicts(relabeled(data, sweep, "field.beta", 1.2)) == {"disagree"}
    figure = figures_of_sweep(data, sweep)["row_participation"]
    assert figure.x.scale == figure.y.scale == "log" and len(figure.series) == 4


def test_rows_of_attention_beside_a_run_are_those_of_its_first_frame(tmp_path):
    spec = ROWS | {"observables": ["row_largest", "last_clusters"], "repetitions": 1}
    spec["axes"] = {"field.beta": [5.0, 20.0]}
    spec["base"] = {"measure": {"tokens": 32, "dim": 3}, "flow": {"horizon": 0.5, "frames": 2}}
    _, both, _ = made(spec, tmp_path / "both")
    _, alone, _ = made(spec | {"observables": ["row_largest"]}, tmp_path / "alone")
    assert np.array_equal(both["row_largest"], alone["row_largest"])
    masked = spec | {"observables": ["row_largest"]}
    masked["base"] = {**spec["base"], "field": {"kind": "self_attention", "causal": True}}
    summary = execute.run_sweep(Sweep.model_validate(masked), tmp_path / "masked")
    assert summary.failed == 2
