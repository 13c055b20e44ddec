"""The leaderboard of a screen as a picture."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from taufpl import ScreeningClassifier
from taufpl.plotting import LeaderboardDisplay

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(1200, 2)), columns=["near", "noise"])
X["place"] = rng.choice(["north", "south"], 1200)
Y = (X["near"] + 0.3 * rng.normal(size=1200) > 1.3).astype(int)
CANDIDATES = [LogisticRegression(), GaussianNB()]


@pytest.mark.parametrize("given", [{"tau": 0.1}, {"tau": {"north": 0.1, "south": 0.2}, "segments": "place"}])
def test_candidates_and_columns_are_drawn(given):
    screen = ScreeningClassifier(**given, candidates=CANDIDATES, random_state=0).fit(X, Y)
    display = LeaderboardDisplay.from_estimator(screen)
    candidates, columns = display.ax_
    labels = [tick.get_text() for tick in candidates.get_yticklabels()]
    assert len(labels) == 3
    assert sum(label == "stack" for label in labels) == 1
    drawn = sorted(line.get_xdata()[0] for line in candidates.lines if line.get_marker() == "o")
    np.testing.assert_allclose(drawn, sorted(screen.leaderboard_.recall))
    assert candidates.get_xlabel() == "recall where 10 % of unseen negatives are above"
    names = [tick.get_text() for tick in columns.get_yticklabels()]
    assert set(names) == set(X.columns)
    assert names[-1] == "near"
    assert max(bar.get_width() for bar in columns.patches) == pytest.approx(screen.feature_importances_.max())
    plt.close(display.figure_)


def test_importances_that_were_not_measured_are_said_to_be():
    screen = ScreeningClassifier(0.1, candidates=CANDIDATES, random_state=0).fit(X, Y)
    del screen.feature_importances_
    display = LeaderboardDisplay.from_estimator(screen)
    assert [text.get_text() for text in display.ax_[1].texts] == ["not measured"]
    plt.close(display.figure_)
