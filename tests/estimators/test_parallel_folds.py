"""Folds side by side: linear fits in threads that share the rows, scorers of any kind in processes."""

import os
import threading
import warnings

import numpy as np
import pytest

from taufpl import TauFPLClassifier, TauFPLRankerCV
from taufpl.estimators import ArrayTable, split_labels
from taufpl.operators import as_operator, n_threads, thread_limit


def clouds(n=900, d=5):
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.2).astype(int)
    return rng.normal(size=(n, d)) + y[:, np.newaxis], y


X, Y = clouds()
LABELS = split_labels(Y)


def table(operator, n_jobs=2):
    return ArrayTable(X, LABELS.positive_rows, LABELS.negative_rows, operator=operator, n_jobs=n_jobs)


def wide(n_columns, n_jobs=2):
    """A table of a hundred rows of zeros, whose memory is never touched."""
    rows, operator = np.arange(100), as_operator(np.zeros((100, n_columns)))
    return ArrayTable(None, rows[:30], rows[30:], operator=operator, n_jobs=n_jobs)


def place(train, held_out):
    return os.getpid(), threading.current_thread() is threading.main_thread()


def test_linear_fits_share_the_process():
    here = os.getpid()
    assert set(table(as_operator(X)).split(4).map(place)) == {(here, False)}
    assert set(table(as_operator(X), n_jobs=1).split(4).map(place)) == {(here, True)}


def test_few_values_take_turns(monkeypatch):
    """Threads would wait for the interpreter; with millions of values they would not."""
    monkeypatch.undo()  # what lets small tables have threads
    here = os.getpid()
    assert set(wide(1_000).split(4).map(place)) == {(here, True)}
    assert set(wide(50_000).split(4).map(place)) == {(here, False)}


def test_by_default_folds_take_the_threads_of_products():
    """One at a time where there is one thread, or where X is so large that copies side by side would not fit."""

    def are_side_by_side(limit, n_columns):
        with thread_limit(limit):
            return [not is_main for _, is_main in wide(n_columns, n_jobs=None).split(2).map(place)]

    assert are_side_by_side(2, 50_000) == [True, True]
    assert are_side_by_side(1, 50_000) == [False, False]
    assert are_side_by_side(2, 500_000) == [False, False]


@pytest.mark.slow
def test_other_fits_have_processes_of_their_own():
    assert os.getpid() not in {pid for pid, _ in table(None).split(4).map(place)}


def test_side_by_side_each_has_its_share_of_the_threads():
    together = threading.Barrier(2, timeout=60)

    def count(train, held_out):
        together.wait()
        own = n_threads()
        together.wait()
        return own

    with thread_limit(6):
        assert list(table(as_operator(X)).split(2).map(count)) == [3, 3]
        assert n_threads() == 6


def test_passes_of_folds_are_counted_apart():
    both = [TauFPLRankerCV(0.1, 3, 4, n_jobs=n_jobs).fit(X, Y).cv_results_["mean_n_passes"] for n_jobs in (1, 2)]
    np.testing.assert_allclose(*both)


@pytest.mark.filterwarnings("default")
def test_filters_of_warnings_are_as_before():
    """Wide rows, where folds silence scikit-learn, in more threads than there are cores."""
    many = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 70))])
    before = list(warnings.filters)
    TauFPLClassifier(0.1, threshold="cross", cv=4, n_jobs=4, random_state=0).fit(many, Y)
    assert warnings.filters == before


def test_an_error_of_a_fold_is_raised():
    def fail(train, held_out):
        raise RuntimeError("a fold failed")

    with pytest.raises(RuntimeError, match="a fold failed"):
        list(table(as_operator(X)).split(2).map(fail))


@pytest.mark.parametrize("threshold", ["np", "cross"])
def test_automatic_rankings_are_the_same_for_any_number_of_jobs(threshold):
    rng = np.random.default_rng(0)
    y = (rng.random(4500) < 0.1).astype(int)  # too many rows for a second division into folds
    rows = rng.normal(size=(y.size, 8)) + 0.7 * y[:, np.newaxis]
    alone, *others = (
        TauFPLClassifier(0.05, threshold=threshold, n_jobs=n_jobs, random_state=0).fit(rows, y) for n_jobs in (1, 2, 4)
    )
    assert len(alone.selection_["candidate"]) == 18
    for other in others:
        np.testing.assert_array_equal(other.coef_, alone.coef_)
        assert other.threshold_ == alone.threshold_
        assert other.selection_["candidate"] == alone.selection_["candidate"]
        np.testing.assert_array_equal(other.selection_["std_share"], alone.selection_["std_share"])
