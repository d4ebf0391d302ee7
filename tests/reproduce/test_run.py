"""The runner: resumes, survives an entry that raises, and answers in JSON."""

import json
import subprocess
import sys

import pytest

from metastable.comparison.verdict import judge
from metastable.reproduce import choose, reproduce, run, single_cluster
from metastable.reproduce.finding import Finding


def found(*, sizes, draws):
    """A quick stand-in for the work of an entry."""
    from metastable.report.plots import draw_bars, draw_lines

    figure = draw_lines(
        {"a": ([1, 2], [1.0, 2.0], [0.1, 0.1])}, "n", "share", "A <caption> & more."
    )
    other = draw_bars(["one", "two"], {"a": [1, 2], "b": [2, 1]}, "size", "count", "Bars.")
    rows = [
        judge("a", "b", 1.0, 2.0, absolute=0.1),
        judge("c", "d", 1.0, float(draws > 0), absolute=0),
    ]
    return Finding(rows, {"lines": figure, "bars": other}, ["A <remark>."])


def test_a_finished_entry_is_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr(single_cluster, "wendel", found)
    first = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert (first["disagree"], first["resumed"], first["surprises"]) == (1, 0, [])
    record = first["entries"][0]
    wanted = {"name", "seed", "claim", "expected", "observed", "verdict", "seconds", "figure"}
    assert wanted <= set(record)
    assert (tmp_path / "wendel" / record["figure"]).is_file()
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "A &lt;caption&gt;" in page and "A &lt;remark&gt;" in page and "<caption>" not in record
    monkeypatch.setattr(single_cluster, "wendel", lambda **_: pytest.fail("done twice"))
    second = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert second["resumed"] == 1 and second["entries"] == first["entries"]
    # Other sizes are other work.
    monkeypatch.setattr(single_cluster, "wendel", found)
    assert reproduce(["wendel"], tmp_path, fast=False, workers=1)["resumed"] == 0


def test_an_entry_that_raises_is_told_and_tried_again(tmp_path, monkeypatch):
    def broken(*, sizes, draws):
        raise FloatingPointError("no\nnumber")

    monkeypatch.setattr(single_cluster, "wendel", broken)
    told = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert told["failed"] == 1 and told["surprises"] == ["wendel"]
    assert told["entries"][0]["observed"] == "FloatingPointError: no number"
    monkeypatch.setattr(single_cluster, "wendel", found)
    assert reproduce(["wendel"], tmp_path, fast=True, workers=1)["failed"] == 0


def test_a_correction_that_fails_is_a_surprise(tmp_path, monkeypatch):
    monkeypatch.setattr(single_cluster, "wendel", lambda *, sizes, draws: found(sizes=[], draws=0))
    assert reproduce(["wendel"], tmp_path, fast=True, workers=1)["surprises"] == ["wendel"]


def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch):
    def stopped(names, *rest):
        yield (
            names[0],
            run._safely(names[0], choose(names[:1])[names[0]], tmp_path / names[0], True),
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(single_cluster, "wendel", found)
    monkeypatch.setattr(
        run, "choose", lambda _: dict.fromkeys(("wendel", "other"), choose(["wendel"])["wendel"])
    )
    monkeypatch.setattr(run, "_perform_all", stopped)
    told = reproduce(["all"], tmp_path, fast=True)
    assert told["interrupted"] and told["left"] == 1 and (tmp_path / "index.html").is_file()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"NAME must be an entry.*got 'wandel'.*--list"):
        choose(["wandel"])
    assert set(choose(["004"])) < set(choose(["all"]))


def test_the_command_lists_entries_in_json():
    command = [sys.executable, "-m", "metastable.cli", "reproduce", "--list", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert {"name", "seed", "places", "title", "claim", "known"} == set(told["entries"][0])
