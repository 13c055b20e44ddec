"""Features of low rank: time against that of BLAS for the same products, time and error against scikit-learn's.

    python benchmarks/kernel_features.py [--quick]

Times are seconds of processors, summed over threads, so that a machine with other work to do gives the same figures;
the whole is also given by the clock. "Memory" is the system's share of it: pages of new arrays. BLAS and the rivals
run on one thread, where none waits for another. Errors are trace(K - F F') / trace K by definition, and the root mean
square of k(x, y) - phi(x) . phi(y) over 2,000 rows.
"""

import argparse
import os
import time

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from threadpoolctl import threadpool_limits

from taufpl import PivotedCholeskyFeatures
from taufpl.kernels import make_kernel, partial_cholesky
from taufpl.kernels._features import _solve, _solve_steps
from taufpl.operators import map_chunks
from taufpl.operators._threads import n_threads

N_CANDIDATES = 20_000


def rows(n, d, dtype, seed=0):
    """A mixture of 20 normal clouds with decaying axes: neither of full dimension nor flat."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(20, d)) * 1.5
    X = rng.normal(size=(n, d)).astype(dtype)
    X *= (1.0 / np.sqrt(1.0 + np.arange(d))).astype(dtype)
    X += (centres / np.sqrt(1.0 + np.arange(d))).astype(dtype)[rng.integers(20, size=n)]
    return X


def rare(n, d, seed=0):
    """One row in a hundred lies alone, the others lie close together."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.where(rng.random(n) < 0.01, 3.0, 0.3)[:, None]


def unequal(n, d, seed=0):
    """One row in twenty belongs to a wide cloud, the others to a narrow one."""
    rng = np.random.default_rng(seed)
    is_wide = (rng.random(n) < 0.05)[:, None]
    return rng.normal(size=(n, d)) * np.where(is_wide, 3.0, 0.1) + 5.0 * is_wide


def seconds(call):
    """Seconds of processors, and what the call returns."""
    start = time.process_time()
    answer = call()
    return time.process_time() - start, answer


def blas_seconds(n, d, r, dtype):
    """Products of the same size, on 1/8 of the rows: n x d x r for kernel values, half of n x r x r for the solve."""
    part = n // 8
    rng = np.random.default_rng(0)
    X, L = rng.random((part, d), dtype=np.float32).astype(dtype), rng.random((d, r)).astype(dtype)
    V, T = np.empty((part, r), dtype), rng.random((r, r // 2)).astype(dtype)
    half = np.empty((part, r // 2), dtype)
    np.matmul(X, L, out=V), np.matmul(V, T, out=half)  # warm-up
    values = min(seconds(lambda: np.matmul(X, L, out=V))[0] for _ in range(3))
    solve = min(seconds(lambda: np.matmul(V, T, out=half))[0] for _ in range(3))
    return 8 * values, 8 * solve


def stages(X, r):
    """Seconds of the choice of landmarks, of all kernel values, and of the solve, each alone."""
    kernel = make_kernel("rbf", X=X)
    rng = np.random.default_rng(0)
    candidates = np.sort(rng.choice(len(X), min(N_CANDIDATES, len(X)), replace=False))
    choice, chosen = seconds(lambda: partial_cholesky(kernel, X, r, 1e-6, "random", rng, candidates))
    fill = kernel.against(X[candidates[chosen.pivots]], X.dtype)
    steps = _solve_steps(chosen.triangle, X.dtype)
    F = np.empty((len(X), len(chosen.pivots)), X.dtype)
    F[...] = 0.0  # pages are handed out here, not in a stage
    values, _ = seconds(lambda: map_chunks(lambda part: fill(X[part], F[part]), len(X), F.strides[0]))
    solve, _ = seconds(lambda: map_chunks(lambda part: _solve(steps, F[part]), len(X), F.strides[0]))
    return choice, values, solve


def speed(n, d, r, dtype):
    X = rows(n, d, dtype)
    start, system = time.perf_counter(), os.times().system
    whole, _ = seconds(lambda: PivotedCholeskyFeatures(r, random_state=0).fit_transform(X))
    by_the_clock, memory = time.perf_counter() - start, os.times().system - system
    choice, values, solve = stages(X, r)
    with threadpool_limits(1):
        blas_values, blas_solve = blas_seconds(n, d, r, dtype)
    rest = max(0.0, whole - choice - values - solve - memory)
    ratio = whole / (blas_values + blas_solve)
    size = f"{n:,} x {d}, {r} landmarks, {np.dtype(dtype)}"
    print(
        f"| {size} | {by_the_clock:.1f} | {whole:.1f} | {choice:.1f} | {values:.1f} ({values / blas_values:.1f}) |",
        end="",
    )
    print(f" {solve:.1f} ({solve / blas_solve:.1f}) | {memory:.1f} | {rest:.1f} | {ratio:.1f} |", flush=True)


def rivals(name_of_rows, X, r, gamma="median"):
    """Seconds of fit_transform, relative trace error, and root mean square error of pairs, at the same rank."""
    n = len(X)
    gamma = make_kernel("rbf", gamma, X=X).gamma
    K = make_kernel("rbf", gamma, X=X).between(X[:2000])
    contenders = {
        "random": PivotedCholeskyFeatures(r, gamma=gamma, random_state=0),
        "greedy": PivotedCholeskyFeatures(r, gamma=gamma, pivoting="greedy", random_state=0),
        "random, all rows as candidates": PivotedCholeskyFeatures(r, gamma=gamma, n_candidates=None, random_state=0),
        "Nystroem": Nystroem(n_components=r, gamma=gamma, random_state=0),
        "RBFSampler": RBFSampler(n_components=r, gamma=gamma, random_state=0),
    }
    for name, contender in contenders.items():
        with threadpool_limits(1):
            took, F = seconds(lambda contender=contender: contender.fit_transform(X))
        trace = f"{1.0 - (F**2).sum() / n:.5f}" if name != "RBFSampler" else "-"
        pairs = np.sqrt(((K - F[:2000] @ F[:2000].T) ** 2).mean())
        print(f"| {name_of_rows} | {name} | {took:.2f} | {trace} | {pairs:.5f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    share = 10 if parser.parse_args().quick else 1
    print(f"{n_threads()} threads\n")
    heads = ["rows", "by the clock", "whole", "choice", "kernel values (times BLAS)", "solve (times BLAS)"]
    heads += ["memory", "rest", "whole, times BLAS"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    speed(1_000_000 // share, 50, 500, np.float32)
    speed(200_000 // share, 50, 300, np.float32)
    speed(200_000 // share, 50, 300, np.float64)
    print("\n| rows | features | seconds | trace error | error of pairs |")
    print("|---|---|---|---|---|")
    n = 50_000 // share
    rivals("clouds, 5 columns", rows(n, 5, np.float64), 300)
    rivals("clouds, 50 columns", rows(n, 50, np.float64), 300)
    rivals("unequal clouds, 3 columns", unequal(n, 3), 300, gamma=0.5)
    rivals("1 % alone, 5 columns", rare(n, 5), 300)


if __name__ == "__main__":
    main()
