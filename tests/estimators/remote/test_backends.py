"""Every estimator on every form of the same rows: one optimum, one meaning of thresholds, scores where the rows are."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone

import backend_cases as cases
from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker, TauFPLRankerCV
from taufpl.baselines import TopPush
from taufpl.solvers import Newton
from taufpl.thresholding import OutOfBootstrap

TAU, REG, TOL = 0.1, 0.1, 1e-6
X, Y = cases.rows()
NEW, _ = cases.rows(seed=1)
PAPER = {"ranking": "paper", "reg": REG, "tau_scale": 1.0, "tol": TOL, "cv": 2, "random_state": 0}
ESTIMATORS = {
    "ranker": TauFPLRanker(TAU, REG, tol=TOL),
    "ranker cv": TauFPLRankerCV(TAU, regs=[1.0, 0.1], cv=2, max_extensions=0, tol=TOL, cv_tol=1e-7),
    "np": TauFPLClassifier(TAU, threshold="np", **PAPER),
    "cross": TauFPLClassifier(TAU, threshold="cross", **PAPER),
    "oob": TauFPLClassifier(TAU, threshold=OutOfBootstrap(n_rounds=2), delta=None, **PAPER),
    "train": TauFPLClassifier(TAU, threshold="train", **PAPER),
    "np of a ranker": NeymanPearsonClassifier(TauFPLRanker(TAU, REG, tol=TOL), TAU, random_state=0),
    "top push": TopPush(REG, tol=TOL),
}
# What is fitted on all rows, so that its objective is that of the same problem in memory.
ON_ALL_ROWS = ("ranker", "ranker cv", "cross", "oob", "train", "top push")


@pytest.fixture(scope="module")
def client(cluster):
    with pytest.importorskip("distributed").Client(cluster, set_as_default=False) as made:
        yield made


@contextmanager
def made_ready(form, request):
    """With a cluster around it, where the form asks for one."""
    if form == "dask cluster":
        with request.getfixturevalue("client").as_current():
            yield
    else:
        yield


def marks(form, name="ranker"):
    """Of forms that share a way, those that divide rows and those that do not are one each in the quick run."""
    has_all = form in ("numpy", "dask threads", "torch float32", "array_api_strict")
    is_slow = not has_all and name not in ("ranker", "np")
    return [pytest.mark.cluster] * (form == "dask cluster") + [pytest.mark.slow] * is_slow


@pytest.fixture(params=[pytest.param(form, marks=marks(form)) for form in cases.BACKENDS])
def backend(request, tmp_path):
    """The name of a form, and a function that brings rows and labels into it."""
    with made_ready(request.param, request):
        yield request.param, lambda X, y: cases.BACKENDS[request.param](X, y, tmp_path)


@pytest.fixture(scope="module")
def in_memory():
    return {name: clone(estimator).fit(X, Y) for name, estimator in ESTIMATORS.items()}


@pytest.fixture(scope="module")
def optima():
    """The least objective for each k and reg, to far more digits than are asked of a backend."""
    found = {}

    def optimum(tau, reg):
        if (tau, reg) not in found:
            judge = cases.problem(X, Y, tau, reg)
            found[tau, reg] = Newton(tol=1e-10).solve(judge).dual
        return found[tau, reg]

    return optimum


@pytest.mark.filterwarnings("ignore:X has feature names, but:UserWarning")
@pytest.mark.parametrize(
    ("backend", "name"),
    [pytest.param(form, name, marks=marks(form, name)) for form in cases.BACKENDS for name in ESTIMATORS],
    indirect=["backend"],
)
def test_same_optimum_same_meaning(backend, name, in_memory, optima):
    form, convert = backend
    data, labels = convert(X, Y)
    model = clone(ESTIMATORS[name]).fit(data, labels)
    decisions = cases.gathered(model.decision_function(data))
    check_objective(name, model, optima)
    check_search(model, in_memory[name])
    check_threshold(name, model, decisions)
    check_where_scores_are(form, model, data, decisions)
    check_other_forms(form, convert, model, in_memory[name])


def check_objective(name, model, optima):
    if name not in ON_ALL_ROWS:
        return
    reg = getattr(model, "reg_", REG)
    tau = 0.0 if name == "top push" else TAU
    best = optima(tau, reg)
    assert model.dual_gap_ <= TOL
    assert model.converged_
    assert not model.collapsed_
    # A certificate bounds the optimum from both sides, whoever computed it.
    assert model.dual_objective_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= model.primal_objective_ <= best * (1 + 2 * TOL)
    assert model.history_[-1].gap <= TOL
    if name != "oob":  # whose coefficients are a mean over rounds
        judged = cases.primal(cases.problem(X, Y, tau, reg), np.asarray(model.coef_)[0])
        np.testing.assert_allclose(judged, model.primal_objective_, rtol=1e-9)


def check_search(model, in_memory):
    """The same folds, and the same scores on them."""
    if hasattr(model, "cv_results_"):
        for name in ("param_reg", "param_tau_scale", "split0_test_score", "split1_test_score"):
            np.testing.assert_allclose(model.cv_results_[name], in_memory.cv_results_[name], atol=1e-12)
        assert model.reg_ == in_memory.reg_


def check_threshold(name, model, decisions):
    """How many of the negatives that chose it lie above the threshold."""
    n_above = int(np.sum(decisions[Y == 0] > 0))
    n = int(np.sum(Y == 0))
    if name == "top push":
        assert n_above == 0
    elif name in ("ranker", "ranker cv", "train"):
        assert n_above == int(TAU * n)
    elif name in ("np", "np of a ranker"):
        evidence = model.evidence_
        assert evidence.guaranteed
        assert evidence.n_negative == 263  # of all sizes with as many above as half of them, 270, the smallest
        assert evidence.n_false_positive == evidence.n_negative - evidence.rank
        assert evidence.n_positive == np.sum(Y == 1)
        assert 0.3 < evidence.tpr_estimate <= 1.0
    else:
        assert model.evidence_.n_negative == (n if name == "cross" else model.evidence_.n_negative)
        assert not model.evidence_.guaranteed
        assert 0.3 < model.evidence_.tpr_estimate <= 1.0


def check_where_scores_are(form, model, data, decisions):
    """Scores and labels are where the rows are, and collections are not computed."""
    if form in cases.LOCAL:
        assert isinstance(model.predict(data), np.ndarray)
        return
    if not form.startswith("dask"):
        found = model.decision_function(data), model.predict(data)
        assert all(type(each) is type(data) for each in found)
        assert all(each.device == data.device for each in found)
    else:
        with cases.nothing_computed():
            found = model.decision_function(data), model.predict(data)
        assert all(type(each).__module__.startswith("dask.array") for each in found)
        if form != "dask dataframe":
            assert all(each.chunks[0] == data.chunks[0] for each in found)
    np.testing.assert_array_equal(cases.gathered(found[1]), (decisions > 0).astype(int))


def check_other_forms(form, convert, model, in_memory):
    """A model scores rows of a form that it was not fitted on, and says the same of them."""
    new, _ = convert(NEW, Y)
    expected = in_memory.decision_function(NEW)
    found = cases.gathered(in_memory.decision_function(new))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(cases.gathered(in_memory.predict(new)), in_memory.predict(NEW))
    own = cases.gathered(model.decision_function(new))
    if form != "dask dataframe":  # whose model knows the names of its columns, and misses them
        np.testing.assert_allclose(model.decision_function(NEW), own, rtol=0, atol=1e-12)


def test_names_of_columns(tmp_path):
    frame, labels = cases.dask_frame(X, Y, tmp_path)
    ranker = TauFPLRanker(TAU, REG).fit(frame, labels)
    assert ranker.feature_names_in_.tolist() == cases.NAMES
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.decision_function(frame[cases.NAMES[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        ranker.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.predict(frame.compute())
