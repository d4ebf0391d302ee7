"""One server for all tests of this folder that want a real one."""

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="session")
def inside():
    from tests.explorer.serving import Inside

    server = Inside(runs=2)
    yield server
    server.stop()
    assert not server.workers and not server.thinkers  # no process outlives the server
