"""What a sweep says of its observables: against known trends, and noise alone."""

import numpy as np
import pytest
import xarray
from scipy import stats

from metastable.core.verdict import Comparison, Verdict
from metastable.sweep.dependence import dependence, say
from metastable.sweep.observables import in_words
from metastable.sweep.profiles import LEVEL, chance, left_open, profiles
from metastable.sweep.rows import claim_of, observable_of, reason_of, row_in_words
from metastable.sweep.status import answers

BETAS, TOKENS = np.array([1.0, 2.0, 4.0, 8.0]), np.array([10, 20, 40])


def diagram(means, error=0.01, **axes):
    """Means over axes (β and n unless told), each with the same standard error."""
    axes = axes or dict(zip(("beta", "tokens"), (BETAS, TOKENS), strict=False))
    dims = list(axes)[: np.ndim(means)]
    values = xarray.DataArray(means, dims=dims, coords={dim: axes[dim] for dim in dims})
    return values, values.copy(data=np.full(np.shape(means), error))


def sampled(draws):
    """Means and standard errors of runs, which are the last axis."""
    values, _ = diagram(draws.mean(-1))
    return values, values.copy(data=stats.sem(draws, axis=-1)), draws.shape[-1]


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ([1, 2, 3, 4], "{rises|rise} from 1 ± 0.01 at β = 1 to 4 ± 0.01 at β = 8"),
        ([4, 2, 1, 0.5], "{falls|fall} from 4 ± 0.01 at β = 1 to 0.5 ± 0.01 at β = 8"),
        ([1, 3, 2.5, 1], "{rises|rise} from 1 ± 0.01 at β = 1 to 3 ± 0.01 at β = 2, then "
         "{falls|fall} to 1 ± 0.01 at β = 8"),
        ([3, 1, 2, 3], "{falls|fall} from 3 ± 0.01 at β = 1 to 1 ± 0.01 at β = 2, then "
         "{rises|rise} to 3 ± 0.01 at β = 8"),
        ([2, 3, 1, 2], "{goes|go} up and down along β, lowest 1 ± 0.01 at β = 4, highest "
         "3 ± 0.01 at β = 2"),
        ([np.nan, 2, 3, 4], "{rises|rise} from 2 ± 0.01 at β = 2 to 4 ± 0.01 at β = 8, with no "
         "value at β = 1"),
        ([np.nan, np.nan, 3, np.nan], "{is|are} 3 ± 0.01 at β = 4"),
        ([np.nan] * 4, "{has|have} no value yet"),
    ],
)  # fmt: skip
def test_a_course_that_is_known_is_told(means, words):
    values, errors = diagram(np.array(means, float))
    told = dependence(values, errors, 16)
    assert told.replace(".00 ±", " ±").replace("0.50 ±", "0.5 ±") == words


def test_axes_are_told_apart():
    strong, weak = np.array([0.0, 1.0, 2.0, 3.0])[:, None], np.array([0.0, 0.05, 0.1])
    told = dependence(*diagram(strong + weak), 16)
    assert told.startswith("{rises|rise} from 0.05") and "at β = 8 and hardly {depends" in told
    assert told.endswith("depend} on n (at most 0.1 apart)")
    told = dependence(*diagram(strong + 0 * weak), 16)
    # The mean of twelve cells, each 0.01 off: 0.01/√12.
    assert "{averages|average} within errors 1.500 ± 0.003 over all n from 10 to 40 (" in told
    turned = (BETAS[:, None] - 4) * np.array([-1.0, 0.0, 2.0])
    told = dependence(*diagram(turned), 16)
    assert "on β in both directions, rising at n = 40 and falling at n = 10" in told
    cases = dependence(*diagram(np.array([1.0, 3.0]), start=np.array(["even", "random"])), 16)
    assert cases.startswith("{is|are} highest, 3.00 ± 0.01 at start = random, and lowest, 1.00")


def test_one_run_a_cell_has_no_errors_and_the_words_say_so():
    values, errors = diagram(np.array([1.0, 2.0, 3.0, 4.0]), np.nan)
    told = dependence(values, errors, 1)
    assert told == "{rises|rise} from 1 at β = 1 to 4 at β = 8; one run a cell, no errors known"


DRAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uneven": lambda rng, shape: rng.normal(size=shape) * np.array([1.0, 1, 1, 9])[:, None, None],
    "counts": lambda rng, shape: rng.poisson(0.3, shape).astype(float),
    "coins": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("runs", [2, 4, 16])
def test_noise_alone_depends_on_nothing(kind, runs):
    """At most `LEVEL` of diagrams of noise are said to depend on something.

    600 diagrams: the bound is exceeded by chance in less than 1e−4 of the cases at that level.
    """
    rng = np.random.default_rng([runs, *kind.encode()])
    wrong = sum(
        not dependence(*sampled(DRAWS[kind](rng, (4, 3, runs)))).startswith("{is|are} ")
        for _ in range(600)
    )
    assert wrong <= stats.binom.isf(1e-4, 600, LEVEL)


def test_a_trend_of_three_errors_is_seen():
    """A rise of one standard deviation over four places, with 3 · 16 runs at each."""
    rng = np.random.default_rng(0)
    rise = np.linspace(0, 1.0, 4)[:, None, None]
    told = [dependence(*sampled(rng.normal(size=(4, 3, 16)) + rise)) for _ in range(50)]
    assert sum("over all β" in each for each in told) <= 5
    assert sum("over all n" in each or "and n from" in each for each in told) >= 45


def test_what_is_alike_within_errors_has_a_value_and_a_bound():
    """Never "does not depend": 0.01/√4 for the mean, Student's t for six pairs at 5 % together."""
    told = dependence(*diagram(np.full(4, 2.0)), 16)
    bound = stats.t.isf(0.025 / 6, 15) * np.hypot(0.01, 0.01)
    assert told == (
        "{is|are} within errors 2.000 ± 0.005 over all β from 1 to 8 "
        f"(differences up to {bound:.2g} are not excluded)"
    )
    told = dependence(*diagram(np.full((4, 3), 2.0)), 16)
    assert "over all β from 1 to 8 and all n from 10 to 40 (differences up to" in told
    assert "along β and" in told and told.endswith("along n are not excluded)")
    assert dependence(*diagram(np.full(4, 2.0), 0.0), 16) == "{is|are} 2 over all β from 1 to 8"
    told = dependence(*diagram(np.full(4, 2.0), np.nan), 1)
    assert told == "{is|are} 2 over all β from 1 to 8; one run a cell, no errors known"


def test_the_bound_holds_as_often_as_it_says():
    """A true rise by 0.5 over five places: under the bound in 95 % of 1000 diagrams at least."""
    rng, rise = np.random.default_rng(5), np.linspace(0, 0.5, 5)
    bounds = []
    for _ in range(1000):
        draws = rng.normal(size=(5, 8)) + rise[:, None]
        bounds.append(left_open(draws.mean(1), stats.sem(draws, axis=1), 7))
    assert sum(bound < 0.5 for bound in bounds) <= stats.binom.isf(1e-4, 1000, 0.05)


def test_cells_that_share_random_numbers_do_not_average_them_out():
    """The same noise in every cell of a column: its error is that of one cell, not of twelve."""
    values, errors = diagram(np.ones((4, 12)), 0.3, beta=BETAS, tokens=np.arange(12))
    (free, _), (tied, _) = (profiles(values, errors, 8, each) for each in (False, True))
    np.testing.assert_allclose(free.errors, 0.3 / np.sqrt(12))
    np.testing.assert_allclose(tied.errors, 0.3)


def test_times_of_one_cell_add_up_in_full():
    """Errors at several times are of the same runs: the mean over times keeps them whole."""
    values, errors = diagram(np.ones((4, 5)), 0.3, beta=BETAS, time=np.arange(5.0))
    beta = profiles(values, errors, 8, False)[0]
    assert beta.dim == "beta"
    np.testing.assert_allclose(beta.errors, 0.3)


def test_chance_is_that_of_known_tests():
    """SciPy's one-way analysis of variance and Welch's t-test, without errors drawn together."""
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(5, 400)) + np.linspace(0, 0.1, 5)[:, None]
    means, errors = draws.mean(1), stats.sem(draws, axis=1)
    assert chance(means, errors, 400) == pytest.approx(stats.f_oneway(*draws).pvalue, rel=0.15)
    two = rng.normal(size=(2, 400)) * np.array([[1.0], [4.0]]) + np.array([[0.0], [0.4]])
    welch = stats.ttest_ind(*two, equal_var=False).pvalue
    assert chance(two.mean(1), stats.sem(two, axis=1), 400) == pytest.approx(welch, rel=0.05)
    # Six ways to deal 4 4 5 5 to two places; 20!/(2!)^10 to deal ten pairs to ten.
    assert chance(np.array([4.0, 5.0]), np.zeros(2), 2) == pytest.approx(2 / 6)
    assert chance(np.arange(10.0), np.zeros(10), 2) < 1e-6


def test_sentences_have_names_and_verbs_that_fit():
    assert say("clusters", "clusters by linkage", "{falls|fall}") == "Clusters fall"
    assert say("late_order", "mean of the second half", "{falls|fall}") == (
        "Late order (mean of the second half) falls"
    )
    assert say("gap", "Smallest angle", "{is|are} 2") == "Gap (“Smallest angle”) is 2"


def test_an_axis_shows_what_a_user_wrote():
    assert in_words("gap", "Smallest angle") == ("Smallest angle", "Smallest angle (gap)")
    assert in_words("gap", "x" * 121) == ("gap", f"{'x' * 121} (gap)")
    assert in_words("order", "order parameter") == ("order parameter", "order parameter")


def row(name, verdict, reason=""):
    return Verdict(claim_of("mean number", name), "", 2.0, 2.5, "", verdict, reason, error=0.25)


def opened(**observables):
    """An opened sweep of one repetition, with everything done."""
    data = xarray.Dataset({
        name: (("beta", "repetition"), np.array(values, float)[:, None])
        for name, values in observables.items()
    }, coords={"beta": BETAS, "repetition": [0]})  # fmt: skip
    data["done"] = (("beta", "repetition"), np.ones((4, 1), bool))
    return data.assign_attrs(sweep={"observables": list(observables), "samples": 1})


def test_the_answer_puts_theory_before_the_rest_of_the_library():
    data = opened(order=[1, 2, 3, 4], rank=[4, 3, 2, 1], energy=[1, 1, 1, 1])
    reason = reason_of(3, "β = 4", ["too short"])
    rows = row("rank", "agree", reason), row("energy", "not applicable", "the start is not uniform")
    first, *more = answers(data, Comparison(rows, "none"))
    assert first == (
        "Theory and runs agree on mean number, in 3 of 4 cells; where it fits least, at β = 4: "
        "2.5 observed, 2 ± 0.2 expected."
    )
    assert more[0].startswith("Order rises from 1 at β = 1 to 4 at β = 8")
    assert more[1].startswith("Energy is 1 over all β from 1 to 8; one run a cell")
    assert more[1].endswith("(theory is silent: the start is not uniform).") and len(more) == 2
    rows = row("rank", "agree", reason), row("order", "disagree", reason)
    assert answers(data, Comparison(rows, "none"))[0].startswith("Theory and runs disagree")
    data["done"][0] = False
    assert answers(data)[-1] == "3 of 4 cells are done."
    mine = opened(order=[1, 2, 3, 4], rank=[4, 3, 2, 1], mine=[1, 1, 1, 2])
    assert answers(mine, Comparison(rows, "none"))[0].startswith("Mine")
    many = opened(**{f"own_{k}": [1, 2, 3, 4] for k in range(5)})
    assert answers(many)[-1] == "2 more observables stand in the figures."


def test_rows_are_read_back_from_their_words():
    assert observable_of(row("late_order", "agree")) == "late_order"
    assert observable_of(Verdict("a claim", "", 1.0, 1.0, "", "agree")) == ""
    told = row_in_words(row("rank", "agree", reason_of(1, "β = 2, n = 8", [])))
    assert told == "mean number, at β = 2, n = 8: 2.5 observed, 2 ± 0.2 expected"
    assert "in all 7 cells" in row_in_words(row("rank", "agree", reason_of(7, "β = 2", [])))
    assert row_in_words(row("rank", "agree")) == "mean number: 2.5 observed, 2 ± 0.2 expected"
