"""One list of matrices through every operation, against plain NumPy."""

import os
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from reference_operators import Plain, gram_work, grouped_sum, mirrored
from taufpl._kernels import _csr, _dense
from taufpl.operators import Operator, add_square, as_operator, ignoring, n_threads, thread_limit

EPS = float(np.finfo(float).eps)
N, D = 157, 23


def plain(n=N, d=D, *, density=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-2, 2, size=d) + rng.normal(size=d)
    return X * (rng.random((n, d)) < density)


def read_only(X):
    X.flags.writeable = False
    return X


def unaligned(X):
    raw = np.empty(X.nbytes + 1, np.uint8)
    view = raw[1:].view(X.dtype).reshape(X.shape)
    view[:] = X
    return view


def with_index(X, dtype):
    X = sparse.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(dtype), X.indptr.astype(dtype)
    return X


def shuffled(X):
    """Each row stored backwards."""
    X = sparse.csr_matrix(X)
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:stop], X.data[start:stop] = X.indices[start:stop][::-1].copy(), X.data[start:stop][::-1].copy()
    X.has_sorted_indices = X.has_canonical_format = False
    return X


def doubled(X):
    """Each entry stored as two halves."""
    half = sparse.csr_matrix(X)
    both = sparse.csr_matrix((np.repeat(half.data / 2, 2), np.repeat(half.indices, 2), 2 * half.indptr), X.shape)
    both.has_canonical_format = False
    return both


def with_gaps(X):
    """Empty rows and all-zero columns, first and last among them."""
    X = X.copy()
    X[[0, 5, 6, len(X) - 1]] = 0
    X[:, [0, 3, X.shape[1] - 1]] = 0
    return X


SPARSE = plain(density=0.15)
MATRICES = {
    "C": plain(),
    "F": np.asfortranarray(plain()),
    "C, float32": plain().astype(np.float32),
    "F, float32": np.asfortranarray(plain().astype(np.float32)),
    "read-only": read_only(plain()),
    "every second row": plain(2 * N, D)[::2],
    "some columns": plain(N, 3 * D)[:, 5 : 5 + D],
    "every second column": plain(N, 2 * D)[:, ::2],
    "every second row, F": np.asfortranarray(plain(N, 2 * D))[:, ::2],
    "backwards": plain()[::-1],
    "unaligned": unaligned(plain()),
    "byte-swapped": plain().astype(">f8"),
    "integers": np.random.default_rng(0).integers(-9, 9, (N, D)),
    "booleans": SPARSE != 0,
    "gaps": with_gaps(plain()),
    "one row": plain(1, D),
    "one column": plain(N, 1),
    "one column of many": plain(N, 3)[:, 1:2],
    "one entry": plain(1, 1),
    "wide": plain(7, 5000),
    "wide, F": np.asfortranarray(plain(7, 5000)),
    "tall": plain(9001, 37),
    "tall, F": np.asfortranarray(plain(9001, 37)),
    "many columns": plain(3 * N, 301),
    "many columns, F": np.asfortranarray(plain(3 * N, 301)),
    "many columns, float32": plain(3 * N, 301).astype(np.float32),
    "CSR, many columns": sparse.csr_matrix(plain(3 * N, 301)),
    "CSR": sparse.csr_matrix(SPARSE),
    "CSR array": sparse.csr_array(SPARSE),
    "CSR, float32": sparse.csr_matrix(SPARSE.astype(np.float32)),
    "CSR, int64": with_index(SPARSE, np.int64),
    "CSR, float32, int64": with_index(SPARSE.astype(np.float32), np.int64),
    "CSR, integers": sparse.csr_matrix((SPARSE * 10).astype(int)),
    "CSR, unsorted": shuffled(SPARSE),
    "CSR, duplicates": doubled(SPARSE),
    "CSR, gaps": sparse.csr_matrix(with_gaps(SPARSE)),
    "CSR, nothing stored": sparse.csr_matrix((N, D)),
    "CSR, full": sparse.csr_matrix(plain()),
    "CSR, one row": sparse.csr_matrix(SPARSE[3:4]),
    "CSR, one column": sparse.csr_matrix(SPARSE[:, 3:4]),
    "CSR, wide": sparse.csr_matrix(plain(7, 5000, density=0.01)),
    "CSR, tall": sparse.csr_matrix(plain(40_001, 37, density=0.1)),
    "CSC": sparse.csc_matrix(SPARSE),
    "COO": sparse.coo_array(SPARSE),
    "DOK": sparse.dok_matrix(SPARSE[:20]),
    "BSR": sparse.bsr_matrix(SPARSE),
}


@pytest.fixture(params=MATRICES)
def matrix(request):
    return MATRICES[request.param]


def some_rows(n, seed=0):
    """A subset, all, none, a permutation with repetitions."""
    rng = np.random.default_rng(seed)
    yield np.flatnonzero(rng.random(n) < 0.3)
    yield np.arange(n)
    yield np.array([], dtype=int)
    yield rng.integers(0, n, n + 3)


def assert_close(found, expected, scale):
    """Equal up to rounding errors of sums whose terms add up to scale in absolute value."""
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= 64 * EPS * scale), np.abs(found - expected).max()


def test_products(matrix):
    X, reference, size = as_operator(matrix), Plain(matrix), Plain(abs(matrix))
    rng = np.random.default_rng(1)
    n, d = X.shape
    w, v = rng.normal(size=d), rng.normal(size=n) * (rng.random(n) < 0.7)
    assert_close(X.matvec(w), reference.matvec(w), size.matvec(abs(w)))
    assert_close(X.rmatvec(v), reference.rmatvec(v), size.rmatvec(abs(v)))
    for rows in some_rows(n):
        v = rng.normal(size=len(rows))
        assert_close(X.matvec_rows(w, rows), reference.matvec_rows(w, rows), size.matvec_rows(abs(w), rows))
        assert_close(X.rmatvec_rows(v, rows), reference.rmatvec_rows(v, rows), size.rmatvec_rows(abs(v), rows))


def test_gram(matrix):
    X, reference, size = as_operator(matrix), Plain(matrix), Plain(abs(matrix))
    if X.shape[1] > 1000:
        pytest.skip("the square would be large")
    rng = np.random.default_rng(2)
    for rows in [*some_rows(X.shape[0]), None]:
        gram, weights = X.gram_rows(rows), rng.normal(size=X.shape[0] if rows is None else len(rows))
        scale = size.gram_rows(rows)
        assert_close(gram, reference.gram_rows(rows), scale)
        np.testing.assert_array_equal(gram, gram.T)
        assert_close(X.gram_rows(rows, weights), reference.gram_rows(rows, weights), 4 * scale)
        weights = abs(weights)
        assert_close(X.gram_rows(rows, weights), reference.gram_rows(rows, weights), 4 * scale)
        centred, mean = X.centred_gram_rows(rows)
        expected, expected_mean = reference.centred_gram_rows(rows)
        mean_size = size.centred_gram_rows(rows)[1]
        assert_close(centred, expected, scale + len(weights) * np.outer(mean_size, mean_size))
        assert_close(mean, expected_mean, mean_size)
        np.testing.assert_array_equal(centred, centred.T)


def test_the_rest(matrix):
    X, reference, size = as_operator(matrix), Plain(matrix), Plain(abs(matrix))
    assert_close(X.row_norms(), reference.row_norms(), reference.row_norms())
    assert X.row_norms() is X.row_norms()
    assert_close(X.column_squares(), reference.column_squares(), reference.column_squares())
    few = [rows[:50] for rows in some_rows(X.shape[0])]
    for rows, other in zip(few, few[::-1], strict=True):
        expected = reference.column_squares(rows)
        assert_close(X.column_squares(rows), expected, expected)
        assert_close(X.row_gram(rows), reference.row_gram(rows), size.row_gram(rows))
        assert_close(X.row_gram(rows, other), reference.row_gram(rows, other), size.row_gram(rows, other))
    norm = reference.spectral_norm()
    assert norm * (1 - 1e-12) <= X.spectral_norm() <= norm * (1 + 1e-3)


def test_take_rows(matrix):
    X = as_operator(matrix)
    for rows in some_rows(X.shape[0]):
        part, expected = X.take_rows(rows), Plain(Plain(matrix).X[rows])
        assert part.shape == expected.X.shape
        assert part.dtype == X.dtype
        assert part.n_stored() == X.n_stored(rows)
        w, size = np.arange(1.0, X.shape[1] + 1), Plain(abs(expected.X))
        assert_close(part.matvec(w), expected.matvec(w), size.matvec(w))
        if len(rows):
            again = np.array([0, len(rows) - 1])
            assert_close(part.matvec_rows(w, again), expected.matvec_rows(w, again), size.matvec_rows(w, again))


def test_storage_is_kept(matrix):
    X = as_operator(matrix)
    assert isinstance(X, Operator)
    assert as_operator(X) is X
    assert X.dtype == (np.float32 if matrix.dtype == np.float32 else np.float64)
    assert X.shape == matrix.shape
    before = Plain(matrix).X
    X.matvec(np.ones(X.shape[1]))
    np.testing.assert_array_equal(Plain(matrix).X, before)


@pytest.mark.parametrize("name", ["C", "F", "C, float32", "F, float32", "read-only", "every second row", "backwards"])
def test_dense_is_not_copied(name):
    assert np.shares_memory(as_operator(MATRICES[name])._x, MATRICES[name])


@pytest.mark.parametrize("name", ["CSR", "CSR array", "CSR, float32", "CSR, int64"])
def test_csr_is_not_copied(name):
    X = as_operator(MATRICES[name])
    for part in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(X._x, part), getattr(MATRICES[name], part))


@pytest.mark.parametrize("make", [shuffled, doubled])
def test_csr_of_the_user_stays_as_it_is(make):
    X = make(SPARSE)
    indices, data = X.indices.copy(), X.data.copy()
    as_operator(X).gram_rows(None)
    np.testing.assert_array_equal(X.indices, indices)
    np.testing.assert_array_equal(X.data, data)


def test_float32_sums_are_double():
    X = np.full((4, 1_000_003), 0.1, np.float32)
    exact = float(np.float32(0.1)) * X.shape[1]
    for stored in (X, np.asfortranarray(X), sparse.csr_matrix(X)):
        np.testing.assert_allclose(as_operator(stored).matvec(np.ones(X.shape[1])), exact, rtol=1e-10)


@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_rows_are_centred_before_the_product(order):
    spread = plain(500, 5)
    X = as_operator(np.array(spread + 1e7, order=order))
    gram, _ = X.centred_gram_rows(np.arange(500))
    expected, _ = Plain(spread).centred_gram_rows(None)
    # The spread itself is only known to 1e7 eps; a product of rows not centred would lose all of the small ones.
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(gram / scale, expected / scale, atol=1e-5)


@pytest.mark.parametrize("convert", [np.array, sparse.csr_matrix])
def test_passes(convert):
    dense = np.ones((10, 4))
    dense[5:, 2:] = 0 if convert is sparse.csr_matrix else 1
    X = as_operator(convert(dense))
    share = X.n_stored([0, 9]) / X.n_stored()
    assert share == pytest.approx(0.2)
    w, two = np.ones(4), np.ones(2)
    steps = [
        (lambda: X.matvec(w), 1),
        (lambda: X.rmatvec(np.ones(10)), 1),
        (lambda: X.matvec_rows(w, [0, 9]), 0.2),
        (lambda: X.rmatvec_rows(two, [0, 9]), 0.2),
        (lambda: X.gram_rows([0, 9]), 0.2),
        (lambda: X.centred_gram_rows([0, 9]), 0.4),
        (lambda: X.row_gram([0, 9]), 0.2),
        (lambda: X.row_gram([0, 9], [0, 9]), 0.4),
        (lambda: X.column_squares([0, 9]), 0.2),
        (lambda: X.row_norms(), 1),
        (lambda: X.row_norms(), 0),
        (lambda: X.n_stored(), 0),
        (lambda: X.matvec_rows(w, []), 0),
    ]
    for step, expected in steps:
        before = X.n_passes
        step()
        assert X.n_passes - before == pytest.approx(expected)
    before = X.n_passes
    part = X.take_rows([0, 9])
    part.matvec(w)
    part.take_rows([0]).matvec(w)
    assert part.n_passes == X.n_passes
    first = X.n_stored([0]) / X.n_stored()
    assert X.n_passes - before == pytest.approx(0.4 + 2 * first)


def test_sparse_passes_count_stored_values():
    X = as_operator(sparse.csr_matrix(np.tri(4)))
    X.matvec_rows(np.ones(4), [3])
    assert X.n_passes == pytest.approx(0.4)


@pytest.mark.parametrize("values", [[3.0, 1.0], [1.0, 1.0, 1.0], [1e-8, 1e8], [0.0]])
def test_spectral_norm_of_a_diagonal(values):
    X = as_operator(np.diag(values))
    assert X.spectral_norm() == pytest.approx(max(values), rel=1e-3)
    assert X.spectral_norm() >= max(values)


def test_spectral_norm_is_safe_when_it_stops_early():
    matrix = plain(300, 80)
    X = as_operator(matrix)
    norm, before = np.linalg.norm(matrix, 2), X.n_passes
    assert norm <= X.spectral_norm(max_iter=3) <= np.linalg.norm(matrix)
    assert X.n_passes - before == 7
    assert X.spectral_norm(seed=5) == X.spectral_norm(seed=5)


def every_result(X):
    """All operations as one vector of bytes."""
    rng = np.random.default_rng(3)
    n, d = X.shape
    rows = np.flatnonzero(rng.random(n) < 0.6)
    w, v = rng.normal(size=d), rng.normal(size=n)
    results = [X.matvec(w), X.rmatvec(v), X.matvec_rows(w, rows), X.rmatvec_rows(v[rows], rows)]
    results += [X.gram_rows(rows), X.gram_rows(rows, v[rows]), X.centred_gram_rows(rows)[0]]
    return b"".join(np.ascontiguousarray(x).tobytes() for x in results)


def large_matrices():
    dense = plain(20_000, 40)
    yield dense
    yield np.asfortranarray(dense)
    yield dense.astype(np.float32)
    yield sparse.csr_matrix(plain(40_000, 60, density=0.1))
    yield sparse.csr_matrix(dense)


def test_results_do_not_depend_on_threads():
    for matrix in large_matrices():
        X = as_operator(matrix)
        expected = every_result(X)
        assert every_result(X) == expected
        for limit in (1, 2, 5):
            with thread_limit(limit):
                assert n_threads() == limit
                assert every_result(X) == expected


SCRIPT = """
import hashlib
from test_operators import as_operator, every_result, large_matrices, n_threads
results = b"".join(every_result(as_operator(X)) for X in large_matrices())
print(n_threads(), hashlib.sha256(results).hexdigest())
"""


@pytest.mark.slow
def test_results_do_not_depend_on_the_environment():
    lines = []
    for limit in ("1", "2", "nonsense"):
        path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "OMP_NUM_THREADS": limit, "PYTHONPATH": path}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        lines.append(done.stdout.split())
    assert lines[0][0] == "1"
    assert len({digest for _, digest in lines}) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_its_own_helpers():
    X, w = as_operator(plain(20_000, 40)), np.ones(40)
    with thread_limit(3):
        expected = X.matvec(w)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(X.matvec(w), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_has_not():
    """A lock that another thread holds at the fork would stay closed in the child, which knows of no thread inside."""
    context, filters = ignoring(UserWarning), list(warnings.filters)
    opening, forked = threading.Event(), threading.Event()
    simplefilter = warnings.simplefilter

    def wait_inside(*arguments):
        opening.set()
        assert forked.wait(60)
        simplefilter(*arguments)

    def enter():
        with context:
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "simplefilter", wait_inside)
        thread = threading.Thread(target=enter)
        thread.start()
        assert opening.wait(60)
        patch.undo()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            before = list(warnings.filters)
            with context:
                is_open = warnings.filters != before
            os._exit(0 if is_open and warnings.filters == before else 1)
        forked.set()
        thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert warnings.filters == filters


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32 - 1), st.booleans())
def test_grouped_sums(n, d, n_groups, seed, is_float32):
    rng = np.random.default_rng(seed)
    dense = (rng.integers(-9, 10, (n, d)) * (rng.random((n, d)) < 0.5)).astype(np.float32 if is_float32 else float)
    v, csr = rng.integers(-9, 10, n).astype(float), sparse.csr_matrix(dense)
    expected = grouped_sum(dense, v, n_groups)
    for kernel, parts in ((_dense.add, (dense,)), (_csr.add, (csr.indptr, csr.indices, csr.data))):
        partial, tickets = np.full((n_groups, d), np.nan), np.zeros(2, np.int64)
        assert kernel(*parts, None, v, partial, tickets) == tickets[1] == n_groups
        np.testing.assert_array_equal(partial, expected)


@given(st.integers(1, 40), st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_work_and_mirror(n, d, seed):
    rng = np.random.default_rng(seed)
    pattern = rng.random((n, d)) < 0.3
    csr, work, square = sparse.csr_matrix(pattern), np.zeros(d), rng.normal(size=(d, d))
    _csr.gram_work(csr.indptr, csr.indices, np.arange(n), work)
    np.testing.assert_array_equal(work, gram_work(pattern))
    expected = mirrored(square)
    _csr.mirror(square)
    np.testing.assert_array_equal(square, expected)


def test_a_square_is_added_in_place():
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(6, 6)), rng.normal(size=12)[::2]
    expected = matrix - 2.5 * np.outer(vector, vector)
    add_square(matrix, -2.5, vector)
    np.testing.assert_allclose(matrix, expected, rtol=1e-13)
