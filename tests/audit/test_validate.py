"""Error rates of audits whose truth is known: how they are counted, and that errors show."""

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from metastable.audit import error_rates, validate
from metastable.audit.error_rates import clustered_rate, error_sentence, tabulate
from metastable.audit.spec import AuditConfig
from metastable.audit.trainings import choose_members, make_case
from metastable.audit.validate import CENTURY, NULL, Draws, _Pool
from metastable.cli.audit import app
from tests.audit.rows import WORDS


def records(hits, per_training):
    """Audits of trainings, `hits` of `per_training` in each found."""
    return [
        {"kind": "basic", "repetitions": 1, "deal": k, "found": j < count}
        for k, count in enumerate(hits)
        for j in range(per_training)
    ]


def found(row):
    return row["found"]


def test_a_rate_of_independent_audits_has_the_exact_limit():
    """Oracle: SciPy's Clopper–Pearson, of 3 hits in 40."""
    told = clustered_rate(records([1, 1, 1] + [0] * 37, 1), found)
    expected = stats.binomtest(3, 40, alternative="less").proportion_ci(0.95, "exact").high
    assert told["rate"] == 3 / 40
    assert told["limit"] == pytest.approx(expected)
    assert told["limit_clustered"] == pytest.approx(expected, rel=0.05)
    assert clustered_rate(records([0] * 30, 10), found)["limit"] == pytest.approx(
        1 - 0.05 ** (1 / 300)
    )


def test_audits_that_repeat_their_training_count_once():
    """All or nothing in each of 20 trainings: 50 audits of each tell no more than one would."""
    told = clustered_rate(records([50] * 4 + [0] * 16, 50), found)
    once = clustered_rate(records([1] * 4 + [0] * 16, 1), found)
    assert told["limit"] < 0.25 < once["limit"]
    assert told["limit_clustered"] == pytest.approx(once["limit_clustered"], rel=1e-6)


def make_pool(shift=0.0, by_century=0.0, size=120, seed=0):
    """Documents of two centuries, written in other words; members are likelier to M by `shift`."""
    random = np.random.default_rng([seed, 3])
    names = [f"{1800 + 100 * (k % 2) + 50}-{k}" for k in range(size)]
    members, words = names[: size // 2], {"18": WORDS[:24], "19": WORDS[6:]}
    rows = []
    for name in names:
        nll = float(random.normal(2, 0.3)) - shift * (name in members)
        nll -= by_century * name.startswith("18")
        base = {"item": name, "document": name, "group": "control", "generator": "likelihood"}
        rows.append(base | {"budget": 0, "nll": nll, "min_k": -3 * nll + random.normal()})
    texts = {name: " ".join(random.choice(words[name[:2]], 60)) for name in names}
    return _Pool({"members": members}, {"items": rows}, texts)


def judge(pool, what, count=12, size=20):
    draws = Draws(documents=(size,), overlaps=(0.5,), null=count, shifted=count, positive=count)
    deals = pool.deals(draws, np.random.default_rng(0))
    return [
        pool.audit(*sets, 0.01, seed=k, always=what == CENTURY)
        for k, (case, _, sets) in enumerate(deals)
        if case == what
    ]


def test_what_was_seen_is_found_and_what_was_not_is_not():
    pool = make_pool(shift=2.0)
    assert sum(told.found for told in judge(pool, "seen")) >= 9  # 95 % each, but for the blind one
    assert not any(told.found for told in judge(pool, NULL))


def test_a_control_of_another_century_ends_in_cannot_tell(monkeypatch):
    """Documents of one century are likelier to M: without the blind check, findings are false."""
    pool = make_pool(by_century=1.0)
    told = judge(pool, CENTURY, count=4, size=25)
    assert [one.trained_on.word for one in told] == ["cannot tell"] * 4
    monkeypatch.setattr(validate, "separate_blindly", lambda *_, **__: validate.UNASKED)
    # In every other one the likelier century is the control.
    assert [one.found for one in judge(pool, CENTURY, count=4, size=25)] == [True, False] * 2


def test_intervals_hold_the_truth_of_their_pool():
    """Evidence that is normal: nominal 95 %; 180 draws hold it in 88 % or more but once in 10⁴."""
    draws = Draws(documents=(40,), overlaps=(0.25, 0.5, 1.0), coverage=60)
    told = list(make_pool(shift=0.4).cover(draws, np.random.default_rng(1), {}))
    for name in ("area, trained on", "effect, trained on", "share trained on, lower limit"):
        own = [row["covered"] for row in told if row["interval"] == name]
        assert np.mean(own) >= 0.88, name


def test_members_are_a_random_half_and_windows_are_apart():
    case = make_case(validate.QUICK[0], 0, "basic")
    items = choose_members(case.split.items, 1)
    members = {item.document for item in items if item.group == "member"}
    other = {i.document for i in choose_members(case.split.items, 2) if i.group == "member"}
    assert len(members) == len(items) // 2 and 8 < len(members & other) < 32  # 20 expected
    seen = {text for _, text in case.split.background}
    assert not seen & {item.text for item in items}


def test_a_quick_validation_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    settings, draws = validate.QUICK
    train, calls = validate.collect_training, []

    def stopped(training, **told):
        calls.append(training)
        if training.repetitions:
            raise KeyboardInterrupt
        train(training, **told)

    with monkeypatch.context() as patch:
        patch.setattr(validate, "collect_training", stopped)
        cut = CliRunner().invoke(app, ["validate", "--quick", "--out", str(tmp_path / "new")])
    assert cut.exit_code == 130
    assert "(0 of 1 trainings are done): run the same command again to go on" in cut.stderr
    before = (tmp_path / "new" / "trainings" / "basic-0-0" / "training.json").stat().st_mtime_ns
    done = CliRunner().invoke(
        app, ["validate", "--quick", "--out", str(tmp_path / "new"), "--json"]
    )
    assert done.exit_code == 0, done.exception
    kept = (tmp_path / "new" / "trainings" / "basic-0-0" / "training.json").stat().st_mtime_ns
    assert kept == before
    table = json.loads(done.stdout)
    null = [row for row in table["false"] if row["case"] == NULL]
    assert [row["audits"] for row in null] == [draws.null] * 2
    (power,) = table["power_by"]
    assert (power["audits"], power["documents"], power["overlap"]) == (1, 20, 0.5)
    assert len(table["coverage"]) == 11 and table["trainings"] == len(settings.trainings())
    assert (tmp_path / "new" / "report.html").read_text().count("<svg") == 1
    again = validate.validate(tmp_path / "new", quick=True)
    assert again["false"] == table["false"] and again["coverage"] == table["coverage"]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        validate.validate(tmp_path / "full", quick=True)


def test_the_sentence_chooses_the_nearest_case():
    base = {"deal": 0, "level": 0.01, "reproduces": "no evidence"}
    audits = [
        base
        | {"kind": "gpt2", "repetitions": r, "case": "seen", "overlap": 0.5, "documents": n}
        | {"found": f, "trained_on": "trained on" if f else "no evidence"}
        for r, n, f in [(1, 50, False), (1, 50, True), (10, 50, True), (10, 100, False)]
    ]
    null = {"kind": "gpt2", "repetitions": 1, "case": NULL, "overlap": 0.0, "documents": 50}
    audits += [base | null | {"found": False, "trained_on": "no evidence"}] * 300
    table = tabulate(audits)
    config = AuditConfig.model_validate(
        {"corpus": {"path": "texts"}, "model": {"family": "folder", "path": "model"}}
    )
    told = error_sentence(table, config, [60, 60])
    assert "In 300 audits" in told and "found something in 0 (1.0% at most" in told
    assert "fine-tuned GPT-2" in told and "with 50 documents" in told
    assert "50% where these were read as often," in told and "100% where these were read 10" in told
    assert "unlike" not in told and "may differ" in told
    assert "unlike any" in error_sentence(table, config, [1000, 1000])
    other = config.altered(model__family="gru", model__path=None)
    assert "No case there is like this one" in error_sentence(table, other, [60, 60])


def test_the_table_that_is_shipped_meets_its_targets():
    """False findings at most 2 % (95 %), power at least 90 %, coverage at least 92 %."""
    table = error_rates.read_table()
    if table is None:
        pytest.skip("no table is shipped")
    assert table["trainings"] >= 60 and table["command"] == "metastable audit validate"
    (null,) = (r for r in table["false"] if (r["case"], r["level"]) == (NULL, 0.01))
    assert null["audits"] >= 2000 and null["found_rate"]["limit_clustered"] <= 0.02
    (strong,) = (r for r in table["power"] if (r["repetitions"], r["overlap"]) == (10, 0.5))
    assert strong["found"] / strong["audits"] >= 0.9
    assert all(r["draws"] >= 500 and r["covered"]["rate"] >= 0.92 for r in table["coverage"])
