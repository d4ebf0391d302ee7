"""Who is let in."""

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from metastable.explorer import guard
from metastable.explorer.app import create_app
from metastable.explorer.guard import hosts_of, is_loopback, page_policy

TOKEN = "a-token-of-some-length"


def visit(token=None, host="127.0.0.1", base="http://127.0.0.1:8765"):
    """A client without the server's lifespan: no worker is started."""
    return TestClient(create_app(hosts=hosts_of(host), token=token), base_url=base)


def test_foreign_names_for_this_machine_get_nothing():
    for host in ("evil.example", "127.0.0.1.evil.example", "", "0.0.0.0"):
        answer = visit().get("/api/about", headers={"host": host})
        assert answer.status_code == 421 and "Host" in answer.json()["error"]
    assert visit().get("/api/about", headers={"host": "localhost:1"}).status_code == 200


def test_pages_of_other_sites_cannot_post_or_connect():
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "garbage", "http://["):
        headers = {"origin": origin}
        answer = visit().post("/api/export", json={"spec": {}}, headers=headers)
        assert answer.status_code == 403 and "Origin" in answer.json()["error"]
        with pytest.raises(WebSocketDisconnect) as closed:
            with visit().websocket_connect("ws://127.0.0.1:8765/api/live", headers=headers):
                pass
        assert closed.value.code == 1008
    same = {"origin": "http://127.0.0.1:8765"}
    assert visit().post("/api/export", json={"spec": {}}, headers=same).status_code == 200


def test_a_token_is_needed_where_one_was_set():
    assert visit(TOKEN).get("/api/about").status_code == 401
    assert visit(TOKEN).get("/static/style.css").status_code == 401
    assert visit(TOKEN).get("/api/about?token=wrong").status_code == 401
    client = visit(TOKEN)
    first = client.get(f"/?token={TOKEN}")
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert client.get("/static/style.css").status_code == 200  # by the cookie
    with pytest.raises(WebSocketDisconnect):
        with visit(TOKEN).websocket_connect("ws://127.0.0.1:8765/api/live"):
            pass


def test_every_answer_is_sealed_and_the_page_has_a_strict_policy():
    page = visit().get("/")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert "sha256-" in policy and "connect-src 'self'" in policy
    assert page_policy("<p>no map</p>").count("sha256") == 0
    for path in ("/", "/api/about", "/static/style.css", "/nothing"):
        headers = visit().get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_long_bodies_and_floods_are_refused(monkeypatch):
    monkeypatch.setattr(guard, "BODY", 1000)
    answer = visit().post("/api/export", content=b"x" * 2000)
    assert answer.status_code == 413
    chunks = (b"x" * 100 for _ in range(20))
    assert visit().post("/api/export", content=chunks).status_code == 413
    monkeypatch.setattr(guard, "BURST", 20.0)
    monkeypatch.setattr(guard, "RATE", 1.0)
    client = visit()
    assert {client.get("/api/folder").status_code for _ in range(60)} >= {200, 429}


def test_nothing_of_the_disk_is_served():
    client = visit()
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/../../etc/passwd",
        "/api/recording/../../etc/passwd",
        "/api/download/..%2f..%2fetc%2fpasswd.msr",
        "/api/download/x.zip",
        "/docs",
        "/openapi.json",
    ):
        answer = client.get(path)
        assert answer.status_code in (400, 404), path
        assert answer.json()["error"] and "import" not in answer.text


def test_loopback():
    assert is_loopback("::1") and is_loopback("localhost") and not is_loopback("192.168.0.1")
    assert hosts_of("0.0.0.0") is None and hosts_of("10.0.0.1") == {"10.0.0.1"}
