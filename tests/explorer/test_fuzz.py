"""Two thousand malformed messages and requests: no crash, no 500, no traceback to anyone."""

import json
import random
import socket
import string

import pytest

from metastable.explorer import guard
from tests.explorer.serving import Inside, hear

MESSAGES, REQUESTS, RAW = 1000, 800, 200
JUNK = [
    None, True, -1, 0, 1.5, 10**30, -(10**400), float("nan"), float("inf"), "", "x" * 300, "\0",
    [], {}, [[]], [[1, 2], [3]], {"kind": "nonsense"}, {"kind": None}, {"a": {"a": {"a": {}}}},
    {"draw": "gaussian", "seed": -1}, [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]], "../../etc/passwd", "é",
    "<script>", "1e999",
]  # fmt: skip
KEYS = [
    "spec", "spec.measure", "spec.measure.tokens", "spec.measure.dim", "spec.measure.seed",
    "spec.field", "spec.field.beta", "spec.field.value", "spec.flow", "spec.flow.horizon",
    "spec.flow.frames", "spec.flow.stepper", "spec.unknown", "clock",
]  # fmt: skip
# Junk that a key would accept makes no malformed message.
FINE = {
    "spec": [{}], "spec.measure": [{}], "spec.measure.tokens": [], "spec.measure.dim": [],
    "spec.measure.seed": [0], "spec.field": [{}], "spec.field.beta": [0, 1.5, True],
    "spec.field.value": [None, -1, 0, 1.5, True], "spec.flow": [{}],
    "spec.flow.horizon": [1.5, True], "spec.flow.frames": [], "spec.flow.stepper": [None],
}  # fmt: skip


@pytest.fixture(scope="module")
def open_door():
    """A server that reads as fast as it is written to, so that every message is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "RATE", 1e9)
        patch.setattr(guard, "BURST", 1e9)
        server = Inside(messages=10**9, runs=1)
        yield server
        server.stop()


def spoiled(chance: random.Random) -> str | bytes:
    """One malformed message."""
    form = chance.randrange(6)
    if form == 0:
        return chance.randbytes(chance.randrange(60))
    if form == 1:
        return "".join(chance.choices(string.printable, k=chance.randrange(80)))
    if form == 2:
        return json.dumps(chance.choice([junk for junk in JUNK if junk != {}]))
    if form == 3:
        return json.dumps({"type": chance.choice(JUNK), "index": chance.choice(JUNK)})
    if form == 4:
        return '{"type": "start", "spec": ' + "[" * chance.randrange(1, 5000)
    tree: dict = {"type": "start", "spec": {"measure": {}, "field": {}, "flow": {}}}
    key = chance.choice(KEYS)
    junk = chance.choice([j for j in JUNK if j not in FINE.get(key, []) and j != -(10**400)])
    *parents, last = key.split(".")
    node = tree
    for parent in parents:
        node = node[parent]
    node[last] = junk
    return json.dumps(tree)


def test_malformed_messages_are_answered_with_a_sentence(open_door, caplog):
    chance = random.Random(11)
    with open_door.socket() as live:
        for _ in range(MESSAGES):
            message = spoiled(chance)
            live.send(message)
            answer = hear(live)[0]
            assert answer["type"] == "error", message
            assert 0 < len(answer["error"]) < 600 and "Traceback" not in answer["error"]
            assert "\n" not in answer["error"]
    pool = open_door.desk.pool
    assert not pool.idle and pool.busy == 0  # nothing was started
    assert "Traceback" not in caplog.text


def test_malformed_requests_are_refused(open_door, caplog):
    chance = random.Random(12)
    names = "about predict place export folder live recording/ sweep/ download/".split()
    paths = ["/", "/static/", *(f"/api/{name}" for name in names)]
    with open_door.http() as http:
        for _ in range(REQUESTS):
            path = chance.choice(paths)
            if chance.random() < 0.5:
                pieces = [*string.ascii_letters, *"./\\~;:@&=+$,#?[]é", "%00", "%2e", "%2f", "%zz"]
                path += "".join(chance.choices(pieces, k=chance.randrange(30)))
            method = chance.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
            body = spoiled(chance)
            headers = {
                chance.choice(["accept", "range", "cookie", "origin", "content-type"]): "a=b"
            }
            answer = http.request(method, path, content=body, headers=headers)
            assert answer.status_code < 500, (method, path, body)
            assert "Traceback" not in answer.text
            if answer.status_code >= 400:
                assert answer.json()["error"], (method, path)
    assert "Traceback" not in caplog.text


def test_bytes_that_are_no_requests_do_no_harm(open_door, caplog):
    chance = random.Random(13)
    host, port = open_door.host.split(":")
    starts = [
        b"GET / HTTP/1.1\r\n",
        b"POST /api/predict HTTP/1.1\r\nHost: x\r\n",
        b"\x16\x03\x01",
        b"",
    ]
    for _ in range(RAW):
        with socket.create_connection((host, int(port)), timeout=5) as raw:
            raw.sendall(
                chance.choice(starts) + chance.randbytes(chance.randrange(200)) + b"\r\n\r\n"
            )
            raw.shutdown(socket.SHUT_WR)
            answer = raw.recv(1000)
            assert b" 500 " not in answer[:20] and b"Traceback" not in answer
    with open_door.http() as http:
        assert http.get("/api/about").status_code == 200
    assert "Traceback" not in caplog.text
