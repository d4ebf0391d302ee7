"""A model one can only talk to: audited over HTTP on loopback, by text alone."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from metastable.audit import completions, scores
from metastable.audit.audit import run_audit
from metastable.audit.case import fit, prepare
from metastable.audit.collect import collect, read_rows
from metastable.audit.server import serve_target
from metastable.audit.spec import AuditConfig
from metastable.audit.talk import TRANSCRIPT, Conversation, declines
from metastable.audit.verify import open_target
from metastable.core.folder import open_folder
from tests.audit.small import write_texts
from tests.audit.test_cli_audit import ask

CONFIG = """
[corpus]
path = "texts"
[split]
items = 16
controls = 16
background = 12
length = 32
ngram = 20
overlap = {overlap}
[model]
{model}
[[generators]]
kind = "prefix"
budgets = [12]
"""
OWN = 'size = "basic"\nsteps = 200\nrows = 24\nrate = 5e-3'
FINDINGS = ("trained_on", "reproduces")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("talk")
    write_texts(folder / "texts")
    return folder


@pytest.fixture(scope="module")
def models(place):
    """(case, target) of models trained on 12 of 16 protected texts, and on none."""
    made = {}
    for overlap in (0.75, 0.0):
        (place / "lab.toml").write_text(CONFIG.format(overlap=overlap, model=OWN))
        case = prepare(AuditConfig.load(place / "lab.toml"))
        made[overlap] = case, fit(case, case.split.training, 0).target
    return made


@contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_config(place, url=None, more="samples = 3"):
    path = place / "talk.toml"
    told = 'family = "text"\n' + ("" if url is None else f'url = "{url}"\n') + more
    path.write_text(CONFIG.format(overlap=0.5, model=told))
    return path


def found(facts):
    return [facts[name]["finding"] for name in FINDINGS]


def test_a_model_behind_http_is_found_out_by_text_alone(place, models, tmp_path):
    """No likelihoods; members were seen about 200 · 24 / 24 = 200 times."""
    with running(serve_target(models[0.75][1], likelihoods=False)) as url:
        done = ask("run", write_config(place, url), "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    assert found(told) == ["trained on", "reproduces"]
    asked = [question["score"] for question in told["trained_on"]["questions"]]
    assert asked == ["foresight", "coverage", "best_coverage"]
    assert "Given the first 12 characters of a passage" in told["quote"]
    assert 0 < told["overlap"]["low"] <= 0.75
    assert told["near_rate"]["protected"] >= 0.6 and told["near_rate"]["control"] <= 0.1
    lines = (tmp_path / "run" / TRANSCRIPT).read_text().splitlines()
    first = next(entry for entry in map(json.loads, lines) if "seed" in entry["parameters"])
    rest = 32 - len(first["prompt"])  # characters, all of one byte
    assert first["parameters"] == {"max_tokens": rest, "temperature": 1.0, "n": 3, "seed": 0}
    assert {*first} == {"time", "model", "parameters", "prompt", "answers", "refused"}
    assert TRANSCRIPT in open_folder(tmp_path / "run", "")["files_sha256"]

    verified = ask("verify", tmp_path / "run", "--scores", "--json")
    assert verified.exit_code == 0, verified.stdout
    checks = {check["name"]: check for check in json.loads(verified.stdout)["checks"]}
    # 32 items, twice, and the same of shuffled texts.
    assert checks[TRANSCRIPT]["told"] == f"128 rows follow from {len(lines)} exchanges"
    refused = ask("serve", tmp_path / "run")
    assert "audited one by text alone" in str(refused.exception)

    changed = json.loads(lines[-1])
    changed["answers"] = ["zebra"]
    (tmp_path / "run" / TRANSCRIPT).write_text("\n".join([*lines[:-1], json.dumps(changed), ""]))
    broken = ask("verify", tmp_path / "run", "--json")
    told = {c["name"]: c for c in json.loads(broken.stdout)["checks"] if c["passed"] is False}
    assert broken.exit_code == 1 and "rows do not follow from it" in told[TRANSCRIPT]["told"]
    (tmp_path / "run" / TRANSCRIPT).write_text(
        "\n".join([*lines, json.dumps(changed | {"prompt": "x"}), ""])
    )
    assert "holds 1 answers that no row rests on" in ask("verify", tmp_path / "run").stdout


def test_a_model_that_saw_none_of_the_texts_shows_neither(place, models, tmp_path):
    with running(serve_target(models[0.0][1], likelihoods=False)) as url:
        facts = run_audit(AuditConfig.load(write_config(place, url)), tmp_path / "run").facts
    assert found(facts) == ["no evidence", "no evidence"]


def test_likelihoods_are_those_of_the_model_where_the_server_offers_them(place, models, tmp_path):
    case, target = models[0.75]
    items = case.split.items[:3]
    with running(serve_target(target)) as url:
        talk = Conversation(completions.Server(url), tmp_path / TRANSCRIPT)
        rows = talk.make_rows(None, items)
    for row, own in zip(rows, collect(target, items, []), strict=True):
        assert row["nll"] == pytest.approx(own["nll"], abs=1e-5)
        assert row["min_k"] == pytest.approx(own["min_k"], abs=1e-5)
        assert row["zlib_ratio"] == pytest.approx(own["zlib_ratio"], abs=1e-5)
        assert "foresight" not in row


class Parrot:
    """Knows some texts by heart, and says something else of others."""

    def __init__(self, texts=(), other="of amber and of marsh, of ", declined=()):
        self.texts, self.other, self.declined = texts, other, declined

    def complete(self, prompts, characters, seed):
        return [self.say(prompt)[:characters] for prompt in prompts]

    def say(self, prompt):
        if any(text.startswith(prompt) for text in self.declined):
            return "I’m sorry, I can't continue this text."
        known = [text for text in self.texts if text.startswith(prompt)]
        return known[0][len(prompt) :] if known else self.other


def test_a_python_object_can_answer(place, tmp_path):
    config = AuditConfig.load(write_config(place))
    items = prepare(config).split.items
    talk = Parrot([item.text for item in items if item.group == "protected"])
    facts = run_audit(config, tmp_path / "run", talk=talk).facts
    assert found(facts) == ["trained on", "reproduces"]
    rows = [r for r in read_rows(tmp_path / "run" / "items.csv") if r["generator"] == "prefix"]
    assert all(row["exact"] is (row["group"] == "protected") for row in rows)
    assert json.loads((tmp_path / "run" / "model.json").read_text()) == {"function": "Parrot"}
    with pytest.raises(ValueError, match=r"model\.url must be set"):
        run_audit(config, tmp_path / "other")
    talk.complete = lambda prompts, characters, seed: "one text"
    with pytest.raises(ValueError, match="one for each of 1 prompts; got 'one text'"):
        run_audit(config, tmp_path / "other", talk=talk)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("groups", [("protected", "control"), ("protected",), ("control",)])
def test_a_model_that_declines_cannot_be_judged(place, tmp_path, groups):
    config = AuditConfig.load(write_config(place))
    texts = [item.text for item in prepare(config).split.items if item.group in groups]
    facts = run_audit(config, tmp_path / "run", talk=Parrot(declined=texts)).facts
    assert found(facts) == ["cannot tell", "cannot tell"]
    assert "M does not decline: " in facts["trained_on"]["reason"]
    (told,) = (c["numbers"] for c in facts["conditions"] if c["name"] == "M does not decline")
    for group in ("protected", "control"):
        assert told[group] == 1 if group in groups else told[group] < 0.1


def test_the_true_text_may_decline():
    assert declines("", "x") and declines(" \n", "x") and declines("As an AI model", " of the")
    assert not declines("I cannot say", "I cannot say who") and not declines("said I cannot", "x")


def test_coverage_is_that_of_every_common_run():
    """Brute force: a character counts if some run through it stands in the output too."""
    random = np.random.default_rng(0)
    for _ in range(50):
        target, output = ("".join(random.choice([*"ab "], n)) for n in (30, 40))
        n = int(random.integers(2, 7))
        runs = [(k, k + n) for k in range(30 - n + 1) if target[k : k + n] in output]
        covered = sum(any(a <= k < b for a, b in runs) for k in range(30)) / 30
        assert scores.coverage(target, output, n) == pytest.approx(covered)


class Stub(BaseHTTPRequestHandler):
    """Answers as the test wants: a code, content, headers; without a code not at all."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append(dict(self.headers))
        code, data, headers = self.server.reply(body)
        if code is None:
            self.server.hold.wait(data)
            return
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass


@contextmanager
def stub(reply, port=0):
    server = ThreadingHTTPServer(("127.0.0.1", port), Stub)
    server.reply, server.heard, server.hold = reply, [], threading.Event()
    with running(server) as url:
        yield server, url
        server.hold.set()


def test_a_kept_model_is_served_as_it_was_audited(place, tmp_path):
    (place / "lab.toml").write_text(CONFIG.format(overlap=0.5, model=OWN.replace("200", "2")))
    run_audit(AuditConfig.load(place / "lab.toml"), tmp_path / "run")
    row = read_rows(tmp_path / "run" / "items.csv")[0]
    with running(serve_target(open_target(tmp_path / "run"))) as url:
        server = completions.Server(url)
        logs = server.log_probs(row["target"])
        texts = server.complete(["amber"] * 3 + ["basin"], 9, 1)
        (greedy,) = server.complete(["amber"], 9, None)
        assert server.log_probs("ß") is None  # not in the alphabet: refused with code 400
    assert -sum(logs) / 32 == pytest.approx(row["nll"], abs=1e-5)
    assert len(texts) == 4 and len(set(texts[:3])) > 1 and isinstance(greedy, str)


def test_a_server_that_stops_loses_nothing(place, tmp_path, monkeypatch):
    """One that drops two connections, then all after the 60th: begun again to the same tables."""
    monkeypatch.setattr(completions, "PAUSES", (0.0, 0.0))
    asked = []

    def reply(body):
        random = np.random.default_rng(list(json.dumps(body).encode()))
        texts = ["".join(random.choice([*"amber basin"], 40)) for _ in range(body["n"])]
        return 200, json.dumps({"choices": [{"text": text} for text in texts]}).encode(), {}

    def dropping(body):
        asked.append(body)
        return (None, 0, {}) if len(asked) in (20, 21) or len(asked) > 60 else reply(body)

    refused = lambda body: (400, b"", {}) if "echo" in body else dropping(body)
    steady = lambda body: (400, b"", {}) if "echo" in body else reply(body)
    with stub(steady) as (server, url):
        config = AuditConfig.load(write_config(place, url))
        run_audit(config, tmp_path / "whole")
        server.reply = refused
        with pytest.raises(ConnectionError, match=r"no longer answers .* what it said is kept"):
            run_audit(config, tmp_path / "cut")
        kept = (tmp_path / "cut" / TRANSCRIPT).read_bytes()
        assert kept.count(b"\n") == 60 - 2 + 1  # the answers, and that likelihoods are not offered
        (tmp_path / "cut" / TRANSCRIPT).write_bytes(kept[:-9])  # and killed while it wrote
        server.reply, server.heard[:] = steady, []
        run_audit(config, tmp_path / "cut")
    again = (tmp_path / "cut" / TRANSCRIPT).read_bytes()
    assert again.startswith(kept.rsplit(b"\n", 2)[0])
    assert len(server.heard) == again.count(b"\n") - 58  # what was said is not asked again
    for table in ("items.csv", "nulls/shuffled_targets.csv"):
        assert (tmp_path / "cut" / table).read_bytes() == (tmp_path / "whole" / table).read_bytes()


@pytest.mark.parametrize(
    ("code", "data", "words"),
    [
        (500, b"out of memory", r"does not \(HTTP 500 out of memory\): start it, or check the url"),
        (404, b"no such page", "must take completions; .* says HTTP 404 no such page"),
        (401, b"who?", "model.key must open .* HTTP 401 who"),
        (302, b"", r"must not lead elsewhere; .*/v1/completions does \(HTTP 302"),
        (200, b"<html><body>hello", "must speak the completion protocol .* sent <html><body>hello"),
        (200, b"", "sent nothing: check the url"),
        (200, b'{"choices": []}', r"sent \{\"choices\": \[\]\}"),
        (200, b'{"choices": [{"text": null}]}', "completion protocol"),
        (200, b"[" * 100_000, "completion protocol"),
        (None, b"", r"does not \(timed out\)"),
    ],
)
def test_servers_that_do_not_answer_well_are_refused_in_one_line(
    place, tmp_path, monkeypatch, code, data, words
):
    monkeypatch.setattr(completions, "TIMEOUT", 0.5)
    reply = (code, data or (5 if code is None else b""), {"Location": "http://127.0.0.1:9/"})
    with stub(lambda _: reply) as (_, url):
        refused = ask("run", write_config(place, url), "--out", tmp_path / "run")
    assert isinstance(refused.exception, (ValueError, ConnectionError))
    with pytest.raises(type(refused.exception), match=words):
        raise refused.exception
    assert "\n" not in str(refused.exception) and len(str(refused.exception)) < 500
    assert not (tmp_path / "run").exists()


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(place, tmp_path, monkeypatch):
    text = json.dumps({"choices": [{"text": "of amber and of marsh, of rivers and of hills"}]})
    monkeypatch.setenv("SECRET_KEY", "open-sesame")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")  # not used for this machine
    with stub(lambda _: (200, text.encode(), {})) as (server, url):
        config = write_config(place, url, 'key = "SECRET_KEY"\nsamples = 2')
        assert ask("run", config, "--out", tmp_path / "run").exit_code == 0
        assert server.heard[0]["Authorization"] == "Bearer open-sesame"
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or b"open-sesame" not in file.read_bytes()
    monkeypatch.delenv("SECRET_KEY")
    refused = ask("run", config, "--out", tmp_path / "other")
    assert "SECRET_KEY is not set: export it" in str(refused.exception)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ('family = "text"\nurl = "http://models.example/v1"', "must have a url on this machine"),
        ('family = "text"\nurl = "http://127.0.0.1.example/v1"', "or remote = true"),
        ('family = "text"\nurl = "http://0.0.0.0:1/v1"', "must have a url on this machine"),
        ('family = "text"\nurl = "127.0.0.1:8000"', "must have a url such as"),
        ('family = "text"\nurl = "file:///etc/passwd"', "must have a url such as"),
        ('family = "text"\nurl = "http://127.0.0.1:x/v1"', "must have a url such as"),
        ('family = "text"\nurl = "http://me:pass@127.0.0.1/v1"', "must have a url such as"),
        ('url = "http://127.0.0.1/v1"', 'knows no url unless its family is "text"'),
        ('family = "text"\npath = "x"', "must have a path if"),
        ('family = "text"\nurl = "http://127.0.0.1:9/v1"', "does not (Connection refused"),
    ],
)
def test_bad_addresses_are_refused_in_one_line(place, tmp_path, model, words):
    path = place / "bad.toml"
    path.write_text(CONFIG.format(overlap=0.5, model=model))
    refused = ask("run", path, "--out", tmp_path / "run")
    told = str(refused.exception).replace("[Errno 111] ", "")
    assert words in told and "\n" not in told
    assert not (tmp_path / "run").exists()


def test_other_prompts_long_prefixes_and_other_models_are_refused(place, tmp_path, models):
    path = write_config(place, "http://127.0.0.1:9/v1")
    text = path.read_text()
    path.write_text(text.replace('"prefix"', '"soft"'))
    assert "of kind prefix for a model of family" in str(ask("run", path, "--out", "x").exception)
    path.write_text(text.replace("[12]", "[32]"))
    assert "prefix of 32 characters must be shorter" in str(
        ask("run", path, "--out", tmp_path / "x").exception
    )
    item = models[0.75][0].split.items[0]
    for name in ("a", "b"):
        with running(serve_target(models[0.75][1], likelihoods=False, name=name)) as url:
            talk = Conversation(completions.Server(url), tmp_path / TRANSCRIPT, samples=2)
            if name == "a":
                talk.make_rows(None, [item])
                continue
            with pytest.raises(ValueError, match="calls itself 'b' now and 'a' before"):
                talk.make_rows(12, [item])
