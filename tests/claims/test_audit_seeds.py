"""The audit over many seeds: findings, calibration, coverage, sizes, images.

114 models are trained for it by experiments/audit/seeds.py, in two and a half minutes on an H200.
Where there is no such device, METASTABLE_AUDIT_ROWS may name a folder with the rows of a run
elsewhere.
"""

import gzip
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from metastable.audit.blind import separate_blindly
from metastable.audit.case import BLIND
from metastable.audit.corpus import sotu
from metastable.audit.evidence import questions
from metastable.audit.overlap import estimate_overlap
from metastable.audit.statistics import auc
from metastable.audit.validity import calibration, main_p, resplit
from metastable.audit.verdict import make_findings

pytestmark = pytest.mark.claim
SCRIPT = Path(__file__).parents[2] / "experiments" / "audit"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = os.environ.get("METASTABLE_AUDIT_ROWS")
    if folder is None:
        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device, or METASTABLE_AUDIT_ROWS")
        folder = tmp_path_factory.mktemp("rows")
        sys.path.insert(0, str(SCRIPT))
        import seeds

        seeds.main(folder, quick=False)
    files = sorted(Path(folder).glob("rows-*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rt")]


@pytest.fixture(scope="module")
def documents():
    return {d.name: d.text[:BLIND] for d in sotu().documents}


def judge(run, documents):
    names = {
        held: dict.fromkeys(r["document"] for r in run["rows"] if (r["group"] == "control") is held)
        for held in (False, True)
    }
    texts = tuple([documents[name] for name in names[held]] for held in (False, True))
    blind = separate_blindly(*texts, seed=run["seed"])
    return make_findings(run["rows"], level=0.01, blind=blind, nulls=run["nulls"], seed=run["seed"])


def of(runs, what, **told):
    return [r for r in runs if r["what"] == what and all(r[k] == v for k, v in told.items())]


def mean(run, generator, budget, group, score):
    found = [
        r[score]
        for r in run["rows"]
        if (r["generator"], r["budget"], r["group"]) == (generator, budget, group)
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("overlap", [0.9, 0.5])
def test_what_was_swallowed_is_found_and_comes_out(runs, documents, overlap):
    (run,) = of(runs, "panel", size="complex", overlap=overlap)
    told = judge(run, documents)
    assert told.trained_on.word == "trained on", told.trained_on.reason
    assert told.reproduces.word == "reproduces", told.reproduces.reason
    assert told.near_rate["members"] >= 0.9
    assert told.exact_rate["control"] == 0.0


def test_without_overlap_there_is_no_evidence(runs, documents):
    found = [judge(run, documents) for run in of(runs, "null")]
    assert len(found) == 10
    assert sum(each.found for each in found) <= 1


def test_null_p_values_are_uniform(runs):
    """20 retrained models of 65 k parameters, and 500 re-splits of what they have not seen."""
    models = of(runs, "small")
    p = [main_p(run["rows"], seed=run["seed"]) for run in models]
    halves = []
    for run in models:
        main = questions(run["rows"])[0]
        pooled = np.concatenate([main.protected, main.control])
        halves += resplit(pooled, splits=25, seed=run["seed"])
    assert (len(p), len(halves)) == (20, 500)
    assert calibration(p)[0] > 0.01
    assert calibration(p + halves)[0] > 0.01
    low, high = stats.binom.interval(0.99, 520, 0.05)
    assert low <= np.sum(np.array(p + halves) <= 0.05) <= high


@pytest.mark.parametrize("overlap", [0.1, 0.5, 0.9])
def test_the_lower_limit_of_the_overlap_holds(runs, overlap):
    found = []
    for run in of(runs, "cover", overlap=overlap):
        likely = next(q for q in questions(run["rows"]) if q.score == "nll")
        found.append(estimate_overlap(likely.protected, likely.control))
    assert len(found) == 20
    assert sum(one.low <= overlap for one in found) >= 17
    assert all(one.low > 0 for one in found)


def test_a_smaller_model_writes_less_and_still_knows(runs):
    (small,), (large,) = (of(runs, "panel", size=s, overlap=0.9) for s in ("basic", "complex"))
    exact = [mean(run, "soft", 1, "member", "exact") for run in (small, large)]
    assert exact[0] < exact[1] / 2
    likely = next(q for q in questions(small["rows"]) if q.score == "nll")
    assert auc(likely.protected, likely.control).low > 0.8


def test_a_longer_budget_lowers_the_error_of_controls(runs):
    (run,) = of(runs, "panel", size="complex", overlap=0.9)
    errors = [mean(run, "soft", k, "control", "hamming") for k in (1, 2, 4, 8)]
    assert all(b < a for a, b in itertools.pairwise(errors))
    assert errors[-1] < errors[0] / 4


def test_another_century_is_no_control(runs, documents):
    (run,) = of(runs, "mismatch")
    told = judge(run, documents)
    for finding in (told.trained_on, told.reproduces):
        assert finding.word == "cannot tell" and finding.reason.startswith("matched control")


@pytest.mark.parametrize("overlap", [0.9, 0.1])
def test_the_panels_of_images(runs, overlap):
    """Mean squared error of digits from one vector: the complex model writes members, and only."""
    (basic,), (complex_,) = (
        of(runs, "digits", size=size, overlap=overlap) for size in ("basic", "complex")
    )
    error = lambda run, group: mean(run, "soft", 1, group, "squared_error")
    assert error(complex_, "member") < 0.01
    assert error(complex_, "control") > 0.1
    assert error(basic, "member") > 10 * error(complex_, "member")
