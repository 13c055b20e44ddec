"""Candidates of "auto" from blocks: the rankings that rows in memory have, judged and averaged by the same rules."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from block_cases import strict_array, torch_tensor
from recall_cases import TAU, partly_separable, pose
from taufpl import TauFPLClassifier
from taufpl.estimators.rankings import NegativeMoments, all_names, find_candidates
from taufpl.estimators.rankings._remote import BlockLoss, MarginLoss, Spread, find_block_candidates
from taufpl.estimators.remote import BlockTable
from taufpl.operators import LocalBlocks, as_blocks
from taufpl.operators.remote import divide
from taufpl.thresholding import share_above

STORAGES = {"numpy": np.asarray, "csr": sp.csr_array, "torch": torch_tensor, "strict": strict_array}


def table_of(X, y, convert=np.asarray, cuts=(100, 100, 420)):
    """A table of all rows in blocks, one of them empty."""
    as_mask = convert if convert is not sp.csr_array else np.asarray
    states = [
        {"number": i, "start": 0, "is_positive": as_mask(part == 1), "is_negative": as_mask(part == 0)}
        for i, part in enumerate(np.split(y, cuts))
    ]
    return BlockTable.of(LocalBlocks([convert(part) for part in np.split(X, cuts)], states, workers=1))


def cosine(a, b):
    return a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300)


def scaled_apart(seed=0):
    """Rows whose features have scales from .01 to 10, and two that always sum to 1."""
    X, y = partly_separable(seed, n=700, m=200)
    level = (X[:, :1] > 0).astype(float)
    return np.hstack((X * np.geomspace(0.01, 10, X.shape[1]), level, 1.0 - level)), y


@pytest.mark.parametrize("most_features", [1000, 3], ids=["covariance", "diagonal"])
@pytest.mark.parametrize("storage", STORAGES)
def test_losses_have_the_minimum_of_other_solvers(storage, most_features):
    X, y = scaled_apart()
    table = table_of(X, y, STORAGES[storage])
    spread = Spread.of(table, most_features)
    start = None
    for strength in (0.01, 1.0):
        start = BlockLoss(table, spread, MarginLoss("logistic")).minimise(strength, start)
        reference = LogisticRegression(C=strength, tol=1e-9, max_iter=2_000, solver="newton-cholesky").fit(X, y)
        np.testing.assert_allclose(start.coef, reference.coef_[0], rtol=2e-3, atol=5e-4)
    svm = BlockLoss(table, spread, MarginLoss("svm", (10.0, 1.0))).minimise(0.1)
    reference = LinearSVC(
        C=0.1, class_weight={0: 10.0, 1: 1.0}, dual=False, tol=1e-9, max_iter=10_000, intercept_scaling=1e3
    ).fit(X, y)
    assert cosine(svm.coef[:-2], reference.coef_[0][:-2]) > 0.9999


def test_weights_along_which_all_rows_score_the_same_stay_zero():
    X, y = scaled_apart()
    found, _ = find_block_candidates(table_of(X, y), TAU, [("logistic", 1.0), ("svm", 10.0, 0.1)])
    for coef in found.values():
        assert abs(coef[-1] + coef[-2]) <= 1e-9 * np.abs(coef).max()


def test_few_rounds_find_a_loss():
    X, y = scaled_apart()
    table = table_of(X, y)
    spread = Spread.of(table, 1000)
    rounds = table.blocks.n_rounds
    problem, start = BlockLoss(table, spread, MarginLoss("logistic")), None
    for strength in (0.01, 0.1, 1.0):
        start = problem.minimise(strength, start)
    assert table.blocks.n_rounds - rounds <= 60


@pytest.mark.parametrize("storage", STORAGES)
def test_candidates_are_those_of_rows_in_memory(storage):
    X, y = partly_separable(1, n=1500, m=400)
    found, moments = find_block_candidates(table_of(X, y, STORAGES[storage]), TAU)
    problem = pose(X, y)
    own = NegativeMoments.of(problem)
    for name in ("mean", "covariance", "variances"):
        np.testing.assert_allclose(getattr(moments, name), getattr(own, name), rtol=1e-9, atol=1e-12)
    expected = find_candidates(X, problem, own, TAU)
    assert list(found) == [name for name in all_names() if not name[0].startswith("screened ")]
    for name, coef in found.items():
        # A trimmed ranking is solved to a gap of .05 only, and depends on the way there.
        assert cosine(coef, expected[name]) > (0.9 if name[0] == "trimmed" else 0.999), name


def test_many_positives_are_sampled():
    """One in five of these comes to the caller: their ranking is near that of all, and not the same."""
    X, y = partly_separable(2, n=3000, m=90_000)
    problem, name = pose(X, y), ("normal", 0.3)
    whole = find_candidates(X, problem, NegativeMoments.of(problem), TAU, [name])[name]
    part = find_block_candidates(table_of(X, y), TAU, [name])[0][name]
    assert 0.99 < cosine(part, whole) < 1.0 - 1e-7


@pytest.mark.parametrize("form", ["dask", "torch"])
def test_the_model_is_no_weaker_than_that_of_rows_in_memory(form):
    X, y = partly_separable(3, n=3000, m=500)
    new, labels = partly_separable(4, n=20_000, m=5_000)
    convert = torch_tensor if form == "torch" else lambda rows: da.from_array(rows, chunks=(900, -1))
    shares = []
    for rows in (X, convert(X)):
        model = TauFPLClassifier(0.02, threshold="train", cv=3).fit(rows, y)
        scores = new @ model.coef_[0]
        shares.append(share_above(scores[labels == 1], scores[labels == 0], 0.02))
    assert shares[1] >= shares[0] - 0.02
    assert model.selection_["kept"].sum() >= 1
    assert np.isnan(model.dual_gap_)
    assert "logistic(1)" in model.selection_["candidate"]


@pytest.mark.slow
def test_candidates_come_from_a_cluster(cluster):
    pytest.importorskip("distributed")
    from dask_cases import client_of, tasks_left

    X, y = partly_separable(5, n=900, m=200)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    names = [("logistic", 1.0), ("normal", 0.3), ("trimmed", 2.0, 0.01)]
    with client_of(cluster) as client:
        with as_blocks(da.from_array(X, chunks=(400, -1)), y, block_bytes=1) as blocks:
            divide(blocks, 1)
            found, _ = find_block_candidates(BlockTable.of(blocks), 0.05, names)
        assert tasks_left(client) == []
    expected, _ = find_block_candidates(table_of(X, y, cuts=(400, 800)), 0.05, names)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)
