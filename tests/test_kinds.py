"""One result for every kind of work: made, opened, reported, compared, and refused when damaged."""

import json
import shutil

import numpy as np
import pytest

import metastable as ms
from metastable import kinds
from tests.audit.small import write_config
from tests.fuzz.damages import call, damage, files_of

FLOW = 'name = "small"\n[measure]\ntokens = 6\n[flow]\nhorizon = 1.0\nframes = 3\n'
SWEEP = (
    'kind = "sweep"\nobservables = ["last_clusters"]\n[axes]\nfield.beta = [1.0, 4.0]\n'
    "[base.measure]\ntokens = 4\n[base.flow]\nhorizon = 0.5\nframes = 3\n"
)
LEARN = 'kind = "gaussian_beta"\ndim = 6\nkey_dim = 3\nsamples = 12\nsteps = 5\n'
GAUSSIAN = 'kind = "gaussian"\n[study]\nkind = "spectra"\nensembles = ["wigner"]\nsize = 40\n'
REPRODUCTION = 'kind = "reproduction"\nentry = "activation_signs"\nfast = true\n'
SPECS = {
    "flow": FLOW,
    "sweep": SWEEP,
    "gaussian_beta": LEARN,
    "gaussian": GAUSSIAN,
    "reproduction": REPRODUCTION,
    "inspect": "",
    "audit": "",
}
PARTS = {"spec.toml", "manifest.json", "verdicts.json", "report.html"}


def spec_of(kind, root):
    """The TOML file of a small spec."""
    if kind == "audit":
        return write_config(root / "corpus", steps=2)
    file = root / "spec.toml"
    text = SPECS[kind]
    if kind == "inspect":
        from tests.fuzz.fuzz_bases import _model

        _model(root / "model", call)
        (root / "text.txt").write_text("amber basin cedar delta ember")
        text = f'kind = "inspect"\nmodel = "{root / "model"}"\ntext = "text.txt"\ncontrol = false\n'
    file.write_text(text)
    return file


@pytest.fixture(scope="module", params=SPECS)
def kept(request, tmp_path_factory):
    if request.param in ("inspect", "audit"):
        pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp(request.param)
    spec = kinds.load_spec(spec_of(request.param, root), kind=request.param)
    return ms.run(spec, root / "out", progress=False)


def test_a_folder_holds_what_every_folder_holds_and_opens(kept):
    result = ms.open(kept.folder)
    assert {path.name for path in kept.folder.iterdir()} >= PARTS
    assert result.kind == kept.kind and result.sentence == kept.sentence != ""
    assert result.spec.digest == kept.spec.digest and result.outcome == kept.outcome
    assert result.verdicts.to_dict() == json.loads(json.dumps(kept.verdicts.to_dict()))
    assert set(result.figures) == set(kept.figures) and set(result.data) >= set(kept.data)
    json.dumps(result.to_dict(), allow_nan=False)


def test_report_and_compare_work_on_it(kept):
    (kept.folder / "report.html").unlink()
    answer = call("report", kept.folder)
    assert answer.code == 0, answer.err
    assert kept.sentence[:20].split(":")[0] in (kept.folder / "report.html").read_text("utf-8")
    answer = call("compare", kept.folder, "--json")
    counted = json.loads(answer.out)
    assert answer.code == (1 if counted["disagree"] else 0)
    assert len(counted["rows"]) == len(kept.verdicts.rows)


def test_a_flipped_bit_in_any_file_is_refused(kept, tmp_path):
    """Cells of a sweep carry checksums of their own, and are computed anew by the same sweep."""
    random = np.random.default_rng(0)
    own = [
        f for f in files_of(kept.folder) if not (kept.kind == "sweep" and "data.zarr" in f.parts)
    ]
    for file in [*random.permutation(own)[:8].tolist(), "spec.toml", "manifest.json"]:
        shutil.copytree(kept.folder, tmp_path / "copy")
        if damage(tmp_path / "copy" / file, "flip", random):
            with pytest.raises(ValueError, match="damaged"):
                ms.open(tmp_path / "copy")
        shutil.rmtree(tmp_path / "copy")


def test_the_same_work_is_not_done_twice_in_one_folder(kept):
    if kept.kind == "sweep":
        return  # it finds every cell done
    with pytest.raises(ValueError, match="already holds this"):
        ms.run(kept.spec, kept.folder, progress=False)
