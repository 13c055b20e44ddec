"""What operators refuse, and how they say so."""

import numpy as np
import pytest
from scipy import sparse

from taufpl.operators import as_operator


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ([[1.0, 2.0]], TypeError, "must be a NumPy array or a SciPy sparse matrix, got list"),
        ("text", TypeError, "got str"),
        (np.array([["a"]]), TypeError, "real numbers"),
        (np.ones((2, 2), complex), TypeError, "real numbers, got dtype complex128"),
        (sparse.csr_matrix(np.ones((2, 2), complex)), TypeError, "real numbers"),
        (np.ones(3), ValueError, r"two dimensions.*\(3,\)"),
        (np.ones((0, 3)), ValueError, "with rows and columns"),
        (sparse.csr_matrix((3, 0)), ValueError, "with rows and columns"),
    ],
)
def test_bad_data(bad, error, message):
    with pytest.raises(error, match=message):
        as_operator(bad)


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_bad_csr(part):
    X = sparse.csr_matrix(np.tri(9))
    getattr(X, part)[2] = 10**6
    with pytest.raises(ValueError, match="valid CSR"):
        as_operator(X)


@pytest.mark.parametrize("convert", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X: X.matvec(np.ones(3)), ValueError, r"w must have shape \(4,\), got \(3,\)"),
        (lambda X: X.rmatvec(np.ones((5, 1))), ValueError, "v must have shape"),
        (lambda X: X.rmatvec_rows(np.ones(5), [0, 1]), ValueError, r"v must have shape \(2,\)"),
        (lambda X: X.gram_rows([0, 1], [1.0]), ValueError, "weights must have shape"),
        (lambda X: X.matvec_rows(np.ones(4), [-1]), IndexError, "between 0 and 4, got -1 to -1"),
        (lambda X: X.gram_rows([0, 5]), IndexError, "got 0 to 5"),
        (lambda X: X.take_rows([[0]]), ValueError, "one-dimensional"),
        (lambda X: X.take_rows(np.ones(5, bool)), TypeError, "flatnonzero"),
        (lambda X: X.take_rows([0.5]), TypeError, "integer indices"),
        (lambda X: X.spectral_norm(tol=0), ValueError, "tol must be positive"),
    ],
)
def test_bad_arguments(convert, call, error, message):
    with pytest.raises(error, match=message):
        call(as_operator(convert(np.ones((5, 4)))))
