"""Reports on odd data, with hostile names, under bad input; and how they are written."""

import html
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from jinja2 import UndefinedError
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from estimator_cases import ScoreItself
from report_cases import NASTY, Reader, embedded, guarded, linear_model, plain, screening, section
from taufpl import TauFPLClassifier, TauFPLRanker, report
from taufpl.exceptions import RankingCollapseWarning
from taufpl.report import render_report, write_report
from taufpl.report._page import templates

X, Y = screening()


@pytest.fixture(scope="module")
def linear():
    return linear_model()


# Odd data


def test_no_positives():
    page = render_report(guarded(), X[Y == 0], Y[Y == 0], data_is_new=True)
    data = embedded(page)
    assert data["operating"]["recall"] is None
    assert data["base_rate"] is None
    assert data["verdict"] in {"kept", "open"}
    assert "There are no positive cases in this data" in plain(page)
    given = embedded(render_report(guarded(), X[Y == 0], Y[Y == 0], base_rate=0.1))
    assert given["operating"]["false_alarms"] == pytest.approx(9000 * given["operating"]["fpr"])
    assert given["operating"]["precision"] is None


def test_no_negatives():
    page = render_report(guarded(), X[Y == 1], Y[Y == 1], data_is_new=True)
    data = embedded(page)
    assert data["verdict"] == "open"
    assert data["slider"] is None
    assert data["operating"]["recall"] == pytest.approx(np.mean(guarded().predict(X[Y == 1])))
    assert 'id="tau"' not in page
    assert "no harmless cases" in plain(page)


@pytest.mark.parametrize("kind", [0, 1])
def test_one_row(kind):
    page = render_report(guarded(), X[np.flatnonzero(kind == Y)[:1]], [kind])
    assert "1 row:" in plain(page)


@pytest.mark.parametrize("value", [0.0, 1e300, -3.5])
def test_ties_everywhere(value):
    tied = np.full_like(X, value)
    page = render_report(guarded(), tied, Y)
    data = embedded(page)
    assert data["operating"]["fpr"] in {0.0, 1.0}
    assert set(data["slider"]["measured"]["n_false"]) == {0}
    plain(page)


@pytest.mark.parametrize("size", [1e306, 4e307])
def test_huge_scores(size):
    plain(render_report(guarded(), np.clip(X, -4.0, 4.0) * size, Y))


def test_nothing_predicted_positive():
    train_X, train_y = screening(60, 20)
    options = {"threshold": "np", "insufficient": "infinite", "reg": 0.01, "tau_scale": 4.0, "random_state": 0}
    model = TauFPLClassifier(0.01, **options).fit(train_X, train_y)
    assert np.isposinf(model.threshold_)
    page = render_report(model, X, Y, data_is_new=True)
    data, text = embedded(page), plain(page)
    assert data["operating"]["threshold"] is None
    assert (data["operating"]["fpr"], data["operating"]["recall"]) == (0.0, 0.0)
    assert data["verdict"] == "kept"
    assert "No case raises an alarm, harmless or not." in text
    assert "at least 299 harmless cases" in text
    assert "there is no alarm to show" in text
    # The scores themselves are not lost: other tolerances still have a recall.
    assert max(data["slider"]["measured"]["n_true"]) > 200


def test_collapsed_ranking():
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(600, 3)), np.repeat([0, 1], [500, 100])
    with pytest.warns(RankingCollapseWarning):
        model = TauFPLRanker(0.01).fit(noise, labels)
    text = plain(render_report(model, noise, labels))
    assert "The ranking has collapsed." in text
    assert "All weights are zero" in text


def test_labels_as_text():
    labels = np.array(["ham", "spam"])
    page = render_report(guarded(labels=("ham", "spam")), X, labels[Y])
    assert "4,000 harmless cases (label 'ham') and 300 positives (label 'spam'" in plain(page)
    both = []
    for label, pair in (("spam", labels), ("ham", labels[::-1])):
        model = TauFPLRanker(0.05, tau_scale=5.0, pos_label=label).fit(X, pair[Y])
        both.append(embedded(render_report(model, X, pair[Y])))
    assert both[0] == both[1]
    series = pd.Series(labels[Y], index=np.arange(len(Y))[::-1], dtype="category")
    assert embedded(render_report(guarded(labels=("ham", "spam")), X, series)) == embedded(page)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_pipelines_and_searches(frame):
    names = ["amount", "age", "hour"]
    data = frame({name: X[:, i] for i, name in enumerate(names)})
    model = make_pipeline(StandardScaler(), TauFPLRanker(0.05, tau_scale=5.0)).fit(data, Y)
    search = GridSearchCV(model, {"taufplranker__reg": [0.1, 0.01]}, cv=2).fit(data, Y)
    for each in (model, search, FrozenEstimator(model)):
        page = render_report(each, data, Y)
        assert "amount" in section(page, "features")
        assert "TauFPLRanker on 4,300 rows" in plain(page)


@pytest.mark.slow
def test_a_million_rows_are_quick_and_small(linear, tmp_path):
    rng = np.random.default_rng(0)
    many, labels = rng.normal(size=(1_000_000, 3)), (rng.random(1_000_000) < 0.02).astype(int)
    many[:, 0] += 2.0 * labels
    began = time.perf_counter()
    path = write_report(linear, many, labels, tmp_path / "report.html", data_is_new=True)
    seconds = time.perf_counter() - began
    assert path.stat().st_size < 400_000  # and not 3 MB
    assert seconds < 5.0
    assert max(map(len, re.findall(r' d="([^"]*)"', path.read_text(encoding="utf-8")))) < 60_000


def test_drawings_stay_small_for_scores_without_ties():
    rng = np.random.default_rng(0)
    X_, y = rng.normal(size=(200_000, 3)), rng.integers(0, 2, size=200_000)
    assert len(render_report(guarded(), X_, y)) < 400_000


# Escaping, structure, self-containment


def nasty_page():
    frame = pd.DataFrame(
        X,
        columns=[NASTY.replace("\ud800", "") + str(i) for i in range(3)],
        index=pd.Index([NASTY] * len(Y), dtype=object),
    )
    labels = np.array([NASTY + "0", NASTY + "1"], dtype=object)
    model = TauFPLRanker(0.02, tau_scale=9.0, pos_label=labels[1]).fit(frame, labels[Y])
    return render_report(model, frame, labels[Y], title=NASTY)


def test_what_users_write_is_inert():
    page = nasty_page()
    page.encode("utf-8")
    reader = Reader(page)
    assert not reader.bad
    assert "img" not in reader.tags
    assert reader.tags.count("script") == 3
    assert not [each for each in reader.attributes if each[1].startswith("on")]
    assert "<img src=x onerror='alert(2)'>&amp; \"q\"" in reader.text
    assert "`$title` ${x}" in reader.text
    embedded(page)


def test_embedded_data_cannot_end_their_element():
    embed = templates().from_string("{{ data | tojson }}")
    assert not {"<", ">", "&"} & set(embed.render(data={"name": "</script><!--", "and": "&"}))
    with pytest.raises(ValueError, match="JSON"):
        embed.render(data=float("inf"))


def test_templates_escape_everything_and_know_every_name():
    assert templates().from_string("{{ name }}").render(name='<b title="x">') == "&lt;b title=&#34;x&#34;&gt;"
    with pytest.raises(UndefinedError, match="nobody"):
        templates().from_string("{{ nobody }}").render()
    folder = Path(report.__file__).parent / "templates"
    safe = {path.name: len(re.findall(r"\|\s*safe", path.read_text(encoding="utf-8"))) for path in folder.iterdir()}
    assert sum(safe.values()) == safe["macros.html"] == 1  # the class of a numeric cell, a constant


def test_without_jinja2_the_extra_is_named(linear, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    templates.cache_clear()
    with pytest.raises(ImportError, match=r"jinja2 is needed to write a report.*pip install 'taufpl\[report\]'"):
        render_report(linear, X, Y)


def test_page_is_self_contained_and_well_formed(linear):
    page = render_report(linear, X, Y)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page.replace("data:,", ""))
    reader = Reader(page)
    assert not reader.bad
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = {value for tag, name, value in reader.attributes if (tag, name) == ("label", "for")}
    assert {"tau", "volume", "base"} <= named
    referred = [value for _, name, value in reader.attributes if name in {"aria-labelledby", "aria-describedby", "for"}]
    assert set(referred) <= set(ids)
    assert page.count("<h1") == 1
    assert "taufpl 0." in reader.text
    assert "0.02" in section(page, "parameters")
    assert embedded(page)["fingerprint"] in reader.text


def test_fingerprint_knows_scores_and_labels(linear):
    first = embedded(render_report(linear, X, Y))["fingerprint"]
    assert embedded(render_report(linear, X, Y))["fingerprint"] == first
    moved = X.copy()
    moved[5, 0] += 1e-9
    swapped = Y.copy()
    swapped[5] = 1
    assert embedded(render_report(linear, moved, Y))["fingerprint"] != first
    assert embedded(render_report(linear, X, swapped))["fingerprint"] != first


@pytest.mark.slow
def test_no_matplotlib_is_needed():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np\n"
        "from taufpl import TauFPLRanker\n"
        "from taufpl.report import render_report\n"
        "y = np.repeat([0, 1], [50, 10]); X = np.random.default_rng(0).normal(size=(60, 2)) + 3 * y[:, None]\n"
        "assert 'ROC curve' in render_report(TauFPLRanker(0.1).fit(X, y), X, y)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


# Writing


def test_file_is_written_whole_or_not_at_all(linear, tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    assert write_report(linear, X, Y, str(path), title="first") == path
    before = path.read_text(encoding="utf-8")
    assert html.escape("first") in before
    if os.name == "posix":
        plain_file = tmp_path / "plain"
        plain_file.touch()
        assert path.stat().st_mode == plain_file.stat().st_mode

    def fails(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="no space"):
        write_report(linear, X, Y, path, title="second")
    monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == before
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]
    write_report(linear, X, Y, path, title="second")
    assert "second" in path.read_text(encoding="utf-8")


# Bad input


def test_an_unfitted_model_is_refused():
    with pytest.raises(NotFittedError, match="not fitted"):
        render_report(TauFPLClassifier(), X, Y)
    with pytest.raises(NotFittedError):
        render_report(make_pipeline(StandardScaler(), TauFPLRanker()), X, Y)


def test_other_models_are_refused_with_advice():
    with pytest.raises(TypeError, match=r"got LogisticRegression.*cv='prefit'"):
        render_report(LogisticRegression().fit(X, Y), X, Y)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"y": Y[:-1]}, ValueError, r"one label a row of X, 4300; got 4299"),
        ({"X": X[:0], "y": Y[:0]}, ValueError, "at least one row|0 sample"),
        ({"X": X[:, :2]}, ValueError, "features"),
        ({"X": np.where(X > 2, np.nan, X)}, ValueError, "NaN"),
        ({"y": np.where(Y == 1, 7, 0)}, ValueError, r"fitted with, \[0, 1\]; got .*7"),
        ({"y": np.where(Y == 1, np.nan, 0.0)}, ValueError, r"got .*nan"),
        ({"y": Y.astype(str)}, ValueError, "fitted with"),
        ({"volume_per_day": -1}, ValueError, "volume_per_day"),
        ({"volume_per_day": "many"}, TypeError, "volume_per_day"),
        ({"base_rate": 2}, ValueError, "write 0.01 for 1 %"),
        ({"base_rate": float("nan")}, ValueError, "base_rate"),
        ({"n_examples": 1.5}, TypeError, "n_examples"),
        ({"n_examples": -1}, ValueError, "n_examples"),
        ({"n_examples": 501}, ValueError, "at most 500"),
        ({"data_is_new": "yes"}, TypeError, "data_is_new"),
        ({"training": X}, TypeError, r"pair \(X, y\)"),
        ({"feature_names": ["a", "b"]}, ValueError, "one name a feature, 3; got 2"),
    ],
)
def test_bad_input_is_told(linear, change, error, match):
    given = {"X": X, "y": Y, **change}
    with pytest.raises(error, match=match):
        render_report(linear, given.pop("X"), given.pop("y"), **given)


def test_scores_that_are_not_numbers_are_refused():
    class Broken(ScoreItself):
        def decision_function(self, X):
            return np.where(np.arange(len(X)) == 3, np.nan, X[:, 0])

    model = guarded()
    model.estimators_ = [Broken().fit(X, Y)]
    with pytest.raises(ValueError, match="first at index 3"):
        render_report(model, X, Y)
