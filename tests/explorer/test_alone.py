"""The page that computes by itself, in a real browser, from a file: against Python and theory."""

import json
import math
from urllib.parse import quote

import numpy as np
import pytest

import metastable as ms
from metastable.cli import app as cli
from metastable.explorer.standalone import ALONE
from metastable.observe import kernel_modes
from metastable.observe.modes import amplitudes
from metastable.theory.counts import total_variation
from tests.browser.chrome import Chrome, find_chrome

FIELDS = {
    "SA": {"beta": 9.0},
    "USA": {"beta": 2.0, "normalized": False},
    "causal": {"beta": 9.0, "causal": True},
    "repulsion": {"beta": 4.0, "value": -1.0},
    "causal USA": {"beta": 2.0, "normalized": False, "causal": True},
}
READY = "window.metastable && metastable.frames > 0 && metastable.prediction"


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    if find_chrome() is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    chrome = Chrome(tmp_path_factory.mktemp("chrome"))
    yield chrome
    chrome.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The exported page, made by the command."""
    folder = tmp_path_factory.mktemp("page") / "deep" / "er"
    assert not cli(["explore", "--export", str(folder), "--json"], standalone_mode=False)
    assert [found.name for found in folder.iterdir()] == ["index.html"]
    return folder / "index.html"


@pytest.fixture(scope="module")
def page(chrome, file):
    page = chrome.open()
    page.ask("Network.emulateNetworkConditions", offline=True, latency=0,
             downloadThroughput=0, uploadThroughput=0)  # fmt: skip
    return page


def address(file, **spec):
    return file.as_uri() + "#" + quote(json.dumps({"spec": spec}))


def visit(page, url):
    page.go("about:blank")
    page.go(url)
    page.wait(READY)
    page.settle()


def compute(page, file, **spec):
    """The tokens at the end of a run on the page, which then shows the last frame."""
    visit(page, address(file, **spec))
    page.click("#play")
    page.wait("metastable.last")
    page.fill("#scrub", 1000)
    page.wait(f"metastable.time === {spec['flow']['horizon']}")
    return np.array(page.get("metastable.last"))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", FIELDS)
def test_tokens_stand_where_python_puts_them(page, file, name, dim):
    """To 1e−6 after t = 5, against Dormand–Prince of order 8 at 1e−12."""
    field = FIELDS[name]
    start = ms.uniform(tokens=57 + dim, dim=dim, seed=5)  # an odd and an even number
    run = ms.flow(start, ms.SelfAttention(**field), 5.0, stepper=ms.Adaptive(1e-12, 1e-12))
    last = compute(
        page,
        file,
        measure={"kind": "tokens", "points": np.asarray(start.points).tolist()},
        field={"kind": "self_attention", **field},
        flow={"horizon": 5.0, "frames": 21},
    )
    final, beta = run.frames[-1], field["beta"]
    assert np.abs(last[:, :dim] - np.asarray(final.points)).max() < 1e-6
    assert not np.any(last[:, dim:])
    seen = page.get("metastable.moment")
    assert seen["energy"] == pytest.approx(float(ms.energy(final, beta, scaled=True)), abs=1e-7)
    np.testing.assert_allclose(seen["amplitudes"], amplitudes(final, 8), atol=1e-6)
    if name != "repulsion":  # tokens evenly spread have no maxima but those of rounding
        assert seen["maxima"] == kernel_modes(final, beta).count
    assert not page.complaints


@pytest.mark.parametrize(("dim", "seed"), [(2, 1), (3, 1), (3, 2)])
def test_maxima_are_counted_before_tokens_gather(page, file, dim, seed):
    """While the potential is nearly flat mean shift creeps: it must neither stop nor leap over."""
    start = ms.uniform(tokens=300, dim=dim, seed=seed)
    last = compute(
        page,
        file,
        measure={"kind": "tokens", "points": np.asarray(start.points).tolist()},
        field={"kind": "self_attention", "beta": 9.0},
        flow={"horizon": 0.5, "frames": 2},
    )
    tokens = ms.Points(last[:, :dim])
    assert page.get("metastable.moment.maxima") == kernel_modes(tokens, 9.0).count


def test_exponentials_are_those_of_python(page):
    """e^z, with z itself rounded: 1.1e−16·|z|, and as much again for each of four products."""
    plain = lambda value: repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    table = (ALONE / "power.js").read_text(encoding="utf-8").replace("export ", "")
    ask = f"(() => {{ {table}; return [%s].map((z) => String(power(UNIT * z))); }})()"
    ours = lambda zs: [float(e) for e in page.get(ask % ",".join(map(plain, zs)))]
    z = np.concatenate([np.linspace(-708, 709, 5001), np.linspace(-2e-3, 2e-3, 101)])
    error = np.abs(np.array(ours(z.tolist())) / np.exp(z) - 1)
    assert np.all(error < 4.5e-16 + 2.3e-16 * np.abs(z))
    tiny = np.linspace(-746, -708, 201)  # below the smallest normal number: to its last digits
    assert np.abs(np.array(ours(tiny.tolist())) - np.exp(tiny)).max() < 1e-320
    limits = ours([0.0, -0.0, -746.0, -1e6, -math.inf, 710.0, math.inf])
    assert limits == [1, 1, 0, 0, 0, math.inf, math.inf]
    assert math.isnan(ours([math.nan])[0])
    assert ours([709.78])[0] == pytest.approx(math.exp(709.78), rel=1e-12)  # near the largest


@pytest.mark.parametrize("dim", [2, 3])
def test_noise_is_brownian_motion(page, file, dim):
    """E P_ℓ(⟨x(t),x(0)⟩) = e^{−ℓ(ℓ+d−2)t/κ}; tokens pull each other by O(1/n) only."""
    start = np.asarray(ms.uniform(tokens=1000, dim=dim, seed=2).points)
    kappa, time = 2.0, 0.5
    last = compute(
        page,
        file,
        measure={"kind": "tokens", "points": start.round(9).tolist()},
        field=[{"kind": "self_attention", "beta": 0.0}, {"kind": "noise", "kappa": kappa}],
        flow={"horizon": time, "frames": 3, "seed": 7},
    )
    assert np.abs(np.linalg.norm(last, axis=1) - 1).max() < 1e-12
    cosine = np.sum(last[:, :dim] * start, axis=1)
    second = 2 * cosine**2 - 1 if dim == 2 else 1.5 * cosine**2 - 0.5
    for degree, values in ((1, cosine), (2, second)):
        error = float(np.std(values)) / math.sqrt(len(values))
        expected = math.exp(-degree * (degree + dim - 2) * time / kappa)
        assert abs(np.mean(values) - expected) < 4 * error < 0.1


@pytest.mark.parametrize(
    ("dim", "field", "kappa"),
    [
        (2, {"beta": 5.3}, None),
        (3, {"beta": 7.7}, None),
        (3, {"beta": 40.0}, None),
        (2, {"beta": 3.1, "normalized": False}, None),
        (3, {"beta": 0.03, "normalized": False}, None),
        (2, {"beta": 4.0, "value": -1.0}, None),
        (3, {"beta": 4.3}, 30.0),
        (2, {"beta": 1.0}, 1.5),
    ],
)
def test_tables_say_what_predict_says(page, file, dim, field, kappa):
    """At β between those of the tables."""
    parts = [{"kind": "self_attention", **field}]
    head = ms.SelfAttention(**field)
    if kappa:
        parts.append({"kind": "noise", "kappa": kappa})
    expected = ms.predict(head + ms.Noise(kappa) if kappa else head, dim, 700)
    measure = {"kind": "uniform", "tokens": 700, "dim": dim}
    visit(page, address(file, measure=measure, field=parts))
    found = page.get("metastable.prediction")
    rates = np.array((expected.rates or [])[:8], float)
    np.testing.assert_allclose(found["rates"][:8], rates, rtol=1e-4, atol=1e-4 * abs(rates).max())
    assert found["dominant"] == expected.dominant_mode
    assert found["clock"] == expected.clock
    assert (found["exit_time"] is None) == (expected.exit_time is None)
    if expected.exit_time:
        assert found["exit_time"] == pytest.approx(expected.exit_time, rel=1e-4)
    if expected.critical_noise and "value" not in field:
        assert found["critical_noise"] == pytest.approx(expected.critical_noise, rel=1e-4)
    assert (found["counts"] is None) == (expected.cluster_distribution is None)
    if expected.cluster_distribution:
        counts = {int(count): share for count, share in found["counts"].items()}
        # Chance: 150 starts against 500, and a mixture of neighbours is a little wider.
        assert total_variation(counts, expected.cluster_distribution) < 0.2
        mean = sum(count * share for count, share in counts.items())
        assert mean == pytest.approx(expected.expected_clusters, rel=0.06)


def test_page_is_one_small_file_that_can_ask_for_nothing(chrome, file):
    assert file.stat().st_size < 2e6
    text = file.read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "connect-src" not in text
    page = chrome.open(file.as_uri())
    page.wait(READY)
    page.wait("metastable.playing && metastable.time > 0")  # it plays when no state is given
    assert page.get("document.querySelector('#beta').value") == "9"
    assert not page.complaints
    assert {url.split(":")[0] for url in page.requests} <= {"about", "file", "data", "blob"}
    refused = "fetch('http://127.0.0.1:9/').then(() => 'answered', () => 'refused')"
    assert page.get(refused) == "refused"
    assert any("Content Security Policy" in complaint for complaint in page.complaints)
    page.go("about:blank")


def test_sentence_joins_theory_and_what_was_seen(page, file):
    measure = {"kind": "uniform", "tokens": 200, "dim": 2, "seed": 4}
    compute(page, file, measure=measure, field={"beta": 9.0}, flow={"horizon": 12.0, "frames": 61})
    page.wait("document.querySelector('#outlook-seen').textContent.includes('gathered')")
    sentence = page.get("document.querySelector('#outlook').innerText")
    # ℓ* = 4 at β = 9, and ln n/(2λ_4) is the exit time.
    exit_time = ms.predict(ms.SelfAttention(9.0), 2, 200).exit_time
    assert f"Theory: most likely 4 clusters near t = {exit_time:.3g}." in sentence
    assert "Seen: " in sentence and "gathered by t = " in sentence
    assert page.get("document.querySelectorAll('#verdicts tbody:first-of-type tr').length") == 1
    # Charts below the screen are not drawn while it plays, and are once it stands: for printing.
    for chart in ("modes", "products", "attention"):
        ink = "{data} = c.getContext('2d').getImageData(0, 0, c.width, c.height)"
        page.wait(f"(c => {{ const {ink}; return data.some(Boolean); }})"
                  f"(document.querySelector('#chart-{chart}'))")  # fmt: skip


def test_address_restores_the_state(chrome, page, file):
    visit(page, address(file, measure={"tokens": 50, "dim": 3}, field={"beta": 2.0}))
    page.fill("#beta", 17)
    page.get("document.querySelector('#usa').click()")
    page.fill("#value", "minus")
    page.fill("#kappa", 12)
    page.fill("#colour", "speed")
    page.wait("metastable.prediction.clock === 'USA' && metastable.frames === 1")
    page.settle()
    other = chrome.open(page.get("location.href"))
    other.wait(READY)
    spec = other.get("metastable.spec")
    assert spec == page.get("metastable.spec")
    head, noise = spec["field"]
    assert (head["beta"], head["normalized"], head["value"]) == (17, False, -1)
    assert noise == {"kappa": 12, "kind": "noise"}
    assert other.get("document.querySelector('#colour').value") == "speed"
    other.settle()
    there = other.get("metastable.checksum")
    page.front()
    page.settle()
    assert page.get("metastable.checksum") == there != 0


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_first_screen_holds_answer_sphere_and_play(page, file, size):
    page.resize(*size)
    try:
        visit(page, address(file, measure={"tokens": 100, "dim": 3}, field={"beta": 9.0}))
        page.wait("document.querySelector('#outlook-theory').textContent.length > 9")
        for name in ("#outlook", "#sphere", "#play", "#scrub"):
            box = page.get(
                f"(({{left, right, top, bottom}}) => [left, right, top, bottom])"
                f"(document.querySelector('{name}').getBoundingClientRect())"
            )
            assert 0 <= box[0] < box[1] <= size[0] and 0 <= box[2] < box[3] <= size[1], name
        assert page.get("document.documentElement.scrollWidth") <= size[0]
    finally:
        page.resize(1280, 900)


def test_keys_play_pause_and_turn(page, file):
    visit(page, address(file, measure={"tokens": 40, "dim": 3}, field={"beta": 4.0}))
    page.get("document.querySelector('#sphere').focus()")
    page.press("Space")
    page.wait("metastable.playing && metastable.time > 0.2")
    page.wait("!document.querySelector('#outlook').innerText.includes('press play')")
    page.press("Space")
    page.wait("!metastable.playing")
    drawn = page.get("metastable.drawn")
    page.get("document.querySelector('#sphere').dispatchEvent("
             "new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))")  # fmt: skip
    page.wait(f"metastable.drawn > {drawn}")


@pytest.mark.parametrize(
    "spec",
    [
        {"measure": {"tokens": 20}, "field": {"kind": "kuramoto"}},
        {"measure": {"tokens": 20, "dim": 4}},
        {"measure": {"tokens": 20}, "field": {"query": [[1, 0], [0, 2]]}},
        {"measure": {"tokens": 20}, "flow": {"horizon": "end", "stepper": {"kind": "merging"}}},
    ],
)
def test_what_the_page_cannot_do_is_refused_in_a_sentence(page, file, spec):
    page.go("about:blank")
    page.go(address(file, **spec))
    page.wait("window.metastable && document.querySelector('#complaint').textContent")
    assert "metastable explore" in page.get("document.querySelector('#complaint').textContent")
    assert not page.complaints
