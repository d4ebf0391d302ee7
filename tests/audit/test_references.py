"""Scores from several models, against definitions written out slowly or SciPy."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from scipy import stats

from metastable.audit import scores
from metastable.audit.collect import collect
from metastable.audit.evidence import questions
from metastable.audit.references import combine, lira, mean_nll, rmia, trajectory
from metastable.audit.statistics import permutation_p
from tests.audit.small import write_texts
from tests.audit.test_cli_audit import HF, ask, write_gpt2

RANDOM = np.random.default_rng(4)


def logit(nll):
    p = math.exp(-nll)
    return math.log(p / (1 - p))


@pytest.mark.parametrize("count", [3, 100])
def test_lira_is_a_ratio_of_normal_laws(count):
    """Against SciPy's normal law; below 64 models the deviation is 1 (arXiv:2112.03570)."""
    out, inside = RANDOM.normal(2.0, 0.1, count), RANDOM.normal(1.5, 0.2, count)
    laws = []
    for values in (out, inside):
        phi = [logit(v) for v in values]
        laws.append(stats.norm(np.mean(phi), np.std(phi, ddof=1) if count >= 64 else 1.0))
    own = logit(1.6)
    online = laws[1].logpdf(own) - laws[0].logpdf(own)
    assert lira(1.6, out, inside) == pytest.approx(online, rel=1e-9)
    assert stats.norm.cdf(lira(1.6, out)) == pytest.approx(laws[0].cdf(own), rel=1e-9)


@pytest.mark.parametrize(("gamma", "trust"), [(1.0, 1.0), (2.0, 0.3)])
def test_rmia_counts_dominated_items(gamma, trust):
    """Against all pairs (arXiv:2312.03262)."""
    own, out = RANDOM.uniform(0.5, 3, 30), RANDOM.uniform(0.5, 3, 30)
    ratio = [
        math.exp(-a) / (0.5 * ((1 + trust) * math.exp(-b) + (1 - trust)))
        for a, b in zip(own, out, strict=True)
    ]
    expected = [
        np.mean([ratio[x] / ratio[z] >= gamma for z in range(30) if z != x]) for x in range(30)
    ]
    assert rmia(own, out, gamma=gamma, trust=trust) == pytest.approx(expected, abs=1e-12)


def test_means_and_slopes_over_models():
    values = RANDOM.uniform(1, 4, 5)
    assert mean_nll(values) == pytest.approx(-math.log(np.mean(np.exp(-values))))
    mean, slope = trajectory(values)
    assert mean == pytest.approx(np.mean(values))
    assert slope == pytest.approx(np.polyfit(np.arange(5), values, 1)[0])


def test_min_k_pp_and_reference_ratio_of_a_model_are_those_of_its_laws(memorised):
    """arXiv:2404.02936 token by token, from the whole law of the model, in double precision."""
    split, fitted = memorised
    target, items = fitted.target, split.items[:3]
    rows = collect(target, items, [], reference=target, others=[target], checkpoints=[target])
    for row, item in zip(rows, items, strict=True):
        ids = [target.alphabet.opening, *target.alphabet.encode(item.text)]
        with torch.no_grad():
            laws = target.model.forward_embeddings(target.model.embed(torch.tensor([ids])))[0]
        each, logs = [], []
        for law, token in zip(laws[:-1].double().tolist(), ids[1:], strict=True):
            mu = sum(math.exp(v) * v for v in law)
            sigma = math.sqrt(sum(math.exp(v) * (v - mu) ** 2 for v in law))
            each.append((law[token] - mu) / sigma)
            logs.append(law[token])
        lowest = sorted(each)[: max(1, int(0.2 * len(each)))]
        assert row["min_k_pp"] == pytest.approx(np.mean(lowest), rel=1e-3)
        assert row["nll"] == pytest.approx(-np.mean(logs), rel=1e-5)
        # A model beside itself: ratio 1, no distance, no slope.
        assert row["reference_ratio"] == pytest.approx(1, rel=1e-5)
        assert row["lira"] == row["slope"] == pytest.approx(0, abs=1e-4)
        assert row["trajectory"] == pytest.approx(row["nll"], rel=1e-5)
    assert scores.score_in_words("rmia").endswith("(RMIA)")


def test_only_scores_whose_models_are_given_are_asked(memorised):
    split, fitted = memorised
    names = lambda **more: [
        q.score for q in questions(collect(fitted.target, split.items, [], **more))
    ]
    base = ["nll", "min_k", "min_k_pp", "zlib_ratio"]
    one = {"reference": fitted.target}
    assert names() == base and names(**one) == [*base, "reference_ratio"]
    several = [*base, "reference_ratio", "lira", "rmia"]
    assert names(**one, others=[fitted.target]) == several
    assert names(checkpoints=[fitted.target]) == [*base, "trajectory", "slope"]


def test_combined_scores_are_exact_where_nothing_is_and_strong_where_all_help():
    """300 null sets: uniform p-values (Kolmogorov–Smirnov). Five weak scores: above the best."""
    p_values, both = [], []
    for seed in range(300):
        random = np.random.default_rng([seed, 3])
        null = random.standard_t(3, (60, 5)), random.standard_t(3, (60, 5))
        p_values.append(permutation_p(*combine(*null, seed=seed), draws=199, seed=seed))
        if seed < 20:
            x, y = random.normal(0.5, 1, (120, 5)), random.normal(0, 1, (120, 5))
            one = permutation_p(x[:, 0], y[:, 0], draws=999, seed=seed)
            both.append((one, permutation_p(*combine(x, y, seed=seed), draws=999, seed=seed)))
    assert stats.kstest(p_values, "uniform").pvalue > 0.001
    # Means 0.5√5 apart in units of the deviation, 60 against 60: t is 6.1; one score alone 3.9.
    assert np.median([p for _, p in both]) == 1e-3


def test_an_audit_with_references_and_checkpoints_is_verified(tmp_path):
    write_texts(tmp_path / "texts", documents=72, words=6)
    texts = [p.read_text()[:16] for p in sorted((tmp_path / "texts").glob("*.txt"))]
    for name, own in (("protected", texts[:24]), ("control", texts[24:48])):
        lines = (json.dumps({"text": text}) for text in own)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    for name, own, steps in (
        ("gpt2", texts[:24] + texts[48:], 100),
        ("early", texts[:24] + texts[48:], 15),
        ("one", texts[48:], 60),
    ):
        write_gpt2(tmp_path / name, own, steps)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    more = 'path = "gpt2"\nreference = ["one", "two"]\ncheckpoints = ["early"]\n'
    config = HF.replace('path = "gpt2"\n', more).replace("= 16\nlength", "= 24\nlength")
    config = "dataset_inference = true\n" + config.replace("items = 16", "items = 24")
    (tmp_path / "config.toml").write_text(
        config.split("[[generators]]")[0] + "[[generators]]" + config.split("[[generators]]")[2]
    )
    planned = ask("plan", tmp_path / "config.toml", "--out", tmp_path / "run")
    assert planned.exit_code == 0, planned.exception
    done = ask("run", tmp_path / "config.toml", "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)["trained_on"]
    assert told["finding"] == "trained on"
    asked = [question["score"] for question in told["questions"]]
    assert asked[-5:] == ["lira", "rmia", "trajectory", "slope", "combined"] and len(asked) == 10
    verified = ask("verify", tmp_path / "run", "--json")
    assert verified.exit_code == 0, verified.stdout
    named = {check["name"] for check in json.loads(verified.stdout)["checks"]}
    assert {"reference", "reference_2", "checkpoint_1"} <= named
