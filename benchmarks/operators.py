"""Products with the data against SciPy and BLAS, as ratios of times in the same run (above 1: ours is faster).

Each operation keeps its best time, ours and the rival's with the same number of threads. TAUFPL_DATA names a folder
with w8a.npz, which is left out where there is none. Run as `python benchmarks/operators.py [--quick]`.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from taufpl.operators import as_operator
from taufpl.operators._threads import n_threads, thread_limit

REPEATS = 30


def text(n=70_000, d=20_000, per_row=50, seed=0):
    """Random sparse rows, the same number of values in each."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d, (n, per_row)), axis=1).ravel()
    X = sparse.csr_matrix((rng.random(n * per_row), columns, per_row * np.arange(n + 1)), (n, d))
    X.sum_duplicates()
    return X


def data(quick):
    """Name and matrix of each data set; the smallest two alone where it is to be quick."""
    if quick:
        yield "sparse 700 x 200", text(700, 200)
        yield "dense 700 x 57", np.random.default_rng(0).normal(size=(700, 57))
        return
    w8a = Path(os.environ.get("TAUFPL_DATA", "../shared/data")) / "w8a.npz"
    if w8a.exists():
        yield "w8a", sparse.load_npz(w8a)
    yield "sparse 70,000 x 20,000", text()
    for n, d in ((102_000, 100), (4_601, 57), (20_000, 1_000)):
        X = np.random.default_rng(0).normal(size=(n, d))
        yield f"dense {n:,} x {d}", X
        yield f"dense {n:,} x {d}, F", np.asfortranarray(X)
        yield f"dense {n:,} x {d}, float32", X.astype(np.float32)


def pairs(matrix):
    """Name, our operation and its rival, for each operation."""
    X = as_operator(matrix)
    rng = np.random.default_rng(1)
    n, d = X.shape
    w, v = rng.normal(size=d), rng.normal(size=n)
    rows = np.sort(rng.choice(n, n // 20, replace=False))
    v_rows = v[rows]
    narrow = matrix.dtype
    w_same, v_same, v_rows_same = w.astype(narrow), v.astype(narrow), v_rows.astype(narrow)
    yield "matvec", lambda: X.matvec(w), lambda: matrix @ w_same
    yield "rmatvec", lambda: X.rmatvec(v), lambda: matrix.T @ v_same
    yield "matvec, 5% of rows", lambda: X.matvec_rows(w, rows), lambda: matrix[rows] @ w_same
    yield "rmatvec, 5% of rows", lambda: X.rmatvec_rows(v_rows, rows), lambda: matrix[rows].T @ v_rows_same
    if d <= 2000:
        yield "Gram, 5% of rows", lambda: X.gram_rows(rows), lambda: rival_gram(matrix, rows)


def rival_gram(matrix, rows):
    part = matrix[rows].astype(np.float64)
    gram = part.T @ part
    return gram.toarray() if sparse.issparse(gram) else gram


def best_time(call):
    """Best seconds of a call."""
    time.sleep(0.1)  # threads of BLAS wait for more work at full speed, and would take a core from the next call
    call()  # warm-up
    best = np.inf
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small sets")
    quick = parser.parse_args().quick
    limits = sorted({1, min(2, n_threads()), n_threads()})
    print(f"{'':50}" + "".join(f"{f'ms, {limit} thr.':>14}{'ratio':>7}" for limit in limits))
    for name, matrix in data(quick):
        for operation, ours, rival in pairs(matrix):
            line = f"{f'{name}: {operation}':50}"
            for limit in limits:
                with thread_limit(limit), threadpool_limits(limit):
                    seconds = best_time(ours)
                    line += f"{seconds * 1e3:14.3f}{best_time(rival) / seconds:7.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
