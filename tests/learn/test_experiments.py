"""The experiments as a user runs them: facts, curves, page, command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from metastable import kinds
from metastable.cli.gaussian import learn
from metastable.core.checkpoint import Checkpoint
from metastable.core.outcome import Outcome
from metastable.core.result import Result
from metastable.learn import training
from metastable.learn.curves import Curves
from metastable.learn.spec import Classification
from metastable.report.drawing import draw
from metastable.report.figures.learning import plot_curves

app = typer.Typer()
app.command()(learn)
SMALL = ["--dim", "6", "--keys", "3", "--samples", "12"]


def ask(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_beta_from_the_command_line(tmp_path):
    done = ask("beta", *SMALL, "--steps", 5, "--exact", "--out", tmp_path, "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and told["outcome"] == "done" and told["out"] == str(tmp_path)
    assert told["layer"] == "exact, ε = 0.1"
    assert told["steps to 1e-12"]["Gauss–Newton"] <= 5
    assert len(told["data"]["loss"]["batch gradient"][0]) == 5
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    page = {"report.html", "loss.svg", "beta.svg"}
    assert files > page | {"spec.toml", "manifest.json", "verdicts.json"}
    assert kinds.open(tmp_path).facts["layer"] == told["layer"]


def test_matrices_resume_from_the_command_line(tmp_path, monkeypatch):
    words = ["matrices", *SMALL, "--batch", 4, "--epochs", 6, "--optimizer", "adam"]
    whole, out = ask(*words, "--json"), tmp_path / "a"
    save, saves = Checkpoint.save, []

    def cut(self, state):
        save(self, state)
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", cut)
        assert ask(*words, "--out", out).exit_code == 130
    assert (out / "unfinished" / "training.npz").exists()
    again = ask(*words, "--out", out, "--json")
    facts = [json.loads(done.stdout) | {"out": None} for done in (whole, again)]
    assert [each.pop("seconds in steps") > 0 for each in facts] == [True, True]
    assert facts[0] == facts[1]
    assert "already holds this run" in str(ask(*words, "--out", out).exception)


def test_divergence_is_told_with_exit_code_1():
    words = ["matrices", *SMALL, "--epochs", 60, "--rate", 1e4]
    done = ask(*words)
    assert done.exit_code == 1 and "diverged: The loss left every bound" in done.stdout
    assert "NaN" not in ask(*words, "--json").stdout


def test_an_interrupt_before_the_first_look_keeps_an_answer(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "_diverged", interrupt)
    done = ask("matrices", *SMALL, "--epochs", 2, "--json")
    assert done.exit_code == 130 and json.loads(done.stdout)["outcome"] == "interrupted"


@pytest.mark.parametrize(
    "words, told",
    [
        (["gamma"], "what must be one of beta, depth, matrices, tokens, steering; got 'gamma'"),
        (["beta", "--epochs", "3"], "unknown key epochs; got 3"),
        (["matrices", "--optimizer", "magic"], "optimizer must be 'sgd', 'adam' or 'levenberg'"),
    ],
)
def test_refusals(words, told):
    assert told in str(ask(*words).exception)


def test_curves_leave_zeros_out_of_the_logarithmic_panel():
    y = np.array([1.0, 0.0, 0.01])
    curves = Curves("step", "loss", {"a": (np.arange(3), y)}, {"level": 0.5}, "told")
    figure = draw(plot_curves(curves))
    linear, log = figure.axes
    assert linear.get_lines()[0].get_ydata().tolist() == y.tolist()
    assert log.get_lines()[0].get_ydata().tolist() == [1.0, 0.01] and log.get_yscale() == "log"
    assert figure.get_label() == "told"


def test_a_result_prints_its_facts():
    facts = {"rate": 0.1, "β": {"Newton": 1.0}}
    result = Result(Classification(), Outcome("done", "It is."), facts, sentence="short")
    assert str(result).splitlines() == [
        "short",
        "  rate     0.1",
        "  β        Newton 1",
        "  outcome  done: It is.",
    ]
