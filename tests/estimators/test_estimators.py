"""The rankers as scikit-learn estimators: what they promise, and how they behave among their neighbours."""

import gc
import pickle
import time
import warnings
import weakref
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import estimator_cases
from recall_cases import partly_separable
from taufpl import TauFPLClassifier, TauFPLRanker, TauFPLRankerCV, tau_path
from taufpl.baselines import TopPush
from taufpl.exceptions import RankingCollapseWarning

two_clouds = partial(estimator_cases.two_clouds, m=60, n=400, d=6)


def objective(coef, X, y, k, reg):
    """The paper's primal, written down once more."""
    scores = X @ coef
    top = np.sort(scores[y == 0])[::-1][:k].mean()
    return np.mean(np.maximum(0.0, 1.0 - scores[y == 1] + top) ** 2) + 0.5 * reg * coef @ coef


@pytest.mark.parametrize("solver", ["newton", pytest.param("accelerated", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("tau", "tau_scale", "k"), [(0.1, 1.0, 41), (0.1, 2.0, 81), (0.5, 3.0, 400), (0.001, 1.0, 1)])
def test_objective_of_a_fit(solver, tau, tau_scale, k):
    X, y = two_clouds()
    ranker = TauFPLRanker(tau, 0.1, tau_scale=tau_scale, solver=solver, tol=1e-6).fit(X, y)
    assert ranker.coef_.shape == (1, 6)
    assert ranker.intercept_.shape == (1,)
    np.testing.assert_allclose(ranker.primal_objective_, objective(ranker.coef_[0], X, y, k, 0.1), rtol=1e-12)
    assert ranker.dual_objective_ <= ranker.primal_objective_
    assert ranker.dual_gap_ <= 1e-6
    assert ranker.converged_
    assert not ranker.collapsed_
    assert ranker.n_iter_ >= 1
    assert ranker.n_passes_ > 0
    assert ranker.history_[-1].gap == pytest.approx(ranker.dual_gap_)
    rng = np.random.default_rng(1)
    for step in rng.normal(size=(50, 6)) * np.logspace(-4, 0, 50)[:, np.newaxis]:
        assert objective(ranker.coef_[0] + step, X, y, k, 0.1) >= ranker.dual_objective_


@pytest.mark.parametrize("tau", [0.001, 0.01, 0.05, 0.3])
def test_threshold_is_that_of_proposition_1(tau):
    X, y = two_clouds()
    ranker = TauFPLRanker(tau, 0.1).fit(X, y)
    scores = X @ ranker.coef_[0]
    kth = np.sort(scores[y == 0])[::-1][int(np.floor(tau * 400))]
    np.testing.assert_allclose(-ranker.intercept_[0], kth, rtol=1e-10)
    np.testing.assert_allclose(ranker.decision_function(X), scores - kth, atol=1e-10)
    assert ranker.predict(X)[y == 0].sum() == int(np.floor(tau * 400))
    np.testing.assert_array_equal(ranker.predict(X) == 1, ranker.decision_function(X) > 0)


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_the_negative_at_the_threshold_stays_negative_in_every_layout(layout):
    """Scores are summed in another order there; a tie with the threshold must not become a false positive."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(600, 40)) * 0.1
    y = np.repeat([0, 1], [500, 100])
    X[y == 1] += 0.1 * (rng.random((100, 40)) < 0.5)
    for tau in (0.01, 0.05, 0.1):
        ranker = TauFPLRanker(tau, 0.1).fit(X, y)
        for part in (slice(None), slice(7, 500), rng.permutation(500)):
            negatives = X[:500][part]
            assert ranker.predict(layout(negatives)).sum() <= tau * 500


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asfortranarray, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_storage_does_not_change_the_answer(layout, dtype):
    X, y = two_clouds()
    X = X.astype(dtype)
    plain = TauFPLRanker(0.1, 0.1, tol=1e-8).fit(X.astype(np.float64), y)
    other = TauFPLRanker(0.1, 0.1, tol=1e-8).fit(layout(X), y)
    np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(other.primal_objective_, plain.primal_objective_, rtol=1e-7)


def test_labels_of_any_kind_and_the_positive_one_by_name():
    X, y = two_clouds()
    plain = TauFPLRanker(0.1).fit(X, y)
    words = np.array(["ham", "spam"])[y]
    named = TauFPLRanker(0.1, pos_label="spam").fit(X, words)
    np.testing.assert_array_equal(named.predict(X) == "spam", plain.predict(X) == 1)
    turned = TauFPLRanker(0.1, pos_label="fraud").fit(X, np.array(["legal", "fraud"])[y])
    assert turned.classes_.tolist() == ["legal", "fraud"]
    np.testing.assert_allclose(turned.coef_, plain.coef_)
    np.testing.assert_array_equal(turned.predict(X) == "fraud", turned.decision_function(X) > 0)


def test_frames_carry_feature_names():
    X, y = two_clouds()
    names = [f"f{i}" for i in range(6)]
    frame = pd.DataFrame(X, columns=names)
    plain = TauFPLRanker(0.1).fit(X, y)
    ranker = TauFPLRanker(0.1).fit(frame, pd.Series(y))
    assert ranker.feature_names_in_.tolist() == names
    np.testing.assert_allclose(ranker.coef_, plain.coef_, rtol=1e-6)
    polars = TauFPLRanker(0.1).fit(pl.DataFrame(X, schema=names), pl.Series(y))
    # Old releases of scikit-learn cannot read the names of new releases of polars.
    theirs = LogisticRegression().fit(pl.DataFrame(X, schema=names), y)
    np.testing.assert_array_equal(getattr(polars, "feature_names_in_", []), getattr(theirs, "feature_names_in_", []))
    np.testing.assert_array_equal(polars.predict(pl.DataFrame(X, schema=names)), ranker.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        ranker.predict(frame[names[::-1]])


def test_among_pipelines_clones_and_pickles():
    X, y = two_clouds()
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), TauFPLRanker(0.05, 0.1)).fit(X, y)
    again = clone(pipeline).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), pipeline.decision_function(X))
    back = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(back.predict(X), pipeline.predict(X))


def test_grid_search_and_our_own_agree():
    """Two ways to the same table: scikit-learn's search, cold fits, and ours, warm ones."""
    X, y = two_clouds(n=600)
    regs = [1.0, 0.1, 0.01]
    folds = StratifiedKFold(4, shuffle=True, random_state=0)

    def share(estimator, X, y):
        scores = X @ estimator.coef_[0]
        kth = np.sort(scores[y == 0])[::-1][int(np.floor(0.05 * (y == 0).sum()))]
        return np.mean(scores[y == 1] > kth)

    slow = GridSearchCV(TauFPLRanker(0.05, tol=1e-8), {"reg": regs}, scoring=share, cv=folds).fit(X, y)
    fast = TauFPLRankerCV(0.05, regs, folds, tau_scale=1.0, tol=1e-8, cv_tol=1e-8, max_extensions=0).fit(X, y)
    np.testing.assert_allclose(fast.cv_results_["mean_test_score"], slow.cv_results_["mean_test_score"])
    np.testing.assert_allclose(fast.cv_results_["split2_test_score"], slow.cv_results_["split2_test_score"])
    assert fast.reg_ == slow.best_params_["reg"]
    assert fast.best_score_ == pytest.approx(slow.best_score_)
    np.testing.assert_allclose(fast.coef_[0], slow.best_estimator_.coef_[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("m", "d", "signal", "spread", "regs"),
    [(60, 100, slice(-4, None), 100.0, [1e-2, 1e-3]), (300, 20, slice(4), 1000.0, [1e-4, 1e-5])],
)
def test_the_grid_grows_where_the_best_is_at_its_end(m, d, signal, spread, regs):
    """Where the large features carry the signal a large reg is best; where the small ones do, a small one."""
    X, y = two_clouds(m=m, n=1500, d=d, shift=0.0)
    X[y == 1, signal] += 0.7 if m == 60 else 1.0
    X *= np.geomspace(1.0 / spread, 1.0, d)
    grown = TauFPLRankerCV(0.2, regs, tau_scale=1.0).fit(X, y)
    table = grown.cv_results_
    assert grown.n_extensions_ == len(table["param_reg"]) - 2 > 0
    assert (np.diff(table["param_reg"]) < 0).all()
    np.testing.assert_allclose(table["param_reg"][:-1] / table["param_reg"][1:], regs[0] / regs[1])
    assert grown.reg_ > regs[0] if m == 60 else grown.reg_ < regs[1]
    assert grown.best_score_ == table["mean_test_score"].max()
    once = TauFPLRankerCV(0.2, regs, tau_scale=1.0, max_extensions=1).fit(X, y)
    assert len(once.cv_results_["param_reg"]) == 3


def test_a_search_keeps_a_ranking_that_smaller_regs_hardly_move():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [150, 50])
    X = rng.normal(size=(200, 400)) + 0.2 * y[:, np.newaxis]  # more features than rows: no loss has to be left
    regs = np.geomspace(1e-1, 1e-5, 5)
    search = TauFPLRankerCV(0.1, regs, 3, tau_scale=1.0, max_extensions=0).fit(X, y)
    shares = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(3)])
    kept = search.cv_results_["mean_n_passes"] < 1  # the pass that judges is over held-out rows alone
    assert kept[-1]
    assert not kept[0]
    assert np.all(shares[:, kept] == shares[:, [np.argmax(kept) - 1]])
    largest, *others = (TauFPLRanker(0.1, reg, tol=1e-8).fit(X, y).coef_[0] for reg in regs[np.argmax(kept) - 1 :])
    for coef in others:
        assert np.sum((coef - largest) ** 2) <= 0.2 * np.sum(largest**2)
    few = TauFPLRankerCV(0.5, [1.0, 1e-2, 1e-4], 3, tau_scale=1.0, max_extensions=0).fit(
        X[:, :2] + y[:, np.newaxis], y
    )  # loss is left
    assert np.all(few.cv_results_["mean_n_passes"] > 1)


def test_search_in_two_threads_gives_the_same_table():
    X, y = two_clouds()
    alone, both = (TauFPLRankerCV(0.05, 4, 3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(alone.cv_results_["mean_test_score"], both.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(alone.coef_, both.coef_)


def test_toppush_is_the_ranking_against_the_highest_negative():
    X, y = two_clouds()
    toppush = TopPush(0.1, tol=1e-8).fit(X, y)
    ranker = TauFPLRanker(0.001, 0.1, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(toppush.coef_, ranker.coef_)
    assert toppush.predict(X)[y == 0].sum() == 0


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_path_gives_what_single_fits_give(kind):
    X, y = two_clouds()
    taus, regs = [0.05, 0.2, 0.051], [0.01, 1.0, 0.1]
    path = tau_path(kind(X), y, taus, regs, tol=1e-8)
    for (i, tau), (j, reg) in ((a, b) for a in enumerate(taus) for b in enumerate(regs)):
        one = TauFPLRanker(tau, reg, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(path.coefs[i, j], one.coef_[0], rtol=1e-2, atol=1e-3)
        np.testing.assert_allclose(path.primal_objectives[i, j], one.primal_objective_, rtol=2e-8)
        np.testing.assert_allclose(path.thresholds[i, j], -one.intercept_[0], rtol=1e-2, atol=1e-3)
    assert path.converged.all()
    assert (path.dual_gaps <= 1e-8).all()
    np.testing.assert_array_equal(path.regs, regs)


class TestTrainingShares:
    """Larger shares of negatives, smaller ones of positives, for classes that overlap."""

    def test_positives_that_cannot_be_reached_are_given_up(self):
        X, y = partly_separable(n=3000, m=500)
        with pytest.warns(RankingCollapseWarning, match="lower positive_share"):
            assert TauFPLRanker(0.01, 0.1).fit(X, y).collapsed_
        ranker = TauFPLRanker(0.01, 0.1, tau_scale=4, positive_share=0.3).fit(X, y)
        assert not ranker.collapsed_
        assert ranker.converged_
        new, labels = partly_separable(1, n=50_000)
        scores = new @ ranker.coef_[0]
        above = np.quantile(scores[labels == 0], 0.99)
        assert np.mean(scores[labels == 1] > above) > 0.25  # 30 % are far away

    def test_the_objective_is_that_of_the_best_positives(self):
        X, y = partly_separable(n=1000, m=200)
        ranker = TauFPLRanker(0.05, 0.1, positive_share=0.25, tol=1e-6).fit(X, y)
        scores = X @ ranker.coef_[0]
        best = np.sort(scores[y == 1])[-50:]
        top = np.sort(scores[y == 0])[-51:].mean()
        value = np.mean(np.maximum(0.0, 1.0 - best + top) ** 2) + 0.05 * ranker.coef_[0] @ ranker.coef_[0]
        assert ranker.primal_objective_ == pytest.approx(value, rel=1e-6)

    def test_search_over_shares(self):
        X, y = partly_separable(n=1000, m=200)
        plain, both = (
            TauFPLRankerCV(0.01, [1.0, 0.1], 2, tau_scale=scale, positive_share=share, max_extensions=0).fit(X, y)
            for scale, share in ((100.0, 1.0), ("cv", "cv"))
        )
        table = both.cv_results_
        assert set(table["param_tau_scale"]) == {1.0, 2.0, 4.0, 16.0, 64.0, 100.0}
        assert set(table["param_positive_share"]) == {1.0, 0.75, 0.5, 0.25, 0.1}
        assert len(table["param_reg"]) == 60
        assert both.best_score_ > 1.5 * plain.best_score_
        assert both.positive_share_ < 1
        best = np.argmax(table["mean_test_score"])
        assert table["param_tau_scale"][best] == both.tau_scale_
        same = (table["param_tau_scale"] == 100.0) & (table["param_positive_share"] == 1.0)
        np.testing.assert_allclose(table["mean_test_score"][same], plain.cv_results_["mean_test_score"], atol=0.02)


class TestCollapse:
    """The mean positive inside what the negatives can average to: w = 0 is the optimum for every reg."""

    @staticmethod
    def overlapping(shift=0.0):
        rng = np.random.default_rng(0)
        negatives = rng.normal(size=(400, 4))
        positives = rng.normal(size=(50, 4))
        positives += negatives.mean(axis=0) - positives.mean(axis=0) + shift
        return np.r_[negatives, positives], np.repeat([0, 1], [400, 50])

    @pytest.mark.parametrize("reg", [1e-6, 1e-2, 1e4])
    def test_it_is_seen_said_and_predicts_nobody(self, reg):
        X, y = self.overlapping()
        with pytest.warns(RankingCollapseWarning, match="Raise tau_scale"):
            ranker = TauFPLRanker(0.05, reg).fit(X, y)
        assert ranker.collapsed_
        assert ranker.converged_
        assert not ranker.coef_.any()
        assert ranker.predict(X).sum() == 0
        assert ranker.primal_objective_ == 1.0

    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    @pytest.mark.parametrize("reg", [1e-2, 1e4, 1e6])
    def test_a_large_penalty_is_no_collapse(self, reg, scale):
        """P* is 1 up to 1e-4 and less, but the direction is there, and it ranks."""
        X, y = two_clouds(shift=2.0)
        ranker = TauFPLRanker(0.05, reg).fit(scale * X, y)
        assert not ranker.collapsed_
        assert ranker.predict(scale * X)[y == 1].mean() > 0.9

    @pytest.mark.parametrize("reg", [1e-12, 1e-2, 10.0])
    @pytest.mark.parametrize("change", ["tiny", "mixed", "shifted"])
    def test_scales_and_shifts_are_no_collapse(self, reg, change):
        X, y = two_clouds(shift=2.0, d=5)
        changed = {"tiny": X * 1e-8, "mixed": X * [1e-6, 1e-3, 1.0, 1e3, 1e6], "shifted": X + 1e4}[change]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ranker = TauFPLRanker(0.05, reg * 1e8 if change == "shifted" else reg).fit(changed, y)
        assert not ranker.collapsed_
        scores = changed @ ranker.coef_[0]
        assert np.mean(scores[y == 1] > np.quantile(scores[y == 0], 0.95)) > 0.4

    def test_a_larger_share_of_negatives_helps(self):
        X, y = self.overlapping(shift=0.5)
        with pytest.warns(RankingCollapseWarning):
            assert TauFPLRanker(0.02).fit(X, y).collapsed_
        ranker = TauFPLRanker(0.02, tau_scale=50).fit(X, y)
        assert not ranker.collapsed_
        assert ranker.predict(X)[y == 1].mean() > 0.02

    def test_search_ends_where_every_value_collapses(self):
        X, y = self.overlapping()
        with pytest.warns(RankingCollapseWarning):
            ranker = TauFPLRankerCV(0.05, 3).fit(X, y)
        assert ranker.n_extensions_ == 0


def test_stopping_early_is_said_with_the_gap():
    X, y = two_clouds(d=30, shift=0.3)
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 iterations at a relative gap of [0-9.e-]+, above"):
        ranker = TauFPLRanker(0.05, 1e-4, max_iter=1, tol=1e-9).fit(X, y)
    assert not ranker.converged_
    k = 21
    assert ranker.primal_objective_ == pytest.approx(objective(ranker.coef_[0], X, y, k, 1e-4))


def test_callback_sees_the_gap_fall():
    X, y = two_clouds()
    records = []
    ranker = TauFPLRanker(0.05, 0.1, callback=records.append).fit(X, y)
    assert tuple(records) == ranker.history_
    assert records[-1].gap <= 1e-4 < records[0].gap


X, Y = two_clouds(m=10, n=30)
WRONG = [
    (TauFPLRanker(tau=0.0), X, Y, "'tau' parameter"),
    (TauFPLRanker(tau=1.0), X, Y, "'tau' parameter"),
    (TauFPLRanker(reg=0.0), X, Y, "'reg' parameter"),
    (TauFPLRanker(tau_scale=-1.0), X, Y, "'tau_scale' parameter"),
    (TauFPLRanker(solver="magic"), X, Y, "'solver' parameter"),
    (TauFPLRanker(positive_share=0.0), X, Y, "'positive_share' parameter"),
    (TauFPLRanker(positive_share=1.5), X, Y, "'positive_share' parameter"),
    (TauFPLRankerCV(tau_scale="best"), X, Y, "'tau_scale' parameter"),
    (TauFPLRanker(tol=0), X, Y, "'tol' parameter"),
    (TauFPLRanker(pos_label=7), X, Y, r"pos_label must be one of the labels in y, \[0, 1\]; got 7"),
    (TauFPLRanker(), X, np.zeros(40), "one class only"),
    (TauFPLRanker(), X, np.arange(40) % 3, "Only binary classification is supported"),
    (TauFPLRanker(), X, Y[:-1], "inconsistent numbers of samples"),
    (TauFPLRanker(), np.where(X > 2, np.nan, X), Y, "contains NaN"),
    (TauFPLRanker(), np.where(X > 2, np.inf, X), Y, "contains infinity"),
    (TauFPLRanker(), X[:0], Y[:0], "0 sample"),
    (TauFPLRanker(), X[:, 0], Y, "Expected 2D array"),
    (TauFPLRankerCV(regs=[1.0, -1.0]), X, Y, "regs must be one or more positive finite numbers"),
    (TauFPLRankerCV(regs=[]), X, Y, "regs must be one or more positive finite numbers"),
    (TauFPLRankerCV(regs=1), X, Y, "'regs' parameter"),
    (TauFPLRankerCV(cv=[(np.arange(30), np.arange(30, 40))]), X, np.sort(Y), "fold 0 of cv has no rows of one class"),
]


@pytest.mark.parametrize(("estimator", "X", "y", "message"), WRONG)
def test_wrong_use_is_explained(estimator, X, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


@pytest.mark.parametrize(
    ("taus", "regs", "message"),
    [
        ([0.1, 1.0], 1.0, "taus must be"),
        ([], 1.0, "taus must be"),
        (0.1, [0.0], "regs must be"),
        (0.1, [], "regs must"),
    ],
)
def test_a_wrong_grid_is_explained(taus, regs, message):
    with pytest.raises(ValueError, match=message):
        tau_path(X, Y, taus, regs)


@pytest.mark.parametrize("d", [6, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "estimator",
    [TauFPLRanker(0.1), TauFPLRanker(0.1, solver="accelerated"), TauFPLRankerCV(0.1), TauFPLClassifier(0.1)],
)
def test_a_fit_lets_go_of_the_rows_at_once(estimator, d):
    X, y = two_clouds(d=d)
    rows = weakref.ref(X)
    gc.disable()  # a reference cycle would now keep the rows alive
    try:
        estimator.fit(X, y)
        del X
        # A thread that has helped with a product may be about to drop it; what a cycle keeps stays for good.
        for _ in range(100):
            if rows() is None:
                break
            time.sleep(0.02)
        assert rows() is None
    finally:
        gc.enable()


def test_unfitted():
    with pytest.raises(NotFittedError, match="not fitted"):
        TauFPLRanker().predict(X)
