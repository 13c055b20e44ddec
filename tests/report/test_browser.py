"""The report in a real browser: it loads without an error, the slider tells what Python computes, it fits a phone."""

import base64
import shutil
import tempfile

import numpy as np
import pandas as pd
import pytest

from estimator_cases import ScoreItself
from report_cases import NASTY, embedded, guarded, linear_model, screening
from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker
from taufpl.report import amount, rate, total, write_report
from taufpl.thresholding import OutOfBootstrap

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install 'taufpl[test]'")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(DRIVER is None, reason="no chromedriver on this machine"),
]

X, Y = screening()
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
        try:
            yield Browser(driver)
        finally:
            driver.quit()


class Browser:
    """A few words for what the tests do."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, *, width=1200, dark=False, media="", script=True):
        self.command("Emulation.setScriptExecutionDisabled", value=not script)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", media=media, features=[scheme])
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        assert self.driver.get_log("browser") == []

    def command(self, name, **given):
        return self.driver.execute_cdp_cmd(name, given)

    def run(self, script, *given):
        return self.driver.execute_script(script, *given)

    def text(self, key):
        return self.run("return document.getElementById(arguments[0]).textContent", key)

    def value(self, key):
        found = self.run("return document.getElementById(arguments[0]).dataset.value", key)
        return float(found) if found else None

    def set(self, key, value, event="input"):
        self.run(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event(arguments[2], {bubbles: true}))",
            key,
            str(value),
            event,
        )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    options = {"base_rate": 0.004, "volume_per_day": 20_000, "data_is_new": True}
    return write_report(linear_model(), X, Y, path, **options)


def day(n_false, n_true, volume, base):
    """What a threshold means a day, by the definitions."""
    fpr, recall = n_false / 4000, n_true / 300
    true, false = volume * base * recall, volume * (1 - base) * fpr
    return {
        "fpr": fpr,
        "recall": recall,
        "true_alarms": true,
        "false_alarms": false,
        "alarms": true + false,
        "missed": volume * base * (1 - recall),
        "precision": true / (true + false) if true + false else None,
    }


def expect(browser, column, expected):
    for name, value in expected.items():
        found = browser.value(f"{column}-{name}")
        assert (found is None) if value is None else found == pytest.approx(value, rel=1e-12), name
        written = amount if "alarms" in name or name == "missed" else rate
        parts = [browser.value(f"{column}-{part}_alarms") for part in ("true", "false")]
        assert browser.text(f"{column}-{name}") == (total(*parts) if name == "alarms" else written(found)), name


def test_it_loads_with_the_figures_that_python_wrote(browser, page):
    browser.open(page, script=False)
    names = [f"{column}-{name}" for column in ("used", "tried") for name in day(1, 1, 1, 0.5)]
    before = {name: browser.text(name) for name in names}
    browser.open(page)
    assert {name: browser.text(name) for name in names} == before


@pytest.mark.parametrize("way", ["measured", "proven"])
def test_the_slider_tells_what_python_computes(browser, page, way):
    browser.open(page)
    data = embedded(page.read_text(encoding="utf-8"))
    score = linear_model().decision_function(X) + linear_model().threshold_
    steps = data["slider"]
    browser.run("document.querySelector(`input[value='${arguments[0]}']`).click()", way)
    for at in (0, 7, steps["own"], 60, len(steps["tau"]) - 1):
        browser.set("tau", at)
        tau, threshold = steps["tau"][at], steps[way]["threshold"][at]
        assert browser.text("tau-out") == rate(tau)
        if threshold is None:
            assert browser.value("tried-fpr") is None
            assert f"at least {steps['needed'][at]:,} harmless cases; there are 4,000" in browser.text("tried-note")
            continue
        above = score > threshold + 1e-9
        counts = int(np.sum(above[Y == 0])), int(np.sum(above[Y == 1]))
        expect(browser, "tried", day(*counts, 20_000, 0.004))
        assert browser.value("tried-fpr_upper") == pytest.approx(steps[way]["fpr_upper"][at])
        assert browser.value("tried-fpr") <= tau
        assert rate(tau) in browser.run("return document.getElementById('tau').getAttribute('aria-valuetext')")
        alarm = linear_model().predict(X) == 1
        expect(browser, "used", day(int(alarm[Y == 0].sum()), int(alarm[Y == 1].sum()), 20_000, 0.004))


def test_volume_and_base_rate_can_be_changed_and_put_back(browser, page):
    browser.open(page)
    used = embedded(page.read_text(encoding="utf-8"))["operating"]
    browser.set("volume", 365)
    browser.set("base", 12.5)
    expect(browser, "used", day(used["n_false"], used["n_true"], 365, 0.125))
    for wrong in ("", "-3", "200", "x"):
        browser.set("base", wrong)
        assert browser.value("used-precision") is None
        assert browser.text("used-alarms") == "–"
    browser.set("tau", 3)
    browser.run("document.getElementById('put-back').click()")
    expect(browser, "used", day(used["n_false"], used["n_true"], 20_000, 0.004))
    assert browser.text("tau-out") == rate(0.02)


def test_keys_move_the_slider(browser, page):
    browser.open(page)
    taus = embedded(page.read_text(encoding="utf-8"))["slider"]["tau"]
    slider = browser.driver.find_element("id", "tau")
    own = taus.index(0.02)
    for key, step in (("\ue014", 1), ("\ue012", -1), ("\ue00e", 10), ("\ue00f", -10)):  # right, left, page up and down
        browser.set("tau", own)
        slider.send_keys(key)
        assert browser.text("tau-out") == rate(taus[own + step])
    marks = browser.run("return [...document.querySelectorAll('#tried, #tried-score')].map((e) => e.style.left)")
    assert all(mark.endswith("%") for mark in marks)


def test_themes(browser, page):
    def shade():
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour[4:-1].split(","))) / 3

    browser.open(page, dark=True)
    assert shade() < 60
    browser.run("document.getElementById('theme').click()")
    assert shade() > 200
    browser.open(page)
    assert shade() > 200
    browser.run("document.getElementById('theme').click()")
    assert shade() < 60
    assert browser.text("theme") == "Light"


CONTRAST = """
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const light = (c) => { const v = c.slice(0, 3).map((x) => { x /= 255; return x <= 0.04045 ? x / 12.92
  : Math.pow((x + 0.055) / 1.055, 2.4); }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
const low = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || !e.getClientRects().length || ["SCRIPT", "STYLE"].includes(e.tagName)) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) low.push([e.tagName, e.className, e.textContent.slice(0, 30), ratio]);
}
return low;
"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out(browser, page, dark):
    browser.open(page, dark=dark)
    assert browser.run(CONTRAST) == []


def odd_pages(folder):
    """Reports of many kinds, hostile names among them."""
    plain = "word" * 100
    frame = pd.DataFrame(
        X,
        columns=[NASTY.replace("\ud800", "") + plain + str(i) for i in range(3)],
        index=pd.Index([NASTY] * len(Y), dtype=object),
    )
    labels = np.array([NASTY + "0", NASTY + "1"], dtype=object)
    hostile = TauFPLRanker(0.02, tau_scale=9.0, pos_label=labels[1]).fit(frame, labels[Y])
    yield write_report(hostile, frame, labels[Y], folder / "hostile.html", title=NASTY + plain)
    settings = {"threshold": OutOfBootstrap(n_rounds=4), "reg": 0.01, "tau_scale": 4.0, "random_state": 0}
    yield write_report(TauFPLClassifier(0.05, **settings).fit(X, Y), X, Y, folder / "oob.html", data_is_new=False)
    yield write_report(guarded([0.01, 0.02, 0.05]), X, Y, folder / "several.html", training=(X, Y))
    few_X, few_y = screening(50, 10)
    nobody = NeymanPearsonClassifier(ScoreItself().fit(X, Y), 0.01, cv="prefit", insufficient="infinite")
    yield write_report(nobody.fit(few_X, few_y), X, Y, folder / "nobody.html", data_is_new=True)
    yield write_report(guarded(), X[Y == 0], Y[Y == 0], folder / "no-positives.html")
    yield write_report(guarded(), X[Y == 1], Y[Y == 1], folder / "no-negatives.html")
    yield write_report(guarded(), X[:1], Y[:1], folder / "one.html")


@pytest.mark.slow
def test_every_kind_of_report_fits_a_phone_and_runs_nothing_foreign(browser, page, tmp_path):
    for path in (page, *odd_pages(tmp_path)):
        for width in (375, 320, 1200):
            browser.open(path, width=width)
            wide = browser.run("return document.documentElement.scrollWidth")
            assert wide <= width, f"{path.name} is {wide} wide on {width}"
        assert browser.run("return document.querySelectorAll('img, iframe, object').length") == 0
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        if browser.run("return document.getElementById('tau') !== null"):
            browser.set("tau", 0)
            assert browser.driver.get_log("browser") == []


def test_print_is_light_and_without_controls(browser, page):
    browser.open(page, dark=True, media="print")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for key in ("controls", "theme", "try"):
        shown = browser.run("return document.getElementById(arguments[0]).getClientRects().length", key)
        assert shown == 0, key
    assert browser.run("return document.getElementById('tolerances').getClientRects().length") == 1
    printed = browser.command("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
    document = base64.b64decode(printed["data"])
    assert document.startswith(b"%PDF")
    assert 2 <= document.count(b"/Type /Page\n") <= 8


def test_without_scripts_the_tables_are_there(browser, page):
    browser.open(page, script=False)
    note = browser.driver.find_element("css selector", "noscript p")
    assert note.is_displayed()
    assert not browser.driver.find_element("id", "controls").is_displayed()
    assert browser.driver.find_element("id", "tolerances").is_displayed()
    browser.command("Emulation.setScriptExecutionDisabled", value=False)
