"""Audits cut short by Ctrl-C or killed: what they say, and that they end in the same bits."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from metastable.audit.audit import run_audit
from metastable.audit.generators.soft import Soft
from metastable.audit.spec import AuditConfig
from tests.audit.small import CONFIG, write_config, write_texts
from tests.audit.test_cli_audit import ask

KEPT = "spec.toml split.json documents.json sets.json items.csv verdicts.json".split()


def results(folder):
    """Everything but wall times and the folder's own name, byte by byte where it is a file."""
    manifest = json.loads((folder / "manifest.json").read_text())
    weights = (folder / "model" / "model.safetensors").read_bytes()
    made = ("report.html", "figures", "page.json", "ranked_trained_on.csv", "ranked_reproduces.csv")
    nulls = {path.name: path.read_bytes() for path in (folder / "nulls").iterdir()}
    return (
        {name: (folder / name).read_bytes() for name in KEPT},
        nulls,
        (
            manifest["result"],
            weights,
            manifest["model_sha256"],
            manifest["environment"]["versions"],
        ),
        sorted(path.name for path in folder.iterdir() if path.name not in made),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(config file, results of an audit that was never cut)."""
    place = tmp_path_factory.mktemp("whole")
    config = write_config(place, steps=12)
    run_audit(AuditConfig.load(config), place / "run")
    return config, results(place / "run")


class Killed(BaseException):
    """The process ends here."""


def test_a_process_that_dies_at_a_write_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch):
    """Each file comes into being by one renaming: death just before it, or just after."""
    config, expected = whole
    real = os.replace, os.rename
    count = {"left": 10**9, "made": 0}

    def dying(move):
        def moved(*args, **kwargs):
            count["left"] -= 1
            count["made"] += 1
            if count["left"] == 0:
                raise Killed
            return move(*args, **kwargs)

        return moved

    monkeypatch.setattr(os, "replace", dying(real[0]))
    monkeypatch.setattr(os, "rename", dying(real[1]))
    run_audit(AuditConfig.load(config), tmp_path / "all")
    assert results(tmp_path / "all") == expected
    total = count["made"]
    assert total >= 12  # split, trainings, model, batches, tables, manifest
    place = tmp_path / "one"
    for death in np.random.default_rng(0).choice(np.arange(1, total), 3, replace=False).tolist():
        shutil.rmtree(place, ignore_errors=True)
        count["left"] = death
        with pytest.raises(Killed):
            run_audit(AuditConfig.load(config), place)
        count["left"] = 10**9
        run_audit(AuditConfig.load(config), place)
        assert results(place) == expected, death


def start(config, out, *words):
    command = [sys.executable, "-m", "metastable.cli", "audit", "run", str(config), "--out", out]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*map(str, command), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=env,
    )  # fmt: skip


def wait_for(process, there):
    """Until a file is there; the process must not end before."""
    while not there():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_a_killed_audit_goes_on_to_the_same_bits(whole, tmp_path):
    config, expected = whole
    process = start(config, tmp_path / "run")
    wait_for(process, lambda: list((tmp_path / "run").glob("unfinished/parts/soft*.json")))
    process.kill()
    process.communicate()
    run_audit(AuditConfig.load(config), tmp_path / "run")
    assert results(tmp_path / "run") == expected


def test_an_interrupted_training_says_how_to_go_on(tmp_path):
    """Off a terminal, by a signal."""
    write_texts(tmp_path / "texts")
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(overlap=0.75, steps=10**6))
    process = start(config, tmp_path / "run")
    wait_for(process, lambda: (tmp_path / "run" / "split.json").is_file())
    process.send_signal(signal.SIGINT)
    try:
        _, error = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert error.startswith("metastable: interrupted")
    # The signal may come before the first step, or in training, which says one word more.
    assert error.rstrip(".\n").endswith(": run the same command again to go on")
    assert error.count("\n") == 1


def test_an_interrupted_search_says_what_is_done(whole, tmp_path, monkeypatch):
    config, expected = whole

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Soft, "search", stopped)
        cut = ask("run", config, "--out", tmp_path / "run")
        swept = ask("sweep", config, "--out", tmp_path / "sweep", "--seeds", 2)
    assert cut.exit_code == swept.exit_code == 130
    # 32 items: likelihood and prefix are done, the soft prompts of the first batch are not.
    words = "eliciting: 64 of 96 rows are done"
    line = f"metastable: interrupted ({words}): run the same command again to go on\n"
    assert cut.stderr == line
    assert swept.stderr == line.replace("eli", "0 of 2 audits are done; in the next, eli")
    assert ask("run", config, "--out", tmp_path / "run").exit_code == 0
    assert results(tmp_path / "run") == expected


def test_a_page_that_was_not_written_is_made_by_the_same_command(whole, tmp_path):
    config, _ = whole
    run_audit(AuditConfig.load(config), tmp_path / "run")
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    assert ask("run", config, "--out", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "report.html").is_file()
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before
    again = ask("run", config, "--out", tmp_path / "run")
    assert "already holds this audit, finished" in str(again.exception)


def test_the_manifest_names_versions_and_models(whole):
    folder = Path(whole[0]).parent / "run"
    result = json.loads((folder / "manifest.json").read_text())
    for name in "torch transformers tokenizers scikit-learn safetensors numpy".split():
        assert result["environment"]["versions"][name] == version(name)
    wanted = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (folder / "model").iterdir()
    }
    assert "model.safetensors" in wanted and result["model_sha256"] == wanted
    assert len(result["reference_sha256"]["weights"]) == 64
