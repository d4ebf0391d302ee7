"""The runner: resumes, survives an entry that raises, and answers in JSON."""

import json
import subprocess
import sys

import pytest

from metastable.core.verdict import judge
from metastable.reproduce import run
from metastable.reproduce.finding import Finding
from metastable.reproduce.run import choose, reproduce
from reproductions.valente2024 import wendel


def found(*, sizes, draws):
    """A quick stand-in for the work of an entry."""
    from metastable.report.figures.plain import plot_bars, plot_lines

    figure = plot_lines(
        {"a": ([1, 2], [1.0, 2.0], [0.1, 0.1])}, "n", "share", "A <caption> & more."
    )
    other = plot_bars(["one", "two"], {"a": [1, 2], "b": [2, 1]}, "size", "count", "Bars.")
    rows = [
        judge("a", "b", 1.0, 2.0, absolute=0.1),
        judge("c", "d", 1.0, float(draws > 0), absolute=0),
    ]
    return Finding(rows, {"lines": figure, "bars": other}, ["A <remark>."])


def test_a_finished_entry_is_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr(wendel, "wendel", found)
    first = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert (first["disagree"], first["resumed"], first["surprises"]) == (1, 0, [])
    record = first["entries"][0]
    wanted = {"name", "source", "claim", "expected", "observed", "verdict", "seconds", "figure"}
    assert wanted <= set(record)
    assert (tmp_path / "wendel" / record["figure"]).is_file()
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "A &lt;caption&gt;" in page and "A &lt;remark&gt;" in page and "<caption>" not in record
    monkeypatch.setattr(wendel, "wendel", lambda **_: pytest.fail("done twice"))
    second = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert second["resumed"] == 1 and second["entries"] == first["entries"]
    # Other sizes are other work.
    monkeypatch.setattr(wendel, "wendel", found)
    assert reproduce(["wendel"], tmp_path, fast=False, workers=1)["resumed"] == 0


def test_an_entry_that_raises_is_told_and_tried_again(tmp_path, monkeypatch):
    def broken(*, sizes, draws):
        raise FloatingPointError("no\nnumber")

    monkeypatch.setattr(wendel, "wendel", broken)
    told = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert told["failed"] == 1 and told["surprises"] == ["wendel"]
    assert told["entries"][0]["observed"] == "FloatingPointError: no number"
    monkeypatch.setattr(wendel, "wendel", found)
    assert reproduce(["wendel"], tmp_path, fast=True, workers=1)["failed"] == 0


def test_a_setting_that_is_no_number_is_told_in_plain_json(tmp_path):
    changes = {"share": float("-inf")}
    told = reproduce(["likelihood_logarithm"], tmp_path, changes=changes, fast=True, workers=1)
    assert told["failed"] == 1
    json.dumps(told, allow_nan=False)


def test_a_correction_that_fails_is_a_surprise(tmp_path, monkeypatch):
    monkeypatch.setattr(wendel, "wendel", lambda *, sizes, draws: found(sizes=[], draws=0))
    assert reproduce(["wendel"], tmp_path, fast=True, workers=1)["surprises"] == ["wendel"]


def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch):
    def stopped(entries, out, fast, workers):
        yield "wendel", run._safely(entries["wendel"], out / "wendel", fast)
        raise KeyboardInterrupt

    monkeypatch.setattr(wendel, "wendel", found)
    monkeypatch.setattr(run, "_perform_all", stopped)
    told = reproduce(["wendel", "beta_zero"], tmp_path, fast=True)
    assert told["interrupted"] and told["left"] == 1 and (tmp_path / "index.html").is_file()


def test_a_changed_entry_leaves_the_standard_one_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(wendel, "wendel", found)
    first = reproduce(["wendel"], tmp_path, fast=True, workers=1)["entries"][0]
    varied = reproduce(["wendel"], tmp_path, changes={"draws": 7}, fast=True, workers=1)
    record = varied["entries"][0]
    assert varied["resumed"] == 0 and record["digest"] != first["digest"]
    assert record["settings"]["draws"] == 7 and record["folder"].startswith("wendel-")
    assert record["command"] == "metastable reproduce wendel --fast --set draws=7"
    assert (tmp_path / record["folder"] / record["figure"]).is_file()
    assert "draws = 7" in (tmp_path / "index.html").read_text(encoding="utf-8")
    again = reproduce(["wendel"], tmp_path, fast=True, workers=1)
    assert again["resumed"] == 1 and again["entries"] == [first]


@pytest.mark.parametrize("names", [["ponti2025"], ["all"], ["wendel", "beta_zero"], ["wandel"]])
def test_changes_are_for_exactly_one_entry(names):
    with pytest.raises(ValueError, match="NAME must be exactly one entry with --set"):
        choose(names, {"draws": 7})


def test_unknown_names_are_refused():
    for asked in ("wandel", "004"):
        with pytest.raises(ValueError, match=rf"NAME must be an entry.*got '{asked}'.*--list"):
            choose([asked])


def test_a_source_stands_for_its_entries():
    chosen = choose(["geshkovski2023", "polytope", "wendel"])
    assert {entry.source for entry in chosen} == {"geshkovski2023", "valente2024"}
    assert len({entry.name for entry in chosen}) == len(chosen) < len(choose(["all"]))


def test_the_command_lists_entries_in_json():
    command = [sys.executable, "-m", "metastable.cli", "reproduce", "--list", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    keys = {"name", "source", "places", "title", "claim", "known", "settings"}
    assert keys == set(told["entries"][0]) and "valente2024" in told["sources"]


def test_the_command_refuses_a_bad_change_in_one_line():
    command = [sys.executable, "-m", "metastable.cli", "reproduce", "wendel", "--set", "drews=3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "key must be a setting of wendel (sizes, draws); got 'drews'" in done.stderr
