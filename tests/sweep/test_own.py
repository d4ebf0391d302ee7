"""Claims and observables of a user in a sweep: counted run by run, told first, by their names."""

import sys
from itertools import product

import numpy as np
import pytest
import xarray
from scipy import stats

import metastable as ms
from metastable.cli import main
from metastable.comparison import CLAIMS
from metastable.core.registry import PLUGINS
from metastable.core.verdict import Verdict, decide, not_applicable, sampled, settle
from metastable.flows.build import build_start
from metastable.report.drawing import draw
from metastable.report.figures.sweep import figures_of_sweep
from metastable.report.pages.sweep import report_sweep
from metastable.report.picture import laid_out
from metastable.sweep import own
from metastable.sweep.cells import experiment_of
from metastable.sweep.claims import compare_sweep
from metastable.sweep.execute import run_sweep
from metastable.sweep.observables import OBSERVABLES
from metastable.sweep.plan import plan_sweep
from metastable.sweep.spec import Sweep
from metastable.sweep.status import answers, leading, means, open_sweep
from tests.sweep.stores import contents

SPEC = {
    "name": "mine",
    "observables": ["tilt", "disagreements"],
    "repetitions": 2,
    "samples": 4,
    "axes": {"field.beta": [1.0, 3.0], "measure.tokens": [4, 6]},
    "base": {"measure": {"dim": 2}, "flow": {"horizon": 0.2, "frames": 2}},
}


@pytest.fixture
def registered():
    """An observable of starts, and a claim that only the start decides; taken back afterwards."""
    claims, observables = list(CLAIMS), dict(OBSERVABLES)

    @ms.register.observable(of="run")
    def tilt(run):
        """First coordinate of the first token at the start, which no field can change later"""
        return float(run.frames[0].points[0, 0])

    @ms.register.claim
    def leans_right(case):
        """The first token starts on the right."""
        if case.start.points[0, 1] < -0.8:
            return None
        first = float(case.start.points[0, 0])
        return decide(first > 0, "first coordinate", "a guess", "> 0", first, "")

    yield
    CLAIMS[:] = claims
    OBSERVABLES.clear()
    OBSERVABLES.update(observables)


def starts(sweep):
    """First tokens of every run by cell: (cells of the first axis, of the second, runs, 2)."""
    plan = plan_sweep(sweep)
    points = [
        build_start(experiment_of(plan.recipe, plan.cell(index), sample))[0].points[0]
        for index in product(*map(range, plan.shape))
        for sample in range(sweep.samples)
    ]
    return np.array(points).reshape(*plan.shape[:-1], -1, 2)


def test_a_claim_is_counted_run_by_run_and_told_first(registered, tmp_path, monkeypatch, capsys):
    """Counts are made again from the starts, which alone decide the claim."""
    sweep = Sweep.model_validate(SPEC)
    summary = run_sweep(sweep, tmp_path / "s")
    first = starts(sweep)
    judged, held = first[..., 1] >= -0.8, first[..., 0] > 0
    failed = judged & ~held
    data = open_sweep(tmp_path / "s").load()
    for counted, expected in zip(
        own.counts_of(data, "leans_right")[:2], (judged, failed), strict=True
    ):
        assert np.array_equal(counted.values, expected.sum(-1))
    np.testing.assert_allclose(means(data)["leans_right"], 1 - failed.sum(-1) / judged.sum(-1))
    row = next(row for row in summary.verdicts.rows if row.source == own.SOURCE)
    assert row.verdict == "disagree" and row.claim == (
        "“The first token starts on the right” (leans_right)"
    )
    runs, wrong, cells = int(judged.sum()), int(failed.sum()), int(failed.any(-1).sum())
    assert row.observed == f"{runs - wrong} of {runs} runs" and 0 < runs < judged.size
    share = failed.sum(-1) / judged.sum(-1)
    k, j = np.unravel_index(np.lexsort((-judged.sum(-1).ravel(), -share.ravel()))[0], share.shape)
    assert row.reason == (
        f"fails in {cells} of 4 cells, most at β = {(1, 3)[k]}, n = {(4, 6)[j]}: "
        f"{failed[k, j].sum()} of {judged[k, j].sum()} runs; {judged.size - runs} runs not judged"
    )
    said = answers(data, summary.verdicts)
    assert said[0].startswith(f"Your claim {row.claim} holds in {row.observed}; fails in")
    assert said[1].startswith("Tilt (“First coordinate") and "heory" in " ".join(said[2:])
    assert leading(data) == "leans_right"
    # Nobody else's rows hold it: those of theory are counted without it.
    assert float(data["disagreements"].max()) == 0

    spec = tmp_path / "spec.toml"
    spec.write_text(sweep.to_toml())
    before = contents(tmp_path / "s")
    monkeypatch.setattr(
        sys, "argv", ["metastable", "sweep", str(spec), "--out", str(tmp_path / "s")]
    )
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("Your claim “The first token")
    assert contents(tmp_path / "s") == before  # gone on with, and nothing was left to do
    page = (tmp_path / "s" / "report.html").read_text()
    lead, _, rest = page.partition("<section")
    assert lead.index("Your claim") < lead.index("Tilt") < lead.index("contradicts theory")
    assert "Theory, “The first" not in page
    # Maps of standard errors stand behind a fold, and beside no answer.
    fold = rest[rest.index('<details class="folded">') :].partition("</details>")[0]
    assert fold.count("Standard error of") == page.count("Standard error of") > 0


def test_a_claim_is_an_observable_too_and_joins_only_where_verdicts_are_asked_for(registered):
    sweep = Sweep.model_validate(SPEC)
    assert own.with_own_claims(sweep).observables == ("tilt", "disagreements", "leans_right")
    alone = sweep.model_copy(update={"observables": ("tilt",)})
    assert own.with_own_claims(alone) is alone
    named = sweep.model_copy(update={"observables": ("leans_right",)})
    assert own.with_own_claims(named) is named
    assert [one.name for one in plan_sweep(named).kept] == [
        "leans_right", "leans_right_judged", "leans_right_refuted"
    ]  # fmt: skip

    @ms.register.claim
    def tilt(case): ...

    with pytest.raises(ValueError, match="'tilt' is an observable and a claim"):
        own.with_own_claims(sweep)


def made(codes, share=None, **axes):
    """An opened sweep of one claim, from the codes of its runs (…, runs)."""
    codes = np.asarray(codes, float)
    axes = axes or {"beta": np.arange(1.0, codes.shape[0] + 1)}
    dims = (*axes, "repetition")
    counts = [own.tally("open", runs) for runs in codes.reshape(-1, codes.shape[-1])]
    shape = (*codes.shape[:-1], 1)
    data = xarray.Dataset(
        {name: (dims, np.reshape([one[name] for one in counts], shape)) for name in counts[0]},
        axes | {"repetition": [0]},
    )
    data["done"] = dims, np.ones(shape, bool)
    data["open"].attrs = {"long_name": f"{own.HOLDS}“gaps stay open”"}
    data["open"].attrs |= {"share": share} if share else {}
    return data.assign_attrs(sweep={"observables": ["open"], "samples": codes.shape[-1]})


def coded(held, missed=0, refuted=0, silent=0):
    codes = [own.HELD] * held + [own.MISSED] * missed + [own.REFUTED] * refuted
    return [*codes, *[np.nan] * silent]


@pytest.mark.parametrize(
    ("cells", "verdict", "p", "sentence"),
    [
        ([coded(20), coded(20)], "agree", None, "holds in 40 of 40 runs, in all 2 cells"),
        # One run is enough against a statement about every run.
        ([coded(20), coded(19, 0, 1)], "disagree", None,
         "holds in 39 of 40 runs; fails in 1 of 2 cells, most at β = 2: 1 of 20 runs"),
        # Of rows that allow for chance: 1 − 0.99⁴⁰, and the binomial tail of four or more.
        ([coded(20), coded(19, 1)], "agree", 1 - 0.99**40,
         "holds in 39 of 40 runs, as often as chance allows (p = 0.33); fails in 1 of 2 cells, "
         "most at β = 2: 1 of 20 runs"),
        ([coded(20), coded(16, 4)], "disagree", stats.binom.sf(3, 40, 0.01),
         "holds in 36 of 40 runs; fails in 1 of 2 cells, most at β = 2: 4 of 20 runs"),
        ([coded(8, silent=12)], "agree", None,
         "holds in 8 of 8 runs, at β = 1; 12 runs not judged"),
        ([coded(0, silent=20)], "not applicable", None,
         "is not judged: it does not speak of these runs"),
    ],
)  # fmt: skip
def test_verdicts_on_a_claim(cells, verdict, p, sentence):
    row = own.judge_own(made(cells), "open")
    assert row.p is None if p is None else row.p == pytest.approx(p)
    (row,) = settle([row])
    assert row.verdict == verdict
    assert own.own_in_words(row) == f"Your claim “gaps stay open” (open) {sentence}"


def test_the_cell_that_fails_most_is_told_and_not_the_one_with_most_runs():
    """9 of 10 is more than 15 of 20; of two cells that fail always, the one with more runs."""
    cells = [coded(5, 0, 15), coded(1, 0, 9, 10), coded(19, 0, 1)]
    assert "most at β = 2: 9 of 10 runs" in own.judge_own(made(cells), "open").reason
    cells = [coded(0, 0, 10, 10), coded(0, 0, 20), coded(0, 0, 20)]
    assert "most at β = 2: 20 of 20 runs" in own.judge_own(made(cells), "open").reason


def test_a_claim_about_a_share_of_runs_is_left_to_ensembles():
    row = own.judge_own(made([coded(12, 8)], share=[0.5, 1.0]), "open")
    assert row.verdict == "not applicable" and "holds in 12 of 20 runs" in row.reason


def test_a_share_of_none_or_all_has_an_error():
    """The standard deviation of SciPy's Beta(k + 1, n − k + 1): a share uniform before the runs."""
    data = made([coded(20), coded(0, 0, 20), coded(7, 0, 13)])
    error = own.shares_of(data, "open")["open_error"].values
    expected = [stats.beta(k + 1, 21 - k).std() for k in (20, 0, 7)]
    np.testing.assert_allclose(error, expected)


def test_what_a_row_is_decides_the_code_of_a_run(monkeypatch):
    chance = sampled("c", "", 0.0, 1.0, 1e-9)
    for rows, code in (
        ([decide(True, "c", "", 0, 0, "")], own.HELD),
        ([decide(True, "c", "", 0, 0, ""), decide(False, "d", "", 0, 1, "")], own.REFUTED),
        ([chance], own.MISSED),
        ([sampled("c", "", 0.0, 1.0, 0.5)], own.HELD),
        ([not_applicable("c", "", "too short")], np.nan),
        ([], np.nan),
    ):
        monkeypatch.setattr(own, "ask", lambda run, claims, rows=rows: [rows])
        np.testing.assert_equal(own._read(lambda case: None, None), code)  # type: ignore


def test_runs_that_contradict_theory_are_counted_and_not_their_rows():
    """11 of 20 in one cell: told as 11 of 20, and at that cell."""
    sweep = Sweep.model_validate(SPEC | {"observables": ["disagreements"], "samples": 20,
                                         "repetitions": 1})  # fmt: skip
    shares = np.array([[0.0, 3], [11, 4]])[..., None] / 20
    dims = ("beta", "tokens", "repetition")
    data = xarray.Dataset(
        {"disagreements": (dims, shares), "done": (dims, np.ones((2, 2, 1), bool))},
        {"beta": [1.0, 3.0], "tokens": [4.0, 6.0], "repetition": [0]},
        {"sweep": sweep.model_dump(mode="json")},
    )
    (row,) = compare_sweep(data).rows
    assert (row.observed, row.verdict) == ("11 of 20 runs", "disagree")
    assert "at β = 3, n = 4" in row.reason
    # Both p are 0 in doubles: the larger share is the worse.
    data["disagreements"] = dims, np.array([[0.9, 0], [1, 0.9]])[..., None]
    many = sweep.model_copy(update={"samples": 2000}).model_dump(mode="json")
    (row,) = compare_sweep(data.assign_attrs(sweep=many)).rows
    assert (row.observed, row.p) == ("2000 of 2000 runs", 0.0)


def test_figures_of_an_opened_sweep(registered, tmp_path):
    """Labels lie inside the picture; ticks are the swept values; no cell has less than no token."""
    axes = {"field.beta": [1.0, 2.0, 9.0], "measure.tokens": [2, 10, 40]}
    run_sweep(Sweep.model_validate(SPEC | {"axes": axes, "samples": 2}), tmp_path / "s")
    figures = ms.report.figures_of(ms.open(tmp_path / "s"))
    names = "tilt", "tilt_error", "disagreements", "leans_right", "leans_right_error"
    assert set(names) <= set(figures)
    figure = figures["tilt"]
    assert figure.value.label.startswith("First coordinate of the first token at the start")
    assert figure.x_edges.tolist() == [0, 6, 25, 55]  # half way between 2, 10, 40, and not −2
    picture = draw(figure)
    width, height = laid_out(picture)
    ax, bar = picture.axes
    assert ax.get_xlim() == (0, 55) and ax.get_ylim() == (0.5, 12.5)
    assert ax.get_xticks().tolist() == [2, 10, 40] and ax.get_yticks().tolist() == [1, 2, 9]
    box = bar.yaxis.label.get_window_extent()
    assert box.x0 > 0 and box.x1 < width and box.y0 > 0 and box.y1 < height
    assert figures["leans_right"].value.limits == (0, 1)


@pytest.mark.parametrize(
    ("axes", "ticks", "at"),
    [
        ({"field.beta": [1.0, 4.0], "measure.tokens": [4]}, [1, 4], "at n = 4"),
        ({"field.beta": [2.0], "measure.tokens": [4]}, [4], "at β = 2"),
    ],
)
def test_axes_of_one_value_are_told_and_not_drawn(registered, tmp_path, axes, ticks, at):
    spec = SPEC | {"axes": axes, "observables": ["late_order", "disagreements"]}
    run_sweep(Sweep.model_validate(spec), tmp_path / "s")
    data = open_sweep(tmp_path / "s").load()
    figure = figures_of_sweep(data, Sweep.model_validate(data.attrs["sweep"]))["late_order"]
    assert figure.kind == "lines" and at in figure.caption
    assert list(figure.x.places) == ticks and len(figure.series) == 1  # no κ_#, drawn over maps
    assert report_sweep(tmp_path / "s").is_file()


def test_verdict_rows_of_a_user_stand_before_those_of_theory(registered, tmp_path):
    summary = run_sweep(Sweep.model_validate(SPEC), tmp_path / "s")
    assert [row.source == own.SOURCE for row in summary.verdicts.rows] == [True, False]
    assert all(isinstance(row, Verdict) for row in summary.verdicts.rows)


@pytest.fixture
def overall():
    """Claims about whole sweeps, and the files they came from, taken back afterwards."""
    before, files = list(own.OVERALL), dict(PLUGINS)
    yield
    own.OVERALL[:] = before
    PLUGINS.clear()
    PLUGINS.update(files)


def test_a_law_of_means_is_a_row_of_the_sweep(registered, overall, tmp_path, capsys):
    """The mean of the tilt by hand: its error is that of the starts, and p is the normal law's."""
    plugin = tmp_path / "law.py"
    plugin.write_text(
        """
import metastable as ms
from metastable.core.verdict import judge

@ms.register.claim(of="sweep")
def no_side_is_preferred(means):
    cell = means.isel(beta=0, tokens=0)
    mean, error = float(cell.tilt), float(cell.tilt_error)
    yield judge("mean tilt", "symmetry", 0.0, mean, error=error)
    yield judge("mean tilt, wrong", "a guess", 3.0, mean, error=error)

@ms.register.claim(of="sweep")
def needs_more(means):
    yield means.not_there

@ms.register.claim(of="sweep")
def silent(means):
    return None
"""
    )
    ms.register.load_plugin(plugin)
    sweep = Sweep.model_validate(SPEC | {"observables": ["tilt"]})  # which nothing else judges
    summary = run_sweep(sweep, tmp_path / "store")
    first, wrong, failed = summary.verdicts.rows
    cell = starts(sweep)[0, 0, :, 0]
    error = first.error
    mean = means(open_sweep(tmp_path / "store")).isel(beta=0, tokens=0)
    assert first.observed == pytest.approx(cell.mean(), abs=1e-12)
    assert error == pytest.approx(float(mean.tilt_error), rel=1e-12)
    assert first.p == pytest.approx(2 * stats.norm.sf(abs(first.observed) / error), rel=1e-9)
    assert (first.claim, first.verdict) == ("mean tilt (no_side_is_preferred)", "agree")
    assert wrong.verdict == "disagree" and wrong.p < 1e-4
    assert failed.verdict == "not applicable" and "AttributeError" in failed.reason
    said = answers(open_sweep(tmp_path / "store"), summary.verdicts)
    assert said[0].startswith("Your claim about the sweep, mean tilt (no_side_is_preferred): ")
    assert said[1].endswith("disagree.") and "is not judged" in said[2]
    page = report_sweep(tmp_path / "store").read_text()
    assert "mean tilt, wrong (no_side_is_preferred)" in page


def test_a_claim_is_about_runs_or_about_sweeps():
    with pytest.raises(ValueError, match="of must be 'run' or 'sweep'"):
        ms.register.claim(of="cell")
