"""Decision regions: what is drawn, against the estimator's own decisions; and what wrong use is told."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker
from taufpl.plotting import DecisionRegionsDisplay


@pytest.fixture(autouse=True)
def _figures_are_closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1], [1500, 200])
    X = rng.normal(size=(1700, 2)) * [1.0, 30.0]
    X[y == 1] += [1.8, 50.0]
    return X, y


@pytest.fixture(scope="module")
def ranker(data):
    return TauFPLRanker(tau=0.05, tau_scale=4).fit(*data)


def vertices(display, level):
    """Points of the contour at a score, as matplotlib has them."""
    (index,) = np.flatnonzero(display.contours_.levels == level)
    return display.contours_.get_paths()[index].vertices


def texts(ax):
    return [text.get_text() for text in (*ax.get_legend().get_texts(), *ax.texts)]


# Lines.


def test_the_boundary_of_a_linear_model_is_its_line(data, ranker):
    X, y = data
    display = DecisionRegionsDisplay.from_estimator(ranker, X, y)
    line = vertices(display, 0.0)
    # Linear functions are interpolated without error, so that nothing but rounding is left.
    spread = np.ptp(ranker.decision_function(X))
    np.testing.assert_allclose(line @ ranker.coef_[0] + ranker.intercept_[0], 0.0, atol=1e-12 * spread)
    # It crosses the frame from edge to edge.
    low, high = X.min(axis=0) - 0.05 * np.ptp(X, axis=0), X.max(axis=0) + 0.05 * np.ptp(X, axis=0)
    at_edge = np.isclose(line, low) | np.isclose(line, high)
    assert at_edge.any(axis=1).sum() == 2
    assert {"τ = 5 %", "decision boundary for τ = 5 %"} <= set(texts(display.ax_))


def test_the_boundary_of_a_curved_model_lies_between_its_sides(data):
    X, y = data
    model = make_pipeline(StandardScaler(), SVC(gamma=1.0)).fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(model, X, y, grid_resolution=120)
    line = vertices(display, 0.0)
    cell = [np.diff(display.first)[0], np.diff(display.second)[0]]
    corners = [line + np.multiply(cell, corner) for corner in ((-1, -1), (-1, 1), (1, -1), (1, 1))]
    decisions = np.array([model.decision_function(corner) for corner in corners])
    assert np.mean((decisions.min(axis=0) <= 0) & (decisions.max(axis=0) >= 0)) > 0.99
    assert "decision boundary" in texts(display.ax_)


def test_scores_of_the_grid_are_where_they_belong(data, ranker):
    X, y = data
    display = DecisionRegionsDisplay.from_estimator(ranker, X, y, grid_resolution=90, padding=0.0)
    assert display.scores.shape == (90, 90)
    for row, column in ((0, 0), (0, 89), (89, 0), (41, 7)):
        point = [[display.first[column], display.second[row]]]
        assert display.scores[row, column] == pytest.approx(ranker.decision_function(point)[0])
    assert (display.first[0], display.first[-1]) == (X[:, 0].min(), X[:, 0].max())
    assert (display.ax_.get_ylim()) == (X[:, 1].min(), X[:, 1].max())


def test_large_grids_are_scored_in_blocks(data):
    (X, y), sizes = data, []

    class Watched(TauFPLRanker):
        def decision_function(self, X):
            sizes.append(len(X))
            return super().decision_function(X)

    watched = Watched(tau=0.05, tau_scale=4).fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(watched, X, grid_resolution=120)
    assert len(sizes) > 1
    assert max(sizes) < 5000 < sum(sizes) == 120**2
    grid = np.column_stack([each.ravel() for each in np.meshgrid(display.first, display.second)])
    whole = watched.decision_function(grid).reshape(120, 120)
    np.testing.assert_allclose(display.scores, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["continuous", "tied"])
def test_contours_leave_their_share_of_negatives_above(data, kind):
    X, y = data
    X = X if kind == "continuous" else np.round(X / [1.0, 30.0])
    model = LogisticRegression().fit(X, y)
    taus = [0.2, 0.001, 0.05]
    display = DecisionRegionsDisplay.from_estimator(model, X, y, taus=taus)
    scores = np.sort(model.decision_function(X[y == 0]))
    # A level is a score, and BLAS may add up the scores of negatives alone in another order.
    rounding = 1e-12 * np.abs(scores).max()
    assert list(display.levels) == sorted(taus)
    for tau, level in display.levels.items():
        assert np.count_nonzero(scores > level + rounding) <= tau * scores.size
        # The next lower threshold would be one too low.
        assert np.count_nonzero(scores >= level - rounding) > tau * scores.size
        np.testing.assert_allclose(model.decision_function(vertices(display, level)), level, atol=1e-9)
    if kind == "continuous":
        shares = [np.mean(scores > level + rounding) for level in display.levels.values()]
        np.testing.assert_allclose(shares, np.floor(np.multiply(sorted(taus), 1500)) / 1500)
    assert {"0.1 %", "5 %", "20 %", "share of these negatives above"} <= set(texts(display.ax_))


def test_labels_are_apart(data, ranker):
    display = DecisionRegionsDisplay.from_estimator(ranker, *data, taus=[0.01, 0.1, 0.3])
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert all(display.ax_.get_window_extent().contains(*corner) for box in boxes for corner in box.corners())


def test_levels_that_fall_together_share_a_line(data, ranker):
    # The ranker's own threshold is a quantile of these very negatives, and of 1,500 none lies between 30 and 30.01 %.
    display = DecisionRegionsDisplay.from_estimator(ranker, *data, taus=[0.05, 0.3, 0.3001])
    assert display.levels[0.05] == pytest.approx(0.0, abs=1e-12)
    assert display.levels[0.3] == display.levels[0.3001]
    assert sorted(text.get_text() for text in display.ax_.texts) == ["30 %, 30 %", "τ = 5 %"]
    assert len(display.contours_.levels) == 2


# Points.


@pytest.mark.parametrize("threshold", ["np", "train"])
def test_marked_false_positives_are_those_of_predict(data, threshold):
    X, y = data
    model = TauFPLClassifier(0.05, reg=0.01, tau_scale=4, threshold=threshold, random_state=0).fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(model, X, y, max_points=1500)
    said = model.predict(X) == 1
    assert display.n_false_positive == np.count_nonzero(said & (y == 0)) > 0
    assert (display.fpr, display.tpr) == (said[y == 0].mean(), said[y == 1].mean())
    np.testing.assert_array_equal(display.false_positive_points_.get_offsets(), X[said & (y == 0)])
    np.testing.assert_array_equal(display.negative_points_.get_offsets(), X[y == 0])
    np.testing.assert_array_equal(display.positive_points_.get_offsets(), X[y == 1])
    count = display.n_false_positive
    assert f"{count} false positives (FPR {100 * count / 1500:.3g} %)" in texts(display.ax_)


def as_set(collection):
    return {tuple(point) for point in np.asarray(collection.get_offsets())}


def test_thinning_keeps_false_positives_and_repeats(data, ranker):
    X, y = data
    first, again, other = (
        DecisionRegionsDisplay.from_estimator(ranker, X, y, max_points=190, random_state=seed) for seed in (1, 1, 2)
    )
    drawn = as_set(first.negative_points_)
    assert len(drawn) == len(as_set(first.positive_points_)) == 190
    assert drawn <= {tuple(point) for point in X[y == 0]}
    assert drawn == as_set(again.negative_points_) != as_set(other.negative_points_)
    wrong = {tuple(point) for point in X[(y == 0) & (ranker.predict(X) == 1)]}
    assert len(wrong) == first.n_false_positive == 75
    assert as_set(first.false_positive_points_) == wrong < drawn
    # Where they are too many for the picture, they are thinned too, and the legend counts all of them.
    few = DecisionRegionsDisplay.from_estimator(ranker, X, y, max_points=40)
    assert len(as_set(few.false_positive_points_)) == 20
    assert as_set(few.false_positive_points_) < wrong
    assert len(as_set(few.negative_points_)) == 40
    assert {"1,500 negatives, 40 drawn", "75 false positives (FPR 5 %), 20 drawn"} <= set(texts(few.ax_))


def test_without_labels_there_are_regions_only(data, ranker):
    display = DecisionRegionsDisplay.from_estimator(ranker, data[0])
    assert display.negative_points_ is display.positive_points_ is display.false_positive_points_ is None
    assert (display.fpr, display.n_false_positive) == (None, None)
    assert texts(display.ax_) == ["decision boundary for τ = 5 %", "τ = 5 %"]


def test_the_positive_class_may_come_first(data):
    X, y = data
    words = np.where(y == 1, "bad", "good")
    model = LogisticRegression().fit(X, words)
    display = DecisionRegionsDisplay.from_estimator(model, X, words, pos_label="bad")
    assert display.tpr == np.mean(model.predict(X[y == 1]) == "bad")
    assert display.scores[-1, -1] > 0 > display.scores[0, 0]


def test_probabilities_are_cut_in_half(data):
    X, y = data
    model = RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(model, X, y, taus=[0.01])
    assert display.threshold == 0.5
    assert display.n_true_positive == np.count_nonzero(model.predict(X[y == 1]) == 1)


# Frames, axes, and estimators that say little.


def test_frames_keep_their_columns(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["weight", "price"])
    pick = make_column_transformer((StandardScaler(), ["price", "weight"]))
    model = make_pipeline(pick, TauFPLRanker(tau=0.05, tau_scale=4)).fit(frame, y)
    display = DecisionRegionsDisplay.from_estimator(model, frame, y, name="goods")
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("weight", "price")
    assert display.ax_.get_title(loc="left") == "goods"
    assert display.n_false_positive == np.count_nonzero(model.predict(frame[y == 0]) == 1)
    assert display.tau == 0.05
    assert DecisionRegionsDisplay.from_estimator(LogisticRegression().fit(X, y), X).feature_names[1] == "Feature 1"


def test_axes_can_be_given_and_the_legend_left_out(data, ranker):
    _, ax = plt.subplots()
    display = DecisionRegionsDisplay.from_estimator(ranker, *data, ax=ax, legend=False)
    assert display.ax_ is ax
    assert ax.get_legend() is None
    assert display.plot() is display
    assert display.ax_ is not ax


def test_of_several_tolerances_the_strictest_is_named(data):
    X, y = data
    model = NeymanPearsonClassifier(LogisticRegression(), tau=[0.05, 0.02], random_state=0).fit(X, y)
    assert DecisionRegionsDisplay.from_estimator(model, X, y).tau == 0.02


def test_a_classifier_that_refuses_everything(data):
    X, y = data
    model = NeymanPearsonClassifier(LogisticRegression(), tau=1e-4, insufficient="infinite", random_state=0)
    model.fit(X, y)
    assert np.isinf(model.threshold_)
    display = DecisionRegionsDisplay.from_estimator(model, X, y)
    assert display.contours_ is None
    assert "no boundary in the frame: all of it is negative" in texts(display.ax_)
    display.figure_.canvas.draw()


def test_a_frame_on_one_side_says_so(data, ranker):
    sure = np.array([[50.0, 900.0], [51.0, 900.0]])
    display = DecisionRegionsDisplay.from_estimator(ranker, sure)
    assert display.contours_ is None
    assert "no boundary in the frame: all of it is positive" in texts(display.ax_)
    # The second feature has a single value, and yet an axis.
    assert display.second[0] < 900 < display.second[-1]


def test_scores_at_the_threshold_count_as_negative():
    # A plateau at the threshold and a slope above it: the boundary is the end of the plateau.
    first = second = np.linspace(-1, 1, 21)
    scores = np.maximum(0.0, first)[np.newaxis].repeat(21, axis=0)
    display = DecisionRegionsDisplay(first=first, second=second, scores=scores).plot()
    np.testing.assert_allclose(vertices(display, 0.0)[:, 0], 0.0, atol=1e-9)


# Wrong use.


def test_wrong_shapes(data, ranker):
    X, y = data
    wide = np.hstack([X, X])
    with pytest.raises(ValueError, match=r"fitted on two features.*got 4\. Fit it on the two columns"):
        DecisionRegionsDisplay.from_estimator(LogisticRegression().fit(wide, y), wide, y)
    with pytest.raises(ValueError, match=r"X must have two features.*got 4\. Pass the two columns"):
        DecisionRegionsDisplay.from_estimator(ranker, wide, y)
    with pytest.raises(ValueError, match="one label a row of X, 1700; got 3"):
        DecisionRegionsDisplay.from_estimator(ranker, X, y[:3])
    with pytest.raises(ValueError, match="must hold two classes"):
        DecisionRegionsDisplay.from_estimator(ranker, X, np.zeros(1700))
    assert not plt.get_fignums(), "a refused display leaves no empty figure"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"taus": [1.0]}, ValueError, "every one of taus must be strictly between 0 and 1"),
        ({"taus": ["1 %"]}, TypeError, "every one of taus must be a number"),
        ({"grid_resolution": 1}, ValueError, "grid_resolution must be at least 2"),
        ({"grid_resolution": 9.5}, TypeError, "grid_resolution must be an integer"),
        ({"padding": -0.1}, ValueError, "padding must be a share of the range"),
        ({"max_points": 0}, ValueError, "max_points must be at least 1"),
        ({"pos_label": "spam"}, ValueError, "pos_label must be one of the estimator's classes"),
    ],
)
def test_wrong_options(data, ranker, options, error, message):
    with pytest.raises(error, match=message):
        DecisionRegionsDisplay.from_estimator(ranker, *data, **options)
    assert not plt.get_fignums()


def test_wrong_estimators(data, ranker):
    X, y = data
    with pytest.raises(NotFittedError):
        DecisionRegionsDisplay.from_estimator(TauFPLRanker(), X, y)
    with pytest.raises(TypeError, match="LinearRegression does not"):
        DecisionRegionsDisplay.from_estimator(LinearRegression().fit(X, y), X)
    with pytest.raises(ValueError, match="there are none without y"):
        DecisionRegionsDisplay.from_estimator(ranker, X, taus=[0.01])
