"""The page in a real browser, before a real server; then without one.

The tests go in the order of a visit and share the run that the first of them starts.
"""

import json
import time
import zipfile
from urllib.parse import quote

import pytest

from metastable.cli import app as cli

SPEC = {
    "measure": {"kind": "uniform", "tokens": 60, "dim": 2, "seed": 3},
    "field": {"kind": "self_attention", "beta": 4.0},
    "flow": {"horizon": 6.0, "frames": 61},
}
READY = "window.metastable && metastable.frames > 0 && metastable.prediction"


@pytest.fixture(scope="module")
def page(chrome, served):
    """A page that has played SPEC to its end."""
    page = chrome.open(served.url + "#" + quote(json.dumps({"spec": SPEC})))
    page.wait(READY)
    return page


def play_to_the_end(page):
    page.click("#play")
    page.wait("!metastable.running && metastable.frames === 61 && "
              "document.querySelector('#download-run').href")  # fmt: skip


def test_page_loads_without_complaints_or_foreign_requests(page, served):
    assert page.get("document.title") == "Metastable explorer"
    assert page.get("metastable.tokens") == 60
    assert not page.complaints
    assert all(url.split("/")[2] == served.host for url in page.requests if "://" in url)
    assert len(page.requests) > 10


def test_play_moves_tokens(page):
    before = page.get("metastable.checksum")
    play_to_the_end(page)
    page.wait("metastable.time > 3")
    assert page.get("metastable.checksum") != before
    assert page.get("document.querySelectorAll('#verdicts tbody tr').length") > 3
    assert not page.complaints


def test_scrubbing_goes_back_to_the_very_same_frame(page):
    sums = []
    for place, t in ((500, 3.0), (0, 0.0), (500, 3.0)):
        page.fill("#scrub", place)
        page.wait(f"!metastable.playing && Math.abs(metastable.time - {t}) < 0.11")
        page.settle()
        sums.append(page.get("metastable.checksum"))
    assert sums[0] == sums[2] != sums[1]


def test_download_is_accepted_by_compare(page, tmp_path, capsys):
    page.click("#download-run")
    zipfile.ZipFile(page.downloaded(".zip")).extractall(tmp_path)
    assert not cli(["compare", str(tmp_path / "run"), "--json"], standalone_mode=False)
    verdicts = json.loads(capsys.readouterr().out)
    assert verdicts["agree"] >= 3 and verdicts["disagree"] == 0


def test_changing_beta_changes_the_prediction(page):
    before = page.get("metastable.prediction")
    page.fill("#beta", 25)
    page.wait("metastable.prediction && metastable.prediction.dominant === 7")
    after = page.get("metastable.prediction")
    # √(2β) modes on the circle, arXiv:2410.23228: 3 at β = 4, 7 at β = 25.
    assert before["dominant"] == 3 and after["exit_time"] != before["exit_time"]
    assert page.get("metastable.spec.field.beta") == 25


def test_the_address_restores_the_state(chrome, page):
    page.fill("#colour", "speed")
    page.fill("#clock", "log")
    address = page.get("location.href")
    other = chrome.open(address)
    other.wait(READY)
    assert other.get("metastable.spec") == page.get("metastable.spec")
    assert other.get("document.querySelector('#beta').value") == "25"
    assert other.get("document.querySelector('#colour').value") == "speed"
    assert other.get("document.querySelector('#clock').value") == "log"
    assert other.get("metastable.prediction.dominant") == 7
    other.settle()
    there = other.get("metastable.checksum")
    assert not other.complaints
    page.front()
    page.settle()
    assert page.get("metastable.checksum") == there


def test_keys_alone_play_and_pause(page):
    page.fill("#clock", "linear")
    page.fill("#beta", 4)
    page.wait("metastable.prediction.dominant === 3 && metastable.frames === 1")
    page.get("document.querySelector('#sphere').focus()")
    page.press("Space")
    page.wait("metastable.playing && metastable.time > 0.5")
    page.press("Space")
    page.wait("!metastable.playing")


def test_tokens_move_soon_after_opening(chrome, served):
    """The first preset, which the server has compiled ahead; the time taken is printed."""
    page = chrome.open()
    for _ in range(2):
        page.go("about:blank")
        began = time.monotonic()
        page.go(served.url)
        page.wait(READY)
        before = page.get("metastable.checksum")
        page.click("#play")
        page.wait(f"metastable.checksum !== {before} && metastable.time > 0")
        print(f"from opening to motion: {time.monotonic() - began:.2f} s")
    page.go("about:blank")


def test_a_recording_plays_with_the_server_stopped(chrome, page, served):
    page.front()
    page.wait("!metastable.running && document.querySelector('#download-page').href")
    page.click("#download-page")
    page.click("#download-recording")
    file, tape = page.downloaded(".html"), page.downloaded(".msr")
    assert served.stop() in (0, 130)
    assert "Traceback" not in served.errors.read_text()
    alone = chrome.open(file.as_uri())
    alone.wait("window.metastable && metastable.frames === 61")
    assert alone.get("document.body.dataset.server") == "none"
    before = alone.get("metastable.checksum")
    alone.click("#play")
    alone.wait("metastable.time > 3")
    assert alone.get("metastable.checksum") != before
    assert not alone.complaints
    assert all(url.startswith(("file:", "data:", "blob:")) for url in alone.requests)
    # The page that was open all along can still open the recording.
    page.front()
    node = page.ask("DOM.getDocument")["root"]["nodeId"]
    field = page.ask("DOM.querySelector", nodeId=node, selector="#file")["nodeId"]
    page.ask("DOM.setFileInputFiles", files=[str(tape)], nodeId=field)
    page.wait("document.querySelector('#status').textContent.includes('61 frames')")
