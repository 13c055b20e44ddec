"""The report by the levels of a column, and by the segments of a model that has some."""

import numpy as np
import pandas as pd
import pytest

from estimator_cases import ScoreItself
from report_cases import NASTY, Reader, embedded, guarded, screening
from taufpl import NeymanPearsonClassifier
from taufpl.metrics import rates_by_level
from taufpl.persistence import SeenRows
from taufpl.report import render_report

X, Y = screening(n=6000, m=600)
COUNTRY = np.random.default_rng(3).choice(["EU", "US", "FO"], Y.size, p=[0.6, 0.37, 0.03])


def segmented(tau, **options):
    """The first feature under a limit for each segment."""
    rows, y = screening(4000, 300, seed=5)
    labels = np.random.default_rng(4).choice(["EU", "US", "FO"], y.size, p=[0.6, 0.37, 0.03])
    return NeymanPearsonClassifier(ScoreItself().fit(rows, y), tau, cv="prefit", **options).fit(
        rows, y, segments=labels
    )


def parts(page):
    reader = Reader(page)
    assert not reader.bad
    return reader.text, embedded(page)


def test_rates_by_level_stand_beside_one_threshold():
    model = guarded(0.02)
    text, data = parts(render_report(model, X, Y, data_is_new=True, by=pd.Series(COUNTRY, name="country")))
    known = rates_by_level(Y, model.predict(X), COUNTRY, 0.02)
    found = data["by"]["levels"]
    assert [(each["level"], each["n_false_positive"], each["fpr_upper_bound"], each["verdict"]) for each in found] == [
        (each.level, each.n_false_positive, each.fpr_upper_bound, each.verdict) for each in known
    ]
    assert "By country One threshold decides for all levels. The bounds hold for all 3 levels together" in text
    # Rows that are not new prove no tolerance kept.
    old = parts(render_report(model, X, Y, data_is_new=False, by=COUNTRY))[1]["by"]
    assert (old["column"], {each["verdict"] for each in old["levels"]}) == ("level", {"open"})
    assert parts(render_report(model, X, Y))[1]["by"] is None


def test_models_with_segments_are_reported_by_segment():
    model = segmented({"US": 0.02, "others": 0.05})
    text, data = parts(render_report(model, X, Y, data_is_new=True, segments=pd.Series(COUNTRY, name="country")))
    assert "the false-alarm rate of every limit is within its tolerance." in text
    assert "Screening at a tolerance of 2 % to 5 %" in text
    assert data["promise"] == "guarantee"
    flagged = model.predict(X, segments=COUNTRY) == 1
    for each in data["segments"]["limits"]:
        mine = np.isin(COUNTRY, each["segments"]) & (Y == 0)
        assert (each["n_negative"], each["n_false_positive"]) == (mine.sum(), (mine & flagged).sum())
        assert each["tau"] == (0.02 if each["limit"] == "US" else 0.05)
    assert data["operating"]["n_false"] == (flagged & (Y == 0)).sum()
    assert parts(render_report(model, X - 2, Y, data_is_new=True, segments=COUNTRY))[1]["verdict"] == "kept"
    shifted = X + np.where(COUNTRY == "US", 0.8, 0.0)[:, np.newaxis]
    text, data = parts(render_report(model, shifted, Y, data_is_new=True, segments=COUNTRY))
    assert data["verdict"] == "broken"
    assert "the rate is above the tolerance in 1 limit of 3: US." in text


def test_segments_without_a_proof_are_named():
    with pytest.warns(UserWarning, match="too few negatives for a proof in 1 segment,"):
        model = segmented({"FO": 0.001, "others": 0.05})
    text = parts(render_report(model, X, Y, data_is_new=True, segments=COUNTRY))[0]
    assert "the false-alarm rate of every limit is within its tolerance; 1 small segment has none." in text
    assert "decided by the strictest threshold: FO." in text
    # Without alarms in small segments, in their place.
    model = segmented({"FO": 0.001, "others": 0.05}, insufficient="infinite")
    assert "No case raises an alarm" not in parts(render_report(model, X, Y, segments=COUNTRY))[0]


def test_a_column_of_x_and_odd_levels():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    names = np.array([NASTY.replace("\ud800", ""), *map(str, range(70))], dtype=object)
    frame["a"] = np.minimum(frame["a"], -9.0)  # no alarm at all: every rate is 0
    levels = pd.Series(names[np.arange(Y.size) % names.size], name=NASTY)
    text, data = parts(render_report(guarded(0.02), frame.to_numpy(), Y, by=levels))
    assert len(data["by"]["levels"]) == 50
    assert "the 22 other levels" in text
    frame["b"] = (frame["b"] > 0).astype(float)
    assert [each["level"] for each in parts(render_report(guarded(), frame, Y, by="b"))[1]["by"]["levels"]] == [
        "0",
        "1",
    ]
    seen = SeenRows(X[:3000])
    levels = parts(render_report(guarded(), X, Y, by=COUNTRY, seen=seen))[1]["by"]["levels"]
    expected = rates_by_level(Y, Y, COUNTRY, 0.01)
    kept = ~seen.contains(X)
    assert {each["level"]: each["n_negative"] for each in levels} == {
        each.level: int((kept & (each.level == COUNTRY) & (Y == 0)).sum()) for each in expected
    }


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"by": "nowhere"}, "by='nowhere' is no column of X"),
        ({"by": COUNTRY[:5]}, "by must have one label a row, 6600"),
        ({"segments": COUNTRY}, "segments are for models with a threshold for each segment"),
    ],
)
def test_wrong_use_is_explained(options, match):
    with pytest.raises(ValueError, match=match):
        render_report(guarded(), X, Y, **options)
