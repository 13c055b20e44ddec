"""Estimators on remote rows: what is promised, and what is left behind."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import backend_cases as cases
from backend_cases import gathered, tensor
from estimator_cases import two_clouds
from taufpl import (
    NeymanPearsonClassifier,
    TauFPLClassifier,
    TauFPLRanker,
)
from taufpl.estimators import SolverChoice, _search
from taufpl.estimators._search import PaperFitter
from taufpl.estimators.remote import BlockTable
from taufpl.estimators.remote._table import HeldOutRows
from taufpl.estimators.strategies import Plan
from taufpl.exceptions import RankingCollapseWarning
from taufpl.operators import LocalBlocks
from taufpl.persistence import load_model, save_model
from taufpl.thresholding import HeldOut, OrderStatistic, OutOfBootstrap

X, Y = cases.rows()
PAPER = {"ranking": "paper", "reg": 0.1, "tau_scale": 1.0}


def in_blocks(X, y, cuts=(100, 300)):
    """A table of all rows, in blocks of this process."""
    states = [
        {"number": i, "start": 0, "is_positive": part == 1, "is_negative": part == 0}
        for i, part in enumerate(np.split(y, cuts))
    ]
    return BlockTable.of(LocalBlocks(np.split(X, cuts), states, workers=1))


def fitter(tau=0.1):
    return PaperFitter(tau, 1.0, 0.1, SolverChoice(tol=1e-3), regs=3, cv=2)


def assert_same_evidence(found, expected):
    """The same counts; scores, and so thresholds, are added up in another order by each library."""
    assert found.threshold == pytest.approx(expected.threshold, rel=1e-12)
    assert replace(found, threshold=expected.threshold) == expected


# What is promised.


@pytest.mark.slow
@pytest.mark.statistics
def test_the_guarantee_holds_in_blocks():
    """P(FPR > tau) <= delta over many small trials; the true FPR of a linear score of normal rows is known."""
    tau, delta, n_trials = 0.2, 0.2, 150
    fpr = []
    for seed in range(n_trials):
        rows, y = two_clouds(m=10, n=50, d=2, shift=2.0, seed=seed)
        plan = Plan((tau,), delta, seed=seed)
        found = HeldOut(share=0.5, measure_recall=False).run(fitter(tau), in_blocks(rows, y, (20, 45)), plan)
        coef = found.models[0].coef
        standard = found.evidence[0].threshold / np.linalg.norm(coef)
        fpr.append(float(ndtr(-standard)))
    # Four standard errors above delta; a threshold from the training rows would fail about every other time.
    assert np.mean(np.array(fpr) > tau) <= delta + 4 * np.sqrt(delta * (1 - delta) / n_trials)
    assert np.mean(np.array(fpr) > tau) >= 0.02


def test_negatives_that_are_held_out_never_reach_the_fit():
    table = in_blocks(X, Y)
    plan = Plan((0.1,), 0.05, seed=3)
    n = table.n_negative
    coded = table.blocks.fork(table.assign(HeldOutRows.draw((n // 2, 0), table.sizes, plan.seed)))
    codes = np.concatenate(coded.gather(lambda block, state: state["part"]))
    held_out = codes == 1
    assert held_out.sum() == n // 2
    assert not held_out[Y == 1].any()
    found = HeldOut(share=0.5, measure_recall=False).run(fitter(), table, plan)
    moved = X.copy()
    moved[held_out] = 1e3 * np.random.default_rng(0).normal(size=(held_out.sum(), X.shape[1]))
    other = HeldOut(share=0.5, measure_recall=False).run(fitter(), in_blocks(moved, Y), plan)
    np.testing.assert_array_equal(found.models[0].coef, other.models[0].coef)
    assert found.evidence[0].threshold != other.evidence[0].threshold
    # The rule in memory, on the scores of just these rows.
    expected = OrderStatistic(0.1).choose(X[held_out] @ found.models[0].coef)
    assert_same_evidence(found.evidence[0], expected.raised(found.rounding.raised))


def test_the_seed_decides_and_the_cut_into_chunks_does_too():
    model = TauFPLClassifier(0.1, threshold="np", random_state=7, **PAPER)
    same = [clone(model).fit(da.from_array(X, chunks=(200, 4)), Y) for _ in range(2)]
    assert same[0].threshold_ == same[1].threshold_
    other = clone(model).set_params(random_state=8).fit(da.from_array(X, chunks=(200, 4)), Y)
    assert other.threshold_ != same[0].threshold_


@pytest.mark.parametrize("rule", ["np_score", "quantile"])
@pytest.mark.parametrize("combine", ["mean", "refit"])
def test_out_of_bootstrap(rule, combine):
    model = TauFPLClassifier(
        0.1, threshold=OutOfBootstrap(n_rounds=5, rule=rule, combine=combine), delta=None, random_state=0, **PAPER
    )
    blocks, memory = clone(model).fit(tensor(X), Y), clone(model).fit(X, Y)
    assert len(blocks.evidence_.rounds) == 5
    # Other rows are drawn than in memory: the same figures up to that.
    assert blocks.evidence_.n_negative == pytest.approx(memory.evidence_.n_negative, rel=0.1)
    assert blocks.fpr_estimate_ == pytest.approx(memory.fpr_estimate_, abs=0.05)
    assert blocks.evidence_.tpr_estimate == pytest.approx(memory.evidence_.tpr_estimate, abs=0.1)
    if rule == "quantile":
        assert np.all(blocks.evidence_.rounds.fpr <= 0.1)


def test_the_automatic_ranking_says_what_it_compared():
    model = TauFPLClassifier(0.1, cv=2, random_state=0).fit(tensor(X), Y)
    names = model.selection_["candidate"]
    assert {"logistic(1)", "svm(10, 0.1)", "normal(0.3)", "trimmed(2, 0.01)"} <= set(names)
    assert not any(name.startswith("screened") for name in names)
    assert 1 <= sum(model.selection_["kept"]) <= 5
    assert not hasattr(model, "reg_")
    assert not hasattr(model.set_params(reg=0.1).fit(tensor(X), Y), "selection_")


@pytest.mark.parametrize("convert", [tensor, np.asarray], ids=["remote", "in memory"])
def test_many_positives_are_searched_on_as_few_folds_as_hold_enough(convert, monkeypatch):
    settings = {"ranking": "paper", "tau_scale": 1.0, "regs": [1.0, 0.1], "cv": 4, "random_state": 0}
    whole = TauFPLClassifier(0.1, **settings).fit(convert(X), Y)
    assert "split3_test_score" in whole.cv_results_
    monkeypatch.setattr(_search, "ENOUGH_POSITIVES", int(0.3 * np.sum(Y == 1)))
    part = TauFPLClassifier(0.1, **settings).fit(convert(X), Y)
    splits = [name for name in part.cv_results_ if name.startswith("split")]
    assert splits == ["split0_test_score", "split1_test_score"]
    assert max(part.cv_results_["mean_test_score"]) == pytest.approx(max(whole.cv_results_["mean_test_score"]), abs=0.2)


def test_several_tolerances_around_a_ranker():
    model = NeymanPearsonClassifier(TauFPLRanker(0.1, 0.1), tau=[0.2, 0.1], random_state=0).fit(tensor(X), Y)
    decisions = model.decide(tensor(X))
    assert decisions.shape == (len(X), 2)
    assert type(decisions) is type(tensor(X))
    np.testing.assert_array_equal(gathered(decisions)[:, 1], gathered(model.predict(tensor(X))) == 1)
    np.testing.assert_array_equal(gathered(decisions), model.decide(X))
    lazy = model.decide(da.from_array(X, chunks=(100, 4)))
    np.testing.assert_array_equal(lazy.compute(), model.decide(X))


@pytest.mark.parametrize("form", ["dask threads", "dask dataframe", "torch float64", "torch csr", "array_api_strict"])
def test_accuracy_where_the_rows_are(form, tmp_path):
    weights = np.random.default_rng(0).uniform(size=len(Y))
    data, labels = cases.ELSEWHERE[form](X, Y, tmp_path)
    lazy = da.from_array(weights, chunks=77) if form.startswith("dask") else tensor(weights)
    for model in TauFPLRanker(0.1, 0.1), NeymanPearsonClassifier(TauFPLRanker(0.1, 0.1), 0.1, random_state=0):
        model.fit(data, labels)
        hits = gathered(model.predict(data)) == Y
        assert 0.7 < hits.mean() < 1.0
        assert model.score(data, labels) == pytest.approx(hits.mean())
        assert model.score(data, Y) == pytest.approx(hits.mean())
        expected = pytest.approx(np.average(hits, weights=weights))
        assert model.score(data, labels, weights) == expected
        assert model.score(data, labels, sample_weight=lazy) == expected


@pytest.mark.parametrize("wrap", [np.asarray, tensor, partial(da.from_array, chunks=(100, 4))])
def test_the_ranker_inside_looks_for_the_same_positives(wrap):
    """The rare class comes first in the order of labels; a score turned round would rank the others."""
    names = np.where(Y == 1, "bad", "good")
    expected = TauFPLRanker(0.1, 0.1, pos_label="bad", tol=1e-8).fit(X, names)
    outer = NeymanPearsonClassifier(
        TauFPLRanker(0.1, 0.1, tol=1e-8), 0.1, threshold="train", pos_label="bad", random_state=0
    )
    model = outer.fit(wrap(X), names)
    assert outer.estimator.pos_label is None
    assert model.estimator_.classes_.tolist() == ["good", "bad"]
    np.testing.assert_allclose(model.estimator_.coef_, expected.coef_, rtol=1e-3)


def test_the_last_step_inside_looks_for_the_same_positives():
    names = np.where(Y == 1, "bad", "good")
    pipeline = make_pipeline(StandardScaler(), TauFPLRanker(0.1, 0.1))
    model = NeymanPearsonClassifier(pipeline, 0.1, threshold="train", pos_label="bad").fit(X, names)
    assert model.estimator_[-1].classes_.tolist() == ["good", "bad"]


# Fitted scorers, and thresholds that are chosen anew.


@pytest.mark.parametrize("form", ["dask threads", "dask dataframe", "torch float64", "array_api_strict"])
@pytest.mark.parametrize(
    "scorer",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        RandomForestClassifier(10, random_state=0),
        TauFPLRanker(0.1, 0.1),
    ],
    ids=["pipeline", "forest", "ranker"],
)
def test_a_fitted_scorer_is_calibrated_where_the_rows_are(form, scorer, tmp_path):
    scorer.fit(X[:200], Y[:200])
    memory = NeymanPearsonClassifier(scorer, 0.1, cv="prefit").fit(X[200:], Y[200:])
    data, labels = cases.ELSEWHERE[form](X[200:], Y[200:], tmp_path)
    with pytest.warns(UserWarning, match="names") if form == "dask dataframe" else cases.nothing_warned():
        model = NeymanPearsonClassifier(FrozenEstimator(scorer), 0.1).fit(data, labels)
        found = gathered(model.decision_function(data))
    assert model.threshold_ == pytest.approx(memory.threshold_, rel=1e-12)
    assert model.evidence_.rank == memory.evidence_.rank
    assert model.evidence_.tpr_estimate == memory.evidence_.tpr_estimate
    np.testing.assert_allclose(found, memory.decision_function(X[200:]), atol=1e-12)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize("form", ["to_sparse_csr", "bfloat16", "half", "requires_grad_", "short"])
def test_a_fitted_scorer_takes_tensors_of_every_form(form):
    torch = pytest.importorskip("torch")
    whole = np.round(X)
    scorer = LogisticRegression().fit(whole[:200], Y[:200])
    memory = NeymanPearsonClassifier(scorer, 0.1, cv="prefit").fit(whole[200:], Y[200:])
    rows = getattr(torch.asarray(whole[200:]), form)()
    model = NeymanPearsonClassifier(scorer, 0.1, cv="prefit").fit(rows, torch.asarray(Y[200:]))
    assert model.threshold_ == pytest.approx(memory.threshold_, rel=1e-12)
    scores = model.decision_function(rows)
    assert scores.layout == torch.strided
    np.testing.assert_allclose(gathered(scores), memory.decision_function(whole[200:]), atol=1e-12)


@pytest.mark.parametrize("looks", [1, "any"])
@pytest.mark.parametrize("form", ["dask threads", "torch float32", "array_api_strict"])
def test_recalibrated_where_the_rows_are(form, looks, tmp_path):
    model = TauFPLClassifier(0.1, threshold="np", looks=looks, random_state=0, **PAPER).fit(X, Y)
    new, labels = cases.rows(seed=5)
    data, tags = cases.ELSEWHERE[form](new, labels, tmp_path)
    memory = clone(model).fit(X, Y).recalibrate(new, labels)
    assert_same_evidence(model.recalibrate(data, tags).evidence_, memory.evidence_)
    later = cases.rows(seed=6)[0][labels == 0]
    alone, _ = cases.ELSEWHERE[form](later, labels[labels == 0], tmp_path)
    assert model.recalibrate(alone).threshold_ == pytest.approx(memory.recalibrate(later).threshold_, rel=1e-12)
    for rows in data, new:
        with pytest.raises(ValueError, match=r"y must hold negatives, 0, .*; got 600 rows without any"):
            model.recalibrate(rows, np.ones(len(new), dtype=int))
        with pytest.raises(ValueError, match=r"y must hold the labels that .* knows, \[0, 1\]; got \[2\] too"):
            model.recalibrate(rows, labels + (np.arange(len(new)) == 7) * (2 - labels))


# Labels and types.


def test_labels_that_are_text():
    names = np.where(Y == 1, "fraud", "fine")
    model = TauFPLRanker(0.1, 0.1, pos_label="fraud")
    lazy = model.fit(da.from_array(X, chunks=(100, 4)), da.from_array(names, chunks=100))
    assert lazy.classes_.tolist() == ["fine", "fraud"]
    assert set(lazy.predict(da.from_array(X, chunks=(100, 4))).compute()) == {"fine", "fraud"}
    tensors = TauFPLRanker(0.1, 0.1, pos_label="fine").fit(tensor(X), names)
    assert tensors.classes_.tolist() == ["fraud", "fine"]
    assert isinstance(tensors.predict(tensor(X)), np.ndarray)


def test_whole_numbers_and_followed_tensors():
    rows = tensor(np.round(4 * X).astype(np.int32))
    expected = TauFPLRanker(0.1, 0.1, tol=1e-8).fit(np.round(4 * X), Y)
    found = TauFPLRanker(0.1, 0.1, tol=1e-8).fit(rows, Y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3)
    torch = pytest.importorskip("torch")
    followed = torch.asarray(X).requires_grad_()
    assert not TauFPLRanker(0.1, 0.1).fit(followed, Y).decision_function(followed).requires_grad


FOLLOWS = """
import pickle
import numpy as np, sklearn, torch
from sklearn.utils._array_api import move_estimator_to
import backend_cases as cases
from taufpl import TauFPLClassifier, TauFPLRanker

X, Y = cases.rows()
rows = torch.asarray(X, dtype=torch.float32)
sklearn.set_config(array_api_dispatch=True)
for model in TauFPLRanker(0.1, 0.1), TauFPLClassifier(0.1, reg=0.1, threshold="np", random_state=0):
    model.fit(rows, torch.asarray(Y))
    assert isinstance(model.coef_, torch.Tensor) and model.coef_.shape == (1, 4)
    assert isinstance(model.intercept_, torch.Tensor)
    assert isinstance(model.decision_function(rows), torch.Tensor)
    assert model.score(rows, torch.asarray(Y)) > 0.8
    # More than scikit-learn asks for: rows of any other form.
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(rows).numpy(), atol=1e-12)
    assert isinstance(move_estimator_to(model, np, "cpu").coef_, np.ndarray)
    assert pickle.loads(pickle.dumps(model)).predict(X).shape == (600,)
model.recalibrate(X, Y)
assert isinstance(model.intercept_, torch.Tensor) and isinstance(model.thresholds_, torch.Tensor)
"""


def test_arrays_follow_x_where_scikit_learn_is_told_so():
    """In a process of its own: SciPy wants to know before it is imported."""
    pytest.importorskip("torch")
    assert isinstance(TauFPLRanker(0.1, 0.1).fit(tensor(X), Y).coef_, np.ndarray)
    places = os.pathsep.join(sys.path)
    settings = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": places}
    done = subprocess.run([sys.executable, "-c", FOLLOWS], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# What a fit leaves behind, and what it does where it cannot go as hoped.


def test_progress():
    seen = []
    ranker = TauFPLRanker(0.1, 0.1, callback=seen.append).fit(da.from_array(X, chunks=(100, 4)), Y)
    assert seen == list(ranker.history_)
    assert all(later.n_rounds >= earlier.n_rounds > 0 for earlier, later in pairwise(seen))
    assert seen[-1].gap == pytest.approx(ranker.dual_gap_)
    assert ranker.n_passes_ > 0
    assert TauFPLRanker(0.1, 0.1).fit(X, Y).history_[-1].n_rounds == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_blocks_are_released_whatever_happens(error, monkeypatch):
    made, released = [], []
    original = LocalBlocks.__init__

    def note(self, *args, **kwargs):
        made.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(LocalBlocks, "__init__", note)
    monkeypatch.setattr(LocalBlocks, "release", lambda self: released.append(self))

    def stop(record):
        raise error

    with pytest.raises(error):
        TauFPLRanker(0.1, 0.1, callback=stop).fit(da.from_array(X, chunks=(100, 4)), Y)
    assert len(made) > 1
    assert set(map(id, released)) == set(map(id, made))


def test_a_collapse_is_certain_and_said():
    """The mean positive is the mean of the negatives: no direction helps, whatever reg."""
    rng = np.random.default_rng(0)
    negatives = rng.normal(size=(200, 3))
    rows = np.vstack((negatives, negatives.mean(axis=0) + 1e-3 * (negatives[:20] - negatives[:20].mean(axis=0))))
    y = np.repeat([0, 1], [200, 20])
    for reg in (0.1, 1e4):
        with pytest.warns(RankingCollapseWarning, match="found nothing better than w = 0"):
            ranker = TauFPLRanker(0.05, reg).fit(tensor(rows), y)
        assert ranker.collapsed_
        assert not ranker.coef_.any()
        assert not gathered(ranker.predict(tensor(rows))).any()


@pytest.mark.parametrize("reg", [1e3, 1e6, 1e12])
def test_a_large_penalty_keeps_the_direction(reg):
    expected, found = (TauFPLRanker(0.1, reg).fit(rows, Y) for rows in (X, tensor(X)))
    assert not found.collapsed_
    cosine = expected.coef_[0] @ found.coef_[0] / np.linalg.norm(expected.coef_) / np.linalg.norm(found.coef_)
    assert cosine > 0.99
    assert np.linalg.norm(found.coef_) == pytest.approx(np.linalg.norm(expected.coef_), rel=0.1)
    judged = cases.primal(cases.problem(X, Y, 0.1, reg), found.coef_[0])
    assert found.primal_objective_ == pytest.approx(judged, rel=1e-12)
    assert found.dual_objective_ <= judged


def test_the_page_on_gpus():
    """Its code runs, on whatever device there is."""
    torch = pytest.importorskip("torch")
    page = Path(__file__).parents[3].joinpath("docs", "howto", "gpu.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(code if torch.cuda.is_available() else code.replace("cuda", "cpu"), {})


def test_what_is_fitted_elsewhere_can_be_saved(tmp_path):
    pytest.importorskip("skops")
    model = TauFPLClassifier(0.1, threshold="np", random_state=0, **PAPER).fit(da.from_array(X, chunks=(100, 4)), Y)
    save_model(model, tmp_path / "screen.skops")
    loaded = load_model(tmp_path / "screen.skops").model
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.history_[-1].n_rounds == model.history_[-1].n_rounds > 0
