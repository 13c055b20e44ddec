"""The classifiers: thresholds, what they report, and how they behave among their neighbours."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from scipy.stats import norm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from estimator_cases import FRESH, ScoreItself, X, Y, two_clouds
from recall_cases import partly_separable
from taufpl import NeymanPearsonClassifier, TauFPLClassifier
from taufpl.exceptions import RankingCollapseWarning, TooFewNegativesWarning
from taufpl.metrics import fpr_upper_bound, np_scorer, tpr_at_fpr_scorer
from taufpl.plotting import RoundsDisplay
from taufpl.thresholding import HeldOut, OrderStatistic, OutOfBootstrap, order_rank, simultaneous_ranks

STRATEGIES = ["cross", "np", "oob", "train"]


@pytest.mark.parametrize("threshold", STRATEGIES)
@pytest.mark.parametrize("delta", [0.05, None])
def test_what_a_linear_classifier_promises(threshold, delta):
    model = TauFPLClassifier(0.05, reg=0.1, tau_scale=1, threshold=threshold, delta=delta, random_state=0).fit(X, Y)
    assert model.coef_.shape == (1, 4)
    np.testing.assert_array_equal(model.intercept_, [-model.threshold_])
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0] - model.threshold_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X) == 1, model.decision_function(X) > 0)
    evidence = model.evidence_
    assert evidence.threshold == model.threshold_
    assert model.fpr_estimate_ == evidence.n_false_positive / evidence.n_negative
    assert model.fpr_estimate_ <= model.fpr_upper_bound_ < 0.12
    assert evidence.guaranteed == (threshold == "np")
    assert (evidence.rounds is not None) == (threshold == "oob")
    assert (model.reg_, model.tau_scale_) == (0.1, 1.0)
    assert model.converged_
    assert not model.collapsed_
    # The score is normal with known variance, so that the true rate can be had from fresh rows.
    assert np.mean(FRESH @ model.coef_[0] > model.threshold_) < (0.05 if delta and threshold != "train" else 0.08)


def test_held_out_threshold_is_the_order_statistic_of_rows_that_were_not_fitted_on():
    model = NeymanPearsonClassifier(ScoreItself(), 0.05, threshold=HeldOut(share=0.5), random_state=1).fit(X, Y)
    fitted_on = set(model.estimator_.rows_)
    held_out = np.array([x for x in X[Y == 0, 0] if x not in fitted_on])
    assert len(held_out) == 400
    assert {x for x in X[Y == 1, 0]} <= fitted_on
    expected = np.sort(held_out)[order_rank(400, 0.05, 0.05) - 1]
    np.testing.assert_allclose(model.threshold_, expected, rtol=1e-11)
    assert model.evidence_.guaranteed
    assert model.fpr_upper_bound_ <= 0.05


def test_cross_threshold_is_the_order_statistic_of_all_negatives():
    model = NeymanPearsonClassifier(ScoreItself(), 0.05, threshold="cross", random_state=0).fit(X, Y)
    expected = np.sort(X[Y == 0, 0])[order_rank(800, 0.05, 0.05) - 1]
    # Scores of folds are brought to one scale, which moves them a little; the higher threshold counts.
    assert expected <= model.threshold_ <= expected + 0.05
    assert len(model.estimator_.rows_) == 900
    assert model.evidence_.n_negative == 800
    assert not model.evidence_.guaranteed
    assert abs(model.evidence_.tpr_estimate - np.mean(X[Y == 1, 0] > model.threshold_)) <= 0.03


def test_cross_brings_shrunk_scores_to_the_scale_of_the_refit():
    """With a strong penalty, models of fewer rows have smaller weights; their scores as they are would mislead."""
    shrunk = LogisticRegression(C=1e-3)
    rates = []
    for seed in range(30):
        train = two_clouds(m=100, n=300, d=10, shift=0.6, seed=seed)
        model = NeymanPearsonClassifier(shrunk, 0.05, threshold="cross", random_state=0).fit(*train)
        coef, intercept = model.estimator_.coef_[0], model.estimator_.intercept_[0]
        rates.append(norm.sf((model.threshold_ - intercept) / np.linalg.norm(coef)))
    assert np.mean(np.array(rates) > 0.05) <= 0.2  # .05 is promised; as they are it would be .4


def test_train_threshold_is_a_quantile_and_its_estimate_is_held_out():
    model = NeymanPearsonClassifier(
        RandomForestClassifier(30, random_state=0), 0.05, threshold="train", random_state=0
    ).fit(X, Y)
    assert model.predict(X)[Y == 0].mean() <= 0.05
    true = model.predict(FRESH[:20_000]).mean()
    assert true > 0.06, "a forest knows its training rows by heart; this test needs that"
    assert abs(model.fpr_estimate_ - true) < 0.06
    assert model.fpr_estimate_ > 0.1


@pytest.mark.parametrize("combine", ["mean", "refit"])
@pytest.mark.parametrize("rule", ["np_score", "quantile"])
def test_rounds_of_out_of_bootstrap(combine, rule):
    settings = {"threshold": OutOfBootstrap(n_rounds=7, rule=rule, combine=combine), "delta": None}
    model = NeymanPearsonClassifier(ScoreItself(), 0.05, **settings, random_state=0).fit(X, Y)
    rounds = model.evidence_.rounds
    assert len(rounds) == 7
    assert rounds.spread > 0
    assert len(model.estimators_) == (7 if combine == "mean" else 1)
    # Every model has the same scores, so that bringing a threshold to another model's scale changes nothing.
    np.testing.assert_allclose(model.threshold_, rounds.thresholds.mean(), rtol=1e-9)
    out_of_bag = np.mean(X[Y == 0, 0] > model.threshold_)
    assert abs(model.fpr_estimate_ - out_of_bag) < 0.02
    assert model.fpr_upper_bound_ == fpr_upper_bound(model.evidence_.n_false_positive, model.evidence_.n_negative)
    if rule == "quantile":
        assert (rounds.fpr <= 0.05).all()
    RoundsDisplay.from_estimator(model).figure_.clear()


def test_mean_of_linear_rounds_is_linear():
    settings = {"delta": None, "random_state": 0, "reg": 0.1, "tau_scale": 1}
    model = TauFPLClassifier(0.05, **settings, threshold="oob").fit(X, Y)
    refit = TauFPLClassifier(0.05, **settings, threshold=OutOfBootstrap(combine="refit")).fit(X, Y)
    assert model.coef_.shape == refit.coef_.shape
    # Rounds of two thirds of the rows resemble the whole, and the thresholds, brought to scale, each other.
    scale = np.linalg.norm(refit.coef_) / np.linalg.norm(model.coef_)
    np.testing.assert_allclose(refit.threshold_, scale * model.threshold_, rtol=0.1)
    assert abs(np.mean(refit.predict(FRESH)) - np.mean(model.predict(FRESH))) < 0.01


def test_delta_makes_rounds_careful():
    kwargs = {"threshold": OutOfBootstrap(rule="quantile"), "reg": 0.1, "tau_scale": 1, "random_state": 0}
    plain = TauFPLClassifier(0.05, delta=None, **kwargs).fit(X, Y)
    careful = TauFPLClassifier(0.05, delta=0.05, **kwargs).fit(X, Y)
    np.testing.assert_allclose(plain.coef_, careful.coef_)
    assert careful.threshold_ > plain.threshold_


def test_automatic_ranking_says_what_it_kept():
    model = TauFPLClassifier(0.01, random_state=0).fit(X, Y)
    selection = model.selection_
    assert len(selection["candidate"]) == len(selection["mean_share"]) == len(selection["kept"]) == 18
    assert selection["kept"][np.argmax(selection["mean_share"])]
    assert np.isnan(model.dual_gap_)
    assert not model.collapsed_
    assert np.mean(FRESH @ model.coef_[0] > model.threshold_) <= 0.012
    # Two equal normal clouds: the difference of the means is the best direction, and every candidate is near it.
    cosine = model.coef_[0].sum() / (2.0 * np.linalg.norm(model.coef_))
    assert cosine > 0.95


def test_automatic_ranking_where_the_paper_s_collapses():
    """A third of the positives is far away, the others sit among the negatives."""
    train, test = partly_separable(0), partly_separable(1, n=50_000)
    with pytest.warns(RankingCollapseWarning):
        paper = TauFPLClassifier(0.001, ranking="paper", tau_scale=1, random_state=0).fit(*train)
    auto = TauFPLClassifier(0.001, random_state=0).fit(*train)
    logistic = NeymanPearsonClassifier(LogisticRegression(), 0.001, threshold="cross", random_state=0).fit(*train)
    recalls = [model.predict(test[0])[test[1] == 1].mean() for model in (paper, logistic, auto)]
    assert recalls[0] == 0.0
    assert recalls[2] >= 3.0 * recalls[1]
    assert auto.predict(test[0])[test[1] == 0].mean() <= 0.0015


def test_scores_of_folds_are_brought_to_one_scale():
    """Features far from 0: fits of different folds differ in where their scores lie, not in how they rank."""
    far = X + 1000.0
    near = TauFPLClassifier(0.05, reg=0.1, tau_scale=1, random_state=0).fit(X, Y)
    model = TauFPLClassifier(0.05, reg=0.1, tau_scale=1, random_state=0).fit(far, Y)
    assert abs(model.predict(far)[Y == 1].mean() - near.predict(X)[Y == 1].mean()) < 0.02


def test_too_few_negatives_are_refused_with_the_number_needed():
    with pytest.raises(
        ValueError, match=r"needs at least 299 negatives held out, got 200 of 400 .*HeldOut\(share=0.75\) would"
    ):
        NeymanPearsonClassifier(LogisticRegression(), threshold=HeldOut(share=0.5)).fit(*two_clouds(n=400))
    with pytest.raises(ValueError, match=r"about 598 negatives in all are needed"):
        TauFPLClassifier(threshold="np").fit(*two_clouds(n=299))
    nobody = NeymanPearsonClassifier(LogisticRegression(), insufficient="infinite").fit(*two_clouds(n=299))
    assert nobody.threshold_ == np.inf
    assert nobody.predict(X).sum() == 0
    assert np.isfinite(nobody.decision_function(X)).all()
    assert (nobody.decision_function(X) < 0).all()
    assert nobody.fpr_estimate_ == 0.0
    with pytest.warns(TooFewNegativesWarning, match="at least 299"):
        careful = TauFPLClassifier(reg=0.1, threshold="cross").fit(*two_clouds(n=200, shift=2.0))
    assert careful.evidence_.n_false_positive == 0


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RidgeClassifier(),
        GaussianNB(),
        SVC(),
        HistGradientBoostingClassifier(max_iter=20),
        RandomForestClassifier(20, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("threshold", ["np", "cross"])
def test_any_scorer(estimator, threshold):
    model = NeymanPearsonClassifier(estimator, 0.05, threshold=threshold, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X) == 1, model.decision_function(X) > 0)
    assert model.predict(FRESH[:20_000]).mean() <= 0.055
    assert model.predict(X)[Y == 1].mean() > 0.3


def test_outlier_detector_learns_negatives_and_calls_outliers_positive():
    far, y = two_clouds(shift=3.0)
    model = NeymanPearsonClassifier(IsolationForest(random_state=0), 0.05, random_state=0).fit(far, y)
    assert model.estimator_.n_features_in_ == 4
    assert model.predict(far)[y == 1].mean() > 0.8
    assert model.predict(FRESH[:20_000]).mean() <= 0.055


@pytest.mark.parametrize(
    "wrap",
    [lambda fitted: {"cv": "prefit", "estimator": fitted}, lambda fitted: {"estimator": FrozenEstimator(fitted)}],
)
def test_a_fitted_scorer_is_calibrated_on_what_it_is_given(wrap):
    fitted = LogisticRegression().fit(*two_clouds(seed=5))
    model = NeymanPearsonClassifier(**wrap(fitted), tau=0.05).fit(X, Y)
    scores = fitted.decision_function(X[Y == 0])
    np.testing.assert_allclose(model.threshold_, OrderStatistic(0.05).choose(scores).threshold, rtol=1e-5)
    assert model.evidence_.n_negative == 800
    only_negatives = NeymanPearsonClassifier(**wrap(fitted), tau=0.05).fit(X[Y == 0], Y[Y == 0])
    # BLAS may add up the scores of another number of rows in another order.
    assert only_negatives.threshold_ == pytest.approx(model.threshold_, rel=1e-12)
    with pytest.raises(ValueError, match="y must hold negatives, 0, to calibrate a fitted estimator on"):
        NeymanPearsonClassifier(**wrap(fitted)).fit(X[Y == 1], Y[Y == 1])


def test_several_tolerances_hold_together():
    model = NeymanPearsonClassifier(ScoreItself(), [0.1, 0.02, 0.05], random_state=1, delta=0.1).fit(X, Y)
    held_out = np.sort([x for x in X[Y == 0, 0] if x not in set(model.estimator_.rows_)])
    ranks = simultaneous_ranks(400, [0.1, 0.02, 0.05], 0.1)
    np.testing.assert_allclose(model.thresholds_, [held_out[rank - 1] for rank in ranks], rtol=1e-11)
    assert model.threshold_ == model.thresholds_.max() == model.thresholds_[1]
    decisions = model.decide(X)
    assert decisions.shape == (900, 3)
    np.testing.assert_array_equal(decisions[:, 1], model.predict(X) == 1)
    assert (decisions.sum(axis=0)[[1, 2, 0]] == np.sort(decisions.sum(axis=0))).all()
    assert len(model.evidence_) == 3
    assert (model.fpr_upper_bound_ <= [0.1, 0.02, 0.05]).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TauFPLClassifier(0.05, reg=0.1, random_state=0),
        lambda: NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0),
    ],
)
def test_recalibration_after_a_drift(make):
    model = make().fit(X, Y)
    rng = np.random.default_rng(3)
    drifted = rng.normal(size=(5000, 4)) + 0.6
    assert model.predict(drifted).mean() > 0.06
    before = model.decision_function(X) + model.threshold_
    assert model.recalibrate(drifted) is model
    np.testing.assert_allclose(model.decision_function(X) + model.threshold_, before)
    assert model.predict(rng.normal(size=(200_000, 4)) + 0.6).mean() <= 0.05
    assert model.evidence_.n_negative == 5000
    assert model.evidence_.guaranteed
    labelled = np.r_[drifted, drifted + 1], np.repeat([0, 1], 5000)
    again = make().fit(X, Y).recalibrate(*labelled)
    np.testing.assert_allclose(again.threshold_, model.threshold_)
    with pytest.raises(ValueError, match="y must hold negatives, 0"):
        model.recalibrate(drifted, np.ones(5000))
    with pytest.raises(ValueError, match="one label a row"):
        model.recalibrate(drifted, np.zeros(3))
    with pytest.raises(ValueError, match="needs at least 59 negatives"):
        model.recalibrate(drifted[:50])


def test_ties_never_push_the_rate_over_the_limit():
    """Scores take few values; whatever the batch and the layout, no more than the counted ones are above."""
    rng = np.random.default_rng(0)
    tied = rng.integers(0, 3, size=(2000, 30)) * 0.1
    y = np.repeat([0, 1], [1800, 200])
    tied[y == 1, :5] += 0.1
    model = TauFPLClassifier(0.05, reg=0.01, threshold="train").fit(tied, y)
    for layout in (np.ascontiguousarray, np.asfortranarray, sp.csr_array):
        for part in (slice(0, 1800), rng.permutation(1800)):
            assert model.predict(layout(tied[part])).mean() <= 0.05


def test_reg_by_search_uses_training_rows_only():
    """Held-out negatives must not take part in the choice of reg, or the guarantee is void."""
    shared = {"threshold": HeldOut(share=0.5), "cv": 3, "random_state": 0}
    settings = {"ranking": "paper", "tau_scale": "cv", "regs": 3, **shared}
    model = TauFPLClassifier(0.05, **settings).fit(X, Y)
    auto = TauFPLClassifier(0.05, **shared).fit(X, Y)
    assert model.reg_ in model.cv_results_["param_reg"]
    assert model.tau_scale_ in model.cv_results_["param_tau_scale"]
    changed = X.copy()
    rng = np.random.default_rng(0)
    # With the same seed the same rows are held out; what they hold does not matter for the search.
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    held_out = np.random.default_rng(seed).permutation(np.flatnonzero(Y == 0))[:400]
    changed[held_out] = rng.normal(size=(400, 4)) * 100.0
    again = TauFPLClassifier(0.05, **settings).fit(changed, Y)
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.threshold_ != model.threshold_
    auto_again = TauFPLClassifier(0.05, **shared).fit(changed, Y)
    np.testing.assert_array_equal(auto_again.selection_["mean_share"], auto.selection_["mean_share"])
    np.testing.assert_array_equal(auto_again.coef_, auto.coef_)


def test_seeds_and_threads():
    kwargs = {"threshold": OutOfBootstrap(n_rounds=3), "reg": 0.1}
    first = TauFPLClassifier(0.05, random_state=3, **kwargs).fit(X, Y)
    np.testing.assert_array_equal(
        TauFPLClassifier(0.05, random_state=3, n_jobs=2, **kwargs).fit(X, Y).coef_, first.coef_
    )
    assert (TauFPLClassifier(0.05, random_state=4, **kwargs).fit(X, Y).coef_ != first.coef_).any()


def test_frames_labels_pickles_and_neighbours():
    names = list("abcd")
    words = np.array(["ham", "spam"])[Y]
    plain = NeymanPearsonClassifier(LogisticRegression(), 0.05, pos_label="spam", random_state=0).fit(X, words)
    for frame, series in (
        (pd.DataFrame(X, columns=names), pd.Series(words)),
        (pl.DataFrame(X, schema=names), pl.Series(words)),
    ):
        for model in (
            NeymanPearsonClassifier(LogisticRegression(), 0.05, pos_label="spam", random_state=0),
            TauFPLClassifier(0.05, reg=0.1, pos_label="spam", random_state=0),
        ):
            model.fit(frame, series)
            theirs = LogisticRegression().fit(frame, words)
            np.testing.assert_array_equal(
                getattr(model, "feature_names_in_", []), getattr(theirs, "feature_names_in_", [])
            )
            assert set(model.predict(frame)) == {"ham", "spam"}
            back = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    turned = NeymanPearsonClassifier(LogisticRegression(), 0.1, pos_label="ham", random_state=0).fit(X, words)
    assert turned.classes_.tolist() == ["spam", "ham"]
    assert plain.classes_.tolist() == ["ham", "spam"]
    assert (turned.predict(X[Y == 1]) == "ham").mean() <= 0.1


def test_mixed_columns_go_through_a_pipeline():
    frame = pd.DataFrame({"size": X[:, 0], "kind": np.where(X[:, 1] > 0, "a", "b")})
    prepare = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = NeymanPearsonClassifier(make_pipeline(prepare, LogisticRegression()), 0.1).fit(frame, Y)
    assert model.predict(frame).mean() > 0


def test_model_selection_around_and_inside():
    search = GridSearchCV(
        TauFPLClassifier(0.1, ranking="paper", tau_scale=1), {"reg": [1.0, 0.01]}, scoring=np_scorer(0.1), cv=3
    ).fit(X, Y)
    assert search.best_params_["reg"] in (1.0, 0.01)
    inner = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=tpr_at_fpr_scorer(0.1), cv=3)
    model = NeymanPearsonClassifier(inner, 0.1).fit(X, Y)
    assert model.estimator_.best_params_["C"] in (0.1, 1.0)
    nested = GridSearchCV(clone(model), {"estimator__estimator__fit_intercept": [True, False]}, cv=2).fit(X, Y)
    assert nested.best_score_ > 0.5
    calibrated = CalibratedClassifierCV(TauFPLClassifier(0.1, ranking="paper", reg=0.1), cv=3).fit(X, Y)
    assert calibrated.predict_proba(X)[Y == 1, 1].mean() > calibrated.predict_proba(X)[Y == 0, 1].mean()
    inside = NeymanPearsonClassifier(CalibratedClassifierCV(LogisticRegression(), cv=3), 0.1).fit(X, Y)
    assert inside.predict(X)[Y == 1].mean() > 0.3
    assert (cross_val_score(model, X, Y, scoring="roc_auc", cv=3) > 0.8).all()


def test_metadata_are_cut_to_the_rows_and_routed():
    weights = np.where(Y == 1, 2.0, 1.0)
    model = NeymanPearsonClassifier(ScoreItself(), 0.05, threshold=HeldOut(share=0.5)).fit(X, Y, sample_weight=weights)
    assert len(model.estimator_.weights_) == len(model.estimator_.rows_) == 500
    assert (model.estimator_.weights_ == 2.0).sum() == 100
    with sklearn.config_context(enable_metadata_routing=True):
        routed = NeymanPearsonClassifier(ScoreItself().set_fit_request(sample_weight=True), 0.05)
        assert routed.fit(X, Y, sample_weight=weights).estimator_.weights_ is not None
        ignored = NeymanPearsonClassifier(ScoreItself().set_fit_request(sample_weight=False), 0.05)
        with pytest.raises(TypeError, match="sample_weight"):
            ignored.fit(X, Y, sample_weight=weights)


def test_rows_without_weight_count_as_absent():
    weights = np.ones(900)
    dropped = np.flatnonzero(Y == 0)[:300]
    weights[dropped] = 0.0
    kept = np.delete(np.arange(900), dropped)
    model = NeymanPearsonClassifier(ScoreItself(), 0.05, threshold="cross", random_state=0)
    model.fit(X, Y, sample_weight=weights)
    same = NeymanPearsonClassifier(ScoreItself(), 0.05, threshold="cross", random_state=0).fit(X[kept], Y[kept])
    assert model.threshold_ == same.threshold_


@pytest.mark.parametrize("kind", [TauFPLClassifier, partial(NeymanPearsonClassifier, LogisticRegression())])
def test_ties_stay_ties_where_features_come_in_single_precision(kind):
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.1).astype(int)
    tenths = np.round(rng.beta(1 + y, 2), 1)[:, np.newaxis]
    model, new = kind(tau=0.05, random_state=0).fit(tenths, y), np.arange(0, 1.05, 0.1).round(1)[:, np.newaxis]
    assert 0 < model.predict(new).sum() < 11
    np.testing.assert_array_equal(model.predict(new.astype(np.float32)), model.predict(new))


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_a_column_far_from_zero_costs_no_recall():
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.2).astype(int)
    near = rng.normal(size=(4000, 3)) + 1.5 * y[:, np.newaxis]
    far = np.column_stack((near, 1e6 + rng.normal(size=4000)))
    recalls = [TauFPLClassifier(0.05, random_state=0).fit(each, y).predict(each)[y == 1].mean() for each in (near, far)]
    assert recalls[1] > recalls[0] - 0.05
