"""Newton's method over blocks, judged by the problem in memory: every value is computed anew."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from block_cases import block_problem, cuda_tensor, dual_pair, strict_array, torch_tensor
from solver_cases import QP_ERROR, make_data, make_problem, quadratic_program
from taufpl.operators.remote import LazyRows, LocalBlocks
from taufpl.problem import Loss, top_count
from taufpl.problem.remote import BlockRankingProblem
from taufpl.solvers import Newton, Status


def sparse_tensor(x):
    x = torch_tensor(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "sparse CSR tensor support is in beta state"
        return x.to_sparse_csr()


STORAGES = {
    "numpy": np.asarray,
    "csr": sp.csr_array,
    "loaded": lambda part: lambda: part,
    "torch": torch_tensor,
    "sparse torch": sparse_tensor,
    "strict": strict_array,
    "cuda": cuda_tensor,
}


def certify(problem, X, y, result):
    """The certificate in memory, from scratch; the pair must be feasible."""
    alpha, beta = dual_pair(problem)
    total = max(alpha.sum(), 1e-300)
    assert min(alpha.min(), beta.min()) >= 0
    assert abs(beta.sum() - alpha.sum()) <= 1e-12 * total
    assert beta.max() <= (1 + 1e-12) * total / problem.k
    return make_problem(X, y, problem.k, problem.reg).certify(result.coef, alpha, beta)


def assert_certified(problem, X, y, result, tol):
    certificate = certify(problem, X, y, result)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(certificate.primal, rel=1e-10)
    assert result.dual == pytest.approx(certificate.dual, rel=1e-9, abs=1e-10 * certificate.primal)
    assert certificate.gap <= tol * (1 + 1e-6) + 1e-10


@pytest.mark.parametrize(
    ("tau", "reg"),
    [
        (0.0, 1e-2),
        pytest.param(0.05, 1e-3, marks=pytest.mark.slow),
        (0.5, 1e-4),
        pytest.param(1.0, 1e-2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", list(STORAGES))
def test_certificate_holds_in_memory(storage, dtype, tau, reg):
    X, y = make_data(90, 600, 6, shift=2.0)
    X = X.astype(dtype)
    k = top_count(tau, 600)
    problem = block_problem(X, y, k, reg, ends=(200, 450), convert=STORAGES[storage])
    result = Newton(tol=1e-7).solve(problem)
    assert_certified(problem, X, y, result, 1e-7)
    expected = Newton(tol=1e-9).solve(make_problem(X, y, k, reg)).primal
    assert result.primal == pytest.approx(expected, rel=2e-7)


@pytest.mark.parametrize("reg", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("k", [1, 6, 40, 120])
def test_objective_of_an_independent_solver(k, reg):
    X, y = make_data(30, 120, 5)
    result = Newton(tol=1e-8).solve(block_problem(X, y, k, reg, ends=(0, 60, 149)))
    assert result.converged
    assert result.primal == pytest.approx(quadratic_program(X, y, k, reg), rel=1e-6, abs=QP_ERROR)


def test_blocks_of_one_class_and_empty_ones():
    X, y = make_data(60, 240, 5)
    order = np.argsort(y, kind="stable")  # the first blocks hold negatives alone
    X, y = X[order], y[order]
    problem = block_problem(X, y, 24, 1e-2, ends=(0, 100, 100, 240, 280))
    assert_certified(problem, X, y, Newton(tol=1e-7).solve(problem), 1e-7)


def test_number_of_blocks_does_not_matter():
    X, y = make_data(80, 500, 6, shift=2.5)
    values = [
        Newton(tol=1e-8).solve(block_problem(X, y, 20, 1e-3, ends=ends)).primal
        for ends in ((), (300,), tuple(range(40, 580, 40)))
    ]
    assert np.ptp(values) <= 2e-8 * values[0]


def test_rows_with_equal_scores():
    X, y = make_data(100, 900, 4)
    X = np.round(X)  # many rows are equal
    for k in (1, 30, 300):
        problem = block_problem(X, y, k, 1e-3, ends=(333,))
        assert_certified(problem, X, y, Newton(tol=1e-7).solve(problem), 1e-7)


def test_collapse_is_certified():
    """The mean positive is a mean of negatives: w = 0 is the optimum."""
    X, y = make_data(60, 600, 5, shift=0.0)
    problem = block_problem(X, y, 6, 1e-2, ends=(200,))
    result = Newton(tol=1e-6).solve(problem)
    assert_certified(problem, X, y, result, 1e-6)
    assert result.primal == pytest.approx(1.0, rel=1e-6)


def test_constant_features_and_no_signal():
    X, y = np.ones((50, 3)), np.r_[np.ones(10), -np.ones(40)]
    problem = block_problem(X, y, 4, 1e-2, ends=(25,))
    result = Newton(tol=1e-8).solve(problem)
    assert result.converged
    assert np.abs(result.coef).max() < 1e-6


@pytest.mark.parametrize("storage", ["numpy", "torch"])
def test_warm_start_costs_less(storage):
    X, y = make_data(200, 3_000, 8, shift=2.5)
    problem = block_problem(X, y, 100, 1e-3, ends=(1_000,), convert=STORAGES[storage])
    solver = Newton(tol=1e-6)
    first = solver.solve(problem)
    for k, reg in ((100, 5e-4), (90, 1e-3)):
        neighbour = problem.replace(k=k, reg=reg)
        cold = solver.solve(block_problem(X, y, k, reg, ends=(1_000,), convert=STORAGES[storage]))
        warm = solver.solve(neighbour, start=first)
        assert_certified(neighbour, X, y, warm, 1e-6)
        assert warm.n_passes < cold.n_passes
        first = solver.solve(problem, start=warm)
        assert_certified(problem, X, y, first, 1e-6)
    again = solver.solve(problem, start=first)
    assert again.n_iter <= 2


@pytest.mark.parametrize("storage", ["numpy", "torch"])
def test_coefficients_of_other_rows_are_a_start(storage):
    X, y = make_data(400, 6_000, 8, shift=2.5)
    solver, convert = Newton(tol=1e-4), STORAGES[storage]
    half = np.arange(len(y)) % 2 == 0
    other = solver.solve(block_problem(X[half], y[half], 100, 1e-3, convert=convert))
    cold = solver.solve(block_problem(X, y, 200, 1e-3, ends=(1_000,), convert=convert))
    problem = block_problem(X, y, 200, 1e-3, ends=(1_000,), convert=convert)
    warm = solver.solve(problem, start=other)
    assert_certified(problem, X, y, warm, 1e-4)
    assert warm.n_passes < cold.n_passes
    # Of whatever length, and however wrong.
    problem = block_problem(X, y, 200, 1e-3, ends=(1_000,), convert=convert)
    far = solver.solve(problem, start=replace(other, coef=-1e3 * other.coef))
    assert_certified(problem, X, y, far, 1e-4)


@pytest.mark.parametrize("storage", ["csr", "loaded", "sparse torch"])
def test_many_features_by_conjugate_gradients(storage):
    rng = np.random.default_rng(0)
    m, n, d = 500, 2_000, 2_100
    share = 1.0 / np.arange(1, d + 1) ** 0.8
    words = rng.choice(d, size=(m + n, 40), p=share / share.sum())
    X = sp.csr_array((rng.exponential(size=words.size), words.ravel(), np.arange(0, words.size + 1, 40)), (m + n, d))
    X.sum_duplicates()
    scores = X @ rng.normal(size=d) + 2 * rng.normal(size=m + n)
    y = np.where(scores >= np.sort(scores)[-m], 1, -1)
    rows = X.toarray() if storage == "sparse torch" else X
    problem = block_problem(rows, y, 200, 1e-1, ends=(700, 2_000), convert=STORAGES[storage])
    result = Newton(tol=1e-4).solve(problem)
    assert_certified(problem, X, y, result, 1e-4)


def test_rounds_and_passes_of_a_plain_problem():
    X, y = make_data(2_000, 30_000, 10, shift=3.0)
    problem = block_problem(X.astype(np.float32), y, 300, 1e-3, ends=(10_000, 20_000))
    result = Newton(tol=1e-4).solve(problem)
    assert result.converged
    assert result.n_iter <= 20
    assert result.n_rounds <= 7 * result.n_iter + 10
    assert result.n_passes <= 3 * result.n_iter + 5


def test_history_and_callback():
    X, y = make_data()
    seen = []
    result = Newton(tol=1e-6).solve(block_problem(X, y, 20, 1e-2, ends=(100,)), callback=seen.append)
    assert tuple(seen) == result.history
    assert [line.n_rounds for line in seen] == sorted(line.n_rounds for line in seen)
    assert all(later.primal <= earlier.primal for earlier, later in pairwise(seen))
    assert seen[-1].gap <= 1e-6


def test_bounds_on_the_work_end_a_run_with_a_certificate():
    X, y = make_data(60, 600, 6, shift=2.0)
    problem = block_problem(X, y, 30, 1e-4, ends=(300,))
    few_steps = Newton(tol=1e-10, max_iter=2).solve(problem)
    assert few_steps.status is Status.MAX_ITER
    certificate = certify(problem, X, y, few_steps)
    assert few_steps.gap == pytest.approx(certificate.gap, rel=1e-6)
    assert Newton(tol=1e-10, max_passes=4).solve(problem).status is Status.MAX_PASSES


def test_rows_are_read_anew_and_let_go():
    X, y = make_data(60, 300, 5)
    loads = []

    def loader(part):
        def load():
            loads.append(len(part))
            return part

        return load

    problem = block_problem(X, y, 30, 1e-2, ends=(100, 200), convert=loader)
    before = len(loads)
    result = Newton(tol=1e-6).solve(problem)
    assert_certified(problem, X, y, result, 1e-6)
    assert len(loads) - before <= 3 * 4 * (result.n_iter + 3)  # three blocks, at most four times a step
    assert all(block.rows._loaded is None for block in problem.blocks._blocks if isinstance(block.rows, LazyRows))


def test_forks_do_not_disturb_each_other():
    X, y = make_data(80, 400, 5, shift=2.0)
    problem = block_problem(X, y, 40, 1e-2, ends=(250,))
    expected = Newton(tol=1e-8).solve(problem).primal
    blocks = problem.blocks.fork(lambda block, state: {name: state[name] for name in ("positive", "is_negative")})
    other = BlockRankingProblem(blocks, 80, 400, 4, 1e-2)
    Newton(tol=1e-6).solve(other)
    alpha, _ = dual_pair(problem)
    assert alpha.sum() > 0
    assert Newton(tol=1e-8).solve(problem).primal == pytest.approx(expected, rel=1e-8)


class TestErrors:
    def test_counts_must_agree(self):
        X, y = make_data(20, 50, 3)
        good = block_problem(X, y, 5, 1e-2)
        with pytest.raises(ValueError, match="hold 20 positives and 50 negatives, expected 21 and 49"):
            Newton().solve(BlockRankingProblem(good.blocks, 21, 49, 5, 1e-2))

    @pytest.mark.parametrize(("k", "reg", "match"), [(0, 1.0, "k must"), (51, 1.0, "k must"), (5, 0.0, "reg must")])
    def test_settings(self, k, reg, match):
        X, y = make_data(20, 50, 3)
        with pytest.raises(ValueError, match=match):
            block_problem(X, y, k, reg)

    def test_both_classes_are_needed(self):
        with pytest.raises(ValueError, match="there must be positives"):
            BlockRankingProblem(LocalBlocks([np.ones((2, 2))], [{}]), 0, 2, 1, 1.0)

    def test_loss_with_a_quadratic_conjugate(self):
        class Other(Loss):
            value = derivative = conjugate = conjugate_derivative = lambda self, x: x

        with pytest.raises(ValueError, match="quadratic conjugate, got Other"):
            BlockRankingProblem(LocalBlocks([np.ones((2, 2))], [{}]), 1, 1, 1, 1.0, Other())

    def test_blocks(self):
        with pytest.raises(ValueError, match="same number of features"):
            LocalBlocks([np.ones((2, 2)), np.ones((2, 3))], [{}, {}])
        with pytest.raises(ValueError, match="a state for every block"):
            LocalBlocks([np.ones((2, 2))], [])

    def test_arrays(self):
        pytest.importorskip("array_api_compat")
        torch = pytest.importorskip("torch")
        with pytest.raises(ValueError, match="two-dimensional array of real floating-point numbers"):
            LocalBlocks([torch.ones(3, 2, dtype=torch.int64)], [{}])
