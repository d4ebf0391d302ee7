"""The command line as a user meets it: real processes, exit codes, one line for bad input."""

import json
import subprocess
import sys

import numpy as np
import pytest

from metastable import kinds
from metastable.cli import main
from metastable.comparison.run import trajectory_of
from metastable.observe.energy import energy

SMALL = ["--dim", "3", "--tokens", "12", "--beta", "2", "--horizon", "4", "--set", "flow.frames=5"]


def metastable(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "metastable.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    done = metastable("run", *SMALL, "--seed", "3", "--out", folder, "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_json_has_every_promised_key(kept):
    _, summary = kept
    promised = (
        "outcome clock horizon tokens dim beta seed clusters energy_first energy_last "
        "energy_monotone max_norm_drift steps evaluations sum seconds out"
    )
    assert set(promised.split()) <= set(summary)
    assert summary["outcome"] == "done" and summary["clock"] == "SA"
    assert (summary["tokens"], summary["dim"], summary["beta"]) == (12, 3, 2.0)
    assert (summary["seed"], summary["horizon"]) == (3, 4.0)
    assert [len(pair) for pair in summary["clusters"]] == [2] * 5
    assert summary["energy_monotone"] is True and summary["max_norm_drift"] <= 1e-12


def test_reported_energy_is_the_energy_of_the_kept_tokens(kept):
    folder, summary = kept
    result = kinds.open(folder)
    run = trajectory_of(result)
    x = np.asarray(run.frames[-1].points)
    direct = np.exp(2.0 * x @ x.T).sum() / (2 * 2.0 * 12**2)
    assert summary["energy_last"] == pytest.approx(direct, rel=1e-12)
    assert float(energy(run.frames[-1], 2.0)) == pytest.approx(direct, rel=1e-12)
    assert result.to_dict() == summary


def test_manifest_tells_where_a_result_comes_from(kept):
    folder, _ = kept
    result = kinds.open(folder)
    manifest = result.manifest
    assert manifest["spec_sha256"] == result.spec.digest
    assert manifest["spec"]["field"]["beta"] == 2.0
    assert set(manifest["files_sha256"]) == {"spec.toml", "verdicts.json", "data.zarr"}
    assert {"jax", "diffrax", "metastable", "python"} <= set(manifest["versions"])


def test_a_kept_run_is_never_overwritten(kept):
    folder, _ = kept
    before = {f: f.stat().st_mtime_ns for f in folder.rglob("*")}
    again = metastable("run", *SMALL, "--seed", "3", "--out", folder)
    assert again.returncode == 2 and "already holds this run" in again.stderr
    other = metastable("run", *SMALL, "--seed", "4", "--out", folder)
    assert other.returncode == 2 and "holds something else" in other.stderr
    assert before == {f: f.stat().st_mtime_ns for f in folder.rglob("*")}


def test_the_kept_spec_runs_again_to_the_same_tokens(kept, tmp_path):
    folder, _ = kept
    again = metastable("run", folder / "spec.toml", "--out", tmp_path / "again", "--json")
    assert again.returncode == 0, again.stderr
    first, second = (trajectory_of(kinds.open(f)) for f in (folder, tmp_path / "again"))
    np.testing.assert_array_equal(first.points, second.points)


def test_every_field_kind_runs_from_toml(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(
        """
        [measure]
        kind = "planted"
        tokens = 12
        dim = 4
        clusters = 3
        [[field]]
        kind = "multi_head"
        heads = [{ beta = 1.0 }, { beta = 2.0, causal = true, value = { draw = "symmetric" } }]
        [[field]]
        kind = "feed_forward"
        activation = "tanh"
        inner = { draw = "gaussian", seed = 1 }
        [flow]
        horizon = 1.0
        frames = 3
        """
    )
    done = metastable("run", spec, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "done"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_run_ends_with_1_where_a_claim_disagrees(tmp_path, more):
    plugin = tmp_path / "claim.py"
    plugin.write_text(
        "import metastable as ms\n"
        "from metastable.core.verdict import judge\n"
        "@ms.register.claim\n"
        "def two_is_three(case):\n"
        "    return judge('two is three', 'nobody', 3.0, 2.0, absolute=0.1)\n"
    )
    options = "--tokens", 20, "--horizon", 1, "--plugin", plugin, *more
    assert metastable("run", *options, "--out", tmp_path / "out").returncode == 1
    assert metastable("compare", tmp_path / "out", "--plugin", plugin, *more).returncode == 1
    assert metastable("report", tmp_path / "out", "--plugin", plugin, *more).returncode == 0


def test_blow_up_is_an_outcome_with_the_frames_kept(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(
        """
        [measure]
        kind = "gaussian_points"
        tokens = 4
        dim = 2
        [field]
        value = 3.0
        [flow]
        horizon = 1000.0
        frames = 41
        """
    )
    done = metastable("run", spec, "--out", tmp_path / "out", "--json")
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    assert summary["outcome"] == "blow_up" and "Rescaled" in summary["message"]
    assert len(trajectory_of(kinds.open(tmp_path / "out")).frames) >= 2


BAD = {
    "negative beta": ["--beta", "-1"],
    "beta not a number": ["--beta", "warm"],
    "infinite beta": ["--beta", "inf"],
    "nan beta": ["--beta", "nan"],
    "zero horizon": ["--horizon", "0"],
    "negative horizon": ["--horizon", "-5"],
    "no tokens": ["--tokens", "0"],
    "fractional tokens": ["--tokens", "2.5"],
    "dimension one": ["--dim", "1"],
    "negative seed": ["--seed", "-1"],
    "too many tokens for memory": ["--tokens", "10000000000000", "--dim", "3"],
    "dimension beyond memory": ["--dim", "100000000000"],
    "zero noise": ["--noise", "0"],
    "negative noise": ["--noise", "-3"],
    "unknown key": ["--set", "field.bet=3"],
    "unknown section": ["--set", "fild.beta=3"],
    "unknown option": ["--betta", "3"],
    "set without value": ["--set", "field.beta"],
    "one frame": ["--set", "flow.frames=1"],
    "non-square value": ["--set", "field.value=[[1.0, 0.0]]"],
    "value of another dimension": ["--set", "field.value=[[1.0, 2.0], [0.0, 1.0]]", "--dim", "3"],
    "ragged matrix": ["--set", "field.query=[[1.0], [1.0, 2.0]]"],
    "unknown measure": ["--set", "measure.kind='cube'"],
    "missing spec file": ["no_such_file.toml"],
    "zero vector": [
        *("--set", "measure={kind='tokens', points=[[0.0, 0.0], [1.0, 0.0]]}"),
    ],
    "nan token": [*("--set", "measure={kind='tokens', points=[[nan, 0.0], [1.0, 0.0]]}")],
    "rows of different length": [
        *("--set", "measure={kind='tokens', points=[[1.0, 0.0], [1.0, 0.0, 0.0]]}"),
    ],
    "negative weight": [
        *("--set", "measure={kind='tokens', points=[[1.0, 0.0]], weights=[-1.0]}"),
    ],
    "wrong number of weights": [
        *("--set", "measure={kind='tokens', points=[[1.0, 0.0]], weights=[1.0, 2.0]}"),
    ],
    "more orthogonal tokens than axes": [
        *("--set", "measure={kind='orthogonal', tokens=5, dim=3}"),
    ],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["metastable", "run", *arguments, "--out", "result"])
    with pytest.raises(SystemExit) as exit:
        main()
    printed = capsys.readouterr()
    assert exit.value.code == 2, printed
    assert printed.out == ""
    lines = printed.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("metastable: ") and len(lines[0]) > 30
    assert list(tmp_path.iterdir()) == [], "bad input must leave nothing behind"


def test_bad_toml_and_foreign_folder_are_refused(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("[measure\nkind=")
    done = metastable("run", broken)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("keep me")
    done = metastable("run", *SMALL, "--out", tmp_path / "thesis")
    assert done.returncode == 2 and "holds something else" in done.stderr
    assert [f.name for f in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_debug_shows_the_traceback():
    done = metastable("run", "--beta", "-1", "--debug")
    assert done.returncode != 0 and "Traceback" in done.stderr


def test_doctor_finds_this_machine_healthy():
    done = metastable("doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["healthy"] and all(report["checks"].values())


def test_help_loads_no_numerics():
    code = (
        "import sys, metastable.cli; assert not {'jax', 'numpy', 'matplotlib'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_tokens_merge_to_the_last_cluster(tmp_path):
    """The two-token answer: one cluster; with --horizon the run stops there."""
    small = ["--dim", "2", "--tokens", "6", "--beta", "3", "--json"]
    whole = json.loads(metastable("run", *small, "--merge", "--out", tmp_path / "a").stdout)
    assert whole["clusters"][-1][1] == 1 and whole["horizon"] == "end"
    assert metastable("report", tmp_path / "a").returncode == 0
    part = json.loads(metastable("run", *small, "--merge", "--horizon", "0.5").stdout)
    assert part["horizon"] == 0.5
    hard = ["--set", "flow.stepper.kind=hardmax", "--set", "flow.horizon=end"]
    assert json.loads(metastable("run", *small, *hard).stdout)["clusters"][-1][1] == 1


def test_only_runs_that_end_by_themselves_take_the_end_as_horizon():
    refused = metastable("run", "--set", "flow.horizon=end")
    assert refused.returncode == 2 and "merging" in refused.stderr
