"""Runs through the WebSocket of a real server: their numbers, their pace, and their end."""

import io
import json
import zipfile

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus

from metastable import kinds
from metastable.cli import app as cli
from metastable.comparison.run import trajectory_of
from metastable.explorer.limits import Limits, read_experiment
from metastable.explorer.packet import read_recording, unpack
from metastable.flows.build import run_experiment
from tests.explorer.serving import hear, say, until, watch

SPEC = {
    "measure": {"tokens": 40, "dim": 2, "seed": 3},
    "field": {"beta": 4.0},
    "flow": {"horizon": 12.0, "frames": 481, "stepper": {"kind": "layers", "step": 0.025}},
}


@pytest.fixture(scope="module")
def finished(inside):
    """One run watched to its end."""
    with inside.socket() as socket:
        frames, last = watch(socket, SPEC)
    return frames, last


def test_a_run_streams_its_frames_and_verdicts(finished):
    frames, last = finished
    assert last["type"] == "finished" and last["outcome"]["name"] == "done"
    assert [header["index"] for header, _ in frames] == list(range(481))
    run = run_experiment(read_experiment(SPEC, Limits()), progress=False)
    for (header, arrays), expected, t in zip(frames, run.frames, run.times, strict=True):
        np.testing.assert_array_equal(arrays["positions"][:, :2], np.float32(expected.points))
        assert abs(header["time"] - t) < 1e-12
    verdicts = {row["verdict"] for row in last["verdicts"]}
    assert "agree" in verdicts and "disagree" not in verdicts


def test_downloads_are_a_result_folder_a_recording_and_a_page(inside, finished, tmp_path, capsys):
    _, last = finished
    with inside.http() as http:
        packed = http.get(f"/api/download/{last['run_id']}.zip")
        tape = http.get(f"/api/download/{last['run_id']}.msr")
        page = http.get(f"/api/download/{last['run_id']}.html")
    zipfile.ZipFile(io.BytesIO(packed.content)).extractall(tmp_path)
    result = kinds.open(tmp_path / "run")
    assert result.spec.digest == read_experiment(SPEC, Limits()).digest
    assert len(trajectory_of(result).frames) == 481 and result.outcome.name == "done"
    assert not cli(["compare", str(tmp_path / "run"), "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["disagree"] == 0
    (tmp_path / "run.msr").write_bytes(tape.content)
    packets = [unpack(packet)[0]["kind"] for packet in read_recording(tmp_path / "run.msr")]
    assert packets == ["head", *["frame"] * 481, "end"]
    policy = page.text.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "connect-src" not in policy and "unsafe" not in policy
    assert 'src="static' not in page.text and "<style>" in page.text


def test_a_page_that_does_not_answer_gets_four_frames(inside):
    with inside.socket() as socket:
        say(socket, type="start", spec=SPEC)
        assert hear(socket)[0]["type"] == "started"
        seen = [hear(socket)[0]["index"] for _ in range(4)]
        with pytest.raises(TimeoutError):
            hear(socket, 0.5)
        say(socket, type="ack", index=0)
        seen.append(hear(socket)[0]["index"])
        say(socket, type="pause")
        for index in seen:
            say(socket, type="ack", index=index)
        with pytest.raises(TimeoutError):
            hear(socket, 0.5)
        say(socket, type="resume")
        assert [*seen, hear(socket)[0]["index"]] == list(range(6))
        say(socket, type="stop")
        while (message := hear(socket)[0]).get("type") != "finished":
            pass
        assert message["outcome"]["name"] == "interrupted"
    # What is asked for next is served by the same process.
    assert len(until(lambda: inside.workers)) == 1


def test_refusals_are_sentences_and_the_connection_goes_on(inside):
    with inside.socket() as socket:
        for spec, word in (
            ({"measure": {"tokens": 10**6}}, "measure.tokens must be at most 20000"),
            ({"flow": {"horizon": 1e12}}, "flow.horizon"),
            ({"measure": {"kind": "tokens", "file": "/etc/passwd"}}, "measure.file"),
            ({"field": {"value": [[1.0, 2.0, 3.0]]}}, "matrix of shape"),
        ):
            say(socket, type="start", spec=spec)
            answer = hear(socket)[0]
            assert answer["type"] == "error" and word in answer["error"]
        say(socket, type="start", spec={}, clock="sidereal")
        assert "clock" in hear(socket)[0]["error"]
        frames, last = watch(socket, SPEC, clock="log")
        assert last["type"] == "finished" and len(frames) == 481


def test_other_origins_cannot_connect(inside):
    with pytest.raises(InvalidStatus) as refused:
        inside.socket(origin="http://evil.example")
    assert refused.value.response.status_code == 403


def test_theory_is_asked_and_answers_differ_with_beta(inside):
    with inside.http() as http:
        ask = lambda beta: http.post(
            "/api/predict", json={"spec": {"measure": {"tokens": 500}, "field": {"beta": beta}}}
        ).json()
        low, high = ask(4.0), ask(25.0)
        placed = http.post("/api/place", json={"spec": SPEC})
        taken = http.post("/api/export", json={"spec": SPEC}).json()
    # √(2β) modes on the circle, arXiv:2410.23228.
    assert (low["dominant"], high["dominant"]) == (3, 7)
    assert low["exit_time"] > 0 and abs(sum(low["counts"].values()) - 1) < 1e-9
    header, arrays = unpack(placed.content)
    assert header["time"] == 0 and arrays["positions"].shape == (40, 3)
    assert taken["fingerprint"] == read_experiment(SPEC, Limits()).digest


def test_a_run_that_cannot_listen_is_ended_when_its_page_leaves(inside):
    with inside.socket() as socket:
        say(socket, type="start", spec=SPEC)
        while hear(socket)[0].get("kind") != "frame":
            pass
        (worker,) = inside.workers
        worker.suspend()  # as deaf as in the middle of a long solve
    until(lambda: not worker.is_running(), 15)
    until(lambda: inside.desk.pool.busy == 0, 15)
    assert all(run.ended for run in inside.desk.kept.runs.values())
