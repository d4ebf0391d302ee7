"""One server for all tests of this folder that want a real one."""

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.explorer.serving import Served


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("served"), "--runs", "2")
    yield served
    served.stop()
