"""A server, its page in a real browser; skipped where no browser can be had."""

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.browser.chrome import Chrome, find_chrome
from tests.explorer.serving import Served


@pytest.fixture(scope="session")
def chrome(tmp_path_factory):
    if find_chrome() is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    chrome = Chrome(tmp_path_factory.mktemp("chrome"))
    yield chrome
    chrome.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.stop()
