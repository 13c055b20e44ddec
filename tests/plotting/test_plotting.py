"""Displays: what is on the axes, against independent computation; and what wrong use is told."""

import builtins
import sys

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import beta, binom, norm
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_curve
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from taufpl.estimators import TauFPLRanker
from taufpl.monitoring import FPRMonitor
from taufpl.planning import np_roc, plan_labels
from taufpl.plotting import (
    CollapseDisplay,
    ConvergenceDisplay,
    LabelPlanDisplay,
    MonitorDisplay,
    ROCDisplay,
    RoundsDisplay,
    ScoreDisplay,
)
from taufpl.plotting.statistics import bin_edges, roc_band
from taufpl.solvers import Record
from taufpl.thresholding import Evidence, Rounds, share_above


@pytest.fixture(autouse=True)
def _figures_are_closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    y = np.repeat([0, 1], [600, 120])
    X = rng.normal(size=(720, 4))
    X[y == 1, :2] += 1.5
    return X, y


@pytest.fixture
def scores():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], [400, 90])
    return y, rng.normal(size=490) + 1.5 * y


def texts(ax):
    """Everything written in a legend and beside the frame."""
    return [text.get_text() for text in (*ax.get_legend().get_texts(), *ax.texts)]


# ROC: the curve.


@pytest.mark.parametrize("decimals", [None, 0], ids=["continuous", "tied"])
def test_roc_points_are_those_of_scikit_learn(scores, decimals):
    y, score = scores
    score = score if decimals is None else score.round(decimals)
    display = ROCDisplay.from_predictions(y, score)
    fpr, tpr, _ = roc_curve(y, score, drop_intermediate=False)
    np.testing.assert_allclose(display.fpr, fpr)
    np.testing.assert_allclose(display.tpr, tpr)
    x, height = display.line_.get_data()
    np.testing.assert_allclose(x[fpr > 0], fpr[fpr > 0])
    np.testing.assert_allclose(height, tpr)
    assert (x > 0).all()
    assert display.line_.get_drawstyle() == "steps-post"


@pytest.mark.parametrize("tau", [0.001, 0.0075, 0.07, 0.3, 0.99])
def test_tpr_at_tau_is_that_of_the_threshold(scores, tau):
    y, score = scores
    display = ROCDisplay.from_predictions(y, score, tau=tau)
    assert display.tpr_at_tau == share_above(score[y == 1], score[y == 0], tau)
    low, high = display.tpr_interval_at_tau
    assert low <= display.tpr_at_tau <= high


def test_roc_axes_and_marks(scores):
    y, score = scores
    ax = ROCDisplay.from_predictions(y, score, tau=0.001, threshold=2.0, name="one").ax_
    assert ax.get_xscale() == "log"
    assert ax.get_xlim() == pytest.approx((0.001 / 3, 1.0))
    written = texts(ax)
    assert "τ = 0.1 %" in written
    fpr, tpr = np.mean(score[y == 0] > 2.0), np.mean(score[y == 1] > 2.0)
    assert f"operating point: FPR {100 * fpr:.3g} %, TPR {100 * tpr:.3g} %" in written
    assert written[-2].startswith("95 % confidence, pointwise")
    labels = [ax.xaxis.get_major_formatter()(rate) for rate in (1e-4, 1e-3, 0.01, 1.0)]
    assert labels == ["0.01 %", "0.1 %", "1 %", "100 %"]


def test_several_curves_share_axes(scores):
    y, score = scores
    _, ax = plt.subplots()
    first = ROCDisplay.from_predictions(y, score, tau=0.01, name="first", ax=ax)
    second = ROCDisplay.from_predictions(y, -score, tau=0.01, name="second", ax=ax)
    third = ROCDisplay.from_predictions(y, score**3, tau=0.05, name="third", ax=ax, color="k", lw=3, band=None)
    assert first.ax_ is second.ax_ is third.ax_ is ax
    assert second.figure_ is ax.figure
    assert first.line_.get_color() != second.line_.get_color()
    assert (third.line_.get_color(), third.line_.get_linewidth()) == ("k", 3)
    written = texts(ax)
    assert sum(text.startswith(("first", "second", "third")) for text in written) == 3
    assert sum("confidence" in text for text in written) == 1
    assert written.count("τ = 1 %") == written.count("τ = 5 %") == 1


def test_the_guarantee_has_a_curve_and_a_band_of_its_own(scores):
    y, score = scores
    display = ROCDisplay.from_predictions(y, score, tau=0.05, band="guarantee", confidence=0.9)
    recall, low, high = np_roc(score[y == 0], score[y == 1], 0.1).at(0.05)
    assert display.tpr_interval_at_tau == pytest.approx((low, high))
    assert low < recall < high
    assert recall <= display.tpr_at_tau
    (drawn,) = (line for line in display.ax_.get_lines() if line.get_linestyle() == "--" and len(line.get_xdata()) > 2)
    assert float(drawn.get_ydata()[np.searchsorted(drawn.get_xdata(), 0.05, side="right") - 1]) == recall
    assert any(text.startswith("with the guarantee at 90 %") for text in texts(display.ax_))
    strict = ROCDisplay.from_predictions(y, score, tau=1e-6, band="guarantee")
    assert strict.tpr_interval_at_tau is None
    assert any("no proof there" in text for text in texts(strict.ax_))


def test_a_plan_is_drawn_with_one_panel_or_two(scores):
    y, score = scores
    assert LabelPlanDisplay.from_plan(plan_labels(0.05)).ax_.get_xscale() == "log"
    plan = plan_labels(0.05, negatives=100, negative_scores=score[y == 0], positive_scores=score[y == 1])
    usable, recall = LabelPlanDisplay.from_plan(plan).ax_
    for panel, name in ((usable, "usable_share"), (recall, "recall")):
        drawn = {tuple(line.get_xydata()[0]) for line in panel.get_lines() if len(line.get_xdata()) == 1}
        assert {(each.n_negative, getattr(each, name)) for each in plan.all_choose} <= drawn


def test_plot_again_under_another_name(scores):
    display = ROCDisplay.from_predictions(*scores, name="before")
    before = display.ax_
    assert display.plot(name="after") is display
    assert display.ax_ is not before
    assert "after" in texts(display.ax_)


def test_labels_that_are_words(scores):
    y, score = scores
    words = np.where(y == 1, "bad", "good")
    as_bad = ROCDisplay.from_predictions(words, score, pos_label="bad")
    np.testing.assert_allclose(as_bad.tpr, ROCDisplay.from_predictions(y, score).tpr)
    assert ROCDisplay.from_predictions(words, score).pos_label == "good"


def test_scores_of_a_classifier_that_refuses_everything():
    y, score = np.array([0, 0, 0, 1, 1]), np.full(5, -np.inf)
    display = ROCDisplay.from_predictions(y, score, tau=0.1, threshold=0.0)
    assert display.tpr_at_tau == 0.0
    assert display.operating_point == (0.0, 0.0)
    histogram = ScoreDisplay.from_predictions(y, score, threshold=0.0)
    assert (histogram.fpr, histogram.tpr) == (0.0, 0.0)
    display.figure_.canvas.draw()
    histogram.figure_.canvas.draw()


# ROC: the band.


def test_rectangles_are_clopper_pearson():
    false, true = np.array([0, 3, 50]), np.array([0, 7, 20])
    band = roc_band(false, true, 50, 20, "pointwise", 0.9)
    tail = (1 - np.sqrt(0.9)) / 2
    for counts, total, lower, upper in (
        (false, 50, band.fpr_lower, band.fpr_upper),
        (true, 20, band.tpr_lower, band.tpr_upper),
    ):
        np.testing.assert_allclose(lower[1:], beta.ppf(tail, counts[1:], total - counts[1:] + 1))
        np.testing.assert_allclose(upper[:2], beta.ppf(1 - tail, counts[:2] + 1, total - counts[:2]))
        assert (lower[0], upper[2]) == (0.0, 1.0)


@pytest.mark.parametrize("kind", ["pointwise", "simultaneous"])
def test_intervals_cover_at_every_rate(kind):
    """Exactly, by summing the binomial: each side of a rectangle misses with at most 1 - sqrt(.95)."""
    n = 40
    counts = np.arange(n + 1)
    band = roc_band(counts, counts, n, n, kind, 0.95)
    for rate in np.linspace(0.01, 0.99, 50):
        covers = (band.fpr_lower <= rate) & (rate <= band.fpr_upper)
        assert binom.pmf(counts[covers], n, rate).sum() >= np.sqrt(0.95)


def test_band_is_the_union_of_its_rectangles(scores):
    y, score = scores
    band = ROCDisplay.from_predictions(y, score).band
    for fpr in (0.0, 0.003, 0.05, 0.4, 1.0):
        hit = (band.fpr_lower <= fpr) & (fpr <= band.fpr_upper)
        low, high = band.at(fpr)
        assert (low, high) == (band.tpr_lower[hit].min(), band.tpr_upper[hit].max())
    at, low, high = band.steps(1e-6)
    middle = (at[1:] + at[:-1]) / 2
    np.testing.assert_array_equal(band.at(middle), (low[:-1], high[:-1]))


def coverage(kind, fprs, n_draws):
    """Shares of draws whose band holds the true TPR at each FPR, and at all of them."""
    rng = np.random.default_rng(11)
    # With a shift of 1.2, TPR at FPR f is P(normal + 1.2 > z_f).
    truth = norm.sf(norm.isf(fprs) - 1.2)
    held = np.empty((n_draws, fprs.size), dtype=bool)
    y = np.repeat([0, 1], [200, 80])
    for draw in held:
        score = rng.normal(size=280) + 1.2 * y
        display = ROCDisplay.from_predictions(y, score, band=kind)
        low, high = display.band.at(fprs)
        draw[:] = (low <= truth) & (truth <= high)
    return held.mean(axis=0), held.all(axis=1).mean()


@pytest.fixture
def _not_drawn(monkeypatch):
    # Of a simulation of the band, drawing would take most of the time.
    monkeypatch.setattr(ROCDisplay, "plot", lambda self, **_: self)


@pytest.mark.slow
@pytest.mark.usefixtures("_not_drawn")
def test_pointwise_band_covers_at_each_rate():
    fprs, n_draws = np.array([0.002, 0.01, 0.05, 0.2, 0.6]), 1000
    at_each, _ = coverage("pointwise", fprs, n_draws)
    # Three standard errors of a share of .95 in 1,000 draws.
    assert (at_each >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / n_draws)).all(), at_each


@pytest.mark.usefixtures("_not_drawn")
def test_simultaneous_band_covers_the_curve():
    n_draws = 600
    _, at_all = coverage("simultaneous", np.linspace(0.001, 0.999, 400), n_draws)
    assert at_all >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / n_draws)


def test_bands_of_large_samples_are_thinned():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [200_000, 20_000])
    score = rng.normal(size=y.size) + 2 * y
    display = ROCDisplay.from_predictions(y, score, tau=0.001)
    assert display.band.fpr_lower.size < 8_000
    low, high = display.tpr_interval_at_tau
    # The counts at the tolerance, without thinning: 200 of 200,000.
    one = roc_band(np.array([200]), np.array([round(display.tpr_at_tau * 20_000)]), 200_000, 20_000, "pointwise", 0.95)
    assert low < one.tpr_lower[0] + 0.001
    assert high > one.tpr_upper[0] - 0.001


# Estimators.


def test_a_pipeline_is_scored_by_its_decision_function(data):
    X, y = data
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    display = ROCDisplay.from_estimator(model, X, y, tau=0.02)
    np.testing.assert_allclose(display.tpr, ROCDisplay.from_predictions(y, model.decision_function(X)).tpr)
    assert display.name == "Pipeline"
    assert display.operating_point is None
    histogram = ScoreDisplay.from_estimator(model, X, y)
    assert histogram.threshold == 0.0
    assert histogram.tpr == pytest.approx(model.predict(X)[y == 1].mean())


def test_a_forest_is_scored_by_its_probabilities(data):
    X, y = data
    model = RandomForestClassifier(8, max_depth=3, random_state=0).fit(X, y)
    display = ScoreDisplay.from_estimator(model, X, y)
    assert display.threshold == 0.5
    np.testing.assert_allclose(display.negative_scores, np.sort(model.predict_proba(X)[y == 0, 1]))
    other = ScoreDisplay.from_estimator(model, X, y, pos_label=0)
    np.testing.assert_allclose(other.positive_scores, np.sort(model.predict_proba(X)[y == 0, 0]))


def test_the_other_class_turns_the_decision_function(data):
    X, y = data
    model = LogisticRegression().fit(X, y)
    display = ScoreDisplay.from_estimator(model, X, y, pos_label=0)
    np.testing.assert_allclose(display.positive_scores, np.sort(-model.decision_function(X)[y == 0]))


@pytest.mark.parametrize("wrap", ["bare", "pipeline", "search"])
def test_our_estimators_show_tolerance_and_operating_point(data, wrap):
    X, y = data
    model = TauFPLRanker(tau=0.05, tau_scale=4)
    if wrap == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    elif wrap == "search":
        model = GridSearchCV(model, {"reg": [0.01]}, cv=2)
    model.fit(X, y)
    display = ROCDisplay.from_estimator(model, X, y, name="ours")
    said = model.predict(X) == 1
    assert display.tau == 0.05
    assert display.operating_point == pytest.approx((said[y == 0].mean(), said[y == 1].mean()))
    assert ROCDisplay.from_estimator(model, X, y, tau=0.01).tau == 0.01


def test_our_positive_label_may_come_first(data):
    X, y = data
    model = TauFPLRanker(tau=0.05, tau_scale=4, pos_label="a").fit(X, np.where(y == 1, "a", "b"))
    display = ROCDisplay.from_estimator(model, X, np.where(y == 1, "a", "b"))
    assert display.pos_label == "a"
    assert display.tpr_at_tau > 0.5


# Histogram.


@pytest.mark.parametrize("threshold", [None, -9.0, 0.7, 12.0, np.inf])
def test_histogram_counts(scores, threshold):
    y, score = scores
    score = np.append(score, [1e9, -1e9])  # extremes go into the outermost bins
    y = np.append(y, [1, 0])
    display = ScoreDisplay.from_predictions(y, score, threshold=threshold)
    assert display.negative_share_.sum() == pytest.approx(1.0)
    assert display.positive_share_.sum() == pytest.approx(1.0)
    assert display.edges_[-1] - display.edges_[0] < 50
    if threshold is None:
        assert display.fpr is None
        return
    negatives, positives = score[y == 0], score[y == 1]
    assert display.fpr == pytest.approx(np.mean(negatives > threshold))
    assert display.tpr == pytest.approx(np.mean(positives > threshold))
    if np.isfinite(threshold):
        above = display.edges_[:-1] >= threshold
        assert threshold in display.edges_
        assert display.negative_share_[above].sum() == pytest.approx(display.fpr)
        assert display.positive_share_[above].sum() == pytest.approx(display.tpr)
    missed = np.count_nonzero(positives <= threshold)
    assert any(f"91 positives: {missed} missed" in text for text in texts(display.ax_))


def test_scores_at_the_threshold_are_not_above_it():
    y, score = np.repeat([0, 1], 4), np.tile([0.0, 1.0, 1.0, 2.0], 2)
    display = ScoreDisplay.from_predictions(y, score, threshold=1.0)
    assert display.fpr == 0.25
    above = display.edges_[:-1] >= 1.0
    assert display.negative_share_[above].sum() == 0.25


def test_equal_scores_have_a_range():
    edges = bin_edges(np.ones(5), np.ones(3), None)
    assert edges[0] < 1 < edges[-1]
    display = ScoreDisplay.from_predictions([0, 0, 1], [1e8, 1e8, 1e8], threshold=1e8, log=True)
    display.figure_.canvas.draw()
    assert display.ax_.get_yscale() == "log"


def test_bins_can_be_chosen(scores):
    display = ScoreDisplay.from_predictions(*scores, bins=7)
    assert display.edges_.size == 8
    with pytest.raises(ValueError, match="bins must be at least 2"):
        ScoreDisplay.from_predictions(*scores, bins=1)


# Rounds.


def fitted_with(evidence):
    model = DummyClassifier().fit([[0], [1]], [0, 1])
    model.evidence_ = evidence
    return model


def test_rounds_show_means_and_excess():
    thresholds, fpr, tpr = np.array([1.0, 2.0, 4.0]), np.array([0.01, 0.02, 0.07]), np.array([0.5, 0.6, 0.4])
    evidence = Evidence(2.5, 0.02, None, 100, 2, 0.02, 0.05, None, False, Rounds(thresholds, fpr, tpr))
    display = RoundsDisplay.from_estimator(fitted_with(evidence))
    left, right = display.ax_
    np.testing.assert_array_equal(left.get_lines()[0].get_data(), ([1, 2, 3], thresholds))
    np.testing.assert_array_equal(right.get_lines()[0].get_data(), (fpr, tpr))
    assert "mean 2.333, standard deviation 1.5" in texts(left)
    assert "in use: 2.5" in texts(left)
    assert {"a round (1 of 3 above τ)", "mean: FPR 3.33 %, TPR 50 %", "τ = 2 %"} <= set(texts(right))


@pytest.mark.parametrize("thresholds", [[np.inf, 1.0], [np.inf, np.inf]])
def test_infinite_rounds_are_named(thresholds):
    display = RoundsDisplay(thresholds, [0.0, 0.0], [0.0, 0.3], threshold=np.inf).plot()
    assert any("infinite, not shown" in text for text in texts(display.ax_[0]))
    display.figure_.canvas.draw()


def test_panels_can_be_given():
    figure, axes = plt.subplots(1, 2)
    display = RoundsDisplay([1.0], [0.0], [1.0], tau=0.1).plot(ax=axes)
    assert display.figure_ is figure
    with pytest.raises(ValueError, match="ax must hold 2 axes"):
        display.plot(ax=axes[0])


def test_rounds_need_evidence(data):
    with pytest.raises(ValueError, match="threshold='oob'"):
        RoundsDisplay.from_estimator(LogisticRegression().fit(*data))
    with pytest.raises(NotFittedError):
        RoundsDisplay.from_estimator(LogisticRegression())
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[2, 2, 1\]"):
        RoundsDisplay([1.0, 2.0], [0.0, 0.0], [1.0])
    with pytest.raises(ValueError, match="thresholds must not hold NaN"):
        RoundsDisplay([np.nan], [0.0], [1.0])


# Convergence.


@pytest.mark.parametrize("against", ["passes", "seconds"])
def test_convergence_of_a_ranker(data, against):
    model = TauFPLRanker(tau=0.05, tau_scale=4, tol=1e-5).fit(*data)
    display = ConvergenceDisplay.from_estimator(model, against=against)
    ConvergenceDisplay.from_estimator(model, against=against, name="again", ax=display.ax_)
    expected = [record.n_passes if against == "passes" else record.seconds for record in model.history_]
    cost, gap = display.line_.get_data()
    shown = np.array(expected) > 0
    np.testing.assert_array_equal(cost, np.array(expected)[shown])
    np.testing.assert_array_equal(gap, np.array([record.gap for record in model.history_])[shown])
    assert (display.ax_.get_xscale(), display.ax_.get_yscale()) == ("log", "log")
    assert texts(display.ax_) == ["TauFPLRanker", "again", "tol 1e-05"]


def test_a_gap_of_zero_stays_on_the_axis():
    history = [Record(0.0, 0.0, 1.0, 0.0, 1.0), Record(2.0, 0.1, 1.0, 1.0, -1e-17)]
    display = ConvergenceDisplay.from_history(history)
    np.testing.assert_array_equal(display.line_.get_data(), ([2.0], [1e-16]))


def test_convergence_errors(data):
    with pytest.raises(ValueError, match="against must be one of"):
        ConvergenceDisplay.from_history([Record(1.0, 0.1, 1.0, 0.0, 1.0)], against="iterations")
    with pytest.raises(ValueError, match="history must hold at least one record"):
        ConvergenceDisplay.from_history([])
    with pytest.raises(TypeError, match="LogisticRegression keeps none"):
        ConvergenceDisplay.from_estimator(LogisticRegression().fit(*data))
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(TauFPLRanker())


# Monitor.


@pytest.mark.parametrize("rate", [0.005, 0.04])
def test_monitor_shows_its_course(rate):
    monitor = FPRMonitor(tau=0.01, delta=0.1)
    monitor.update(np.random.default_rng(5).random(4000) < rate)
    display = MonitorDisplay.from_monitor(monitor)
    top, bottom = display.ax_
    fpr, bound = top.get_lines()[:2]
    np.testing.assert_array_equal(fpr.get_data(), (monitor.history.n_seen, monitor.history.fpr))
    np.testing.assert_array_equal(bound.get_ydata(), monitor.history.fpr_lower_bound)
    evidence, level = bottom.get_lines()[:2]
    np.testing.assert_array_equal(evidence.get_ydata(), monitor.history.log_wealth)
    assert level.get_ydata()[0] == pytest.approx(np.log(10))
    written = {text.get_text() for text in top.texts}
    assert "τ = 1 %" in written
    assert monitor.alarm == (rate > 0.01)
    if monitor.alarm:
        assert f"alarm after {monitor.alarm_at:,}" in written
        assert bottom.get_lines()[-1].get_xdata()[0] == monitor.alarm_at
    else:
        assert not any("alarm" in text for text in written)
    assert fpr.get_ydata()[-1] < top.get_ylim()[1]


def test_monitor_shows_both_alarms_and_both_bounds():
    monitor = FPRMonitor(tau=0.01)
    monitor.update(np.random.default_rng(6).random(20_000) < np.repeat([0.006, 0.03], 10_000))
    display = MonitorDisplay.from_monitor(monitor)
    top, bottom = display.ax_
    np.testing.assert_array_equal(top.get_lines()[2].get_ydata(), monitor.history.fpr_upper_bound)
    change, level = bottom.get_lines()[2:4]
    np.testing.assert_array_equal(change.get_ydata(), monitor.history.log_change_evidence)
    assert level.get_ydata()[0] == pytest.approx(np.log(500_000))
    written = {text.get_text() for text in top.texts}
    assert {f"change after {monitor.change_at:,}", f"alarm after {monitor.alarm_at:,}"} <= written
    off = FPRMonitor(tau=0.01, run_length=np.inf)
    off.update([True, False])
    assert len(MonitorDisplay.from_monitor(off).ax_[1].get_lines()) == 2


@pytest.mark.parametrize("flags", [[False], [True], [True, True]])
def test_monitor_after_its_first_negatives(flags):
    monitor = FPRMonitor(tau=0.01)
    monitor.update(flags)
    MonitorDisplay.from_monitor(monitor).figure_.canvas.draw()


def test_a_monitor_that_has_seen_nothing():
    with pytest.raises(ValueError, match="history must hold at least one point"):
        MonitorDisplay.from_monitor(FPRMonitor())


# Collapse.


def test_collapse_follows_the_formula(data):
    X, y = data
    u = np.array([2.0, 2.0, 0.0, 0.0])
    display = CollapseDisplay.from_data(X, y, tau=0.05, reg=0.1, tau_scales=[1, 4, 30], direction=u)
    np.testing.assert_allclose(display.shares, [0.05, 0.2, 1.0])
    s = X @ u / np.linalg.norm(u)
    for k, loss in zip((31, 121, 600), display.losses, strict=True):
        top = np.sort(s[y == 0])[-k:].mean()
        expected = [np.mean(np.maximum(0, 1 - t * (s[y == 1] - top)) ** 2) + 0.05 * t * t for t in display.sizes]
        np.testing.assert_allclose(loss, expected)
    assert display.sizes[0] == 0.0
    assert (display.losses.argmin(axis=1) < display.sizes.size - 1).all()
    assert (display.recalls[~display.collapsed] > 0).all()


def test_a_collapsed_ranking_catches_nothing():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [500, 60])
    X = rng.normal(size=(560, 2)) + 0.4 * y[:, None]
    display = CollapseDisplay.from_data(X[::2], y[::2], tau=0.1, X_test=X[1::2], y_test=y[1::2])
    assert display.shares[0] == pytest.approx(0.1)
    assert display.shares[-1] == 1.0
    assert display.collapsed[0]
    assert not display.collapsed[-1]
    assert display.recalls[0] == 0.0
    ranker = TauFPLRanker(0.1, tau_scale=10.0).fit(X[::2], y[::2])
    test = ranker.decision_function(X[1::2])
    assert display.recalls[-1] == share_above(test[y[1::2] == 1], test[y[1::2] == 0], 0.1)


def test_collapse_errors(data):
    X, y = data
    with pytest.raises(ValueError, match="given together"):
        CollapseDisplay.from_data(X, y, tau=0.05, X_test=X)
    with pytest.raises(ValueError, match="direction must have 4 entries"):
        CollapseDisplay.from_data(X, y, tau=0.05, tau_scales=[20], direction=[1.0])


# Wrong use.


@pytest.mark.parametrize("display", [ROCDisplay, ScoreDisplay])
@pytest.mark.parametrize(
    ("y", "score", "options", "error", "message"),
    [
        ([0, 0, 0], [1, 2, 3], {}, ValueError, r"must hold two classes, got 1 class: \[0\]"),
        ([0, 1, 2], [1, 2, 3], {}, ValueError, "must hold two classes, got 3 classes"),
        ([0, 1, 1], [1, 2], {}, ValueError, "one score for each entry of y_true, 3; got 2"),
        ([0, 1], [[1, 2], [3, 4]], {}, ValueError, "y_score must be one-dimensional"),
        ([0, 1, 1], [1, np.nan, 3], {}, ValueError, "y_score must not hold NaN, got 1"),
        ([0, 1], [1, 2], {"pos_label": 5}, ValueError, "pos_label must be one of the classes"),
        ([0, 1], [1, 2], {"threshold": np.nan}, ValueError, "threshold must be a number"),
    ],
)
def test_wrong_predictions(display, y, score, options, error, message):
    with pytest.raises(error, match=message):
        display.from_predictions(y, score, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tau": 0.0}, ValueError, "tau must be strictly between 0 and 1"),
        ({"tau": [0.1, 0.2]}, ValueError, "tau must be one number here, got 2"),
        ({"tau": "1 %"}, TypeError, "tau must be a number"),
        ({"band": "bootstrap"}, ValueError, "band must be one of"),
        ({"confidence": 95}, ValueError, "confidence must lie strictly between 0 and 1"),
    ],
)
def test_wrong_roc_options(scores, options, error, message):
    with pytest.raises(error, match=message):
        ROCDisplay.from_predictions(*scores, **options)
    assert not plt.get_fignums(), "a refused display leaves no empty figure"


@pytest.mark.parametrize("display", [ROCDisplay, ScoreDisplay])
def test_wrong_estimators(display, data):
    X, y = data
    with pytest.raises(NotFittedError):
        display.from_estimator(LogisticRegression(), X, y)
    with pytest.raises(TypeError, match="LinearRegression does not"):
        display.from_estimator(LinearRegression().fit(X, y), X, y)
    with pytest.raises(ValueError, match="estimator must know two classes, got 3"):
        display.from_estimator(LogisticRegression().fit(X, np.arange(len(y)) % 3), X, y)
    with pytest.raises(ValueError, match="pos_label must be one of the estimator's classes"):
        display.from_estimator(LogisticRegression().fit(X, y), X, y, pos_label="spam")


def test_without_matplotlib_the_extra_is_named(scores, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"matplotlib is needed to draw a ROC curve.*taufpl\[plot\]"):
        ROCDisplay.from_predictions(*scores)


def test_band_is_not_inside_out_between_rates_that_ties_leave_apart():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [4000, 400])
    score = (rng.random(4400) < np.where(y == 1, 0.7, 0.1)).astype(float)
    band = ROCDisplay.from_predictions(y, score).band
    low, high = band.at(np.linspace(0.0005, 0.9995, 1000))
    assert np.all(low <= high)
    # Between (0, 0) and (.1, .7) no threshold lies: what can be had there is what the threshold on the left has.
    assert band.at(0.05) == (band.tpr_lower[0], band.tpr_upper[0])
