"""Boosting of XGBoost and LightGBM on a cluster: it sees what it should, and its threshold is that of its scores."""

import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

pytest.importorskip("distributed")
pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

import dask.array as da
import dask.dataframe as dd
import pandas as pd
from lightgbm import DaskLGBMClassifier, LGBMClassifier
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from xgboost import XGBClassifier
from xgboost.dask import DaskXGBClassifier

from dask_cases import await_two_workers, client_of, tasks_left
from taufpl import NeymanPearsonClassifier, ScreeningClassifier
from taufpl.estimators import EFFORTS
from taufpl.exceptions import LostWorkerError
from taufpl.persistence import load_model, save_model
from taufpl.thresholding import HeldOut, OutOfBootstrap

TAU, DELTA = 0.05, 0.1
XGB = {"n_estimators": 15, "max_depth": 3, "random_state": 0}
LGBM = {"n_estimators": 15, "num_leaves": 7, "random_state": 0, "verbose": -1}
MODELS = {
    "xgboost": (DaskXGBClassifier(**XGB), XGBClassifier(**XGB)),
    "lightgbm": (DaskLGBMClassifier(**LGBM), LGBMClassifier(**LGBM)),
}


@pytest.fixture(scope="module")
def client(cluster):
    with client_of(cluster) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr("taufpl.operators.remote._dask_chunks._LEAST_BYTES", 1)  # small blocks, on both workers
        yield made


@pytest.fixture(params=["xgboost", pytest.param("lightgbm", marks=pytest.mark.slow)])
def pair(request):
    """A classifier for clusters, and the same for rows in memory."""
    return MODELS[request.param]


def rows(n_rows=3000, seed=0):
    """Rows that no linear function ranks well, negatives first: a worker has positives only."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.random(n_rows) < 0.6).astype(int)
    X = rng.normal(size=(n_rows, 4))
    X[:, 1] *= 1 + 3 * y
    X[:, 2] += y
    return X, y


def chunked(X, size=1000):
    return da.from_array(X, chunks=(size, *X.shape[1:]))


def screen(model, **options):
    settings = {"threshold": HeldOut(measure_recall=False), "delta": DELTA, "random_state": 0, **options}
    return NeymanPearsonClassifier(model, TAU, **settings)


def order_statistic(scores):
    """The smallest score with at most delta of a chance that the tolerance is exceeded, by the binomial law."""
    n_scores = scores.size
    rank = next(r for r in range(1, n_scores + 1) if stats.binom.sf(r - 1, n_scores, 1 - TAU) <= DELTA)
    return rank, np.sort(scores)[rank - 1]


def seen_by(kind, monkeypatch):
    """Rows that a classifier is fitted on, as they are handed to its own `fit`."""
    seen, fit = [], kind.fit

    def recorded(self, X, y, **options):
        assert not options or options["sample_weight"].compute().min() == 0
        kept = options["sample_weight"].compute() > 0 if options else slice(None)
        seen.append((np.asarray(X.compute())[kept], y.compute()[kept]))
        return fit(self, X, y, **options)

    monkeypatch.setattr(kind, "fit", recorded)
    return seen


# Before any test that makes a client current.
def test_what_needs_a_cluster_says_so(pair):
    model, local = pair
    X, y = rows(200)
    with pytest.raises(TypeError, match=f"Take {type(local).__name__} for it"):
        screen(model).fit(X, y)
    with pytest.raises(TypeError, match="cannot be fitted on remote rows"):
        screen(local).fit(chunked(X), y)
    with pytest.raises(ValueError, match=r"no current client .* distributed.Client\(\)"):
        screen(model).fit(chunked(X), y)


def test_held_out_negatives_are_not_seen_and_choose_the_threshold(client, pair, monkeypatch):
    model, local = pair
    X, y = rows()
    seen = seen_by(type(model), monkeypatch)
    names = np.array(["spam", "ham"])[y]  # positives come first in sorted order
    found = screen(model, pos_label="ham").fit(chunked(X), names)
    ((fitted_X, fitted_y),) = seen
    is_seen = np.isin(X[:, 0], fitted_X[:, 0])
    np.testing.assert_array_equal(np.sort(fitted_X[:, 0]), np.sort(X[is_seen, 0]))
    np.testing.assert_array_equal(y[is_seen][np.argsort(X[is_seen, 0])], fitted_y[np.argsort(fitted_X[:, 0])])
    assert is_seen[y == 1].all()
    held_out = X[~is_seen]
    assert len(held_out) == found.evidence_.n_negative
    assert type(found.estimator_) is type(local)
    scores = found.decision_function(held_out) + found.threshold_
    rank, threshold = order_statistic(scores)
    assert found.evidence_.rank == rank
    assert found.threshold_ == pytest.approx(threshold, rel=1e-12)
    assert found.evidence_.guaranteed
    labels = found.predict(chunked(X)).compute()
    np.testing.assert_array_equal(labels, found.predict(X))
    assert set(labels) == {"ham", "spam"}
    assert tasks_left(client) == []


@pytest.mark.slow
def test_the_recall_is_that_of_the_same_boosting_in_memory(client, pair):
    model, local = pair
    X, y = rows(seed=5)
    new_X, new_y = rows(20_000, seed=1)
    recalls = []
    for estimator, data, labels in ((model, chunked(X), chunked(y)), (local, X, y)):
        found = screen(estimator, threshold="cross", cv=2).fit(data, labels)
        alarms = found.predict(new_X) == 1
        assert alarms[new_y == 0].mean() <= TAU
        recalls.append(alarms[new_y == 1].mean())
        assert found.evidence_.tpr_estimate == pytest.approx(recalls[-1], abs=0.05)
    assert recalls[0] == pytest.approx(recalls[1], abs=0.04)
    assert recalls[0] > 0.5  # a linear ranking finds half of that


@pytest.mark.slow
def test_frames_keep_names_and_missing_values(client, pair, tmp_path):
    model, local = pair
    X, y = rows()
    X[::7, 3] = np.nan
    frame = pd.DataFrame(X, columns=list("abcd"))
    found = screen(model, threshold="np", cv=2).fit(dd.from_pandas(frame, npartitions=5), pd.Series(y))
    assert list(found.feature_names_in_) == list("abcd")
    assert 0.3 < found.evidence_.tpr_estimate < 1
    expected = found.decision_function(dd.from_pandas(frame, npartitions=3)).compute()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).decision_function(frame), expected)
    save_model(found, tmp_path / "screen.skops")
    loaded = load_model(tmp_path / "screen.skops").model
    np.testing.assert_array_equal(loaded.decision_function(frame), expected)
    assert type(loaded.estimator) is type(local)  # which is fitted where there is no cluster


@pytest.mark.slow
def test_sparse_chunks_and_rounds(client, pair):
    model, _ = pair
    X, y = rows()
    X[np.abs(X) < 0.3] = 0.0
    chunks = chunked(X).map_blocks(sparse.csr_matrix, dtype=float)
    found = screen(model, threshold=OutOfBootstrap(n_rounds=2)).fit(chunks, y)
    assert len(found.estimators_) == 2
    scores = found.decision_function(sparse.csr_matrix(X))
    assert np.mean(scores[y == 1] > 0) > 0.5
    np.testing.assert_array_equal(found.decision_function(chunks).compute(), scores)


@pytest.mark.filterwarnings("ignore:Parameter n_jobs will be ignored")
@pytest.mark.parametrize(("name", "wrap"), [("xgboost", lambda model: model), ("lightgbm", FrozenEstimator)])
def test_a_fitted_classifier_gets_a_threshold_where_fresh_rows_are(client, name, wrap):
    model, _ = MODELS[name]
    X, y = rows()
    order = np.random.default_rng(0).permutation(len(y))  # LightGBM itself wants both classes on each worker
    fitted = type(model)(**model.get_params()).fit(chunked(X[order]), chunked(y[order]))
    fresh_X, fresh_y = rows(seed=2)
    lazy = dd.from_pandas(pd.DataFrame(fresh_X), npartitions=3).to_dask_array()  # chunks of unknown sizes
    found = screen(wrap(fitted), cv="prefit").fit(lazy, fresh_y)
    scores = found.decision_function(fresh_X[fresh_y == 0]) + found.threshold_
    rank, threshold = order_statistic(scores)
    assert found.evidence_.rank == rank
    assert found.threshold_ == pytest.approx(threshold, rel=1e-12)
    assert found.recalibrate(X[y == 0]).evidence_.n_negative == np.sum(y == 0)


class Rows(TransformerMixin, BaseEstimator):
    """Keeps nothing of a fit, which scikit-learn takes for none."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline("passthrough", Rows(), model),
        lambda model: make_pipeline(GridSearchCV(make_pipeline(Rows(), model), {}, cv=2)),
        lambda model: FrozenEstimator(make_pipeline(Rows(), model)),
    ],
    ids=["alone", "pipeline", "search", "frozen"],
)
def test_probabilities_of_xgboost_are_told_apart_beyond_single_precision(wrap):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X[:, 0] > 0).astype(int)
    model = XGBClassifier(n_estimators=300, learning_rate=0.3, colsample_bytree=0.4, min_child_weight=0.0).fit(X, y)
    margins = model.predict(X, output_margin=True)
    found = NeymanPearsonClassifier(wrap(model).fit(X, y), 0.1, cv="prefit").fit(X, y)
    scores = found.decision_function(X) + found.threshold_
    assert np.unique(scores).size == np.unique(margins).size > np.unique(model.predict_proba(X)[:, 1]).size
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-margins.astype(float))), rtol=1e-12)


def test_rows_on_a_device_stay_there(monkeypatch):
    """Tensors of the host stand in for those of a device, and NumPy's view of their memory for CuPy's."""
    torch = pytest.importorskip("torch")
    X, y = rows()

    def refuse(X):
        raise AssertionError("rows were copied to the host")

    for place in ("operators.remote", "operators.remote._as_blocks", "estimators.remote._learners"):
        monkeypatch.setattr(f"taufpl.{place}.on_cuda", lambda X: True)
        monkeypatch.setattr(f"taufpl.{place}.device_rows", lambda X: X.numpy())
    monkeypatch.setattr("taufpl.operators.remote._as_blocks.rows_on_host", refuse)
    tensor = torch.from_numpy(X.astype(np.float32))
    found = screen(XGBClassifier(**XGB)).fit(tensor, y)
    scores = found.decision_function(tensor)
    assert scores.dtype == torch.float64
    np.testing.assert_array_equal(scores.numpy(), found.decision_function(X.astype(np.float32)))
    # Some of the negatives were held out, and the threshold is one of their scores.
    negative = scores.numpy()[y == 0] + found.threshold_
    assert np.abs(negative - found.threshold_).min() < 1e-12
    assert 0 < found.evidence_.n_negative < np.sum(y == 0)


@pytest.mark.slow
def test_the_stack_on_a_cluster_is_the_mean_of_standardised_log_odds(client, tmp_path, monkeypatch):
    monkeypatch.setitem(EFFORTS, "fast", replace(EFFORTS["fast"], n_rounds=15, learning_rate=0.3))
    X, y = rows(seed=5)
    new_X, new_y = rows(20_000, seed=1)
    settings = {"effort": "fast", "delta": DELTA, "threshold": "np", "cv": 2, "random_state": 0}
    found = ScreeningClassifier(TAU, **settings).fit(chunked(X), y)
    members = found.estimator_.members_
    assert [type(each.models[0]) for each in members] == [LGBMClassifier, XGBClassifier]
    assert list(found.leaderboard_["weight"]) == [1.0, 0.5, 0.5]
    assert "not measured" in repr(found)
    raw = [members[0].models[0].predict(new_X, raw_score=True), members[1].models[0].predict(new_X, output_margin=True)]
    standard = [(own.astype(float) - each.centers[0]) / each.scales[0] for own, each in zip(raw, members, strict=True)]
    scores = found.decision_function(new_X)
    np.testing.assert_allclose(scores + found.threshold_, np.mean(standard, axis=0), atol=1e-12)
    np.testing.assert_array_equal(found.decision_function(chunked(new_X, 7000)).compute(), scores)
    in_memory = ScreeningClassifier(TAU, candidates=["lightgbm", "xgboost"], **settings).fit(X, y).predict(new_X) == 1
    alarms = scores > 0
    assert found.evidence_.guaranteed
    assert alarms[new_y == 0].mean() <= TAU
    assert alarms[new_y == 1].mean() == pytest.approx(in_memory[new_y == 1].mean(), abs=0.04)
    assert found.evidence_.tpr_estimate == pytest.approx(alarms[new_y == 1].mean(), abs=0.05)
    save_model(found, tmp_path / "screen.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "screen.skops").model.decision_function(new_X), scores)


@pytest.mark.parametrize("candidates", [["forest"], [HistGradientBoostingClassifier()]])
def test_candidates_that_do_not_learn_on_a_cluster_are_refused(client, candidates):
    X, y = rows(200)
    with pytest.raises(TypeError, match=r"cannot learn from Dask collections.*'lightgbm' or 'xgboost'"):
        ScreeningClassifier(candidates=candidates).fit(chunked(X), y)


def test_no_library_for_a_cluster_is_an_error_that_names_the_extra(client, monkeypatch):
    X, y = rows(200)
    for name in ("lightgbm", "xgboost"):
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    with pytest.raises(ImportError, match=r"taufpl\[boost\]"):
        ScreeningClassifier().fit(chunked(X), y)


def test_texts_are_refused_by_name(client):
    X, y = rows(200)
    frame = dd.from_pandas(pd.DataFrame({"number": X[:, 0], "city": "oslo"}), npartitions=2)
    for model in (ScreeningClassifier(), screen(DaskXGBClassifier())):
        with pytest.raises(TypeError, match=r"Every column of X must hold numbers.*'city'"):
            model.fit(frame, y)


@pytest.mark.parametrize(
    ("labels", "options", "fit_options", "error", "message"),
    [
        (np.zeros(3000, dtype=int), {}, {}, ValueError, "one class only"),
        (None, {"delta": 1e-60}, {}, ValueError, "needs at least"),
        (None, {}, {"groups": np.arange(3000)}, ValueError, "groups is for rows in memory"),
        (None, {}, {"order": np.arange(3000)}, ValueError, "order is for rows in memory"),
        (None, {}, {"sample_weight": np.ones(3000)}, ValueError, "no parameters of fit"),
    ],
)
def test_refusals(client, labels, options, fit_options, error, message):
    X, y = rows()
    with pytest.raises(error, match=message):
        screen(DaskXGBClassifier(), **options).fit(chunked(X), y if labels is None else labels, **fit_options)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed by a signal")
@pytest.mark.slow
def test_a_killed_worker_is_named_in_the_error(client, pair):
    """XGBoost gives up by itself; LightGBM would wait for ever, and its other worker with it."""
    model = type(pair[0])(**{**pair[0].get_params(), "n_estimators": 100_000})
    X, y = rows(20_000)

    def kill_one():
        while not any(str(key).startswith(("fn-", "_train_part-")) for key in list(client.futures)):
            time.sleep(0.1)
        time.sleep(1.0)
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)

    killer, start = threading.Thread(target=kill_one), time.monotonic()
    killer.start()
    with pytest.raises(LostWorkerError, match=r"lost tcp://.*Fit again.*client\.restart"):
        screen(model).fit(chunked(X, 2500), y)
    killer.join()
    assert time.monotonic() - start < 60
    assert tasks_left(client) == []
    client.restart()
    await_two_workers(client)
