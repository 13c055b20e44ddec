"""Kernel classifiers: thresholds, what the threshold's negatives may not touch, searches, files and commands."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from density_cases import CASES, bayes_recall, draw, one_in_the_quick_run
from taufpl import KernelTauFPLClassifier, KernelTauFPLRanker, NeymanPearsonClassifier
from taufpl.estimators import watching
from taufpl.estimators.kernel import _classifier as kernel_search
from taufpl.exceptions import ExportError, ModelFileError
from taufpl.kernels import make_kernel
from taufpl.metrics import tpr_at_fpr
from taufpl.persistence import load_model, save_model, to_json, to_onnx
from taufpl.report import render_report
from taufpl.thresholding import HeldOut, OrderStatistic, OutOfBootstrap

MOONS = CASES["moons"]
X, Y = draw(MOONS, 900, 300, seed=7)
NEW, TRUTH = draw(MOONS, 20_000, 5_000, seed=8)
FIXED = {"gamma": 2.0, "reg": 1e-3, "random_state": 0}


@pytest.mark.parametrize(
    "threshold",
    [
        "cross",
        "np",
        pytest.param(OutOfBootstrap(n_rounds=3), marks=pytest.mark.slow),
        pytest.param("train", marks=pytest.mark.slow),
    ],
)
def test_decisions_are_scores_above_the_threshold(threshold):
    model = KernelTauFPLClassifier(0.05, threshold=threshold, **FIXED).fit(X, Y)
    scores = rbf_kernel(NEW, model.support_vectors_, gamma=2.0) @ model.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(NEW), scores - model.threshold_, atol=1e-7)
    np.testing.assert_array_equal(model.predict(NEW), (model.decision_function(NEW) > 0).astype(int))
    assert model.intercept_ == -model.threshold_
    fpr = np.mean(model.predict(NEW[TRUTH == 0]))
    assert fpr <= (0.08 if threshold == "train" else 0.05)
    assert np.mean(model.predict(NEW[TRUTH == 1])) > 0.9
    assert model.evidence_.guaranteed == (threshold == "np")
    assert model.fpr_upper_bound_ >= model.fpr_estimate_


def test_np_takes_the_order_statistic_of_negatives_that_nothing_else_has_seen():
    """Other held-out negatives, which score the same, change nothing of the ranking: gamma and landmarks included."""
    settings = {
        "threshold": HeldOut(share=0.5),
        "gamma": "median",
        "reg": 1e-3,
        "n_components": 50,
        "random_state": 0,
    }
    first = KernelTauFPLClassifier(0.05, **settings).fit(X, Y)
    negatives = np.flatnonzero(Y == 0)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    held = np.random.default_rng(seed).permutation(negatives)[:450]
    assert not np.isin(first.support_, held).any()
    moved = X.copy()
    moved[held] += 100.0
    second = KernelTauFPLClassifier(0.05, **settings).fit(moved, Y)
    assert second.gamma_ == first.gamma_
    np.testing.assert_array_equal(second.support_vectors_, first.support_vectors_)
    np.testing.assert_array_equal(second.dual_coef_, first.dual_coef_)
    scores = rbf_kernel(X[held], first.support_vectors_, gamma=first.gamma_) @ first.dual_coef_[0]
    assert first.threshold_ == pytest.approx(OrderStatistic(0.05, 0.05).choose(scores).threshold, abs=1e-6)


def test_a_search_for_np_looks_at_no_held_out_negative():
    settings = {"threshold": HeldOut(share=0.5), "regs": [1e-1, 1e-3], "cv": 2, "n_components": 30, "random_state": 0}
    model = KernelTauFPLClassifier(0.05, **settings)
    held = np.setdiff1d(np.arange(Y.size), model.training_rows(Y))
    assert held.size == 450
    assert not Y[held].any()
    moved = X.copy()
    moved[held] += 100.0
    searches = [model.fit(rows, Y).cv_results_ for rows in (X, moved)]
    timed = [name for name in searches[0] if "time" in name]
    for name in searches[0].keys() - timed:
        np.testing.assert_array_equal(searches[1][name], searches[0][name], name)


def test_the_search_finds_what_the_data_need():
    """From a gamma that is far off, and with a table that says what was tried."""
    case = CASES["checkerboard"]
    train, labels = draw(case, 1200, 600, seed=0)
    new, truth = draw(case, 20_000, 5_000, seed=1)
    model = KernelTauFPLClassifier(0.02, cv=3, regs=[0.1, 1e-3, 1e-5], n_components=150, random_state=0)
    model.fit(train, labels)
    table = model.cv_results_
    best = table["rank_test_score"] == 1
    assert model.gamma_ in table["param_gamma"][best]
    assert model.reg_ in table["param_reg"][best]
    assert len(np.unique(table["param_gamma"])) >= 4
    assert (np.diff(table["param_gamma"]) >= 0).all()
    recall = tpr_at_fpr(truth, model.decision_function(new), 0.02)
    assert recall >= bayes_recall(case, 0.02, new, truth) - 0.05
    assert recall >= np.max(table["mean_test_score"]) - 0.05


def test_what_leads_a_search_has_been_judged_at_the_finer_gap(monkeypatch):
    """Its score is that of a search at that gap alone, from which the coarse one differs on these rows."""
    train, labels = draw(CASES["moons"], 600, 200, seed=3)
    settings = {"gamma": 2.0, "cv": 3, "regs": [1.0, 1e-2, 1e-4], "n_components": 60, "threshold": "train"}

    def search(rough, leader):
        for name, value in (("_ROUGH_TOL", rough), ("_LEADER_TOL", leader)):
            monkeypatch.setattr(kernel_search, name, value)
        model = KernelTauFPLClassifier(0.02, random_state=0, **settings).fit(train, labels)
        return dict(zip(model.cv_results_["param_reg"], model.cv_results_["mean_test_score"], strict=True)), model.reg_

    coarse, _ = search(0.5, 0.5)
    fine, _ = search(1e-4, 1e-4)
    mixed, reg = search(0.5, 1e-4)
    assert coarse != fine
    assert mixed[reg] == pytest.approx(fine[reg], abs=0.005)
    assert mixed[reg] == max(mixed.values())
    assert any(mixed[each] == coarse[each] != fine[each] for each in mixed)


@pytest.mark.parametrize("name", one_in_the_quick_run("checkerboard"))
def test_recall_comes_near_that_of_the_likelihood_ratio(name):
    case = CASES[name]
    train, labels = draw(case, 3000, 1500, seed=0)
    new, truth = draw(case, 40_000, 10_000, seed=1)
    gamma = 4 * make_kernel("rbf", "median", X=train).gamma
    model = KernelTauFPLClassifier(
        0.01, gamma=gamma, reg=1e-3, tau_scale=2, n_components=200, cv=3, threshold="train", random_state=0
    ).fit(train, labels)
    assert tpr_at_fpr(truth, model.decision_function(new), 0.01) >= bayes_recall(case, 0.01, new, truth) - 0.02


def test_a_precomputed_kernel_is_cut_as_the_rows_are():
    settings = {"tau": 0.05, "reg": 1e-3, "cv": 3, "tol": 1e-8, "random_state": 0}
    by_rows = KernelTauFPLClassifier(gamma=2.0, **settings).fit(X, Y)
    by_kernel = KernelTauFPLClassifier(kernel="precomputed", **settings).fit(rbf_kernel(X, gamma=2.0), Y)
    assert by_kernel.threshold_ == pytest.approx(by_rows.threshold_, rel=1e-3, abs=1e-3)
    new = NEW[:500]
    np.testing.assert_allclose(
        by_kernel.decision_function(rbf_kernel(new, X, gamma=2.0)), by_rows.decision_function(new), atol=5e-3
    )


def test_the_mean_of_rounds_is_one_expansion():
    """Each is the ranking of its rows alone, as wrapped estimators are fitted on the same rows."""
    rounds = {"threshold": OutOfBootstrap(n_rounds=3), "delta": None, "random_state": 0}
    model = KernelTauFPLClassifier(0.05, gamma=2.0, reg=1e-3, tau_scale=1.0, tol=1e-9, **rounds).fit(X, Y)
    alone = NeymanPearsonClassifier(KernelTauFPLRanker(0.05, 1e-3, gamma=2.0, tol=1e-9), 0.05, **rounds).fit(X, Y)
    assert len(alone.estimators_) == 3
    scores = [rbf_kernel(NEW[:50], each.support_vectors_, gamma=2.0) @ each.dual_coef_[0] for each in alone.estimators_]
    assert np.std(scores, axis=0).min() > 1e-4
    np.testing.assert_allclose(model.decision_function(NEW[:50]) + model.threshold_, np.mean(scores, axis=0), atol=1e-5)


@pytest.mark.parametrize(("tau", "n_positive", "n_negative"), [(0.2, 100, 300), (0.04, 300, 900)])
def test_the_search_looks_at_a_part_of_many_rows(monkeypatch, tau, n_positive, n_negative):
    """As few as 400 here, but as many as leave enough negatives above the threshold."""
    monkeypatch.setattr(kernel_search, "_MOST_ROWS", 400)
    seen = set()

    def kernel(a, b):
        seen.update((a.tobytes(), b.tobytes()))
        return float(np.exp(-2.0 * ((a - b) @ (a - b))))

    def watch(n_done, n_steps, what):
        if what.startswith("fitting the model"):
            raise InterruptedError("the search is over")

    settings = {"regs": [1e-2, 1e-3], "n_components": 8, "threshold": "train", "random_state": 0}
    with watching(watch), pytest.raises(InterruptedError):
        KernelTauFPLClassifier(tau, kernel=kernel, **settings).fit(X, Y)
    looked_at = np.array([row.tobytes() in seen for row in X])
    assert looked_at.sum() == len(seen)
    assert (looked_at[Y == 1].sum(), looked_at[Y == 0].sum()) == (n_positive, n_negative)
    model = KernelTauFPLClassifier(tau, gamma=2.0, **settings).fit(X, Y)
    assert np.mean(model.predict(NEW[TRUTH == 1])) > 0.9


@pytest.mark.slow
def test_rounds_in_processes_are_reported_as_those_that_follow_each_other():
    alone, beside = (
        KernelTauFPLClassifier(0.05, threshold=OutOfBootstrap(n_rounds=3), n_jobs=n_jobs, **FIXED).fit(X, Y)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(beside.dual_coef_, alone.dual_coef_)
    assert (beside.kernel_gap_, beside.n_components_) == (alone.kernel_gap_, alone.n_components_)


@pytest.mark.slow
def test_recalibrate_and_other_wrappers():
    model = KernelTauFPLClassifier(0.05, **FIXED).fit(X, Y)
    fresh = MOONS.sample(0, 2000, np.random.default_rng(11))
    assert model.recalibrate(fresh).evidence_.guaranteed
    assert np.mean(model.predict(NEW[TRUTH == 0])) <= 0.055
    wrapped = NeymanPearsonClassifier(
        make_pipeline(StandardScaler(), KernelTauFPLRanker(0.05, 1e-3, gamma=2.0)), 0.05, random_state=0
    ).fit(X, Y)
    assert np.mean(wrapped.predict(NEW[TRUTH == 0])) <= 0.05
    grid = GridSearchCV(KernelTauFPLRanker(0.05, 1e-3), {"gamma": [0.01, 2.0]}, cv=3).fit(X, Y)
    assert grid.best_params_["gamma"] == 2.0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"gamma": "large"}, "'gamma' parameter"),
        ({"reg": 0.0}, "'reg' parameter"),
        ({"regs": [1.0, -1.0]}, "positive finite"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"threshold": "np", "tau": 0.001}, "negatives held out"),
    ],
)
def test_what_does_not_fit_is_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        KernelTauFPLClassifier(**settings).fit(X, Y)


def test_a_saved_model_decides_the_same(tmp_path):
    model = make_pipeline(StandardScaler(), KernelTauFPLClassifier(0.05, **FIXED)).fit(X, Y)
    header = save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops").model
    np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))
    assert header.training["kernel_gap"] == model[-1].kernel_gap_
    assert header.training["gamma"] == 2.0


def test_a_file_with_rows_that_do_not_fit_is_refused(tmp_path):
    model = KernelTauFPLClassifier(0.05, **FIXED).fit(X, Y)
    model.dual_coef_ = model.dual_coef_[:, 1:]
    save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="do not fit their weights"):
        load_model(tmp_path / "model.skops")


def test_exports_that_know_no_kernels_say_so():
    model = KernelTauFPLRanker(0.05, **FIXED).fit(X, Y)
    with pytest.raises(ExportError, match="not exported to ONNX"):
        to_onnx(model, X)
    with pytest.raises(ExportError, match=r"linear models only.*save_model keeps such models"):
        to_json(model)


@pytest.mark.parametrize("kind", [KernelTauFPLClassifier, KernelTauFPLRanker])
def test_a_report_reads_the_scores(kind):
    model = kind(0.05, **FIXED).fit(X, Y)
    page = render_report(model, NEW, TRUTH)
    assert f"{100 * np.mean(model.predict(NEW[TRUTH == 1])):.4g}" in page


def test_one_row_of_a_class_is_too_few_for_folds_and_there_is_a_way_out():
    y = np.zeros(len(X), int)
    y[0] = 1
    with pytest.raises(ValueError, match=r'got 1 positive and 1199 negatives\. Give more rows; or .* threshold="np"'):
        KernelTauFPLClassifier(0.05, threshold="cross").fit(X, y)
    model = KernelTauFPLClassifier(0.05, gamma=2.0, reg=0.1, threshold="np", random_state=0).fit(X, y)
    assert model.predict(X).mean() <= 0.1


def test_a_matrix_of_pairs_is_refused_where_it_cannot_be_cut_and_both_ways_out_work():
    K = rbf_kernel(X, gamma=2.0)
    precomputed = KernelTauFPLRanker(0.05, 1e-3, kernel="precomputed")
    for scorer in (precomputed, SVC(kernel="precomputed")):
        with pytest.raises(ValueError, match=r"KernelTauFPLClassifier.*cv='prefit'"):
            NeymanPearsonClassifier(scorer, 0.05).fit(K, Y)
    within = KernelTauFPLClassifier(0.05, kernel="precomputed", reg=1e-3, threshold="np", random_state=0).fit(K, Y)
    seen = np.random.default_rng(0).random(len(X)) < 0.5
    fitted = precomputed.fit(K[np.ix_(seen, seen)], Y[seen])
    outside = NeymanPearsonClassifier(fitted, 0.05, cv="prefit").fit(K[np.ix_(~seen, seen)], Y[~seen])
    new = rbf_kernel(NEW, X, gamma=2.0)
    for found in (within.predict(new), outside.predict(new[:, seen])):
        assert found[TRUTH == 0].mean() <= 0.05
        assert found[TRUTH == 1].mean() > 0.8
