"""What must not take the server down: questions without end, half-open sockets, floods, Ctrl-C."""

import dataclasses
import io
import socket
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from metastable.explorer import pool, serve, worker
from metastable.explorer.packet import unpack
from tests.explorer.serving import Served, hear, processes, say, until

SPEC = {"measure": {"tokens": 12, "dim": 2}, "field": {"beta": 4.0}}
SHARP = {"kind": "planted", "tokens": 5, "dim": 3, "clusters": 3, "concentration": 1e308}


def predict(server):
    with server.http() as http:
        return http.post("/api/predict", json={"spec": SPEC})


@pytest.fixture
def thinker(inside):
    """The one process that answers questions, warm."""
    assert predict(inside).status_code == 200
    until(lambda: inside.desk.thinking.busy == 0)
    (process,) = inside.thinkers
    return process


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    server = Served(tmp_path_factory.mktemp("served"))
    yield server
    server.stop()


def test_tokens_of_the_largest_concentration_are_placed(inside):
    with inside.http() as http:
        for _ in range(3):
            answer = http.post("/api/place", json={"spec": {"measure": SHARP}})
            assert answer.status_code == 200
    assert unpack(answer.content)[1]["positions"].shape == (5, 3)


def test_a_question_without_end_is_ended_and_the_next_is_answered(inside, thinker, monkeypatch):
    desk = inside.desk
    monkeypatch.setattr(desk, "limits", dataclasses.replace(desk.limits, thinking=0.3))
    thinker.suspend()
    answer = predict(inside)
    assert answer.status_code == 504 and "within 0.3 seconds" in answer.json()["error"]
    monkeypatch.undo()
    until(lambda: not thinker.is_running() and desk.thinking.busy == 0)
    assert predict(inside).status_code == 200


def test_a_process_that_dies_is_a_sentence(inside, thinker):
    answers = []
    thinker.suspend()
    asking = threading.Thread(target=lambda: answers.append(predict(inside)))
    asking.start()
    until(lambda: inside.desk.thinking.busy == 1)
    time.sleep(0.2)  # the job is on its way
    thinker.kill()
    asking.join(60)
    assert answers[0].status_code == 503 and "ended unexpectedly" in answers[0].json()["error"]
    assert predict(inside).status_code == 200


def test_a_question_whose_asker_has_gone_is_dropped(inside, thinker):
    thinker.suspend()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"http://{inside.host}/api/predict", json={"spec": SPEC}, timeout=0.5)
    # It cannot hear that it should let go: after some seconds it is ended.
    until(lambda: not thinker.is_running() and inside.desk.thinking.busy == 0)


def test_processes_that_hold_too_much_are_replaced(inside, thinker, monkeypatch):
    monkeypatch.setattr(pool, "HELD", 0)
    assert predict(inside).status_code == 200
    until(lambda: not thinker.is_running())


def test_a_process_lets_go_of_what_it_compiled_once_it_holds_too_much(monkeypatch):
    cleared = []
    monkeypatch.setattr(worker.jax, "clear_caches", lambda: cleared.append(True))
    worker._free(io.BytesIO(), most=2**62)
    assert not cleared
    worker._free(io.BytesIO(), most=0)
    assert cleared


def test_the_serving_process_never_loads_jax(served):
    with served.http() as http:
        until(lambda: http.post("/api/place", json={"spec": SPEC}).status_code == 200, 300)
        assert http.post("/api/export", json={"spec": SPEC}).status_code == 200
    maps = Path(f"/proc/{served.process.pid}/maps")
    if not maps.exists():
        pytest.skip("this system does not list what a process has loaded")
    assert "jaxlib" not in maps.read_text()


def test_half_open_sockets_do_not_keep_others_out(served):
    host, port = served.host.split(":")
    with served.http() as http:
        halves = [socket.create_connection((host, int(port))) for _ in range(300)]
        try:
            for half in halves:
                half.sendall(b"GET /api/ab")
            for _ in range(3):
                assert http.get("/api/about").status_code == 200
        finally:
            for half in halves:
                half.close()


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET /api/about HT",
        b"POST /api/export HTTP/1.1\r\nHost: HOST\r\nContent-Length: 50\r\n\r\n{",
        b"GET /api/about HTTP/1.1\r\nHost: HOST\r\n\r\nGET /api/ab",
    ],
)
def test_a_request_that_never_ends_is_closed(inside, monkeypatch, start):
    monkeypatch.setattr(serve, "SECONDS", 0.3)
    host, port = inside.host.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as half:
        half.sendall(start.replace(b"HOST", inside.host.encode()))
        received = b""
        try:
            while piece := half.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
    assert received.startswith(b"HTTP/1.1 200") or not received


def test_open_pages_are_no_half_open_sockets(inside, monkeypatch):
    monkeypatch.setattr(serve, "SECONDS", 0.2)
    with inside.socket() as live:
        time.sleep(0.6)
        say(live, type="nonsense")
        assert hear(live)[0]["type"] == "error"


def test_odd_unicode_is_refused_in_a_sentence(inside):
    with inside.http() as http, inside.socket() as live:
        for spec in (r'{"name": "\ud800"}', r'{"\udfff": 1}', r'{"field": {"kind": "a\ud83d"}}'):
            for path in ("export", "predict", "place"):
                answer = http.post(f"/api/{path}", content='{"spec": ' + spec + "}")
                assert answer.status_code == 400 and "surrogates" in answer.json()["error"]
            live.send('{"type": "start", "spec": ' + spec + "}")
            assert "surrogates" in hear(live)[0]["error"]
        whole = http.post("/api/export", content=r'{"spec": {"name": "\ud83d\ude00"}}')
        assert whole.status_code == 200


def test_a_flood_of_messages_ends_the_connection(inside):
    answers = 0
    with inside.socket() as live, pytest.raises(ConnectionClosed) as closed:
        for _ in range(20_000):
            say(live, type="pause")
        while True:
            hear(live)
            answers += 1
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    assert answers < 5000
    with inside.socket() as live:
        say(live, type="nonsense")
        assert hear(live)[0]["type"] == "error"


@pytest.mark.parametrize("moment", ["at the start", "in a question"])
def test_an_interrupt_ends_the_server_whatever_its_processes_do(tmp_path, moment):
    server = Served(tmp_path)
    started = lambda: processes("think", server.process.pid)
    children = until(started)
    asking = threading.Thread(target=_ask_in_vain, args=(server,))
    if moment == "in a question":
        until(lambda: predict(server).status_code == 200, 300)
        children = until(started)
    for child in children:
        child.suspend()
    asking.start()
    time.sleep(0.3)
    children = psutil.Process(server.process.pid).children(recursive=True)
    assert server.stop() in (0, 130)
    asking.join(30)
    assert not asking.is_alive()
    assert not psutil.wait_procs(children, 10)[1]
    assert "Traceback" not in server.errors.read_text()


def _ask_in_vain(server):
    try:
        assert predict(server).status_code in (503, 504)
    except httpx.HTTPError:
        pass
