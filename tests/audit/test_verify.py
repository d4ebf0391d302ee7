"""Chain of custody: plans that must be kept, bytes that must be the same, numbers that follow."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from metastable.audit import verify as module
from metastable.audit.verify import verify_audit
from metastable.core.folder import BLANK
from tests.audit.small import CONFIG, write_config
from tests.audit.test_cli_audit import ask


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of a small audit, planned, run and reported."""
    place = tmp_path_factory.mktemp("kept")
    config = write_config(place, steps=12)
    planned = ask("plan", config, "--out", place / "run", "--area", 0.7, "--json")
    assert planned.exit_code == 0, planned.exception
    done = ask("run", config, "--out", place / "run", "--json")
    assert done.exit_code == 0, done.exception
    return place / "run", json.loads(planned.stdout), json.loads(done.stdout)


def failures(folder, *words):
    done = ask("verify", folder, "--json", *words)
    told = json.loads(done.stdout)
    failed = [check["name"] for check in told["checks"] if check["passed"] is False]
    assert done.exit_code == bool(failed) and told["verified"] is not bool(failed)
    return failed


def copy(folder, place):
    shutil.copytree(folder, place / "copy")
    return place / "copy"


def reseal(folder):
    """Put the manifest's digests right, as someone who covers a change would."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    for name, digest in manifest["files_sha256"].items():
        if isinstance(digest, str):
            manifest["files_sha256"][name] = sha(folder / name)
    text = json.dumps(manifest | {"manifest_sha256": BLANK}, indent=2)
    own = hashlib.sha256(text.encode()).hexdigest()
    file.write_text(own.join(text.rsplit(BLANK, 1)))
    module.seal_page(folder)


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_audit_as_it_was_is_verified(kept):
    folder, planned, told = kept
    assert failures(folder) == [] and failures(folder, "--scores") == []
    assert told["planned"]["commitment"] == planned["commitment"]
    assert planned["documents_for_area"] > 20 and len(planned["commitment"]) == 64
    plan = json.loads((folder / "plan.json").read_text())
    own = plan.pop("commitment")
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert own == hashlib.sha256(text.encode()).hexdigest()


def test_one_flipped_bit_in_any_file_is_named(kept, tmp_path):
    folder = copy(kept[0], tmp_path)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix() for path in files}
    assert {"manifest.json", "page.json", "plan.json", "report.html", "items.csv"} <= names
    assert any(name.startswith("nulls/") for name in names) and "figures/roc.svg" in names
    random = np.random.default_rng(0)
    for path in files:
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[random.integers(len(whole))] ^= 1
        path.write_bytes(bytes(changed))
        named = failures_of_files(folder)
        assert path.relative_to(folder).as_posix() in named, (path, named)
        path.write_bytes(whole)
    assert failures_of_files(folder) == []


def failures_of_files(folder):
    """The checks of bytes alone: those of numbers would take a second a file."""
    return [c.name for c in module._check_files(folder) if c.passed is False]


@pytest.mark.parametrize("name", ["items.csv", "nulls/overlap_zero.csv", "manifest.json"])
def test_a_flipped_bit_fails_the_command(kept, tmp_path, name):
    folder = copy(kept[0], tmp_path)
    whole = bytearray((folder / name).read_bytes())
    whole[len(whole) // 2] ^= 1
    (folder / name).write_bytes(bytes(whole))
    assert name in failures(folder)


def test_files_that_are_missing_or_do_not_belong_are_named(kept, tmp_path):
    folder = copy(kept[0], tmp_path)
    (folder / "split.json").unlink()
    (folder / "more.txt").write_text("more")
    assert {"split.json", "more.txt"} <= set(failures(folder))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("trained_on", "p_value"), 0.04),
        (("reproduces", "verdict"), "disagree"),
        (("overlap", "low"), 0.9),
        (("power", "auc"), 0.51),
        (("quote",), "The model was trained on everything."),
    ],
)
def test_an_edited_number_does_not_follow_from_the_rows(kept, tmp_path, path, value):
    """Also where every digest has been put right."""
    folder = copy(kept[0], tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    node = manifest["result"]
    for key in path[:-1]:
        node = node[key]
    assert node[path[-1]] != value
    node[path[-1]] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))
    reseal(folder)
    assert failures_of_files(folder) == []
    assert f"manifest.json: {'.'.join(path)}" in failures(folder)


def test_an_edited_row_changes_the_findings(kept, tmp_path):
    folder = copy(kept[0], tmp_path)
    lines = (folder / "items.csv").read_text().splitlines(keepends=True)
    place = lines[0].strip().split(",").index("nll")
    cells = lines[1].split(",")
    cells[place] = "0.001"
    lines[1] = ",".join(cells)
    (folder / "items.csv").write_text("".join(lines))
    reseal(folder)
    assert any(name.startswith("manifest.json: trained_on") for name in failures(folder))


def test_edited_verdict_rows_are_named(kept, tmp_path):
    folder = copy(kept[0], tmp_path)
    rows = json.loads((folder / "verdicts.json").read_text())
    rows["rows"][0]["verdict"] = "not applicable"
    (folder / "verdicts.json").write_text(json.dumps(rows))
    reseal(folder)
    assert "verdicts.json: rows[0].verdict" in failures(folder)


def test_an_edited_page_is_named(kept, tmp_path):
    folder = copy(kept[0], tmp_path)
    page = folder / "report.html"
    page.write_text(page.read_text("utf-8").replace("o evidence that", "o doubt that"), "utf-8")
    module.seal_page(folder)
    assert failures(folder) == ["report.html"]


def test_scores_of_another_model_are_not_those_that_were_kept(kept, tmp_path):
    """Weights moved by a hundredth, digests put right: only the model itself can tell."""
    from safetensors.torch import load_file, save_file

    folder = copy(kept[0], tmp_path)
    file = folder / "model" / "model.safetensors"
    save_file({name: 1.01 * weight for name, weight in load_file(file).items()}, file)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files_sha256"]["model"]["model.safetensors"] = sha(file)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    reseal(folder)
    assert failures(folder) == [] and failures(folder, "--scores") == ["scores"]


def test_documents_that_changed_since_are_named(tmp_path):
    config = write_config(tmp_path, steps=2)
    assert ask("run", config, "--out", tmp_path / "run").exit_code == 0
    file = tmp_path / "texts" / "text003.txt"
    file.write_text(file.read_text() + " ")  # read as the same document: only the file differs
    assert failures(tmp_path / "run") == ["documents: corpus.files.text003.txt"]
    shutil.rmtree(tmp_path / "texts")
    assert failures(tmp_path / "run") == []  # elsewhere: bytes and findings are still verified


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("seed = 0", "seed = 0\nlevel = 0.05"), "question.level was 0.01"),
        (("seed = 0", "seed = 1"), "config.seed was 0"),
        (("budgets = [6]", "budgets = [5]"), "question.prompts"),
        (("overlap = 0.75", "overlap = 0.5"), "config.split.overlap was 0.75"),
    ],
)
def test_an_audit_must_be_as_planned(tmp_path, change, words):
    config = write_config(tmp_path, steps=2)
    assert ask("plan", config, "--out", tmp_path / "plan").exit_code == 0
    config.write_text(CONFIG.format(overlap=0.75, steps=2).replace(*change))
    for out, more in ((tmp_path / "plan", ()), (tmp_path / "new", ("--plan", "plan.json"))):
        more = [tmp_path / "plan" / word if "." in word else word for word in more]
        refused = ask("run", config, "--out", out, *more)
        assert isinstance(refused.exception, ValueError)
        assert "must be as planned" in str(refused.exception)
        assert words.split(" was ")[0] in str(refused.exception)
    assert not (tmp_path / "new").exists()


def test_a_plan_binds_documents_and_itself(tmp_path):
    config = write_config(tmp_path, steps=2)
    assert ask("plan", config, "--out", tmp_path / "plan").exit_code == 0
    plan, file = tmp_path / "plan" / "plan.json", tmp_path / "texts" / "text000.txt"
    before = file.read_text()
    file.write_text(before + " more")
    refused = ask("run", config, "--out", tmp_path / "plan")
    assert "must be as planned; sets.corpus.files.text000.txt" in str(refused.exception)
    file.write_text(before)
    plan.write_text(plan.read_text().replace('"level": 0.01', '"level": 0.05'))
    refused = ask("run", config, "--out", tmp_path / "plan")
    assert "its commitment does not follow" in str(refused.exception)


def test_a_plan_can_lie_elsewhere_and_comes_along(tmp_path):
    config = write_config(tmp_path, steps=2)
    assert ask("plan", config, "--out", tmp_path / "plan").exit_code == 0
    again = ask("plan", config, "--out", tmp_path / "plan")
    assert "new or empty folder" in str(again.exception)
    plan = tmp_path / "plan" / "plan.json"
    done = ask("run", config, "--out", tmp_path / "run", "--plan", plan, "--json")
    assert json.loads(done.stdout)["planned"]["commitment"]
    assert (tmp_path / "run" / "plan.json").read_bytes() == plan.read_bytes()
    assert failures(tmp_path / "run") == []


def test_folders_without_an_audit_are_refused(tmp_path):
    assert "must hold a finished audit" in str(ask("verify", tmp_path).exception)


def test_the_deposited_commitment_is_compared(kept):
    folder, planned, _ = kept
    right = planned["commitment"]
    assert ask("verify", folder, "--commitment", right.upper()).exit_code == 0
    wrong = ask("verify", folder, "--commitment", "0" * 64)
    assert wrong.exit_code == 1
    checks = {check.name: check for check in verify_audit(folder, commitment="0" * 64)}
    assert checks["deposited commitment"].passed is False
    assert right in checks["deposited commitment"].told
