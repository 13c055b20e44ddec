"""Estimators on remote rows: what is refused, in words, and what comes into memory instead."""

from functools import partial

import dask
import dask.array as da
import dask.bag as bag
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import backend_cases as cases
from backend_cases import gathered, tensor
from taufpl import (
    KernelTauFPLClassifier,
    KernelTauFPLRanker,
    NeymanPearsonClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
)
from taufpl.baselines import BiasShiftedSVM, CostSensitiveSVM, PartialAUCSVM, RankSVM

X, Y = cases.rows()
PAPER = {"ranking": "paper", "reg": 0.1, "tau_scale": 1.0}


def bad_value(X, value):
    rows = X.copy()
    rows[123, 2] = value
    return rows


def bad_pair(X, value):
    """Two large numbers that add up to nothing."""
    rows = bad_value(X, value)
    rows[123, 1] = -value
    return rows


@pytest.mark.parametrize("wrap", [partial(da.from_array, chunks=100), tensor], ids=["dask", "torch"])
@pytest.mark.parametrize(
    ("model", "data", "labels", "error", "message"),
    [
        (TauFPLRanker(solver="accelerated"), X, Y, ValueError, "solver must be 'newton' for remote rows"),
        (TauFPLRanker(positive_share=0.5), X, Y, ValueError, "positive_share must be 1 for remote rows"),
        (TauFPLRankerCV(positive_share="cv"), X, Y, ValueError, "positive_share must be 1"),
        (TauFPLRankerCV(cv=[(0, 1)]), X, Y, TypeError, "cv must be a number of folds"),
        (TauFPLRanker(), bad_value(X, np.nan), Y, ValueError, "NaN or infinity in 1 of 600 rows .*row 123"),
        (TauFPLRanker(), bad_value(X, np.inf), Y, ValueError, "NaN or infinity in 1 of 600 rows .*row 123"),
        (TauFPLRanker(), bad_value(X, 1e160), Y, ValueError, "beyond 1e.150 in 1 of 600 .*row 123. Scale the features"),
        (TauFPLRanker(), bad_pair(X, 1e300), Y, ValueError, "beyond 1e.150 in 1 of 600 .*row 123. Scale the features"),
        (TauFPLRanker(), X, np.zeros(600), ValueError, "got one class only, 0.0, in 600 rows"),
        (TauFPLRanker(), X, np.arange(600) % 3, ValueError, "Only binary classification is supported"),
        (TauFPLRanker(), X, np.linspace(0, 1, 600), ValueError, "Unknown label type: continuous"),
        (TauFPLRanker(pos_label=7), X, Y, ValueError, r"pos_label must be one of the labels in y, \[0, 1\]; got 7"),
        (TauFPLRanker(), X, Y[:-1], ValueError, "599"),
        (TauFPLRanker(), X[:0], Y[:0], ValueError, "Found array with 0 sample"),
        (TauFPLRanker(), X, None, ValueError, "y must hold the labels"),
        (TauFPLRanker(), X[:, 0], Y, ValueError, "Expected 2D array, got 1D array instead"),
        (TauFPLClassifier(0.001, threshold="np", **PAPER), X, Y, ValueError, "needs at least 2,995 negatives held out"),
        (
            NeymanPearsonClassifier(TauFPLRanker(pos_label=0), pos_label=1),
            X,
            Y,
            ValueError,
            "Give the same pos_label to both",
        ),
    ],
)
def test_what_is_refused(wrap, model, data, labels, error, message):
    with pytest.raises(error, match=message):
        clone(model).fit(wrap(data), labels)


@pytest.mark.parametrize("collection", [dask.delayed(X), bag.from_sequence(X.tolist())], ids=["delayed", "bag"])
def test_collections_of_unknown_shape_are_refused(collection):
    message = "must be a dask array .*, got (Delayed|Bag).*from_delayed"
    ranker, scorer = TauFPLRanker(0.1, 0.1).fit(X, Y), LogisticRegression().fit(X, Y)
    calls = (
        partial(TauFPLRanker().fit, collection, Y),
        partial(TauFPLRanker().fit, da.from_array(X, chunks=(200, 4)), collection),
        partial(ranker.predict, collection),
        partial(NeymanPearsonClassifier(ranker, cv="prefit").fit, collection, Y),
        partial(NeymanPearsonClassifier(scorer, cv="prefit").fit, collection, Y),
    )
    for call in calls:
        with pytest.raises(TypeError, match=message):
            call()


IN_MEMORY = [
    KernelTauFPLRanker(0.1, reg=0.1, random_state=0),
    KernelTauFPLClassifier(0.1, gamma=0.5, reg=0.1, threshold="train", random_state=0),
    RankSVM(0.1),
    PartialAUCSVM(0.1, 0.1),
    BiasShiftedSVM(0.1, 0.1),
    CostSensitiveSVM(reg=0.1),
]


@pytest.mark.parametrize("model", IN_MEMORY, ids=lambda model: type(model).__name__)
def test_collections_are_not_pulled_into_memory(model):
    lazy = da.from_array(X, chunks=(100, 4))
    with cases.nothing_computed():
        with pytest.raises(TypeError, match=rf"{type(model).__name__} needs rows in memory.*give X.compute\(\)"):
            clone(model).fit(lazy, Y)
        if model in IN_MEMORY[:2]:
            fitted = clone(model).fit(X, Y)
            with pytest.raises(TypeError, match="needs rows in memory"):
                fitted.predict(lazy)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize("model", [*IN_MEMORY, NeymanPearsonClassifier(LogisticRegression(), 0.1, random_state=0)])
@pytest.mark.parametrize("form", ["followed", "bfloat16", "csr", "array_api_strict"])
def test_tensors_of_every_form_come_into_memory(model, form, tmp_path):
    torch = pytest.importorskip("torch")
    whole = np.round(2 * X)
    if form == "array_api_strict":
        rows, labels = cases.ELSEWHERE[form](whole, Y, tmp_path)
    else:
        make = {"followed": "requires_grad_", "bfloat16": "bfloat16", "csr": "to_sparse_csr"}[form]
        rows = getattr(torch.asarray(whole), make)()
        labels = torch.asarray(Y, dtype=torch.float64).requires_grad_()
    expected, found = clone(model).fit(whole, Y), clone(model).fit(rows, labels)
    scores = gathered(found.decision_function(rows))
    np.testing.assert_allclose(scores, expected.decision_function(whole), rtol=1e-6, atol=1e-6)


def test_others_scorers_must_come_fitted():
    with pytest.raises(TypeError, match=r"LogisticRegression cannot be fitted on remote rows.*cv='prefit'"):
        NeymanPearsonClassifier(LogisticRegression()).fit(da.from_array(X, chunks=(100, 4)), Y)


def test_columns_are_compared_before_anything_is_computed():
    ranker = TauFPLRanker(0.1, 0.1).fit(X, Y)
    with cases.nothing_computed(), pytest.raises(ValueError, match="X has 3 features, but TauFPLRanker is expecting 4"):
        ranker.decision_function(da.from_array(X[:, :3], chunks=(100, 3)))
    with pytest.raises(ValueError, match="X has 3 features, but TauFPLRanker is expecting 4"):
        ranker.predict(tensor(X[:, :3]))


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_sparse_tensors_in_other_formats_are_refused():
    torch = pytest.importorskip("torch")
    rows = torch.asarray(X)
    with pytest.raises(TypeError, match=r"in CSR format, got torch.sparse_coo: X.to_sparse_csr\(\) makes it"):
        TauFPLRanker(0.1, 0.1).fit(rows.to_sparse(), Y)
