"""`metastable learn`: what a folder holds, and a training cut short by Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from metastable import kinds
from tests.learn.small_spec import SPEC, spec_file

pytestmark = pytest.mark.claim

# A suite started in the background hands down a SIGINT that is ignored.
ENTRY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from metastable.cli import main
main()
"""


def test_a_folder_holds_everything_and_is_not_overwritten(tmp_path):
    spec = kinds.load_spec(spec_file(tmp_path, SPEC.replace("40000", "60")))
    answer = kinds.run(spec, tmp_path / "out")
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {
        "spec.toml",
        "data.zarr",
        "verdicts.json",
        "figures",
        "report.html",
        "manifest.json",
    }
    figures = {file.name for file in (tmp_path / "out" / "figures").iterdir()}
    assert {"loss.svg", "collapse.svg", "depth.svg", "flow.svg", "flow.gif"} <= figures
    stored = kinds.open(tmp_path / "out")
    assert stored.facts["held-out accuracy"] == answer.facts["held-out accuracy"]
    with pytest.raises(ValueError, match="already holds this run"):
        kinds.run(spec, tmp_path / "out")
    other = spec.model_copy(update={"seed": 1})
    with pytest.raises(ValueError, match="holds something else"):
        kinds.run(other, tmp_path / "out")


def test_interrupted_training_resumes_to_the_same_curve(tmp_path):
    """SIGINT in the middle of a run of the command; the same command again goes on to the end."""
    file, out = spec_file(tmp_path), tmp_path / "out"
    command = [sys.executable, "-c", ENTRY, "learn", str(file), "--out", str(out), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoint = out / "unfinished" / "training.npz"
    while not checkpoint.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, complained = process.communicate()
    assert process.returncode == 130, complained
    cut = json.loads(printed)
    assert cut["outcome"] == "interrupted"
    done = len(cut["data"]["loss"]["training"][0])
    assert 0 < done < 40000
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    resumed = json.loads(finished.stdout)
    command = [*command[: command.index("--out")], "--out", str(tmp_path / "whole"), "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    whole = json.loads(finished.stdout)
    assert resumed["outcome"] == "done"
    for name in ("loss", "collapse", "accuracy"):
        assert resumed["data"][name] == whole["data"][name]
    losses = np.array(cut["data"]["loss"]["training"][1])
    assert np.array_equal(losses, np.array(whole["data"]["loss"]["training"][1])[:done])
    assert resumed["held-out accuracy"] == whole["held-out accuracy"]
